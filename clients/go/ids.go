package ackmesh

import (
	"crypto/rand"
	"encoding/base32"
	"strconv"
	"strings"
	"sync/atomic"
)

// ids makes event ids: 80 random bits of this Client and a counter, so that none
// is made twice and a retry can carry the first one's.
type ids struct {
	prefix string
	last   atomic.Uint64
}

func newIDs() *ids {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return &ids{prefix: strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))}
}

func (g *ids) next() string {
	b := make([]byte, 0, 32)
	b = append(b, g.prefix...)
	b = append(b, '-')
	return string(strconv.AppendUint(b, g.last.Add(1), 36))
}

package server

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is a number of bytes. As text it is a whole number with a unit (B, KiB,
// MiB, GiB, TiB; 1 KiB is 1,024 B) or without one: 16MiB, 512, 64 KiB.
type Bytes int64

// Units of Bytes.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
	TiB Bytes = 1 << 40
)

// byteUnits, the largest first.
var byteUnits = []struct {
	suffix string
	size   Bytes
}{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", 1}}

// String writes b with the largest unit that leaves a whole number.
func (b Bytes) String() string {
	for _, u := range byteUnits {
		if b != 0 && b%u.size == 0 {
			return strconv.FormatInt(int64(b/u.size), 10) + u.suffix
		}
	}
	return "0"
}

// MarshalText is String.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads what String writes, and whole numbers of bytes. Negative
// numbers and what does not fit into 63 bits are errors.
func (b *Bytes) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	size := Bytes(1)
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			s, size = strings.TrimSpace(rest), u.size
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/int64(size) {
		return fmt.Errorf("%q is no size: a whole number of bytes, or one with KiB, MiB, GiB or TiB behind it", text)
	}
	*b = Bytes(n) * size
	return nil
}

// Secret is a setting that is never shown: every way of printing it gives
// asterisks. Convert it to string to use it.
type Secret string

// masked stands for a secret that is set.
const masked = "******"

// String masks the secret; one that is not set is empty.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return masked
}

// GoString masks the secret in %#v.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// MarshalText masks the secret in JSON, YAML and logs.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

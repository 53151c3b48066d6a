package traffic

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Seed is that of SEED in the environment, or a new one. It is logged, so that a
// test can be run again with it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	s := rand.Uint64()
	if text := os.Getenv("SEED"); text != "" {
		var err error
		if s, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SEED=%d", s)
	return s
}

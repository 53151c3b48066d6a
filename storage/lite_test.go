package storage

import (
	"errors"
	"strings"
	"testing"
)

// TestCheckLite: every byte that RocketMQ 5 takes, and no other, up to 64.
func TestCheckLite(t *testing.T) {
	const legal = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	if err := CheckLite("lite", legal); err != nil {
		t.Error(err)
	}
	for c := range 256 {
		s := string([]byte{'a', byte(c)})
		err := CheckLite("lite", s)
		if ok := strings.IndexByte(legal, byte(c)) >= 0; ok != (err == nil) || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, s := range []string{"", legal + "a"} {
		if err := CheckLite("lite", s); !errors.Is(err, ErrInvalid) {
			t.Errorf("a name of %d bytes: %v", len(s), err)
		}
	}
}

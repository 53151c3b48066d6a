package remnants_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackmesh/ackmesh/storage/internal/remnants"
)

// kept is a partition with remnants at 10, 20 and so on, of a byte each.
type kept struct {
	remnants.Remnants[string]
	t     *testing.T
	bytes atomic.Int64
}

func keep(t *testing.T, what ...string) *kept {
	t.Helper()
	k := &kept{t: t}
	k.Bytes = &k.bytes
	for i, w := range what {
		k.Keep(int64(10*(i+1)), 1, w)
	}
	return k
}

// want wants a remnant; empty: none.
func (k *kept) want(start int64, what string) {
	k.t.Helper()
	if got, ok := k.Take(start); got != what || ok != (what != "") {
		k.t.Errorf("at %d there is %q, %v, want %q", start, got, ok, what)
	}
}

func (k *kept) wantBytes(n int64) {
	k.t.Helper()
	if got := k.bytes.Load(); got != n {
		k.t.Errorf("the remnants take %d bytes, want %d", got, n)
	}
}

// Who goes on at the very offset gets it, once.
func TestTake(t *testing.T) {
	k := keep(t, "a", "b")
	k.wantBytes(2)
	k.want(15, "")
	if !k.Holds(20) || k.Holds(15) {
		t.Error("what is there is not told, or what is not")
	}
	k.want(20, "b")
	k.want(20, "")
	if k.Holds(20) {
		t.Error("what was taken is held")
	}
	k.wantBytes(1)
	k.want(10, "a")
	k.wantBytes(0)
}

// The oldest ones go where there are too many.
func TestMost(t *testing.T) {
	k := keep(t, "a", "b", "c", "d", "e")
	k.wantBytes(remnants.Most)
	k.want(10, "")
	k.want(20, "b")
	k.want(50, "e")
}

// One that is too old is not taken, and goes with Expire; younger ones stay.
func TestExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keep(t, "a", "b")
		<-time.After(remnants.Age)
		k.Keep(30, 1, "c")
		k.want(10, "")
		if k.Holds(10) || !k.Holds(30) {
			t.Error("what is too old is held, or what is not is not")
		}
		k.Expire(time.Now())
		k.wantBytes(3) // not older than that
		k.Expire(time.Now().Add(1))
		k.wantBytes(1)
		k.want(20, "")
		k.want(30, "c")
	})
}

func TestDropAndEnd(t *testing.T) {
	k := keep(t, "a", "b")
	k.Drop()
	k.want(10, "")
	k.wantBytes(0)
	k.Keep(40, 1, "d")
	k.want(40, "d")
	k.Keep(50, 1, "e")
	k.End()
	k.want(50, "")
	k.Keep(60, 1, "f") // by a read that was under way
	k.want(60, "")
	k.wantBytes(0)
}

// Without a counter.
func TestUncounted(t *testing.T) {
	var r remnants.Remnants[int]
	r.Keep(1, 1, 7)
	if n, ok := r.Take(1); n != 7 || !ok {
		t.Errorf("taken is %d, %v", n, ok)
	}
}

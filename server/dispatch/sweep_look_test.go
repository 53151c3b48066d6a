package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/mem"
)

// TestExpiryLooksAgain: a subscriber that was here between the look for absent ones
// and its turn is not removed.
func TestExpiryLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{Expiry: 1000 * time.Hour})
		visit := func() {
			s := r.open("c", sinkFunc(func(mem.BufferSlice) error { return nil }))
			synctest.Wait()
			r.d.End(s, false, 0, nil)
			synctest.Wait()
		}
		r.publish(1)
		visit()
		<-time.After(500 * time.Hour)
		list, err := r.d.Subscribers("t")
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		visit()
		if err := r.d.removeAbsent(context.Background(), list[0]); err != nil {
			t.Fatal(err)
		}
		again, err := r.d.Subscribers("t")
		if err != nil || len(again) != 1 {
			t.Fatalf("after it was here again: %v, %v", again, err)
		}
		if err := r.d.removeAbsent(context.Background(), again[0]); err != nil {
			t.Fatal(err)
		}
		if none, err := r.d.Subscribers("t"); err != nil || len(none) != 0 {
			t.Errorf("when it was not: %v, %v", none, err)
		}
	})
}

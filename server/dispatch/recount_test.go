package dispatch

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestRetryIsCountedAgain: deliveries whose ack could not be stored take their
// bytes of the window again, and give back no more than they took.
func TestRetryIsCountedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		s := r.open("c", sinkFunc(discard))
		r.publish(100)
		synctest.Wait()
		_, before := s.InFlight()
		first := s.table[0].first
		bad := &refusing{Store: r.d.store}
		bad.times.Store(1 << 30)
		r.d.store = bad // of the loop, which is idle
		half := []Answered{{First: first, Last: first + 49}}
		if err := s.Ack(half); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		n, bytes := s.InFlight()
		if n != 100 || bytes < before*9/10 || bytes > before*11/10 {
			t.Errorf("after RETRY %d deliveries of %d bytes are in flight, before it were 100 of %d", n, bytes, before)
		}
		bad.times.Store(0)
		<-time.After(time.Second)
		for _, ids := range [][]Answered{half, {{First: first, Last: first + 99}}} {
			if err := s.Ack(ids); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
		}
		if n, bytes := s.InFlight(); n != 0 || bytes != 0 {
			t.Errorf("%d deliveries, %d bytes are in flight when all is acked", n, bytes)
		}
	})
}

package servertest_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	. "github.com/ackmesh/ackmesh/server/servertest"
)

// TestPop_WindowBoundsPops: no more is popped than fits the window, also when
// clients are slow.
func TestPop_WindowBoundsPops(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 4)
		o := open("c", Sub("t", broadcast))
		o.MaxInFlight = ptr(int32(7))
		s := Open(t, p.in.Mesh(), o)
		Publish(t, p.in.Mesh(), "t", Numbers(200)...)
		for done := 0; done < 200; {
			got := s.Take(1)
			<-time.After(10 * time.Millisecond)
			if n := p.br.Outstanding("t", group("c")); n > 7 {
				t.Fatalf("%d are popped with a window of 7", n)
			}
			s.AckDurable(got...)
			done++
		}
		p.untilAcked("c", 200)
	})
}

// TestPop_BytesBoundPops: of large messages no more is popped than about fits the
// stream's window in bytes, however many its records are.
func TestPop_BytesBoundPops(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 4)
		o := open("c", Sub("t", broadcast))
		o.MaxInFlight, o.MaxInFlightBytes = ptr(int32(1000)), ptr(int64(4<<20))
		s := Open(t, p.in.Mesh(), o)
		large := strings.Repeat("x", 256<<10)
		for i := range 100 {
			Publish(t, p.in.Mesh(), "t", fmt.Sprint(i, large))
		}
		for done := 0; done < 100; done++ {
			got := s.Take(1)
			<-time.After(10 * time.Millisecond)
			if n := p.br.Outstanding("t", group("c")); n > 2*16 {
				t.Fatalf("%d messages of 256 KiB are popped with a window of 4 MiB", n)
			}
			s.AckDurable(got...)
		}
		p.untilAcked("c", 100)
	})
}

// TestPop_WaitingHoldsNoSlot: a message that waits for its retry does not keep
// others from the only slot.
func TestPop_WaitingHoldsNoSlot(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		o := open("c", Sub("t", broadcast))
		o.MaxInFlight = ptr(int32(1))
		s := Open(t, p.in.Mesh(), o)
		Publish(t, p.in.Mesh(), "t", "bad", "good1", "good2")
		s.Nack(s.Take(1)...)
		s.AckDurable(s.Take(1)...)
		s.AckDurable(s.Take(1)...)
		again := s.Take(1)
		if again[0].Data() != "bad" || again[0].Attempt != 2 {
			t.Fatalf("came: %s", Show(again))
		}
		s.AckDurable(again...)
		p.untilAcked("c", 3)
	})
}

// TestPop_Ordered: per key in order through failures and a crash, and changing
// the kind is refused.
func TestPop_Ordered(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 2)
		sub := Sub("t", broadcast)
		sub.Ordered = true
		o := open("c", sub)
		s := Open(t, p.in.Mesh(), o)
		for i := range 60 {
			publishKey(t, p.in, "t", fmt.Sprint("k", i%5), fmt.Sprint(i))
		}
		next, rnd := map[string]int{}, rand.New(rand.NewPCG(1, 2))
		total := 0
		for total < 60 {
			if !s.Await(5*time.Minute, 1) {
				t.Fatalf("nothing comes after %d", total)
			}
			g := s.Take(1)[0]
			key := g.Frame.GetAttributes()["partitionkey"]
			if rnd.IntN(6) == 0 {
				s.Nack(g)
				continue
			}
			var i int
			if _, err := fmt.Sscan(g.Data(), &i); err != nil {
				t.Fatal(err)
			}
			if i/5 != next[key] {
				t.Fatalf("%s came for key %s, number %d is due", g.Data(), key, next[key])
			}
			s.AckDurable(g)
			next[key]++
			total++
			if total == 30 {
				p.crash()
				p.start()
				s = Open(t, p.in.Mesh(), o)
			}
		}
		s.Break()
		<-time.After(time.Second)
		refused := TryOpen(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
		st := refused.Opened.GetResults()[0].GetStatus()
		if codes.Code(st.GetCode()) != codes.FailedPrecondition || !strings.Contains(st.GetMessage(), "ordered") {
			t.Fatalf("an ordered subscriber is to become one that is not: %v", st)
		}
	})
}

// TestPop_OrderedLeavesNothing: an ordered subscriber that comes and goes leaves
// no entries of what is finished behind; of what was acked behind a message that
// is not it leaves them, and that message alone is delivered again.
func TestPop_OrderedLeavesNothing(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		p := popping(t, 1)
		sub := Sub("t", broadcast)
		sub.Ordered = true
		o := open("c", sub)
		for range 5 {
			s := Open(t, p.in.Mesh(), o)
			Publish(t, p.in.Mesh(), "t", Numbers(100)...)
			for range 100 { // what follows in a queue comes when what is before it is acked
				s.AckDurable(s.Take(1)...)
			}
			<-time.After(5 * time.Second)
			if err := s.CloseSend(); err != nil {
				t.Fatal(err)
			}
			<-time.After(5 * time.Second)
			if n := p.entries(); n != 0 {
				t.Fatalf("%d entries are left", n)
			}
		}
		s := Open(t, p.in.Mesh(), o)
		Publish(t, p.in.Mesh(), "t", Numbers(10)...)
		got := s.Take(10)
		s.AckDurable(append(got[:4:4], got[5:]...)...)
		<-time.After(5 * time.Second)
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * time.Second)
		if n := p.entries(); n != 6 {
			t.Fatalf("%d entries are left of one that is not acked and 5 behind it", n)
		}
		s = Open(t, p.in.Mesh(), o)
		again := s.Take(1)
		if again[0].Data() != got[4].Data() {
			t.Fatalf("came: %s", Show(again))
		}
		s.AckDurable(again...)
		s.Quiet(time.Hour)
		if n := p.entries(); n != 0 {
			t.Fatalf("%d entries are left at the end", n)
		}
	})
}

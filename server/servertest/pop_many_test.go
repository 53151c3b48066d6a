package servertest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/offsetstore"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage/fakepop"
)

// tight takes as much in one transaction as a store on a small disk does.
type tight struct{ offsetstore.Store }

const (
	tightPairs = 790
	tightBytes = 76 << 10
)

func (s tight) Submit(txn *offsetstore.Txn, done func(error)) {
	n, size := len(txn.Puts)+len(txn.Deletes), 0
	for _, list := range [][]offsetstore.Record{txn.Sets, txn.Unsets} {
		for _, r := range list {
			n, size = n+1, size+len(r.Space)+len(r.Key)+len(r.Value)+42
		}
	}
	if n > tightPairs || size > tightBytes {
		go done(offsetstore.ErrTooBig)
		return
	}
	s.Store.Submit(txn, done)
}

// inTight starts an instance on a store that takes little at once, and a client
// with a large window.
func inTight(t *testing.T, window int32) (*pops, *Stream) {
	t.Helper()
	p := popping(t, 4)
	p.in.Stop()
	p.over = func(s offsetstore.Store) offsetstore.Store { return tight{s} }
	p.start()
	o := open("c", Sub("t", broadcast))
	o.MaxInFlight = ptr(window)
	return p, Open(t, p.in.Mesh(), o)
}

// TestPop_ManyAcksAtOnce: as many acks as a large window holds come at once; the
// store takes less in one transaction.
func TestPop_ManyAcksAtOnce(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		const n = 5000
		p, s := inTight(t, n)
		for i := range 10 {
			Publish(t, p.in.Mesh(), "t", numbers(i*n/10, n/10)...)
		}
		got := s.Take(n)
		s.AckDurable(got...)
		p.untilAcked("c", n)
		s.Quiet(time.Hour)
		if n := p.entries(); n != 0 {
			t.Fatalf("%d entries are left", n)
		}
	})
}

// TestManyDeadLettersAtOnce: all that is in flight becomes dead letters at once, of
// a log that is read and of one that hands out; the store takes less of that in
// one transaction.
func TestManyDeadLettersAtOnce(t *testing.T) {
	for _, pop := range []bool{false, true} {
		t.Run(fmt.Sprint("pop ", pop), func(t *testing.T) {
			popBubble(t, func(t *testing.T) {
				const n = 1000
				o := Options{Backend: Log(t, 4), Store: tight{Store(t)}}
				if pop {
					br := fakepop.New(fakepop.Options{Partitions: 4})
					defer br.Close()
					be := br.Open()
					defer be.Close()
					o.Backend = be
				}
				in := Start(t, o)
				defer in.Stop()
				s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
				Publish(t, in.Mesh(), "t", Numbers(n)...)
				got := s.Take(n)
				<-time.After(time.Second)
				var ids []uint64
				for _, g := range got {
					ids = append(ids, g.ID)
				}
				s.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Nack{Nack: &pb.Nack{
					DeliveryIds: ids, DeadLetter: true, Reason: strings.Repeat("r", 200),
				}}})
				for _, g := range got {
					if st := s.Outcome(g); st != durable {
						t.Fatalf("%s: %v", Show([]Got{g}), st)
					}
				}
				<-time.After(10 * time.Second)
				letters := map[string]int{}
				for _, let := range allLetters(t, in, "t") {
					letters[let.GetId()]++
				}
				if len(letters) != n {
					t.Fatalf("%d dead letters", len(letters))
				}
				s.Break()
			})
		})
	}
}

// lame refuses transactions that write positions, while it is told to.
type lame struct {
	offsetstore.Store
	refuses *atomic.Bool
}

func (s lame) Submit(txn *offsetstore.Txn, done func(error)) {
	if s.refuses.Load() && len(txn.Puts) > 0 {
		go done(errors.New("no luck"))
		return
	}
	s.Store.Submit(txn, done)
}

// TestPop_SomeAcksStored: of acks that take several transactions some are stored
// and some are not: all are told RETRY, the broker is told nothing, and the next
// try ends it.
func TestPop_SomeAcksStored(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		const n = 2000
		p := popping(t, 4)
		p.in.Stop()
		refuses := &atomic.Bool{}
		p.over = func(s offsetstore.Store) offsetstore.Store { return lame{tight{s}, refuses} }
		p.start()
		o := open("c", Sub("t", broadcast))
		o.MaxInFlight = ptr(int32(n))
		s := Open(t, p.in.Mesh(), o)
		Publish(t, p.in.Mesh(), "t", Numbers(n)...)
		got := s.Take(n)
		<-time.After(time.Second)
		refuses.Store(true)
		s.Ack(got...)
		for _, g := range got {
			if st := s.Outcome(g); st != retry {
				t.Fatalf("%s: %v", Show([]Got{g}), st)
			}
		}
		if c := p.counts("c"); sum(c.AckCalls) != 0 {
			t.Fatalf("the broker was told of %d", sum(c.AckCalls))
		}
		s.Nack(got[0])
		refuses.Store(false)
		s.AckDurable(got[1:]...)
		again := s.Take(1)
		wantAttempts(t, again, 2)
		s.AckDurable(again...)
		p.untilAcked("c", n)
		s.Quiet(time.Hour)
		if n := p.entries(); n != 0 {
			t.Fatalf("%d entries are left", n)
		}
	})
}

// numbers are n events from one number on.
func numbers(from, n int) []string { return Numbers(from + n)[from:] }

// TestPop_ManyHeldInReset: a subscriber that holds more messages than the store
// takes in one transaction can be reset, and removed.
func TestPop_ManyHeldInReset(t *testing.T) {
	popBubble(t, func(t *testing.T) {
		const n = 3000
		p, s := inTight(t, n)
		Publish(t, p.in.Mesh(), "t", Numbers(n)...)
		s.Take(n)
		<-time.After(time.Second)
		_, err := p.in.Admin().ResetOffset(context.Background(), &pb.ResetOffsetRequest{Topic: "t", Subscriber: "client/c", To: Earliest()})
		if err != nil {
			t.Fatal(err)
		}
		wantAttempts(t, s.Take(n), 1)
		<-time.After(time.Second)
		p.crash()
		p.start()
		_, err = p.in.Admin().DeleteSubscriber(context.Background(), &pb.DeleteSubscriberRequest{Topic: "t", Subscriber: "client/c"})
		if err != nil {
			t.Fatal(err)
		}
		if n := p.entries(); n != 0 {
			t.Fatalf("%d entries are left", n)
		}
	})
}

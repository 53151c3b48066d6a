package servertest_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/offsetstore"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
)

// crash is the end of an instance at one step of a burial: from then on nothing
// that it writes arrives.
type crash struct {
	before string // the step that does not happen any more
	over   atomic.Bool
	struck chan struct{}
}

// Steps of a burial.
const (
	theIntent = "intent"
	theLetter = "letter"
	theEntry  = "entry"
	theEnd    = "end"
)

var errCrashed = errors.New("crashed")

// now is called before each step. It tells whether the instance has crashed.
func (c *crash) now(step string) bool {
	if c.before == step && c.over.CompareAndSwap(false, true) {
		close(c.struck)
	}
	return c.over.Load()
}

// crashingStore is a store of an instance that crashes.
type crashingStore struct {
	offsetstore.Store
	c *crash
}

func (s *crashingStore) Submit(txn *offsetstore.Txn, done func(error)) {
	crashed := s.c.over.Load()
	for _, r := range txn.Sets {
		switch r.Space {
		case "deadletter-intents":
			crashed = s.c.now(theIntent)
		case "deadletters":
			if crashed = s.c.now(theEntry); !crashed {
				told := done
				done = func(err error) {
					s.c.now(theEnd)
					told(err)
				}
			}
		}
	}
	if crashed {
		go done(errCrashed)
		return
	}
	s.Store.Submit(txn, done)
}

// crashingLog is the log of an instance that crashes.
type crashingLog struct {
	storage.Backend
	c *crash
}

func (l *crashingLog) Unwrap() storage.Backend { return l.Backend }

func (l *crashingLog) Append(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
	if strings.HasSuffix(topic, "_DLQ") && l.c.now(theLetter) {
		return errCrashed
	}
	return l.Backend.Append(ctx, topic, events, done)
}

// TestCrashInABurial: an instance that dies between any two steps of a dead
// letter neither delivers the record again once it was decided, nor loses it, nor
// lists it twice.
func TestCrashInABurial(t *testing.T) {
	for _, why := range []string{"nacked", "timed out", "too large"} {
		for _, before := range []string{theIntent, theLetter, theEntry, theEnd} {
			t.Run(why+" before "+before, func(t *testing.T) {
				bubble(t, func(t *testing.T) { crashInABurial(t, why, before) })
			})
		}
	}
}

func crashInABurial(t *testing.T, why, before string) {
	o := Lasting(t)
	c := &crash{before: before, struck: make(chan struct{})}
	dying := o
	dying.Store = &crashingStore{o.Store, c}
	dying.Wrap = func(b storage.Backend) storage.Backend { return &crashingLog{b, c} }
	in := Start(t, dying)
	op := open("c", Sub("t", broadcast))
	op.AckTimeout, op.MaxMessageBytes = durationpb.New(time.Second), 4000
	sub := op.GetSubscriptions()[0]
	sub.Retry = &pb.RetryPolicy{MaxAttempts: 2, Backoff: []*durationpb.Duration{durationpb.New(time.Second)}}
	s := Open(t, in.Mesh(), op)
	doomed := "doomed"
	if why == "too large" {
		doomed = strings.Repeat("x", 5000)
	}
	Publish(t, in.Mesh(), "t", doomed)
	died := time.Now()
	if why != "too large" {
		for range 2 {
			got := s.Take(1)
			if why == "nacked" {
				s.Nack(got...)
			}
		}
	}
	<-c.struck
	<-time.After(5 * time.Second) // what it does now does not arrive
	in.Stop()

	in = Start(t, o)
	op.MaxMessageBytes = 0 // so that what was too large could be had now
	s = Open(t, in.Mesh(), op)
	if before == theIntent && why == "too large" { // nothing was sent or decided
		got := s.Take(1)
		s.AckDurable(got...)
		if n := len(letters(t, in, "t")); n != 0 {
			t.Fatalf("%d dead letters of a record that was acked", n)
		}
		return
	}
	untilLetters(t, in, "t", 1)
	s.Quiet(time.Hour)
	list := letters(t, in, "t")
	if len(list) != 1 {
		t.Fatalf("%d dead letters: %v", len(list), list)
	}
	let := list[0]
	if reason := map[string]string{"nacked": "NACKED: test", "timed out": "TIMEOUT", "too large": "TOO_LARGE"}[why]; before != theIntent {
		if !strings.HasPrefix(let.GetReason(), reason) {
			t.Errorf("reason %q, want %q", let.GetReason(), reason)
		}
		if age := let.GetTime().AsTime().Sub(died); age < 0 || age > 10*time.Second {
			t.Errorf("died %v after it was published, the crash is part of it", age)
		}
	}
	if p := position(t, in, "t", "client/c"); p.GetPosition() != 1 {
		t.Errorf("floor at %d", p.GetPosition())
	}
	topic := readAll(t, o.Backend, "t_DLQ")
	if len(topic) == 0 {
		t.Error("the topic of dead letters has none")
	}
	for _, v := range topic {
		if id, _ := v.Attr("emdlqid"); string(id) != let.GetId() {
			t.Errorf("the topic has letter %s, the ledger %s", id, let.GetId())
		}
	}
	intents := 0
	err := o.Store.ScanRecords("deadletter-intents", "", "", func(string, []byte) bool { intents++; return true })
	if err != nil || intents != 0 {
		t.Errorf("%d intents are left, %v", intents, err)
	}
	found, added := rebuild(t, in, "t")
	if found != 1 || added != 0 {
		t.Errorf("a rebuild finds %d and adds %d", found, added)
	}
}

// TestResetEndsABurial: a record whose letter cannot be written comes again after
// a reset to it, and nothing is left of the old burial.
func TestResetEndsABurial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Lasting(t)
		c := &crash{before: theLetter, struck: make(chan struct{})}
		o.Wrap = func(b storage.Backend) storage.Backend { return &crashingLog{b, c} }
		in := Start(t, o)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", "x")
		dead(s, s.Take(1)...)
		<-c.struck
		zero := &pb.Start{Place: &pb.Start_Offset{}}
		if _, err := in.Admin().ResetOffset(context.Background(), &pb.ResetOffsetRequest{Topic: "t", Subscriber: "client/c", To: zero}); err != nil {
			t.Fatal(err)
		}
		got := s.Take(1)
		wantAttempts(t, got, 1)
		c.over.Store(false)
		s.AckDurable(got...)
		<-time.After(time.Minute)
		if n := len(letters(t, in, "t")); n != 0 {
			t.Errorf("%d dead letters", n)
		}
		if err := o.Store.ScanRecords("deadletter-intents", "", "", func(key string, _ []byte) bool {
			t.Errorf("intent %q is left", key)
			return true
		}); err != nil {
			t.Error(err)
		}
	})
}

package rocketmq4_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq4"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/fakebroker"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/rocketmq4test"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

// patience is how long to wait for what must come.
const patience = 20 * time.Second

// master is the broker of a cluster that has one.
const master = "broker-a"

// open opens a log on a fake cluster that is closed with the test.
func open(t *testing.T, c *fakebroker.Cluster, o rocketmq4.Options) *rocketmq4.Log {
	t.Helper()
	o.NameServers = c.NameServers()
	l := rocketmq4test.Open(t, o)
	t.Cleanup(func() { closeLog(t, l) })
	return l
}

func closeLog(t *testing.T, l *rocketmq4.Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// numbered is the frame of event n.
func numbered(n int) []byte { return storagetest.Frame(nil, "id", fmt.Sprint(n)) }

// write appends events first to last-1 to a topic, without keys.
func write(t *testing.T, l storage.Backend, topic string, first, last int) []storage.Appended {
	t.Helper()
	return writeKeyed(t, l, topic, first, last, func(int) string { return "" })
}

func writeKeyed(t *testing.T, l storage.Backend, topic string, first, last int, key func(int) string) []storage.Appended {
	t.Helper()
	var events []storage.Event
	for n := first; n < last; n++ {
		events = append(events, storage.Event{Key: key(n), Frame: numbered(n)})
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	results, err := storage.AppendWait(ctx, l, topic, events)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	for i, r := range results {
		if r.Err != nil {
			t.Fatalf("append of %d: %v", first+i, r.Err)
		}
	}
	return results
}

// store puts events first to last-1 into a queue as another program does.
func store(t *testing.T, c *fakebroker.Cluster, topic string, queue, first, last int) {
	t.Helper()
	for n := first; n < last; n++ {
		if _, err := c.Append(master, topic, queue, remoting.Message{Body: numbered(n)}); err != nil {
			t.Fatal(err)
		}
	}
}

// poll polls with a deadline.
func poll(t *testing.T, l storage.Backend, req storage.PollRequest) (*storage.Batch, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	b := new(storage.Batch)
	err := l.Poll(ctx, req, b)
	return b, err
}

// mustPoll wants a Poll without an error.
func mustPoll(t *testing.T, l storage.Backend, req storage.PollRequest) *storage.Batch {
	t.Helper()
	b, err := poll(t, l, req)
	if err != nil {
		t.Fatalf("poll of %+v: %v", req, err)
	}
	return b
}

// at asks for what there is in the first queue of t.
func at(start int64) storage.PollRequest {
	return storage.PollRequest{Topic: "t", Partition: master + ":0", Start: start, Wait: patience}
}

// readIDs reads n events from an offset on, and lists their ids.
func readIDs(t *testing.T, l storage.Backend, start int64, n int) (ids []string) {
	t.Helper()
	for len(ids) < n {
		b := mustPoll(t, l, at(start))
		if len(b.Records) == 0 {
			t.Fatalf("after %d of %d events nothing comes at %d", len(ids), n, start)
		}
		for _, r := range b.Records {
			ids = append(ids, id(t, r.Frame))
		}
		if start != storage.Cursor {
			start = b.Next
		}
	}
	return ids
}

func wantIDs(t *testing.T, got []string, first int) {
	t.Helper()
	for i, id := range got {
		if id != fmt.Sprint(first+i) {
			t.Fatalf("event %d is %s, want %d: %q", i, id, first+i, got)
		}
	}
}

// id is the id of a frame.
func id(t *testing.T, b []byte) string {
	t.Helper()
	f, err := frame.Decode(b)
	if err != nil {
		t.Fatalf("frame: %v", err)
	}
	v, _ := f.Get("id")
	return v
}

func wantRange(t *testing.T, l storage.Backend, req storage.PollRequest, offset, low, high int64) {
	t.Helper()
	began := time.Now()
	_, err := poll(t, l, req)
	var r *storage.RangeError
	if !errors.As(err, &r) || r.Offset != offset || r.Min != low || r.Max != high || time.Since(began) > 5*time.Second {
		t.Fatalf("poll at %d: %v after %v, want the range %d..%d within 5 s", offset, err, time.Since(began), low, high)
	}
}

// eventually wants f to become nil.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for until := time.Now().Add(patience); ; <-ticker.C {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("after %v still: %v", patience, err)
		}
	}
}

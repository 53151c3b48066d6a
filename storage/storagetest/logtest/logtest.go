// Package logtest drives a log in the tests of one backend, which stand beside
// the suite of package storagetest.
package logtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

// Patience is how long to wait for what must come.
const Patience = 20 * time.Second

// Numbered is the frame of event n: its id is n.
func Numbered(n int) []byte { return storagetest.Frame(nil, "id", fmt.Sprint(n)) }

// ID is the id of an event; empty: it has none, or is no frame.
func ID(b []byte) string {
	v, err := frame.Parse(b)
	if err != nil {
		return ""
	}
	id, _ := v.Attr(frame.AttrID)
	return string(id)
}

// CloseAfter closes a log when the test ends.
func CloseAfter(t testing.TB, l storage.Backend) {
	t.Cleanup(func() { Close(t, l) })
}

// Close closes a log and wants no error.
func Close(t testing.TB, l storage.Backend) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// Write appends events first to last-1 to a topic, without keys, and wants them
// stored.
func Write(t testing.TB, l storage.Backend, topic string, first, last int) []storage.Appended {
	t.Helper()
	return WriteKeyed(t, l, topic, first, last, func(int) string { return "" })
}

// WriteKeyed is Write with a key for each event.
func WriteKeyed(t testing.TB, l storage.Backend, topic string, first, last int, key func(int) string) []storage.Appended {
	t.Helper()
	var events []storage.Event
	for n := first; n < last; n++ {
		events = append(events, storage.Event{Key: key(n), Frame: Numbered(n)})
	}
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
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

// Poll is Poll into a new batch, which ends with Patience.
func Poll(t testing.TB, l storage.Backend, req storage.PollRequest) (*storage.Batch, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	b := new(storage.Batch)
	err := l.Poll(ctx, req, b)
	return b, err
}

// MustPoll is Poll and wants no error.
func MustPoll(t testing.TB, l storage.Backend, req storage.PollRequest) *storage.Batch {
	t.Helper()
	b, err := Poll(t, l, req)
	if err != nil {
		t.Fatalf("poll of %+v: %v", req, err)
	}
	return b
}

// WantRange wants a Poll that tells soon that an offset is outside a range.
func WantRange(t testing.TB, l storage.Backend, req storage.PollRequest, offset, low, high int64) {
	t.Helper()
	began := time.Now()
	_, err := Poll(t, l, req)
	var r *storage.RangeError
	if !errors.As(err, &r) || r.Offset != offset || r.Min != low || r.Max != high || time.Since(began) > 5*time.Second {
		t.Fatalf("poll at %d: %v after %v, want the range %d..%d within 5 s", offset, err, time.Since(began), low, high)
	}
}

package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ackmesh/ackmesh/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// mustOpen opens a log that the test closes at its end, if not before.
func mustOpen(t testing.TB, dir string, o Options) *Log {
	t.Helper()
	if o.Logger == nil {
		o.Logger = quiet
	}
	if o.FS != nil && o.SegmentSize == 0 {
		o.SegmentSize = 16 << 10 // a disk in memory is copied often
	}
	l, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

func mustClose(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// events makes n events with the key k whose frames say what they are.
func events(k string, from, n int) []storage.Event {
	evs := make([]storage.Event, n)
	for i := range evs {
		evs[i] = storage.Event{Key: k, Frame: []byte(fmt.Sprintf("%s-%d", k, from+i))}
	}
	return evs
}

func mustAppend(t testing.TB, l *Log, topic string, evs []storage.Event) []storage.Appended {
	t.Helper()
	r, err := storage.AppendWait(t.Context(), l, topic, evs)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range r {
		if a.Err != nil {
			t.Fatalf("event %d: %v", i, a.Err)
		}
	}
	return r
}

// readAll reads a partition from an offset to its end.
func readAll(t interface {
	Helper()
	Fatal(...any)
}, l *Log, topic, partition string, from int64,
) []storage.Record {
	t.Helper()
	var out []storage.Record
	for {
		var b storage.Batch
		if err := l.Poll(context.Background(), storage.PollRequest{Topic: topic, Partition: partition, Start: from}, &b); err != nil {
			t.Fatal(err)
		}
		if b.Next == from {
			return out
		}
		out = append(out, b.Records...)
		from = b.Next
	}
}

func wantFrames(t testing.TB, got []storage.Record, first int64, frames ...string) {
	t.Helper()
	if len(got) != len(frames) {
		t.Fatalf("%d records, want %d", len(got), len(frames))
	}
	for i, r := range got {
		if r.Offset != first+int64(i) || string(r.Frame) != frames[i] {
			t.Fatalf("record %d is %d %q, want %d %q", i, r.Offset, r.Frame, first+int64(i), frames[i])
		}
	}
}

func names(k string, from, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%d", k, from+i)
	}
	return out
}

func TestAppendPollReopen(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir, Options{})
	r := mustAppend(t, l, "t", events("k", 0, 100))
	p := r[0].Partition
	for i, a := range r {
		if a.Offset != int64(i) || a.Partition != p {
			t.Fatalf("event %d is at %s/%d", i, a.Partition, a.Offset)
		}
	}
	wantFrames(t, readAll(t, l, "t", p, 0), 0, names("k", 0, 100)...)
	mustClose(t, l)

	l = mustOpen(t, dir, Options{})
	wantFrames(t, readAll(t, l, "t", p, 0), 0, names("k", 0, 100)...)
	mustAppend(t, l, "t", events("k", 100, 3))
	wantFrames(t, readAll(t, l, "t", p, 98), 98, names("k", 98, 5)...)
}

func TestPollWaits(t *testing.T) {
	l := mustOpen(t, t.TempDir(), Options{Partitions: 1})
	if _, err := l.EnsureTopic(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	var b storage.Batch
	polled := make(chan error, 1)
	go func() {
		polled <- l.Poll(context.Background(), storage.PollRequest{Topic: "t", Partition: "0", Start: storage.Cursor, Wait: time.Minute}, &b)
	}()
	mustAppend(t, l, "t", events("k", 0, 1))
	if err := <-polled; err != nil {
		t.Fatal(err)
	}
	wantFrames(t, b.Records, 0, "k-0")
	if next, ok := l.Cursor("t", "0"); !ok || next != 1 {
		t.Fatalf("cursor %d %v, want 1", next, ok)
	}
	err := l.Poll(t.Context(), storage.PollRequest{Topic: "t", Partition: "0", Start: 1, Wait: time.Millisecond}, &b)
	if err != nil || len(b.Records) > 0 || b.Next != 1 {
		t.Fatalf("poll at the end: %v, %d records, next %d", err, len(b.Records), b.Next)
	}
	var re *storage.RangeError
	err = l.Poll(t.Context(), storage.PollRequest{Topic: "t", Partition: "0", Start: 2, Wait: time.Minute}, &b)
	if !errors.As(err, &re) || re.Min != 0 || re.Max != 1 {
		t.Fatalf("poll beyond the end: %v", err)
	}
	go func() {
		polled <- l.Poll(context.Background(), storage.PollRequest{Topic: "t", Partition: "0", Start: 1, Wait: time.Minute}, &b)
	}()
	mustClose(t, l)
	if err := <-polled; !errors.Is(err, storage.ErrClosed) {
		t.Fatalf("poll of a closed log: %v", err)
	}
}

func TestNoAutoCreate(t *testing.T) {
	l := mustOpen(t, t.TempDir(), Options{NoAutoCreate: true})
	_, err := l.EnsureTopic(t.Context(), "t")
	if !errors.Is(err, storage.ErrTopicNotFound) || !strings.Contains(err.Error(), "create") {
		t.Fatalf("ensure: %v", err)
	}
	if _, err := l.CreateTopic(t.Context(), "t", storage.TopicConfig{Partitions: 7}); err != nil {
		t.Fatal(err)
	}
	got, err := l.EnsureTopic(t.Context(), "t")
	if err != nil || len(got.Partitions) != 7 || len(got.ID) != 32 {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := l.CreateTopic(t.Context(), "t", storage.TopicConfig{}); !errors.Is(err, storage.ErrTopicExists) {
		t.Fatalf("create again: %v", err)
	}
}

func TestDedup(t *testing.T) {
	dir := t.TempDir()
	now := time.UnixMilli(1_000_000)
	opts := Options{Partitions: 1, Now: func() time.Time { return now }}
	l := mustOpen(t, dir, opts)
	ev := []storage.Event{{Frame: []byte("a"), DedupKey: "s/1"}, {Frame: []byte("b"), DedupKey: "s/2"}, {Frame: []byte("a again"), DedupKey: "s/1"}}
	r := mustAppend(t, l, "t", ev)
	if r[2] != (storage.Appended{Partition: "0", Offset: 0, Duplicate: true}) || r[1].Duplicate {
		t.Fatalf("%+v", r)
	}
	if r := mustAppend(t, l, "u", ev[:1]); r[0].Duplicate {
		t.Fatal("an event of another topic is no duplicate")
	}
	mustClose(t, l)
	l = mustOpen(t, dir, opts)
	if r := mustAppend(t, l, "t", ev[1:2]); !r[0].Duplicate || r[0].Offset != 1 {
		t.Fatalf("after a restart: %+v", r)
	}
	now = now.Add(2*time.Minute + time.Millisecond)
	if r := mustAppend(t, l, "t", ev[1:2]); r[0].Duplicate || r[0].Offset != 2 {
		t.Fatalf("after the window: %+v", r)
	}
}

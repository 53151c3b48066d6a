package kafka_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/kafka"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

// What is fetched and not yet asked for counts, until it is asked for, the
// topic is deleted, or nobody has asked for it for long.
func TestAhead(t *testing.T) {
	size := int64(len(number(100)))
	for name, tt := range map[string]struct {
		then func(*testing.T, *kafka.Log)
		left int64
	}{
		"read on": {func(t *testing.T, l *kafka.Log) { readOn(t, l, 7) }, 3 * size},
		"read":    {func(t *testing.T, l *kafka.Log) { readOn(t, l, 10) }, 0},
		"deleted": {func(t *testing.T, l *kafka.Log) {
			if err := l.DeleteTopic(t.Context(), "t"); err != nil {
				t.Fatal(err)
			}
		}, 0},
		"forgotten": {func(*testing.T, *kafka.Log) {}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster(t, kfake.NumBrokers(1))
			l := open(t, kafka.Options{Brokers: c.ListenAddrs(), AutoCreate: true, Partitions: 1})
			write(t, l, "t", 100, 110)
			eventually(t, func() error { // what is kept is kept for two seconds only
				if err := l.Seek(t.Context(), "t", "0", 0); err != nil {
					t.Fatal(err)
				}
				readOn(t, l, 4)
				if got := l.Ahead(); got != 6*size {
					return fmt.Errorf("%d bytes are ahead, want %d", got, 6*size)
				}
				return nil
			})
			tt.then(t, l)
			eventually(t, func() error {
				if got := l.Ahead(); got != tt.left {
					return fmt.Errorf("%d bytes are ahead, want %d", got, tt.left)
				}
				return nil
			})
		})
	}
}

// When half of what was fetched is read, the next is fetched before it is asked
// for; each record comes once, in order; and a trim drops what was fetched.
func TestPrefetch(t *testing.T) {
	const fetch, events = 8 << 10, 100
	c := cluster(t, kfake.NumBrokers(1))
	l := open(t, kafka.Options{Brokers: c.ListenAddrs(), AutoCreate: true, Partitions: 1, FetchBytes: fetch})
	for n := range events { // each a batch of its own
		frame := storagetest.Frame(make([]byte, 1000), "id", fmt.Sprint(n))
		if _, err := storage.AppendWait(t.Context(), l, "t", []storage.Event{{Frame: frame}}); err != nil {
			t.Fatal(err)
		}
	}
	next := int64(0)
	one := func() {
		b := mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: "0", Start: storage.Cursor, MaxRecords: 1, MaxBytes: 1000, Wait: patience})
		if len(b.Records) != 1 || b.Records[0].Offset != next || id(b.Records[0].Frame) != fmt.Sprint(next) {
			t.Fatalf("%d records, from %d on, want record %d", len(b.Records), b.Start, next)
		}
		next++
	}
	// The first fetch does not know yet that there is more than it asks for.
	eventually(t, func() error {
		if next == events {
			t.Fatal("everything is read, and never was more fetched than was asked for")
		}
		one()
		if got := l.Ahead(); got < fetch {
			return fmt.Errorf("%d bytes are ahead", got)
		}
		return nil
	})
	for next < events/2 {
		one()
	}
	if err := l.Trim(t.Context(), "t", "0", events-5); err != nil {
		t.Fatal(err)
	}
	next = events - 5
	if err := l.Seek(t.Context(), "t", "0", next); err != nil {
		t.Fatal(err)
	}
	for next < events {
		one()
	}
	eventually(t, func() error {
		if got := l.Ahead(); got != 0 {
			return fmt.Errorf("%d bytes are ahead", got)
		}
		return nil
	})
}

// readOn reads at the pull offset, one event at a time, up to an offset.
func readOn(t *testing.T, l *kafka.Log, until int64) {
	t.Helper()
	for next := int64(-1); next < until; {
		next = mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: "0", Start: storage.Cursor, MaxRecords: 1}).Next
	}
}

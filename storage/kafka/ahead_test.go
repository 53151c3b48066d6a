package kafka_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/kafka"
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

// readOn reads at the pull offset, one event at a time, up to an offset.
func readOn(t *testing.T, l *kafka.Log, until int64) {
	t.Helper()
	for next := int64(-1); next < until; {
		next = mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: "0", Start: storage.Cursor, MaxRecords: 1}).Next
	}
}

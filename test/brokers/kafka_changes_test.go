//go:build brokers

package brokers_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/kafka"
	"github.com/ackmesh/ackmesh/storage/storagetest/logtest"
)

// recreated: another program deletes a topic and makes it again, and it grows
// past the old position before the next Poll.
func (k *kafkaBroker) recreated(t *testing.T) {
	l := k.open(t, kafka.Options{})
	old := k.topic(t, l, "again", 1)
	for n := range 10 {
		appendAll(t, l, "again", storage.Event{Frame: event(n)})
	}
	req := storage.PollRequest{Topic: "again", Partition: "0", TopicID: old.ID, Start: storage.Cursor, Wait: patience}
	for next := int64(0); next < 10; {
		b, err := poll(t, l, req)
		if err != nil {
			t.Fatal(err)
		}
		next = b.Next
	}
	a := k.admin(t)
	if err := a.DeleteTopic("again"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		return a.CreateTopic("again", &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false)
	})
	other := k.open(t, kafka.Options{})
	eventually(t, func() error { // a broker learns of a new topic a moment later
		_, err := other.Topic(t.Context(), "again")
		return err
	})
	for n := 100; n < 130; n++ {
		appendAll(t, other, "again", storage.Event{Frame: event(n)})
	}
	b, err := poll(t, l, req)
	if !errors.Is(err, storage.ErrTopicChanged) || len(b.Records) > 0 {
		t.Fatalf("%v, %d records; want ErrTopicChanged", err, len(b.Records))
	}
	req.TopicID = ""
	if b, err := poll(t, l, req); err != nil || b.Start != 0 || logtest.ID(b.Records[0].Frame) != "100" {
		t.Errorf("the new topic is read from %d: %v", b.Start, err)
	}
}

// retention: the broker removes what a position stands on.
func (k *kafkaBroker) retention(t *testing.T) {
	l := k.open(t, kafka.Options{})
	if _, err := l.CreateTopic(t.Context(), "short", storage.TopicConfig{Partitions: 1, Retention: time.Second}); err != nil {
		t.Fatal(err)
	}
	for n := range 20 {
		appendAll(t, l, "short", storage.Event{Frame: event(n)})
	}
	if err := l.Seek(t.Context(), "short", "0", 5); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		low, _, err := l.Bounds(t.Context(), "short", "0")
		if err == nil && low == 0 {
			err = errors.New("nothing is removed yet")
		}
		return err
	})
	var r *storage.RangeError
	_, err := poll(t, l, storage.PollRequest{Topic: "short", Partition: "0", Start: storage.Cursor, Wait: patience})
	if !errors.As(err, &r) || r.Offset != 5 || r.Min != 20 || r.Max != 20 {
		t.Errorf("%v, want the range 20..20", err)
	}
}

// grown: partitions are added while the topic is in use.
func (k *kafkaBroker) grown(t *testing.T) {
	l := k.open(t, kafka.Options{})
	k.topic(t, l, "grows", 2)
	appendAll(t, l, "grows", storage.Event{Frame: event(0)})
	if err := k.admin(t).CreatePartitions("grows", 4, nil, false); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		topic, err := l.Topic(t.Context(), "grows")
		if err == nil && len(topic.Partitions) != 4 {
			err = fmt.Errorf("it has %q", topic.Partitions)
		}
		return err
	})
	other := k.open(t, kafka.Options{})
	var events []storage.Event
	for n := range 100 {
		events = append(events, storage.Event{Key: fmt.Sprint(n), Frame: event(n)})
	}
	appendAll(t, other, "grows", events...)
	for _, part := range []string{"2", "3"} {
		b, err := poll(t, l, storage.PollRequest{Topic: "grows", Partition: part, Start: storage.Cursor, Wait: patience})
		if err != nil || len(b.Records) == 0 || b.Records[0].Offset != 0 {
			t.Errorf("partition %s: %d records from %d, %v", part, len(b.Records), b.Start, err)
		}
	}
}

// truncated: the broker loses the end of a log. A position there is told to be
// out of range; when the log has grown past it again, the fingerprint of the
// record before tells.
func (k *kafkaBroker) truncated(t *testing.T) {
	l := k.open(t, kafka.Options{})
	k.topic(t, l, "cut", 1)
	for n := range 20 {
		appendAll(t, l, "cut", storage.Event{Frame: event(n)})
	}
	before, ok, err := l.Fingerprint(t.Context(), "cut", "0", 20)
	if err != nil || !ok || before.LeaderEpoch < 0 {
		t.Fatalf("fingerprint: %+v, %v, %v", before, ok, err)
	}
	k.kill(t)
	cutFile(t, filepath.Join(k.data, "log", "cut-0", "00000000000000000000.log"))
	k.start(t)
	var r *storage.RangeError
	eventually(t, func() error {
		_, err := poll(t, l, storage.PollRequest{Topic: "cut", Partition: "0", Start: 20})
		if !errors.As(err, &r) {
			return fmt.Errorf("poll: %w", err)
		}
		return nil
	})
	if r.Offset != 20 || r.Min != 0 || r.Max <= 0 || r.Max >= 20 {
		t.Errorf("%v", r)
	}
	// The broker does not know any more what it has got of the producer: that
	// fails once, and then goes on.
	eventually(t, func() error {
		results, err := storage.AppendWait(t.Context(), l, "cut", []storage.Event{{Frame: event(99)}})
		if err == nil {
			err = results[0].Err
		}
		return err
	})
	for n := 100; n < 120; n++ {
		appendAll(t, l, "cut", storage.Event{Frame: event(n)})
	}
	if b, err := poll(t, l, storage.PollRequest{Topic: "cut", Partition: "0", Start: 20, Wait: patience}); err != nil || len(b.Records) == 0 {
		t.Errorf("after it has grown again: %v", err)
	}
	if after, ok, err := l.Fingerprint(t.Context(), "cut", "0", 20); err != nil || !ok || after.Hash == before.Hash || after.Offset != before.Offset {
		t.Errorf("the fingerprint was %+v and is %+v, %v, %v", before, after, ok, err)
	}
}

// cutFile halves a file.
func cutFile(t *testing.T, name string) {
	t.Helper()
	st, err := os.Stat(name)
	if err == nil {
		err = os.Truncate(name, st.Size()/2)
	}
	if err != nil {
		t.Fatal(err)
	}
}

package memory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// put appends frames without a key and returns where they are.
func put(t *testing.T, b storage.Backend, topic string, frames ...string) []storage.Appended {
	t.Helper()
	events := make([]storage.Event, len(frames))
	for i, f := range frames {
		events[i].Frame = []byte(f)
	}
	results, err := storage.AppendWait(t.Context(), b, topic, events)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// get reads what a partition holds from an offset on.
func get(t *testing.T, b storage.Backend, topic, partition string, start int64) []string {
	t.Helper()
	var batch storage.Batch
	if err := b.Poll(t.Context(), storage.PollRequest{Topic: topic, Partition: partition, Start: start}, &batch); err != nil {
		t.Fatal(err)
	}
	var frames []string
	for _, r := range batch.Records {
		frames = append(frames, string(r.Frame))
	}
	return frames
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

// A waiting Poll, its time-out and its wake-up all work in fake time.
func TestPollWaitsInFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{Partitions: 1})
		put(t, b, "t", "a")
		var batch storage.Batch
		req := storage.PollRequest{Topic: "t", Partition: "0", Start: 1, Wait: time.Hour}
		began := time.Now()
		if err := b.Poll(t.Context(), req, &batch); err != nil || len(batch.Records) != 0 {
			t.Fatalf("err %v, %d records", err, len(batch.Records))
		}
		same(t, "waited", time.Since(began), time.Hour)

		got := make(chan error)
		go func() { got <- b.Poll(context.Background(), req, &batch) }()
		synctest.Wait()
		put(t, b, "t", "b")
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		same(t, "woken with", string(batch.Records[0].Frame), "b")

		req.Start = 2
		go func() { got <- b.Poll(context.Background(), req, &batch) }()
		synctest.Wait()
		b.Close()
		if err := <-got; !errors.Is(err, storage.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestReopenAndCrash(t *testing.T) {
	b := memory.New(memory.Options{Partitions: 1})
	put(t, b, "t", "a", "b", "c")
	get(t, b, "t", "0", storage.Cursor)
	b = b.Reopen()
	if next, ok := b.Cursor("t", "0"); next != 3 || !ok {
		t.Errorf("after Reopen the pull offset is %d, %v", next, ok)
	}
	if err := b.Seek(t.Context(), "t", "0", 1); err != nil {
		t.Fatal(err)
	}
	b = b.Crash()
	defer b.Close()
	if next, ok := b.Cursor("t", "0"); next != 3 || !ok {
		t.Errorf("after Crash the pull offset is %d, %v", next, ok)
	}
	same(t, "records", get(t, b, "t", "0", 0), []string{"a", "b", "c"})
}

func TestMaxBytesDropsTheOldest(t *testing.T) {
	b := memory.New(memory.Options{Partitions: 1, MaxBytes: 3})
	defer b.Close()
	put(t, b, "t", "aa", "b", "c")
	min, max, err := b.Bounds(t.Context(), "t", "0")
	same(t, "bounds", []any{min, max, err}, []any{1, 3, nil})
	put(t, b, "t", "longer than the bound")
	same(t, "records", get(t, b, "t", "0", 3), []string{"longer than the bound"})
	min, _, _ = b.Bounds(t.Context(), "t", "0")
	same(t, "minimum", min, 3)
}

func TestTruncateDropsTheTail(t *testing.T) {
	b := memory.New(memory.Options{Partitions: 1})
	defer b.Close()
	put(t, b, "t", "a", "b", "c")
	if err := b.Truncate("t", "0", 1); err != nil {
		t.Fatal(err)
	}
	err := b.Poll(t.Context(), storage.PollRequest{Topic: "t", Partition: "0", Start: 3}, new(storage.Batch))
	var outside *storage.RangeError
	if !errors.As(err, &outside) || outside.Max != 1 {
		t.Errorf("reading beyond the new end: %v", err)
	}
	put(t, b, "t", "B")
	same(t, "records", get(t, b, "t", "0", 0), []string{"a", "B"})
	if err := b.Truncate("t", "0", 3); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("truncate above the maximum: %v", err)
	}
}

func TestAddPartitions(t *testing.T) {
	b := memory.New(memory.Options{Partitions: 2, PartitionName: func(i int) string { return fmt.Sprintf("broker-a:%d", i) }})
	defer b.Close()
	put(t, b, "t", "a")
	if err := b.AddPartitions("t", 3); err != nil {
		t.Fatal(err)
	}
	topic, err := b.Topic(t.Context(), "t")
	same(t, "partitions", []any{topic.Partitions, err}, []any{[]string{"broker-a:0", "broker-a:1", "broker-a:2"}, nil})
	same(t, "new partition", get(t, b, "t", "broker-a:2", 0), []string{})
	if err := b.AddPartitions("t", 3); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("no more than before: %v", err)
	}
}

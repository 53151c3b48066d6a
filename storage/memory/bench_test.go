package memory_test

import (
	"testing"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
)

// Appends of 64 events of 1 KiB, each read once; one operation is an event.
func BenchmarkAppendPoll(b *testing.B) {
	log := memory.New(memory.Options{Partitions: 1, MaxBytes: 16 << 20})
	defer log.Close()
	events := make([]storage.Event, 64)
	for i := range events {
		events[i].Frame = make([]byte, 1024)
	}
	var batch storage.Batch
	b.SetBytes(1024)
	b.ReportAllocs()
	for i := 0; i < b.N; i += len(events) {
		if err := log.Append(b.Context(), "t", events, func([]storage.Appended, error) {}); err != nil {
			b.Fatal(err)
		}
		if err := log.Poll(b.Context(), storage.PollRequest{Topic: "t", Partition: "0", Start: storage.Cursor}, &batch); err != nil || len(batch.Records) != 64 {
			b.Fatal(len(batch.Records), err)
		}
	}
}

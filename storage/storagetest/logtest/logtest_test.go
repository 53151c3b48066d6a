package logtest_test

import (
	"fmt"
	"testing"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
	"github.com/ackmesh/ackmesh/storage/storagetest"
	"github.com/ackmesh/ackmesh/storage/storagetest/logtest"
)

// What is written is what is polled, and what is outside is told.
func TestWriteAndPoll(t *testing.T) {
	l := memory.New(memory.Options{Partitions: 1})
	logtest.CloseAfter(t, l)
	logtest.Write(t, l, "t", 5, 8)
	results := logtest.WriteKeyed(t, l, "t", 8, 9, func(int) string { return "k" })
	req := storage.PollRequest{Topic: "t", Partition: results[0].Partition}
	b := logtest.MustPoll(t, l, req)
	if len(b.Records) != 4 {
		t.Fatalf("%d records, want 4", len(b.Records))
	}
	for i, r := range b.Records {
		if got := logtest.ID(r.Frame); got != fmt.Sprint(5+i) {
			t.Errorf("record %d is event %q", i, got)
		}
	}
	req.Start = 10
	logtest.WantRange(t, l, req, 10, 0, 4)
	req.Topic = "missing"
	if _, err := logtest.Poll(t, l, req); err == nil {
		t.Error("a missing topic is read")
	}
}

func TestID(t *testing.T) {
	for want, b := range map[string][]byte{
		"7": logtest.Numbered(7),
		"x": storagetest.Frame([]byte("data"), "a", "b", "id", "x"),
	} {
		if got := logtest.ID(b); got != want {
			t.Errorf("the id is %q, want %q", got, want)
		}
	}
	for _, b := range [][]byte{nil, []byte("no frame"), storagetest.Frame(nil, "source", "s")} {
		if got := logtest.ID(b); got != "" {
			t.Errorf("the id of %q is %q", b, got)
		}
	}
}

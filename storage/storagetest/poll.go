package storagetest

import (
	"context"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

var pollCases = []testCase{
	{name: "Poll/OwnCursor", run: pollOwnCursor},
	{name: "Poll/ExplicitOffset", run: pollExplicitOffset},
	{name: "Poll/ExplicitLeavesCursor", run: pollExplicitLeavesCursor},
	{name: "Poll/FromEveryOffset", run: pollFromEveryOffset},
	{name: "Poll/MaxRecords", run: pollMaxRecords},
	{name: "Poll/MaxBytes", run: pollMaxBytes},
	{name: "Poll/Defaults", run: pollDefaults},
	{name: "Poll/PartitionsApart", run: pollPartitionsApart},
	{name: "Poll/OutOfRange", run: pollOutOfRange},
	{name: "Poll/Missing", run: pollMissing},
}

// pollOwnCursor: reading from the cursor gives every record once, in order,
// and the cursor stands at Next each time: never past what was not returned.
func pollOwnCursor(c *env) {
	t := c.topic(1)
	list := c.fill(t.Name, "", "a", 50)
	part := list[0].partition
	var got []storage.Record
	for next := int64(-1); len(got) < len(list); {
		batch := c.poll(storage.PollRequest{Topic: t.Name, Partition: part, Start: storage.Cursor, MaxRecords: 7, Wait: c.h.Patience / 2})
		if len(batch.Records) == 0 {
			c.Fatalf("no record within %v after %d of %d", c.h.Patience, len(got), len(list))
		}
		if next >= 0 && batch.Start != next {
			c.Errorf("a batch from the cursor starts at %d, the one before ended at %d", batch.Start, next)
		}
		c.wantCursor(t.Name, part, batch.Next)
		got, next = append(got, copies(batch)...), batch.Next
	}
	c.wantRecords("from the cursor", got, list)
	c.wantNothing(t.Name, part, storage.Cursor)
}

// pollExplicitOffset: so does reading by Next.
func pollExplicitOffset(c *env) {
	t := c.topic(1)
	list := c.fill(t.Name, "", "a", 50)
	got := c.read(t.Name, list[0].partition, list[0].offset, 50, func(r *storage.PollRequest) { r.MaxRecords = 7 })
	c.wantRecords("by offset", got, list)
	c.wantAll(t, list)
}

// pollExplicitLeavesCursor: an explicit offset does not touch the cursor.
func pollExplicitLeavesCursor(c *env) {
	t := c.topic(1)
	list := c.fill(t.Name, "", "a", 10)
	part := list[0].partition
	c.seek(t.Name, part, list[3].offset)
	c.read(t.Name, part, list[5].offset, 5)
	c.wantCursor(t.Name, part, list[3].offset)
	c.wantRecords("from the cursor", c.read(t.Name, part, storage.Cursor, 7), list[3:])
}

// pollFromEveryOffset: a start between two records gives the next one.
func pollFromEveryOffset(c *env) {
	t := c.topic(1)
	list := c.fill(t.Name, "", "a", 12)
	part := list[0].partition
	for i, s := range list {
		c.wantRecords("from its own offset", c.read(t.Name, part, s.offset, len(list)-i), list[i:])
		if i+1 < len(list) {
			c.wantRecords("from offset + 1", c.read(t.Name, part, s.offset+1, len(list)-i-1), list[i+1:])
		}
	}
}

func pollMaxRecords(c *env) {
	t := c.topic(1)
	list := c.fill(t.Name, "", "a", 20)
	for _, limit := range []int{1, 2, 19, 20, 1000, 0, -1} {
		got := c.read(t.Name, list[0].partition, list[0].offset, len(list), func(r *storage.PollRequest) { r.MaxRecords = limit })
		c.wantRecords("with MaxRecords", got, list)
	}
}

// pollMaxBytes: the bound holds for more than one record, and one record
// comes however large.
func pollMaxBytes(c *env) {
	t := c.topic(1)
	var events []storage.Event
	for range 20 {
		events = append(events, storage.Event{Frame: sized("a", 1000)})
	}
	list := c.send(t.Name, events).stored(c)
	for _, limit := range []int{1, 999, 1000, 1999, 2500, 1 << 20, 0, -1} {
		got := c.read(t.Name, list[0].partition, list[0].offset, len(list), func(r *storage.PollRequest) { r.MaxBytes = limit })
		c.wantRecords("with MaxBytes", got, list)
	}
}

// pollDefaults: without bounds the backend has its own, and all is read.
func pollDefaults(c *env) {
	t := c.topic(1)
	var events []storage.Event
	for range 300 {
		events = append(events, storage.Event{Frame: sized("a", 10_000)})
	}
	list := c.send(t.Name, events).stored(c)
	c.wantRecords("without bounds", c.read(t.Name, list[0].partition, storage.Cursor, len(list)), list)
}

// pollPartitionsApart: each partition has records and a cursor of its own.
func pollPartitionsApart(c *env) {
	t := c.topic(3)
	var events []storage.Event
	for i := range 60 {
		events = append(events, storage.Event{Key: string(rune('a' + i%20)), Frame: numbered("a", i)})
	}
	parts := byPartition(c.send(t.Name, events).stored(c))
	for name, want := range parts {
		c.wantRecords("partition "+name, c.read(t.Name, name, storage.Cursor, len(want)), want)
	}
	for name, want := range parts {
		c.wantCursorBeyond(t.Name, name, want[len(want)-1].offset)
		c.wantNothing(t.Name, name, storage.Cursor)
	}
}

// wantCursorBeyond wants the pull offset to be known and above offset.
func (c *env) wantCursorBeyond(topic, partition string, offset int64) {
	c.Helper()
	if next, ok := c.b.Cursor(topic, partition); !ok || next <= offset {
		c.Errorf("Cursor of %q/%q is %d, %v; want above %d", topic, partition, next, ok, offset)
	}
}

// pollOutOfRange: a start above the maximum is an error that says so, for the
// cursor too, and Seek mends it.
func pollOutOfRange(c *env) {
	t := c.topic(1)
	list := c.fill(t.Name, "", "a", 5)
	part := list[0].partition
	c.read(t.Name, part, list[0].offset, 5)
	far := list[4].offset + 1_000_000
	req := storage.PollRequest{Topic: t.Name, Partition: part, Start: far, Wait: c.h.Settle}
	c.wantRangeError(req, far)
	c.seek(t.Name, part, far)
	req.Start = storage.Cursor
	c.wantRangeError(req, far)
	c.wantCursor(t.Name, part, far)
	c.seek(t.Name, part, list[2].offset)
	c.wantRecords("after Seek", c.read(t.Name, part, storage.Cursor, 3), list[2:])

	if err := c.bounded("Poll", func(ctx context.Context) error {
		return c.b.Poll(ctx, storage.PollRequest{Topic: t.Name, Partition: part, Start: -2}, new(storage.Batch))
	}); err == nil {
		c.Errorf("a start of -2 is taken")
	}
}

// pollMissing: a missing topic and a missing partition are different errors.
func pollMissing(c *env) {
	t := c.topic(1)
	for _, start := range []int64{0, storage.Cursor} {
		for _, wait := range []time.Duration{0, c.h.Settle} {
			req := storage.PollRequest{Topic: topicName(), Partition: t.Partitions[0], Start: start, Wait: wait}
			c.pollErr(req, storage.ErrTopicNotFound)
			req.Topic, req.Partition = t.Name, "no such partition"
			c.pollErr(req, storage.ErrPartitionNotFound)
		}
	}
}

package storagetest

import (
	"bytes"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

var batchCases = []testCase{
	{name: "Batch/IsReset", run: batchIsReset},
	{name: "Batch/StaysAsItIs", run: batchStays},
	{name: "Batch/FramesAreInBuf", run: batchFramesInBuf},
	{name: "Batch/EmptyAtEnd", run: batchEmptyAtEnd},
	{name: "Batch/Time", run: batchTime},
}

// batchIsReset: what a batch held before is gone, whatever it was used for.
func batchIsReset(c *env) {
	t := c.topic(1)
	list := c.fill(t.Name, "", "a", 9)
	batch := &storage.Batch{Records: make([]storage.Record, 4), Next: 99, Start: 77, Buf: []byte("left over")}
	req := storage.PollRequest{Topic: t.Name, Partition: list[0].partition, MaxRecords: 3, Wait: c.h.Patience / 2}
	for i := 0; i < 9; i += len(batch.Records) {
		req.Start = list[i].offset
		c.pollInto("Poll", req, batch)
		c.wantRecords("in a used batch", batch.Records, list[i:i+len(batch.Records)])
		if len(batch.Records) == 0 {
			c.Fatalf("no record at %d", req.Start)
		}
	}
	req.Start, req.Wait = list[8].offset+1, 0
	c.pollInto("Poll", req, batch)
	if len(batch.Records) != 0 {
		c.Errorf("an empty poll left %d records in a used batch", len(batch.Records))
	}
}

// batchStays: a batch is the caller's: later polls into other batches, and
// appends, do not change it.
func batchStays(c *env) {
	t := c.topic(1)
	list := c.fill(t.Name, "", "a", 10)
	req := storage.PollRequest{Topic: t.Name, Partition: list[0].partition, MaxRecords: 5, Wait: c.h.Patience / 2}
	var batches []*storage.Batch
	for _, s := range list {
		req.Start = s.offset
		batches = append(batches, c.poll(req))
	}
	c.fill(t.Name, "", "b", 50)
	for i, batch := range batches {
		c.wantRecords("a batch read earlier", batch.Records, list[i:i+len(batch.Records)])
	}
	// Writing to it harms nobody either.
	for i := range batches[0].Buf {
		batches[0].Buf[i] = 0xEE
	}
	c.wantRecords("after a batch was written to", c.read(t.Name, req.Partition, list[0].offset, 10)[:10], list)
}

// batchFramesInBuf: frames are parts of Buf, so that reusing the batch reuses
// the memory.
func batchFramesInBuf(c *env) {
	t := c.topic(1)
	list := c.fill(t.Name, "", "a", 30)
	batch := c.poll(storage.PollRequest{Topic: t.Name, Partition: list[0].partition, Start: list[0].offset, Wait: c.h.Patience / 2})
	for i := range batch.Buf {
		batch.Buf[i] = 0xAA
	}
	for _, r := range batch.Records {
		if len(bytes.Trim(r.Frame, "\xAA")) != 0 {
			c.Fatalf("the frame at %d is not a part of Buf", r.Offset)
		}
	}
}

// batchEmptyAtEnd: at the end a batch is empty and says where to go on.
func batchEmptyAtEnd(c *env) {
	t := c.topic(1)
	list := c.fill(t.Name, "", "a", 3)
	got := c.poll(storage.PollRequest{Topic: t.Name, Partition: list[0].partition, Start: list[0].offset, Wait: c.h.Patience / 2})
	end := c.poll(storage.PollRequest{Topic: t.Name, Partition: list[0].partition, Start: got.Next, Wait: c.h.Settle})
	next := c.fill(t.Name, "", "b", 1)
	if len(got.Records) == len(list) {
		c.wantRecords("from the Next of an empty batch", c.read(t.Name, list[0].partition, end.Next, 1), next)
	}
}

// batchTime: the time of append is the time now, in milliseconds.
func batchTime(c *env) {
	t := c.topic(1)
	list := c.fill(t.Name, "", "a", 3)
	for _, r := range c.read(t.Name, list[0].partition, list[0].offset, 3) {
		if age := time.Since(time.UnixMilli(r.Time)); age < -time.Hour || age > time.Hour {
			c.Errorf("a record appended now has the time %d, which is %v ago", r.Time, age)
		}
	}
}

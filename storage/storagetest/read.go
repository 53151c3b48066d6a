package storagetest

import (
	"context"
	"slices"
	"time"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
)

// poll is Poll into a new batch, which must keep its promises.
func (c *env) poll(req storage.PollRequest) *storage.Batch {
	c.Helper()
	batch := new(storage.Batch)
	c.pollInto("Poll", req, batch)
	return batch
}

// pollInto is Poll, bounded, without an error and with its promises kept; what
// is why it is called.
func (c *env) pollInto(what string, req storage.PollRequest, batch *storage.Batch) {
	c.Helper()
	c.must(what, func(ctx context.Context) error { return c.b.Poll(ctx, req, batch) })
	c.checkBatch(req, batch)
}

// checkBatch checks what holds for every batch.
func (c *env) checkBatch(req storage.PollRequest, batch *storage.Batch) {
	c.Helper()
	if req.Start != storage.Cursor && batch.Start != req.Start {
		c.Errorf("batch has Start %d, asked for was %d", batch.Start, req.Start)
	}
	next := batch.Start
	for _, r := range batch.Records {
		if r.Offset < next {
			c.Errorf("record %d in a batch that stands at %d", r.Offset, next)
		}
		next = r.Offset + 1
		if r.Plain && frame.View(r.Frame).HasOwn() {
			c.Errorf("record %d is called plain, and has an attribute of the mesh", r.Offset)
		}
	}
	if batch.Next < next {
		c.Errorf("batch from %d with %d records has Next %d, want at least %d", batch.Start, len(batch.Records), batch.Next, next)
	}
	if req.MaxRecords > 0 && len(batch.Records) > req.MaxRecords {
		c.Errorf("batch has %d records, MaxRecords was %d", len(batch.Records), req.MaxRecords)
	}
	if size := frameBytes(batch); req.MaxBytes > 0 && size > req.MaxBytes && len(batch.Records) > 1 {
		c.Errorf("batch has %d bytes in %d records, MaxBytes was %d", size, len(batch.Records), req.MaxBytes)
	}
}

func frameBytes(batch *storage.Batch) (size int) {
	for _, r := range batch.Records {
		size += len(r.Frame)
	}
	return size
}

// pollErr is Poll that must fail with one of these errors and leave the batch
// empty.
func (c *env) pollErr(req storage.PollRequest, wanted ...error) {
	c.Helper()
	batch := &storage.Batch{Records: make([]storage.Record, 3), Next: 7}
	c.wantErr("Poll", func(ctx context.Context) error { return c.b.Poll(ctx, req, batch) }, wanted...)
	if len(batch.Records) != 0 {
		c.Errorf("after an error the batch has %d records", len(batch.Records))
	}
}

// read reads at least n records from start on, batch by batch, as copies.
// step may change each request.
func (c *env) read(topic, partition string, start int64, n int, step ...func(*storage.PollRequest)) []storage.Record {
	c.Helper()
	var list []storage.Record
	deadline := time.Now().Add(c.h.Patience)
	for next := start; len(list) < n; {
		req := storage.PollRequest{Topic: topic, Partition: partition, Start: next, Wait: c.h.Patience / 2}
		for _, f := range step {
			f(&req)
		}
		batch := c.poll(req)
		list = append(list, copies(batch)...)
		if start != storage.Cursor {
			next = batch.Next
		}
		if time.Now().After(deadline) && len(list) < n {
			c.Fatalf("read %d of %d records of %q/%q from %d on in %v", len(list), n, topic, partition, start, c.h.Patience)
		}
	}
	return list
}

// copies copies the records out of a batch.
func copies(batch *storage.Batch) []storage.Record {
	list := slices.Clone(batch.Records)
	for i := range list {
		list[i].Frame = slices.Clone(list[i].Frame)
	}
	return list
}

// wantRecords wants exactly these records, in this order.
func (c *env) wantRecords(what string, got []storage.Record, want []stored) {
	c.Helper()
	if len(got) != len(want) {
		c.Errorf("%s: got %d records, want %d", what, len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i].Offset != want[i].offset {
			c.Fatalf("%s: record %d has offset %d, want %d", what, i, got[i].Offset, want[i].offset)
		}
		if !c.h.SameFrame(want[i].frame, got[i].Frame) {
			c.Fatalf("%s: the frame at offset %d is not the one that was appended there:\n got %.80q\nwant %.80q", what, got[i].Offset, got[i].Frame, want[i].frame)
		}
	}
}

// wantAll wants the partitions of a topic to hold these records, and nothing
// else above the first of them. Records of a partition are in order.
func (c *env) wantAll(t storage.Topic, list []stored) {
	c.Helper()
	parts := byPartition(list)
	for name, want := range parts {
		if !slices.Contains(t.Partitions, name) {
			c.Errorf("an append was reported in partition %q, topic %q has %q", name, t.Name, t.Partitions)
			continue // a missing partition has nothing to read
		}
		got := c.read(t.Name, name, want[0].offset, len(want))
		c.wantRecords("partition "+name, got, want)
		c.wantNothing(t.Name, name, got[len(got)-1].Offset+1)
	}
}

// wantNothing wants no record from start on.
func (c *env) wantNothing(topic, partition string, start int64) {
	c.Helper()
	batch := c.poll(storage.PollRequest{Topic: topic, Partition: partition, Start: start, Wait: c.h.Settle})
	if n := len(batch.Records); n != 0 {
		c.Errorf("%q/%q has %d records from %d on, the first at %d; want none", topic, partition, n, start, batch.Records[0].Offset)
	}
}

// wantTheOnly wants a new topic, of which no cursor is set, to hold these
// records and no others. Every partition counts, and its beginning as well.
func (c *env) wantTheOnly(t storage.Topic, list []stored) {
	c.Helper()
	c.wantTheOnlyNow(t, list)
	for _, name := range t.Partitions {
		c.wantNothing(t.Name, name, storage.Cursor)
	}
}

// wantTheOnlyNow does not wait for records that come late.
func (c *env) wantTheOnlyNow(t storage.Topic, list []stored) {
	c.Helper()
	parts := byPartition(list)
	for name := range parts {
		if !slices.Contains(t.Partitions, name) {
			c.Errorf("an append was reported in partition %q, topic %q has %q", name, t.Name, t.Partitions)
		}
	}
	for _, name := range t.Partitions {
		want := parts[name]
		c.wantRecords("all of partition "+name, c.read(t.Name, name, storage.Cursor, len(want)), want)
		batch := c.poll(storage.PollRequest{Topic: t.Name, Partition: name, Start: storage.Cursor})
		if len(batch.Records) > 0 {
			c.Errorf("%q/%q has %d more records than were appended, the first at %d", t.Name, name, len(batch.Records), batch.Records[0].Offset)
		}
	}
}

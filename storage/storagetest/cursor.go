package storagetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/ackmesh/ackmesh/storage"
)

var cursorCases = []testCase{
	{name: "Cursor/UnknownAtFirst", run: cursorUnknown},
	{name: "Cursor/Seek", run: cursorSeek},
	{name: "Cursor/SeekUnderPoll", run: cursorSeekUnderPoll},
	{name: "Cursor/NotMovedByFailure", run: cursorNotMovedByFailure},
	{name: "Cursor/SurvivesReopen", needs: canReopen, run: cursorSurvives},
	{name: "Cursor/Checkpoint", needs: func(h *Harness) bool { return h.Has.Checkpointer && canCrash(h) }, run: cursorCheckpoint},
	{name: "Cursor/CrashNeverSkips", needs: canCrash, run: cursorCrash},
}

// wantNoCursor wants the pull offset to be unknown.
func (c *env) wantNoCursor(topic, partition string) {
	c.Helper()
	if next, ok := c.b.Cursor(topic, partition); ok {
		c.Errorf("Cursor of %q/%q is %d, want unknown", topic, partition, next)
	}
}

// cursorUnknown: absent is not 0; reading then begins at the lowest offset.
func cursorUnknown(c *env) {
	t := c.topic(2)
	list := c.fill(t.Name, "k", "a", 10)
	for _, part := range t.Partitions {
		c.wantNoCursor(t.Name, part)
	}
	part := list[0].partition
	c.read(t.Name, part, list[0].offset, 10)
	c.wantNoCursor(t.Name, part)
	c.wantNoCursor(topicName(), part)
	c.wantNoCursor(t.Name, "no such partition")
	c.wantRecords("from a cursor that nothing has set", c.read(t.Name, part, storage.Cursor, 10), list)
}

// cursorSeek: the next Poll reads from where Seek went, down and up.
func cursorSeek(c *env) {
	t := c.topic(1)
	list := c.fill(t.Name, "", "a", 10)
	part := list[0].partition
	for _, i := range []int{5, 0, 9, 3, 3} {
		c.seek(t.Name, part, list[i].offset)
		c.wantCursor(t.Name, part, list[i].offset)
		c.wantRecords(fmt.Sprint("after Seek to record ", i), c.read(t.Name, part, storage.Cursor, 10-i), list[i:])
		c.wantCursorBeyond(t.Name, part, list[9].offset)
	}
}

// cursorSeekUnderPoll: a Poll under way does not overwrite what Seek set.
func cursorSeekUnderPoll(c *env) {
	topic, part, next := c.tail()
	first := c.poll(storage.PollRequest{Topic: topic, Partition: part, Start: storage.Cursor, Wait: c.h.Patience / 2}).Records[0].Offset
	c.seek(topic, part, next)
	w := c.startPoll(context.Background(), storage.PollRequest{Topic: topic, Partition: part, Start: storage.Cursor, Wait: c.longer()})
	c.seek(topic, part, first)
	list := c.fill(topic, "", "after", 1)
	if err := w.end(c, "after an append"); err != nil {
		c.Fatalf("a Poll under way during Seek: %v", err)
	}
	c.wantRecords("of the Poll under way", w.batch.Records, list)
	c.wantCursor(topic, part, first)
	got := c.read(topic, part, storage.Cursor, 4)
	if got[0].Offset != first {
		c.Errorf("after Seek to %d the first record is %d", first, got[0].Offset)
	}
}

// cursorNotMovedByFailure: a Poll that fails or finds nothing skips nothing.
func cursorNotMovedByFailure(c *env) {
	topic, part, next := c.tail()
	c.seek(topic, part, next)
	ctx, cancel := context.WithCancel(context.Background())
	w := c.startPoll(ctx, storage.PollRequest{Topic: topic, Partition: part, Start: storage.Cursor, Wait: c.longer()})
	cancel()
	if err := w.end(c, "after cancel"); !errors.Is(err, context.Canceled) {
		c.Errorf("a waiting Poll after cancel: %v", err)
	}
	c.wantNothing(topic, part, storage.Cursor)
	list := c.fill(topic, "", "after", 4)
	c.wantRecords("after a failed and an empty Poll", c.read(topic, part, storage.Cursor, 4), list)
}

// cursorSurvives: a clean end saves pull offsets, and none is made up.
func cursorSurvives(c *env) {
	t := c.topic(3)
	want := map[string]int64{}
	parts := byPartition(c.spread(t.Name, 60))
	untouched := ""
	for name, list := range parts {
		if untouched == "" {
			untouched = name
			continue
		}
		c.poll(storage.PollRequest{Topic: t.Name, Partition: name, Start: storage.Cursor, MaxRecords: 2, Wait: c.h.Patience / 2})
		next, ok := c.b.Cursor(t.Name, name)
		if !ok || next > list[2].offset {
			c.Fatalf("after 2 records Cursor is %d, %v; the third is %d", next, ok, list[2].offset)
		}
		want[name] = next
	}
	for range 2 {
		c.reopen()
		for name, next := range want {
			c.wantCursor(t.Name, name, next)
		}
		c.wantNoCursor(t.Name, untouched)
	}
	for name := range want {
		c.wantRecords("from the saved cursor", c.read(t.Name, name, storage.Cursor, len(parts[name])-2), parts[name][2:])
	}
}

// spread appends n events with 20 keys, so that partitions get at least 3
// each where keys are spread well.
func (c *env) spread(topic string, n int) []stored {
	c.Helper()
	var events []storage.Event
	for i := range n {
		events = append(events, storage.Event{Key: fmt.Sprint("key ", i%20), Frame: numbered("spread", i)})
	}
	return c.send(topic, events).stored(c)
}

// cursorCheckpoint: after Checkpoint a crash loses no pull offset.
func cursorCheckpoint(c *env) {
	topic, part, next := c.tail()
	checkpoint := func() {
		c.Helper()
		c.must("Checkpoint", func(ctx context.Context) error { return need[storage.Checkpointer](c).Checkpoint(ctx) })
	}
	c.read(topic, part, storage.Cursor, 3)
	moved, _ := c.b.Cursor(topic, part)
	checkpoint()
	c.crash()
	c.wantCursor(topic, part, moved)
	c.seek(topic, part, next-1)
	checkpoint()
	c.crash()
	c.wantCursor(topic, part, next-1)
}

// cursorCrash: after a crash the pull offset may be old, or gone, but it is
// never beyond what was read.
func cursorCrash(c *env) {
	t := c.topic(1)
	list := c.fill(t.Name, "", "a", 20)
	part := list[0].partition
	for range 3 {
		c.poll(storage.PollRequest{Topic: t.Name, Partition: part, Start: storage.Cursor, MaxRecords: 4, Wait: c.h.Patience / 2})
		before, known := c.b.Cursor(t.Name, part)
		c.crash()
		if after, ok := c.b.Cursor(t.Name, part); ok && (!known || after > before) {
			c.Errorf("Cursor was %d, %v before a crash and is %d after it", before, known, after)
		}
	}
	got := c.read(t.Name, part, storage.Cursor, 1)
	if got[0].Offset > list[12].offset {
		c.Errorf("12 records were read before crashes, then %d comes, want %d or less", got[0].Offset, list[12].offset)
	}
}

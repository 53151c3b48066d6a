package storagetest

import (
	"context"
	"fmt"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

var trimCases = []testCase{
	{name: "Trim/MovesMinimum", needs: hasTrimmer, run: trimMovesMinimum},
	{name: "Trim/All", needs: hasTrimmer, run: trimAll},
	{name: "Trim/OutOfBounds", needs: hasTrimmer, run: trimOutOfBounds},
	{name: "Trim/OnePartition", needs: hasTrimmer, run: trimOnePartition},
	{name: "Trim/SurvivesReopen", needs: func(h *Harness) bool { return hasTrimmer(h) && canReopen(h) }, run: trimSurvives},
	{name: "Trim/Retention", needs: func(h *Harness) bool { return h.Has.TopicAdmin && h.Has.Bounder && canAdvance(h) }, run: trimRetention},
}

func (c *env) trim(topic, partition string, before int64) {
	c.Helper()
	c.must("Trim", func(ctx context.Context) error { return need[storage.Trimmer](c).Trim(ctx, topic, partition, before) })
}

// trimMovesMinimum: at once the minimum is up, below it is out of range, the
// rest is as it was, and the cursor does not skip by itself.
func trimMovesMinimum(c *env) {
	t := c.topic(1)
	list := c.fill(t.Name, "", "a", 20)
	part := list[0].partition
	c.seek(t.Name, part, list[4].offset)
	c.trim(t.Name, part, list[10].offset)
	low, high := c.bounds(t.Name, part)
	if low != list[10].offset || high <= list[19].offset {
		c.Errorf("bounds after Trim to %d are %d..%d", list[10].offset, low, high)
	}
	for _, i := range []int{0, 4, 9} {
		c.wantRangeError(storage.PollRequest{Topic: t.Name, Partition: part, Start: list[i].offset, Wait: c.h.Settle}, list[i].offset)
	}
	c.wantRangeError(storage.PollRequest{Topic: t.Name, Partition: part, Start: storage.Cursor}, list[4].offset)
	c.wantRecords("from the new minimum", c.read(t.Name, part, low, 10), list[10:])
	c.trim(t.Name, part, list[3].offset)
	if after, _ := c.bounds(t.Name, part); after != low {
		c.Errorf("Trim below the minimum moved it from %d to %d", low, after)
	}
	c.seek(t.Name, part, low)
	c.wantRecords("from the cursor", c.read(t.Name, part, storage.Cursor, 10), list[10:])
}

// trimAll: a trimmed partition is empty, goes on with higher offsets, and an
// unset cursor begins at its minimum.
func trimAll(c *env) {
	t := c.topic(1)
	list := c.fill(t.Name, "", "a", 5)
	part := list[0].partition
	_, high := c.bounds(t.Name, part)
	c.trim(t.Name, part, high)
	if low, now := c.bounds(t.Name, part); low != high || now != high {
		c.Errorf("bounds after Trim to the maximum %d are %d..%d", high, low, now)
	}
	c.wantNothing(t.Name, part, high)
	c.wantNothing(t.Name, part, storage.Cursor)
	if at := c.offsetByTime(t.Name, part, time.UnixMilli(0), storage.Nearest); at != high {
		c.Errorf("offset by time in a trimmed partition is %d, want %d", at, high)
	}
	more := c.fill(t.Name, "", "b", 3)
	if more[0].offset < high {
		c.Errorf("after Trim to %d a record got the offset %d", high, more[0].offset)
	}
	c.wantRecords("from the cursor", c.read(t.Name, part, storage.Cursor, 3), more)
}

func trimOutOfBounds(c *env) {
	t := c.topic(1)
	list := c.fill(t.Name, "", "a", 3)
	part := list[0].partition
	_, high := c.bounds(t.Name, part)
	trim := func(topic, partition string, before int64, want error) {
		c.Helper()
		c.wantErr("Trim", func(ctx context.Context) error {
			return need[storage.Trimmer](c).Trim(ctx, topic, partition, before)
		}, want)
	}
	trim(t.Name, part, high+1, storage.ErrInvalid)
	trim(t.Name, "no such partition", 0, storage.ErrPartitionNotFound)
	trim(topicName(), part, 0, storage.ErrTopicNotFound)
	c.wantAll(t, list)
}

func trimOnePartition(c *env) {
	t := c.topic(2)
	other := c.topic(2)
	parts := byPartition(c.spread(t.Name, 60))
	keep := c.spread(other.Name, 60)
	var trimmed string
	for name, list := range parts {
		if trimmed == "" {
			trimmed = name
			c.trim(t.Name, name, list[len(list)-1].offset)
			continue
		}
		c.wantRecords("the other partition", c.read(t.Name, name, list[0].offset, len(list)), list)
	}
	c.wantAll(other, keep)
}

func trimSurvives(c *env) {
	t := c.topic(1)
	list := c.fill(t.Name, "", "a", 10)
	part := list[0].partition
	c.trim(t.Name, part, list[6].offset)
	c.reopen()
	if low, _ := c.bounds(t.Name, part); low != list[6].offset {
		c.Errorf("the minimum was %d and is %d after reopening", list[6].offset, low)
	}
	c.wantRangeError(storage.PollRequest{Topic: t.Name, Partition: part, Start: list[5].offset}, list[5].offset)
	c.wantRecords("after reopening", c.read(t.Name, part, list[6].offset, 4), list[6:])
}

// trimRetention: what is younger than a topic's retention stays, what is
// older goes; a topic without one keeps it.
func trimRetention(c *env) {
	name, other := topicName(), c.topic(1)
	c.must("CreateTopic", func(ctx context.Context) error {
		_, err := need[storage.TopicAdmin](c).CreateTopic(ctx, name, storage.TopicConfig{Partitions: 1, Retention: time.Minute})
		return err
	})
	keep := c.fill(other.Name, "", "other", 3)
	old := c.fill(name, "", "old", 5)
	part := old[0].partition
	c.h.Advance(c.T, c.b, 40*time.Second)
	young := c.fill(name, "", "young", 5)
	c.wantRecords("within retention", c.read(name, part, old[0].offset, 10), append(old, young...))
	c.h.Advance(c.T, c.b, 40*time.Second)
	c.eventually("Bounds after retention", func() error {
		if low, _ := c.bounds(name, part); low <= old[4].offset {
			return fmt.Errorf("the minimum is %d", low)
		}
		return nil
	})
	c.wantRecords("younger than retention", c.read(name, part, young[0].offset, 5), young)
	c.wantAll(other, keep)
}

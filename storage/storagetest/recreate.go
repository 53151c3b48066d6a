package storagetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/ackmesh/ackmesh/storage"
)

var recreateCases = []testCase{
	{name: "Recreate/IsNew", needs: hasAdmin, run: recreateIsNew},
	{name: "Recreate/TopicID", needs: func(h *Harness) bool { return h.Has.TopicAdmin && h.Has.TopicID }, run: recreateTopicID},
	{name: "Recreate/UnderPoll", needs: func(h *Harness) bool { return h.Has.TopicAdmin && h.Has.TopicID }, run: recreateUnderPoll},
	{name: "Recreate/SurvivesReopen", needs: func(h *Harness) bool { return h.Has.TopicAdmin && canReopen(h) }, run: recreateSurvives},
}

// recreate deletes a topic and makes it again, with as many partitions.
func (c *env) recreate(old storage.Topic) (t storage.Topic) {
	c.Helper()
	c.deleteTopic(old.Name)
	c.eventually("CreateTopic after DeleteTopic", func() error { return c.create(old.Name, len(old.Partitions)) })
	c.eventually("Topic after it was made again", func() (err error) {
		if t, err = c.describe(old.Name); err == nil && c.h.Has.TopicID && t.ID == old.ID {
			err = fmt.Errorf("it has the old identity %q", t.ID)
		}
		return err
	})
	return t
}

// readAll sets the pull offset of every partition and reads to the end.
func (c *env) readAll(t storage.Topic, list []stored) {
	c.Helper()
	for name, want := range byPartition(list) {
		c.read(t.Name, name, storage.Cursor, len(want))
	}
}

// recreateIsNew: no record and no pull offset of the old topic is left, and
// what comes is read from its beginning, whether the new topic has fewer or
// more records than the old pull offset says.
func recreateIsNew(c *env) {
	t := c.topic(2)
	list := c.spread(t.Name, 40)
	c.readAll(t, list)
	for _, n := range []int{4, 80} {
		t = c.recreate(t)
		c.wantEmptyTopic(t)
		list := c.spread(t.Name, n)
		for _, f := range list {
			c.wantNoCursor(t.Name, f.partition)
		}
		c.wantTheOnly(t, list)
	}
}

// wantEmptyTopic wants a topic without records and pull offsets.
func (c *env) wantEmptyTopic(t storage.Topic) {
	c.Helper()
	for _, part := range t.Partitions {
		c.wantNoCursor(t.Name, part)
		if c.h.Has.Bounder {
			low, high := c.bounds(t.Name, part)
			if low != high {
				c.Errorf("bounds of %q/%q, made again, are %d..%d", t.Name, part, low, high)
			}
			c.wantNothing(t.Name, part, low)
		}
	}
}

// recreateTopicID: whoever knows the old identity is told, from any offset,
// also when the new topic has grown past it.
func recreateTopicID(c *env) {
	old := c.topic(1)
	list := c.fill(old.Name, "", "old", 3)
	c.readAll(old, list)
	t := c.recreate(old)
	if t.ID == "" || t.ID == old.ID {
		c.Fatalf("the identity was %q and is %q after the topic was made again", old.ID, t.ID)
	}
	grown := c.fill(t.Name, "", "new", 10)
	for _, start := range []int64{list[2].offset, list[0].offset, storage.Cursor} {
		req := storage.PollRequest{Topic: t.Name, Partition: t.Partitions[0], TopicID: old.ID, Start: start, Wait: c.h.Settle}
		c.pollErr(req, storage.ErrTopicChanged)
	}
	req := storage.PollRequest{Topic: t.Name, Partition: t.Partitions[0], TopicID: t.ID, Start: grown[0].offset, Wait: c.h.Patience / 2}
	if len(c.poll(req).Records) == 0 {
		c.Errorf("with the new identity nothing is read")
	}
}

// recreateUnderPoll: a Poll that waits for the old topic never gives records
// of the new one.
func recreateUnderPoll(c *env) {
	old := c.topic(1)
	list := c.fill(old.Name, "", "old", 3)
	got := c.read(old.Name, old.Partitions[0], list[0].offset, 3)
	req := storage.PollRequest{
		Topic: old.Name, Partition: old.Partitions[0], TopicID: old.ID,
		Start: got[2].Offset + 1, Wait: 20 * c.h.Settle,
	}
	w := c.startPoll(context.Background(), req)
	t := c.recreate(old)
	c.fill(t.Name, "", "new", 10)
	err := w.end(c, "whose topic was made again")
	if err != nil && !errors.Is(err, storage.ErrTopicChanged) && !errors.Is(err, storage.ErrTopicNotFound) {
		c.Errorf("a Poll whose topic was made again: %v", err)
	}
	if len(w.batch.Records) > 0 {
		c.Errorf("a Poll of the old topic gave %d records of the new one", len(w.batch.Records))
	}
}

// recreateSurvives: what was deleted stays deleted.
func recreateSurvives(c *env) {
	gone, old := c.topic(1), c.topic(2)
	c.readAll(gone, c.fill(gone.Name, "", "gone", 5))
	c.readAll(old, c.spread(old.Name, 40))
	c.deleteTopic(gone.Name)
	t := c.recreate(old)
	list := c.spread(t.Name, 6)
	c.reopen()
	if err := c.isGone(gone); err != nil {
		c.Errorf("a deleted topic after reopening: %v", err)
	}
	if again, err := c.describe(t.Name); err != nil || !sameTopic(again, t) {
		c.Errorf("a topic made again is %+v, %v after reopening; it was %+v", again, err, t)
	}
	for _, part := range t.Partitions {
		c.wantNoCursor(t.Name, part)
	}
	c.wantTheOnly(t, list)
}

package storagetest

import (
	"context"
	"fmt"
	"sync"

	"github.com/ackmesh/ackmesh/storage"
)

var crashCases = []testCase{
	{name: "Crash/KeepsWhatWasReported", needs: canCrash, run: crashKeeps},
	{name: "Crash/AtOnceAfterDone", needs: canCrash, run: crashAtOnce},
	{name: "Crash/AmidAppends", needs: canCrash, run: crashAmidAppends},
	{name: "Crash/KeepsDeletions", needs: func(h *Harness) bool { return canCrash(h) && h.Has.TopicAdmin }, run: crashKeepsDeletions},
	{name: "Crash/BrokerRestart", needs: func(h *Harness) bool { return h.RestartBroker != nil }, run: brokerRestart},
}

// crashKeeps: what was reported to be stored outlives a crash, once, at its
// place, and offsets go on behind it.
func crashKeeps(c *env) {
	t := c.topic(2)
	var list []stored
	for i := range 3 {
		list = append(list, c.fill(t.Name, "k", string(rune('a'+i)), 20)...)
		c.crash()
	}
	list = append(list, c.fill(t.Name, "k", "last", 5)...)
	c.wantAll(t, list)
}

// crashAtOnce: durable when done is called means then, not soon after.
func crashAtOnce(c *env) {
	t := c.topic(1)
	var list []stored
	for i := range 10 {
		list = append(list, c.send(t.Name, []storage.Event{{Frame: numbered("a", i)}}).stored(c)...)
		c.crash()
		c.wantAmong(t, list[len(list)-1:])
	}
	c.wantAll(t, list)
}

// crashAmidAppends: with appends under way, all that were reported are there.
func crashAmidAppends(c *env) {
	t := c.topic(2)
	for range 3 {
		fates := c.appendUnderway(t.Name, 3, 60)
		b := c.b
		var wg sync.WaitGroup
		for _, list := range fates {
			wg.Go(func() {
				for _, f := range list {
					f.refused = f.send(context.Background(), b)
				}
			})
		}
		fates[0][20].await(c)
		told := reportedStored(fates)
		c.crash()
		wg.Wait()
		c.wantAmong(t, told)
	}
}

// reportedStored lists what was reported to be stored so far.
func reportedStored(fates [][]*fate) (told []stored) {
	for _, list := range fates {
		for _, f := range list {
			f.mu.Lock()
			if f.reports.Load() > 0 && f.err == nil && f.results[0].Err == nil {
				told = append(told, stored{f.results[0].Partition, f.results[0].Offset, f.events[0].Frame})
			}
			f.mu.Unlock()
		}
	}
	return told
}

// crashKeepsDeletions: a topic that was deleted, or made again, does not come
// back with its records.
func crashKeepsDeletions(c *env) {
	gone, old := c.topic(1), c.topic(1)
	c.readAll(gone, c.fill(gone.Name, "", "gone", 5))
	c.readAll(old, c.fill(old.Name, "", "old", 5))
	c.deleteTopic(gone.Name)
	t := c.recreate(old)
	list := c.fill(t.Name, "", "new", 3)
	c.crash()
	if err := c.isGone(gone); err != nil {
		c.Errorf("a deleted topic after a crash: %v", err)
	}
	if again, err := c.describe(t.Name); err != nil || !sameTopic(again, t) {
		c.Errorf("a topic made again is %+v, %v after a crash; it was %+v", again, err, t)
	}
	c.wantTheOnly(t, list)
}

// brokerRestart: the backend finds its broker again; nothing that was
// reported is lost, and reading goes on where it was.
func brokerRestart(c *env) {
	t := c.topic(2)
	list := c.spread(t.Name, 40)
	parts := byPartition(list)
	for name, want := range parts {
		c.wantRecords("before", c.read(t.Name, name, storage.Cursor, len(want)), want)
	}
	c.h.RestartBroker(c.T)
	var more []stored
	c.eventually("append after the broker's restart", func() error {
		f := c.send(t.Name, []storage.Event{{Key: "k", Frame: numbered("after", 0)}})
		results, err := f.outcome(c)
		if err == nil && results[0].Err == nil {
			more = append(more, stored{results[0].Partition, results[0].Offset, f.events[0].Frame})
		} else if err == nil {
			err = fmt.Errorf("event: %w", results[0].Err)
		}
		return err
	})
	c.wantAmong(t, append(list, more...))
	part := more[0].partition
	batch := new(storage.Batch)
	c.eventually("Poll after the broker's restart", func() error {
		return c.bounded("Poll", func(ctx context.Context) error {
			return c.b.Poll(ctx, storage.PollRequest{Topic: t.Name, Partition: part, Start: storage.Cursor, Wait: c.h.Patience / 2}, batch)
		})
	})
	if want := parts[part]; len(batch.Records) == 0 || len(want) > 0 && batch.Records[0].Offset <= want[len(want)-1].offset {
		c.Errorf("after the broker's restart reading from the cursor gives %d records, want those after %v", len(batch.Records), want)
	}
}

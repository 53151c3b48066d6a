package storagetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

var lifeCases = []testCase{
	{name: "Life/Name", run: lifeName},
	{name: "Life/CloseTwice", run: lifeCloseTwice},
	{name: "Life/CloseAtOnce", run: lifeCloseAtOnce},
	{name: "Life/UseAfterClose", run: lifeUseAfterClose},
	{name: "Life/CloseEndsAppends", run: lifeCloseEndsAppends},
	{name: "Life/Reopen", needs: canReopen, run: lifeReopen},
}

func lifeName(c *env) {
	if name := c.b.Name(); name == "" || name != c.b.Name() {
		c.Errorf("the backend's name is %q", name)
	}
}

func (c *env) close() {
	c.Helper()
	c.must("Close", func(context.Context) error { return c.b.Close() })
}

func lifeCloseTwice(c *env) {
	c.fill(c.topic(1).Name, "", "a", 3)
	for range 3 {
		c.close()
	}
}

// lifeCloseAtOnce: many may close, while others use it.
func lifeCloseAtOnce(c *env) {
	t := c.topic(1)
	c.must("Close at once", func(ctx context.Context) error {
		errs := make([]error, 4)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { errs[i] = c.b.Close() })
			wg.Go(func() {
				_ = c.b.Poll(ctx, storage.PollRequest{Topic: t.Name, Partition: t.Partitions[0], Wait: c.h.Settle}, new(storage.Batch))
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	})
}

// lifeUseAfterClose: everything answers ErrClosed, and nothing panics.
func lifeUseAfterClose(c *env) {
	t := c.topic(1)
	part := t.Partitions[0]
	list := c.fill(t.Name, "", "a", 3)
	uses := c.uses(t.Name, part, list[0].offset)
	c.close()
	for name, use := range uses {
		c.wantErr(name+" after Close", use, storage.ErrClosed)
	}
	c.b.Cursor(t.Name, part)
	c.b.Name()
}

// uses lists every call that must fail after Close.
func (c *env) uses(topic, part string, offset int64) map[string]func(context.Context) error {
	b := c.b
	uses := map[string]func(context.Context) error{
		"Append": func(ctx context.Context) error {
			_, err := storage.AppendWait(ctx, b, topic, []storage.Event{{Frame: numbered("a", 0)}})
			return err
		},
		"Poll from the cursor": func(ctx context.Context) error {
			return b.Poll(ctx, storage.PollRequest{Topic: topic, Partition: part, Start: storage.Cursor, Wait: time.Hour}, new(storage.Batch))
		},
		"Poll": func(ctx context.Context) error {
			return b.Poll(ctx, storage.PollRequest{Topic: topic, Partition: part, Start: offset}, new(storage.Batch))
		},
		"Seek":        func(ctx context.Context) error { return b.Seek(ctx, topic, part, offset) },
		"Topic":       func(ctx context.Context) error { _, err := b.Topic(ctx, topic); return err },
		"EnsureTopic": func(ctx context.Context) error { _, err := b.EnsureTopic(ctx, topic); return err },
		"Topics":      func(ctx context.Context) error { _, err := b.Topics(ctx); return err },
	}
	if x, ok := storage.As[storage.Bounder](b); ok {
		uses["Bounds"] = func(ctx context.Context) error { _, _, err := x.Bounds(ctx, topic, part); return err }
		uses["OffsetByTime"] = func(ctx context.Context) error {
			_, err := x.OffsetByTime(ctx, topic, part, time.Now(), storage.Nearest)
			return err
		}
	}
	if x, ok := storage.As[storage.TopicAdmin](b); ok {
		uses["CreateTopic"] = func(ctx context.Context) error {
			_, err := x.CreateTopic(ctx, topicName(), storage.TopicConfig{})
			return err
		}
		uses["DeleteTopic"] = func(ctx context.Context) error { return x.DeleteTopic(ctx, topic) }
	}
	if x, ok := storage.As[storage.Trimmer](b); ok {
		uses["Trim"] = func(ctx context.Context) error { return x.Trim(ctx, topic, part, offset) }
	}
	if x, ok := storage.As[storage.Fingerprinter](b); ok {
		uses["Fingerprint"] = func(ctx context.Context) error { _, _, err := x.Fingerprint(ctx, topic, part, offset); return err }
	}
	if x, ok := storage.As[storage.Checkpointer](b); ok {
		uses["Checkpoint"] = func(ctx context.Context) error { return x.Checkpoint(ctx) }
	}
	if x, ok := storage.As[storage.Acker](b); ok {
		uses["Ack"] = func(ctx context.Context) error { _, err := x.Ack(ctx, []any{"unknown"}); return err }
	}
	return uses
}

// lifeCloseEndsAppends: when Close returns, the fate of every accepted event
// was told, and what was told to be stored is.
func lifeCloseEndsAppends(c *env) {
	t := c.topic(2)
	told := c.spread(t.Name, 20)
	fates := c.appendUnderway(t.Name, 4, 50)
	c.must("appends during Close", func(ctx context.Context) error {
		underway := make(chan struct{})
		var wg sync.WaitGroup
		for w, list := range fates {
			wg.Go(func() {
				for i, f := range list {
					f.refused = f.send(ctx, c.b)
					if w == 0 && i == 10 {
						close(underway)
					}
				}
			})
		}
		wg.Go(func() {
			<-underway
			_ = c.b.Close()
		})
		wg.Wait()
		return nil
	})
	for _, list := range fates {
		told = append(told, c.storedByNow(list)...)
	}
	if c.h.Reopen != nil {
		c.reopen()
		c.wantAmong(t, told)
	}
}

// appendUnderway prepares calls of Append for several callers.
func (c *env) appendUnderway(topic string, callers, calls int) [][]*fate {
	all := make([][]*fate, callers)
	for w := range all {
		for i := range calls {
			e := storage.Event{Frame: numbered(string(rune('a'+w)), i), Key: string(rune('a' + w))}
			all[w] = append(all[w], c.newFate(topic, []storage.Event{e}))
		}
	}
	return all
}

// storedByNow lists what was told to be stored. Everything must have been
// told, and refusals must name the reason.
func (c *env) storedByNow(list []*fate) (told []stored) {
	c.Helper()
	for _, f := range list {
		if f.refused == nil && f.reports.Load() == 0 {
			c.Fatalf("Close has returned and an append that was accepted is not reported")
		}
		results, err := f.outcome(c)
		if err == nil && len(results) == 1 {
			err = results[0].Err
		}
		if err == nil {
			told = append(told, stored{results[0].Partition, results[0].Offset, f.events[0].Frame})
		} else if !errors.Is(err, storage.ErrClosed) {
			c.Errorf("an append during Close: %v, want ErrClosed or success", err)
		}
	}
	return told
}

// wantAmong wants these records to be in the log; others may be there too.
func (c *env) wantAmong(t storage.Topic, told []stored) {
	c.Helper()
	for name, want := range byPartition(told) {
		for _, s := range want {
			batch := new(storage.Batch)
			req := storage.PollRequest{Topic: t.Name, Partition: name, Start: s.offset, MaxRecords: 1, Wait: c.h.Patience / 2}
			c.pollInto("Poll for a record that was told to be stored", req, batch)
			c.wantRecords("a record that was told to be stored", batch.Records, []stored{s})
		}
	}
}

// lifeReopen: records and topics outlive the process, and offsets go on.
func lifeReopen(c *env) {
	t := c.topic(2)
	list := c.spread(t.Name, 30)
	for i := range 3 {
		c.reopen()
		if again, err := c.describe(t.Name); err != nil || !sameTopic(again, t) {
			c.Errorf("after reopening the topic is %+v, %v; it was %+v", again, err, t)
		}
		list = append(list, c.fill(t.Name, "key 1", string(rune('a'+i)), 5)...)
		c.wantAll(t, list)
	}
}

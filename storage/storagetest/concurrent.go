package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ackmesh/ackmesh/storage"
)

var concurrentCases = []testCase{
	{name: "Concurrent/ReadersSeeWhatWritersWrite", run: concurrentReaders},
	{name: "Concurrent/Everything", run: concurrentEverything},
}

// concurrentReaders: readers that follow while writers write see every
// record, in order, each once.
func concurrentReaders(c *env) {
	t := c.topic(2)
	const writers, calls = 3, 60
	fates := c.appendUnderway(t.Name, writers, calls)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	readers := map[string]*follower{}
	var wg sync.WaitGroup
	for _, part := range t.Partitions {
		for i, start := range []int64{storage.Cursor, c.firstOffset(t.Name, part)} {
			r := &follower{}
			readers[fmt.Sprint(part, " reader ", i)] = r
			wg.Go(func() { r.follow(ctx, c.b, t.Name, part, start) })
		}
	}
	var writing sync.WaitGroup
	for _, list := range fates {
		writing.Go(func() {
			for _, f := range list {
				f.refused = f.send(ctx, c.b)
			}
		})
	}
	writing.Wait()
	parts := map[string]int{}
	for _, list := range fates {
		for _, s := range storedInOrder(c, list) {
			parts[s.partition]++
		}
	}
	c.eventually("readers that follow", func() error {
		for _, part := range t.Partitions {
			for i := range 2 {
				name := fmt.Sprint(part, " reader ", i)
				if err := readers[name].failed.Load(); err != nil {
					c.Fatalf("%s: %v", name, err)
				}
				if n := readers[name].seen.Load(); n < int64(parts[part]) {
					return fmt.Errorf("%s has seen %d of %d records", name, n, parts[part])
				}
			}
		}
		return nil
	})
	cancel()
	wg.Wait()
	for name, r := range readers {
		if err := r.failed.Load(); err != nil {
			c.Errorf("%s: %v", name, err)
		}
	}
}

// firstOffset is where a new partition begins.
func (c *env) firstOffset(topic, partition string) int64 {
	c.Helper()
	return c.poll(storage.PollRequest{Topic: topic, Partition: partition, Start: storage.Cursor}).Start
}

// follower reads a partition as records come.
type follower struct {
	seen   atomic.Int64
	failed atomic.Value // error that it did not expect
}

// follow reads until ctx ends.
func (r *follower) follow(ctx context.Context, b storage.Backend, topic, part string, start int64) {
	var batch storage.Batch
	last := int64(-1)
	for next := start; ; {
		req := storage.PollRequest{Topic: topic, Partition: part, Start: next, MaxRecords: 5, Wait: 1 << 40}
		if err := b.Poll(ctx, req, &batch); err != nil {
			if !errors.Is(err, context.Canceled) {
				r.failed.Store(err)
			}
			return
		}
		for _, rec := range batch.Records {
			if rec.Offset <= last {
				r.failed.Store(fmt.Errorf("record %d came after %d", rec.Offset, last))
				return
			}
			last = rec.Offset
			r.seen.Add(1)
		}
		if start != storage.Cursor {
			next = batch.Next
		}
	}
}

// concurrentEverything: all calls at once, on topics that come and go; for
// the race detector, and for calls that hang. Errors are allowed, but only
// those that fit.
func concurrentEverything(c *env) {
	stay := c.topic(2)
	list := c.spread(stay.Name, 40)
	fates := c.appendUnderway(stay.Name, 2, 30)
	var odd atomic.Value
	c.must("everything at once", func(ctx context.Context) error {
		var wg sync.WaitGroup
		for _, f := range fates {
			wg.Go(func() {
				for _, f := range f {
					f.refused = f.send(ctx, c.b)
				}
			})
		}
		for i := range 3 {
			for name, use := range c.mixedUses(stay, list[i]) {
				wg.Go(func() {
					for range 15 {
						if err := use(ctx); err != nil && !fits(err) {
							odd.Store(fmt.Errorf("%s: %w", name, err))
						}
					}
				})
			}
		}
		wg.Wait()
		return nil
	})
	if err := odd.Load(); err != nil {
		c.Errorf("everything at once: %v", err)
	}
	for _, f := range fates {
		list = append(list, storedInOrder(c, f)...)
	}
	c.wantAmong(stay, list)
}

// fits tells whether an error may come of topics that come and go.
func fits(err error) bool {
	return errors.Is(err, storage.ErrTopicNotFound) || errors.Is(err, storage.ErrTopicExists) || errors.Is(err, storage.ErrTopicChanged) ||
		errors.Is(err, storage.ErrUnavailable)
}

// mixedUses are the calls of life.go that do no harm, on a topic that stays,
// and the others on one that does not.
func (c *env) mixedUses(stay storage.Topic, s stored) map[string]func(context.Context) error {
	uses := c.uses(stay.Name, s.partition, s.offset)
	for _, name := range []string{"Append", "DeleteTopic", "Trim", "Poll from the cursor", "CreateTopic", "Ack"} {
		delete(uses, name)
	}
	if !c.h.Has.TopicAdmin {
		return uses
	}
	passing := topicName()
	admin := need[storage.TopicAdmin](c)
	uses["create and delete"] = func(ctx context.Context) error {
		if _, err := admin.CreateTopic(ctx, passing, storage.TopicConfig{Partitions: 1}); err != nil && !fits(err) {
			return err
		}
		return admin.DeleteTopic(ctx, passing)
	}
	uses["append to a topic that passes"] = func(ctx context.Context) error {
		_, err := storage.AppendWait(ctx, c.b, passing, []storage.Event{{Frame: numbered("p", 0)}})
		return err
	}
	return uses
}

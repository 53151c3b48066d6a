package storagetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ackmesh/ackmesh/storage"
)

var topicCases = []testCase{
	{name: "Topic/Missing", run: topicMissing},
	{name: "Topic/Ensure", run: topicEnsure},
	{name: "Topic/Describe", run: topicDescribe},
	{name: "Topic/ListIsInOrder", run: topicList},
	{name: "Topic/Partitions", needs: hasAdmin, run: topicPartitions},
	{name: "Topic/CreateTwice", needs: hasAdmin, run: topicCreateTwice},
	{name: "Topic/CreateAtOnce", needs: hasAdmin, run: topicCreateAtOnce},
	{name: "Topic/Delete", needs: hasAdmin, run: topicDelete},
	{name: "Topic/Many", run: topicMany},
}

func (c *env) create(name string, partitions int) error {
	c.Helper()
	return c.bounded("CreateTopic", func(ctx context.Context) error {
		_, err := need[storage.TopicAdmin](c).CreateTopic(ctx, name, storage.TopicConfig{Partitions: partitions})
		return err
	})
}

func (c *env) deleteTopic(name string) {
	c.Helper()
	c.must("DeleteTopic", func(ctx context.Context) error { return need[storage.TopicAdmin](c).DeleteTopic(ctx, name) })
}

func (c *env) ensure(name string) (t storage.Topic, err error) {
	c.Helper()
	err = c.bounded("EnsureTopic", func(ctx context.Context) (err error) {
		t, err = c.b.EnsureTopic(ctx, name)
		return err
	})
	return t, err
}

// topicMissing: asking for a topic does not make it.
func topicMissing(c *env) {
	name := topicName()
	for range 2 {
		if _, err := c.describe(name); !errors.Is(err, storage.ErrTopicNotFound) {
			c.Errorf("Topic of a missing topic: %v, want ErrTopicNotFound", err)
		}
		c.pollErr(storage.PollRequest{Topic: name, Partition: "0", Start: storage.Cursor}, storage.ErrTopicNotFound)
	}
}

// topicEnsure: makes a missing topic where the backend does that, and only
// describes one that is there.
func topicEnsure(c *env) {
	was := c.topic(3)
	if t, err := c.ensure(was.Name); err != nil || !sameTopic(t, was) {
		c.Errorf("EnsureTopic of %+v: %+v, %v", was, t, err)
	}
	name := topicName()
	t, err := c.ensure(name)
	if !c.h.Has.AutoCreate {
		if !errors.Is(err, storage.ErrTopicNotFound) {
			c.Errorf("EnsureTopic of a missing topic: %v, want ErrTopicNotFound", err)
		}
		return
	}
	if err != nil || t.Name != name || len(t.Partitions) == 0 {
		c.Fatalf("EnsureTopic of a missing topic: %+v, %v", t, err)
	}
	if again, err := c.ensure(name); err != nil || !sameTopic(again, t) {
		c.Errorf("EnsureTopic again: %+v, %v; want %+v", again, err, t)
	}
	c.wantAll(t, c.fill(name, "", "a", 3))
}

func sameTopic(a, b storage.Topic) bool {
	return a.Name == b.Name && a.ID == b.ID && slices.Equal(a.Partitions, b.Partitions)
}

// topicDescribe: names of partitions are legal and distinct; the identity is
// there where declared, stays, and differs between topics.
func topicDescribe(c *env) {
	t, other := c.topic(3), c.topic(1)
	seen := map[string]bool{}
	for _, name := range t.Partitions {
		if err := storage.CheckName("partition", name); err != nil || seen[name] {
			c.Errorf("partitions are %q: %v", t.Partitions, err)
		}
		seen[name] = true
	}
	if (t.ID != "") != c.h.Has.TopicID {
		c.Errorf("the topic's identity is %q, declared to have one: %v", t.ID, c.h.Has.TopicID)
	}
	if c.h.Has.TopicID && t.ID == other.ID {
		c.Errorf("two topics have the identity %q", t.ID)
	}
	c.fill(t.Name, "", "a", 3)
	if again, err := c.describe(t.Name); err != nil || !sameTopic(again, t) {
		c.Errorf("Topic again: %+v, %v; want %+v", again, err, t)
	}
	if t.ID != "" {
		req := storage.PollRequest{Topic: t.Name, Partition: t.Partitions[0], Start: storage.Cursor, TopicID: t.ID}
		c.poll(req)
		req.TopicID = t.ID + "x"
		c.pollErr(req, storage.ErrTopicChanged)
		req.Start = 0
		c.pollErr(req, storage.ErrTopicChanged)
	}
}

// listTopics is Topics; order and descriptions are checked.
func (c *env) listTopics() (list []storage.Topic) {
	c.Helper()
	c.must("Topics", func(ctx context.Context) (err error) {
		list, err = c.b.Topics(ctx)
		return err
	})
	for i := 1; i < len(list); i++ {
		if list[i-1].Name >= list[i].Name {
			c.Errorf("Topics lists %q before %q", list[i-1].Name, list[i].Name)
		}
	}
	return list
}

// listed tells whether Topics has a topic, described so.
func listed(list []storage.Topic, t storage.Topic) bool {
	return slices.ContainsFunc(list, func(l storage.Topic) bool { return sameTopic(l, t) })
}

func topicList(c *env) {
	base := topicName()
	var made []storage.Topic
	for _, end := range []string{"-b", "-a", "-c", "-B", "-0"} {
		made = append(made, c.topicNamed(base+end, 1+len(made)%2))
	}
	c.eventually("Topics after topics were made", func() error {
		list := c.listTopics()
		for _, t := range made {
			if !listed(list, t) {
				return fmt.Errorf("%+v is not listed as it was described", t)
			}
		}
		return nil
	})
}

// topicPartitions: 1 to 1,024, 0 for the default; others are refused and make
// nothing.
func topicPartitions(c *env) {
	for _, n := range []int{1, 2, 17} {
		c.topic(n)
	}
	name := topicName()
	if err := c.create(name, 0); err != nil {
		c.Errorf("CreateTopic with the default number of partitions: %v", err)
	}
	for _, n := range []int{-1, 1025} {
		name := topicName()
		if err := c.create(name, n); !errors.Is(err, storage.ErrInvalid) {
			c.Errorf("CreateTopic with %d partitions: %v, want ErrInvalid", n, err)
		}
		if _, err := c.describe(name); !errors.Is(err, storage.ErrTopicNotFound) {
			c.Errorf("Topic after a refused CreateTopic: %v", err)
		}
	}
}

// topicCreateTwice: the second is refused and harms nothing.
func topicCreateTwice(c *env) {
	t := c.topic(2)
	list := c.fill(t.Name, "", "a", 5)
	if err := c.create(t.Name, 1); !errors.Is(err, storage.ErrTopicExists) {
		c.Errorf("CreateTopic of a topic that is there: %v, want ErrTopicExists", err)
	}
	if again, err := c.describe(t.Name); err != nil || !sameTopic(again, t) {
		c.Errorf("after the refusal the topic is %+v, %v; want %+v", again, err, t)
	}
	c.wantAll(t, list)
}

// topicCreateAtOnce: of many at once one makes it.
func topicCreateAtOnce(c *env) {
	name := topicName()
	admin := need[storage.TopicAdmin](c)
	var made atomic.Int64
	var other atomic.Value
	c.must("CreateTopic at once", func(ctx context.Context) error {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				_, err := admin.CreateTopic(ctx, name, storage.TopicConfig{Partitions: 1})
				if err == nil {
					made.Add(1)
				} else if !errors.Is(err, storage.ErrTopicExists) {
					other.Store(err)
				}
			})
		}
		wg.Wait()
		return nil
	})
	if made.Load() != 1 || other.Load() != nil {
		c.Errorf("8 CreateTopic at once: %d made it, other errors: %v", made.Load(), other.Load())
	}
}

// topicDelete: afterwards nothing is there, and a second time is an error.
func topicDelete(c *env) {
	t, other := c.topic(2), c.topic(1)
	c.fill(t.Name, "k", "a", 5)
	keep := c.fill(other.Name, "", "b", 5)
	for _, part := range t.Partitions {
		c.poll(storage.PollRequest{Topic: t.Name, Partition: part, Start: storage.Cursor})
	}
	c.deleteTopic(t.Name)
	c.eventually("after DeleteTopic", func() error { return c.isGone(t) })
	for _, part := range t.Partitions {
		c.wantNoCursor(t.Name, part)
	}
	c.eventually("DeleteTopic again", func() error {
		return c.topicNotFound("DeleteTopic", func(ctx context.Context) error {
			return need[storage.TopicAdmin](c).DeleteTopic(ctx, t.Name)
		})
	})
	c.wantAll(other, keep)
}

// isGone tells where a topic is still to be seen.
func (c *env) isGone(t storage.Topic) error {
	c.Helper()
	if _, err := c.describe(t.Name); !errors.Is(err, storage.ErrTopicNotFound) {
		return fmt.Errorf("Topic gives %w, want ErrTopicNotFound", err)
	}
	for _, l := range c.listTopics() {
		if l.Name == t.Name {
			return fmt.Errorf("it is still listed")
		}
	}
	return c.topicNotFound("Poll", func(ctx context.Context) error {
		return c.b.Poll(ctx, storage.PollRequest{Topic: t.Name, Partition: t.Partitions[0], Start: storage.Cursor}, new(storage.Batch))
	})
}

// topicMany: many topics live side by side, each with its own records.
func topicMany(c *env) {
	base := topicName() + strings.Repeat("-many", 10)
	topics := make([]storage.Topic, 30)
	var sent []*fate
	for i := range topics {
		topics[i] = c.topicNamed(fmt.Sprint(base, i), 1+i%3)
		sent = append(sent, c.send(topics[i].Name, []storage.Event{{Frame: numbered("m", i)}}))
	}
	for i, f := range sent {
		c.wantTheOnlyNow(topics[i], f.stored(c))
	}
}

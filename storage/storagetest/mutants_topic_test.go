package storagetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

// trimming replaces Trim.
func trimming(f func(ctx context.Context, m *broken, topic, partition string, before int64) error) func(*broken) {
	return func(m *broken) {
		m.trim = func(ctx context.Context, topic, partition string, before int64) error {
			return f(ctx, m, topic, partition, before)
		}
	}
}

// renaming changes the names of topics before they are used.
func renaming(change func(string) string) func(*broken) {
	return func(m *broken) {
		b := m.Backend
		m.create = func(ctx context.Context, topic string, cfg storage.TopicConfig) (storage.Topic, error) {
			return b.CreateTopic(ctx, change(topic), cfg)
		}
		m.topic = func(ctx context.Context, topic string) (storage.Topic, error) { return b.Topic(ctx, change(topic)) }
		m.cursor = func(topic, partition string) (int64, bool) { return b.Cursor(change(topic), partition) }
		m.append = func(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
			return b.Append(ctx, change(topic), events, done)
		}
		asking(func(r *storage.PollRequest) { r.Topic = change(r.Topic) })(m)
	}
}

// creating changes how topics are made.
func creating(change func(cfg *storage.TopicConfig)) func(*broken) {
	return func(m *broken) {
		good := m.create
		m.create = func(ctx context.Context, topic string, cfg storage.TopicConfig) (storage.Topic, error) {
			change(&cfg)
			return good(ctx, topic, cfg)
		}
	}
}

var topicMutants = []mutant{
	{name: "does not move the minimum", caught: "Trim/MovesMinimum", says: "bounds after Trim", breaks: trimming(
		func(context.Context, *broken, string, string, int64) error { return nil })},
	{name: "trims one too many", caught: "Trim/MovesMinimum", says: "bounds after Trim", breaks: trimming(
		func(ctx context.Context, m *broken, topic, partition string, before int64) error {
			return m.Backend.Trim(ctx, topic, partition, before+1)
		})},
	{name: "trims beyond the maximum", caught: "Trim/OutOfBounds", says: "want one that is", breaks: trimming(
		func(ctx context.Context, m *broken, topic, partition string, before int64) error {
			_, high, err := m.Backend.Bounds(ctx, topic, partition)
			return errors.Join(err, m.Backend.Trim(ctx, topic, partition, min(before, high)))
		})},
	{name: "trims all partitions", caught: "Trim/OnePartition", says: "outside", breaks: trimming(
		func(ctx context.Context, m *broken, topic, _ string, before int64) error {
			t, err := m.Backend.Topic(ctx, topic)
			for _, p := range t.Partitions {
				_, high, _ := m.Backend.Bounds(ctx, topic, p)
				_ = m.Backend.Trim(ctx, topic, p, min(before, high))
			}
			return err
		})},
	{name: "keeps one of a trimmed partition", caught: "Trim/All", says: "bounds after Trim", breaks: trimming(
		func(ctx context.Context, m *broken, topic, partition string, before int64) error {
			return m.Backend.Trim(ctx, topic, partition, before-1)
		})},
	{name: "reads from the minimum where records are gone", caught: "Trim/MovesMinimum", says: "want a *RangeError", breaks: func(m *broken) {
		good := m.poll
		m.poll = func(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
			err := good(ctx, req, batch)
			var outside *storage.RangeError
			if errors.As(err, &outside) && outside.Offset < outside.Min {
				req.Start = outside.Min
				return good(ctx, req, batch)
			}
			return err
		}
	}},
	{name: "ignores retention", caught: "Trim/Retention", says: "the minimum is", breaks: creating(func(c *storage.TopicConfig) { c.Retention = 0 })},
	{name: "has half the retention", caught: "Trim/Retention", says: "outside", breaks: creating(func(c *storage.TopicConfig) { c.Retention /= 2 })},

	{name: "lists topics in any order", caught: "Topic/ListIsInOrder", says: "before", breaks: func(m *broken) {
		good := m.topics
		m.topics = func(ctx context.Context) ([]storage.Topic, error) {
			list, err := good(ctx)
			slices.Reverse(list)
			return list, err
		}
	}},
	{name: "lists new topics late", caught: "Topic/ListIsInOrder", says: "is not listed", breaks: func(m *broken) {
		m.topics = func(context.Context) ([]storage.Topic, error) { return nil, nil }
	}},
	{name: "makes a topic twice", caught: "Topic/CreateTwice", says: "want ErrTopicExists", breaks: func(m *broken) {
		good := m.create
		m.create = func(ctx context.Context, topic string, cfg storage.TopicConfig) (storage.Topic, error) {
			t, err := good(ctx, topic, cfg)
			if errors.Is(err, storage.ErrTopicExists) {
				return m.Backend.Topic(ctx, topic)
			}
			return t, err
		}
	}},
	{name: "lets two make a topic at once", caught: "Topic/CreateAtOnce", says: "made it", breaks: func(m *broken) {
		good := m.create
		m.create = func(ctx context.Context, topic string, cfg storage.TopicConfig) (storage.Topic, error) {
			t, err := good(ctx, topic, cfg)
			if errors.Is(err, storage.ErrTopicExists) && m.every(2) {
				return m.Backend.Topic(ctx, topic)
			}
			return t, err
		}
	}},
	{name: "takes any number of partitions", caught: "Topic/Partitions", says: "want ErrInvalid", breaks: creating(
		func(c *storage.TopicConfig) { c.Partitions = max(0, min(c.Partitions, 1024)) })},
	{name: "ignores the number of partitions", caught: "Topic/Partitions", says: "was made with", breaks: creating(
		func(c *storage.TopicConfig) { c.Partitions = 1 })},
	{name: "makes a topic when asked for it", caught: "Topic/Missing", says: "want ErrTopicNotFound", breaks: func(m *broken) { m.topic = m.ensure }},
	{name: "makes a topic anew each time", caught: "Topic/Ensure", says: "EnsureTopic", breaks: func(m *broken) {
		good := m.ensure
		m.ensure = func(ctx context.Context, topic string) (storage.Topic, error) {
			_ = m.Backend.DeleteTopic(ctx, topic)
			return good(ctx, topic)
		}
	}},
	{name: "deletes what is missing", caught: "Topic/Delete", says: "DeleteTopic gives", breaks: func(m *broken) {
		good := m.remove
		m.remove = func(ctx context.Context, topic string) error {
			if err := good(ctx, topic); !errors.Is(err, storage.ErrTopicNotFound) {
				return err
			}
			return nil
		}
	}},
	{name: "deletes in name only", caught: "Topic/Delete", says: "Topic gives", breaks: func(m *broken) {
		m.remove = func(context.Context, string) error { return nil }
	}},
	{name: "deletes the neighbours", caught: "Topic/Delete", says: "not found", breaks: func(m *broken) {
		good := m.remove
		m.remove = func(ctx context.Context, topic string) error {
			list, _ := m.Backend.Topics(ctx)
			for _, t := range list {
				if t.Name != topic {
					_ = m.Backend.DeleteTopic(ctx, t.Name)
				}
			}
			return good(ctx, topic)
		}
	}},
	{name: "mixes topics up", caught: "Topic/Many", says: "not found", breaks: asking(func(r *storage.PollRequest) {
		r.Topic = strings.TrimSuffix(r.Topic, "9")
	})},
	{name: "maps names to names of files", caught: "Name/Unusual", says: "exists", breaks: renaming(
		func(s string) string { return strings.ReplaceAll(s, "/", "_") })},
	{name: "does not tell letters' case apart", caught: "Name/Unusual", says: "exists", breaks: renaming(strings.ToLower)},
	{name: "refuses names", caught: "Name/Unusual", says: "invalid", breaks: func(m *broken) {
		good := m.create
		m.create = func(ctx context.Context, topic string, cfg storage.TopicConfig) (storage.Topic, error) {
			if strings.ContainsAny(topic, "#/:") {
				return storage.Topic{}, storage.ErrInvalid
			}
			return good(ctx, topic, cfg)
		}
	}},
	{name: "joins names to keys of cursors", caught: "Name/Unusual", says: "Cursor", breaks: func(m *broken) {
		good := m.cursor
		m.cursor = func(topic, partition string) (int64, bool) {
			topic, _, _ = strings.Cut(topic, "#")
			return good(topic, partition)
		}
	}},
	{name: "takes illegal names", caught: "Name/Illegal", says: "want ErrInvalid", breaks: renaming(
		func(s string) string {
			return "x" + strings.ToValidUTF8(s, "")[:min(len(strings.ToValidUTF8(s, "")), 100)]
		})},

	{name: "has the old identity", caught: "Recreate/TopicID", says: "the old identity", breaks: func(m *broken) {
		good, goodPoll := m.topic, m.poll
		m.topic = func(ctx context.Context, topic string) (storage.Topic, error) {
			t, err := good(ctx, topic)
			t.ID = "id of " + topic
			return t, err
		}
		m.poll = func(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
			req.TopicID = ""
			return goodPoll(ctx, req, batch)
		}
	}},
	{name: "ignores TopicID", caught: "Recreate/TopicID", says: "want one that is", breaks: asking(func(r *storage.PollRequest) { r.TopicID = "" })},
	{name: "ignores TopicID at the cursor", caught: "Recreate/TopicID", says: "want one that is", breaks: asking(func(r *storage.PollRequest) {
		if r.Start == storage.Cursor {
			r.TopicID = ""
		}
	})},
	{name: "has identities though none is declared", caught: "Topic/Describe", says: "identity", bends: func(h *Harness) { h.Has.TopicID = false }},
	{name: "keeps old records", caught: "Recreate/IsNew", says: "made again", breaks: keepingRecords},
	{name: "keeps the old cursor", caught: "Recreate/IsNew", says: "want unknown", breaks: keepingCursors},
	{name: "gives a reader of the old topic new records", caught: "Recreate/UnderPoll", says: "of the new one", breaks: func(m *broken) {
		good := m.poll
		m.poll = func(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
			err := good(ctx, req, batch)
			for end := time.Now().Add(req.Wait); err != nil && req.Wait > 0 && time.Now().Before(end); {
				<-time.After(time.Millisecond)
				err = good(ctx, storage.PollRequest{Topic: req.Topic, Partition: req.Partition, Start: req.Start}, batch)
				if err == nil && len(batch.Records) == 0 {
					err = storage.ErrTopicNotFound
				}
			}
			return err
		}
	}},
}

// keepingRecords hides a deleted topic until it is made again.
func keepingRecords(m *broken) {
	b := m.Backend
	hidden := map[string]string{} // name to identity
	var mu sync.Mutex
	m.remove = func(_ context.Context, topic string) error {
		mu.Lock()
		defer mu.Unlock()
		hidden[topic] = "again"
		return nil
	}
	m.create = func(ctx context.Context, topic string, cfg storage.TopicConfig) (storage.Topic, error) {
		mu.Lock()
		defer mu.Unlock()
		if hidden[topic] == "" {
			return b.CreateTopic(ctx, topic, cfg)
		}
		return b.Topic(ctx, topic)
	}
	m.topic = func(ctx context.Context, topic string) (storage.Topic, error) {
		mu.Lock()
		defer mu.Unlock()
		t, err := b.Topic(ctx, topic)
		t.ID += hidden[topic]
		return t, err
	}
}

// keepingCursors gives a topic that is made again the pull offsets of the one
// that was deleted.
func keepingCursors(m *broken) {
	b := m.Backend
	m.remove = func(ctx context.Context, topic string) error {
		t, err := b.Topic(ctx, topic)
		if err != nil {
			return err
		}
		cursors := map[string]int64{}
		for _, p := range t.Partitions {
			if next, ok := b.Cursor(topic, p); ok {
				cursors[p] = next
			}
		}
		m.create = func(ctx context.Context, topic string, cfg storage.TopicConfig) (storage.Topic, error) {
			t, err := b.CreateTopic(ctx, topic, cfg)
			for p, next := range cursors {
				_ = b.Seek(ctx, topic, p, next)
			}
			return t, err
		}
		return b.DeleteTopic(ctx, topic)
	}
}

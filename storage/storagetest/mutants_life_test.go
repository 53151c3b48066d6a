package storagetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
)

// loseLast drops the last record of every partition.
func loseLast(b *memory.Backend) {
	eachPartition(b, func(topic, partition string, low, high int64) { _ = b.Truncate(topic, partition, max(low, high-1)) })
}

// loseAll drops every record of every partition: with appends under way the
// last one may be one that nobody was told of.
func loseAll(b *memory.Backend) {
	eachPartition(b, func(topic, partition string, low, _ int64) { _ = b.Truncate(topic, partition, low) })
}

// fingerprinting changes what Fingerprint answers.
func fingerprinting(change func(m *broken, next int64) int64, hash func(uint64) uint64) func(*broken) {
	return func(m *broken) {
		good := m.fingerprint
		m.fingerprint = func(ctx context.Context, topic, partition string, next int64) (storage.Fingerprint, bool, error) {
			f, ok, err := good(ctx, topic, partition, change(m, next))
			f.Hash = hash(f.Hash)
			return f, ok, err
		}
	}
}

func sameHash(h uint64) uint64 { return h }

var lifeMutants = []mutant{
	{name: "fails on a second Close", caught: "Life/CloseTwice", says: "Close", breaks: func(m *broken) {
		good := m.close
		m.close = func() error {
			if m.n.Add(1) > 1 {
				return errors.New("closed already")
			}
			return good()
		}
	}},
	{name: "fails when closed at once", caught: "Life/CloseAtOnce", says: "Close", breaks: func(m *broken) {
		good := m.close
		m.close = func() error {
			if m.n.Add(1) > 1 {
				return errors.New("closed already")
			}
			return good()
		}
	}},
	{name: "answers after Close", caught: "Life/UseAfterClose", says: "Topics after Close", breaks: func(m *broken) {
		good := m.topics
		m.topics = func(ctx context.Context) ([]storage.Topic, error) {
			list, err := good(ctx)
			if errors.Is(err, storage.ErrClosed) {
				err = nil
			}
			return list, err
		}
	}},
	{name: "has another error after Close", caught: "Life/UseAfterClose", says: "Trim after Close", breaks: func(m *broken) {
		good := m.trim
		m.trim = func(ctx context.Context, topic, partition string, before int64) error {
			if good(ctx, topic, partition, before) != nil {
				return storage.ErrUnavailable
			}
			return nil
		}
	}},
	{name: "does not wait for appends in Close", caught: "Life/CloseEndsAppends", says: "is not reported", breaks: telling(
		func(_ *broken, done storage.AppendDone, r []storage.Appended, err error) {
			time.AfterFunc(100*time.Millisecond, func() { done(r, err) })
		})},
	{name: "reports what Close dropped as stored", caught: "Life/CloseEndsAppends", says: "told to be stored", bends: onReopen(loseLast)},
	{name: "keeps nothing", caught: "Life/Reopen", says: "not found", bends: func(h *Harness) {
		h.Reopen = func(t T, b storage.Backend) storage.Backend {
			_ = b.Close()
			return h.Open(t)
		}
	}},
	{name: "loses the last record on reopening", caught: "Life/Reopen", says: " records of ", bends: onReopen(loseLast)},
	{name: "names topics anew on reopening", caught: "Life/Reopen", says: "after reopening the topic is", bends: onReopen(
		func(b *memory.Backend) {
			topics, _ := b.Topics(context.Background())
			for _, t := range topics {
				_ = b.DeleteTopic(context.Background(), t.Name)
				_, _ = b.CreateTopic(context.Background(), t.Name, storage.TopicConfig{Partitions: len(t.Partitions)})
			}
		})},
	{name: "reports before it is durable", caught: "Crash/AtOnceAfterDone", says: "told to be stored", bends: onCrash(loseLast)},
	{name: "loses the tail in a crash", caught: "Crash/KeepsWhatWasReported", says: " records of ", bends: onCrash(loseLast)},
	{name: "loses what it has in a crash amid appends", caught: "Crash/AmidAppends", says: "told to be stored", bends: onCrash(loseAll)},
	{name: "forgets deletions in a crash", caught: "Crash/KeepsDeletions", says: "after a crash", bends: resurrecting(
		func(h *Harness) *func(T, storage.Backend) storage.Backend { return &h.CrashReopen })},
	{name: "forgets deletions on reopening", caught: "Recreate/SurvivesReopen", says: "after reopening", bends: resurrecting(
		func(h *Harness) *func(T, storage.Backend) storage.Backend { return &h.Reopen })},
	{name: "forgets a trim on reopening", caught: "Trim/SurvivesReopen", says: "is 0 after reopening", bends: func(h *Harness) {
		h.Reopen = func(t T, b storage.Backend) storage.Backend { return untrimmed(t, b, h.Open(t)) }
	}},
	{name: "loses a record when the broker restarts", caught: "Crash/BrokerRestart", says: "told to be stored", bends: func(h *Harness) {
		var open *memory.Backend
		good := h.Open
		h.Open = func(t T) storage.Backend {
			b := good(t)
			open = b.(*broken).Backend
			return b
		}
		h.RestartBroker = func(T) { loseLast(open) }
	}},
}

// resurrecting makes the deleted topics again when the log is opened again.
func resurrecting(hook func(*Harness) *func(T, storage.Backend) storage.Backend) func(*Harness) {
	return func(h *Harness) {
		var deleted []string
		open := h.Open
		h.Open = func(t T) storage.Backend {
			m := open(t).(*broken)
			good := m.remove
			m.remove = func(ctx context.Context, topic string) error {
				deleted = append(deleted, topic)
				return good(ctx, topic)
			}
			return m
		}
		f := hook(h)
		*f = meddling(*f, func(b *memory.Backend) {
			for _, topic := range deleted {
				_, _ = b.EnsureTopic(context.Background(), topic)
			}
		})
	}
}

// untrimmed copies a log of one topic of one partition into another one, from
// offset 0 on.
func untrimmed(t T, from, to storage.Backend) storage.Backend {
	list, err := from.Topics(context.Background())
	if err != nil || len(list) != 1 {
		t.Fatalf("%d topics, %v", len(list), err)
	}
	_, high, _ := need[storage.Bounder](&env{T: t, b: from}).Bounds(context.Background(), list[0].Name, list[0].Partitions[0])
	_, _ = to.(*broken).Backend.CreateTopic(context.Background(), list[0].Name, storage.TopicConfig{Partitions: 1})
	for i := range high {
		_, _ = storage.AppendWait(context.Background(), to, list[0].Name, []storage.Event{{Frame: numbered("a", int(i))}})
	}
	_ = from.Close()
	return to
}

// keying changes the DedupKey of every event.
func keying(change func(string) string) func(*broken) {
	return changing(func(_ *broken, e storage.Event) storage.Event {
		e.DedupKey = change(e.DedupKey)
		return e
	})
}

var smallMutants = []mutant{
	{name: "has no name", caught: "Life/Name", says: "name is", bends: func(h *Harness) {
		h.Open = func(T) storage.Backend { return nameless{memory.New(memory.Options{})} }
	}},
	{name: "has what is not declared", caught: "Capability/AsDeclared", says: "Trimmer is declared false", bends: func(h *Harness) { h.Has.Trimmer = false }},
	{name: "has not what is declared", caught: "Capability/AsDeclared", says: "Bounder is declared true", bends: func(h *Harness) {
		h.Open = func(T) storage.Backend { return struct{ storage.Backend }{memory.New(memory.Options{})} }
	}},
	{name: "hides in a wrapper", caught: "Capability/ThroughWrapper", says: "Checkpointer is declared true", bends: func(h *Harness) {
		h.Open = func(T) storage.Backend { return struct{ storage.Backend }{memory.New(memory.Options{})} }
	}},
	{name: "fails on unknown acks", caught: "Capability/UnknownAck", says: "Ack", bends: func(h *Harness) {
		h.Has.Acker = true
		h.Open = func(T) storage.Backend { return failingAcker{memory.New(memory.Options{})} }
	}},

	{name: "remembers no events", caught: "Dedup/Repeat", says: "a repeat is answered", opts: memory.Options{DedupWindow: -1}, bends: func(*Harness) {}},
	{name: "remembers none of the same append", caught: "Dedup/InOneAppend", says: "a repeat is answered", opts: memory.Options{DedupWindow: -1}, bends: func(*Harness) {}},
	{name: "remembers though not declared", caught: "Dedup/Absent", says: "read 1 of 3", bends: func(h *Harness) { h.Has.DedupWindow = 0 }},
	{name: "stores a repeat", caught: "Dedup/Repeat", says: "records", breaks: func(m *broken) {
		good := m.append
		m.append = func(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
			return good(ctx, topic, events, func(r []storage.Appended, err error) {
				if len(r) == 1 && r[0].Duplicate {
					_ = good(ctx, topic, []storage.Event{{Frame: events[0].Frame}}, func([]storage.Appended, error) {})
				}
				done(r, err)
			})
		}
	}},
	{name: "takes no key for a key", caught: "Dedup/WithoutKey", says: "duplicate", breaks: keying(func(s string) string { return "key" + s })},
	{name: "remembers too long", caught: "Dedup/Window", says: "called a duplicate", opts: memory.Options{DedupWindow: time.Hour}, bends: func(*Harness) {}},
	{name: "forgets too early", caught: "Dedup/Window", says: "a repeat is answered", opts: memory.Options{DedupWindow: time.Minute}, bends: func(*Harness) {}},
	{name: "remembers for all topics", caught: "Dedup/TopicsApart", says: "duplicate", breaks: telling(
		func(m *broken, done storage.AppendDone, r []storage.Appended, err error) {
			r = slices.Clone(r)
			r[0].Duplicate = m.n.Add(1) > 1
			done(r, err)
		})},

	{name: "has one fingerprint", caught: "Fingerprint/OfRecordBefore", says: "like another's", breaks: fingerprinting(
		func(_ *broken, next int64) int64 { return next }, func(uint64) uint64 { return 7 })},
	{name: "fingerprints the record at the offset", caught: "Fingerprint/OfRecordBefore", says: "fingerprint", breaks: fingerprinting(
		func(_ *broken, next int64) int64 { return next + 1 }, sameHash)},
	{name: "fingerprints in a way of its own", caught: "Fingerprint/OfRecordBefore", says: "that of the record which is read", breaks: fingerprinting(
		func(_ *broken, next int64) int64 { return next }, func(h uint64) uint64 { return h + 1 })},
	{name: "fingerprints offsets only", caught: "Fingerprint/Recreated", says: "for another record", breaks: func(m *broken) {
		good := m.fingerprint
		m.fingerprint = func(ctx context.Context, topic, partition string, next int64) (storage.Fingerprint, bool, error) {
			f, ok, err := good(ctx, topic, partition, next)
			f.Hash = uint64(next)
			return f, ok, err
		}
	}},
	{name: "fingerprints what is missing", caught: "Fingerprint/Missing", says: "want one that is", breaks: func(m *broken) {
		good := m.fingerprint
		m.fingerprint = func(ctx context.Context, topic, partition string, next int64) (storage.Fingerprint, bool, error) {
			f, ok, _ := good(ctx, topic, partition, next)
			return f, ok, nil
		}
	}},
	{name: "fingerprints what is trimmed", caught: "Fingerprint/Trimmed", says: "the fingerprint of record", breaks: func(m *broken) {
		good := m.fingerprint
		m.fingerprint = func(ctx context.Context, topic, partition string, next int64) (storage.Fingerprint, bool, error) {
			f, _, err := good(ctx, topic, partition, next)
			return f, true, err
		}
	}},
	{name: "fingerprints differently after reopening", caught: "Fingerprint/SurvivesReopen", says: "after reopening", breaks: func(m *broken) {
		salt := uint64(time.Now().UnixNano())
		fingerprinting(func(_ *broken, next int64) int64 { return next }, func(h uint64) uint64 { return h ^ salt })(m)
	}},
	{name: "has odd errors when used at once", caught: "Concurrent/Everything", says: "everything at once", breaks: func(m *broken) {
		good := m.topics
		m.topics = func(ctx context.Context) ([]storage.Topic, error) {
			list, err := good(ctx)
			if err == nil && slices.ContainsFunc(list, func(t storage.Topic) bool { return strings.Contains(t.Name, "storagetest") }) {
				err = errors.New("the map changed while it was read")
			}
			return list, err
		}
	}},
}

// nameless has no name.
type nameless struct{ *memory.Backend }

func (nameless) Name() string { return "" }

// failingAcker fails on handles that it does not know.
type failingAcker struct{ *memory.Backend }

func (failingAcker) Ack(context.Context, []any) ([]bool, error) {
	return nil, errors.New("unknown handle")
}

package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
)

// changing replaces the events of every append.
func changing(change func(m *broken, e storage.Event) storage.Event) func(*broken) {
	return func(m *broken) {
		good := m.append
		m.append = func(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
			changed := make([]storage.Event, len(events))
			for i, e := range events {
				changed[i] = change(m, e)
			}
			return good(ctx, topic, changed, done)
		}
	}
}

// telling replaces what is told of every append.
func telling(tell func(m *broken, done storage.AppendDone, results []storage.Appended, err error)) func(*broken) {
	return func(m *broken) {
		good := m.append
		m.append = func(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
			return good(ctx, topic, events, func(r []storage.Appended, err error) { tell(m, done, r, err) })
		}
	}
}

var appendMutants = []mutant{
	{name: "drops a record", caught: "Append/IsThereOnce", says: "read ", breaks: answering(
		func(_ *broken, _ storage.PollRequest, batch *storage.Batch, err error) error {
			batch.Records = slices.DeleteFunc(batch.Records, func(r storage.Record) bool { return r.Offset%40 == 7 })
			return err
		})},
	{name: "tells two events one place", caught: "Append/IsThereOnce", says: "was given after", breaks: func(m *broken) {
		good := m.append
		m.append = func(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
			if len(events) < 2 || !m.every(7) {
				return good(ctx, topic, events, done)
			}
			return good(ctx, topic, events[:len(events)-1], func(r []storage.Appended, err error) {
				last := r[len(r)-1]
				last.Offset++
				done(append(r, last), err)
			})
		}
	}},
	{name: "duplicates a record", caught: "Append/IsThereOnce", says: "record", breaks: func(m *broken) {
		good := m.append
		m.append = func(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
			if !m.every(7) {
				return good(ctx, topic, events, done)
			}
			return good(ctx, topic, append(slices.Clone(events), events[0]), func(r []storage.Appended, err error) {
				done(r[:len(events)], err)
			})
		}
	}},
	{name: "stores records at other places than told", caught: "Append/IsThereOnce", says: "is not the one", breaks: func(m *broken) {
		good := m.append
		m.append = func(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
			events = slices.Clone(events)
			if len(events) > 1 {
				events[0].Frame, events[1].Frame = events[1].Frame, events[0].Frame
			}
			return good(ctx, topic, events, done)
		}
	}},
	{name: "reorders within an append", caught: "Append/IsThereOnce", says: "was given after", breaks: func(m *broken) {
		good := m.append
		m.append = func(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
			backwards := slices.Clone(events)
			slices.Reverse(backwards)
			return good(ctx, topic, backwards, func(r []storage.Appended, err error) {
				slices.Reverse(r)
				done(r, err)
			})
		}
	}},
	{name: "reorders appends of one caller", caught: "Order/OfOneCaller", says: "was given after", breaks: overtaking},
	{name: "mixes keyless events among callers' order", caught: "Order/OfManyCallers", says: "was given after", breaks: overtaking},
	{name: "reports twice", caught: "Append/IsThereOnce", says: "called done 2 times", breaks: telling(
		func(m *broken, done storage.AppendDone, r []storage.Appended, err error) {
			done(r, err)
			if m.every(7) {
				done(r, err)
			}
		})},
	{name: "does not report", caught: "Append/IsThereOnce", says: "never called done", breaks: telling(
		func(m *broken, done storage.AppendDone, r []storage.Appended, err error) {
			if !m.every(7) {
				done(r, err)
			}
		})},
	{name: "reports too few results", caught: "Append/IsThereOnce", says: "results", breaks: telling(
		func(m *broken, done storage.AppendDone, r []storage.Appended, err error) { done(r[1:], err) })},
	{name: "reports unknown partitions", caught: "Append/IsThereOnce", says: "was reported in partition", breaks: telling(
		func(m *broken, done storage.AppendDone, r []storage.Appended, err error) {
			for i := range r {
				r[i].Partition = "p" + r[i].Partition
			}
			done(r, err)
		})},
	{name: "refuses nothing at all", caught: "Append/NothingToAppend", says: "not reported", breaks: telling(
		func(m *broken, done storage.AppendDone, r []storage.Appended, err error) {
			if len(r) > 0 {
				done(r, err)
			}
		})},
	{name: "uses memory after done", caught: "Append/LeavesCallersMemoryAfterDone", says: "is not the one", breaks: storingLater},
	{name: "stores what it refused", caught: "Append/EndedContext", says: "record", breaks: func(m *broken) {
		good := m.append
		m.append = func(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
			if err := ctx.Err(); err != nil {
				return errors.Join(err, good(context.Background(), topic, events, func([]storage.Appended, error) {}))
			}
			return good(ctx, topic, events, done)
		}
		// What was stored in secret is found once something is stored after it.
		m.cursor = func(string, string) (int64, bool) { return 0, false }
	}},
	{name: "refuses and reports", caught: "Append/EndedContext", says: "called done as well", breaks: func(m *broken) {
		good := m.append
		m.append = func(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
			err := good(ctx, topic, events, done)
			if err != nil {
				done(nil, err)
			}
			return err
		}
	}},
	{name: "makes topics though it must not", caught: "Append/MissingTopic", says: "want ErrTopicNotFound", bends: func(h *Harness) { h.Has.AutoCreate = false }},
	{name: "does not make topics", caught: "Append/MissingTopic", says: "topic not found", opts: memory.Options{NoAutoCreate: true}, bends: func(*Harness) {}},
	{name: "has no name for too large", caught: "Append/TooLarge", says: "want ErrTooLarge", breaks: func(m *broken) {
		good := m.append
		m.append = func(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
			if err := good(ctx, topic, events, done); err != nil {
				return fmt.Errorf("failed: %v", err) //nolint:errorlint // that the cause is lost is the bug
			}
			return nil
		}
	}},
	{name: "cuts large frames", caught: "Frame/Large", says: "is not the one", breaks: changing(func(_ *broken, e storage.Event) storage.Event {
		e.Frame = e.Frame[:min(len(e.Frame), 1<<20)]
		return e
	}), bends: patient},
	{name: "takes data for text", caught: "Frame/AnyBytes", says: "is not the one", breaks: changing(func(_ *broken, e storage.Event) storage.Event {
		e.Frame = bytes.TrimRight(e.Frame, "\x00")
		return e
	})},
	{name: "loses the 64th attribute", caught: "Frame/Attributes", says: "is not the one", breaks: changing(func(_ *broken, e storage.Event) storage.Event {
		if e.Frame[9] == 64 {
			e.Frame = append(slices.Clone(e.Frame[:9]), append([]byte{63}, e.Frame[10:]...)...)
		}
		return e
	})},
	{name: "splits keys", caught: "Order/KeyStaysInPartition", says: "went to partition", breaks: changing(func(m *broken, e storage.Event) storage.Event {
		e.Key += fmt.Sprint(m.n.Add(1) / 64)
		return e
	})},
	{name: "has one partition for all keys", caught: "Order/KeyStaysInPartition", says: "all went to one", breaks: changing(func(_ *broken, e storage.Event) storage.Event {
		e.Key = "k"
		return e
	})},
	{name: "does not spread keyless events", caught: "Order/KeylessSpreadInRuns", says: "all went to one", breaks: changing(func(_ *broken, e storage.Event) storage.Event {
		e.Key = "k"
		return e
	})},
	{name: "spreads keyless events one by one", caught: "Order/KeylessSpreadInRuns", says: "want runs", breaks: changing(func(m *broken, e storage.Event) storage.Event {
		e.Key = fmt.Sprint(m.n.Add(1))
		return e
	})},
}

// overtaking holds every seventh append back until the next one, or a while.
func overtaking(m *broken) {
	good := m.append
	var mu sync.Mutex
	var held func()
	release := func() {
		mu.Lock()
		defer mu.Unlock()
		if held != nil {
			held()
			held = nil
		}
	}
	m.append = func(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
		if m.every(7) {
			mu.Lock()
			if held == nil {
				held = func() { _ = good(context.Background(), topic, events, done) }
				time.AfterFunc(50*time.Millisecond, release)
				mu.Unlock()
				return nil
			}
			mu.Unlock()
		}
		err := good(ctx, topic, events, done)
		release()
		return err
	}
}

// storingLater reports first, foreseeing the offsets in a topic of one
// partition, and stores then.
func storingLater(m *broken) {
	good := m.append
	m.append = func(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
		t, err := m.Backend.Topic(ctx, topic)
		if err != nil {
			return err
		}
		_, high, err := m.Backend.Bounds(ctx, topic, t.Partitions[0])
		if err != nil {
			return err
		}
		results := make([]storage.Appended, len(events))
		for i := range results {
			results[i] = storage.Appended{Partition: t.Partitions[0], Offset: high + int64(i)}
		}
		done(results, nil)
		return good(ctx, topic, events, func([]storage.Appended, error) {})
	}
}

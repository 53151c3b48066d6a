package storagetest

import (
	"context"
	"errors"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
)

// onReopen and onCrash do something to the log when it is opened again.
func onReopen(f func(b *memory.Backend)) func(*Harness) {
	return func(h *Harness) { h.Reopen = meddling(h.Reopen, f) }
}

func onCrash(f func(b *memory.Backend)) func(*Harness) {
	return func(h *Harness) { h.CrashReopen = meddling(h.CrashReopen, f) }
}

func meddling(good func(T, storage.Backend) storage.Backend, f func(*memory.Backend)) func(T, storage.Backend) storage.Backend {
	return func(t T, b storage.Backend) storage.Backend {
		b = good(t, b)
		f(b.(*broken).Backend)
		return b
	}
}

// eachPartition calls f with every partition of a log and its bounds.
func eachPartition(b *memory.Backend, f func(topic, partition string, low, high int64)) {
	topics, _ := b.Topics(context.Background())
	for _, t := range topics {
		for _, p := range t.Partitions {
			low, high, _ := b.Bounds(context.Background(), t.Name, p)
			f(t.Name, p, low, high)
		}
	}
}

func seekAll(where func(low, high int64) int64) func(*memory.Backend) {
	return func(b *memory.Backend) {
		eachPartition(b, func(topic, partition string, low, high int64) {
			_ = b.Seek(context.Background(), topic, partition, where(low, high))
		})
	}
}

var cursorMutants = []mutant{
	{name: "takes an unknown cursor for 0", caught: "Cursor/UnknownAtFirst", says: "want unknown", breaks: func(m *broken) {
		good := m.cursor
		m.cursor = func(topic, partition string) (int64, bool) {
			next, _ := good(topic, partition)
			return next, true
		}
	}},
	{name: "starts an unknown cursor at the end", caught: "Cursor/UnknownAtFirst", says: "read 0 of", breaks: func(m *broken) {
		good := m.poll
		m.poll = func(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
			if _, ok := m.Backend.Cursor(req.Topic, req.Partition); !ok && req.Start == storage.Cursor {
				if _, high, err := m.Backend.Bounds(ctx, req.Topic, req.Partition); err == nil {
					_ = m.Backend.Seek(ctx, req.Topic, req.Partition, high) //nolint:staticcheck // that of the log, not of the mutant
				}
			}
			return good(ctx, req, batch)
		}
	}},
	{name: "lets a Poll under way overwrite Seek", caught: "Cursor/SeekUnderPoll", says: "Cursor", breaks: seekAfter(
		func(_ *broken, req storage.PollRequest, batch *storage.Batch) (int64, bool) {
			return batch.Next, req.Start == storage.Cursor && len(batch.Records) > 0
		})},
	{name: "seeks only up", caught: "Cursor/Seek", says: "Cursor", breaks: func(m *broken) {
		highest := int64(0)
		good := m.cursor
		m.cursor = func(topic, partition string) (int64, bool) {
			next, ok := good(topic, partition)
			highest = max(highest, next)
			return highest, ok
		}
	}},
	{name: "moves the cursor when a Poll fails", caught: "Cursor/NotMovedByFailure", says: "outside", breaks: answering(
		func(m *broken, req storage.PollRequest, _ *storage.Batch, err error) error {
			if errors.Is(err, context.Canceled) {
				next, _ := m.Backend.Cursor(req.Topic, req.Partition)
				_ = m.Backend.Seek(context.Background(), req.Topic, req.Partition, next+1) //nolint:staticcheck // that of the log, not of the mutant
			}
			return err
		})},
	{name: "forgets the cursor", caught: "Cursor/SurvivesReopen", says: "Cursor", bends: func(h *Harness) { h.Reopen = h.CrashReopen }},
	{name: "makes up a cursor", caught: "Cursor/SurvivesReopen", says: "Cursor", bends: onReopen(seekAll(func(low, _ int64) int64 { return low }))},
	{name: "does not save on Checkpoint", caught: "Cursor/Checkpoint", says: "Cursor", breaks: func(m *broken) {
		m.checkpoint = func(context.Context) error { return nil }
	}},
	{name: "skips to the end in a crash", caught: "Cursor/CrashNeverSkips", says: "before a crash", bends: onCrash(seekAll(func(_, high int64) int64 { return high }))},
	{name: "forgets the cursor of a checkpoint", caught: "Cursor/Checkpoint", says: "Cursor", bends: onCrash(seekAll(func(low, _ int64) int64 { return low }))},
}

// timing replaces what OffsetByTime answers.
func timing(f func(m *broken, topic, partition string, at time.Time, match storage.TimeMatch) (int64, error)) func(*broken) {
	return func(m *broken) {
		m.byTime = func(_ context.Context, topic, partition string, at time.Time, match storage.TimeMatch) (int64, error) {
			return f(m, topic, partition, at, match)
		}
	}
}

var boundsMutants = []mutant{
	{name: "has the last offset for a maximum", caught: "Bounds/AreExact", says: "the maximum is", breaks: func(m *broken) {
		good := m.bounds
		m.bounds = func(ctx context.Context, topic, partition string) (int64, int64, error) {
			low, high, err := good(ctx, topic, partition)
			return low, max(low, high-1), err
		}
	}},
	{name: "has a maximum too high", caught: "Bounds/AreExact", says: "the next record got", breaks: func(m *broken) {
		good := m.bounds
		m.bounds = func(ctx context.Context, topic, partition string) (int64, int64, error) {
			low, high, err := good(ctx, topic, partition)
			if high > 0 {
				high++
			}
			return low, high, err
		}
	}},
	{name: "has a minimum too high", caught: "Bounds/AreExact", says: "the minimum is", breaks: func(m *broken) {
		good := m.bounds
		m.bounds = func(ctx context.Context, topic, partition string) (int64, int64, error) {
			low, high, err := good(ctx, topic, partition)
			return min(low+1, high), high, err
		}
	}},
	{name: "takes unknown bounds for 0", caught: "Bounds/Missing", says: "want one that is", breaks: func(m *broken) {
		good := m.bounds
		m.bounds = func(ctx context.Context, topic, partition string) (int64, int64, error) {
			low, high, err := good(ctx, topic, partition)
			if errors.Is(err, storage.ErrPartitionNotFound) {
				err = nil
			}
			return low, high, err
		}
	}},
	{name: "has bounds in an empty partition", caught: "Bounds/Empty", says: "bounds of an empty", breaks: func(m *broken) {
		good := m.bounds
		m.bounds = func(ctx context.Context, topic, partition string) (int64, int64, error) {
			low, high, err := good(ctx, topic, partition)
			return low, high + 1, err
		}
	}},
	{name: "swaps nearest and at or after", caught: "Time/C72_EqualTimes", says: "nearest", breaks: timing(
		func(m *broken, topic, partition string, at time.Time, match storage.TimeMatch) (int64, error) {
			return m.Backend.OffsetByTime(context.Background(), topic, partition, at, 1-match)
		})},
	{name: "lands inside equal times", caught: "Time/C72_EqualTimes", says: "20 nearest", breaks: timing(
		func(m *broken, topic, partition string, at time.Time, match storage.TimeMatch) (int64, error) {
			next, err := m.Backend.OffsetByTime(context.Background(), topic, partition, at.Add(time.Millisecond), storage.AtOrAfter)
			return max(0, next-1), err
		})},
	{name: "goes to the beginning when nothing is newer", caught: "Time/C72_EqualTimes", says: "31", breaks: timing(beginningAfterAll)},
	{name: "goes to the beginning after all", caught: "Time/BeforeAndAfterAll", says: "after all", breaks: timing(beginningAfterAll)},
	{name: "goes to the last record after all", caught: "Time/BeforeAndAfterAll", says: "after all", breaks: timing(
		func(m *broken, topic, partition string, at time.Time, match storage.TimeMatch) (int64, error) {
			next, err := m.Backend.OffsetByTime(context.Background(), topic, partition, at, match)
			_, high, _ := m.Backend.Bounds(context.Background(), topic, partition)
			return max(0, min(next, high-1)), err
		})},
	{name: "cuts times to milliseconds", caught: "Time/C72_EqualTimes", says: "1 µs", breaks: timing(
		func(m *broken, topic, partition string, at time.Time, match storage.TimeMatch) (int64, error) {
			return m.Backend.OffsetByTime(context.Background(), topic, partition, at.Truncate(time.Millisecond), match)
		})},
	{name: "finds no offset in an empty partition", caught: "Time/EmptyPartition", says: "in an empty partition", breaks: timing(
		func(*broken, string, string, time.Time, storage.TimeMatch) (int64, error) { return -1, nil })},
}

// beginningAfterAll answers 0 where no record is as new.
func beginningAfterAll(m *broken, topic, partition string, at time.Time, match storage.TimeMatch) (int64, error) {
	next, err := m.Backend.OffsetByTime(context.Background(), topic, partition, at, match)
	if _, high, _ := m.Backend.Bounds(context.Background(), topic, partition); next == high {
		next = 0
	}
	return next, err
}

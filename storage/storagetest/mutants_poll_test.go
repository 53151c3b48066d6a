package storagetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
)

// asking replaces the request of every Poll.
func asking(change func(req *storage.PollRequest)) func(*broken) {
	return func(m *broken) {
		good := m.poll
		m.poll = func(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
			change(&req)
			return good(ctx, req, batch)
		}
	}
}

// answering changes the outcome of every Poll.
func answering(change func(m *broken, req storage.PollRequest, batch *storage.Batch, err error) error) func(*broken) {
	return func(m *broken) {
		good := m.poll
		m.poll = func(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
			return change(m, req, batch, good(ctx, req, batch))
		}
	}
}

// hiding makes an error an empty batch.
func hiding(hidden error) func(*broken) {
	return answering(func(_ *broken, _ storage.PollRequest, _ *storage.Batch, err error) error {
		if errors.Is(err, hidden) {
			return nil
		}
		return err
	})
}

// seekAfter sets the pull offset after every Poll that read.
func seekAfter(where func(m *broken, req storage.PollRequest, batch *storage.Batch) (int64, bool)) func(*broken) {
	return answering(func(m *broken, req storage.PollRequest, batch *storage.Batch, err error) error {
		if next, ok := where(m, req, batch); err == nil && ok {
			return m.Backend.Seek(context.Background(), req.Topic, req.Partition, next) //nolint:staticcheck // that of the log, not of the mutant
		}
		return err
	})
}

var pollMutants = []mutant{
	{name: "moves the cursor past unread records", caught: "Poll/OwnCursor", says: "Cursor", breaks: seekAfter(
		func(m *broken, req storage.PollRequest, _ *storage.Batch) (int64, bool) {
			_, high, _ := m.Backend.Bounds(context.Background(), req.Topic, req.Partition)
			return high, req.Start == storage.Cursor
		})},
	{name: "leaves the cursor behind", caught: "Poll/OwnCursor", says: "Cursor", breaks: seekAfter(
		func(_ *broken, req storage.PollRequest, batch *storage.Batch) (int64, bool) {
			return batch.Start, req.Start == storage.Cursor
		})},
	{name: "moves the cursor for explicit offsets", caught: "Poll/ExplicitLeavesCursor", says: "Cursor", breaks: seekAfter(
		func(_ *broken, _ storage.PollRequest, batch *storage.Batch) (int64, bool) { return batch.Next, true })},
	{name: "has Next at the last record", caught: "Poll/ExplicitOffset", says: "has Next", breaks: answering(
		func(_ *broken, _ storage.PollRequest, batch *storage.Batch, err error) error {
			if n := len(batch.Records); n > 0 {
				batch.Next = batch.Records[n-1].Offset
			}
			return err
		})},
	{name: "has Next one too far", caught: "Poll/ExplicitOffset", says: "read 44 of 50", breaks: answering(
		func(_ *broken, req storage.PollRequest, batch *storage.Batch, err error) error {
			if n := len(batch.Records); n > 0 && n == req.MaxRecords {
				batch.Next++
			}
			return err
		})},
	{name: "starts one too late", caught: "Poll/FromEveryOffset", says: "read 11 of 12", breaks: answering(
		func(_ *broken, _ storage.PollRequest, batch *storage.Batch, err error) error {
			if len(batch.Records) > 1 {
				batch.Records = batch.Records[1:]
			}
			return err
		})},
	{
		name: "waits for offset + 1", caught: "Poll/FromEveryOffset", says: "read 0 of",
		opts:   memory.Options{Gap: func(_, _ string, offset int64) int64 { return 1 + offset%3 }},
		breaks: answering(onlyExact),
	},
	{name: "calls every record plain", caught: "Frame/Own", says: "is called plain", breaks: answering(
		func(_ *broken, _ storage.PollRequest, batch *storage.Batch, err error) error {
			for i := range batch.Records {
				batch.Records[i].Plain = true
			}
			return err
		})},
	{name: "has the wrong Start", caught: "Poll/ExplicitOffset", says: "has Start", breaks: answering(
		func(_ *broken, _ storage.PollRequest, batch *storage.Batch, err error) error {
			batch.Start--
			return err
		})},
	{name: "ignores MaxRecords", caught: "Poll/MaxRecords", says: "MaxRecords was", breaks: asking(func(r *storage.PollRequest) { r.MaxRecords = 0 })},
	{name: "ignores MaxBytes", caught: "Poll/MaxBytes", says: "MaxBytes was", breaks: asking(func(r *storage.PollRequest) { r.MaxBytes = 0 })},
	{name: "never exceeds MaxBytes", caught: "Poll/MaxBytes", says: "read 0 of", breaks: answering(
		func(_ *broken, req storage.PollRequest, batch *storage.Batch, err error) error {
			if req.MaxBytes > 0 && frameBytes(batch) > req.MaxBytes {
				batch.Records, batch.Next = nil, batch.Start
			}
			return err
		})},
	{name: "reads nothing without bounds", caught: "Poll/Defaults", says: "read 0 of", breaks: answering(
		func(_ *broken, req storage.PollRequest, batch *storage.Batch, err error) error {
			if req.MaxRecords == 0 {
				batch.Records = nil
			}
			return err
		})},
	{name: "reads all partitions from one", caught: "Poll/PartitionsApart", says: "records of", breaks: asking(func(r *storage.PollRequest) {
		if r.Partition == "1" {
			r.Partition = "0"
		}
	})},
	{name: "finds nothing out of range", caught: "Poll/OutOfRange", says: "want a *RangeError", breaks: answering(
		func(_ *broken, _ storage.PollRequest, _ *storage.Batch, err error) error {
			var outside *storage.RangeError
			if errors.As(err, &outside) {
				return nil
			}
			return err
		})},
	{name: "moves a cursor out of range by itself", caught: "Poll/OutOfRange", says: "Cursor", breaks: answering(
		func(m *broken, req storage.PollRequest, _ *storage.Batch, err error) error {
			var outside *storage.RangeError
			if errors.As(err, &outside) && req.Start == storage.Cursor {
				_ = m.Backend.Seek(context.Background(), req.Topic, req.Partition, outside.Max) //nolint:staticcheck // that of the log, not of the mutant
			}
			return err
		})},
	{name: "tells other bounds", caught: "Poll/OutOfRange", says: "the error speaks of", breaks: answering(
		func(_ *broken, _ storage.PollRequest, _ *storage.Batch, err error) error {
			var outside *storage.RangeError
			if errors.As(err, &outside) {
				outside.Offset = 0
			}
			return err
		})},
	{name: "takes a missing partition for an empty one", caught: "Poll/Missing", says: "want one that is", breaks: hiding(storage.ErrPartitionNotFound)},
	{name: "takes a missing topic for an empty one", caught: "Topic/Missing", says: "want one that is", breaks: hiding(storage.ErrTopicNotFound)},
	{name: "leaves records after an error", caught: "Poll/Missing", says: "after an error", breaks: answering(
		func(_ *broken, _ storage.PollRequest, batch *storage.Batch, err error) error {
			if err != nil {
				batch.Records = make([]storage.Record, 1)
			}
			return err
		})},
	{name: "does not reset the batch", caught: "Batch/IsReset", says: "in a used batch", breaks: func(m *broken) {
		good := m.poll
		m.poll = func(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
			var fresh storage.Batch
			err := good(ctx, req, &fresh)
			batch.Records = append(batch.Records, fresh.Records...)
			batch.Start, batch.Next, batch.Buf = fresh.Start, fresh.Next, fresh.Buf
			return err
		}
	}},
	{name: "overwrites what it returned", caught: "Batch/StaysAsItIs", says: "a batch read earlier", breaks: func(m *broken) {
		var buf [1 << 16]byte
		answering(func(_ *broken, _ storage.PollRequest, batch *storage.Batch, err error) error {
			at := 0
			for i, r := range batch.Records {
				n := copy(buf[at:], r.Frame)
				batch.Records[i].Frame = buf[at : at+n : at+n]
				at += n
			}
			return err
		})(m)
	}},
	{name: "allocates every frame", caught: "Batch/FramesAreInBuf", says: "not a part of Buf", breaks: answering(
		func(_ *broken, _ storage.PollRequest, batch *storage.Batch, err error) error {
			for i, r := range batch.Records {
				batch.Records[i].Frame = slices.Clone(r.Frame)
			}
			return err
		})},
	{name: "skips at the end", caught: "Batch/EmptyAtEnd", says: "outside", breaks: answering(
		func(_ *broken, _ storage.PollRequest, batch *storage.Batch, err error) error {
			if err == nil && len(batch.Records) == 0 {
				batch.Next++
			}
			return err
		})},
	{name: "tells seconds for milliseconds", caught: "Batch/Time", says: "has the time", breaks: answering(
		func(_ *broken, _ storage.PollRequest, batch *storage.Batch, err error) error {
			for i := range batch.Records {
				batch.Records[i].Time /= 1000
			}
			return err
		})},
	{name: "skips a record now and then", caught: "Concurrent/ReadersSeeWhatWritersWrite", says: "has seen", breaks: answering(
		func(m *broken, _ storage.PollRequest, batch *storage.Batch, err error) error {
			if len(batch.Records) > 0 && m.every(7) {
				batch.Records = batch.Records[:len(batch.Records)-1]
			}
			return err
		})},
	{name: "repeats a record now and then", caught: "Concurrent/ReadersSeeWhatWritersWrite", says: "came after", breaks: answering(
		func(m *broken, _ storage.PollRequest, batch *storage.Batch, err error) error {
			if len(batch.Records) > 0 && m.every(7) {
				batch.Records = append(batch.Records, batch.Records[0])
			}
			return err
		})},
}

// onlyExact finds nothing where the next record is not at the start.
func onlyExact(_ *broken, req storage.PollRequest, batch *storage.Batch, err error) error {
	if req.Start >= 0 && len(batch.Records) > 0 && batch.Records[0].Offset != req.Start {
		batch.Records, batch.Next = nil, batch.Start
	}
	return err
}

var waitMutants = []mutant{
	{name: "does not wait", caught: "Wait/EndsEmpty", says: "records after", breaks: asking(func(r *storage.PollRequest) { r.Wait = 0 })},
	{name: "waits for ever", caught: "Wait/EndsEmpty", says: "Poll", breaks: asking(func(r *storage.PollRequest) { r.Wait = time.Hour })},
	{name: "takes the end of the wait for an error", caught: "Wait/EndsEmpty", says: "deadline", breaks: answering(
		func(_ *broken, req storage.PollRequest, batch *storage.Batch, err error) error {
			if err == nil && req.Wait > 0 && len(batch.Records) == 0 {
				return context.DeadlineExceeded
			}
			return err
		})},
	{name: "is not woken by a record", caught: "Wait/RecordWakes", says: "did not end within", breaks: asleep},
	{name: "does not see the context end", caught: "Wait/ContextWakes", says: "did not end within", breaks: func(m *broken) {
		good := m.poll
		m.poll = func(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
			return good(context.WithoutCancel(ctx), req, batch)
		}
	}},
	{name: "takes cancel for the end of the wait", caught: "Wait/ContextWakes", says: "want context.Canceled", breaks: hiding(context.Canceled)},
	{name: "is not woken by Close", caught: "Wait/CloseWakes", says: "did not end within", breaks: answering(
		func(_ *broken, req storage.PollRequest, _ *storage.Batch, err error) error {
			if errors.Is(err, storage.ErrClosed) {
				<-time.After(req.Wait)
			}
			return err
		})},
	{name: "takes Close for the end of the wait", caught: "Wait/CloseWakes", says: "want ErrClosed", breaks: hiding(storage.ErrClosed)},
	{name: "waits with a lock held", caught: "Wait/HoldsUpNobody", says: "Append has not returned", breaks: func(m *broken) {
		var mu sync.Mutex
		good, goodAppend := m.poll, m.append
		m.poll = func(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			return good(ctx, req, batch)
		}
		m.append = func(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
			mu.Lock()
			defer mu.Unlock()
			return goodAppend(ctx, topic, events, done)
		}
	}},
	{name: "is woken by other topics", caught: "Wait/HoldsUpNobody", says: "by what went on elsewhere", breaks: func(m *broken) {
		elsewhere := make(chan struct{}, 1000)
		good, goodAppend := m.poll, m.append
		m.poll = func(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			go func() {
				select {
				case <-elsewhere:
					cancel()
				case <-ctx.Done():
				}
			}()
			return good(ctx, req, batch)
		}
		m.append = func(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
			if m.n.Add(1) > 1 { // the first fills the topic itself
				elsewhere <- struct{}{}
			}
			return goodAppend(ctx, topic, events, done)
		}
	}},
	{name: "wakes one of many", caught: "Wait/ManyAreWoken", says: "did not end within", breaks: func(m *broken) {
		good := m.poll
		m.poll = func(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
			err := good(ctx, req, batch)
			if req.Wait > time.Second && m.n.Add(1) > 5 {
				<-time.After(req.Wait)
			}
			return err
		}
	}},
	{name: "waits for a topic that was deleted", caught: "Wait/DeleteUnderPoll", says: "want ErrTopicNotFound", breaks: hiding(storage.ErrTopicNotFound)},
}

// asleep looks for records only before and after the wait.
func asleep(m *broken) {
	good := m.poll
	m.poll = func(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
		wait := req.Wait
		req.Wait = 0
		err := good(ctx, req, batch)
		if err != nil || len(batch.Records) > 0 || wait == 0 {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		return good(ctx, req, batch)
	}
}

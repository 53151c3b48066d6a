package server

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server/dispatch"
	"github.com/ackmesh/ackmesh/storage"
)

// maxBacklogs bounds the subscribers of topics that are told apart.
const maxBacklogs = 1000

// maxEnds bounds the partitions and lite topics whose end is asked for at a time;
// the lag does not count those beyond.
const maxEnds = 10_000

// backlog is what is to be done still for one subscriber of a topic.
type backlog struct {
	topic, subscriber string
	lag, pending      int64
	unsure            bool           // the lag is not known
	paused            map[string]int // partitions that get nothing new, by what pauses them; nil: none
}

// pausedBy counts n partitions that something pauses; empty: nothing does.
func (b *backlog) pausedBy(what string, n int) {
	if what == "" {
		return
	}
	if b.paused == nil {
		b.paused = map[string]int{}
	}
	b.paused[what] += n
}

// readBacklogs reads the backlogs, by topic and subscriber. Beyond the first
// 1,000 they are told together, under the name dispatch.Other, and left is how
// many these are but one. With an error there may be a list: then it is why some
// of it is unsure.
func (s *Server) readBacklogs(ctx context.Context) (list []backlog, left int, err error) {
	bySub := map[offsetstore.Key]*backlog{} // Partition is empty
	r := backlogReader{s: s, ends: map[[2]string]int64{}, away: map[string]bool{}}
	err = s.core.store.Scan("", func(k offsetstore.Key, v offsetstore.Value) bool {
		id := offsetstore.Key{Topic: k.Topic, Subscriber: k.Subscriber}
		b := bySub[id]
		if b == nil {
			b = &backlog{topic: k.Topic, subscriber: k.Subscriber.String()}
			bySub[id] = b
		}
		return r.add(ctx, b, k, v)
	})
	if err = cmp.Or(err, r.err); err != nil {
		return nil, 0, err
	}
	list = make([]backlog, 0, len(bySub))
	for _, b := range bySub {
		list = append(list, *b)
	}
	slices.SortFunc(list, func(a, b backlog) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.subscriber, b.subscriber))
	})
	list, left = fold(list, maxBacklogs)
	return list, left, r.unsure
}

// fold joins what is beyond the first n into one.
func fold(list []backlog, n int) (kept []backlog, left int) {
	if len(list) <= n {
		return list, 0
	}
	other := backlog{topic: dispatch.Other, subscriber: dispatch.Other}
	for _, b := range list[n:] {
		other.lag += b.lag
		other.pending += b.pending
		other.unsure = other.unsure || b.unsure
		for by, n := range b.paused {
			other.pausedBy(by, n)
		}
	}
	return append(list[:n:n], other), len(list) - n - 1
}

// backlogReader reads each partition's end once.
type backlogReader struct {
	s      *Server
	ends   map[[2]string]int64
	away   map[string]bool // topics whose end could not be read
	unsure error           // why
	err    error
}

// add adds the backlog of one partition; false: it could not be read.
func (r *backlogReader) add(ctx context.Context, b *backlog, k offsetstore.Key, v offsetstore.Value) bool {
	switch end, known, err := r.end(ctx, k); {
	case ctx.Err() != nil:
		r.err = ctx.Err()
		return false
	case err != nil:
		b.unsure, r.unsure, r.away[k.Topic] = true, err, true
	case known:
		b.lag += max(0, end-v.Position)
	}
	live, ok, err := r.s.core.d.Live(ctx, k)
	switch {
	case err != nil:
		r.err = err
		return false
	case ok:
		b.pending += int64(live.InFlight + live.Waiting + live.Dying)
		b.pausedBy(live.PausedBy, 1)
	default:
		b.pending += unfinished(v)
	}
	return true
}

// end is the end of a partition; known is false where nobody can say.
func (r *backlogReader) end(ctx context.Context, k offsetstore.Key) (end int64, known bool, err error) {
	id := [2]string{k.Topic, k.Partition}
	if end, ok := r.ends[id]; ok {
		return end, end >= 0, nil
	}
	if r.away[k.Topic] {
		return 0, false, r.unsure // once is enough to wait for
	}
	if len(r.ends) >= maxEnds {
		return 0, false, nil
	}
	_, end, err = r.s.core.d.Bounds(ctx, k)
	switch {
	case errors.Is(err, storage.ErrTopicNotFound), errors.Is(err, storage.ErrPartitionNotFound), errors.Is(err, storage.ErrUnknown):
		end = -1
	case err != nil:
		return 0, false, err
	}
	r.ends[id] = end
	return end, end >= 0, nil
}

// unfinished is how many records were delivered and not finished, of a
// subscriber that has no stream here.
func unfinished(v offsetstore.Value) int64 {
	n := v.High - v.Position
	for _, f := range v.Finished {
		if f.First < v.High {
			n -= min(f.Last+1, v.High) - f.First
		}
	}
	return max(0, n)
}

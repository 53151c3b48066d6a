package kafka

import (
	"context"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/internal/remnants"
)

// prefetch is a fetch of what comes behind a remnant, under way before it is
// asked for.
type prefetch struct {
	start int64
	done  chan struct{} // closed when the chunk is among the remnants, or there is none
}

// prefetch begins to fetch what comes behind a chunk, once half of it is used up,
// by one who reads at the pull offset and fast enough that it will not have
// grown old. One that fails is not told: whoever reads on fetches again.
func (r *reading) prefetch(c *chunk) {
	l, p := r.l, r.at.partition
	n := l.opts.FetchBytes
	fast := r.req.Start == storage.Cursor && time.Since(c.began) < remnants.Age/2
	if !fast || r.at.leader == "" || c.size > int64(n)/2 || p.seen.Load() <= c.next || l.states.ahead.Load() >= aheadBytes {
		return
	}
	f, epoch := p.expect(c.next)
	if f == nil {
		return
	}
	ctx, leave, err := l.enter(l.gate.Ending())
	if err != nil {
		p.came(f, epoch, nil)
		return
	}
	at := r.at
	go func() {
		defer leave()
		l.states.ahead.Add(int64(n))
		defer l.states.ahead.Add(-int64(n))
		next, err := l.fetch(ctx, at.leader, &at, f.start, n, 0)
		if err != nil {
			next = nil
		}
		p.came(f, epoch, next)
	}()
}

// expect notes a fetch from start on; nil: one is under way, or what it would
// bring is there.
func (p *partition) expect(start int64) (f *prefetch, epoch int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.coming != nil || p.ended || p.remnants.Holds(start) {
		return nil, 0
	}
	p.coming = &prefetch{start: start, done: make(chan struct{})}
	return p.coming, p.epoch
}

// came ends a fetch, and keeps what it brought unless the remnants were dropped
// since it began.
func (p *partition) came(f *prefetch, epoch int, c *chunk) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.coming = nil
	if c != nil && len(c.pieces) > 0 && epoch == p.epoch {
		p.keep(c)
	}
	close(f.done)
}

// takeComing is take, and waits for a fetch that is under way.
func (p *partition) takeComing(ctx context.Context, start int64) *chunk {
	if c := p.take(start); c != nil {
		return c
	}
	p.mu.Lock()
	f := p.coming
	p.mu.Unlock()
	if f == nil || f.start != start {
		return nil
	}
	select {
	case <-f.done:
		return p.take(start)
	case <-ctx.Done():
		return nil // so the fetch that follows tells
	}
}

package ackmesh

import (
	"context"
	"slices"
	"sync"
)

// queue holds the received batches until they are taken: whole by Recv, or
// delivery by delivery by the workers of Subscribe. What it holds is bounded by the
// mesh's windows. It never blocks the reader.
type queue struct {
	mu     sync.Mutex
	ready  sync.Cond
	items  []*Batch
	idle   int // who waits
	closed bool
}

func newQueue() *queue {
	q := &queue{}
	q.ready.L = &q.mu
	return q
}

// put adds a batch, and reports false if the queue is closed.
func (q *queue) put(b *Batch) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.items = append(q.items, b)
	for range min(b.Len(), q.idle) {
		q.ready.Signal()
	}
	return true
}

// wait waits to be woken. The caller holds mu.
func (q *queue) wait() {
	q.idle++
	q.ready.Wait()
	q.idle--
}

// pop takes the first batch. It waits for one until ctx ends, or the queue is
// closed: then it returns nil.
func (q *queue) pop(ctx context.Context) *Batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 && !q.closed && ctx.Err() == nil {
		stop := context.AfterFunc(ctx, q.wakeAll)
		defer stop()
	}
	for len(q.items) == 0 && !q.closed && ctx.Err() == nil {
		q.wait()
	}
	if len(q.items) == 0 || ctx.Err() != nil {
		q.ready.Signal() // it may be us who was woken for what is there
		return nil
	}
	b := q.items[0]
	q.items = slices.Delete(q.items, 0, 1)
	return b
}

func (q *queue) wakeAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ready.Broadcast()
}

// share returns the first batch with deliveries that nobody has claimed, with a
// reference to it, and waits for one. done is the batch that the caller held and
// found exhausted; its reference ends. nil: the queue is closed.
func (q *queue) share(done *Batch) *Batch {
	b := q.shareHead(done)
	if done != nil {
		done.unref(1)
	}
	return b
}

func (q *queue) shareHead(done *Batch) *Batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	if done != nil && len(q.items) > 0 && q.items[0] == done {
		q.items = slices.Delete(q.items, 0, 1)
	}
	for len(q.items) == 0 && !q.closed {
		q.wait()
	}
	if q.closed {
		return nil
	}
	b := q.items[0]
	b.refs.Add(1)
	return b
}

// rest is what nobody has claimed of a batch: indexes from to to-1. Whoever has it
// has the references that go with it.
type rest struct {
	*Batch
	from, to int
}

// clear takes all batches out and claims what nobody has.
func (q *queue) clear() []rest {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.claimAll()
}

// claimAll is clear under mu. It must be under mu: a worker gives up its reference
// to an exhausted batch only after it has seen, under mu, that the batch is out.
func (q *queue) claimAll() []rest {
	var left []rest
	for _, b := range q.items {
		if from, to := b.claimRest(); from < to {
			left = append(left, rest{b, from, to})
		}
	}
	q.items = nil
	return left
}

// close is clear, and lets nobody wait any more.
func (q *queue) close() []rest {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.ready.Broadcast()
	return q.claimAll()
}

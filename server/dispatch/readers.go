package dispatch

import (
	"context"
	"sync"

	"github.com/ackmesh/ackmesh/storage"
)

// readerPool does blocking work of the loops: a fixed number of goroutines and a queue, whose length
// each partition bounds for itself.
type readerPool struct {
	mu     sync.Mutex
	cond   *sync.Cond
	queue  []func(context.Context)
	closed bool
	wg     sync.WaitGroup
	cancel context.CancelFunc
}

func (r *readerPool) start(n int) {
	r.cond = sync.NewCond(&r.mu)
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	for range n {
		r.wg.Add(1)
		go func() {
			defer r.wg.Done()
			for {
				job, ok := r.next()
				if !ok {
					return
				}
				job(ctx)
			}
		}()
	}
}

// next waits for work; ok is false once the pool is stopped.
func (r *readerPool) next() (job func(context.Context), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) == 0 && !r.closed {
		r.cond.Wait()
	}
	if r.closed {
		return nil, false
	}
	job = r.queue[0]
	r.queue[0] = nil
	r.queue = r.queue[1:]
	return job, true
}

// do queues a job.
func (r *readerPool) do(job func(context.Context)) {
	r.mu.Lock()
	r.queue = append(r.queue, job)
	r.mu.Unlock()
	r.cond.Signal()
}

// catchUp queues a read for a partition; the outcome is posted to its loop.
func (d *Dispatcher) catchUp(l *loop, req storage.PollRequest) {
	d.readers.do(func(ctx context.Context) { d.read(ctx, l, req, d.newBatch()) })
}

func (r *readerPool) stop() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cond.Broadcast()
	r.cancel()
	r.wg.Wait()
}

// Package gate counts the calls of a log that are under way, and ends them
// with it.
package gate

import (
	"context"
	"errors"
	"sync"

	"github.com/ackmesh/ackmesh/storage"
)

// Gate lets calls in until it is shut. To close a log is Shut, End and Wait,
// with whatever belongs between them.
type Gate struct {
	closed error
	ending context.Context // ends with End
	end    context.CancelFunc

	mu    sync.Mutex // guards shut, and calls.Add against Shut
	shut  bool
	calls sync.WaitGroup
}

// New makes a gate that is open. Once it is shut calls get the error closed,
// which wraps storage.ErrClosed and says which log.
func New(closed error) *Gate {
	g := &Gate{closed: closed}
	g.ending, g.end = context.WithCancel(context.Background())
	return g
}

// Enter begins a call; where it returns no error, leave must follow. inner ends
// with ctx, and with End.
func (g *Gate) Enter(ctx context.Context) (inner context.Context, leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return nil, nil, g.closed
	}
	g.calls.Add(1)
	inner, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(g.ending, cancel)
	return inner, func() {
		stop()
		cancel()
		g.calls.Done()
	}, nil
}

// Outcome is the error of a call that has entered. One that has ended early is
// told apart by why: its caller gave up, or the log was closed.
func (g *Gate) Outcome(caller context.Context, err error) error {
	early := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, storage.ErrClosed)
	switch {
	case !early:
		return err
	case caller.Err() != nil:
		return caller.Err()
	case g.ending.Err() != nil:
		return g.closed
	}
	return err
}

// Shut lets no more calls in; those under way go on. first tells whether it was
// open.
func (g *Gate) Shut() (first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	first = !g.shut
	g.shut = true
	return first
}

// End ends the contexts of the calls under way, and Ending.
func (g *Gate) End() { g.end() }

// Ending ends with End.
func (g *Gate) Ending() context.Context { return g.ending }

// Wait returns when all calls have left. The gate must be shut.
func (g *Gate) Wait() { g.calls.Wait() }

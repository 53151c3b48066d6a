// Package traffic publishes and subscribes on a mesh that is killed under it,
// and records all of it as a trace. Its clients work on the plain wire, so that
// they show the mesh and not a client library.
package traffic

import (
	"context"
	"sync"
)

// Gate keeps clients waiting while there is no server. It begins shut. Its
// methods may be called concurrently.
type Gate struct {
	mu sync.Mutex
	up chan struct{} // closed while it is open
}

// NewGate is a gate that is shut.
func NewGate() *Gate { return &Gate{up: make(chan struct{})} }

// Open lets everyone through.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.up)
}

// Shut lets nobody through any more.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.up = make(chan struct{})
}

// Wait waits until the gate is open.
func (g *Gate) Wait(ctx context.Context) error {
	g.mu.Lock()
	up := g.up
	g.mu.Unlock()
	select {
	case <-up:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

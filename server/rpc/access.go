package rpc

import (
	"context"
	"fmt"
	"sync"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server/dispatch"
)

// Authorizer finds out who makes a data call. It is asked once for each call or
// stream. A nil Authorizer, and a nil Caller, allow everything.
type Authorizer func(ctx context.Context) Caller

// Caller says what may be done on behalf of one call or stream. Its methods may
// be called concurrently and must be quick; what they return is the status that
// the client gets.
type Caller interface {
	// Name is that of the caller's token.
	Name() string
	// Publish tells whether events may be published to a topic.
	Publish(topic string) error
	// Client tells whether the stream may be that of a client id.
	Client(id string) error
	// Subscribe tells whether the client may subscribe to a topic on its own.
	Subscribe(client, topic string) error
	// Join tells whether the client may subscribe to a topic in a share; empty:
	// the topic's default share.
	Join(client, topic, share string) error
	// Changed is closed when the answers may have changed since it was called.
	Changed() <-chan struct{}
}

// caller is who makes the call of ctx; nil: nobody is asked.
func (e *EventMesh) caller(ctx context.Context) Caller {
	if e.authorize == nil {
		return nil
	}
	return e.authorize(ctx)
}

// access is what one Subscribe stream was allowed, so that it can be asked for
// again when that changes.
type access struct {
	who    Caller // nil: everything is allowed
	client string

	mu   sync.Mutex
	held map[*place]struct{}
}

// place is what a subscription is checked by.
type place struct {
	id    uint32
	topic string
	sub   offsetstore.Subscriber
}

func newAccess(who Caller, client string) *access {
	return &access{who: who, client: client, held: map[*place]struct{}{}}
}

// open tells whether the stream may be its client's.
func (a *access) open() error {
	if a.who == nil {
		return nil
	}
	return a.who.Client(a.client)
}

// admit tells whether the stream may have a subscription, and from then on
// asks for it at each recheck. It is noted first, so that none is missed. forget
// must follow if the subscription comes to nothing.
func (a *access) admit(spec *dispatch.Subscription) (*place, error) {
	if a.who == nil {
		return nil, nil
	}
	p := &place{spec.ID, spec.Topic, spec.Subscriber}
	a.mu.Lock()
	a.held[p] = struct{}{}
	a.mu.Unlock()
	err := a.check(p)
	if err != nil {
		a.forget(p)
	}
	return p, err
}

func (a *access) check(p *place) error {
	if p.sub.Kind == offsetstore.KindShare {
		return a.who.Join(a.client, p.topic, p.sub.Name)
	}
	return a.who.Subscribe(a.client, p.topic)
}

// forget takes back what admit noted.
func (a *access) forget(p *place) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.held, p)
}

// drop notes that a subscription has ended.
func (a *access) drop(id uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p := range a.held {
		if p.id == id {
			delete(a.held, p)
		}
	}
}

// changed is closed when recheck is due; nil: never.
func (a *access) changed() <-chan struct{} {
	if a.who == nil {
		return nil
	}
	return a.who.Changed()
}

// recheck tells whether all that the stream has is still allowed.
func (a *access) recheck() error {
	if err := a.open(); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for p := range a.held {
		if err := a.check(p); err != nil {
			return fmt.Errorf("subscription %d: %w", p.id, err)
		}
	}
	return nil
}

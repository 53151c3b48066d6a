package auth

import (
	"context"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/metadata"
)

// Caller is who makes a call or has a stream. It asks for its grant anew at each
// check, so that a token that was changed or taken away by a Reload is so for
// streams that live already. Its methods may be called concurrently; their
// errors are *Error.
type Caller struct {
	k    *Keeper
	hash Hash
	name string
	seen atomic.Pointer[sighting]
}

// sighting is a caller's grant in one set.
type sighting struct {
	in    *set
	grant *Grant // nil: none
}

// Authenticate reads the bearer token of an incoming call.
func (k *Keeper) Authenticate(ctx context.Context) (*Caller, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	values := md.Get("authorization")
	if len(values) != 1 {
		return nil, noToken()
	}
	return k.authenticate(values[0])
}

// AuthenticateHeader is Authenticate for the value of an HTTP Authorization
// header.
func (k *Keeper) AuthenticateHeader(header string) (*Caller, error) { return k.authenticate(header) }

func (k *Keeper) authenticate(header string) (*Caller, error) {
	const scheme = "bearer "
	if len(header) <= len(scheme) || !strings.EqualFold(header[:len(scheme)], scheme) {
		return nil, noToken()
	}
	token := strings.TrimSpace(header[len(scheme):])
	g, ok := k.Find(token)
	if !ok {
		return nil, unknownToken()
	}
	return &Caller{k: k, hash: g.Hash, name: g.Name}, nil
}

// Name is that of the caller's token.
func (c *Caller) Name() string { return c.name }

// grant is the caller's grant as of now.
func (c *Caller) grant() (*Grant, error) {
	in := c.k.set.Load()
	v := c.seen.Load()
	if v == nil || v.in != in {
		g, ok := in.find(c.hash)
		if !ok {
			g = nil
		}
		v = &sighting{in: in, grant: g}
		c.seen.Store(v)
	}
	if v.grant == nil {
		return nil, unknownToken()
	}
	return v.grant, nil
}

// having is the caller's grant, which must have a role.
func (c *Caller) having(need Role) (*Grant, error) {
	g, err := c.grant()
	if err != nil {
		return nil, err
	}
	if !g.Roles.has(need) {
		return nil, lacksRole(g, need)
	}
	return g, nil
}

// Role tells whether the caller has a role; 0 is none in particular.
func (c *Caller) Role(need Role) error {
	_, err := c.having(need)
	return err
}

// Publish tells whether the caller may publish to a topic.
func (c *Caller) Publish(topic string) error {
	g, err := c.having(RolePublish)
	if err != nil {
		return err
	}
	if !g.Topics.Match(topic) {
		return lacksPattern(g, inTopics, topic)
	}
	return nil
}

// Client tells whether the caller may be the client of that id.
func (c *Caller) Client(id string) error {
	g, err := c.having(RoleSubscribe)
	if err != nil {
		return err
	}
	if !g.Clients.Match(id) {
		return lacksPattern(g, inClients, id)
	}
	return nil
}

// Subscribe tells whether the caller, as the client of that id, may subscribe to
// a topic on its own.
func (c *Caller) Subscribe(client, topic string) error {
	if err := c.Client(client); err != nil {
		return err
	}
	g, err := c.grant()
	if err != nil {
		return err
	}
	if !g.Topics.Match(topic) {
		return lacksPattern(g, inTopics, topic)
	}
	return nil
}

// Join tells whether the caller, as the client of that id, may subscribe to a
// topic in a share; the empty share is the topic's default share.
func (c *Caller) Join(client, topic, share string) error {
	if err := c.Subscribe(client, topic); err != nil {
		return err
	}
	g, err := c.grant()
	if err != nil {
		return err
	}
	if !g.Shares.Match(share) {
		return lacksPattern(g, inShares, share)
	}
	return nil
}

// Changed is closed when answers may have changed since it was called.
func (c *Caller) Changed() <-chan struct{} { return c.k.Changed() }

type callerKey struct{}

// With puts the caller into the context of its call.
func With(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// From is the caller of a call; nil where none was asked for.
func From(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

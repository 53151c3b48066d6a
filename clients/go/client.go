package ackmesh

import (
	"context"
	"sync"
)

// Client is a connection to the mesh: a publisher, and any number of
// subscriptions. Make it with New; close it with Close. All methods may be called
// concurrently.
type Client struct {
	cfg   Config
	conns *conns
	ids   *ids
	pub   *publisher

	// closing ends when Close begins, cut when its time is over.
	closing, cut       context.Context
	startClose, cutOff context.CancelFunc

	mu      sync.Mutex
	closed  bool
	streams sync.WaitGroup // of Streams and Subscribe calls; added to under mu
}

// New returns a Client. It checks cfg and connects to nothing: connections are
// made when they are needed, and made again when they break.
func New(cfg Config) (*Client, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, conns: newConns(&cfg), ids: newIDs()}
	c.closing, c.startClose = context.WithCancel(context.Background())
	c.cut, c.cutOff = context.WithCancel(context.Background())
	c.pub = newPublisher(c)
	return c, nil
}

// Dial is New, and makes sure that an instance answers: it asks each address once
// where to go. It returns the error of the last one if none answers before ctx
// ends.
func Dial(ctx context.Context, cfg Config) (*Client, error) {
	c, err := New(cfg)
	if err != nil {
		return nil, err
	}
	p, err := c.newSeeker(nil).ask(ctx)
	if err != nil {
		c.startClose()
		c.cutOff()
		return nil, err
	}
	p.release()
	return c, nil
}

// Close is Shutdown with Config.CloseTimeout.
func (c *Client) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.CloseTimeout)
	defer cancel()
	return c.Shutdown(ctx)
}

// Shutdown ends everything in order: no new publishes are taken and those taken
// are answered; subscriptions take nothing new, their handlers finish, their acks
// are confirmed. When ctx ends first, what is left is cut off, and ctx's error is
// returned: publishes not answered fail with ErrClosed, what was not acked comes
// again. It returns after every goroutine of the Client has ended; handlers that
// ignore the end of their context hold it up.
func (c *Client) Shutdown(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.startClose()
	stop := context.AfterFunc(ctx, c.cutOff)
	c.streams.Wait()
	c.pub.close()
	inTime := stop()
	c.cutOff()
	c.conns.close()
	if !inTime {
		return ctx.Err()
	}
	return nil
}

// enter counts a stream in; leave counts it out.
func (c *Client) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.streams.Add(1)
	return nil
}

func (c *Client) leave() { c.streams.Done() }

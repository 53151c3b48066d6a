package fakebroker

import (
	"context"

	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// Fault changes what requests are answered. It holds until Remove.
type Fault struct {
	// Code and Topic say which requests; 0 and empty: all.
	Code  int
	Topic string
	// Count is how many of them; 0: all.
	Count int
	// Before is called before the request is served, and may wait for ctx, which
	// ends with the connection. A response of its own is sent instead; nil: the
	// request is served.
	Before func(ctx context.Context, req *remoting.Command) *remoting.Command
	// After may change the response.
	After func(req, res *remoting.Command)

	c    *Cluster
	hits int
	hit  chan struct{} // closed and replaced with each hit
}

// Fault adds a fault.
func (c *Cluster) Fault(f Fault) *Fault {
	f.c, f.hit = c, make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, &f)
	return &f
}

// Remove ends the fault.
func (f *Fault) Remove() {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	for i, other := range f.c.faults {
		if other == f {
			f.c.faults = append(f.c.faults[:i:i], f.c.faults[i+1:]...)
			return
		}
	}
}

// Wait waits until the fault has met so many requests.
func (f *Fault) Wait(ctx context.Context, n int) error {
	for {
		f.c.mu.Lock()
		hits, hit := f.hits, f.hit
		f.c.mu.Unlock()
		if hits >= n {
			return nil
		}
		select {
		case <-hit:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// topicOf is the topic of a request.
func topicOf(req *remoting.Command) string {
	if t, ok := req.Fields["topic"]; ok {
		return t
	}
	return req.Fields["b"]
}

// faultFor finds the fault that a request meets.
func (c *Cluster) faultFor(req *remoting.Command) *Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[req.Code]++
	for _, f := range c.faults {
		if f.Code != 0 && f.Code != req.Code || f.Topic != "" && f.Topic != topicOf(req) || f.Count > 0 && f.hits >= f.Count {
			continue
		}
		f.hits++
		close(f.hit)
		f.hit = make(chan struct{})
		return f
	}
	return nil
}

// serve answers a request, with the faults that it meets.
func (c *Cluster) serve(ctx context.Context, req *remoting.Command, handle func(context.Context, *remoting.Command) *remoting.Command) *remoting.Command {
	f := c.faultFor(req)
	var res *remoting.Command
	if f != nil && f.Before != nil {
		res = f.Before(ctx, req)
	}
	if res == nil {
		res = handle(ctx, req)
	}
	if f != nil && f.After != nil {
		f.After(req, res)
	}
	return res
}

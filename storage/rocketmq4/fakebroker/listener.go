package fakebroker

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"

	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// handler answers a request. ctx ends with its connection.
type handler func(ctx context.Context, req *remoting.Command) *remoting.Command

// listener serves connections until it is stopped.
type listener struct {
	addr   string
	nl     net.Listener
	handle handler
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func (c *Cluster) listen(addr string, handle handler) (*listener, error) {
	open := net.Listen
	if c.opts.Pipes != nil {
		open = c.opts.Pipes.Listen
	}
	nl, err := open("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("fake broker: %w", err)
	}
	l := &listener{addr: nl.Addr().String(), nl: nl, handle: handle}
	if c.opts.TLS != nil {
		l.nl = tls.NewListener(nl, c.opts.TLS)
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.wg.Go(l.accept)
	return l, nil
}

// stop cuts all connections and waits for what was under way.
func (l *listener) stop() error {
	first := l.ctx.Err() == nil
	l.cancel()
	err := l.nl.Close()
	l.wg.Wait()
	if !first {
		return nil
	}
	return err
}

func (l *listener) accept() {
	for {
		nc, err := l.nl.Accept()
		if err != nil {
			return // it is closed
		}
		l.wg.Go(func() { l.connection(nc) })
	}
}

// connection serves one connection: each request in a goroutine of its own, so
// in no order.
func (l *listener) connection(nc net.Conn) {
	ctx, cancel := context.WithCancel(l.ctx)
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() }) // its readers learn of it
	var wg sync.WaitGroup
	var mu sync.Mutex // writes whole frames
	r := bufio.NewReader(nc)
	for {
		req, err := remoting.Read(r)
		if err != nil {
			break
		}
		wg.Go(func() {
			res := l.handle(ctx, &req)
			if res == nil || req.OneWay || ctx.Err() != nil { // one that is stopped says nothing more
				return
			}
			res.Response, res.Opaque = true, req.Opaque
			b, err := res.Append(nil)
			if err != nil {
				cancel()
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if _, err := nc.Write(b); err != nil {
				cancel()
			}
		})
	}
	cancel()
	wg.Wait()
	stop()
	_ = nc.Close() // at most a second time
}

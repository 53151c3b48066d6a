package fakebroker

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// Pipes is a network within the process, for tests in fake time: whoever waits
// on it lets time pass, which is not so with TCP. The zero value is ready for
// use.
type Pipes struct {
	mu        sync.Mutex // guards what follows
	listeners map[string]*pipeListener
	ports     int
}

// pipeListener is a listener of the network.
type pipeListener struct {
	p      *Pipes
	addr   pipeAddr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

type pipeAddr string

// Network implements net.Addr.
func (a pipeAddr) Network() string { return "pipe" }

// String implements net.Addr.
func (a pipeAddr) String() string { return string(a) }

// Listen listens at an address; port 0 is a free one.
func (p *Pipes) Listen(_, addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if port == "0" {
		p.ports++
		addr = net.JoinHostPort(host, fmt.Sprint(p.ports))
	}
	if p.listeners[addr] != nil {
		return nil, fmt.Errorf("address %s is in use", addr)
	}
	if p.listeners == nil {
		p.listeners = map[string]*pipeListener{}
	}
	l := &pipeListener{p: p, addr: pipeAddr(addr), conns: make(chan net.Conn), closed: make(chan struct{})}
	p.listeners[addr] = l
	return l, nil
}

// Dial connects to a listener.
func (p *Pipes) Dial(ctx context.Context, _, addr string) (net.Conn, error) {
	p.mu.Lock()
	l := p.listeners[addr]
	p.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("nobody listens at %s", addr)
	}
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, fmt.Errorf("nobody listens at %s any more", addr)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *pipeListener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.p.mu.Lock()
		delete(l.p.listeners, string(l.addr))
		l.p.mu.Unlock()
	})
	return nil
}

// Addr implements net.Listener.
func (l *pipeListener) Addr() net.Addr { return l.addr }

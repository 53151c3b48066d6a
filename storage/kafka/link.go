package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"github.com/ackmesh/ackmesh/storage"
)

const (
	// linkIdle is how long a connection is kept that nobody uses.
	linkIdle = 30 * time.Second
	// linksKept bounds the unused connections to one broker.
	linksKept = 64
)

// link is a connection to one broker, used by one call at a time. A call that
// waits at the broker so holds up nobody else: brokers answer what came over
// one connection in turn.
type link struct {
	addr   string
	opts   *Options
	dialer *dialer
	broker *sarama.Broker
	idle   time.Time // since when nobody uses it
	broken bool

	fetchMax    int16     // newest form of the fetch request that the broker takes; 0: not asked yet
	asked       time.Time // when it was asked
	correlation int32     // of the last fetch
	request     []byte    // memory for the next one
}

// do makes one call, which ends with ctx at the latest: the connection is then
// cut. Errors are ctx.Err(), or what the connection says wrapped in
// storage.ErrUnavailable.
func (k *link) do(ctx context.Context, call func(*link) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, k.dialer.cut)
	err := call(k)
	if !stop() {
		k.broken = true
		return ctx.Err()
	}
	if err != nil {
		k.broken = true
		return k.explain(err)
	}
	return nil
}

// explain says what a failed call means.
func (k *link) explain(err error) error {
	var decoding sarama.PacketDecodingError
	switch {
	case errors.Is(err, storage.ErrCorrupt):
		return fmt.Errorf("kafka: broker %s sent what cannot be read: %w", k.addr, err)
	case errors.As(err, &decoding):
		return fmt.Errorf("kafka: broker %s sent what cannot be read: %w: %w", k.addr, storage.ErrCorrupt, err)
	case errors.Is(err, sarama.ErrUnsupportedVersion):
		return fmt.Errorf("kafka: broker %s is too old for what was asked of it: %w", k.addr, err)
	case errors.Is(err, sarama.ErrSASLAuthenticationFailed), errors.Is(err, sarama.ErrUnsupportedSASLMechanism):
		return fmt.Errorf("kafka: broker %s refused the login, check kafka.sasl: %w: %w", k.addr, storage.ErrUnavailable, err)
	}
	return fmt.Errorf("kafka: broker %s: %w: %w", k.addr, storage.ErrUnavailable, err)
}

// close ends the connection at once.
func (k *link) close() {
	k.dialer.cut()
	_ = k.broker.Close() // it is cut already: the error says so
}

// links holds the connections that nobody uses just now.
type links struct {
	opts Options

	mu     sync.Mutex // guards what follows
	unused map[string][]*link
	closed bool
}

func newLinks(opts Options) *links { return &links{opts: opts, unused: map[string][]*link{}} }

// take returns a connection to a broker that is the caller's until give. It
// may only be under way: the first call then fails where the broker is not
// reached.
func (p *links) take(addr string) (*link, error) {
	p.mu.Lock()
	list := p.unused[addr]
	if n := len(list); n > 0 {
		k := list[n-1]
		p.unused[addr] = list[:n-1]
		p.mu.Unlock()
		return k, nil
	}
	p.mu.Unlock()
	return p.open(addr)
}

func (p *links) open(addr string) (*link, error) {
	k := &link{addr: addr, opts: &p.opts, dialer: newDialer(p.opts), broker: sarama.NewBroker(addr)}
	if err := k.broker.Open(p.opts.config(k.dialer)); err != nil {
		k.dialer.cut()
		return nil, fmt.Errorf("kafka: broker %s: %w", addr, err)
	}
	return k, nil
}

// give takes a connection back.
func (p *links) give(k *link) {
	k.idle = time.Now()
	p.mu.Lock()
	keep := !k.broken && !p.closed && len(p.unused[k.addr]) < linksKept
	if keep {
		p.unused[k.addr] = append(p.unused[k.addr], k)
	}
	p.mu.Unlock()
	if !keep {
		k.close()
	}
}

// call makes one call to a broker, within RequestTimeout. A connection that
// was unused may have been closed by the broker: the call is then made again
// on a new one, unless it was answered with what cannot be read. It must be one
// that does no harm twice.
func (p *links) call(ctx context.Context, addr string, call func(*sarama.Broker) error) error {
	return p.callWithin(ctx, addr, p.opts.RequestTimeout, call)
}

func (p *links) callWithin(ctx context.Context, addr string, timeout time.Duration, call func(*sarama.Broker) error) error {
	return p.useWithin(ctx, addr, timeout, func(k *link) error { return call(k.broker) })
}

func (p *links) useWithin(ctx context.Context, addr string, timeout time.Duration, call func(*link) error) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		k, err := p.take(addr)
		if err != nil {
			return err
		}
		used := !k.idle.IsZero()
		err = k.do(limited, call)
		p.give(k)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if limited.Err() != nil {
			err = fmt.Errorf("kafka: broker %s gave no answer within %v: %w", addr, timeout, storage.ErrUnavailable)
		}
		if !used || limited.Err() != nil || errors.Is(err, storage.ErrCorrupt) {
			p.opts.Observe.BrokerFailed(addr, err)
			return err
		}
	}
}

// once makes one call on a connection of its own: one that must not be made
// twice.
func (p *links) once(ctx context.Context, addr string, call func(*sarama.Broker) error) error {
	limited, cancel := context.WithTimeout(ctx, p.opts.RequestTimeout)
	defer cancel()
	k, err := p.open(addr)
	if err != nil {
		return err
	}
	defer k.close()
	err = k.do(limited, func(k *link) error { return call(k.broker) })
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		err = fmt.Errorf("kafka: broker %s gave no answer within %v: %w", addr, p.opts.RequestTimeout, storage.ErrUnavailable)
	}
	return err
}

// expire closes what nobody has used for long.
func (p *links) expire(now time.Time) {
	var old []*link
	p.mu.Lock()
	for addr, list := range p.unused {
		n := 0
		for n < len(list) && now.Sub(list[n].idle) > linkIdle {
			n++
		}
		old = append(old, list[:n]...)
		if n == len(list) {
			delete(p.unused, addr)
		} else if n > 0 {
			p.unused[addr] = append([]*link(nil), list[n:]...)
		}
	}
	p.mu.Unlock()
	closeAll(old)
}

// close closes what nobody uses, and later what is given back.
func (p *links) close() {
	p.mu.Lock()
	p.closed = true
	var all []*link
	for _, list := range p.unused {
		all = append(all, list...)
	}
	clear(p.unused)
	p.mu.Unlock()
	closeAll(all)
}

func closeAll(list []*link) {
	for _, k := range list {
		k.close()
	}
}

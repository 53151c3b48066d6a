package remoting

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Options of a Client. NameServers is needed; the rest has defaults.
type Options struct {
	// NameServers are addresses as host:port, one at least.
	NameServers []string
	// Credentials sign every request; nil: nothing is signed.
	Credentials *Credentials
	// TLS secures the connections; nil: plain TCP. An empty ServerName means
	// the host of each address.
	TLS *tls.Config
	// RequestTimeout is how long a peer may take for one answer, beside what
	// it is asked to wait. Default 10 s.
	RequestTimeout time.Duration
	// DialTimeout is how long a connection may take. Default 3 s.
	DialTimeout time.Duration
	// Fields are added to each request where it has none of the name.
	Fields map[string]string
	// Dial opens the connections, below TLS; for tests. nil: TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

func (o Options) withDefaults() Options {
	if o.RequestTimeout == 0 {
		o.RequestTimeout = 10 * time.Second
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = 3 * time.Second
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	return o
}

func (o Options) validate() error {
	if len(o.NameServers) == 0 {
		return fmt.Errorf("no name servers: give some as host:port: %w", ErrInvalid)
	}
	for _, addr := range o.NameServers {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return fmt.Errorf("name server %q: give host:port: %w: %w", addr, ErrInvalid, err)
		}
	}
	if o.RequestTimeout < 0 || o.DialTimeout < 0 {
		return fmt.Errorf("RequestTimeout %v, DialTimeout %v: give more than 0: %w", o.RequestTimeout, o.DialTimeout, ErrInvalid)
	}
	return nil
}

// Client speaks to name servers and brokers. All methods may be called
// concurrently.
type Client struct {
	opts    Options
	opaque  atomic.Int32
	closing context.Context
	close   context.CancelFunc
	wg      sync.WaitGroup // dials

	mu       sync.Mutex // guards what follows
	closed   bool
	peers    map[string]*peer
	nameAddr int // the name server in use
}

// peer is one address.
type peer struct {
	conn *conn
	dial *dialing
}

// dialing is a connection under way.
type dialing struct {
	done chan struct{}
	conn *conn
	err  error
}

// New makes a client. It connects to nobody yet. Errors: ErrInvalid.
func New(opts Options) (*Client, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	c := &Client{opts: opts, peers: map[string]*peer{}, nameAddr: rand.IntN(len(opts.NameServers))}
	c.closing, c.close = context.WithCancel(context.Background())
	return c, nil
}

// Close ends all connections, and what is under way with ErrClosed. It waits
// for every goroutine. A second Close does nothing.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.close()
	c.wg.Wait()
	c.mu.Lock()
	peers := slices.Collect(maps.Values(c.peers))
	clear(c.peers)
	c.mu.Unlock()
	for _, p := range peers {
		if p.conn != nil {
			p.conn.close(ErrClosed)
		}
	}
}

// Call sends a request to an address and returns its response, whatever its
// code. The request must be the caller's own: Call sets its Opaque and adds
// fields. wait is how long the peer is asked to wait. Errors: ErrUnreachable,
// ErrMalformed, ErrClosed, ctx.Err().
func (c *Client) Call(ctx context.Context, addr string, req *Command, wait time.Duration) (Command, error) {
	if err := ctx.Err(); err != nil {
		return Command{}, err
	}
	limit := c.opts.RequestTimeout + wait
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	b, err := c.frame(req)
	if err != nil {
		return Command{}, err
	}
	k, err := c.conn(limited, addr)
	if err != nil {
		return Command{}, c.outcome(ctx, limited, addr, limit, err)
	}
	began := time.Now()
	res, err := k.call(limited, req.Opaque, b)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		k.doubt(began)
	}
	return res, c.outcome(ctx, limited, addr, limit, err)
}

// outcome tells a call whose caller gave up from one that got no answer.
func (c *Client) outcome(caller, limited context.Context, addr string, limit time.Duration, err error) error {
	switch {
	case err == nil:
		return nil
	case caller.Err() != nil:
		return caller.Err()
	case limited.Err() != nil:
		return fmt.Errorf("%s gave no answer within %v: %w", addr, limit, ErrUnreachable)
	}
	return err
}

// frame finishes a request.
func (c *Client) frame(req *Command) ([]byte, error) {
	req.Opaque = c.opaque.Add(1)
	if req.Fields == nil {
		req.Fields = map[string]string{}
	}
	for name, value := range c.opts.Fields {
		if _, ok := req.Fields[name]; !ok {
			req.Fields[name] = value
		}
	}
	if c.opts.Credentials != nil {
		c.opts.Credentials.Sign(req)
	}
	return req.Append(nil)
}

// ask is Call that wants one of these codes, or success.
func (c *Client) ask(ctx context.Context, addr, op string, req *Command, wait time.Duration, codes ...int) (Command, error) {
	res, err := c.Call(ctx, addr, req, wait)
	if err != nil {
		return Command{}, fmt.Errorf("%s: %w", op, err)
	}
	if res.Code != CodeSuccess && !slices.Contains(codes, res.Code) {
		return Command{}, &Error{Op: op, Addr: addr, Code: res.Code, Remark: res.Remark}
	}
	return res, nil
}

// CallNameServer sends a request to a name server, to the next one where one
// gives no answer. It must be one that does no harm twice. Errors as Call.
func (c *Client) CallNameServer(ctx context.Context, req *Command) (addr string, res Command, err error) {
	var errs []error
	for range c.opts.NameServers {
		c.mu.Lock()
		n := c.nameAddr
		c.mu.Unlock()
		addr = c.opts.NameServers[n]
		again := *req
		again.Fields = maps.Clone(req.Fields)
		res, err = c.Call(ctx, addr, &again, 0)
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrClosed) {
			return addr, res, err
		}
		errs = append(errs, fmt.Errorf("name server %w", err))
		c.mu.Lock()
		if c.nameAddr == n {
			c.nameAddr = (n + 1) % len(c.opts.NameServers)
		}
		c.mu.Unlock()
	}
	return addr, Command{}, errors.Join(errs...)
}

// askNameServer is CallNameServer that wants success.
func (c *Client) askNameServer(ctx context.Context, op string, req *Command) (Command, error) {
	addr, res, err := c.CallNameServer(ctx, req)
	if err != nil {
		return Command{}, fmt.Errorf("%s: %w", op, err)
	}
	if res.Code != CodeSuccess {
		return Command{}, &Error{Op: op, Addr: addr, Code: res.Code, Remark: res.Remark}
	}
	return res, nil
}

// conn returns the connection to an address, and makes one where there is
// none. Those who need it at the same time wait for the same one.
func (c *Client) conn(ctx context.Context, addr string) (*conn, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	p := c.peers[addr]
	if p == nil {
		p = &peer{}
		c.peers[addr] = p
	}
	if p.conn != nil && !p.conn.isBroken() {
		k := p.conn
		c.mu.Unlock()
		return k, nil
	}
	if p.dial == nil {
		d, old := &dialing{done: make(chan struct{})}, p.conn
		p.dial = d
		c.wg.Go(func() { c.dial(addr, p, d, old) })
	}
	d := p.dial
	c.mu.Unlock()
	select {
	case <-d.done:
		return d.conn, d.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// dial makes a connection in the place of an old one that broke.
func (c *Client) dial(addr string, p *peer, d *dialing, old *conn) {
	if old != nil {
		old.close(ErrUnreachable)
	}
	nc, err := c.connect(addr)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil && c.closed:
		d.err = ErrClosed
	case err != nil:
		d.err = fmt.Errorf("%s: no connection: %w: %w: %w", addr, ErrUnreachable, ErrNotSent, err)
	default:
		d.conn = newConn(addr, nc, c.opts.RequestTimeout)
	}
	p.conn, p.dial = d.conn, nil
	close(d.done)
}

func (c *Client) connect(addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(c.closing, c.opts.DialTimeout)
	defer cancel()
	nc, err := c.opts.Dial(ctx, "tcp", addr)
	if err != nil || c.opts.TLS == nil {
		return nc, err
	}
	config := c.opts.TLS.Clone()
	if config.ServerName == "" {
		if config.ServerName, _, err = net.SplitHostPort(addr); err != nil {
			return nil, errors.Join(err, nc.Close())
		}
	}
	secure := tls.Client(nc, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	return secure, nil
}

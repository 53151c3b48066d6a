package kafka

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// maxFetchWait is how long one fetch waits at the broker; a longer wait is
// several fetches.
const maxFetchWait = 5 * time.Second

// config makes sarama's settings. They are for one connection or one producer,
// whose dialer they carry.
func (o Options) config(d *dialer) *sarama.Config {
	c := sarama.NewConfig()
	c.ClientID = o.ClientID
	c.Version = sarama.MaxVersion // each request uses what the broker knows of it
	c.ApiVersionsRequest = true
	c.Net.DialTimeout = o.RequestTimeout
	c.Net.ReadTimeout = o.RequestTimeout + maxFetchWait
	c.Net.WriteTimeout = o.RequestTimeout
	c.Net.MaxOpenRequests = 1
	c.Net.Proxy.Enable = true
	c.Net.Proxy.Dialer = d
	o.login(c, d)
	return c
}

func (o Options) login(c *sarama.Config, d *dialer) {
	if o.SASL.Mechanism == MechanismNone {
		return
	}
	c.Net.SASL.Enable = true
	c.Net.SASL.Mechanism = sarama.SASLMechanism(o.SASL.Mechanism)
	c.Net.SASL.User, c.Net.SASL.Password = o.SASL.User, o.SASL.Password
	c.Net.SASL.SCRAMClientGeneratorFunc = o.scram
	if o.SASL.Mechanism == MechanismOAuth {
		c.Net.SASL.TokenProvider = tokens{o.SASL, d.ctx}
	}
}

// tokens gives sarama the tokens of SASL.Token.
type tokens struct {
	sasl SASL
	ctx  context.Context
}

// Token implements sarama.AccessTokenProvider.
func (t tokens) Token() (*sarama.AccessToken, error) {
	token, extensions, err := t.sasl.Token(t.ctx)
	if err != nil {
		return nil, err
	}
	return &sarama.AccessToken{Token: token, Extensions: extensions}, nil
}

// dialer opens the connections of one user, with TLS where that is set, so that
// they can be cut: a call of sarama has no context, and on a frozen broker it
// would wait for long.
type dialer struct {
	ctx    context.Context
	cancel context.CancelFunc
	net    net.Dialer
	tls    *tls.Config // nil: without

	mu    sync.Mutex // guards conns and isCut
	conns map[*conn]bool
	isCut bool
}

func newDialer(o Options) *dialer {
	d := &dialer{net: net.Dialer{Timeout: o.RequestTimeout}, tls: o.TLS, conns: map[*conn]bool{}}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// Dial implements proxy.Dialer.
func (d *dialer) Dial(network, addr string) (net.Conn, error) {
	nc, err := d.net.DialContext(d.ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: nc, raw: nc, d: d}
	if !d.keep(c) {
		_ = nc.Close() // nothing was written
		return nil, net.ErrClosed
	}
	if d.tls == nil {
		return c, nil
	}
	if err := c.secure(addr); err != nil {
		_ = c.Close() // it is of no use
		return nil, err
	}
	return c, nil
}

// keep notes a connection, so that it can be cut; false: all are cut already.
func (d *dialer) keep(c *conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isCut {
		return false
	}
	d.conns[c] = true
	return true
}

// conn returns the connection of a dialer that opens only one; nil: there is
// none now.
func (d *dialer) conn() net.Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.conns {
		return c
	}
	return nil
}

// cut closes all connections, and those to come. Calls under way on them fail
// at once. It does not block.
func (d *dialer) cut() {
	d.cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isCut = true
	for c := range d.conns {
		_ = c.raw.Close() // its user learns of it by failing
	}
}

// conn is a connection that its dialer knows.
type conn struct {
	net.Conn          // with TLS where that is set
	raw      net.Conn // without
	d        *dialer
}

// secure begins TLS, with the name of the address where the settings have none.
func (c *conn) secure(addr string) error {
	cfg := c.d.tls
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return err
		}
		cfg = cfg.Clone()
		cfg.ServerName = host
	}
	ctx, cancel := context.WithTimeout(c.d.ctx, c.d.net.Timeout)
	defer cancel()
	secured := tls.Client(c.raw, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		return err
	}
	c.Conn = secured
	return nil
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.d.mu.Lock()
	delete(c.d.conns, c)
	c.d.mu.Unlock()
	return c.Conn.Close()
}

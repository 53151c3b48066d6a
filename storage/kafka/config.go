package kafka

import (
	"context"
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
	if o.TLS != nil {
		c.Net.TLS.Enable = true
		c.Net.TLS.Config = o.TLS
	}
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

// dialer opens the connections of one user, so that they can be cut: a call
// of sarama has no context, and on a frozen broker it would wait for long.
type dialer struct {
	ctx    context.Context
	cancel context.CancelFunc
	net    net.Dialer

	mu    sync.Mutex // guards conns and isCut
	conns map[*conn]bool
	isCut bool
}

func newDialer(timeout time.Duration) *dialer {
	d := &dialer{net: net.Dialer{Timeout: timeout}, conns: map[*conn]bool{}}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// Dial implements proxy.Dialer.
func (d *dialer) Dial(network, addr string) (net.Conn, error) {
	nc, err := d.net.DialContext(d.ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: nc, d: d}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isCut {
		_ = nc.Close() // nothing was written
		return nil, net.ErrClosed
	}
	d.conns[c] = true
	return c, nil
}

// cut closes all connections, and those to come. Calls under way on them fail
// at once. It does not block.
func (d *dialer) cut() {
	d.cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isCut = true
	for c := range d.conns {
		_ = c.Conn.Close() // its user learns of it by failing
	}
}

// conn is a connection that its dialer knows.
type conn struct {
	net.Conn
	d *dialer
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.d.mu.Lock()
	delete(c.d.conns, c)
	c.d.mu.Unlock()
	return c.Conn.Close()
}

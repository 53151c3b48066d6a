// Package fakeproxy is a proxy of RocketMQ 5 in this process, for tests: its gRPC
// service in front of a fakepop broker. What a real one does that surprises is
// done here too: settings are in memory and gone after a restart, most calls
// fail in ways of their own for a client whose settings are gone, each entry of
// an ack has its own answer, a queue without messages holds a receive until its
// time is over.
package fakeproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	"github.com/ackmesh/ackmesh/storage/fakepop"
)

// Brokers of every topic.
const (
	// Broker has the queues of the fakepop broker.
	Broker = "broker-a"
	// IdleBroker has a queue in which there is never anything.
	IdleBroker = "broker-b"
)

// Options of a Proxy.
type Options struct {
	// Idle gives every topic one queue more, at IdleBroker.
	Idle bool
	// MakesGroups makes groups when a client of them connects, as brokers do
	// by default.
	MakesGroups bool
	// TLS, where not nil, is what connections must be.
	TLS *tls.Config
	// SecretKey, where not empty, refuses calls that are not signed with it.
	SecretKey string
}

// Proxy is a running proxy. All methods may be called concurrently.
type Proxy struct {
	v2.UnimplementedMessagingServiceServer
	o  Options
	br *fakepop.Broker
	be *fakepop.Backend

	mu       sync.Mutex
	lis      *bufconn.Listener // nil: down
	srv      *grpc.Server
	settings map[string]*v2.Settings // by client
	types    map[string][]v2.MessageType
	receipts map[string]string // fakepop's, by what was told
	serial   int
	faults   map[string][]fault // by method
	counts   map[string]int     // calls by method
	sent     []*v2.Message
	life     chan struct{} // closed when the proxy goes down
}

// fault is what the next call of a method is answered with.
type fault struct {
	code v2.Code
	text string
	hang bool
	cut  bool // a stream breaks after its first message
}

// New starts a proxy of a broker. Close ends it; the broker is the caller's.
func New(br *fakepop.Broker, o Options) *Proxy {
	p := &Proxy{
		o: o, br: br, be: br.Open(), settings: map[string]*v2.Settings{}, types: map[string][]v2.MessageType{},
		receipts: map[string]string{}, faults: map[string][]fault{}, counts: map[string]int{},
	}
	p.Up()
	return p
}

// Up starts the proxy again after Down.
func (p *Proxy) Up() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lis != nil {
		return
	}
	opts := []grpc.ServerOption{grpc.MaxRecvMsgSize(64 << 20)}
	if p.o.TLS != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(p.o.TLS)))
	}
	p.lis, p.srv, p.life = bufconn.Listen(1<<20), grpc.NewServer(opts...), make(chan struct{})
	v2.RegisterMessagingServiceServer(p.srv, p)
	lis, srv := p.lis, p.srv
	go func() { _ = srv.Serve(lis) }() // Stop waits for it
}

// Down ends the proxy: connections break, all settings are gone.
func (p *Proxy) Down() {
	p.mu.Lock()
	lis, srv, life := p.lis, p.srv, p.life
	p.lis = nil
	clear(p.settings)
	p.mu.Unlock()
	if lis == nil {
		return
	}
	close(life)
	srv.Stop()
}

// Restart is Down and Up.
func (p *Proxy) Restart() {
	p.Down()
	p.Up()
}

// Close ends the proxy for good.
func (p *Proxy) Close() {
	p.Down()
	_ = p.be.Close() // always nil: its broker is open, or was closed before
}

// Dial connects to the proxy; it is for session.Options.
func (p *Proxy) Dial(ctx context.Context, _ string) (net.Conn, error) {
	p.mu.Lock()
	lis := p.lis
	p.mu.Unlock()
	if lis == nil {
		return nil, fmt.Errorf("the proxy is down")
	}
	return lis.DialContext(ctx)
}

// Forget drops all settings, and breaks nothing.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.settings)
}

// Clients is how many clients have settings.
func (p *Proxy) Clients() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.settings)
}

// SetTypes sets what a topic takes; the default is NORMAL.
func (p *Proxy) SetTypes(topic string, types ...v2.MessageType) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.types[topic] = types
}

// Fail answers the next n calls of a method, such as "SendMessage", with a code.
// For AckMessage it is the next n entries.
func (p *Proxy) Fail(method string, n int, code v2.Code, text string) {
	p.add(method, n, fault{code: code, text: text})
}

// Hang leaves the next n calls of a method without an answer.
func (p *Proxy) Hang(method string, n int) { p.add(method, n, fault{hang: true}) }

// Cut breaks the next n receives after their first message.
func (p *Proxy) Cut(n int) { p.add("ReceiveMessage", n, fault{cut: true}) }

func (p *Proxy) add(method string, n int, f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range n {
		p.faults[method] = append(p.faults[method], f)
	}
}

// Calls counts the calls of a method so far.
func (p *Proxy) Calls(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[method]
}

// Sent lists the messages that were sent, in order.
func (p *Proxy) Sent() []*v2.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*v2.Message(nil), p.sent...)
}

// begin notes a call, and returns its client and its fault. A hanging one
// returns when its client has gone or the proxy goes down: at its deadline it might
// be answered before the client has noticed that.
func (p *Proxy) begin(ctx context.Context, method string) (client string, f fault, st *v2.Status) {
	md, _ := metadata.FromIncomingContext(ctx)
	p.mu.Lock()
	p.counts[method]++
	if list := p.faults[method]; len(list) > 0 && method != "AckMessage" {
		f, p.faults[method] = list[0], list[1:]
	}
	life := p.life
	p.mu.Unlock()
	if ids := md.Get("x-mq-client-id"); len(ids) == 1 {
		client = ids[0]
	}
	if f.hang {
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				<-life
			}
		case <-life:
		}
	}
	switch {
	case client == "":
		st = status(v2.Code_CLIENT_ID_REQUIRED, "client id cannot be empty")
	case p.o.SecretKey != "" && !signedWith(md, p.o.SecretKey):
		st = status(v2.Code_UNAUTHORIZED, "the signature is not right")
	case f.code != 0:
		st = status(f.code, f.text)
	}
	return client, f, st
}

func status(code v2.Code, text string) *v2.Status { return &v2.Status{Code: code, Message: text} }

var ok = status(v2.Code_OK, "OK")

// settingsOf is what a client has told.
func (p *Proxy) settingsOf(client string) *v2.Settings {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settings[client]
}

// lost is how a call fails for a client that the proxy has forgotten.
func lost(what string) *v2.Status {
	return status(v2.Code_INTERNAL_SERVER_ERROR, `Cannot invoke "`+what+`" because it is null. NullPointerException`)
}

func isRetry(partition string) bool { return strings.HasPrefix(partition, "%RETRY%") }

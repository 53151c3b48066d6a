package kafka_test

import (
	"encoding/base64"
	"net"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	mesh "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage/kafka"
	"github.com/ackmesh/ackmesh/storage/kafka/kafkatest"
	"github.com/ackmesh/ackmesh/storage/storagetest/logtest"
)

// patience is how long to wait for what must come.
const patience = logtest.Patience

// What the tests do to a log.
var (
	number     = logtest.Numbered
	id         = logtest.ID
	write      = logtest.Write
	writeKeyed = logtest.WriteKeyed
	poll       = logtest.Poll
	mustPoll   = logtest.MustPoll
	wantRange  = logtest.WantRange
	admin      = kafkatest.Admin
)

// open opens a log on a fake cluster that is closed with the test.
func open(t *testing.T, o kafka.Options) *kafka.Log {
	t.Helper()
	l := kafkatest.Open(t, o)
	logtest.CloseAfter(t, l)
	return l
}

// eventually wants f to become nil.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	mesh.Eventually(t, patience, f)
}

// seed makes a topic in a fake cluster.
func seed(t *testing.T, c *kfake.Cluster, topic string, partitions int32) {
	t.Helper()
	if err := c.CreateTopic(topic, partitions, nil); err != nil {
		t.Fatalf("create topic: %v", err)
	}
}

// freezer makes listeners whose connections let nothing through any more once
// they are frozen, like those of a process that is stopped.
type freezer struct {
	once   sync.Once
	frozen chan struct{} // closed while nothing goes through
	thawed chan struct{} // closed at the end
}

func (f *freezer) init() {
	f.once.Do(func() { f.frozen, f.thawed = make(chan struct{}), make(chan struct{}) })
}

func (f *freezer) listen(network, address string) (net.Listener, error) {
	f.init()
	l, err := net.Listen(network, address)
	return freezingListener{l, f}, err
}

func (f *freezer) freeze() { close(f.frozen) }
func (f *freezer) thaw()   { f.init(); close(f.thawed) }

// wait waits while frozen.
func (f *freezer) wait() {
	select {
	case <-f.frozen:
		<-f.thawed
	default:
	}
}

type freezingListener struct {
	net.Listener
	f *freezer
}

func (l freezingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return freezingConn{c, l.f}, err
}

type freezingConn struct {
	net.Conn
	f *freezer
}

func (c freezingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.f.wait()
	return n, err
}

func (c freezingConn) Write(b []byte) (int, error) {
	c.f.wait()
	return c.Conn.Write(b)
}

// decode64 reads a topic's identity.
func decode64(t *testing.T, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

package kafka_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/kafka"
	"github.com/ackmesh/ackmesh/storage/kafka/kafkatest"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

// patience is how long to wait for what must come.
const patience = 20 * time.Second

// open opens a log on a fake cluster that is closed with the test.
func open(t *testing.T, o kafka.Options) *kafka.Log {
	t.Helper()
	l := kafkatest.Open(t, o)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

// number builds the frame of event n.
func number(n int) []byte { return storagetest.Frame(nil, "id", fmt.Sprint(n)) }

// write appends events first to last-1 to a topic, without keys.
func write(t *testing.T, l storage.Backend, topic string, first, last int) []storage.Appended {
	t.Helper()
	return writeKeyed(t, l, topic, first, last, func(int) string { return "" })
}

func writeKeyed(t *testing.T, l storage.Backend, topic string, first, last int, key func(int) string) []storage.Appended {
	t.Helper()
	var events []storage.Event
	for n := first; n < last; n++ {
		events = append(events, storage.Event{Key: key(n), Frame: number(n)})
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	results, err := storage.AppendWait(ctx, l, topic, events)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	for i, r := range results {
		if r.Err != nil {
			t.Fatalf("append of %d: %v", first+i, r.Err)
		}
	}
	return results
}

// poll polls with a deadline.
func poll(t *testing.T, l storage.Backend, req storage.PollRequest) (*storage.Batch, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	b := new(storage.Batch)
	err := l.Poll(ctx, req, b)
	return b, err
}

// mustPoll wants a Poll without an error.
func mustPoll(t *testing.T, l storage.Backend, req storage.PollRequest) *storage.Batch {
	t.Helper()
	b, err := poll(t, l, req)
	if err != nil {
		t.Fatalf("poll of %+v: %v", req, err)
	}
	return b
}

// id is the id of a frame.
func id(frame []byte) string {
	var name, value []byte
	if n := int(frame[8])<<8 | int(frame[9]); n == 0 {
		return ""
	}
	at := 14
	n := int(frame[at])<<8 | int(frame[at+1])
	name = frame[at+2 : at+2+n]
	at += 2 + n
	n = int(frame[at+2])<<8 | int(frame[at+3])
	value = frame[at+4 : at+4+n]
	if string(name) != "id" {
		return ""
	}
	return string(value)
}

// eventually wants f to become nil.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for until := time.Now().Add(patience); ; <-ticker.C {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("after %v still: %v", patience, err)
		}
	}
}

// seed makes a topic in a fake cluster.
func seed(t *testing.T, c *kfake.Cluster, topic string, partitions int32) {
	t.Helper()
	if err := c.CreateTopic(topic, partitions, nil); err != nil {
		t.Fatalf("create topic: %v", err)
	}
}

// admin is a client of another program.
func admin(t *testing.T, brokers []string) sarama.ClusterAdmin {
	t.Helper()
	c := sarama.NewConfig()
	c.Version = sarama.V2_8_0_0
	a, err := sarama.NewClusterAdmin(brokers, c)
	if err != nil {
		t.Fatalf("admin: %v", err)
	}
	t.Cleanup(func() { a.Close() })
	return a
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

package remoting_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage/rocketmq4/fakebroker"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
	"github.com/ackmesh/ackmesh/test/certs"
)

const patience = 20 * time.Second

func cluster(t *testing.T, o fakebroker.Options) *fakebroker.Cluster {
	t.Helper()
	c, err := fakebroker.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func client(t *testing.T, o remoting.Options) *remoting.Client {
	t.Helper()
	c, err := remoting.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// What is sent is read, through routes, bounds, pulls and waits.
func TestSendAndPull(t *testing.T) {
	f := cluster(t, fakebroker.Options{})
	f.CreateTopic("t", 2)
	c := client(t, remoting.Options{NameServers: f.NameServers()})
	ctx := t.Context()
	route, err := c.Route(ctx, "t")
	if err != nil || len(route.Queues) != 1 || route.Queues[0].Read != 2 {
		t.Fatalf("route %+v, %v", route, err)
	}
	b, _ := route.Broker(route.Queues[0].Broker)
	q := remoting.Queue{Topic: "t", ID: 1}
	if s, err := c.Send(ctx, b.Master(), q, remoting.OutMessage{Body: []byte("a"), Properties: "k\x01v"}); err != nil || s.Offset != 0 || s.Queue != 1 {
		t.Fatalf("sent: %+v, %v", s, err)
	}
	if s, err := c.SendBatch(ctx, b.Master(), q, []remoting.OutMessage{{Body: []byte("b")}, {Body: []byte("c")}}); err != nil || s.Offset != 1 {
		t.Fatalf("sent: %+v, %v", s, err)
	}
	low, err1 := c.MinOffset(ctx, b.Master(), q)
	high, err2 := c.MaxOffset(ctx, b.Master(), q)
	if low != 0 || high != 3 || errors.Join(err1, err2) != nil {
		t.Errorf("bounds %d to %d, %v, %v", low, high, err1, err2)
	}
	r, err := c.Pull(ctx, b.Master(), remoting.PullRequest{Queue: q})
	if err != nil || r.Status != remoting.PullFound || r.NextOffset != 3 || r.Max != 3 {
		t.Fatalf("pull: %+v, %v", r, err)
	}
	list, err := remoting.DecodeMessages(r.Body)
	if err != nil || len(list) != 3 || string(list[2].Body) != "c" || list[0].Properties != "k\x01v" {
		t.Errorf("messages %+v, %v", list, err)
	}
	woken := make(chan error, 1)
	go func() {
		r, err := c.Pull(ctx, b.Master(), remoting.PullRequest{Queue: q, Offset: 3, Wait: patience})
		if err == nil && r.Status != remoting.PullFound {
			err = fmt.Errorf("a pull that waited: %+v", r)
		}
		woken <- err
	}()
	if _, err := c.Send(ctx, b.Master(), q, remoting.OutMessage{Body: []byte("d")}); err != nil {
		t.Fatal(err)
	}
	if err := <-woken; err != nil {
		t.Error(err)
	}
	if _, err := c.Route(ctx, "none"); !remoting.IsCode(err, remoting.CodeTopicNotExist) {
		t.Errorf("route of a missing topic: %v", err)
	}
	if there, err := c.TopicExists(ctx, b.Master(), "none"); there || err != nil {
		t.Errorf("a missing topic is there: %v, %v", there, err)
	}
	if r, err := c.Pull(ctx, b.Master(), remoting.PullRequest{Queue: q, Offset: 10}); err != nil || r.Status != remoting.PullMoved {
		t.Errorf("a pull beyond the end: %+v, %v", r, err)
	}
	topics, err := c.Topics(ctx)
	if err != nil || !slices.Contains(topics, "t") {
		t.Errorf("topics %q, %v", topics, err)
	}
}

// A call ends with its context while the peer is silent, others go on, and the
// client ends.
func TestContextEndsCall(t *testing.T) {
	f := cluster(t, fakebroker.Options{})
	f.CreateTopic("t", 1)
	c := client(t, remoting.Options{NameServers: f.NameServers()})
	hold := f.Fault(fakebroker.Fault{Code: fakebroker.CodeMax, Before: func(ctx context.Context, _ *remoting.Command) *remoting.Command {
		<-ctx.Done()
		return nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.MaxOffset(ctx, f.Addr("broker-a"), remoting.Queue{Topic: "t"})
		ended <- err
	}()
	if err := hold.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := c.MinOffset(t.Context(), f.Addr("broker-a"), remoting.Queue{Topic: "t"}); err != nil {
		t.Errorf("another call on the connection: %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a call whose context ended: %v", err)
	}
	go func() {
		_, err := c.MaxOffset(t.Context(), f.Addr("broker-a"), remoting.Queue{Topic: "t"})
		ended <- err
	}()
	if err := hold.Wait(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := <-ended; !errors.Is(err, remoting.ErrClosed) {
		t.Errorf("a call during Close: %v", err)
	}
	if _, err := c.MinOffset(t.Context(), f.Addr("broker-a"), remoting.Queue{Topic: "t"}); !errors.Is(err, remoting.ErrClosed) {
		t.Errorf("a call after Close: %v", err)
	}
}

// A peer that says nothing is given up after the timeout, and the next call
// makes a new connection.
func TestSilentPeer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 2)
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- nc
		}
	}()
	c := client(t, remoting.Options{NameServers: []string{l.Addr().String()}, RequestTimeout: 50 * time.Millisecond})
	for range 2 {
		if _, err := c.Topics(t.Context()); !errors.Is(err, remoting.ErrUnreachable) || errors.Is(err, remoting.ErrNotSent) {
			t.Errorf("a silent peer: %v", err)
		}
		nc := <-accepted
		if _, err := nc.Read(make([]byte, 1<<16)); err != nil {
			t.Errorf("the request did not come: %v", err)
		}
		defer nc.Close()
	}
}

// A broker that is down and comes back is found again; what was not sent is
// told apart from what may have been.
func TestReconnect(t *testing.T) {
	f := cluster(t, fakebroker.Options{})
	f.CreateTopic("t", 1)
	c := client(t, remoting.Options{NameServers: f.NameServers()})
	q, addr := remoting.Queue{Topic: "t"}, f.Addr("broker-a")
	if _, err := c.MaxOffset(t.Context(), addr, q); err != nil {
		t.Fatal(err)
	}
	hold := f.Fault(fakebroker.Fault{Code: fakebroker.CodeMin, Before: func(ctx context.Context, _ *remoting.Command) *remoting.Command {
		<-ctx.Done()
		return nil
	}})
	ended := make(chan error, 1)
	go func() {
		_, err := c.MinOffset(t.Context(), addr, q)
		ended <- err
	}()
	if err := hold.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := f.Stop("broker-a"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, remoting.ErrUnreachable) || errors.Is(err, remoting.ErrNotSent) {
		t.Errorf("a call under way: %v", err)
	}
	if _, err := c.MaxOffset(t.Context(), addr, q); !errors.Is(err, remoting.ErrNotSent) || !errors.Is(err, remoting.ErrUnreachable) {
		t.Errorf("a call while it is down: %v", err)
	}
	if err := f.Restart("broker-a"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.MaxOffset(t.Context(), addr, q); err != nil {
		t.Errorf("a call afterwards: %v", err)
	}
}

// Many requests at once share connections and get each its own answer.
func TestConcurrent(t *testing.T) {
	f := cluster(t, fakebroker.Options{Brokers: []string{"a", "b"}})
	f.CreateTopic("t", 50)
	for i := range 50 {
		if _, err := f.Append("a", "t", i, make([]remoting.Message, i)...); err != nil {
			t.Fatal(err)
		}
	}
	c := client(t, remoting.Options{NameServers: f.NameServers()})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for range 20 {
				n, err := c.MaxOffset(t.Context(), f.Addr("a"), remoting.Queue{Topic: "t", ID: i})
				if err != nil || n != int64(i) {
					t.Errorf("queue %d: %d, %v", i, n, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A name server that is down is passed over.
func TestNameServers(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	f := cluster(t, fakebroker.Options{})
	for range 4 {
		c := client(t, remoting.Options{NameServers: []string{dead.Addr().String(), f.NameServers()[0]}})
		for range 2 {
			if _, err := c.Cluster(t.Context()); err != nil {
				t.Errorf("with one of two name servers: %v", err)
			}
		}
	}
	c := client(t, remoting.Options{NameServers: []string{dead.Addr().String()}})
	if _, err := c.Topics(t.Context()); !errors.Is(err, remoting.ErrUnreachable) {
		t.Errorf("without a name server: %v", err)
	}
	for _, o := range []remoting.Options{{}, {NameServers: []string{"no port"}}, {NameServers: []string{"a:1"}, RequestTimeout: -1}} {
		if _, err := remoting.New(o); !errors.Is(err, remoting.ErrInvalid) {
			t.Errorf("options %+v: %v", o, err)
		}
	}
}

// The signature is that of Apache's client: HMAC-SHA1 over the values in order
// of their names, and the body.
func TestSign(t *testing.T) {
	cmd := remoting.Command{Fields: map[string]string{"topic": "t", "queueId": "0"}, Body: []byte("body")}
	user := remoting.Credentials{AccessKey: "RocketMQ", SecretKey: "12345678"}
	user.Sign(&cmd)
	if got := cmd.Fields["Signature"]; got != "PTNwl9zNL/GhSmrqp+8wLj3ImTE=" { // openssl dgst -sha1 -hmac 12345678, over RocketMQ0tbody
		t.Errorf("signature %s", got)
	}
	if !user.Verify(&cmd) {
		t.Error("it is not believed")
	}
	cmd.Fields["queueId"] = "1"
	if user.Verify(&cmd) {
		t.Error("it is believed for other fields")
	}
	f := cluster(t, fakebroker.Options{Credentials: &user})
	f.CreateTopic("t", 1)
	q := remoting.Queue{Topic: "t"}
	if _, err := client(t, remoting.Options{NameServers: f.NameServers(), Credentials: &user}).MaxOffset(t.Context(), f.Addr("broker-a"), q); err != nil {
		t.Errorf("signed: %v", err)
	}
	wrong := remoting.Credentials{AccessKey: "RocketMQ", SecretKey: "87654321"}
	for _, o := range []*remoting.Credentials{nil, &wrong} {
		var e *remoting.Error
		_, err := client(t, remoting.Options{NameServers: f.NameServers(), Credentials: o}).MaxOffset(t.Context(), f.Addr("broker-a"), q)
		if !errors.As(err, &e) || e.Code != remoting.CodeSystemError {
			t.Errorf("signed wrongly: %v", err)
		}
	}
}

func TestTLS(t *testing.T) {
	server, trust := certs.New(t, "broker")
	f := cluster(t, fakebroker.Options{TLS: &tls.Config{Certificates: []tls.Certificate{server}, MinVersion: tls.VersionTLS12}})
	f.CreateTopic("t", 1)
	secure := &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12}
	c := client(t, remoting.Options{NameServers: f.NameServers(), TLS: secure})
	if _, err := c.Route(t.Context(), "t"); err != nil {
		t.Errorf("with TLS: %v", err)
	}
	if _, err := c.MaxOffset(t.Context(), f.Addr("broker-a"), remoting.Queue{Topic: "t"}); err != nil {
		t.Errorf("with TLS at the broker: %v", err)
	}
	stranger := client(t, remoting.Options{NameServers: f.NameServers(), TLS: &tls.Config{MinVersion: tls.VersionTLS12}})
	if _, err := stranger.Route(t.Context(), "t"); !errors.Is(err, remoting.ErrUnreachable) {
		t.Errorf("a certificate of nobody that is trusted: %v", err)
	}
}

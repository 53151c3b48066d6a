package session_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"go.uber.org/goleak"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/fakepop"
	"github.com/ackmesh/ackmesh/storage/rocketmq5/fakeproxy"
	"github.com/ackmesh/ackmesh/storage/rocketmq5/session"
	"github.com/ackmesh/ackmesh/storage/storagetest"
	"github.com/ackmesh/ackmesh/test/certs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	topic     = "orders"
	group     = "EM-GROUP"
	invisible = 30 * time.Second
	patience  = 20 * time.Second
)

// rig is a broker, a proxy before it, and a session with a consumer.
type rig struct {
	t     *testing.T
	br    *fakepop.Broker
	be    *fakepop.Backend
	proxy *fakeproxy.Proxy
	s     *session.Session
	c     *session.Consumer
	r     *session.Receiver
}

func newRig(t *testing.T, po fakeproxy.Options, so session.Options) *rig {
	t.Helper()
	br := fakepop.New(fakepop.Options{Partitions: 2})
	r := &rig{t: t, br: br, be: br.Open()}
	po.MakesGroups = true
	r.proxy = fakeproxy.New(br, po)
	so.Logger = slog.New(slog.DiscardHandler)
	if so.Endpoints == nil {
		so.Endpoints = []string{"proxy:8081"}
	}
	if dial := so.Dial; dial == nil {
		so.Dial = r.proxy.Dial
	} else { // it may refuse
		so.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			if _, err := dial(ctx, addr); err != nil {
				return nil, err
			}
			return r.proxy.Dial(ctx, addr)
		}
	}
	var err error
	if r.s, err = session.Open(so); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		r.proxy.Close()
		_ = r.be.Close()
		_ = br.Close()
	})
	if _, err := r.be.CreateTopic(t.Context(), topic, storage.TopicConfig{Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	if r.c, err = r.s.NewConsumer(topic, group); err != nil {
		t.Fatal(err)
	}
	r.r = r.c.NewReceiver(invisible)
	if _, err := r.c.Ready(t.Context()); err != nil {
		t.Fatalf("ready: %v", err)
	}
	return r
}

func (r *rig) put(n int) {
	r.t.Helper()
	events := make([]storage.Event, n)
	for i := range events {
		events[i] = storage.Event{Frame: storagetest.Frame([]byte("data"), "id", fmt.Sprint(i))}
	}
	if _, err := storage.AppendWait(r.t.Context(), r.be, topic, events); err != nil {
		r.t.Fatal(err)
	}
}

// pop pops until n messages came.
func (r *rig) pop(n int) (list []*v2.Message) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	for len(list) < n {
		msgs, err := r.r.Pop(ctx, n-len(list), patience)
		if err != nil {
			r.t.Fatalf("pop: %v", err)
		}
		list = append(list, msgs...)
	}
	return list
}

func entries(list []*v2.Message) (out []session.Entry) {
	for _, m := range list {
		out = append(out, session.Entry{MessageID: m.GetSystemProperties().GetMessageId(), Receipt: m.GetSystemProperties().GetReceiptHandle()})
	}
	return out
}

// eventually wants cond to hold within the patience.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !cond(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// A restart of the proxy loses all settings, and breaks what is under way: they
// are sent again, messages come, and acks of what was popped before count.
func TestC50_ProxyRestarts(t *testing.T) {
	r := newRig(t, fakeproxy.Options{}, session.Options{})
	r.put(20)
	before := r.pop(20)
	for round := range 3 {
		r.proxy.Restart()
		r.put(1)
		began := time.Now()
		r.pop(1)
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("a message came %v after the restart", took)
		}
		if n := r.proxy.Calls("Settings"); n < round+2 {
			t.Errorf("the settings were sent %d times after %d restarts", n, round+1)
		}
	}
	answers, err := r.s.Ack(t.Context(), topic, group, entries(before))
	if err != nil || slices.ContainsFunc(answers, func(err error) bool { return err != nil }) {
		t.Errorf("acks after the restarts: %v, %v", answers, err)
	}
}

// While the proxy is away a Pop fails after some seconds as what may pass, and
// goes on when it is back.
func TestProxyIsAway(t *testing.T) {
	r := newRig(t, fakeproxy.Options{}, session.Options{})
	r.proxy.Down()
	_, err := r.r.Pop(t.Context(), 1, patience)
	if !session.IsTransient(err) {
		t.Fatalf("pop without a proxy: %v", err)
	}
	if _, err := r.s.AskRoute(t.Context(), topic); !session.IsTransient(err) {
		t.Errorf("route without a proxy: %v", err)
	}
	r.proxy.Up()
	r.put(1)
	r.pop(1)
}

// A proxy that has forgotten the settings, though the stream is open, gets them
// again.
func TestSettingsForgotten(t *testing.T) {
	t.Run("by a receive", func(t *testing.T) {
		r := newRig(t, fakeproxy.Options{}, session.Options{})
		r.proxy.Forget()
		r.put(1)
		r.pop(1)
	})
	t.Run("by a heartbeat", func(t *testing.T) {
		r := newRig(t, fakeproxy.Options{}, session.Options{Heartbeat: 10 * time.Millisecond})
		r.proxy.Forget()
		eventually(t, "settings", func() bool { return r.proxy.Clients() == 1 })
	})
	t.Run("by a change of the invisible time", func(t *testing.T) {
		r := newRig(t, fakeproxy.Options{}, session.Options{})
		r.put(1)
		e := entries(r.pop(1))[0]
		r.proxy.Forget()
		eventually(t, "the change", func() bool {
			_, err := r.c.ChangeInvisible(t.Context(), e, invisible)
			return err == nil
		})
	})
}

// A broker where nothing happens holds a receive for as long as it may; what the
// other one has comes at once.
func TestC49_IdleBroker(t *testing.T) {
	r := newRig(t, fakeproxy.Options{Idle: true}, session.Options{})
	for range 20 {
		got := make(chan error, 1)
		go func() {
			msgs, err := r.r.Pop(t.Context(), 1, patience)
			if err == nil && len(msgs) != 1 {
				err = fmt.Errorf("%d messages", len(msgs))
			}
			got <- err
		}()
		r.put(1)
		select {
		case err := <-got:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(session.ShortestPoll / 2):
			t.Fatal("a message waited for an idle broker")
		}
	}
	r.put(100)
	r.pop(100)
}

// Each entry of an ack has its own answer.
func TestC31_EachAckHasItsAnswer(t *testing.T) {
	r := newRig(t, fakeproxy.Options{}, session.Options{})
	r.put(4)
	list := entries(r.pop(4))
	r.proxy.Fail("AckMessage", 1, v2.Code_INTERNAL_SERVER_ERROR, "the broker is busy")
	list[1].Receipt = "0 1 10000 0 0 broker-a 0 0 999999"
	answers, err := r.s.Ack(t.Context(), topic, group, list)
	if err != nil {
		t.Fatal(err)
	}
	// The fake answers the last entry first.
	if answers[0] != nil || answers[2] != nil || !session.IsGone(answers[1]) || !session.IsTransient(answers[3]) || session.IsGone(answers[3]) {
		t.Errorf("answers %v", answers)
	}
	answers, err = r.s.Ack(t.Context(), topic, group, list[3:])
	if err != nil || answers[0] != nil {
		t.Errorf("the refused one again: %v, %v", answers, err)
	}
	if c := r.br.Counts(topic, group); len(c.Acks) != 3 {
		t.Errorf("the broker counts %d acks", len(c.Acks))
	}
}

// An answer that breaks in the middle brings what had come until then.
func TestBrokenAnswer(t *testing.T) {
	r := newRig(t, fakeproxy.Options{}, session.Options{})
	r.put(10)
	r.proxy.Cut(1)
	msgs, err := r.c.Receive(t.Context(), session.ReceiveRequest{Broker: fakeproxy.Broker, Max: 10, Invisible: invisible, Wait: session.ShortestPoll})
	if err != nil || len(msgs) != 1 {
		t.Errorf("%d messages, %v", len(msgs), err)
	}
}

// Codes that may pass are told apart from those that do not, and a Pop goes on
// after the first kind and ends with the second.
func TestCodes(t *testing.T) {
	for _, code := range []v2.Code{v2.Code_INTERNAL_SERVER_ERROR, v2.Code_TOPIC_NOT_FOUND, v2.Code_PROXY_TIMEOUT, v2.Code_TOO_MANY_REQUESTS} {
		t.Run(code.String(), func(t *testing.T) {
			r := newRig(t, fakeproxy.Options{}, session.Options{})
			r.proxy.Fail("ReceiveMessage", 2, code, "in passing")
			r.put(3)
			r.pop(3)
		})
	}
	for _, code := range []v2.Code{v2.Code_CONSUMER_GROUP_NOT_FOUND, v2.Code_FORBIDDEN, v2.Code_ILLEGAL_INVISIBLE_TIME} {
		t.Run(code.String(), func(t *testing.T) {
			r := newRig(t, fakeproxy.Options{}, session.Options{})
			r.proxy.Fail("ReceiveMessage", 100, code, "for good")
			if _, err := r.r.Pop(t.Context(), 1, patience); session.CodeOf(err) != code {
				t.Errorf("pop: %v", err)
			}
		})
	}
}

// A topic that was there and is said not to be is not believed to be gone until
// that was said for long.
func TestTopicSaidToBeGone(t *testing.T) {
	r := newRig(t, fakeproxy.Options{}, session.Options{AbsentAfter: 50 * time.Millisecond, RouteAge: time.Hour})
	if _, err := r.s.Route(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	r.proxy.Fail("QueryRoute", 1, v2.Code_TOPIC_NOT_FOUND, "no broker")
	if _, err := r.s.AskRoute(t.Context(), topic); !session.IsTransient(err) {
		t.Errorf("the first time: %v", err)
	}
	if _, err := r.s.Route(t.Context(), topic); err != nil {
		t.Errorf("what is known: %v", err)
	}
	r.proxy.Fail("QueryRoute", 1_000_000, v2.Code_TOPIC_NOT_FOUND, "no broker")
	eventually(t, "the topic is believed to be gone", func() bool {
		_, err := r.s.AskRoute(t.Context(), topic)
		return session.CodeOf(err) == v2.Code_TOPIC_NOT_FOUND
	})
	if _, err := r.s.AskRoute(t.Context(), "never-seen"); session.CodeOf(err) != v2.Code_TOPIC_NOT_FOUND {
		t.Errorf("a topic that was never seen: %v", err)
	}
}

// A call that is not answered ends after its time, and with its context.
func TestNoAnswer(t *testing.T) {
	r := newRig(t, fakeproxy.Options{}, session.Options{RequestTimeout: 50 * time.Millisecond})
	r.proxy.Hang("QueryRoute", 1)
	if _, err := r.s.AskRoute(t.Context(), topic); !session.IsTransient(err) {
		t.Errorf("no answer: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := r.r.Pop(ctx, 1, time.Hour)
		ended <- err
	}()
	eventually(t, "a receive", func() bool { return r.proxy.Calls("ReceiveMessage") > 0 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("pop whose context ends: %v", err)
	}
}

// Calls are signed, and wrong keys are told as such.
func TestSigned(t *testing.T) {
	r := newRig(t, fakeproxy.Options{SecretKey: "secret"}, session.Options{AccessKey: "me", SecretKey: "secret"})
	r.put(1)
	r.pop(1)
	other, err := session.Open(session.Options{Endpoints: []string{"proxy:8081"}, Dial: r.proxy.Dial, AccessKey: "me", SecretKey: "wrong"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.AskRoute(t.Context(), topic); session.CodeOf(err) != v2.Code_UNAUTHORIZED {
		t.Errorf("a wrong key: %v", err)
	}
}

// An endpoint that does not answer is passed over, and one that goes away is
// left for another.
func TestEndpoints(t *testing.T) {
	var down atomic.Value // the address that does not answer
	down.Store("one:8081")
	var used atomic.Value
	r := newRig(t, fakeproxy.Options{}, session.Options{
		Endpoints: []string{"one:8081", "two:8081"},
		Dial: func(_ context.Context, addr string) (net.Conn, error) {
			if addr == down.Load() {
				return nil, errors.New("no answer")
			}
			used.Store(addr)
			return nil, nil
		},
	})
	r.put(1)
	r.pop(1)
	if used.Load() != "two:8081" {
		t.Fatalf("used is %v", used.Load())
	}
	down.Store("two:8081")
	r.proxy.Restart()
	r.put(1)
	r.pop(1)
	if used.Load() != "one:8081" {
		t.Errorf("then used is %v", used.Load())
	}
}

// Connections are TLS where asked for, to the endpoint's name.
func TestTLS(t *testing.T) {
	cert, pool := certs.New(t, "proxy")
	secure := fakeproxy.Options{TLS: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}}
	r := newRig(t, secure, session.Options{TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}})
	r.put(1)
	r.pop(1)
	for name, o := range map[string]session.Options{
		"plain":        {Endpoints: []string{"proxy:8081"}},
		"another name": {Endpoints: []string{"other:8081"}, TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
	} {
		o.Dial = r.proxy.Dial
		s, err := session.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.AskRoute(t.Context(), topic); err == nil {
			t.Errorf("%s: the proxy answers", name)
		}
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// What arrives when nobody pops any more is given back.
func TestGivenBack(t *testing.T) {
	r := newRig(t, fakeproxy.Options{}, session.Options{})
	if msgs, err := r.r.Pop(t.Context(), 5, 0); err != nil || len(msgs) != 0 {
		t.Fatalf("pop: %v, %v", msgs, err)
	}
	r.put(3) // the receive is still under way at the broker
	eventually(t, "what was popped is given back", func() bool { return r.br.Counts(topic, group).Released > 0 })
	r.pop(3)
}

// A Pop of few records takes few: what is popped is bounded by what is asked
// for, and one for each broker.
func TestBounded(t *testing.T) {
	r := newRig(t, fakeproxy.Options{}, session.Options{})
	r.put(500)
	r.pop(1)
	if n := r.br.Outstanding(topic, group); n > 2 {
		t.Errorf("%d records are popped for one that was asked for", n)
	}
}

func TestOptions(t *testing.T) {
	for _, endpoints := range [][]string{nil, {""}, {"host"}, {"host:0"}, {":8081"}, {"host:http"}} {
		if s, err := session.Open(session.Options{Endpoints: endpoints}); err == nil {
			t.Errorf("endpoints %q are taken", endpoints)
			s.Close()
		}
	}
}

// After Close everything says so, and nothing is left.
func TestClosed(t *testing.T) {
	r := newRig(t, fakeproxy.Options{Idle: true}, session.Options{})
	ended := make(chan error, 1)
	go func() {
		_, err := r.r.Pop(t.Context(), 1, time.Hour)
		ended <- err
	}()
	eventually(t, "receives", func() bool { return r.proxy.Calls("ReceiveMessage") >= 2 })
	if err := r.s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, session.ErrClosed) {
		t.Errorf("pop: %v", err)
	}
	if _, err := r.s.AskRoute(t.Context(), topic); !errors.Is(err, session.ErrClosed) {
		t.Errorf("route: %v", err)
	}
	if _, err := r.s.NewConsumer(topic, group); !errors.Is(err, session.ErrClosed) {
		t.Errorf("consumer: %v", err)
	}
	eventually(t, "the proxy knows that the client is gone", func() bool { return r.proxy.Clients() == 0 })
}

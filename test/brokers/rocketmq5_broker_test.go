//go:build brokers

package brokers_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server/dispatch"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
	"github.com/ackmesh/ackmesh/storage/rocketmq5"
)

// rocketmq5Broker is a real RocketMQ 5 of one name server, one broker and one
// proxy that ends with the test.
type rocketmq5Broker struct {
	install, data             string
	names, broker, grpc, prox int // ports
	env                       []string
}

// startRocketMQ5 installs RocketMQ 5 where it is not, into .cache of the
// repository, and starts it, with further lines in the broker's settings. What is
// missing for that fails the test.
func startRocketMQ5(t testing.TB, settings ...string) *rocketmq5Broker {
	t.Helper()
	needJava(t)
	cache, err := filepath.Abs("../../.cache/rocketmq5")
	if err != nil {
		t.Fatal(err)
	}
	base := freePorts(t, 10)
	r := &rocketmq5Broker{install: cache, data: t.TempDir(), names: base, broker: base + 3, grpc: base + 6, prox: base + 7}
	r.env = append(os.Environ(), "FAST_STOP=1", fmt.Sprint("NS_PORT=", r.names), fmt.Sprint("BROKER_PORT=", r.broker),
		fmt.Sprint("GRPC_PORT=", r.grpc), fmt.Sprint("REMOTING_PORT=", r.prox), "START_TIMEOUT=120", "RPC_TIMEOUT=30",
		"EXTRA_BROKER_CONF="+strings.Join(settings, "\n"))
	r.script(t, "install", cache)
	r.script(t, "start", cache, r.data)
	t.Cleanup(func() { r.script(t, "stop", r.data) })
	return r
}

// script runs rocketmq5.sh. Where it fails the test fails with what it said, the
// end of the logs included.
func (r *rocketmq5Broker) script(t testing.TB, args ...string) {
	t.Helper()
	cmd := r.command(args...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("rocketmq5.sh %q: %v\n%s", args, err, said.Bytes())
	}
	t.Logf("%s", bytes.TrimSpace(said.Bytes()))
}

func (r *rocketmq5Broker) command(args ...string) *exec.Cmd {
	cmd := exec.Command("bash", append([]string{"rocketmq5.sh"}, args...)...)
	cmd.Env = r.env
	return cmd
}

func (r *rocketmq5Broker) kill(t testing.TB, role string) {
	t.Helper()
	r.script(t, "kill", r.data, role)
}

func (r *rocketmq5Broker) start(t testing.TB, role string) {
	t.Helper()
	r.script(t, "startone", r.install, r.data, role)
}

// topic makes a topic of a type with so many queues, and the one of its dead
// letters.
func (r *rocketmq5Broker) topic(t testing.TB, name, kind string, queues int) string {
	t.Helper()
	for _, topic := range [][2]string{{name, kind}, {name + dispatch.DeadLetterSuffix, "NORMAL"}} {
		r.script(t, "topic", topic[0], topic[1], "", strconv.Itoa(queues))
	}
	return name
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// flags of `ackmesh serve`; endpoint empty: the proxy itself.
func (r *rocketmq5Broker) flags(endpoint string, more ...string) []string {
	if endpoint == "" {
		endpoint = address(r.grpc)
	}
	return append([]string{
		"--storage", "rocketmq5", "--rocketmq5.endpoints", endpoint, "--rocketmq5.nameservers", address(r.names),
		"--rocketmq5.invisible", "10s",
	}, more...)
}

// open opens a log; bare: without the name server.
func (r *rocketmq5Broker) open(t storageT, bare bool) storage.Backend {
	o := rocketmq5.Options{Endpoints: []string{address(r.grpc)}, NameServers: []string{address(r.names)}}
	if bare {
		o.NameServers = nil
	}
	b, err := rocketmq5.Open(o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return b
}

type storageT interface {
	Fatalf(format string, args ...any)
}

// raw asks the broker itself, beside the servers under test.
func (r *rocketmq5Broker) raw(t testing.TB) *remoting.Client {
	t.Helper()
	c, err := remoting.New(remoting.Options{NameServers: []string{address(r.names)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// groupAt is the offset of a subscriber's group in each queue of a topic.
func (r *rocketmq5Broker) groupAt(t testing.TB, c *remoting.Client, topic, client string, queues int) (offsets []int64) {
	t.Helper()
	for id := range queues {
		off, ok, err := c.GroupOffset(t.Context(), address(r.broker), groupOf(topic, client), remoting.Queue{Topic: topic, ID: id})
		if err != nil || !ok {
			t.Fatalf("offset of the group in queue %d: %v, %v", id, ok, err)
		}
		offsets = append(offsets, off)
	}
	return offsets
}

// groupOf is the group of a broadcast subscriber.
func groupOf(topic, client string) string {
	return dispatch.GroupName(topic, offsetstore.Subscriber{Kind: offsetstore.KindClient, Name: client})
}

// handedOutAgain counts the messages that the broker has put among those to be
// handed out to a group once more.
func (r *rocketmq5Broker) handedOutAgain(t testing.TB, c *remoting.Client, topic, group string) (n int64) {
	t.Helper()
	for _, retry := range []string{"%RETRY%" + group + "_" + topic, "%RETRY%" + group + "+" + topic} {
		ok, err := c.TopicExists(t.Context(), address(r.broker), retry)
		if err != nil {
			t.Fatalf("look for %s: %v", retry, err)
		}
		if !ok {
			continue
		}
		high, err := c.MaxOffset(t.Context(), address(r.broker), remoting.Queue{Topic: retry})
		if err != nil {
			t.Fatalf("length of %s: %v", retry, err)
		}
		n += high
	}
	return n
}

// sendRaw sends a body as another program does.
func (r *rocketmq5Broker) sendRaw(t testing.TB, topic, body string) {
	t.Helper()
	_, err := r.raw(t).Send(t.Context(), address(r.broker), remoting.Queue{Topic: topic}, remoting.OutMessage{Body: []byte(body)})
	if err != nil {
		t.Fatalf("send: %v", err)
	}
}

// gate stands between servers and the proxy, and can be shut.
type gate struct {
	lis net.Listener
	to  string

	mu    sync.Mutex
	shut  bool
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

func newGate(t testing.TB, to string) *gate {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{lis: lis, to: to, conns: map[net.Conn]bool{}}
	g.wg.Go(g.accept)
	t.Cleanup(func() {
		lis.Close()
		g.set(true)
		g.wg.Wait()
	})
	return g
}

func (g *gate) addr() string { return g.lis.Addr().String() }

func (g *gate) accept() {
	for {
		in, err := g.lis.Accept()
		if err != nil {
			return
		}
		g.wg.Go(func() { g.pass(in) })
	}
}

// pass carries one connection until either end closes.
func (g *gate) pass(in net.Conn) {
	defer in.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	out, err := new(net.Dialer).DialContext(ctx, "tcp", g.to)
	cancel()
	if err != nil {
		return
	}
	defer out.Close()
	if !g.add(in, out) {
		return
	}
	var wg sync.WaitGroup
	for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
		wg.Go(func() {
			_, _ = io.Copy(pair[1], pair[0]) // either end may break it
			in.Close()
			out.Close()
		})
	}
	wg.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, in)
	delete(g.conns, out)
}

func (g *gate) add(conns ...net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range conns {
		g.conns[c] = true
	}
	return !g.shut
}

// set shuts or opens the gate; shut, all connections break and none is let
// through.
func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
	if shut {
		for c := range g.conns {
			c.Close()
		}
	}
}

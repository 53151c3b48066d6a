package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a system in memory.
type fake struct {
	mu     sync.Mutex
	topics map[string]*fakeTopic
	fail   error // of every publish
}

type fakeTopic struct {
	mu     sync.Mutex
	more   sync.Cond
	events []fakeEvent
	next   map[string]int // of each share or name
}

type fakeEvent struct {
	attrs [Attributes][2]string
	data  []byte
}

func newFake() *fake { return &fake{topics: map[string]*fakeTopic{}} }

func (f *fake) topic(name string) *fakeTopic {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.topics[name]
}

func (f *fake) MakeTopic(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := &fakeTopic{next: map[string]int{}}
	t.more.L = &t.mu
	f.topics[name] = t
	return nil
}

func (f *fake) Unfinished(_ context.Context, topic string, sub Sub) (int64, error) {
	t := f.topic(topic)
	t.mu.Lock()
	defer t.mu.Unlock()
	return int64(len(t.events) - t.next[owner(sub)]), nil
}

func (f *fake) Connect(context.Context, string) (Client, error) { return &fakeClient{f: f}, nil }

func owner(sub Sub) string {
	if sub.Share != "" {
		return "share " + sub.Share
	}
	return "client " + sub.Name
}

type fakeClient struct {
	f    *fake
	subs []*fakeSubscription
}

func (c *fakeClient) Publish(_ context.Context, topic string, e *Event, done func(error)) error {
	if c.f.fail != nil {
		done(c.f.fail)
		return nil
	}
	t := c.f.topic(topic)
	t.mu.Lock()
	t.events = append(t.events, fakeEvent{e.Attrs, bytes.Clone(e.Data)})
	t.more.Broadcast()
	t.mu.Unlock()
	done(nil)
	return nil
}

func (c *fakeClient) Subscribe(_ context.Context, topic string, sub Sub, handle func(*Message)) (Subscription, error) {
	s := &fakeSubscription{t: c.f.topic(topic), who: owner(sub), done: make(chan struct{})}
	s.t.mu.Lock()
	if _, known := s.t.next[s.who]; !known && !sub.Beginning {
		s.t.next[s.who] = len(s.t.events)
	}
	s.t.mu.Unlock()
	c.subs = append(c.subs, s)
	go s.run(handle)
	return s, nil
}

func (c *fakeClient) Close() error {
	for _, s := range c.subs {
		_ = s.Stop(context.Background())
	}
	return nil
}

type fakeSubscription struct {
	t    *fakeTopic
	who  string
	over bool
	done chan struct{}
}

func (s *fakeSubscription) run(handle func(*Message)) {
	defer close(s.done)
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	for !s.over {
		if s.t.next[s.who] == len(s.t.events) {
			s.t.more.Wait()
			continue
		}
		e := s.t.events[s.t.next[s.who]]
		s.t.next[s.who]++
		s.t.mu.Unlock()
		handle(&Message{Data: e.data, Attr: func(name string) string {
			for _, a := range e.attrs {
				if a[0] == name {
					return a[1]
				}
			}
			return ""
		}})
		s.t.mu.Lock()
	}
}

func (s *fakeSubscription) Stop(context.Context) error {
	s.t.mu.Lock()
	s.over = true
	s.t.more.Broadcast()
	s.t.mu.Unlock()
	<-s.done
	return nil
}

func testSpec(scenario string) Spec {
	return Spec{
		Scenario: scenario, ServerPID: os.Getpid(), Clients: 3, Size: 100,
		Warmup: 5 * time.Millisecond, Duration: 50 * time.Millisecond,
		Backlog: 800, Window: 64, IdleRate: 1000, Connections: 4, PerConnection: 2, Settle: time.Millisecond,
	}
}

// Every scenario runs, and each of its phases has seen something.
func TestRun_Scenarios(t *testing.T) {
	for scenario, phases := range map[string]string{
		Publish: "publish", CatchUp: "catch-up", Live: "idle peak half", FanOut: "fan-out", Fill: "fill",
	} {
		t.Run(scenario, func(t *testing.T) {
			res, err := Run(t.Context(), newFake(), testSpec(scenario))
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, p := range res.Phases {
				names = append(names, p.Name)
				if p.Events == 0 || p.Rate <= 0 || p.RSS <= 0 {
					t.Errorf("phase %+v", p)
				}
				if measured := scenario != CatchUp && scenario != Fill; measured != (p.Latency.Count > 0) {
					t.Errorf("phase %s has %d latencies", p.Name, p.Latency.Count)
				}
			}
			if got := strings.Join(names, " "); got != phases {
				t.Errorf("phases %s, want %s", got, phases)
			}
			if res.PeakRSS <= 0 {
				t.Errorf("peak %d", res.PeakRSS)
			}
		})
	}
}

// What is paced comes at the rate that was asked for, and everything counts.
func TestRun_Pace(t *testing.T) {
	spec := testSpec(Live)
	spec.Duration = 200 * time.Millisecond
	res, err := Run(t.Context(), newFake(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if n := res.Phases[0].Events; n < 150 || n > 201 {
		t.Errorf("%d events in 200 ms at 1000 a second", n)
	}
}

// What one load has stored another reads, with a clock that begins with the
// first event, and without a server between it and the broker.
func TestRun_Stored(t *testing.T) {
	f := newFake()
	if err := f.MakeTopic(t.Context(), "stored"); err != nil {
		t.Fatal(err)
	}
	spec := testSpec(Fill)
	spec.Topic, spec.Backlog = "stored", 20_003
	if _, err := Run(t.Context(), f, spec); err != nil {
		t.Fatal(err)
	}
	spec.Scenario, spec.FromFirst, spec.Unconfirmed = CatchUp, true, true
	spec.ServerPID, spec.BrokerPIDs = 0, []int{os.Getpid()}
	for _, run := range []string{"-1", "-2"} { // a second one is another subscriber
		spec.Run = run
		res, err := Run(t.Context(), f, spec)
		if err != nil {
			t.Fatal(err)
		}
		if p := res.Phases[0]; p.Events > 20_000 || p.ServerCPU != 0 || p.RSS != 0 || res.PeakRSS != 0 {
			t.Errorf("%+v, peak %d", p, res.PeakRSS)
		}
		if left, err := f.Unfinished(t.Context(), "stored", Sub{Share: "workers" + run}); left != 0 || err != nil {
			t.Errorf("%d events left by %s, %v", left, run, err)
		}
	}
}

func TestRun_Idle(t *testing.T) {
	f := newFake()
	spec := testSpec(Idle)
	r := &run{ctx: t.Context(), d: f, spec: spec}
	if err := r.idle(); err != nil {
		t.Fatal(err)
	}
	if n := r.result.Phases[0].Events; n != 8 {
		t.Errorf("%d streams opened, want 8", n)
	}
	if p := r.result.Phases[2]; p.Name != "wake" || p.Events != 8 {
		t.Errorf("woken: %+v", p)
	}
	r.close()
}

func TestMain_FailedPublishFails(t *testing.T) {
	f := newFake()
	f.fail = errors.New("disk is full")
	in, err := json.Marshal(testSpec(CatchUp))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = Main(t.Context(), bytes.NewReader(in), &out, func(Spec) (Driver, error) { return f, nil })
	if !errors.Is(err, f.fail) || out.Len() > 0 {
		t.Errorf("got %v and %q", err, out.String())
	}
}

func TestRun_UnknownScenario(t *testing.T) {
	if _, err := Run(t.Context(), newFake(), Spec{Scenario: "guess"}); err == nil || !strings.Contains(err.Error(), `"guess"`) {
		t.Errorf("got %v", err)
	}
}

// Ids differ, the data begins with the time, the rest stays.
func TestMaker(t *testing.T) {
	m := NewMaker("p", 64)
	a := *m.Next(5 * time.Second)
	b := *m.Next(7 * time.Second)
	if a.Attrs[0][1] == b.Attrs[0][1] {
		t.Errorf("both have the id %s", a.Attrs[0][1])
	}
	for i, attr := range b.Attrs {
		if attr[0] == "" || attr[1] == "" {
			t.Errorf("attribute %d is %q", i, attr)
		}
	}
	if got := sentAt(b.Data); got != 7*time.Second || len(b.Data) != 64 {
		t.Errorf("sent at %v, %d bytes", got, len(b.Data))
	}
	if sentAt([]byte("short")) != 0 {
		t.Error("a time in data without one")
	}
}

func TestProcess(t *testing.T) {
	if d, err := cpuTime(os.Getpid()); err != nil || d < 0 {
		t.Errorf("CPU time %v, %v", d, err)
	}
	if now, peak, err := memory(os.Getpid()); err != nil || now <= 0 || peak < now {
		t.Errorf("memory %d, peak %d, %v", now, peak, err)
	}
	if _, err := cpuTime(1 << 30); err == nil {
		t.Error("CPU time of no process")
	}
}

func ExampleHistogram() {
	var h Histogram
	for i := range 100 {
		h.Add(time.Duration(i) * time.Millisecond)
	}
	fmt.Println(h.Quantile(0.5).Round(10 * time.Millisecond))
	// Output: 50ms
}

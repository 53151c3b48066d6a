package storagetest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
)

// A mutant is a good backend with one fault. The suite must find the fault
// where it is looked for, and for the right reason.
type mutant struct {
	name   string
	caught string // the case that must fail
	says   string // part of what it must say
	opts   memory.Options
	breaks func(m *broken)  // puts the fault into an open backend
	bends  func(h *Harness) // or into the harness
}

func allMutants() []mutant {
	return slices.Concat(appendMutants, pollMutants, waitMutants, cursorMutants, boundsMutants, topicMutants, lifeMutants, smallMutants)
}

// patient is for a mutant that ends nothing but takes its time where tests run
// beside it.
func patient(h *Harness) { h.Patience = time.Minute }

func TestMutantsAreCaught(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range allMutants() {
		if seen[m.name] {
			t.Errorf("two mutants are called %q", m.name)
		}
		seen[m.name] = true
		if m.says == "" {
			t.Errorf("mutant %q may fail for any reason", m.name)
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			h := m.harness()
			wantCaught(t, m, failures(t, &h, m.caught))
		})
	}
}

// A case that catches nothing might as well not be there.
func TestEveryCaseCatchesAMutant(t *testing.T) {
	for _, tc := range allCases() {
		if !slices.ContainsFunc(allMutants(), func(m mutant) bool { return m.caught == tc.name }) {
			t.Errorf("no mutant is caught by %s", tc.name)
		}
	}
}

func wantCaught(t *testing.T, m mutant, said []string) {
	t.Helper()
	for _, s := range said {
		if strings.Contains(s, m.says) {
			return
		}
	}
	t.Errorf("case %s does not say %q, but %q", m.caught, m.says, said)
}

// The same backend and harness without a fault pass every case, so that what
// catches a mutant is its fault.
func TestNoMutantPasses(t *testing.T) {
	h := mutant{}.harness()
	for _, tc := range allCases() {
		if !tc.applies(&h) {
			continue
		}
		if said := failures(t, &h, tc.name); len(said) > 0 {
			t.Errorf("%s: %q", tc.name, said)
		}
	}
}

// failures runs one case and returns what it complained of.
func failures(t *testing.T, h *Harness, name string) []string {
	t.Helper()
	for _, tc := range allCases() {
		if tc.name == name && tc.applies(h) {
			return complaints(t, name, func(r T) { tc.run(newEnv(r, h)) })
		}
	}
	t.Fatalf("there is no case %q for this harness", name)
	return nil
}

// complaints runs a case, and what it cleans up, and returns what it complained
// of.
func complaints(t *testing.T, name string, run func(T)) []string {
	r := &recorder{T: t, name: name}
	r.run(func() { run(r) })
	r.cleanUp()
	return r.said
}

// recorder is a T that keeps what is said to it.
type recorder struct {
	T    // of the test that watches
	name string

	mu       sync.Mutex
	said     []string
	cleanups []func()
}

func (r *recorder) Name() string             { return r.name }
func (r *recorder) Helper()                  {}
func (r *recorder) Logf(string, ...any)      {}
func (r *recorder) Context() context.Context { return context.Background() }

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// run calls f, which Fatalf may end.
func (r *recorder) run(f func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			if p := recover(); p != nil {
				r.Errorf("panic: %v", p)
			}
		}()
		f()
	}()
	<-ended
}

func (r *recorder) cleanUp() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.run(r.cleanups[i])
	}
}

// broken is a memory log with some methods replaced. n counts for the faults
// that do not always strike.
type broken struct {
	*memory.Backend
	n atomic.Int64

	append      func(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error
	poll        func(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error
	cursor      func(topic, partition string) (int64, bool)
	topic       func(ctx context.Context, topic string) (storage.Topic, error)
	ensure      func(ctx context.Context, topic string) (storage.Topic, error)
	topics      func(ctx context.Context) ([]storage.Topic, error)
	close       func() error
	bounds      func(ctx context.Context, topic, partition string) (int64, int64, error)
	byTime      func(ctx context.Context, topic, partition string, at time.Time, m storage.TimeMatch) (int64, error)
	create      func(ctx context.Context, topic string, cfg storage.TopicConfig) (storage.Topic, error)
	remove      func(ctx context.Context, topic string) error
	trim        func(ctx context.Context, topic, partition string, before int64) error
	fingerprint func(ctx context.Context, topic, partition string, next int64) (storage.Fingerprint, bool, error)
	checkpoint  func(ctx context.Context) error
}

func (m *broken) Append(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
	return m.append(ctx, topic, events, done)
}

func (m *broken) Poll(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
	return m.poll(ctx, req, batch)
}

func (m *broken) Cursor(topic, partition string) (int64, bool) { return m.cursor(topic, partition) }

func (m *broken) Topic(ctx context.Context, topic string) (storage.Topic, error) {
	return m.topic(ctx, topic)
}

func (m *broken) EnsureTopic(ctx context.Context, topic string) (storage.Topic, error) {
	return m.ensure(ctx, topic)
}

func (m *broken) Topics(ctx context.Context) ([]storage.Topic, error) { return m.topics(ctx) }
func (m *broken) Close() error                                        { return m.close() }

func (m *broken) Bounds(ctx context.Context, topic, partition string) (int64, int64, error) {
	return m.bounds(ctx, topic, partition)
}

func (m *broken) OffsetByTime(ctx context.Context, topic, partition string, at time.Time, match storage.TimeMatch) (int64, error) {
	return m.byTime(ctx, topic, partition, at, match)
}

func (m *broken) CreateTopic(ctx context.Context, topic string, cfg storage.TopicConfig) (storage.Topic, error) {
	return m.create(ctx, topic, cfg)
}

func (m *broken) DeleteTopic(ctx context.Context, topic string) error { return m.remove(ctx, topic) }

func (m *broken) Trim(ctx context.Context, topic, partition string, before int64) error {
	return m.trim(ctx, topic, partition, before)
}

func (m *broken) Fingerprint(ctx context.Context, topic, partition string, next int64) (storage.Fingerprint, bool, error) {
	return m.fingerprint(ctx, topic, partition, next)
}

func (m *broken) Checkpoint(ctx context.Context) error { return m.checkpoint(ctx) }

// every tells that the fault strikes now: each k-th time.
func (m *broken) every(k int64) bool { return m.n.Add(1)%k == 0 }

// wrap puts the mutant's fault into b.
func (mu mutant) wrap(b *memory.Backend) *broken {
	m := &broken{
		Backend: b, append: b.Append, poll: b.Poll, cursor: b.Cursor, topic: b.Topic, ensure: b.EnsureTopic,
		topics: b.Topics, close: b.Close, bounds: b.Bounds, byTime: b.OffsetByTime, create: b.CreateTopic,
		remove: b.DeleteTopic, trim: b.Trim, fingerprint: b.Fingerprint, checkpoint: b.Checkpoint,
	}
	if mu.breaks != nil {
		mu.breaks(m)
	}
	return m
}

// harness is that of a memory log with everything, and the mutant's fault.
func (mu mutant) harness() Harness {
	var ahead, fixed atomic.Int64
	opts := mu.opts
	opts.Clock = func() time.Time {
		if at := fixed.Load(); at != 0 {
			return time.UnixMilli(at)
		}
		return time.Now().Add(time.Duration(ahead.Load()))
	}
	h := Harness{
		Has: Capabilities{
			Bounder: true, TopicAdmin: true, Trimmer: true, Fingerprinter: true, Checkpointer: true, Liter: true,
			TopicID: true, AutoCreate: true, AnyName: true, DedupWindow: memory.DefaultDedupWindow,
		},
		Open:        func(T) storage.Backend { return mu.wrap(memory.New(opts)) },
		Reopen:      func(_ T, b storage.Backend) storage.Backend { return mu.wrap(b.(*broken).Reopen()) },
		CrashReopen: func(_ T, b storage.Backend) storage.Backend { return mu.wrap(b.(*broken).Crash()) },
		AppendAt: func(t T, b storage.Backend, topic string, frame []byte, at time.Time) {
			fixed.Store(at.UnixMilli())
			defer fixed.Store(0)
			if _, err := storage.AppendWait(context.Background(), b, topic, []storage.Event{{Frame: frame}}); err != nil {
				t.Fatalf("append: %v", err)
			}
		},
		Advance:  func(_ T, _ storage.Backend, d time.Duration) { ahead.Add(int64(d)) },
		Patience: 400 * time.Millisecond,
		Settle:   20 * time.Millisecond,
	}
	if mu.breaks == nil && mu.bends == nil {
		h.Patience = 0 // a good one may take its time
	}
	if mu.bends != nil {
		mu.bends(&h)
	}
	return h.withDefaults()
}

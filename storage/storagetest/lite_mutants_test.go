package storagetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
)

// brokenLite is a good log with lite topics, with some methods replaced.
type brokenLite struct {
	*memory.Backend
	n  atomic.Int64
	mu sync.Mutex

	appendTo func(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error
	parent   func(ctx context.Context, parent string) (storage.Topic, error)
	ensure   func(ctx context.Context, parent, lite string) error
	append   func(ctx context.Context, parent, lite string, events []storage.Event, done storage.AppendDone) error
	poll     func(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error
	bounds   func(ctx context.Context, parent, lite string) (int64, int64, error)
	await    func(parent, lite string, next int64, arrived func()) func()
	cursor   func(parent, lite string) (int64, bool)
	seek     func(parent, lite string, next int64) error
	forget   func(parent, lite string)
}

func (m *brokenLite) Append(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
	return m.appendTo(ctx, topic, events, done)
}

func (m *brokenLite) LiteParent(ctx context.Context, parent string) (storage.Topic, error) {
	return m.parent(ctx, parent)
}

func (m *brokenLite) EnsureLite(ctx context.Context, parent, lite string) error {
	return m.ensure(ctx, parent, lite)
}

func (m *brokenLite) AppendLite(ctx context.Context, parent, lite string, events []storage.Event, done storage.AppendDone) error {
	return m.append(ctx, parent, lite, events, done)
}

func (m *brokenLite) PollLite(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
	return m.poll(ctx, req, batch)
}

func (m *brokenLite) LiteBounds(ctx context.Context, parent, lite string) (int64, int64, error) {
	return m.bounds(ctx, parent, lite)
}

func (m *brokenLite) AwaitLite(parent, lite string, next int64, arrived func()) func() {
	return m.await(parent, lite, next, arrived)
}

func (m *brokenLite) LiteCursor(parent, lite string) (int64, bool) { return m.cursor(parent, lite) }

func (m *brokenLite) SeekLite(parent, lite string, next int64) error {
	return m.seek(parent, lite, next)
}

func (m *brokenLite) ForgetLite(parent, lite string) { m.forget(parent, lite) }

// liteMutant is a good log with one fault, and the case that must find it.
type liteMutant struct {
	name   string
	caught string
	breaks func(m *brokenLite)
	bends  func(h *LiteHarness)
}

func wrapLite(mu liteMutant, b *memory.Backend) *brokenLite {
	m := &brokenLite{
		Backend: b, appendTo: b.Append, parent: b.LiteParent, ensure: b.EnsureLite, append: b.AppendLite, poll: b.PollLite,
		bounds: b.LiteBounds, await: b.AwaitLite, cursor: b.LiteCursor, seek: b.SeekLite, forget: b.ForgetLite,
	}
	if mu.breaks != nil {
		mu.breaks(m)
	}
	return m
}

// ignoring calls f and takes these errors for success.
func ignoring(err error, these ...error) error {
	if slices.ContainsFunc(these, func(e error) bool { return errors.Is(err, e) }) {
		return nil
	}
	return err
}

// renamed has all lite topics under other names.
func renamed(name func(string) string) func(m *brokenLite) {
	return func(m *brokenLite) {
		m.append = func(ctx context.Context, parent, lite string, events []storage.Event, done storage.AppendDone) error {
			return m.Backend.AppendLite(ctx, parent, name(lite), events, func(r []storage.Appended, err error) {
				for i := range r {
					r[i].Partition = lite
				}
				done(r, err)
			})
		}
		m.poll = func(ctx context.Context, req storage.PollRequest, b *storage.Batch) error {
			req.Partition = name(req.Partition)
			return m.Backend.PollLite(ctx, req, b)
		}
		m.bounds = func(ctx context.Context, parent, lite string) (int64, int64, error) {
			return m.Backend.LiteBounds(ctx, parent, name(lite))
		}
	}
}

// polled changes what PollLite returns.
func polled(change func(m *brokenLite, req storage.PollRequest, b *storage.Batch)) func(m *brokenLite) {
	return func(m *brokenLite) {
		m.poll = func(ctx context.Context, req storage.PollRequest, b *storage.Batch) error {
			err := m.Backend.PollLite(ctx, req, b)
			if err == nil {
				change(m, req, b)
			}
			return err
		}
	}
}

var liteMutants = slices.Concat(liteBasicMutants, liteReadMutants, liteCursorMutants)

var liteBasicMutants = []liteMutant{
	{name: "names have any length", caught: "Lite/Names", breaks: func(m *brokenLite) {
		m.ensure = func(ctx context.Context, parent, lite string) error {
			return m.Backend.EnsureLite(ctx, parent, lite[:min(len(lite), storage.MaxLiteName)])
		}
	}},
	{name: "a dot in a name", caught: "Lite/Names", breaks: func(m *brokenLite) {
		m.append = func(ctx context.Context, parent, lite string, events []storage.Event, done storage.AppendDone) error {
			return m.Backend.AppendLite(ctx, parent, strings.ReplaceAll(lite, ".", "-"), events, done)
		}
	}},
	{name: "making it again empties it", caught: "Lite/EnsureTwice", breaks: func(m *brokenLite) {
		made := map[string]int{}
		m.ensure = func(ctx context.Context, parent, lite string) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			made[lite]++
			return m.Backend.EnsureLite(ctx, parent, lite)
		}
		polled(func(m *brokenLite, req storage.PollRequest, b *storage.Batch) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if made[req.Partition] > 1 && len(b.Records) > 0 {
				b.Records = b.Records[1:]
			}
		})(m)
	}},
	{name: "an ordinary topic is a parent", caught: "Lite/ParentOfAnotherType", breaks: func(m *brokenLite) {
		m.parent = func(ctx context.Context, parent string) (storage.Topic, error) {
			t, err := m.Backend.LiteParent(ctx, parent)
			return t, ignoring(err, storage.ErrTopicType)
		}
	}},
	{name: "below an ordinary topic too", caught: "Lite/ParentOfAnotherType", breaks: func(m *brokenLite) {
		m.ensure = func(ctx context.Context, parent, lite string) error {
			return ignoring(m.Backend.EnsureLite(ctx, parent, lite), storage.ErrTopicType)
		}
	}},
	{name: "a missing parent is no fault", caught: "Lite/MissingParent", breaks: func(m *brokenLite) {
		m.ensure = func(ctx context.Context, parent, lite string) error {
			return ignoring(m.Backend.EnsureLite(ctx, parent, lite), storage.ErrTopicNotFound)
		}
	}},
	{name: "a parent swallows events", caught: "Lite/ParentTakesNoEvents", breaks: func(m *brokenLite) {
		m.appendTo = func(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
			err := m.Backend.Append(ctx, topic, events, done)
			if errors.Is(err, storage.ErrTopicType) {
				done(make([]storage.Appended, len(events)), nil)
				return nil
			}
			return err
		}
	}},
	{name: "names without case", caught: "Lite/OrderAndIsolation", breaks: renamed(strings.ToLower)},
	{name: "all in one", caught: "Lite/Many", breaks: renamed(func(string) string { return "one" })},
	{name: "forgets the 40th", caught: "Lite/Many", breaks: func(m *brokenLite) {
		m.append = func(ctx context.Context, parent, lite string, events []storage.Event, done storage.AppendDone) error {
			if m.n.Add(1) == 40 {
				done(make([]storage.Appended, len(events)), nil)
				return nil
			}
			return m.Backend.AppendLite(ctx, parent, lite, events, done)
		}
	}},
	{name: "a crash loses the last record", caught: "Lite/CrashKeeps", bends: func(h *LiteHarness) {
		crash := h.CrashReopen
		h.CrashReopen = func(t T, b storage.Backend) storage.Backend {
			m := crash(t, b).(*brokenLite)
			polled(func(_ *brokenLite, _ storage.PollRequest, b *storage.Batch) {
				b.Records = b.Records[:max(0, len(b.Records)-1)]
			})(m)
			return m
		}
	}},
	{name: "old records in a new parent", caught: "Lite/ParentMadeAnew", bends: func(h *LiteHarness) {
		h.DeleteParent = func(T, storage.Backend, string) {}
	}},
	{name: "no identity", caught: "Lite/ParentMadeAnew", breaks: func(m *brokenLite) {
		m.poll = func(ctx context.Context, req storage.PollRequest, b *storage.Batch) error {
			req.TopicID = ""
			return m.Backend.PollLite(ctx, req, b)
		}
	}},
}

var liteReadMutants = []liteMutant{
	{name: "the maximum is that of the last record", caught: "LiteRead/Bounds", breaks: func(m *brokenLite) {
		m.bounds = func(ctx context.Context, parent, lite string) (int64, int64, error) {
			low, high, err := m.Backend.LiteBounds(ctx, parent, lite)
			return low, max(0, high-1), err
		}
	}},
	{name: "one that is not there has no bounds", caught: "LiteRead/Bounds", breaks: func(m *brokenLite) {
		m.bounds = func(ctx context.Context, parent, lite string) (int64, int64, error) {
			low, high, err := m.Backend.LiteBounds(ctx, parent, lite)
			if high == 0 {
				err = storage.ErrPartitionNotFound
			}
			return low, high, err
		}
	}},
	{name: "reads from the beginning", caught: "LiteRead/FromAnywhere", breaks: func(m *brokenLite) {
		m.poll = func(ctx context.Context, req storage.PollRequest, b *storage.Batch) error {
			if m.n.Add(1) > 3 {
				req.Start = 0
			}
			return m.Backend.PollLite(ctx, req, b)
		}
	}},
	{name: "skips one", caught: "LiteRead/FromAnywhere", breaks: polled(func(_ *brokenLite, req storage.PollRequest, b *storage.Batch) {
		if req.MaxRecords == 1 && len(b.Records) > 0 {
			b.Next++
		}
	})},
	{name: "MaxBytes hides a large record", caught: "LiteRead/FromAnywhere", breaks: polled(func(_ *brokenLite, req storage.PollRequest, b *storage.Batch) {
		if req.MaxBytes == 1 {
			b.Records = nil
		}
	})},
	{name: "above the end is the end", caught: "LiteRead/OutsideBounds", breaks: func(m *brokenLite) {
		m.poll = func(ctx context.Context, req storage.PollRequest, b *storage.Batch) error {
			err := m.Backend.PollLite(ctx, req, b)
			var rng *storage.RangeError
			if errors.As(err, &rng) {
				return nil
			}
			return err
		}
	}},
	{name: "waits", caught: "LiteRead/DoesNotWait", breaks: func(m *brokenLite) {
		m.poll = func(ctx context.Context, req storage.PollRequest, b *storage.Batch) error {
			err := m.Backend.PollLite(ctx, req, b)
			if err == nil && len(b.Records) == 0 {
				select { // the fault itself
				case <-time.After(req.Wait):
				case <-ctx.Done():
					err = ctx.Err()
				}
			}
			return err
		}
	}},
	{name: "nobody is told", caught: "LiteRead/Await", breaks: func(m *brokenLite) {
		m.await = func(parent, lite string, next int64, arrived func()) func() {
			if _, high, err := m.LiteBounds(context.Background(), parent, lite); err == nil && high > next {
				arrived()
			}
			return func() {}
		}
	}},
	{name: "what is there already is not told", caught: "LiteRead/Await", breaks: func(m *brokenLite) {
		m.await = func(parent, lite string, next int64, arrived func()) func() {
			if _, high, err := m.LiteBounds(context.Background(), parent, lite); err == nil && high > next {
				next = high
			}
			return m.Backend.AwaitLite(parent, lite, next, arrived)
		}
	}},
	{name: "told twice", caught: "LiteRead/Await", breaks: func(m *brokenLite) {
		m.await = func(parent, lite string, next int64, arrived func()) func() {
			return m.Backend.AwaitLite(parent, lite, next, func() { arrived(); arrived() })
		}
	}},
	{name: "one waits for each", caught: "LiteRead/AwaitEachItsOwn", breaks: func(m *brokenLite) {
		waiting := map[string]bool{}
		m.await = func(parent, lite string, next int64, arrived func()) func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			if waiting[lite] {
				return func() {}
			}
			waiting[lite] = true
			return m.Backend.AwaitLite(parent, lite, next, arrived)
		}
	}},
	{name: "all are told", caught: "LiteRead/AwaitEachItsOwn", breaks: func(m *brokenLite) {
		m.await = func(parent, _ string, next int64, arrived func()) func() {
			return m.Backend.AwaitLite(parent, liteName(17), next, arrived)
		}
	}},
	{name: "stop does not", caught: "LiteRead/AwaitStopped", breaks: func(m *brokenLite) {
		m.await = func(parent, lite string, next int64, arrived func()) func() {
			m.Backend.AwaitLite(parent, lite, next, arrived)
			return func() {}
		}
	}},
}

var liteCursorMutants = []liteMutant{
	{name: "unknown is 0", caught: "LiteCursor/UnknownAtFirst", breaks: func(m *brokenLite) {
		m.cursor = func(parent, lite string) (int64, bool) {
			next, _ := m.Backend.LiteCursor(parent, lite)
			return next, true
		}
	}},
	{name: "takes -1", caught: "LiteCursor/UnknownAtFirst", breaks: func(m *brokenLite) {
		m.seek = func(parent, lite string, next int64) error { return m.Backend.SeekLite(parent, lite, max(0, next)) }
	}},
	{name: "reading moves it", caught: "LiteCursor/OnlySeekMoves", breaks: polled(func(m *brokenLite, req storage.PollRequest, b *storage.Batch) {
		_ = m.Backend.SeekLite(req.Topic, req.Partition, b.Next) // the fault itself
	})},
	{name: "one for all lite topics", caught: "LiteCursor/OnlySeekMoves", breaks: func(m *brokenLite) {
		m.seek = func(parent, _ string, next int64) error { return m.Backend.SeekLite(parent, "all", next) }
		m.cursor = func(parent, _ string) (int64, bool) { return m.Backend.LiteCursor(parent, "all") }
	}},
	{name: "never down", caught: "LiteCursor/OnlySeekMoves", breaks: func(m *brokenLite) {
		m.seek = func(parent, lite string, next int64) error {
			if have, ok := m.Backend.LiteCursor(parent, lite); ok && have > next {
				return nil
			}
			return m.Backend.SeekLite(parent, lite, next)
		}
	}},
	{name: "not saved at the end", caught: "LiteCursor/SurvivesReopen", bends: func(h *LiteHarness) {
		h.Reopen = h.CrashReopen
	}},
	{name: "a crash moves it on", caught: "LiteCursor/CrashNeverSkips", bends: func(h *LiteHarness) {
		crash := h.CrashReopen
		h.CrashReopen = func(t T, b storage.Backend) storage.Backend {
			m := crash(t, b).(*brokenLite)
			m.cursor = func(parent, lite string) (int64, bool) {
				next, _ := m.Backend.LiteCursor(parent, lite)
				return next + 3, true
			}
			return m
		}
	}},
	{name: "kept for ever", caught: "LiteCursor/Forgotten", breaks: func(m *brokenLite) {
		m.forget = func(string, string) {}
	}},
}

// harness is that of a good log with the mutant's fault.
func (mu liteMutant) harness() LiteHarness {
	h := LiteHarness{
		Open: func(T) storage.Backend { return wrapLite(mu, memory.New(memory.Options{NoAutoCreate: true})) },
		Reopen: func(_ T, b storage.Backend) storage.Backend {
			return wrapLite(mu, b.(*brokenLite).Reopen())
		},
		CrashReopen: func(_ T, b storage.Backend) storage.Backend { return wrapLite(mu, b.(*brokenLite).Crash()) },
		MakeParent: func(t T, b storage.Backend, parent string) {
			if err := b.(*brokenLite).CreateLiteParent(parent); err != nil && !errors.Is(err, storage.ErrTopicExists) {
				t.Fatalf("make a parent: %v", err)
			}
		},
		MakeTopic: func(t T, b storage.Backend, topic string) {
			if _, err := b.(*brokenLite).CreateTopic(context.Background(), topic, storage.TopicConfig{}); err != nil {
				t.Fatalf("make a topic: %v", err)
			}
		},
		DeleteParent: func(t T, b storage.Backend, parent string) {
			if err := b.(*brokenLite).DeleteTopic(context.Background(), parent); err != nil {
				t.Fatalf("delete a parent: %v", err)
			}
		},
		Patience: 400 * time.Millisecond, Settle: 10 * time.Millisecond, Many: 30,
	}
	if mu.breaks == nil && mu.bends == nil {
		h.Patience = 0 // a good one may take its time
	}
	if mu.bends != nil {
		mu.bends(&h)
	}
	return h.withDefaults()
}

// liteFailures runs one case and returns what it complained of.
func liteFailures(t *testing.T, h *LiteHarness, name string) []string {
	t.Helper()
	for _, lc := range allLiteCases() {
		if lc.name == name && lc.applies(h) {
			return complaints(t, name, func(r T) { lc.run(newLiteEnv(r, h)) })
		}
	}
	t.Fatalf("there is no case %q for this harness", name)
	return nil
}

func TestLiteMutantsAreCaught(t *testing.T) {
	for _, m := range liteMutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			h := m.harness()
			if said := liteFailures(t, &h, m.caught); len(said) == 0 {
				t.Errorf("%s finds no fault", m.caught)
			}
		})
	}
}

func TestEveryLiteCaseCatchesAMutant(t *testing.T) {
	for _, lc := range allLiteCases() {
		if !slices.ContainsFunc(liteMutants, func(m liteMutant) bool { return m.caught == lc.name }) {
			t.Errorf("no mutant is caught by %s", lc.name)
		}
	}
}

// The same log without a fault passes every case, so that what catches a mutant
// is its fault.
func TestNoLiteMutantPasses(t *testing.T) {
	h := liteMutant{}.harness()
	for _, lc := range allLiteCases() {
		if said := liteFailures(t, &h, lc.name); len(said) > 0 {
			t.Errorf("%s: %q", lc.name, said)
		}
	}
}

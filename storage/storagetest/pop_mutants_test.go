package storagetest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/fakepop"
)

// brokenPop is a good log that hands records out, with some methods replaced.
type brokenPop struct {
	*fakepop.Backend
	n     atomic.Int64
	mu    sync.Mutex
	given map[string]any // for faults that remember

	open    func(ctx context.Context, spec storage.GroupSpec) (storage.Group, error)
	pop     func(ctx context.Context, req storage.PopRequest, batch *storage.Batch) error
	renew   func(ctx context.Context, handles []any, d time.Duration) ([]storage.Renewed, error)
	release func(ctx context.Context, handles []any) error
	ack     func(ctx context.Context, handles []any) ([]bool, error)
	move    func(ctx context.Context, topic, group string, to storage.GroupStart, dry bool) ([]storage.GroupMove, error)
	offsets func(ctx context.Context, topic, group string) ([]storage.GroupOffset, error)
	remove  func(ctx context.Context, topic, group string) error
}

func (m *brokenPop) OpenGroup(ctx context.Context, spec storage.GroupSpec) (storage.Group, error) {
	return m.open(ctx, spec)
}

func (m *brokenPop) Pop(ctx context.Context, req storage.PopRequest, b *storage.Batch) error {
	return m.pop(ctx, req, b)
}

func (m *brokenPop) Renew(ctx context.Context, h []any, d time.Duration) ([]storage.Renewed, error) {
	return m.renew(ctx, h, d)
}

func (m *brokenPop) Release(ctx context.Context, h []any) error       { return m.release(ctx, h) }
func (m *brokenPop) Ack(ctx context.Context, h []any) ([]bool, error) { return m.ack(ctx, h) }

func (m *brokenPop) MoveGroup(ctx context.Context, topic, group string, to storage.GroupStart, dry bool) ([]storage.GroupMove, error) {
	return m.move(ctx, topic, group, to, dry)
}

func (m *brokenPop) GroupOffsets(ctx context.Context, topic, group string) ([]storage.GroupOffset, error) {
	return m.offsets(ctx, topic, group)
}

func (m *brokenPop) DeleteGroup(ctx context.Context, topic, group string) error {
	return m.remove(ctx, topic, group)
}

// popMutant is a good log with one fault, and the case that must find it.
type popMutant struct {
	name   string
	caught string
	breaks func(m *brokenPop)
	bends  func(h *PopHarness)
}

func wrapPop(mu popMutant, b *fakepop.Backend) *brokenPop {
	m := &brokenPop{
		Backend: b, given: map[string]any{}, open: b.OpenGroup, pop: b.Pop, renew: b.Renew, release: b.Release, ack: b.Ack,
		move: b.MoveGroup, offsets: b.GroupOffsets, remove: b.DeleteGroup,
	}
	if mu.breaks != nil {
		mu.breaks(m)
	}
	return m
}

// eachRecord changes what Pop returns.
func eachRecord(change func(m *brokenPop, r *storage.Record)) func(m *brokenPop) {
	return func(m *brokenPop) {
		m.pop = func(ctx context.Context, req storage.PopRequest, b *storage.Batch) error {
			err := m.Backend.Pop(ctx, req, b)
			for i := range b.Records {
				change(m, &b.Records[i])
			}
			return err
		}
	}
}

var popMutants = []popMutant{
	{name: "hands one out twice", caught: "Pop/EachOnce", breaks: func(m *brokenPop) {
		m.pop = func(ctx context.Context, req storage.PopRequest, b *storage.Batch) error {
			err := m.Backend.Pop(ctx, req, b)
			if len(b.Records) > 1 {
				b.Records[1] = b.Records[0]
			}
			return err
		}
	}},
	{name: "the same ID for all", caught: "Pop/EachOnce", breaks: eachRecord(func(_ *brokenPop, r *storage.Record) { r.ID = "one" })},
	{name: "no check key", caught: "Pop/EachOnce", breaks: eachRecord(func(_ *brokenPop, r *storage.Record) { r.CheckKey = "" })},
	{name: "no partition", caught: "Pop/EachOnce", breaks: eachRecord(func(_ *brokenPop, r *storage.Record) { r.Partition = "" })},
	{name: "no frame", caught: "Pop/EachOnce", breaks: eachRecord(func(_ *brokenPop, r *storage.Record) { r.Frame = []byte("garbage") })},
	{name: "an idle queue holds up the others", caught: "Pop/EveryQueue", breaks: func(m *brokenPop) {
		m.pop = func(ctx context.Context, req storage.PopRequest, b *storage.Batch) error {
			if req.Wait > 0 && m.n.Add(1)%3 == 0 {
				<-time.After(250 * time.Millisecond) // the fault itself
			}
			return m.Backend.Pop(ctx, req, b)
		}
	}},
	{name: "does not wait", caught: "Pop/WaitsInVain", breaks: func(m *brokenPop) {
		m.pop = func(ctx context.Context, req storage.PopRequest, b *storage.Batch) error {
			req.Wait = 0
			return m.Backend.Pop(ctx, req, b)
		}
	}},
	{name: "more than asked for", caught: "Pop/Max", breaks: func(m *brokenPop) {
		m.pop = func(ctx context.Context, req storage.PopRequest, b *storage.Batch) error {
			req.Max += 2
			return m.Backend.Pop(ctx, req, b)
		}
	}},
	{name: "one group for all", caught: "Pop/GroupsApart", breaks: func(m *brokenPop) {
		m.open = func(ctx context.Context, spec storage.GroupSpec) (storage.Group, error) {
			spec.Group = "all"
			return m.Backend.OpenGroup(ctx, spec)
		}
		m.pop = func(ctx context.Context, req storage.PopRequest, b *storage.Batch) error {
			req.Group = "all"
			return m.Backend.Pop(ctx, req, b)
		}
	}},
	{name: "the other client gets all as well", caught: "Pop/ClientsShare", bends: func(h *PopHarness) {
		another := h.Another
		h.Another = func(t T, b storage.Backend) storage.Backend {
			m := wrapPop(popMutant{}, another(t, b).(*brokenPop).Backend)
			m.pop = func(ctx context.Context, req storage.PopRequest, b *storage.Batch) error {
				own := req.Group + "-own"
				_, _ = m.OpenGroup(ctx, storage.GroupSpec{Topic: req.Topic, Group: own, Start: storage.GroupStart{At: storage.GroupEarliest}})
				req.Group = own
				return m.Backend.Pop(ctx, req, b)
			}
			return m
		}
	}},
	{name: "ends a wait with no error", caught: "Pop/Canceled", breaks: func(m *brokenPop) {
		m.pop = func(ctx context.Context, req storage.PopRequest, b *storage.Batch) error {
			if err := m.Backend.Pop(ctx, req, b); ctx.Err() == nil {
				return err
			}
			return nil
		}
	}},
	{name: "makes missing groups", caught: "Pop/Missing", breaks: func(m *brokenPop) {
		m.pop = func(ctx context.Context, req storage.PopRequest, b *storage.Batch) error {
			_, _ = m.Backend.OpenGroup(ctx, storage.GroupSpec{Topic: req.Topic, Group: req.Group})
			return m.Backend.Pop(ctx, req, b)
		}
	}},
	{name: "acks all of a client that dies", caught: "Pop/Crash", bends: func(h *PopHarness) {
		crash := h.CrashReopen
		h.CrashReopen = func(t T, b storage.Backend) storage.Backend {
			m := b.(*brokenPop)
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, v := range m.given {
				_, _ = m.Backend.Ack(context.Background(), []any{v})
			}
			return crash(t, b)
		}
	}, breaks: eachRecord(func(m *brokenPop, r *storage.Record) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.given[r.ID] = r.Handle
	})},
	{name: "acks only say so", caught: "Pop/Acked", breaks: func(m *brokenPop) {
		m.ack = func(_ context.Context, h []any) ([]bool, error) {
			known := make([]bool, len(h))
			for i := range known {
				known[i] = true
			}
			return known, nil
		}
	}},
	{name: "another ID when it comes again", caught: "Pop/ComesAgain", breaks: eachRecord(func(_ *brokenPop, r *storage.Record) { r.ID += r.Partition })},
	{name: "the time of the retry", caught: "Pop/ComesAgain", breaks: eachRecord(func(m *brokenPop, r *storage.Record) { r.Time += m.n.Add(1) })},
	{name: "always the first delivery", caught: "Pop/ComesAgain", breaks: eachRecord(func(_ *brokenPop, r *storage.Record) { r.DeliveryCount = 1 })},
	{name: "loses what is not acked", caught: "Pop/ComesAgain", breaks: eachRecord(func(m *brokenPop, r *storage.Record) {
		_, _ = m.Backend.Ack(context.Background(), []any{r.Handle})
	})},
	{name: "visible too early", caught: "Pop/Invisible", breaks: eachRecord(func(m *brokenPop, r *storage.Record) {
		out, _ := m.Backend.Renew(context.Background(), []any{r.Handle}, time.Second)
		r.Handle = out[0].Handle
	})},
	{name: "renewals only say so", caught: "Pop/Renewed", breaks: func(m *brokenPop) {
		m.renew = func(_ context.Context, h []any, _ time.Duration) (out []storage.Renewed, err error) {
			for _, h := range h {
				out = append(out, storage.Renewed{Handle: h, OK: true})
			}
			return out, nil
		}
	}},
	{name: "renewing gives the old receipt", caught: "Pop/RenewedThenAcked", breaks: func(m *brokenPop) {
		m.renew = func(ctx context.Context, h []any, d time.Duration) ([]storage.Renewed, error) {
			out, err := m.Backend.Renew(ctx, h, d)
			for i := range out {
				out[i].Handle = h[i]
			}
			return out, err
		}
	}},
	{name: "old receipts still ack", caught: "Pop/OldReceipt", breaks: func(m *brokenPop) {
		m.renew = func(ctx context.Context, h []any, d time.Duration) ([]storage.Renewed, error) {
			out, err := m.Backend.Renew(ctx, h, d)
			m.mu.Lock()
			defer m.mu.Unlock()
			for i := range out {
				if s, ok := h[i].(string); ok {
					m.given[s] = out[i].Handle
				}
			}
			return out, err
		}
		m.ack = func(ctx context.Context, h []any) ([]bool, error) {
			h = slices.Clone(h)
			m.mu.Lock()
			for i := range h {
				if s, ok := h[i].(string); ok && m.given[s] != nil {
					h[i] = m.given[s]
				}
			}
			m.mu.Unlock()
			return m.Backend.Ack(ctx, h)
		}
	}},
	{name: "a late ack is told to be good", caught: "Pop/LateAck", breaks: func(m *brokenPop) {
		m.ack = func(ctx context.Context, h []any) ([]bool, error) {
			known, err := m.Backend.Ack(ctx, h)
			for i := range known {
				known[i] = true
			}
			return known, err
		}
	}},
	{name: "one answer for all entries", caught: "Pop/DoubleAck", breaks: func(m *brokenPop) {
		m.ack = func(ctx context.Context, h []any) ([]bool, error) {
			known, err := m.Backend.Ack(ctx, h)
			for i := range known {
				known[i] = known[0]
			}
			return known, err
		}
	}},
	{name: "an unknown handle is an error", caught: "Pop/UnknownHandles", breaks: func(m *brokenPop) {
		m.ack = func(ctx context.Context, h []any) ([]bool, error) {
			known, err := m.Backend.Ack(ctx, h)
			if slices.Contains(known, false) {
				return nil, storage.ErrInvalid
			}
			return known, err
		}
	}},
	{name: "release does nothing", caught: "Pop/Released", breaks: func(m *brokenPop) {
		m.release = func(context.Context, []any) error { return nil }
	}},
	{name: "declared to place groups and does not", caught: "Pop/AsDeclared", bends: func(h *PopHarness) { h.Places = false }},
	{name: "every open places the group", caught: "Pop/StartOnce", breaks: func(m *brokenPop) {
		m.open = func(ctx context.Context, spec storage.GroupSpec) (storage.Group, error) {
			g, err := m.Backend.OpenGroup(ctx, spec)
			if err == nil && !g.Created {
				_, err = m.MoveGroup(ctx, spec.Topic, spec.Group, spec.Start, false)
			}
			return g, err
		}
	}},
	{name: "a new group begins at the beginning", caught: "Pop/Starts", breaks: func(m *brokenPop) {
		m.open = func(ctx context.Context, spec storage.GroupSpec) (storage.Group, error) {
			spec.Start = storage.GroupStart{At: storage.GroupEarliest}
			return m.Backend.OpenGroup(ctx, spec)
		}
	}},
	{name: "a move says OK and does nothing", caught: "Pop/Moved", breaks: func(m *brokenPop) {
		m.move = func(ctx context.Context, topic, group string, to storage.GroupStart, _ bool) ([]storage.GroupMove, error) {
			return m.Backend.MoveGroup(ctx, topic, group, to, true)
		}
	}},
	{name: "a dry run moves", caught: "Pop/Moved", breaks: func(m *brokenPop) {
		m.move = func(ctx context.Context, topic, group string, to storage.GroupStart, _ bool) ([]storage.GroupMove, error) {
			return m.Backend.MoveGroup(ctx, topic, group, to, false)
		}
	}},
	{name: "the offset is that of what was popped", caught: "Pop/Offsets", breaks: func(m *brokenPop) {
		m.offsets = func(ctx context.Context, topic, group string) ([]storage.GroupOffset, error) {
			list, err := m.Backend.GroupOffsets(ctx, topic, group)
			for i := range list {
				list[i].Acked = list[i].Next
			}
			return list, err
		}
	}},
	{name: "a removed group stays", caught: "Pop/Deleted", breaks: func(m *brokenPop) {
		m.remove = func(context.Context, string, string) error { return nil }
	}},
	{name: "ordered groups are not", caught: "Pop/Ordered", breaks: func(m *brokenPop) {
		m.open = func(ctx context.Context, spec storage.GroupSpec) (storage.Group, error) {
			spec.Ordered = false
			return m.Backend.OpenGroup(ctx, spec)
		}
	}},
	{name: "any kind will do", caught: "Pop/Kind", breaks: func(m *brokenPop) {
		m.open = func(ctx context.Context, spec storage.GroupSpec) (storage.Group, error) {
			g, _ := m.Backend.OpenGroup(ctx, spec)
			return g, nil
		}
	}},
}

// harness is that of a good log with the mutant's fault.
func (mu popMutant) harness() PopHarness {
	var ahead atomic.Int64
	h := PopHarness{
		Open: func(t T) storage.Backend {
			br := fakepop.New(fakepop.Options{Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
			t.Cleanup(func() { _ = br.Close() })
			return wrapPop(mu, br.Open())
		},
		Another: func(_ T, b storage.Backend) storage.Backend {
			return wrapPop(popMutant{}, b.(*brokenPop).Broker().Open())
		},
		CrashReopen: func(_ T, b storage.Backend) storage.Backend { return wrapPop(mu, b.(*brokenPop).Crash()) },
		Advance: func(_ T, b storage.Backend, d time.Duration) {
			ahead.Add(int64(d))
			b.(*brokenPop).Broker().Wake()
		},
		Places: true, Ordered: true, Counts: true, Patience: 800 * time.Millisecond,
	}
	if mu.bends != nil {
		mu.bends(&h)
	}
	return h.withDefaults()
}

// popFailures runs one case and returns what it complained of.
func popFailures(t *testing.T, h *PopHarness, name string) []string {
	t.Helper()
	for _, pc := range allPopCases() {
		if pc.name == name && pc.applies(h) {
			return complaints(t, name, func(r T) { pc.run(newPopEnv(r, h)) })
		}
	}
	t.Fatalf("there is no case %q for this harness", name)
	return nil
}

func TestPopMutantsAreCaught(t *testing.T) {
	for _, m := range popMutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			h := m.harness()
			if said := popFailures(t, &h, m.caught); len(said) == 0 {
				t.Errorf("%s finds no fault", m.caught)
			}
		})
	}
}

func TestEveryPopCaseCatchesAMutant(t *testing.T) {
	for _, pc := range allPopCases() {
		if !slices.ContainsFunc(popMutants, func(m popMutant) bool { return m.caught == pc.name }) {
			t.Errorf("no mutant is caught by %s", pc.name)
		}
	}
}

// The same log without a fault passes every case, so that what catches a mutant
// is its fault.
func TestNoPopMutantPasses(t *testing.T) {
	h := popMutant{}.harness()
	for _, pc := range allPopCases() {
		if said := popFailures(t, &h, pc.name); len(said) > 0 {
			t.Errorf("%s: %q", pc.name, said)
		}
	}
}

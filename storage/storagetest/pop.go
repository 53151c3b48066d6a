package storagetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
)

// PopHarness is how the suite handles a storage.Popper. Hooks that are nil leave
// out the cases that need them.
type PopHarness struct {
	// Open opens a client for one case. The suite closes it.
	Open func(t T) storage.Backend
	// Another opens a second client of the same broker, as another instance
	// has it. The suite closes it.
	Another func(t T, b storage.Backend) storage.Backend
	// CrashReopen ends b as a killed process does and opens a client anew.
	CrashReopen func(t T, b storage.Backend) storage.Backend
	// MakeTopic makes a topic with so many partitions. nil: TopicAdmin does.
	MakeTopic func(t T, b storage.Backend, topic string, partitions int)
	// Advance moves the broker's clock. nil: the suite waits.
	Advance func(t T, b storage.Backend, d time.Duration)

	// Places: new groups can be placed, and it is a GroupAdmin. Declared and
	// absent, and the other way round, are faults.
	Places bool
	// Ordered: ordered groups work.
	Ordered bool
	// Counts: Record.DeliveryCount is set.
	Counts bool

	// Invisible is the shortest time that the broker takes. 0: 10 s.
	Invisible time.Duration
	// Late is how much later than that a record may come again. 0: 5 s.
	Late time.Duration
	// Patience is how long to wait for what must come. 0: 10 s.
	Patience time.Duration
	// Parallel runs the cases beside one another: they wait most of their time
	// where the clock cannot be moved.
	Parallel bool
}

func (h PopHarness) withDefaults() PopHarness {
	if h.Invisible == 0 {
		h.Invisible = 10 * time.Second
	}
	if h.Late == 0 {
		h.Late = 5 * time.Second
	}
	if h.Patience == 0 {
		h.Patience = 10 * time.Second
	}
	return h
}

// popCase is one case of the suite.
type popCase struct {
	name  string
	needs func(h *PopHarness) bool
	run   func(c *popEnv)
}

func (pc popCase) applies(h *PopHarness) bool { return pc.needs == nil || pc.needs(h) }

// RunPop runs every case of the contract of storage.Popper that applies as a
// subtest of t, and logs the others. A backend that pops runs it beside Run.
func RunPop(t *testing.T, h PopHarness) {
	h = h.withDefaults()
	for _, pc := range allPopCases() {
		if pc.applies(&h) {
			t.Run(pc.name, func(t *testing.T) {
				if h.Parallel {
					t.Parallel()
				}
				pc.run(newPopEnv(t, &h))
			})
		} else {
			t.Logf("%s does not apply: the harness lacks what it needs", pc.name)
		}
	}
}

func allPopCases() []popCase { return slices.Concat(popCases, popReceiptCases, popGroupCases) }

// popEnv is what a case works with.
type popEnv struct {
	*env
	p     *PopHarness
	group string
}

func newPopEnv(t T, h *PopHarness) *popEnv {
	base := Harness{Open: h.Open, CrashReopen: h.CrashReopen, MakeTopic: h.MakeTopic, Patience: h.Patience}.withDefaults()
	return &popEnv{env: newEnv(t, &base), p: h, group: fmt.Sprintf("EM-%d", topicCounter.Add(1))}
}

// opened makes a topic and a group of it at its beginning.
func (c *popEnv) opened(partitions int) storage.Topic {
	c.Helper()
	t := c.topic(partitions)
	c.openGroup(t.Name, c.group, storage.GroupStart{})
	return t
}

func (c *popEnv) openGroup(topic, group string, start storage.GroupStart) (g storage.Group) {
	c.Helper()
	c.must("OpenGroup", func(ctx context.Context) (err error) {
		g, err = c.popper().OpenGroup(ctx, storage.GroupSpec{Topic: topic, Group: group, Start: start})
		return err
	})
	return g
}

func (c *popEnv) popper() storage.Popper { c.Helper(); return need[storage.Popper](c.env) }

// put appends events with these ids, each to its own place.
func (c *popEnv) put(topic string, ids ...string) {
	c.Helper()
	for _, id := range ids {
		c.append(topic, storage.Event{Frame: Frame([]byte("data"), "id", id)})
	}
}

func idsOf(prefix string, n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("%s%d", prefix, i))
	}
	return list
}

// popOnce is Pop with the shortest invisible time.
func (c *popEnv) popOnce(topic, group string, most int, wait time.Duration) []storage.Record {
	c.Helper()
	return c.popFrom(c.b, topic, group, most, wait)
}

func (c *popEnv) popFrom(b storage.Backend, topic, group string, most int, wait time.Duration) []storage.Record {
	c.Helper()
	var batch storage.Batch
	p, ok := storage.As[storage.Popper](b)
	if !ok {
		c.Fatalf("the backend is no Popper")
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait+c.p.Patience)
	defer cancel()
	err := p.Pop(ctx, storage.PopRequest{Topic: topic, Group: group, Max: most, Invisible: c.p.Invisible, Wait: wait}, &batch)
	if err != nil {
		c.Fatalf("Pop: %v", err)
	}
	if len(batch.Records) > most {
		c.Errorf("Pop of at most %d records returned %d", most, len(batch.Records))
	}
	for i := range batch.Records {
		c.checkPopped(&batch.Records[i])
	}
	return batch.Records
}

// checkPopped wants what every popped record must have.
func (c *popEnv) checkPopped(r *storage.Record) {
	c.Helper()
	if r.ID == "" || r.Handle == nil || r.Partition == "" || r.CheckKey == "" || len(r.CheckKey) > frame.MaxValueLen {
		c.Errorf("a popped record has ID %q, handle %v, partition %q and check key %q", r.ID, r.Handle, r.Partition, r.CheckKey)
	}
	if _, err := frame.Parse(r.Frame); err != nil {
		c.Errorf("a popped record has no frame: %v", err)
	}
	if c.p.Counts && r.DeliveryCount < 1 {
		c.Errorf("a popped record has the delivery count %d", r.DeliveryCount)
	}
}

// name is the id attribute of the event.
func name(r storage.Record) string {
	v, _ := frame.View(r.Frame).Attr("id")
	return string(v)
}

// popAll pops until n records came, and one look more.
func (c *popEnv) popAll(topic, group string, n int) (list []storage.Record) {
	c.Helper()
	deadline := time.Now().Add(c.p.Patience)
	for len(list) < n && time.Now().Before(deadline) {
		list = append(list, c.popOnce(topic, group, n, 200*time.Millisecond)...)
	}
	list = append(list, c.popOnce(topic, group, 16, 0)...)
	if len(list) != n {
		c.Fatalf("%d records were handed out, want %d", len(list), n)
	}
	return list
}

// wantNames wants records of these events, in any order.
func (c *popEnv) wantNames(what string, list []storage.Record, want []string) {
	c.Helper()
	var got []string
	for _, r := range list {
		got = append(got, name(r))
	}
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		c.Errorf("%s: %q, want %q", what, got, want)
	}
}

// pass lets time pass at the broker.
func (c *popEnv) pass(d time.Duration) {
	if c.p.Advance != nil {
		c.p.Advance(c.T, c.b, d)
		return
	}
	c.pause(d)
}

// lapse lets all receipts run out.
func (c *popEnv) lapse() { c.pass(c.p.Invisible + c.p.Late) }

// wantNoMore wants nothing to be visible, also after all receipts ran out.
func (c *popEnv) wantNoMore(topic, group string) {
	c.Helper()
	for range 2 {
		if list := c.popOnce(topic, group, 16, 50*time.Millisecond); len(list) > 0 {
			c.Errorf("%q was handed out where nothing may be", name(list[0]))
			return
		}
		c.lapse()
	}
}

// ack is Acker.Ack.
func (c *popEnv) ack(list ...storage.Record) (known []bool) {
	c.Helper()
	var handles []any
	for _, r := range list {
		handles = append(handles, r.Handle)
	}
	c.must("Ack", func(ctx context.Context) (err error) {
		known, err = need[storage.Acker](c.env).Ack(ctx, handles)
		return err
	})
	if len(known) != len(list) {
		c.Fatalf("Ack of %d handles gives %v", len(list), known)
	}
	return known
}

// ackAll wants every handle to be known.
func (c *popEnv) ackAll(list ...storage.Record) {
	c.Helper()
	if known := c.ack(list...); slices.Contains(known, false) {
		c.Errorf("Ack of %d good handles gives %v", len(list), known)
	}
}

// renew is Popper.Renew; the records get the new handles.
func (c *popEnv) renew(list []storage.Record, d time.Duration) (out []storage.Renewed) {
	c.Helper()
	var handles []any
	for _, r := range list {
		handles = append(handles, r.Handle)
	}
	c.must("Renew", func(ctx context.Context) (err error) {
		out, err = c.popper().Renew(ctx, handles, d)
		return err
	})
	if len(out) != len(list) {
		c.Fatalf("Renew of %d handles gives %d results", len(list), len(out))
	}
	for i := range list {
		if out[i].OK {
			list[i].Handle = out[i].Handle
		}
	}
	return out
}

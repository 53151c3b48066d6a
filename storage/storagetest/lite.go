package storagetest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

// LiteHarness is how the suite handles a storage.Liter. Hooks that are nil leave
// out the cases that need them.
type LiteHarness struct {
	// Open opens a backend for one case. The suite closes it.
	Open func(t T) storage.Backend
	// Reopen and CrashReopen are those of Harness.
	Reopen, CrashReopen func(t T, b storage.Backend) storage.Backend
	// MakeParent makes a parent of lite topics. nil: it is made on first use,
	// which is then required.
	MakeParent func(t T, b storage.Backend, parent string)
	// MakeTopic makes an ordinary topic. nil: TopicAdmin does.
	MakeTopic func(t T, b storage.Backend, topic string)
	// DeleteParent deletes a parent, with its lite topics.
	DeleteParent func(t T, b storage.Backend, parent string)

	// SameFrame, Patience and Settle are those of Harness.
	SameFrame        func(appended, read []byte) bool
	Patience, Settle time.Duration
	// Many is how many lite topics the case of many makes. 0: 200.
	Many int
}

func (h LiteHarness) withDefaults() LiteHarness {
	if h.Patience == 0 {
		h.Patience = 10 * time.Second
	}
	if h.Settle == 0 {
		h.Settle = 50 * time.Millisecond
	}
	if h.SameFrame == nil {
		h.SameFrame = bytes.Equal
	}
	if h.Many == 0 {
		h.Many = 200
	}
	return h
}

// liteCase is one case of the suite.
type liteCase struct {
	name  string
	needs func(h *LiteHarness) bool
	run   func(c *liteEnv)
}

func (lc liteCase) applies(h *LiteHarness) bool { return lc.needs == nil || lc.needs(h) }

// RunLite runs every case of the contract of storage.Liter that applies as a
// subtest of t, and logs the others. A backend with lite topics runs it beside
// Run.
func RunLite(t *testing.T, h LiteHarness) {
	h = h.withDefaults()
	for _, lc := range allLiteCases() {
		if lc.applies(&h) {
			t.Run(lc.name, func(t *testing.T) { lc.run(newLiteEnv(t, &h)) })
		} else {
			t.Logf("%s does not apply: the harness lacks what it needs", lc.name)
		}
	}
}

func allLiteCases() []liteCase { return slices.Concat(liteCases, liteReadCases, liteCursorCases) }

// liteEnv is what a case works with.
type liteEnv struct {
	*env
	l *LiteHarness
}

func newLiteEnv(t T, h *LiteHarness) *liteEnv {
	base := Harness{
		Open: h.Open, Reopen: h.Reopen, CrashReopen: h.CrashReopen,
		SameFrame: h.SameFrame, Patience: h.Patience, Settle: h.Settle,
	}.withDefaults()
	return &liteEnv{env: newEnv(t, &base), l: h}
}

func (c *liteEnv) liter() storage.Liter { c.Helper(); return need[storage.Liter](c.env) }

// parent makes a parent of a name of its own.
func (c *liteEnv) parent() string {
	c.Helper()
	name := topicName()
	if c.l.MakeParent != nil {
		c.l.MakeParent(c.T, c.b, name)
	}
	c.eventually("LiteParent", func() error {
		return c.bounded("LiteParent", func(ctx context.Context) error {
			t, err := c.liter().LiteParent(ctx, name)
			if err == nil && (t.Name != name || !t.Lite || len(t.Partitions) > 0) {
				c.Errorf("LiteParent of %q is %+v, want Lite and no partitions", name, t)
			}
			return err
		})
	})
	return name
}

// ensure is EnsureLite.
func (c *liteEnv) ensure(parent, lite string) {
	c.Helper()
	c.must("EnsureLite", func(ctx context.Context) error { return c.liter().EnsureLite(ctx, parent, lite) })
}

// put appends n events of a writer to a lite topic, as one append, and wants
// them stored there.
func (c *liteEnv) put(parent, lite, writer string, from, n int) (list []stored) {
	c.Helper()
	var events []storage.Event
	for i := range n {
		events = append(events, storage.Event{Frame: numbered(writer, from+i)})
	}
	f := c.newFate(parent, events)
	f.refused = c.bounded("AppendLite", func(ctx context.Context) error {
		return c.liter().AppendLite(ctx, parent, lite, f.events, f.report)
	})
	for i, r := range f.wait(c.env) {
		if r.Partition != lite {
			c.Errorf("an event of lite topic %q was stored in %q", lite, r.Partition)
		}
		list = append(list, stored{r.Partition, r.Offset, events[i].Frame})
	}
	return c.located(parent, list)
}

// located finds out the offsets of events that were appended to a lite topic last,
// where the log does not tell them.
func (c *liteEnv) located(parent string, list []stored) []stored {
	c.Helper()
	if len(list) == 0 || list[0].offset != storage.OffsetUntold {
		return list
	}
	lite := list[0].partition
	c.eventually("the end of lite topic "+lite, func() error {
		low, high := c.liteBounds(parent, lite)
		if high-low < int64(len(list)) {
			return fmt.Errorf("its bounds are %d and %d after %d events", low, high, len(list))
		}
		got := c.pollAllLite(parent, lite, low)
		if len(got) < len(list) {
			return fmt.Errorf("it has %d records", len(got))
		}
		got = got[len(got)-len(list):]
		for i := range list {
			if !c.h.SameFrame(list[i].frame, got[i].Frame) {
				return fmt.Errorf("the record at %d is another one", got[i].Offset)
			}
			list[i].offset = got[i].Offset
		}
		return nil
	})
	return list
}

// pollAllLite reads what a lite topic holds from an offset on.
func (c *liteEnv) pollAllLite(parent, lite string, next int64) (list []storage.Record) {
	c.Helper()
	for {
		b := c.pollLite(storage.PollRequest{Topic: parent, Partition: lite, Start: next})
		if len(b.Records) == 0 && b.Next <= next {
			return list
		}
		if b.Next <= next {
			c.Fatalf("PollLite at %d brings %d records and goes on at %d", next, len(b.Records), b.Next)
		}
		list, next = append(list, b.Records...), b.Next
	}
}

// pollLite is PollLite, bounded, without an error and with its promises kept.
func (c *liteEnv) pollLite(req storage.PollRequest) *storage.Batch {
	c.Helper()
	batch := new(storage.Batch)
	c.must("PollLite", func(ctx context.Context) error { return c.liter().PollLite(ctx, req, batch) })
	c.checkBatch(req, batch)
	return batch
}

// readLite reads from an offset until n records came, and one look more.
func (c *liteEnv) readLite(parent, lite string, from int64, n int) (list []storage.Record) {
	c.Helper()
	deadline := time.Now().Add(c.h.Patience)
	for next, looks := from, 0; looks < 2; {
		b := c.pollLite(storage.PollRequest{Topic: parent, Partition: lite, Start: next})
		list, next = append(list, b.Records...), b.Next
		switch {
		case len(list) > n:
			return list
		case len(list) == n && len(b.Records) == 0:
			looks++
		case len(b.Records) == 0 && time.Now().After(deadline):
			c.Fatalf("lite topic %q: %d records came from offset %d on, want %d", lite, len(list), from, n)
		case len(b.Records) == 0:
			c.pause(time.Millisecond)
		}
	}
	return list
}

// wantLite wants a lite topic to hold these records from the first of them on.
func (c *liteEnv) wantLite(parent string, want []stored) {
	c.Helper()
	if len(want) == 0 {
		return
	}
	lite := want[0].partition
	c.wantRecords("lite topic "+lite, c.readLite(parent, lite, want[0].offset, len(want)), want)
}

// bell counts how often it was rung.
type bell struct {
	mu    sync.Mutex
	n     int
	first chan struct{}
}

func newBell() *bell { return &bell{first: make(chan struct{})} }

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n++; b.n == 1 {
		close(b.first)
	}
}

func (b *bell) rings() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n
}

// wantRing wants arrived to be called once.
func (c *liteEnv) wantRing(what string, b *bell) {
	c.Helper()
	timer := time.NewTimer(c.h.Patience)
	defer timer.Stop()
	select {
	case <-b.first:
	case <-timer.C:
		c.Fatalf("%s: arrived was not called within %v", what, c.h.Patience)
	}
	c.pause(c.h.Settle)
	if n := b.rings(); n != 1 {
		c.Errorf("%s: arrived was called %d times, want 1", what, n)
	}
}

var liteCases = []liteCase{
	{name: "Lite/Names", run: liteNames},
	{name: "Lite/EnsureTwice", run: liteEnsureTwice},
	{name: "Lite/ParentOfAnotherType", needs: func(h *LiteHarness) bool { return h.MakeTopic != nil }, run: liteWrongParent},
	{name: "Lite/MissingParent", needs: func(h *LiteHarness) bool { return h.MakeParent != nil }, run: liteMissingParent},
	{name: "Lite/ParentTakesNoEvents", run: liteParentTakesNothing},
	{name: "Lite/OrderAndIsolation", run: liteOrder},
	{name: "Lite/Many", run: liteMany},
	{name: "Lite/CrashKeeps", needs: func(h *LiteHarness) bool { return h.CrashReopen != nil }, run: liteCrashKeeps},
	{name: "Lite/ParentMadeAnew", needs: func(h *LiteHarness) bool { return h.DeleteParent != nil }, run: liteAnew},
}

// liteNames: what CheckLite passes works, and nothing else.
func liteNames(c *liteEnv) {
	parent := c.parent()
	for _, lite := range []string{"a", "A-z_09", "-", "_", string(bytes.Repeat([]byte("x"), storage.MaxLiteName))} {
		c.ensure(parent, lite)
		c.wantLite(parent, c.put(parent, lite, lite, 0, 2))
	}
	long := string(bytes.Repeat([]byte("x"), storage.MaxLiteName+1))
	for _, lite := range []string{"", long, "a b", "a/b", "a.b", "a:b", "a$b", "a%b", "é", "a\x00", "a\n"} {
		c.wantErr(fmt.Sprintf("EnsureLite of %q", lite), func(ctx context.Context) error {
			return c.liter().EnsureLite(ctx, parent, lite)
		}, storage.ErrInvalid)
		c.wantErr(fmt.Sprintf("AppendLite to %q", lite), func(ctx context.Context) error {
			return c.appendLite(ctx, parent, lite)
		}, storage.ErrInvalid)
	}
}

// appendLite appends one event and waits for its fate.
func (c *liteEnv) appendLite(ctx context.Context, parent, lite string) error {
	f := c.newFate(parent, []storage.Event{{Frame: numbered("one", 0)}})
	if f.refused = c.liter().AppendLite(ctx, parent, lite, f.events, f.report); f.refused != nil {
		return f.refused
	}
	results, err := f.outcome(c.env)
	if err == nil {
		err = results[0].Err
	}
	return err
}

// liteEnsureTwice: making one that is there changes nothing; appending makes one
// that is not.
func liteEnsureTwice(c *liteEnv) {
	parent := c.parent()
	c.ensure(parent, "a")
	list := c.put(parent, "a", "a", 0, 3)
	c.ensure(parent, "a")
	c.wantLite(parent, append(list, c.put(parent, "a", "a", 3, 2)...))
	c.wantLite(parent, c.put(parent, "made-by-append", "b", 0, 2))
}

// liteWrongParent: an ordinary topic is no parent.
func liteWrongParent(c *liteEnv) {
	name := topicName()
	c.l.MakeTopic(c.T, c.b, name)
	c.wantErr("LiteParent of an ordinary topic", func(ctx context.Context) error {
		_, err := c.liter().LiteParent(ctx, name)
		return err
	}, storage.ErrTopicType)
	c.wantErr("EnsureLite below an ordinary topic", func(ctx context.Context) error {
		return c.liter().EnsureLite(ctx, name, "a")
	}, storage.ErrTopicType)
	c.wantErr("AppendLite below an ordinary topic", func(ctx context.Context) error {
		return c.appendLite(ctx, name, "a")
	}, storage.ErrTopicType)
}

// liteMissingParent: a parent that must be made first is not found before.
func liteMissingParent(c *liteEnv) {
	name := topicName()
	c.wantErr("LiteParent", func(ctx context.Context) error {
		_, err := c.liter().LiteParent(ctx, name)
		return err
	}, storage.ErrTopicNotFound)
	c.wantErr("EnsureLite", func(ctx context.Context) error { return c.liter().EnsureLite(ctx, name, "a") }, storage.ErrTopicNotFound)
	c.wantErr("AppendLite", func(ctx context.Context) error { return c.appendLite(ctx, name, "a") }, storage.ErrTopicNotFound)
}

// liteParentTakesNothing: an event of a parent's own would be read by nobody.
func liteParentTakesNothing(c *liteEnv) {
	parent := c.parent()
	c.wantErr("Append to a parent", func(ctx context.Context) error {
		f := c.newFate(parent, []storage.Event{{Frame: numbered("one", 0)}})
		if f.refused = f.send(ctx, c.b); f.refused != nil {
			return f.refused
		}
		results, err := f.outcome(c.env)
		if err == nil {
			err = results[0].Err
		}
		return err
	}, storage.ErrTopicType)
}

// liteOrder: appends to several lite topics in turn, and below two parents, stay
// apart and in their order.
func liteOrder(c *liteEnv) {
	parents := []string{c.parent(), c.parent()}
	want := map[[2]string][]stored{}
	for i := range 20 {
		for _, parent := range parents {
			for _, lite := range []string{"a", "b", "A"} {
				at := [2]string{parent, lite}
				want[at] = append(want[at], c.put(parent, lite, parent+lite, 3*i, 3)...)
			}
		}
	}
	for at, list := range want {
		for i := 1; i < len(list); i++ {
			if list[i].offset <= list[i-1].offset {
				c.Errorf("lite topic %q: offset %d was given after %d", at[1], list[i].offset, list[i-1].offset)
			}
		}
		c.wantLite(at[0], list)
	}
}

// liteMany: many lite topics, written at the same time, each whole and in order.
func liteMany(c *liteEnv) {
	parent := c.parent()
	const writers, each = 8, 5
	lists := make([][]stored, c.l.Many)
	fates := make([][]*fate, c.l.Many)
	for i := range fates {
		for k := range each {
			fates[i] = append(fates[i], c.newFate(parent, []storage.Event{{Frame: numbered(liteName(i), k)}}))
		}
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for k := range each {
				for i := w; i < len(fates); i += writers {
					f := fates[i][k]
					f.refused = c.liter().AppendLite(context.Background(), parent, liteName(i), f.events, f.report)
				}
			}
		})
	}
	wg.Wait()
	for i, list := range fates {
		for _, f := range list {
			r := f.wait(c.env)[0]
			lists[i] = append(lists[i], stored{r.Partition, r.Offset, f.events[0].Frame})
		}
		lists[i] = c.located(parent, lists[i])
	}
	for _, list := range lists {
		c.wantLite(parent, list)
	}
}

func liteName(i int) string { return fmt.Sprintf("lite-%04d", i) }

// liteCrashKeeps: what was reported to be stored outlives a crash.
func liteCrashKeeps(c *liteEnv) {
	parent := c.parent()
	var list []stored
	for i := range 3 {
		list = append(list, c.put(parent, "a", "a", 4*i, 4)...)
		c.crash()
	}
	c.wantLite(parent, append(list, c.put(parent, "a", "a", 12, 1)...))
}

// liteAnew: of a parent that was deleted and made again nothing comes back.
func liteAnew(c *liteEnv) {
	parent := c.parent()
	c.put(parent, "a", "old", 0, 5)
	old, err := c.liter().LiteParent(c.Context(), parent)
	if err != nil {
		c.Fatalf("LiteParent: %v", err)
	}
	rung := newBell()
	_, next := c.liteBounds(parent, "a")
	defer c.liter().AwaitLite(parent, "a", next, rung.ring)()
	c.l.DeleteParent(c.T, c.b, parent)
	c.wantRing("the parent was deleted", rung)
	if c.l.MakeParent != nil {
		c.l.MakeParent(c.T, c.b, parent)
	}
	list := c.put(parent, "a", "new", 0, 2)
	c.wantErr("PollLite with the old identity", func(ctx context.Context) error {
		return c.liter().PollLite(ctx, storage.PollRequest{Topic: parent, TopicID: old.ID, Partition: "a"}, new(storage.Batch))
	}, storage.ErrTopicChanged)
	low, _ := c.liteBounds(parent, "a")
	c.wantRecords("made anew", c.readLite(parent, "a", low, 2), list)
}

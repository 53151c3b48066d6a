package storagetest

import (
	"strings"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

func hasDedup(h *Harness) bool { return h.Has.DedupWindow > 0 }

var dedupCases = []testCase{
	{name: "Dedup/Absent", needs: func(h *Harness) bool { return !hasDedup(h) }, run: dedupAbsent},
	{name: "Dedup/Repeat", needs: hasDedup, run: dedupRepeat},
	{name: "Dedup/InOneAppend", needs: hasDedup, run: dedupInOneAppend},
	{name: "Dedup/WithoutKey", run: dedupWithoutKey},
	{name: "Dedup/TopicsApart", needs: hasDedup, run: dedupTopicsApart},
	{name: "Dedup/Window", needs: func(h *Harness) bool { return hasDedup(h) && canAdvance(h) }, run: dedupWindow},
}

// dedupAbsent: where it is not declared, a repeat is a second event.
func dedupAbsent(c *env) {
	t := c.topic(1)
	e := storage.Event{Frame: numbered("a", 0), DedupKey: "source|1"}
	list := append(c.send(t.Name, []storage.Event{e}).stored(c), c.send(t.Name, []storage.Event{e, e}).stored(c)...)
	c.wantTheOnly(t, list)
}

// wantDuplicate wants an event to be answered with the place of another one.
func (c *env) wantDuplicate(got, first storage.Appended) {
	c.Helper()
	if !got.Duplicate || got.Partition != first.Partition || got.Offset != first.Offset {
		c.Errorf("a repeat is answered with %+v, the first was %+v", got, first)
	}
}

func (c *env) wantFirst(r storage.Appended) {
	c.Helper()
	if r.Duplicate {
		c.Errorf("a new event is called a duplicate: %+v", r)
	}
}

// dedupRepeat: a repeat gets the first one's place, wherever its key would
// put it, also while the first is under way. The key's memory may be used
// again.
func dedupRepeat(c *env) {
	t := c.topic(3)
	first := c.append(t.Name, storage.Event{Key: "a", Frame: numbered("a", 0), DedupKey: "source|1"})[0]
	c.wantFirst(first)
	for _, key := range []string{"a", "b", "c", ""} {
		repeat := storage.Event{Key: key, Frame: numbered("b", 0), DedupKey: strings.Clone("source|1")}
		c.wantDuplicate(c.append(t.Name, repeat)[0], first)
	}
	e := storage.Event{Frame: numbered("c", 0), DedupKey: "source|2"}
	one, two := c.send(t.Name, []storage.Event{e}), c.send(t.Name, []storage.Event{e})
	second := one.wait(c)[0]
	c.wantFirst(second)
	c.wantDuplicate(two.wait(c)[0], second)
	c.wantTheOnly(t, []stored{
		{first.Partition, first.Offset, numbered("a", 0)},
		{second.Partition, second.Offset, numbered("c", 0)},
	})
}

func dedupInOneAppend(c *env) {
	t := c.topic(2)
	event := func(n int, key string) storage.Event { return storage.Event{Frame: numbered("a", n), DedupKey: key} }
	r := c.append(t.Name, event(0, "x"), event(1, "y"), event(2, "x"), event(3, "y"), event(4, "z"))
	for _, i := range []int{0, 1, 4} {
		c.wantFirst(r[i])
	}
	c.wantDuplicate(r[2], r[0])
	c.wantDuplicate(r[3], r[1])
	var want []stored
	for _, i := range []int{0, 1, 4} {
		want = append(want, stored{r[i].Partition, r[i].Offset, numbered("a", i)})
	}
	c.wantTheOnly(t, want)
}

// dedupWithoutKey: events without a key are never taken for repeats.
func dedupWithoutKey(c *env) {
	t := c.topic(1)
	e := storage.Event{Frame: numbered("a", 0)}
	f := c.send(t.Name, []storage.Event{e, e, e})
	for _, r := range f.wait(c) {
		c.wantFirst(r)
	}
	c.wantTheOnly(t, f.stored(c))
}

func dedupTopicsApart(c *env) {
	a, b := c.topic(1), c.topic(1)
	e := storage.Event{Frame: numbered("a", 0), DedupKey: "source|1"}
	c.wantFirst(c.append(a.Name, e)[0])
	c.wantFirst(c.append(b.Name, e)[0])
	if !c.h.Has.TopicAdmin {
		return
	}
	again := c.recreate(a)
	r := c.append(again.Name, e)[0]
	c.wantFirst(r)
	c.wantTheOnly(again, []stored{{r.Partition, r.Offset, e.Frame}})
}

// dedupWindow: within the window a repeat is known, after it is not.
func dedupWindow(c *env) {
	t := c.topic(1)
	e := storage.Event{Frame: numbered("a", 0), DedupKey: "source|1"}
	first := c.append(t.Name, e)[0]
	c.h.Advance(c.T, c.b, c.h.Has.DedupWindow-10*time.Second)
	c.wantDuplicate(c.append(t.Name, e)[0], first)
	c.h.Advance(c.T, c.b, 30*time.Second)
	c.wantFirst(c.append(t.Name, e)[0])
}

package storagetest

import (
	"context"
	"slices"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

func placesGroups(h *PopHarness) bool { return h.Places }

var popGroupCases = []popCase{
	{name: "Pop/AsDeclared", run: popAsDeclared},
	{name: "Pop/StartOnce", needs: placesGroups, run: popStartOnce},
	{name: "Pop/Starts", needs: placesGroups, run: popStarts},
	{name: "Pop/Moved", needs: placesGroups, run: popMoved},
	{name: "Pop/Offsets", needs: placesGroups, run: popOffsets},
	{name: "Pop/Deleted", needs: placesGroups, run: popDeleted},
	{name: "Pop/Ordered", needs: func(h *PopHarness) bool { return h.Ordered }, run: popOrdered},
	{name: "Pop/Kind", needs: func(h *PopHarness) bool { return h.Ordered }, run: popKind},
}

// popAsDeclared: it is a Popper and an Acker, also through wrappers, and a
// GroupAdmin if that is declared. Where groups cannot be placed, an explicit
// start says so.
func popAsDeclared(c *popEnv) {
	for _, b := range []storage.Backend{c.b, plain{plain{c.b}}} {
		if !has[storage.Popper](b) || !has[storage.Acker](b) {
			c.Fatalf("the backend is no Popper and Acker")
		}
		if has[storage.GroupAdmin](b) != c.p.Places {
			c.Errorf("GroupAdmin is declared %v and found %v", c.p.Places, !c.p.Places)
		}
	}
	if c.p.Places {
		return
	}
	t := c.topic(1)
	c.wantErr("OpenGroup with an explicit start", func(ctx context.Context) error {
		_, err := c.popper().OpenGroup(ctx, storage.GroupSpec{Topic: t.Name, Group: c.group, Start: storage.GroupStart{At: storage.GroupEarliest}})
		return err
	}, storage.ErrUnsupported)
	if g := c.openGroup(t.Name, c.group, storage.GroupStart{}); !g.Created || !g.StartOpen || g.Note == "" {
		c.Errorf("a group that begins where the log decides is described as %+v", g)
	}
}

// popStartOnce: only the first OpenGroup places a group.
func popStartOnce(c *popEnv) {
	t := c.topic(2)
	c.put(t.Name, idsOf("old", 4)...)
	if g := c.openGroup(t.Name, c.group, storage.GroupStart{At: storage.GroupEarliest}); !g.Created {
		c.Errorf("a new group is not told to be one")
	}
	if g := c.openGroup(t.Name, c.group, storage.GroupStart{At: storage.GroupLatest}); g.Created {
		c.Errorf("a known group is told to be new")
	}
	c.wantNames("after a second OpenGroup at the end", c.popAll(t.Name, c.group, 4), idsOf("old", 4))
}

// popStarts: a new group begins where it is placed.
func popStarts(c *popEnv) {
	t := c.topic(1)
	c.put(t.Name, idsOf("old", 4)...)
	low, _ := c.bounds(t.Name, t.Partitions[0])
	c.openGroup(t.Name, c.group, storage.GroupStart{At: storage.GroupEarliest})
	last := int64(0)
	for _, r := range c.popAll(t.Name, c.group, 4) {
		last = max(last, r.Time)
	}
	between := time.UnixMilli(last).Add(time.Second) // by the broker's clock
	c.pass(2 * time.Second)
	for name, start := range map[string]storage.GroupStart{
		"latest": {At: storage.GroupLatest}, "default": {}, "earliest": {At: storage.GroupEarliest},
		"offset": {At: storage.GroupOffsetAt, Offset: low + 3}, "beyond": {At: storage.GroupOffsetAt, Offset: low + 1000},
		"time": {At: storage.GroupTimeAt, Time: between, Match: storage.AtOrAfter},
	} {
		c.openGroup(t.Name, c.group+name, start)
	}
	c.put(t.Name, "new")
	c.wantNames("from the end", c.popAll(t.Name, c.group+"latest", 1), []string{"new"})
	c.wantNames("by default", c.popAll(t.Name, c.group+"default", 1), []string{"new"})
	c.wantNames("beyond the end", c.popAll(t.Name, c.group+"beyond", 1), []string{"new"})
	c.wantNames("from the beginning", c.popAll(t.Name, c.group+"earliest", 5), append(idsOf("old", 4), "new"))
	c.wantNames("from an offset", c.popAll(t.Name, c.group+"offset", 2), []string{"old3", "new"})
	c.wantNames("from a time", c.popAll(t.Name, c.group+"time", 1), []string{"new"})
}

func (c *popEnv) move(topic string, to storage.GroupStart, dry bool) (out []storage.GroupMove) {
	c.Helper()
	c.must("MoveGroup", func(ctx context.Context) (err error) {
		out, err = need[storage.GroupAdmin](c.env).MoveGroup(ctx, topic, c.group, to, dry)
		return err
	})
	return out
}

// popMoved: a group that is moved goes on there, up and down; a dry run only
// tells.
func popMoved(c *popEnv) {
	t := c.opened(1)
	all := idsOf("m", 6)
	c.put(t.Name, all...)
	c.ackAll(c.popAll(t.Name, c.group, 6)...)
	low, high := c.bounds(t.Name, t.Partitions[0])
	want := storage.GroupMove{Partition: t.Partitions[0], From: high, To: low, Min: low, Max: high}
	if got := c.move(t.Name, storage.GroupStart{At: storage.GroupEarliest}, true); len(got) != 1 || got[0] != want {
		c.Errorf("a dry run tells %+v, want %+v", got, want)
	}
	c.wantNoMore(t.Name, c.group)
	if got := c.move(t.Name, storage.GroupStart{At: storage.GroupEarliest}, false); len(got) != 1 || got[0] != want {
		c.Errorf("the move tells %+v, want %+v", got, want)
	}
	c.wantNames("after a move to the beginning", c.popAll(t.Name, c.group, 6), all)
	c.move(t.Name, storage.GroupStart{At: storage.GroupLatest}, false)
	c.put(t.Name, "new")
	got := c.popOnce(t.Name, c.group, 1, time.Second)
	c.wantNames("after a move to the end", got, []string{"new"})
}

// popOffsets: what is not acked keeps the group's offset where it is.
func popOffsets(c *popEnv) {
	t := c.opened(1)
	low, _ := c.bounds(t.Name, t.Partitions[0])
	c.put(t.Name, idsOf("m", 3)...)
	offsets := func() (o storage.GroupOffset) {
		c.must("GroupOffsets", func(ctx context.Context) error {
			list, err := need[storage.GroupAdmin](c.env).GroupOffsets(ctx, t.Name, c.group)
			if len(list) == 1 {
				o = list[0]
			}
			return err
		})
		return o
	}
	list := c.popAll(t.Name, c.group, 3)
	if o := offsets(); o.Acked != low || o.Next != low+3 || o.Max != low+3 || o.Min != low {
		c.Errorf("before any ack: %+v", o)
	}
	c.ackAll(list...)
	c.eventually("the offset after all acks", func() error {
		if o := offsets(); o.Acked != low+3 {
			return context.DeadlineExceeded
		}
		return nil
	})
}

// popDeleted: a group that was removed is gone, and begins anew when it is made
// again.
func popDeleted(c *popEnv) {
	t := c.opened(1)
	c.put(t.Name, "m")
	c.ackAll(c.popAll(t.Name, c.group, 1)...)
	for range 2 {
		c.must("DeleteGroup", func(ctx context.Context) error {
			return need[storage.GroupAdmin](c.env).DeleteGroup(ctx, t.Name, c.group)
		})
	}
	if g := c.openGroup(t.Name, c.group, storage.GroupStart{At: storage.GroupEarliest}); !g.Created {
		c.Errorf("a group that was removed is there")
	}
	c.wantNames("after it was made again", c.popAll(t.Name, c.group, 1), []string{"m"})
}

// popOrdered: of one partition the next come after those before are acked, and
// what is not acked comes again before anything behind it.
func popOrdered(c *popEnv) {
	t := c.topic(1)
	c.must("OpenGroup", func(ctx context.Context) error {
		_, err := c.popper().OpenGroup(ctx, storage.GroupSpec{Topic: t.Name, Group: c.group, Ordered: true})
		return err
	})
	want := idsOf("m", 6)
	c.put(t.Name, want...)
	first := c.popOnce(t.Name, c.group, 2, time.Second)
	if len(first) == 0 || name(first[0]) != "m0" {
		c.Fatalf("the first that is handed out is %v", first)
	}
	if list := c.popOnce(t.Name, c.group, 2, 50*time.Millisecond); len(list) > 0 {
		c.Errorf("%q was handed out before those before it were acked", name(list[0]))
	}
	c.lapse()
	var order []string
	deadline := time.Now().Add(c.p.Patience)
	for len(order) < 6 && time.Now().Before(deadline) {
		list := c.popOnce(t.Name, c.group, 2, 100*time.Millisecond)
		for _, r := range list {
			order = append(order, name(r))
		}
		c.ackAll(list...)
	}
	if !slices.Equal(order, want) {
		c.Errorf("handed out as %q, want %q", order, want)
	}
}

// popKind: an ordered group is not one that is not.
func popKind(c *popEnv) {
	t := c.opened(1)
	c.wantErr("OpenGroup with the other kind", func(ctx context.Context) error {
		_, err := c.popper().OpenGroup(ctx, storage.GroupSpec{Topic: t.Name, Group: c.group, Ordered: true})
		return err
	}, storage.ErrGroupKind)
}

package storagetest

import (
	"context"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

var popCases = []popCase{
	{name: "Pop/EachOnce", run: popEachOnce},
	{name: "Pop/EveryQueue", run: popEveryQueue},
	{name: "Pop/WaitsInVain", run: popWaitsInVain},
	{name: "Pop/Max", run: popMaxRecords},
	{name: "Pop/GroupsApart", run: popGroupsApart},
	{name: "Pop/ClientsShare", needs: func(h *PopHarness) bool { return h.Another != nil }, run: popClientsShare},
	{name: "Pop/Canceled", run: popCanceled},
	{name: "Pop/Missing", run: popMissing},
	{name: "Pop/Crash", needs: func(h *PopHarness) bool { return h.CrashReopen != nil }, run: popCrash},
}

// popEachOnce: what was appended is handed out once, each with an ID of its own.
func popEachOnce(c *popEnv) {
	t := c.opened(4)
	want := idsOf("m", 40)
	c.put(t.Name, want...)
	list := c.popAll(t.Name, c.group, 40)
	c.wantNames("handed out", list, want)
	seen := map[string]bool{}
	for _, r := range list {
		if seen[r.ID] {
			c.Errorf("two records have the ID %q", r.ID)
		}
		seen[r.ID] = true
	}
}

// popEveryQueue: a Pop that waits gets a message of any queue at once.
func popEveryQueue(c *popEnv) {
	t := c.opened(4)
	for _, id := range idsOf("m", 12) {
		got := make(chan []storage.Record, 1)
		begin := time.Now()
		go func() { // Fatalf of the case is the test goroutine's
			var b storage.Batch
			ctx, cancel := context.WithTimeout(context.Background(), c.p.Patience)
			defer cancel()
			_ = c.popper().Pop(ctx, storage.PopRequest{Topic: t.Name, Group: c.group, Max: 16, Invisible: c.p.Invisible, Wait: c.p.Patience / 2}, &b)
			got <- b.Records
		}()
		c.put(t.Name, id)
		list := <-got
		c.wantNames("handed out to who waited", list, []string{id})
		if took := time.Since(begin); took > c.p.Patience/4 {
			c.Errorf("the message %q took %v", id, took)
		}
		c.ackAll(list...)
	}
}

// popWaitsInVain: with nothing to hand out Pop returns empty after Wait.
func popWaitsInVain(c *popEnv) {
	t := c.opened(2)
	begin := time.Now()
	if list := c.popOnce(t.Name, c.group, 4, 300*time.Millisecond); len(list) != 0 {
		c.Errorf("%d records came out of an empty topic", len(list))
	}
	if took := time.Since(begin); took < 250*time.Millisecond {
		c.Errorf("Pop returned empty after %v, not after its Wait", took)
	}
}

// popMaxRecords: no more than asked for, and at least one.
func popMaxRecords(c *popEnv) {
	t := c.opened(1)
	c.put(t.Name, idsOf("m", 6)...)
	for left := 6; left > 0; {
		n := len(c.popOnce(t.Name, c.group, 4, time.Second))
		if n < 1 || n > 4 {
			c.Fatalf("Pop of at most 4 of %d records returned %d", left, n)
		}
		left -= n
	}
}

// popGroupsApart: each group has its own copy, and its acks are its own.
func popGroupsApart(c *popEnv) {
	t := c.opened(2)
	other := c.group + "-other"
	c.openGroup(t.Name, other, storage.GroupStart{})
	want := idsOf("m", 5)
	c.put(t.Name, want...)
	mine := c.popAll(t.Name, c.group, 5)
	c.ackAll(mine...)
	theirs := c.popAll(t.Name, other, 5)
	c.wantNames("handed out to the other group", theirs, want)
	for _, r := range theirs {
		found := false
		for _, m := range mine {
			found = found || m.ID == r.ID && name(m) == name(r)
		}
		if !found {
			c.Errorf("message %q has another ID in the other group", name(r))
		}
	}
	c.lapse()
	c.wantNames("handed out again", c.popAll(t.Name, other, 5), want)
	c.wantNoMore(t.Name, c.group)
}

// popClientsShare: two clients of one group get different messages, and may ack
// only what they have.
func popClientsShare(c *popEnv) {
	t := c.opened(4)
	two := c.p.Another(c.T, c.b)
	defer func() { _ = two.Close() }()
	want := idsOf("m", 30)
	c.put(t.Name, want...)
	var list []storage.Record
	deadline := time.Now().Add(c.p.Patience)
	for len(list) < 30 && time.Now().Before(deadline) {
		list = append(list, c.popFrom(c.b, t.Name, c.group, 3, 100*time.Millisecond)...)
		list = append(list, c.popFrom(two, t.Name, c.group, 3, 100*time.Millisecond)...)
	}
	c.wantNames("handed out to both", list, want)
}

// popCanceled: a Pop that waits ends with its context, and with Close.
func popCanceled(c *popEnv) {
	t := c.opened(2)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	pop := func(ctx context.Context) {
		var b storage.Batch
		ended <- c.popper().Pop(ctx, storage.PopRequest{Topic: t.Name, Group: c.group, Max: 1, Invisible: c.p.Invisible, Wait: time.Hour}, &b)
	}
	go pop(ctx)
	c.pause(50 * time.Millisecond)
	cancel()
	c.wantErr("Pop whose context ends", func(ctx context.Context) error { return c.awaitErr(ctx, ended) }, context.Canceled)
	go pop(context.Background())
	c.pause(50 * time.Millisecond)
	c.must("Close", func(context.Context) error { return c.b.Close() })
	c.wantErr("Pop whose backend is closed", func(ctx context.Context) error { return c.awaitErr(ctx, ended) }, storage.ErrClosed)
	c.wantErr("Pop after Close", func(ctx context.Context) error {
		var b storage.Batch
		return c.popper().Pop(ctx, storage.PopRequest{Topic: t.Name, Group: c.group, Max: 1, Invisible: c.p.Invisible}, &b)
	}, storage.ErrClosed)
}

func (c *popEnv) awaitErr(ctx context.Context, ch <-chan error) error {
	select {
	case err := <-ch:
		return err
	case <-ctx.Done():
		return context.DeadlineExceeded
	}
}

// popMissing: what is not there is told apart.
func popMissing(c *popEnv) {
	t := c.opened(1)
	pop := func(topic, group string) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			var b storage.Batch
			return c.popper().Pop(ctx, storage.PopRequest{Topic: topic, Group: group, Max: 1, Invisible: c.p.Invisible}, &b)
		}
	}
	c.wantErr("Pop of a missing group", pop(t.Name, c.group+"-none"), storage.ErrGroupNotFound)
	c.wantErr("OpenGroup of a missing topic", func(ctx context.Context) error {
		_, err := c.popper().OpenGroup(ctx, storage.GroupSpec{Topic: topicName(), Group: c.group})
		return err
	}, storage.ErrTopicNotFound)
}

// popCrash: what a dead client held comes again to the next.
func popCrash(c *popEnv) {
	t := c.opened(2)
	want := idsOf("m", 4)
	c.put(t.Name, want...)
	list := c.popAll(t.Name, c.group, 4)
	c.ackAll(list[0])
	c.crash()
	c.openGroup(t.Name, c.group, storage.GroupStart{At: storage.GroupDefault})
	c.lapse()
	var left []string
	for _, r := range list[1:] {
		left = append(left, name(r))
	}
	c.wantNames("after the crash", c.popAll(t.Name, c.group, 3), left)
}

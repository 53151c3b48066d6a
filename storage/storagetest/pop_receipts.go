package storagetest

import (
	"context"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

var popReceiptCases = []popCase{
	{name: "Pop/Acked", run: popAcked},
	{name: "Pop/ComesAgain", run: popComesAgain},
	{name: "Pop/Invisible", run: popInvisible},
	{name: "Pop/Renewed", run: popRenewed},
	{name: "Pop/RenewedThenAcked", run: popRenewedThenAcked},
	{name: "Pop/OldReceipt", run: popOldReceipt},
	{name: "Pop/LateAck", run: popLateAck},
	{name: "Pop/DoubleAck", run: popDoubleAck},
	{name: "Pop/UnknownHandles", run: popUnknownHandles},
	{name: "Pop/Released", run: popReleased},
}

// one makes a topic with one message and pops it.
func (c *popEnv) one() (storage.Topic, storage.Record) {
	c.Helper()
	t := c.opened(1)
	c.put(t.Name, "m")
	return t, c.popAll(t.Name, c.group, 1)[0]
}

// popAcked: what is acked does not come again.
func popAcked(c *popEnv) {
	t := c.opened(4)
	c.put(t.Name, idsOf("m", 12)...)
	c.ackAll(c.popAll(t.Name, c.group, 12)...)
	c.wantNoMore(t.Name, c.group)
}

// popComesAgain: what is not acked comes again, with its ID and time.
func popComesAgain(c *popEnv) {
	t, r := c.one()
	for i := range 2 {
		c.lapse()
		again := c.popAll(t.Name, c.group, 1)[0]
		if again.ID != r.ID || name(again) != "m" {
			c.Errorf("message %q came again as %q with the ID %q", r.ID, name(again), again.ID)
		}
		if again.Time != r.Time {
			c.Errorf("the time of append was %d and is %d when it comes again", r.Time, again.Time)
		}
		if again.Handle == r.Handle {
			c.Errorf("the receipt is the same when the message comes again")
		}
		if c.p.Counts && again.DeliveryCount != i+2 {
			c.Errorf("handed out for the %d. time, the count is %d", i+2, again.DeliveryCount)
		}
	}
}

// popInvisible: meanwhile nobody gets it.
func popInvisible(c *popEnv) {
	t, _ := c.one()
	c.pass(c.p.Invisible / 2)
	if list := c.popOnce(t.Name, c.group, 4, 50*time.Millisecond); len(list) > 0 {
		c.Errorf("handed out again after half of its invisible time")
	}
}

// popRenewed: a renewed receipt counts from then on.
func popRenewed(c *popEnv) {
	t, r := c.one()
	list := []storage.Record{r}
	for range 3 {
		c.pass(c.p.Invisible * 7 / 10)
		if out := c.renew(list, c.p.Invisible); !out[0].OK {
			c.Fatalf("a good receipt could not be renewed")
		}
		if got := c.popOnce(t.Name, c.group, 4, 20*time.Millisecond); len(got) > 0 {
			c.Fatalf("handed out again although it was renewed")
		}
	}
	c.lapse()
	again := c.popAll(t.Name, c.group, 1)[0]
	if c.p.Counts && again.DeliveryCount != 2 {
		c.Errorf("renewals are counted as deliveries: the count is %d", again.DeliveryCount)
	}
}

// popRenewedThenAcked: the newest receipt acks.
func popRenewedThenAcked(c *popEnv) {
	t, r := c.one()
	list := []storage.Record{r}
	c.renew(list, c.p.Invisible)
	c.renew(list, c.p.Invisible)
	c.ackAll(list...)
	c.wantNoMore(t.Name, c.group)
}

// popOldReceipt: a receipt that was replaced has no effect, whatever is answered.
func popOldReceipt(c *popEnv) {
	t, r := c.one()
	c.renew([]storage.Record{r}, c.p.Invisible)
	c.ack(r)
	c.lapse()
	c.wantNames("after the ack of an old receipt", c.popAll(t.Name, c.group, 1), []string{"m"})
}

// popLateAck: a receipt that has run out is known no more, and has no effect.
func popLateAck(c *popEnv) {
	t, r := c.one()
	c.lapse()
	again := c.popAll(t.Name, c.group, 1)
	if known := c.ack(r); known[0] {
		c.Errorf("a receipt that ran out is still known")
	}
	if out := c.renew([]storage.Record{r}, c.p.Invisible); out[0].OK {
		c.Errorf("a receipt that ran out was renewed")
	}
	c.lapse()
	c.wantNames("after a late ack", c.popAll(t.Name, c.group, 1), []string{"m"})
	_ = again
}

// popDoubleAck: the second ack is not known and does no harm.
func popDoubleAck(c *popEnv) {
	t := c.opened(1)
	c.put(t.Name, "a", "b")
	list := c.popAll(t.Name, c.group, 2)
	c.ackAll(list[0])
	if known := c.ack(list[0], list[1]); known[0] || !known[1] {
		c.Errorf("a second ack beside a first one gives %v", known)
	}
	c.wantNoMore(t.Name, c.group)
}

// popUnknownHandles: handles that the log never gave are no error.
func popUnknownHandles(c *popEnv) {
	c.opened(1)
	handles := []any{"unknown", nil, 7}
	c.must("Ack of unknown handles", func(ctx context.Context) error {
		known, err := need[storage.Acker](c.env).Ack(ctx, handles)
		for _, k := range known {
			if k {
				c.Errorf("an unknown handle is known")
			}
		}
		return err
	})
	c.must("Renew of unknown handles", func(ctx context.Context) error {
		out, err := c.popper().Renew(ctx, handles, c.p.Invisible)
		if err == nil && len(out) != len(handles) {
			c.Errorf("Renew of %d unknown handles gives %d results", len(handles), len(out))
		}
		for _, r := range out {
			if r.OK {
				c.Errorf("an unknown handle was renewed")
			}
		}
		return err
	})
	c.must("Release of unknown handles", func(ctx context.Context) error { return c.popper().Release(ctx, handles) })
}

// popReleased: what is released comes at once, what is not does not.
func popReleased(c *popEnv) {
	t := c.opened(1)
	c.put(t.Name, "a", "b")
	list := c.popAll(t.Name, c.group, 2)
	c.must("Release", func(ctx context.Context) error { return c.popper().Release(ctx, []any{list[0].Handle}) })
	c.wantNames("after the release", c.popAll(t.Name, c.group, 1), []string{name(list[0])})
}

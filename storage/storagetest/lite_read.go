package storagetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/ackmesh/ackmesh/storage"
)

var liteReadCases = []liteCase{
	{name: "LiteRead/Bounds", run: liteBoundsCase},
	{name: "LiteRead/FromAnywhere", run: liteFromAnywhere},
	{name: "LiteRead/OutsideBounds", run: liteOutside},
	{name: "LiteRead/DoesNotWait", run: liteNoWait},
	{name: "LiteRead/Await", run: liteAwait},
	{name: "LiteRead/AwaitEachItsOwn", run: liteAwaitOwn},
	{name: "LiteRead/AwaitStopped", run: liteAwaitStopped},
}

// liteBounds is LiteBounds.
func (c *liteEnv) liteBounds(parent, lite string) (low, high int64) {
	c.Helper()
	c.must("LiteBounds", func(ctx context.Context) (err error) {
		low, high, err = c.liter().LiteBounds(ctx, parent, lite)
		return err
	})
	return low, high
}

// liteBoundsCase: of an empty one both are 0, else they enclose the records.
func liteBoundsCase(c *liteEnv) {
	parent := c.parent()
	for _, lite := range []string{"made", "never-made"} {
		if lite == "made" {
			c.ensure(parent, lite)
		}
		if low, high := c.liteBounds(parent, lite); low != 0 || high != 0 {
			c.Errorf("bounds of the empty lite topic %q are %d and %d, want 0 and 0", lite, low, high)
		}
	}
	list := c.put(parent, "made", "a", 0, 7)
	low, high := c.liteBounds(parent, "made")
	if low > list[0].offset || high <= list[6].offset {
		c.Errorf("bounds are %d and %d, the records are at %d to %d", low, high, list[0].offset, list[6].offset)
	}
	if next := c.put(parent, "made", "a", 7, 1)[0].offset; next != high {
		c.Errorf("the maximum was %d, and the next record is at %d", high, next)
	}
}

// liteFromAnywhere: reading may begin at each offset, and as few at a time as is
// asked for.
func liteFromAnywhere(c *liteEnv) {
	parent := c.parent()
	list := c.put(parent, "a", "a", 0, 10)
	for i := range list {
		c.wantLite(parent, list[i:])
	}
	next, got := list[0].offset, []storage.Record(nil)
	for range list {
		b := c.pollLite(storage.PollRequest{Topic: parent, Partition: "a", Start: next, MaxRecords: 1})
		if len(b.Records) != 1 {
			c.Fatalf("PollLite of one record at %d: %d records, Next %d", next, len(b.Records), b.Next)
		}
		got, next = append(got, b.Records[0]), b.Next
	}
	c.wantRecords("one at a time", got, list)
	small := c.pollLite(storage.PollRequest{Topic: parent, Partition: "a", Start: list[0].offset, MaxBytes: 1})
	if len(small.Records) != 1 {
		c.Errorf("PollLite with MaxBytes 1 gave %d records, want 1", len(small.Records))
	}
}

// liteOutside: what is above the end says so, with the bounds.
func liteOutside(c *liteEnv) {
	parent := c.parent()
	c.put(parent, "a", "a", 0, 3)
	low, high := c.liteBounds(parent, "a")
	batch := new(storage.Batch)
	err := c.bounded("PollLite", func(ctx context.Context) error {
		return c.liter().PollLite(ctx, storage.PollRequest{Topic: parent, Partition: "a", Start: high + 5}, batch)
	})
	var rng *storage.RangeError
	switch {
	case !errors.As(err, &rng):
		c.Errorf("PollLite above the end: %v, want a RangeError", err)
	case rng.Min != low || rng.Max != high || rng.Offset != high+5:
		c.Errorf("PollLite at %d says %v; the bounds are %d and %d", high+5, rng, low, high)
	}
	if len(batch.Records) > 0 {
		c.Errorf("PollLite above the end gave %d records", len(batch.Records))
	}
	c.wantErr("PollLite from a cursor", func(ctx context.Context) error {
		return c.liter().PollLite(ctx, storage.PollRequest{Topic: parent, Partition: "a", Start: storage.Cursor}, batch)
	}, storage.ErrInvalid)
}

// liteNoWait: at the end there is nothing, at once.
func liteNoWait(c *liteEnv) {
	parent := c.parent()
	list := c.put(parent, "a", "a", 0, 3)
	for _, at := range []struct {
		lite string
		next int64
	}{{"a", list[2].offset + 1}, {"never-made", 0}} {
		c.readLite(parent, "a", list[0].offset, 3) // it is there to be read
		b := c.pollLite(storage.PollRequest{Topic: parent, Partition: at.lite, Start: at.next, Wait: 4 * c.h.Patience})
		if len(b.Records) > 0 {
			c.Errorf("PollLite at the end of %q: %d records, want none", at.lite, len(b.Records))
		}
	}
}

// liteAwait: arrived is called once, for what is there and for what comes, and
// what has arrived can be read.
func liteAwait(c *liteEnv) {
	parent := c.parent()
	for _, lite := range []string{"a", "never-made"} {
		early := newBell()
		stop := c.liter().AwaitLite(parent, lite, 0, early.ring)
		c.pause(c.h.Settle)
		if n := early.rings(); n > 0 {
			c.Logf("arrived was called %d times for nothing", n)
		}
		list := c.put(parent, lite, lite, 0, 2)
		c.wantRing("a record came", early)
		stop()
		c.wantLite(parent, list)
		late := newBell()
		stop = c.liter().AwaitLite(parent, lite, list[0].offset, late.ring)
		c.wantRing("a record was there", late)
		stop()
		next := newBell()
		stop = c.liter().AwaitLite(parent, lite, list[1].offset+1, next.ring)
		c.put(parent, lite, lite, 2, 1)
		c.wantRing("another record came", next)
		stop()
	}
}

// liteAwaitOwn: of 50 that are waited for, the one that gets a record is told,
// and two who wait for the same one both are.
func liteAwaitOwn(c *liteEnv) {
	parent := c.parent()
	const n = 50
	bells := make([]*bell, n)
	twin := newBell()
	for i := range bells {
		bells[i] = newBell()
		c.ensure(parent, liteName(i))
		c.readLite(parent, liteName(i), 0, 0) // it is empty, so nothing is told for nothing
		defer c.liter().AwaitLite(parent, liteName(i), 0, bells[i].ring)()
	}
	defer c.liter().AwaitLite(parent, liteName(17), 0, twin.ring)()
	c.put(parent, liteName(17), "a", 0, 1)
	c.wantRing("the one that got a record", bells[17])
	c.wantRing("the other one who waits for it", twin)
	idle := 0
	for i, b := range bells {
		if i != 17 && b.rings() == 0 {
			idle++
		}
	}
	if idle < n/2 {
		c.Errorf("of %d lite topics without records only %d were left alone", n-1, idle)
	}
}

// liteAwaitStopped: after stop nobody is told, and a second stop does nothing.
func liteAwaitStopped(c *liteEnv) {
	parent := c.parent()
	c.ensure(parent, "a")
	c.readLite(parent, "a", 0, 0)
	stopped := newBell()
	stop := c.liter().AwaitLite(parent, "a", 0, stopped.ring)
	c.pause(c.h.Settle)
	before := stopped.rings()
	stop()
	stop()
	goes := newBell()
	defer c.liter().AwaitLite(parent, "a", 0, goes.ring)()
	c.put(parent, "a", "a", 0, 1)
	c.wantRing("who waits still", goes)
	if n := stopped.rings(); n > before {
		c.Errorf("arrived was called %s after stop", fmt.Sprint(n-before, " times"))
	}
}

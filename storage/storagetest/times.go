package storagetest

import (
	"context"
	"fmt"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

var timeCases = []testCase{
	{name: "Time/C72_EqualTimes", needs: canStamp, run: timeEqual},
	{name: "Time/BeforeAndAfterAll", needs: hasBounder, run: timeBeforeAndAfter},
	{name: "Time/EmptyPartition", needs: hasBounder, run: timeEmpty},
}

// offsetByTime is Bounder.OffsetByTime.
func (c *env) offsetByTime(topic, partition string, at time.Time, m storage.TimeMatch) (offset int64) {
	c.Helper()
	c.must("OffsetByTime", func(ctx context.Context) (err error) {
		offset, err = need[storage.Bounder](c).OffsetByTime(ctx, topic, partition, at, m)
		return err
	})
	return offset
}

// timeEqual: records at 10, 20, 20, 20, 30. A time inside or between them
// means the first of the nearest ones, or the first of that time or later;
// one after the last means the end.
func timeEqual(c *env) {
	t := c.topic(1)
	part := t.Partitions[0]
	base := time.Now().Add(time.Second).Truncate(time.Second)
	at := func(units int) time.Time { return base.Add(time.Duration(units) * 100 * time.Millisecond) }
	for i, units := range []int{10, 20, 20, 20, 30} {
		c.h.AppendAt(c.T, c.b, t.Name, numbered("a", i), at(units))
	}
	low, _ := c.bounds(t.Name, part)
	got := c.read(t.Name, part, low, 5)
	for i, units := range []int{10, 20, 20, 20, 30} {
		if got[i].Time != at(units).UnixMilli() {
			c.Fatalf("record %d has the time %d, want %d", i, got[i].Time, at(units).UnixMilli())
		}
	}
	place := func(i int) int64 {
		if i == 5 {
			_, high := c.bounds(t.Name, part)
			return high
		}
		return got[i].Offset
	}
	for _, want := range []struct{ units, nearest, atOrAfter int }{
		{20, 1, 1},
		{18, 1, 1},
		{12, 0, 1},
		{5, 0, 0},
		{31, 5, 5},
		{10, 0, 0},
		{11, 0, 1},
		{21, 1, 4},
		{24, 1, 4},
		{26, 4, 4},
		{30, 4, 4},
		{1000, 5, 5},
		{-1000, 0, 0},
	} {
		c.wantOffset(t.Name, part, at(want.units), storage.Nearest, place(want.nearest), fmt.Sprint(want.units, " nearest"))
		c.wantOffset(t.Name, part, at(want.units), storage.AtOrAfter, place(want.atOrAfter), fmt.Sprint(want.units, " at or after"))
	}
	c.wantOffset(t.Name, part, at(20).Add(time.Microsecond), storage.AtOrAfter, place(4), "20 and 1 µs at or after")
}

func (c *env) wantOffset(topic, partition string, at time.Time, m storage.TimeMatch, want int64, what string) {
	c.Helper()
	if got := c.offsetByTime(topic, partition, at, m); got != want {
		c.Errorf("offset by time %s is %d, want %d", what, got, want)
	}
}

// timeBeforeAndAfter: without control of the clock, the ends still hold.
func timeBeforeAndAfter(c *env) {
	t := c.topic(1)
	list := c.fill(t.Name, "", "a", 5)
	part := list[0].partition
	high := c.maximumAbove(t.Name, part, list[4].offset)
	recs := c.read(t.Name, part, list[0].offset, 5)
	for _, m := range []storage.TimeMatch{storage.Nearest, storage.AtOrAfter} {
		c.wantOffset(t.Name, part, time.UnixMilli(recs[0].Time).Add(-time.Hour), m, list[0].offset, "before all")
		c.wantOffset(t.Name, part, time.UnixMilli(recs[4].Time).Add(time.Hour), m, high, "after all")
		for _, r := range recs {
			first := firstOfTime(recs, r.Time)
			c.wantOffset(t.Name, part, time.UnixMilli(r.Time), m, first, fmt.Sprint("of record ", r.Offset))
		}
	}
}

// firstOfTime is the offset of the first record of a time.
func firstOfTime(recs []storage.Record, ms int64) int64 {
	for _, r := range recs {
		if r.Time == ms {
			return r.Offset
		}
	}
	return -1
}

// timeEmpty: in an empty partition every time means the maximum.
func timeEmpty(c *env) {
	t := c.topic(1)
	_, high := c.bounds(t.Name, t.Partitions[0])
	for _, at := range []time.Time{time.UnixMilli(0), time.Now(), time.Now().Add(time.Hour)} {
		c.wantOffset(t.Name, t.Partitions[0], at, storage.Nearest, high, "in an empty partition, nearest")
		c.wantOffset(t.Name, t.Partitions[0], at, storage.AtOrAfter, high, "in an empty partition, at or after")
	}
}

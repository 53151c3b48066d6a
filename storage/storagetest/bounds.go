package storagetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

var boundsCases = []testCase{
	{name: "Bounds/Empty", needs: hasBounder, run: boundsEmpty},
	{name: "Bounds/AreExact", needs: hasBounder, run: boundsExact},
	{name: "Bounds/Missing", needs: hasBounder, run: boundsMissing},
}

// boundsEmpty: equal bounds mean empty, and reading there waits.
func boundsEmpty(c *env) {
	t := c.topic(2)
	for _, part := range t.Partitions {
		low, high := c.bounds(t.Name, part)
		if low != high || low < 0 {
			c.Errorf("bounds of an empty partition are %d..%d", low, high)
		}
		c.wantNothing(t.Name, part, low)
	}
}

// boundsExact: the maximum is the offset of the next record, the minimum is
// not above the first.
func boundsExact(c *env) {
	t := c.topic(2)
	list := c.fill(t.Name, "k", "a", 5)
	part := list[0].partition
	for i := range 5 {
		high := c.maximumAbove(t.Name, part, list[len(list)-1].offset)
		s := c.fill(t.Name, "k", fmt.Sprint("b", i), 1)[0]
		if s.offset != high {
			c.Errorf("the maximum was %d, the next record got %d", high, s.offset)
		}
		list = append(list, s)
	}
	high := c.maximumAbove(t.Name, part, list[len(list)-1].offset)
	low, _ := c.bounds(t.Name, part)
	if low > list[0].offset {
		c.Errorf("the minimum is %d, the first record has %d", low, list[0].offset)
	}
	c.wantRecords("from the minimum", c.read(t.Name, part, low, len(list)), list)
	c.wantNothing(t.Name, part, high)
	for _, other := range t.Partitions {
		if low, high := c.bounds(t.Name, other); other != part && low != high {
			c.Errorf("the other partition has bounds %d..%d, want it empty", low, high)
		}
	}
}

// maximumAbove waits until the maximum is above offset and returns it.
func (c *env) maximumAbove(topic, partition string, offset int64) (high int64) {
	c.Helper()
	c.eventually("Bounds after an append", func() error {
		if _, high = c.bounds(topic, partition); high <= offset {
			return fmt.Errorf("the maximum is %d, a record has %d", high, offset)
		}
		return nil
	})
	return high
}

// boundsMissing: what is missing is an error by name, not 0.
func boundsMissing(c *env) {
	t := c.topic(1)
	b := need[storage.Bounder](c)
	for _, miss := range []struct {
		topic, partition string
		err              error
	}{
		{topicName(), t.Partitions[0], storage.ErrTopicNotFound},
		{t.Name, "no such partition", storage.ErrPartitionNotFound},
	} {
		c.wantErr("Bounds", func(ctx context.Context) error {
			_, _, err := b.Bounds(ctx, miss.topic, miss.partition)
			return err
		}, miss.err)
		c.wantErr("OffsetByTime", func(ctx context.Context) error {
			_, err := b.OffsetByTime(ctx, miss.topic, miss.partition, time.Now(), storage.Nearest)
			return err
		}, miss.err)
	}
}

// wantRangeError wants Poll to fail with a RangeError that tells the place.
func (c *env) wantRangeError(req storage.PollRequest, offset int64) {
	c.Helper()
	batch := &storage.Batch{Records: make([]storage.Record, 2)}
	err := c.bounded("Poll", func(ctx context.Context) error { return c.b.Poll(ctx, req, batch) })
	if len(batch.Records) != 0 {
		c.Errorf("after an error the batch has %d records", len(batch.Records))
	}
	var r *storage.RangeError
	if !errors.As(err, &r) {
		c.Errorf("Poll at %d: %v, want a *RangeError", offset, err)
		return
	}
	if r.Topic != req.Topic || r.Partition != req.Partition || r.Offset != offset {
		c.Errorf("Poll of %q/%q at %d: the error speaks of %q/%q and %d", req.Topic, req.Partition, offset, r.Topic, r.Partition, r.Offset)
	}
	if r.Min > r.Max || (r.Min <= offset && offset <= r.Max) {
		c.Errorf("Poll at %d is refused with the bounds %d..%d", offset, r.Min, r.Max)
	}
}

package storagetest

import (
	"context"
	"fmt"
	"sync"

	"github.com/ackmesh/ackmesh/storage"
)

var orderCases = []testCase{
	{name: "Order/OfOneCaller", run: orderOfOneCaller},
	{name: "Order/OfManyCallers", run: orderOfManyCallers},
	{name: "Order/KeyStaysInPartition", run: keyStaysInPartition},
	{name: "Order/KeylessSpreadInRuns", run: keylessSpreadInRuns},
}

// orderOfOneCaller: calls that do not wait for one another keep their order.
func orderOfOneCaller(c *env) {
	t := c.topic(2)
	var sent []*fate
	for i := range 300 {
		e := storage.Event{Frame: numbered("a", i)}
		if i%4 > 0 {
			e.Key = fmt.Sprint("key", i%4)
		}
		sent = append(sent, c.send(t.Name, []storage.Event{e}))
	}
	c.wantTheOnly(t, storedInOrder(c, sent))
}

// orderOfManyCallers: callers mix, but each keeps its order, and nobody's
// events are lost.
func orderOfManyCallers(c *env) {
	t := c.topic(2)
	const callers, calls = 6, 40
	sent := make([][]*fate, callers)
	for w := range sent {
		for i := range calls {
			events := []storage.Event{{Frame: numbered(fmt.Sprint(w), 2*i)}, {Frame: numbered(fmt.Sprint(w), 2*i+1), Key: "k"}}
			sent[w] = append(sent[w], c.newFate(t.Name, events))
		}
	}
	c.must("appends of many callers", func(ctx context.Context) error {
		var wg sync.WaitGroup
		for _, fates := range sent {
			wg.Go(func() {
				for _, f := range fates {
					f.refused = f.send(ctx, c.b)
				}
			})
		}
		wg.Wait()
		return nil
	})
	parts := map[string]map[int64]stored{}
	for _, fates := range sent {
		for _, s := range storedInOrder(c, fates) {
			if parts[s.partition] == nil {
				parts[s.partition] = map[int64]stored{}
			}
			parts[s.partition][s.offset] = s
		}
	}
	total := 0
	for name, places := range parts {
		total += len(places)
		c.wantPlaces(t.Name, name, places)
	}
	if total != 2*callers*calls {
		c.Errorf("%d events were reported at %d places", 2*callers*calls, total)
	}
}

// wantPlaces wants a partition to hold these records and no others.
func (c *env) wantPlaces(topic, partition string, places map[int64]stored) {
	c.Helper()
	var want []stored
	got := c.read(topic, partition, storage.Cursor, len(places))
	for _, r := range got {
		if s, ok := places[r.Offset]; ok {
			want = append(want, s)
		}
	}
	if len(want) != len(places) {
		c.Fatalf("partition %q: %d of %d reported places hold a record", partition, len(want), len(places))
	}
	c.wantRecords("partition "+partition, got, want)
	c.wantNothing(topic, partition, got[len(got)-1].Offset+1)
}

// keyStaysInPartition: equal keys, equal partition; and keys use more than
// one.
func keyStaysInPartition(c *env) {
	t := c.topic(4)
	home := map[string]string{}
	used := map[string]bool{}
	for round := range 4 {
		var events []storage.Event
		for k := range 64 {
			events = append(events, storage.Event{Key: fmt.Sprint("key ", k), Frame: numbered("a", 64*round+k)})
		}
		for i, r := range c.append(t.Name, events...) {
			key := events[i].Key
			if was, ok := home[key]; ok && was != r.Partition {
				c.Fatalf("key %q went to partition %q and then to %q", key, was, r.Partition)
			}
			home[key], used[r.Partition] = r.Partition, true
		}
	}
	if len(used) < 2 {
		c.Errorf("64 keys all went to one of 4 partitions")
	}
}

// keylessSpreadInRuns: events without a key use every partition, and the
// partition changes seldom.
func keylessSpreadInRuns(c *env) {
	t := c.topic(2)
	const calls, each = 256, 16
	var sent []*fate
	for i := range calls {
		var events []storage.Event
		for k := range each {
			events = append(events, storage.Event{Frame: numbered("a", each*i+k)})
		}
		sent = append(sent, c.send(t.Name, events))
	}
	used, changes, last := map[string]int{}, 0, ""
	for _, f := range sent {
		for _, s := range f.stored(c) {
			used[s.partition]++
			if s.partition != last {
				changes, last = changes+1, s.partition
			}
		}
	}
	if len(used) < 2 {
		c.Errorf("%d events without a key all went to one of 2 partitions", calls*each)
	}
	if changes > calls*each/8 {
		c.Errorf("the partition of %d events without a key changed %d times, want runs", calls*each, changes)
	}
}

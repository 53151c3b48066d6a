package fakepop

import (
	"context"
	"fmt"
	"time"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
)

// group is what the broker knows of one group of a topic. The broker's lock
// guards it.
type group struct {
	key     groupKey
	ordered bool
	topicID string
	next    map[string]int64 // by partition: what is handed out next for the first time
	flights map[string]*flight
	again   []*flight // became visible, in the order of their expiry
	turn    int       // where the search among partitions begins
	retries int64     // offsets used in the retry queue
}

// flight is a record that was handed out to a group and is not done with.
type flight struct {
	g         *group
	id        string
	home      string // partition it was appended to
	homeAt    int64
	partition string // where it is now
	offset    int64
	time      int64
	frame     []byte
	count     int
	receipt   string // the one that is good; "": none
	until     time.Time
	acked     bool // ordered: acked behind one that is not
	done      bool
}

// receipt is what is known of a receipt: its flight, and of which time that it
// was handed out.
type receipt struct {
	f     *flight
	count int
}

// open makes a group.
func (br *Broker) open(ctx context.Context, spec storage.GroupSpec) (*group, error) {
	t, err := br.log.Topic(ctx, spec.Topic)
	if err != nil {
		return nil, err
	}
	g := &group{
		key: groupKey{spec.Topic, spec.Group}, ordered: spec.Ordered, topicID: t.ID,
		next: map[string]int64{}, flights: map[string]*flight{},
	}
	for _, p := range t.Partitions {
		m, err := place(ctx, br.log, spec.Topic, p, spec.Start)
		if err != nil {
			return nil, err
		}
		g.next[p] = m.To
	}
	br.groups[g.key] = g
	return g, nil
}

// place resolves a start in one partition.
func place(ctx context.Context, log *memory.Backend, topic, partition string, to storage.GroupStart) (storage.GroupMove, error) {
	low, high, err := log.Bounds(ctx, topic, partition)
	m := storage.GroupMove{Partition: partition, Min: low, Max: high, To: high}
	if err != nil {
		return m, err
	}
	switch to.At {
	case storage.GroupEarliest:
		m.To = low
	case storage.GroupOffsetAt:
		m.To = min(max(to.Offset, low), high)
	case storage.GroupTimeAt:
		m.To, err = log.OffsetByTime(ctx, topic, partition, to.Time, to.Match)
	}
	return m, err
}

// lapse makes visible what was invisible until now.
func (br *Broker) lapse(g *group, now time.Time) {
	var lapsed []*flight
	for _, f := range g.flights {
		if f.receipt != "" && !f.until.After(now) {
			lapsed = append(lapsed, f)
		}
	}
	sortFlights(lapsed)
	for _, f := range lapsed {
		br.comeAgain(g, f)
	}
}

// comeAgain puts a flight among those to be handed out again.
func (br *Broker) comeAgain(g *group, f *flight) {
	f.receipt = ""
	if limit := br.opts.MaxDeliveries; limit > 0 && f.count >= limit {
		br.count(g.key).Dropped++
		g.finish(f)
		return
	}
	if !g.ordered {
		f.partition, f.offset = "%RETRY%"+g.key.group+":0", g.retries
		g.retries++
	}
	g.again = append(g.again, f)
	if !g.ordered {
		return
	}
	// What was acked behind it in its queue is not known to be finished.
	for _, o := range g.flights {
		if o.acked && o.partition == f.partition && o.offset > f.offset {
			o.acked = false
			g.again = append(g.again, o)
		}
	}
	sortFlights(g.again)
}

// finish forgets a flight.
func (g *group) finish(f *flight) {
	f.done, f.receipt = true, ""
	delete(g.flights, f.id)
}

// ack takes a good receipt's ack.
func (g *group) ack(f *flight) {
	if !g.ordered {
		g.finish(f)
		return
	}
	f.acked, f.receipt = true, ""
	// What is acked up to the first that is not is finished.
	var queue []*flight
	for _, o := range g.flights {
		if o.partition == f.partition {
			queue = append(queue, o)
		}
	}
	sortFlights(queue)
	for _, o := range queue {
		if !o.acked {
			return
		}
		g.finish(o)
	}
}

// blocked tells whether an ordered group may not have the next records of a
// partition yet.
func (g *group) blocked(partition string) bool {
	if !g.ordered {
		return false
	}
	for _, f := range g.flights {
		if f.partition == partition && f.receipt != "" {
			return true
		}
	}
	return false
}

// take hands out up to req.Max records.
func (br *Broker) take(ctx context.Context, g *group, req storage.PopRequest, now time.Time, batch *storage.Batch) error {
	t, err := br.log.Topic(ctx, g.key.topic)
	if err != nil {
		return err
	}
	if req.TopicID != "" && req.TopicID != t.ID {
		return fmt.Errorf("fakepop: topic %q has the identity %s, not %s: %w", t.Name, t.ID, req.TopicID, storage.ErrTopicChanged)
	}
	if t.ID != g.topicID { // made anew: the group begins with it
		g.topicID, g.next, g.flights, g.again = t.ID, map[string]int64{}, map[string]*flight{}, nil
	}
	br.lapse(g, now)
	var out []*flight
	most := min(req.Max, maxPop)
	if g.ordered {
		out = g.takeOrdered(most)
	} else {
		n := min(most, len(g.again))
		out = append(out, g.again[:n]...)
		g.again = g.again[n:]
	}
	for i := range t.Partitions {
		p := t.Partitions[(g.turn+i)%len(t.Partitions)]
		if len(out) >= most || g.blocked(p) || g.waitsIn(out, p) {
			continue
		}
		fresh, err := br.fresh(ctx, g, p, most-len(out))
		if err != nil {
			return err
		}
		out = append(out, fresh...)
	}
	g.turn++
	br.handOut(g, req, now, out, batch)
	return nil
}

// takeOrdered takes what comes again in queues that are not blocked.
func (g *group) takeOrdered(most int) (out []*flight) {
	kept := g.again[:0:0]
	for _, f := range g.again {
		switch {
		case f.done:
		case len(out) < most && !g.blocked(f.partition):
			out = append(out, f)
		default:
			kept = append(kept, f)
		}
	}
	g.again = kept
	return out
}

// waitsIn tells whether an ordered group has something of a partition to come
// again, or just taken, before anything new.
func (g *group) waitsIn(taken []*flight, partition string) bool {
	if !g.ordered {
		return false
	}
	for _, list := range [][]*flight{taken, g.again} {
		for _, f := range list {
			if f.partition == partition {
				return true
			}
		}
	}
	return false
}

// fresh reads records of a partition for the first time.
func (br *Broker) fresh(ctx context.Context, g *group, partition string, most int) (out []*flight, err error) {
	low, high, err := br.log.Bounds(ctx, g.key.topic, partition)
	if err != nil {
		return nil, err
	}
	start := min(max(g.next[partition], low), high)
	var b storage.Batch
	err = br.log.Poll(ctx, storage.PollRequest{Topic: g.key.topic, Partition: partition, Start: start, MaxRecords: most}, &b)
	if err != nil {
		return nil, err
	}
	for _, r := range b.Records {
		f := &flight{
			g: g, id: messageID(g.topicID, partition, r.Offset), home: partition, homeAt: r.Offset,
			partition: partition, offset: r.Offset, time: r.Time, frame: br.frameOf(r.Frame),
		}
		if old := g.flights[f.id]; old != nil { // the group was moved back onto it
			old.done, old.receipt = true, ""
		}
		g.flights[f.id] = f
		out = append(out, f)
	}
	g.next[partition] = b.Next
	return out, nil
}

// frameOf is a body as it is handed out.
func (br *Broker) frameOf(body []byte) []byte {
	if _, err := frame.Parse(body); err == nil || br.opts.Raw {
		return body
	}
	out, err := frame.Append(nil, &frame.Frame{Type: frame.Event, Data: body})
	if err != nil {
		return body
	}
	return out
}

// handOut gives receipts for flights and fills the batch.
func (br *Broker) handOut(g *group, req storage.PopRequest, now time.Time, out []*flight, batch *storage.Batch) {
	c := br.count(g.key)
	if len(out) > 0 {
		c.Pops++
		c.Popped += len(out)
	}
	for _, f := range out {
		f.count++
		c.Handed[f.id]++
		f.until = now.Add(req.Invisible)
		br.give(f, now, req.Invisible)
		at := len(batch.Buf)
		batch.Buf = append(batch.Buf, f.frame...)
		batch.Records = append(batch.Records, storage.Record{
			Offset: f.offset, Time: f.time, Frame: batch.Buf[at:len(batch.Buf):len(batch.Buf)],
			ID: f.id, Handle: f.receipt, Partition: f.partition, CheckKey: f.receipt, DeliveryCount: f.count,
		})
	}
}

// give makes a new receipt for a flight, written as RocketMQ does.
func (br *Broker) give(f *flight, now time.Time, invisible time.Duration) {
	kind := 0
	if f.partition != f.home {
		kind = 1
	}
	f.receipt = fmt.Sprintf("%d %d %d %d %d broker-a %d %d %d", f.homeAt, now.UnixMilli(), invisible.Milliseconds(),
		br.serial%8, kind, f.homeAt%8, f.offset, br.serial)
	br.serial++
	br.receipts[f.receipt] = receipt{f, f.count}
}

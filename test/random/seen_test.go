//go:build long

package random

import (
	"context"
	"fmt"
	"strconv"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/offset"
	"github.com/ackmesh/ackmesh/server/tracecheck"
)

// windowHolds sees that what is outstanding, neither timed out nor of an epoch
// before a reset, is within the window.
func (w *world) windowHolds(c *client) {
	n, epoch := 0, uint64(0)
	for _, h := range c.s.held {
		epoch = max(epoch, h.epoch)
	}
	for _, h := range c.s.held {
		if h.epoch == epoch && time.Since(h.at) < ackTimeout {
			n++
		}
	}
	if n > window {
		w.t.Errorf("seed %d: client %s holds %d deliveries, its window is %d", w.seed, c.name, n, window)
	}
}

func (w *world) message(m message) {
	c, s := m.c, m.c.s
	switch k := m.GetKind().(type) {
	case *pb.SubscribeResponse_Opened:
		for _, r := range k.Opened.GetResults() {
			if r.GetStatus().GetCode() != 0 {
				w.t.Errorf("seed %d: %s refused: %v", w.seed, c.name, r.GetStatus())
			}
		}
		s.opened = true
		w.rec.Opened(s.id, positions(k.Opened.GetPositions()))
	case *pb.SubscribeResponse_Deliveries:
		for _, run := range k.Deliveries.GetRuns() {
			w.delivered(c, run, m.at)
		}
	case *pb.SubscribeResponse_AckResult:
		w.answered(c, k.AckResult)
	}
}

func positions(list []*pb.Position) []tracecheck.Position {
	var out []tracecheck.Position
	for _, p := range list {
		q := tracecheck.Position{Partition: p.GetPartition(), Next: p.GetNextOffset(), Epoch: p.GetEpoch()}
		for _, r := range p.GetFinishedAhead() {
			q.Ahead = append(q.Ahead, offset.Range{First: r.GetFirst(), Last: r.GetLast()})
		}
		out = append(out, q)
	}
	return out
}

func (w *world) delivered(c *client, run *pb.Run, at time.Time) {
	for _, d := range run.GetDeliveries() {
		id, err := strconv.ParseUint(string(d.GetFrame().GetData()), 10, 64)
		if err != nil {
			w.t.Errorf("seed %d: offset %d carries %q", w.seed, d.GetOffset(), d.GetFrame().GetData())
			continue
		}
		w.rec.Add(tracecheck.Event{
			Kind: tracecheck.Delivered, Stream: c.s.id, Delivery: d.GetDeliveryId(), Partition: run.GetPartition(),
			Offset: d.GetOffset(), Attempt: d.GetAttempt(), Epoch: run.GetEpoch(), ID: id,
		})
		c.s.held = append(c.s.held, held{id: d.GetDeliveryId(), event: id, epoch: run.GetEpoch(), at: at})
		w.attemptRises(c, d, run.GetEpoch(), id)
		if c.sub.GetOrdered() {
			w.inOrder(c, id)
		}
	}
}

// attemptRises sees that each further delivery of a record has a higher number,
// and the first is 1.
func (w *world) attemptRises(c *client, d *pb.Delivery, epoch, id uint64) {
	key := fmt.Sprint(c.subscriber(), epoch, " ", id)
	last, again := w.attempts[key]
	if d.GetAttempt() <= last || !again && d.GetAttempt() != 1 || d.GetAttempt() > 12 {
		w.t.Errorf("seed %d: %s got offset %d as attempt %d after %d", w.seed, c.subscriber(), d.GetOffset(), d.GetAttempt(), last)
	}
	w.attempts[key] = d.GetAttempt()
	if c.sub.GetMode() != pb.Mode_MODE_BROADCAST || d.GetAttempt() > 1 {
		return
	}
	if last := w.newest[epoch]; d.GetOffset() < last {
		w.t.Errorf("seed %d: %s got offset %d for the first time after %d", w.seed, c.subscriber(), d.GetOffset(), last)
	}
	w.newest[epoch] = d.GetOffset()
}

// inOrder sees that no earlier event of the key is unfinished for the subscriber.
func (w *world) inOrder(c *client, id uint64) {
	key, at := w.keys[id], w.place[id]
	if key == "" {
		return
	}
	bySub := w.sent[c.subscriber()]
	if bySub == nil {
		bySub = map[string][]uint64{}
		w.sent[c.subscriber()] = bySub
	}
	for _, e := range bySub[key] {
		p := w.place[e]
		if e != id && p.partition == at.partition && p.offset < at.offset && !w.done[c.subscriber()][e] && w.acked[c.subscriber()][e] <= 0 && !w.dead[grave{c.subscriber(), p}] {
			w.t.Errorf("seed %d: %s got offset %d of key %s while offset %d of it is unfinished", w.seed, c.subscriber(), at.offset, key, p.offset)
		}
	}
	bySub[key] = append(bySub[key], id)
}

func (w *world) letters() []*pb.DeadLetter {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	res, err := w.admin.ListDeadLetters(ctx, &pb.ListDeadLettersRequest{Topic: "t", PageSize: 1000})
	if err != nil {
		w.t.Fatalf("seed %d: %v", w.seed, err)
	}
	return res.GetDeadLetters()
}

func (w *world) answered(c *client, r *pb.AckResult) {
	one := func(id uint64, st pb.AckResult_Status) {
		h, ok := c.s.asked[id]
		if !ok {
			w.t.Errorf("seed %d: %s was told %v of delivery %d, which it did not ask about", w.seed, c.name, st, id)
			return
		}
		delete(c.s.asked, id)
		w.rec.Add(tracecheck.Event{Kind: tracecheck.Answer, Status: tracecheck.Status(st), Stream: c.s.id, Delivery: id})
		if !h.nacked {
			w.acked[c.subscriber()][h.event]--
		}
		if st == pb.AckResult_STATUS_DURABLE && !h.nacked {
			w.done[c.subscriber()][h.event] = true
		}
	}
	for _, o := range r.GetOutcomes() {
		for _, id := range o.GetDeliveryIds() {
			one(id, o.GetStatus())
		}
		for _, rg := range o.GetRanges() {
			for id := rg.GetFirst(); id <= rg.GetLast(); id++ {
				one(id, o.GetStatus())
			}
		}
	}
	w.rec.Positions(c.s.id, positions(r.GetPositions()))
}

// finish acks everything until nothing is left, and looks at what remains.
func (w *world) finish() {
	for _, c := range w.clients {
		if c.s == nil {
			w.open(c)
		}
	}
	for range 400 {
		w.settle()
		idle := true
		for _, c := range w.clients {
			for c.s != nil && len(c.s.held) > 0 {
				w.answer(c, pb.AckResult_STATUS_DURABLE)
				w.settle() // so that no ack crosses a delivery
				idle = false
			}
		}
		w.settle()
		if idle && w.allDone() {
			break
		}
		w.pass(500 * time.Millisecond)
	}
	w.remains()
}

func (w *world) offsets() []*pb.PartitionOffsets {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	res, err := w.admin.GetOffsets(ctx, &pb.GetOffsetsRequest{Topic: "t"})
	if err != nil {
		w.t.Fatalf("seed %d: %v", w.seed, err)
	}
	return res.GetOffsets()
}

func (w *world) allDone() bool {
	for _, o := range w.offsets() {
		if o.GetLag() != 0 || o.GetInFlight() != 0 || o.GetWaiting() != 0 {
			return false
		}
	}
	return true
}

// remains sees that nothing is left over and that each dead letter is one.
func (w *world) remains() {
	for _, o := range w.offsets() {
		if o.GetLag() != 0 || o.GetInFlight() != 0 || o.GetWaiting() != 0 || o.GetFinishedAhead() != 0 {
			w.t.Errorf("seed %d: left over: %v", w.seed, o)
		}
	}
	if m := w.in.Server.Metrics(); m.Lost.Load()+m.Expired.Load()+m.Corrected.Load() > 0 {
		w.t.Errorf("seed %d: %d lost, %d expired, %d corrected", w.seed, m.Lost.Load(), m.Expired.Load(), m.Corrected.Load())
	}
	seen := map[string]bool{}
	for _, l := range w.letters() {
		if seen[l.GetId()] {
			w.t.Errorf("seed %d: dead letter %s twice", w.seed, l.GetId())
		}
		seen[l.GetId()] = true
	}
}

package tracecheck

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/offset"
)

// toy is a mesh that keeps its promises, with one partition, a subscriber of
// kind client and a share. It does everything at once and records it.
type toy struct {
	t    *rapid.T
	rec  *Recorder
	log  []uint64
	id   uint64 // last event
	next uint64 // last delivery id
	subs []*toySub
}

type toySub struct {
	name    string
	start   int64
	acked   *offset.Set
	sent    map[int64]int32 // attempts
	streams map[int32]*toyStream
}

type toyStream struct {
	id     int32
	flying map[uint64]int64 // offsets by delivery
}

func newToy(t *rapid.T) *toy {
	y := &toy{t: t, rec: NewRecorder(0)}
	for _, name := range []string{"client/a", "share/s"} {
		y.subs = append(y.subs, &toySub{name: name, start: -1, acked: &offset.Set{}, sent: map[int64]int32{}, streams: map[int32]*toyStream{}})
	}
	return y
}

func (y *toy) coin(what string) bool { return rapid.Bool().Draw(y.t, what) }

// publish stores an event; its first answer may be lost.
func (y *toy) publish() {
	y.id++
	y.rec.Add(Event{Kind: Publish, ID: y.id})
	y.log = append(y.log, y.id)
	if y.coin("lost answer") {
		y.rec.Add(Event{Kind: Unpublished, ID: y.id}, Event{Kind: Publish, ID: y.id})
	}
	y.rec.Add(Event{Kind: Published, ID: y.id, Partition: "0", Offset: int64(len(y.log) - 1)})
}

func (s *toySub) position() Position {
	p := Position{Partition: "0", Next: max(s.start, s.acked.EndOf(s.start))}
	for _, r := range s.acked.Ranges() {
		if r.First > p.Next {
			p.Ahead = append(p.Ahead, r)
		}
	}
	return p
}

func (y *toy) open(s *toySub) {
	if len(s.streams) == 2 || (s.name == "client/a" && len(s.streams) == 1) {
		return
	}
	if s.start < 0 {
		s.start = int64(len(y.log))
	}
	id := y.rec.Open(s.name, 3)
	if y.coin("lost Opened") {
		y.rec.Add(Event{Kind: Closed, Stream: id})
		return
	}
	y.rec.Opened(id, []Position{s.position()})
	s.streams[id] = &toyStream{id: id, flying: map[uint64]int64{}}
}

func (s *toySub) flying(off int64) bool {
	for _, st := range s.streams {
		for _, o := range st.flying {
			if o == off {
				return true
			}
		}
	}
	return false
}

// deliver sends the lowest record that may be sent.
func (y *toy) deliver(s *toySub, st *toyStream) bool {
	if len(st.flying) == 3 {
		return false
	}
	for off := s.start; off < int64(len(y.log)); off++ {
		if s.acked.Contains(off) || s.flying(off) {
			continue
		}
		y.next++
		s.sent[off]++
		st.flying[y.next] = off
		y.rec.Add(Event{Kind: Delivered, Stream: st.id, Delivery: y.next, Partition: "0", Offset: off, Attempt: s.sent[off], ID: y.log[off]})
		return true
	}
	return false
}

// ack acks one delivery; its answer may be lost with the stream.
func (y *toy) ack(s *toySub, st *toyStream, lose bool) {
	if len(st.flying) == 0 {
		return
	}
	d := rapid.SampledFrom(slices.Sorted(maps.Keys(st.flying))).Draw(y.t, "delivery")
	off := st.flying[d]
	delete(st.flying, d)
	y.rec.Add(Event{Kind: Ack, Stream: st.id, Delivery: d})
	s.acked.Add(offset.Range{First: off, Last: off})
	if lose {
		y.close(s, st)
		return
	}
	y.rec.Add(Event{Kind: Answer, Status: Durable, Stream: st.id, Delivery: d})
	y.rec.Of(BrokerAck, s.name, "0", off)
	if y.coin("positions") {
		y.rec.Positions(st.id, []Position{s.position()})
	}
}

func (y *toy) close(s *toySub, st *toyStream) {
	y.rec.Add(Event{Kind: Closed, Stream: st.id})
	delete(s.streams, st.id)
}

func (y *toy) crash() {
	y.rec.Add(Event{Kind: Down, Status: Killed})
	for _, s := range y.subs {
		for _, id := range slices.Sorted(maps.Keys(s.streams)) {
			if y.coin("under way") { // a frame that is recorded late
				y.deliver(s, s.streams[id])
			}
			y.close(s, s.streams[id])
		}
	}
	y.rec.Add(Event{Kind: Up})
}

// step does something.
func (y *toy) step() {
	s := rapid.SampledFrom(y.subs).Draw(y.t, "subscriber")
	ids := slices.Sorted(maps.Keys(s.streams))
	switch what := rapid.IntRange(0, 19).Draw(y.t, "step"); {
	case what == 0:
		y.crash()
	case what < 5:
		y.publish()
	case what < 7 || len(ids) == 0:
		y.open(s)
	default:
		st := s.streams[rapid.SampledFrom(ids).Draw(y.t, "stream")]
		switch {
		case what == 7:
			y.close(s, st)
		case what < 14:
			y.deliver(s, st)
		default:
			y.ack(s, st, what == 14)
		}
	}
}

// drain delivers and acks everything.
func (y *toy) drain() {
	for _, s := range y.subs {
		for len(s.streams) == 0 {
			y.open(s)
		}
		for _, id := range slices.Sorted(maps.Keys(s.streams)) {
			st := s.streams[id]
			for len(st.flying) > 0 || y.deliver(s, st) {
				y.ack(s, st, false)
			}
		}
	}
}

// toyTrace is a trace that keeps all promises.
func toyTrace(t *rapid.T) *Trace {
	y := newToy(t)
	for range rapid.IntRange(1, 150).Draw(t, "steps") {
		y.step()
	}
	y.drain()
	return y.rec.Trace()
}

// TestToyKeepsAll: what a mesh that keeps its promises may do is not held
// against it.
func TestToyKeepsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if err := Check(toyTrace(t)); err != nil {
			t.Fatal(err)
		}
	})
}

// damage changes a trace such that a promise is broken; false: there is nothing
// in it to break the promise by.
type damage func(t *rapid.T, tr *Trace) bool

// indexes lists the events of a kind for which ok holds.
func indexes(tr *Trace, kind Kind, ok func(*Event) bool) (list []int) {
	for i := range tr.Events {
		if e := &tr.Events[i]; e.Kind == kind && (ok == nil || ok(e)) {
			list = append(list, i)
		}
	}
	return list
}

// one picks one of them; at is -1 if there is none.
func one(t *rapid.T, list []int) (at int) {
	if len(list) == 0 {
		return -1
	}
	return rapid.SampledFrom(list).Draw(t, "event")
}

// drop removes events, with all that names their deliveries.
func drop(tr *Trace, gone func(*Event) bool) {
	ids := map[uint64]bool{}
	tr.Events = slices.DeleteFunc(slices.Clone(tr.Events), func(e Event) bool {
		if e.Kind == Delivered && gone(&e) {
			ids[e.Delivery] = true
		}
		return e.Delivery != 0 && ids[e.Delivery]
	})
}

// after inserts an event behind another.
func after(tr *Trace, at int, e Event) { tr.Events = slices.Insert(slices.Clone(tr.Events), at+1, e) }

var damages = map[string]damage{
	// A record that was acked, and so delivered, to the client never came.
	"Complete": func(t *rapid.T, tr *Trace) bool {
		w := newWants(tr)
		for i := range tr.Events {
			e := &tr.Events[i]
			for _, s := range w.subs {
				if e.Kind == Published && s.wants(e, w.sentAt[e.ID]) {
					streams := map[int32]bool{}
					for _, o := range indexes(tr, Open, func(o *Event) bool { return o.Subscriber() == s.name }) {
						streams[tr.Events[o].Stream] = true
					}
					off := e.Offset
					drop(tr, func(d *Event) bool { return d.Offset == off && streams[d.Stream] })
					return true
				}
			}
		}
		return false
	},
	"Faithful": func(t *rapid.T, tr *Trace) bool {
		at := one(t, indexes(tr, Delivered, nil))
		if at >= 0 {
			tr.Events[at].ID += 1000
		}
		return at >= 0
	},
	"Once": func(t *rapid.T, tr *Trace) bool {
		at := one(t, indexes(tr, Published, nil))
		if at >= 0 {
			e := tr.Events[at]
			e.Offset += 1000
			after(tr, at, e)
		}
		return at >= 0
	},
	"AckFinal": func(t *rapid.T, tr *Trace) bool {
		at := one(t, indexes(tr, Answer, nil))
		if at < 0 {
			return false
		}
		d := indexes(tr, Delivered, func(e *Event) bool { return e.Delivery == tr.Events[at].Delivery })[0]
		e := tr.Events[d]
		e.Delivery, e.Attempt = e.Delivery+1000, e.Attempt+1
		after(tr, at, e)
		return true
	},
	"Monotone": func(t *rapid.T, tr *Trace) bool {
		at := one(t, indexes(tr, Positions, func(e *Event) bool { return e.Positions()[0].Next > 0 }))
		if at >= 0 {
			e := tr.Events[at]
			e.more = &more{positions: []Position{{Partition: "0", Next: e.Positions()[0].Next - 1}}}
			after(tr, at, e)
		}
		return at >= 0
	},
	"UniqueIDs": func(t *rapid.T, tr *Trace) bool {
		list := indexes(tr, Delivered, nil)
		if len(list) < 2 {
			return false
		}
		tr.Events[list[len(list)-1]].Delivery = tr.Events[list[0]].Delivery
		return true
	},
}

// TestToyDamaged: whatever a mesh did before and after, a damage is found.
func TestToyDamaged(t *testing.T) {
	for name, fn := range damages {
		i := slices.IndexFunc(Promises(), func(p Promise) bool { return p.Name == name })
		promise := Promises()[i]
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			tr := toyTrace(t)
			tr.Events = slices.Clone(tr.Events)
			if fn(t, tr) && promise.Check(tr) == nil {
				t.Fatal(fmt.Sprintf("%s finds nothing wrong", name))
			}
		}))
	}
}

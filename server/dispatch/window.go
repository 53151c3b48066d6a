package dispatch

import (
	"slices"
	"time"
)

// maxQueued is how many bytes of encoded deliveries wait for a stream's writer
// before its partitions pause: enough to keep a fast client busy, little
// enough that a stalled one costs no memory.
const maxQueued = 512 << 10

// queueRoom is how many bytes may wait for one stream now. When the memory for
// all of them gets short it shrinks, so that those who read slowest pause first.
func (d *Dispatcher) queueRoom() int {
	room := d.whileShort(maxQueued)
	if room < maxQueued {
		d.Metrics.MemoryPauses.Add(1)
	}
	return room
}

// batchRoom is how many bytes one batch may have now. It shrinks as well, for each
// stream may have one, however many streams there are.
func (d *Dispatcher) batchRoom() int { return max(leastBatch, d.whileShort(batchBytes)) }

// whileShort is as much of most as there is memory for: all of it until half of what
// may wait, for a writer or for a client to read, does.
func (d *Dispatcher) whileShort(most int) int {
	used := d.Metrics.QueuedBytes.Load() + d.Metrics.inHand.Load()
	limit := min(d.cfg.MemoryLimit/2, d.cfg.MemoryLimit-d.Metrics.WindowBytes.Load())
	if used < limit/2 {
		return most
	}
	return max(1, int(int64(most)*max(0, limit-used)/max(1, limit/2)))
}

// max is the window of a binding in records. s.mu is held.
func (s *Stream) max(b *binding) int {
	if b.limit >= 0 {
		return b.limit
	}
	return s.cfg.MaxInFlight
}

// freeFor is how many records of p the binding may take now.
func (s *Stream) freeFor(b *binding, p *part) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.lacksRoom(p) {
		return 0
	}
	return s.freeLocked(b)
}

// lacksRoom tells whether p waits for more room than the window has. s.mu is held.
func (b *binding) lacksRoom(p *part) bool {
	w := b.waits(p)
	return w != nil && w.need > 0 && !b.s.holds(b.s.bytes, w.need)
}

// waits is what p waits for, good until the next change of starved; nil: nothing.
// s.mu is held.
func (b *binding) waits(p *part) *waiting {
	for i := range b.starved {
		if b.starved[i].p == p {
			return &b.starved[i]
		}
	}
	return nil
}

// freeLocked is how many records the binding may take now. s.mu is held.
func (s *Stream) freeLocked(b *binding) int {
	if s.ending || b.paused || b.pacing != nil || b.gone || s.bytes >= s.cfg.MaxBytes || (s.queuedB > 0 && s.queuedB >= s.d.queueRoom()) {
		return 0
	}
	return max(0, s.max(b)-b.used)
}

// reserve takes up to n slots and bytes of the window for p. With none free it
// returns 0 and wakes p when some are.
func (s *Stream) reserve(b *binding, p *part, n int, bytes int64) (slots int, room int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := s.freeLocked(b)
	if free == 0 || !s.ids.ready() {
		if !b.gone && !s.ending {
			b.starve(p)
		}
		return 0, 0
	}
	n = min(n, free, max(1, s.max(b)/b.share))
	bytes = min(bytes, s.cfg.MaxBytes-s.bytes)
	b.used += n
	s.bytes += bytes
	return n, bytes
}

// widen takes room for a frame that is larger than what was reserved. A frame
// that no window holds goes when nothing else is in flight.
func (s *Stream) widen(reserved, need int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.holds(s.bytes-reserved, need) {
		return false
	}
	s.bytes += need - reserved
	return true
}

// holds tells whether the window has room for a frame beside what is in flight.
func (s *Stream) holds(inFlight, need int64) bool {
	return inFlight <= 0 || inFlight+need <= s.cfg.MaxBytes
}

// batch is a run that is encoded and not yet numbered.
type batch struct {
	run   *[]byte
	idPos []int32 // where the ids go
	epoch uint64
}

// send turns a reservation of slots and bytes into a batch of deliveries:
// numbers it and hands it to the writer in one step, so that ids rise on the
// wire. The buffer is the stream's then. ok is false when the stream has ended
// meanwhile: the reservation is given back and the buffer stays the caller's.
func (s *Stream) send(b *binding, p *part, slots int, room int64, bt batch) (first uint64, ok bool) {
	n, bytes := len(bt.idPos), int64(len(*bt.run))
	now := time.Now()
	s.mu.Lock()
	if s.ending || b.gone {
		s.mu.Unlock()
		s.giveBack(b, p, slots, room, 0)
		return 0, false
	}
	b.sated(p)
	b.used -= slots - n
	b.sentN += int64(n)
	b.sentB += bytes
	s.bytes -= room - bytes
	first = s.ids.take(n)
	patchIDs(*bt.run, bt.idPos, first)
	held := ^uint64(0) >> (64 - n)
	s.table = append(s.table, &outBatch{first: first, n: n, mask: held, held: held, bytes: bytes, epoch: bt.epoch, sent: now, b: b, p: p})
	s.queue = append(s.queue, queued{run: bt.run, p: p, first: first})
	s.queuedB += int(bytes)
	s.mu.Unlock()
	s.d.Metrics.QueuedBytes.Add(bytes)
	s.signal()
	return first, true
}

// giveBack returns a reservation that is not used. need is the room that widen has
// not given, for which p waits; 0: p does not.
func (s *Stream) giveBack(b *binding, p *part, slots int, room, need int64) {
	s.mu.Lock()
	b.used -= slots
	s.bytes -= room
	starved, self := s.takeStarved(), p
	switch {
	case need == 0 || b.gone || s.ending:
	case s.holds(s.bytes, need): // what others had reserved is back meanwhile
		starved, self = append(starved, p), nil
	default:
		b.starveFor(p, need)
	}
	s.mu.Unlock()
	s.wakeAll(starved, self)
}

// wakeLeast is how many of those who wait for room of a certain size are woken at
// least where all have it.
const wakeLeast = 64

// takeStarved returns the partitions to wake after room was made: once half of
// what may be queued is, so that who is far behind takes much of each record that
// is read for it, and not a batch at a time. Those who have found too little are
// woken when it is enough, and of many only the first: what is in flight will make
// room for the others. s.mu is held.
func (s *Stream) takeStarved() (list []*part) {
	if len(s.starving) == 0 || s.ending || s.bytes >= s.cfg.MaxBytes || (s.queuedB > 0 && s.queuedB > s.d.queueRoom()/2) {
		return nil
	}
	kept, plenty, sized := s.starving[:0], 4*(s.cfg.MaxBytes-s.bytes), 0
	for _, b := range s.starving {
		rest := b.starved[:0]
		for _, w := range b.starved {
			switch {
			case w.need == 0:
				list = append(list, w.p)
			case !s.holds(s.bytes, w.need), s.bytes > 0 && plenty <= 0 && sized >= wakeLeast:
				rest = append(rest, w)
			default:
				list = append(list, w.p)
				plenty -= w.need
				sized++
			}
		}
		clear(b.starved[len(rest):])
		if b.starved = rest; len(rest) > 0 {
			kept = append(kept, b)
		}
	}
	clear(s.starving[len(kept):])
	s.starving = kept
	return list
}

// starve has p woken when there is room, or when a rate limit does not hold the
// binding back any more: until then room is of no use to it. The stream's mutex
// is held.
func (b *binding) starve(p *part) { b.starveFor(p, 0) }

// sated notes that p has got something: if it waits, then for any room again.
func (b *binding) sated(p *part) {
	if w := b.waits(p); w != nil {
		w.need = 0
	}
}

// starveFor is starve for who needs so many bytes; 0: any.
func (b *binding) starveFor(p *part, need int64) {
	if b.pacing != nil {
		if !slices.Contains(b.paced, p) {
			b.paced = append(b.paced, p)
		}
		return
	}
	if len(b.starved) == 0 {
		b.s.starving = append(b.s.starving, b)
	}
	if w := b.waits(p); w != nil {
		w.need = need
		return
	}
	b.starved = append(b.starved, waiting{p, need})
}

// wakeAll makes partitions look at their window of s again, but for self: it is
// looking already.
func (s *Stream) wakeAll(list []*part, self *part) {
	for _, p := range list {
		if p != self {
			p.l.post(event{kind: evCredit, p: p, stream: s})
		}
	}
}

// roomOrWake tells whether the binding has room; if not, p is woken when it has.
func (s *Stream) roomOrWake(b *binding, p *part) (room bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case b.lacksRoom(p): // it is woken when there is enough
		return false
	case s.freeLocked(b) > 0:
		return true
	}
	if !b.gone && !s.ending {
		b.starve(p)
	}
	return false
}

// SetWindow changes the stream's windows, where not negative.
func (s *Stream) SetWindow(records int, bytes int64) {
	s.mu.Lock()
	if records >= 0 {
		s.cfg.MaxInFlight = records
	}
	if bytes >= 0 {
		s.cfg.MaxBytes = bytes
	}
	starved := s.takeStarved()
	s.mu.Unlock()
	s.wakeAll(starved, nil)
}

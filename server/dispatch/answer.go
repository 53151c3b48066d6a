package dispatch

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"google.golang.org/grpc/mem"
)

// maxLate bounds the timed-out batches a stream remembers for late acks.
const maxLate = 4096

// outBatch is a batch of deliveries that was sent and is not answered.
type outBatch struct {
	first uint64
	n     int
	mask  uint64 // not answered
	held  uint64 // of these, holding a slot of the window
	bytes int64  // of the held ones together
	epoch uint64
	sent  time.Time // zero: not known any more
	b     *binding
	p     *part
}

// release frees slots of batch e for the bits of mask. s.mu is held.
func (e *outBatch) release(s *Stream, mask uint64) {
	mask &= e.held
	n := bits.OnesCount64(mask)
	if n == 0 {
		return
	}
	share := e.bytes
	if left := bits.OnesCount64(e.held); n < left {
		share = e.bytes * int64(n) / int64(left)
	}
	e.held &^= mask
	e.bytes -= share
	s.bytes -= share
	e.b.used -= n
}

// find is the index of the first entry that ends at or above id.
func (s *Stream) find(id uint64) int {
	lo, hi := 0, len(s.table)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if e := s.table[mid]; e.first+uint64(e.n)-1 < id {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// maskOf is the bits of e that lie in r.
func (e *outBatch) maskOf(r idRange) uint64 {
	from, to := uint64(0), uint64(e.n-1)
	if r.first > e.first {
		from = r.first - e.first
	}
	if d := r.last - e.first; d < to {
		to = d
	}
	return (^uint64(0) >> (63 - (to - from))) << from
}

// Answered is one delivery range of an Ack, Nack or Extend.
type Answered = struct{ First, Last uint64 }

// Ack finishes deliveries. Ranges touch only what is outstanding; what is not
// is told UNKNOWN.
func (s *Stream) Ack(ranges []Answered) error {
	return s.answer(ranges, event{kind: evAck}, true)
}

// Nack gives deliveries back. delay < 0: the backoff.
func (s *Stream) Nack(ranges []Answered, delay time.Duration, dead bool, reason string) error {
	return s.answer(ranges, event{kind: evNack, by: delay, dead: dead, reason: reason}, true)
}

// Extend moves deadlines to now + by. by = 0: the stream's ack timeout.
func (s *Stream) Extend(ranges []Answered, by time.Duration) error {
	if by <= 0 {
		by = s.cfg.AckTimeout
	}
	s.awaitExtends()
	return s.answer(ranges, event{kind: evExtend, by: by}, false)
}

// Bounds of the extensions of one stream that wait for the loops. An ack is given
// once, but a client may extend the same deliveries as fast as it can.
const (
	maxExtends  = 20_000
	extendsWait = time.Second
)

// awaitExtends holds the reader of the stream back while too many wait, for a
// limited time in case that a loop has ended with some.
func (s *Stream) awaitExtends() {
	few := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.extends < maxExtends
	}
	if few() {
		return
	}
	timer := time.NewTimer(extendsWait)
	defer timer.Stop()
	for !few() {
		select {
		case <-s.extended:
		case <-s.done:
			return
		case <-timer.C:
			return
		}
	}
}

// extendTaken says that a loop has taken up an extension.
func (s *Stream) extendTaken() {
	s.mu.Lock()
	s.extends--
	s.mu.Unlock()
	select {
	case s.extended <- struct{}{}:
	default:
	}
}

// answer finds what is outstanding, frees its slots when it is final, and posts
// it to the partitions' loops.
func (s *Stream) answer(ranges []Answered, ev event, final bool) error {
	var evs []event
	ranges = disjoint(ranges)
	s.mu.Lock()
	s.lastAnswer = time.Now()
	if s.closed {
		s.mu.Unlock()
		return errStreamClosed
	}
	for _, r := range ranges {
		evs = s.collect(idRange{r.First, r.Last}, ev, final, evs)
	}
	if final {
		s.sweep()
	}
	if s.out.n > maxOutcomes {
		s.mu.Unlock()
		return s.unread(fmt.Sprintf("the fate of more than %d acks", maxOutcomes))
	}
	starved := s.takeStarved()
	told := s.out.n > 0
	s.mu.Unlock()
	for i := range evs {
		evs[i].p.l.post(evs[i])
	}
	s.wakeAll(starved, nil)
	if told {
		s.signal()
	}
	return nil
}

// disjoint sorts ranges, where they overlap, and unites those that do: what is
// named many times is looked at once. The slice is changed.
func disjoint(ranges []Answered) []Answered {
	for i := 1; i < len(ranges); i++ {
		if ranges[i].First > ranges[i-1].Last {
			continue
		}
		slices.SortFunc(ranges, func(a, b Answered) int { return cmp.Compare(a.First, b.First) })
		out := ranges[:1]
		for _, r := range ranges[1:] {
			if last := &out[len(out)-1]; r.First <= last.Last {
				last.Last = max(last.Last, r.Last)
				continue
			}
			out = append(out, r)
		}
		return out
	}
	return ranges
}

// collect adds to evs what of r is outstanding and notes the rest as unknown.
func (s *Stream) collect(r idRange, ev event, final bool, evs []event) []event {
	next := r.first
	for i := s.find(r.first); i < len(s.table) && s.table[i].first <= r.last; i++ {
		e := s.table[i]
		asked := e.maskOf(r)
		got := asked & e.mask
		if final {
			s.unknown(idRange{next, e.first - 1})
			s.out.addMask(StatusUnknown, e.first, asked&^got)
		}
		next = min(r.last, e.first+uint64(e.n)-1) + 1
		if got == 0 {
			continue
		}
		if final {
			e.mask &^= got
			e.release(s, got)
			s.pending += bits.OnesCount64(got)
		} else {
			s.extends++
		}
		if ev.kind == evAck && !e.sent.IsZero() {
			s.d.Metrics.AckLatency.observe(s.lastAnswer.Sub(e.sent), bits.OnesCount64(got))
		}
		ev.p, ev.b, ev.stream, ev.first, ev.mask, ev.epoch = e.p, e.b, s, e.first, got, e.epoch
		evs = append(evs, ev)
	}
	if final && next <= r.last {
		s.unknown(idRange{next, r.last})
	}
	return evs
}

// unknown notes that nothing in r is outstanding. s.mu is held.
func (s *Stream) unknown(r idRange) {
	if r.first <= r.last {
		s.out.add(StatusUnknown, r)
	}
}

// sweep drops what is answered from both ends of the table, and from all of it
// when it has doubled since that was done. s.mu is held.
func (s *Stream) sweep() {
	i := 0
	for i < len(s.table) && s.table[i].mask == 0 {
		s.table[i] = nil
		i++
	}
	s.table = s.table[i:]
	for n := len(s.table); n > 0 && s.table[n-1].mask == 0; n-- {
		s.table = s.table[:n-1]
	}
	if len(s.table) >= s.compactAt {
		s.compact()
	}
}

// compact drops what is answered. s.mu is held.
func (s *Stream) compact() {
	kept := make([]*outBatch, 0, len(s.table))
	for _, e := range s.table {
		if e.mask != 0 {
			kept = append(kept, e)
		}
	}
	s.table = kept
	s.compactAt = 2*len(kept) + minCompact
}

// minCompact is the least length at which a table is looked through.
const minCompact = 128

// expired frees the slots of deliveries that timed out; a late ack still finds
// them, up to a bound.
func (s *Stream) expired(first, mask uint64) {
	s.mu.Lock()
	i := s.find(first)
	if i == len(s.table) || s.table[i].first != first {
		s.mu.Unlock()
		return
	}
	e := s.table[i]
	e.release(s, mask&e.mask)
	if len(s.table) >= s.lateCheck {
		s.forgetLate()
	}
	s.noteAnswered()
	starved := s.takeStarved()
	s.mu.Unlock()
	s.wakeAll(starved, nil)
}

// forgetLate drops the oldest of what only waits for late acks, down to
// maxLate batches. s.mu is held.
func (s *Stream) forgetLate() {
	drop := -maxLate
	for _, e := range s.table {
		if e.held == 0 {
			drop++
		}
	}
	for _, e := range s.table {
		if drop > 0 && e.held == 0 {
			drop--
			e.mask = 0
		}
	}
	s.compact()
	s.lateCheck = len(s.table) + maxLate
}

// forget drops what is outstanding of a binding, or of one of its partitions,
// and frees its slots: it was given back. Later answers to it are UNKNOWN.
func (s *Stream) forget(b *binding, p *part) {
	s.mu.Lock()
	for _, e := range s.table {
		if e.b == b && (p == nil || e.p == p) {
			s.d.trace(e.first, e.mask, FateReturned)
			e.release(s, e.held)
			e.mask = 0
		}
	}
	s.compact()
	starved := s.takeStarved()
	s.mu.Unlock()
	s.wakeAll(starved, nil)
}

// tell notes the fate of acks and wakes the writer. counted says that they were
// posted by answer.
func (s *Stream) tell(st AckStatus, first, mask uint64, counted bool) {
	s.mu.Lock()
	s.out.addMask(st, first, mask)
	if counted {
		s.pending -= bits.OnesCount64(mask)
		s.noteAnswered()
	}
	s.mu.Unlock()
	s.signal()
}

// again puts deliveries whose ack could not be stored back among what is
// outstanding, and tells RETRY. held are those that take their slot again.
func (s *Stream) again(b *binding, p *part, epoch, first, mask, held uint64) {
	s.mu.Lock()
	s.pending -= bits.OnesCount64(mask)
	s.out.addMask(StatusRetry, first, mask)
	s.noteAnswered()
	if !b.gone && !s.closed {
		s.restore(b, p, epoch, first, mask, held)
	}
	s.mu.Unlock()
	s.signal()
}

// meanBytes is about what one delivery of the binding takes. What each took is
// forgotten with its ack. s.mu is held.
func (b *binding) meanBytes() int64 { return b.sentB / max(b.sentN, 1) }

// restore puts deliveries into the table again. s.mu is held.
func (s *Stream) restore(b *binding, p *part, epoch, first, mask, held uint64) {
	n := bits.OnesCount64(held)
	bytes := int64(n) * b.meanBytes()
	b.used += n
	s.bytes += bytes
	i := s.find(first)
	if i < len(s.table) && s.table[i].first == first {
		e := s.table[i]
		e.n = max(e.n, bits.Len64(mask))
		e.mask |= mask
		e.held |= held
		e.bytes += bytes
		return
	}
	e := &outBatch{first: first, n: bits.Len64(mask), mask: mask, held: held, bytes: bytes, epoch: epoch, b: b, p: p}
	s.table = append(s.table, nil)
	copy(s.table[i+1:], s.table[i:])
	s.table[i] = e
}

// outdate frees the slots that a part's deliveries hold and drops those that
// were not written yet: they are of an epoch before a reset. Acks of the others
// still find them, to be told STALE.
func (s *Stream) outdate(b *binding, p *part) {
	s.mu.Lock()
	for _, e := range s.table {
		if e.b == b && e.p == p {
			e.release(s, e.held)
		}
	}
	kept := s.queue[:0]
	for _, q := range s.queue {
		if q.run != nil && q.p == p {
			s.queuedB -= len(*q.run)
			s.d.Metrics.QueuedBytes.Add(-int64(len(*q.run)))
			mem.DefaultBufferPool().Put(q.run)
			continue
		}
		kept = append(kept, q)
	}
	clear(s.queue[len(kept):])
	s.queue = kept
	starved := s.takeStarved()
	s.mu.Unlock()
	s.wakeAll(starved, nil)
}

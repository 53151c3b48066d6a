package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/ackmesh/ackmesh/server/delivery"
)

// maxQueued is how many bytes of encoded deliveries wait for a stream's writer
// before its partitions pause: enough to keep a fast client busy, little
// enough that a stalled one costs no memory.
const maxQueued = 512 << 10

// maxLate bounds the timed-out batches a stream remembers for late acks.
const maxLate = 4096

// StreamConfig is what a client asks for in Open, checked and with defaults.
type StreamConfig struct {
	ClientID    string
	Address     string
	Labels      map[string]string
	AckTimeout  time.Duration
	MaxInFlight int   // records of each subscription
	MaxBytes    int64 // frames in flight
	MaxMessage  int   // the largest frame that is sent
}

// Stream is one Subscribe stream: its window, its delivery ids, what is
// outstanding on it and what waits to be written. Partition loops put batches
// in, one writer takes them out; the reader of the stream calls Ack, Nack and
// Extend and never waits for the writer.
type Stream struct {
	id    delivery.StreamID
	d     *Dispatcher
	Since time.Time
	wake  chan struct{} // for the writer
	done  chan struct{} // closed when the writer has ended
	// answered has a signal while the stream ends and no ack is open any more.
	answered chan struct{}
	evicted  chan struct{}

	mu        sync.Mutex
	cfg       StreamConfig
	ids       idBlock
	bindings  map[uint32]*binding
	table     []*outBatch // outstanding, sorted by first
	lateCheck int         // length of the table at which late ones are counted
	bytes     int64       // in flight
	queue     []queued
	queuedB   int
	out       outcomes
	pending   int // acks and nacks that are not answered yet
	posDirty  []*attachment
	posTimer  *time.Timer
	ending    bool // no new deliveries
	closed    bool // the writer ends when everything is written
	closeErr  error
	// inHand: the writer is writing deliveries; onWritten is closed when it
	// has written them.
	inHand    bool
	onWritten []chan struct{}
	isEvicted bool
}

// outBatch is a batch of deliveries that was sent and is not answered.
type outBatch struct {
	first uint64
	n     int
	mask  uint64 // not answered
	held  uint64 // of these, holding a slot of the window
	bytes int64  // of the held ones together
	epoch uint64
	b     *binding
	p     *part
}

// queued is one message, or part of one, for the writer.
type queued struct {
	control []byte // a whole SubscribeResponse, else
	run     *[]byte
	first   uint64
	p       *part
}

// binding is one subscription of a stream.
type binding struct {
	s       *Stream
	id      uint32
	sub     *subscriber
	limit   int // -1: the stream's
	used    int
	paused  bool
	gone    bool
	starved []*part
	topic   *topic
}

// errStreamClosed is why nothing more can be done on a stream.
var errStreamClosed = errors.New("stream is closed")

func (s *Stream) max(b *binding) int {
	if b.limit >= 0 {
		return b.limit
	}
	return s.cfg.MaxInFlight
}

// free is how many records the binding may take now.
func (s *Stream) free(b *binding) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.freeLocked(b)
}

func (s *Stream) freeLocked(b *binding) int {
	if s.ending || b.paused || b.gone || s.queuedB >= maxQueued || s.bytes >= s.cfg.MaxBytes {
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
			addPart(&b.starved, p)
		}
		return 0, 0
	}
	n = min(n, free)
	bytes = min(bytes, s.cfg.MaxBytes-s.bytes)
	b.used += n
	s.bytes += bytes
	return n, bytes
}

// widen takes room for a frame that is larger than what was reserved. A frame
// that no window holds goes when nothing else is in flight.
func (s *Stream) widen(b *binding, p *part, reserved, need int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes-reserved+need > s.cfg.MaxBytes && s.bytes > reserved {
		addPart(&b.starved, p)
		return false
	}
	s.bytes += need - reserved
	return true
}

// issue turns a reservation of slots and bytes into a batch of n deliveries and
// returns its first id; n = 0 gives the reservation back. ok is false when the
// stream has ended meanwhile: the batch is then not to be sent.
func (s *Stream) issue(b *binding, p *part, slots int, room int64, n int, bytes int64, epoch uint64) (first uint64, ok bool) {
	s.mu.Lock()
	b.used -= slots - n
	s.bytes -= room - bytes
	if n == 0 || s.ending || b.gone {
		b.used -= n
		s.bytes -= bytes
		starved := s.takeStarved(b)
		s.mu.Unlock()
		wakeAll(starved, p)
		return 0, false
	}
	first = s.ids.take(n)
	held := ^uint64(0) >> (64 - n)
	s.table = append(s.table, &outBatch{first: first, n: n, mask: held, held: held, bytes: bytes, epoch: epoch, b: b, p: p})
	s.mu.Unlock()
	return first, true
}

// enqueue hands a run to the writer; the buffer goes back to the pool once
// written.
func (s *Stream) enqueue(run *[]byte, p *part, first uint64) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		mem.DefaultBufferPool().Put(run)
		return
	}
	s.queue = append(s.queue, queued{run: run, p: p, first: first})
	s.queuedB += len(*run)
	s.mu.Unlock()
	s.signal()
}

// control queues a whole SubscribeResponse.
func (s *Stream) control(msg []byte) {
	s.mu.Lock()
	if !s.closed {
		s.queue = append(s.queue, queued{control: msg})
	}
	s.mu.Unlock()
	s.signal()
}

func (s *Stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
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

// takeStarved returns the partitions to wake after room was made. s.mu is held.
func (s *Stream) takeStarved(b *binding) []*part {
	if s.ending || s.queuedB >= maxQueued || s.bytes >= s.cfg.MaxBytes {
		return nil
	}
	if b != nil && len(s.bindings) == 1 {
		list := b.starved
		b.starved = nil
		return list
	}
	var list []*part
	for _, b := range s.bindings {
		list = append(list, b.starved...)
		b.starved = nil
	}
	return list
}

func addPart(list *[]*part, p *part) {
	for _, q := range *list {
		if q == p {
			return
		}
	}
	*list = append(*list, p)
}

// wakeAll makes partitions look at their window again, but for self: it is
// looking already.
func wakeAll(list []*part, self *part) {
	for _, p := range list {
		if p != self {
			p.l.post(event{kind: evCredit, p: p})
		}
	}
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
	return s.answer(ranges, event{kind: evExtend, by: by}, false)
}

// answer finds what is outstanding, frees its slots when it is final, and posts
// it to the partitions' loops.
func (s *Stream) answer(ranges []Answered, ev event, final bool) error {
	var evs []event
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errStreamClosed
	}
	var b *binding
	for _, r := range ranges {
		evs = s.collect(idRange{r.First, r.Last}, ev, final, evs)
	}
	if len(evs) > 0 {
		b = evs[0].b
	}
	if final {
		s.sweep()
	}
	if s.out.n > maxOutcomes {
		s.mu.Unlock()
		return fmt.Errorf("more than %d answers wait to be read: read the stream", maxOutcomes)
	}
	starved := s.takeStarved(b)
	told := s.out.n > 0
	s.mu.Unlock()
	for i := range evs {
		evs[i].p.l.post(evs[i])
	}
	wakeAll(starved, nil)
	if told {
		s.signal()
	}
	return nil
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
		}
		ev.p, ev.b, ev.stream, ev.first, ev.mask, ev.epoch = e.p, e.b, s, e.first, got, e.epoch
		evs = append(evs, ev)
	}
	if final && next <= r.last {
		s.unknown(idRange{next, r.last})
	}
	return evs
}

func (s *Stream) unknown(r idRange) {
	if r.first <= r.last {
		s.out.add(StatusUnknown, r)
	}
}

// sweep drops what is answered from both ends of the table, and from all of it
// when much is. s.mu is held.
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
	dead := 0
	for k := 0; k < len(s.table) && k < 256; k++ {
		if s.table[k].mask == 0 {
			dead++
		}
	}
	if dead > 128 {
		s.compact()
	}
}

func (s *Stream) compact() {
	kept := make([]*outBatch, 0, len(s.table))
	for _, e := range s.table {
		if e.mask != 0 {
			kept = append(kept, e)
		}
	}
	s.table = kept
}

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
	starved := s.takeStarved(e.b)
	s.mu.Unlock()
	wakeAll(starved, nil)
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
			e.release(s, e.held)
			e.mask = 0
		}
	}
	s.compact()
	starved := s.takeStarved(nil)
	s.mu.Unlock()
	wakeAll(starved, nil)
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
// outstanding, and tells RETRY.
func (s *Stream) again(b *binding, p *part, epoch, first, mask uint64) {
	s.mu.Lock()
	s.pending -= bits.OnesCount64(mask)
	s.out.addMask(StatusRetry, first, mask)
	s.noteAnswered()
	if !b.gone && !s.closed {
		s.restore(b, p, epoch, first, mask)
	}
	s.mu.Unlock()
	s.signal()
}

func (s *Stream) restore(b *binding, p *part, epoch, first, mask uint64) {
	n := bits.OnesCount64(mask)
	b.used += n
	i := s.find(first)
	if i < len(s.table) && s.table[i].first == first {
		s.table[i].mask |= mask
		s.table[i].held |= mask
		return
	}
	e := &outBatch{first: first, n: bits.Len64(mask), mask: mask, held: mask, epoch: epoch, b: b, p: p}
	s.table = append(s.table, nil)
	copy(s.table[i+1:], s.table[i:])
	s.table[i] = e
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
	starved := s.takeStarved(nil)
	s.mu.Unlock()
	wakeAll(starved, nil)
}

// stop ends new deliveries.
func (s *Stream) stop() {
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
}

// finish makes the writer end once everything is written; err is what the
// stream ends with. The first call counts.
func (s *Stream) finish(err error) {
	s.mu.Lock()
	s.ending = true
	if !s.closed {
		s.closed, s.closeErr = true, err
	}
	s.mu.Unlock()
	s.signal()
}

// Err is what the stream ended with.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closeErr
}

// InFlight is what is outstanding, in records and bytes.
func (s *Stream) InFlight() (records int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.bindings {
		records += b.used
	}
	return records, s.bytes
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
			mem.DefaultBufferPool().Put(q.run)
			continue
		}
		kept = append(kept, q)
	}
	clear(s.queue[len(kept):])
	s.queue = kept
	starved := s.takeStarved(nil)
	s.mu.Unlock()
	wakeAll(starved, nil)
}

func (s *Stream) binding(id uint32) *binding {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bindings[id]
}

func (s *Stream) bindingCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.bindings)
}

func (s *Stream) allBindings() []*binding {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*binding, 0, len(s.bindings))
	for _, b := range s.bindings {
		list = append(list, b)
	}
	return list
}

// Control queues a whole encoded SubscribeResponse behind what is queued.
func (s *Stream) Control(msg []byte) { s.control(msg) }

// Done is closed when Write has returned.
func (s *Stream) Done() <-chan struct{} { return s.done }

// Config is what the stream was opened with, and changes since.
func (s *Stream) Config() StreamConfig {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg
}

func (s *Stream) notice(kind NoticeKind, detail string, sub uint32, pos ...position) {
	if s.d.cfg.EncodeNotice == nil {
		return
	}
	n := Notice{Kind: kind, Detail: detail, Subscription: sub}
	for _, p := range pos {
		n.Positions = append(n.Positions, p.export())
	}
	s.control(s.d.cfg.EncodeNotice(n))
}

// awaitAnswers waits until every ack is answered, at most for grace.
func (s *Stream) awaitAnswers(grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	s.await(ctx, func() bool { return s.pending <= 0 })
}

// awaitQuiet waits until nothing is in flight and every ack is answered.
func (s *Stream) awaitQuiet(ctx context.Context) {
	s.await(ctx, func() bool {
		if s.pending > 0 {
			return false
		}
		for _, b := range s.bindings {
			if b.used > 0 {
				return false
			}
		}
		return true
	})
}

// await waits until cond, which is called under the stream's lock, holds, the
// stream's writer has ended, or ctx is done.
func (s *Stream) await(ctx context.Context, cond func() bool) {
	for {
		s.mu.Lock()
		ok := cond()
		s.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-s.answered:
		case <-s.done:
			return
		case <-ctx.Done():
			return
		}
	}
}

// noteAnswered wakes who awaits the end. s.mu is held.
func (s *Stream) noteAnswered() {
	if s.ending && s.pending <= 0 {
		select {
		case s.answered <- struct{}{}:
		default:
		}
	}
}

// Evicted is closed when the stream is ended without waiting for its writer.
func (s *Stream) Evicted() <-chan struct{} { return s.evicted }

// EndedHere tells whether the server ended the stream, not the client.
func (s *Stream) EndedHere() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

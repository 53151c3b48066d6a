package dispatch

import (
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// maxMessage is how many bytes of deliveries one message carries: large enough
// that its cost is shared, small enough that it fits a buffer of 128 KiB at the
// receiver. Two batches are.
const maxMessage = 124 << 10

// messageHead is more than a message has beside its runs and their heads.
const messageHead = 64

// positionInterval is the least time between two positions of one partition on
// one stream.
const positionInterval = time.Second

// Sink takes the messages of a stream, one at a time. Send blocks while the
// client does not read; it owns the buffers of msg from then on.
type Sink interface {
	Send(msg mem.BufferSlice) error
}

// The states of a stream's writer.
const (
	writerIdle  = iota // no goroutine
	writerBusy         // there is one
	writerAgain        // there is one, and it looks for work once more
)

// Start makes the stream write what is queued on it to sink, until it is
// finished or a Send fails. ended is then called once, with what the stream
// ended with: nothing is written any more. One goroutine writes, and only while
// there is something to write, for most streams are idle most of the time.
func (s *Stream) Start(sink Sink, ended func(error)) {
	s.sink, s.ended = sink, ended
	go s.write()
}

// write is the writer's goroutine.
func (s *Stream) write() {
	for {
		s.writer.Store(writerBusy)
		if ended, err := s.writeAll(); ended {
			close(s.done)
			s.ended(err)
			return // it stays busy: no other begins
		}
		if s.writer.CompareAndSwap(writerBusy, writerIdle) {
			return
		}
	}
}

// writeAll writes all there is; ended tells that nothing will follow.
func (s *Stream) writeAll() (ended bool, err error) {
	for {
		more, ended := s.takeWork(&s.work)
		err := s.work.send(s, s.sink)
		s.d.Metrics.inHand.Add(-int64(s.work.taken))
		s.written()
		switch {
		case err != nil:
			s.fail(err)
			s.drop()
			return true, err
		case ended && !more:
			return true, s.Err()
		case !more:
			return false, nil
		}
	}
}

// writeWork is what the writer does in one go, outside of the lock.
type writeWork struct {
	result []byte // body of an AckResult
	items  []queued
	taken  int // bytes of runs in items
	lens   []int
}

// takeWork moves what is to be written now into w. more: there is more, or
// there was something; ended: the stream is finished.
func (s *Stream) takeWork(w *writeWork) (more, ended bool) {
	s.mu.Lock()
	w.items = append(w.items[:0], s.nextItems()...)
	k := len(w.items)
	clear(s.queue[:k])
	s.queue = s.queue[k:]
	if len(s.queue) == 0 {
		s.queue = nil
	}
	taken := 0
	for _, q := range w.items {
		if q.run != nil {
			taken += len(*q.run)
			continue
		}
		s.controls--
		s.controlB -= len(q.control)
	}
	s.queuedB -= taken
	s.d.Metrics.QueuedBytes.Add(-int64(taken))
	s.d.Metrics.inHand.Add(int64(taken))
	w.taken = taken
	w.result = w.result[:0]
	if k == 0 || s.queueHeadIsRun(w) {
		w.result = s.takeResult(w.result)
	}
	var starved []*part
	if taken > 0 {
		starved = s.takeStarved()
	}
	ended = s.closed
	more = k > 0 || len(w.result) > 0
	if s.inHand = k > 0 && w.items[0].run != nil; s.inHand {
		s.handSince = time.Now()
	}
	s.mu.Unlock()
	s.wakeAll(starved, nil)
	return more, ended
}

// written says that what takeWork took is written.
func (s *Stream) written() {
	s.mu.Lock()
	s.inHand = false
	for _, ch := range s.onWritten {
		close(ch)
	}
	s.onWritten = nil
	s.mu.Unlock()
}

// queueHeadIsRun tells whether acks may be told before the taken items: Opened
// comes before anything else.
func (s *Stream) queueHeadIsRun(w *writeWork) bool { return w.items[0].run != nil }

// nextItems is one control message, or as many runs as one message carries.
func (s *Stream) nextItems() []queued {
	bytes, most := 0, min(s.d.whileShort(maxMessage), s.cfg.MaxMessage-messageHead)
	for i, q := range s.queue {
		if q.control != nil {
			return s.queue[:max(i, 1)]
		}
		n := 1 + protowire.SizeVarint(uint64(len(*q.run))) + len(*q.run)
		if i > 0 && bytes+n > most {
			return s.queue[:i]
		}
		bytes += n
	}
	return s.queue
}

// takeResult appends the body of the AckResult that is due, if any: as much of it as
// the client takes in one message. s.mu is held.
func (s *Stream) takeResult(b []byte) []byte {
	if s.out.n > 0 {
		b = s.out.take(b, (s.cfg.MaxMessage-messageHead)/rangeMax)
	}
	if len(s.posDirty) > 0 {
		b = s.takePositions(b, time.Now())
	}
	return b
}

// takePositions appends the positions that are due and arms the timer for the
// rest.
func (s *Stream) takePositions(b []byte, now time.Time) []byte {
	kept := s.posDirty[:0]
	ranges, full := 0, false
	wait := positionInterval
	most := s.cfg.MaxMessage - messageHead
	for _, a := range s.posDirty {
		due := a.posTold.Add(positionInterval)
		later := full || !s.closed && (now.Before(due) || ranges > maxAheadRanges)
		var body []byte
		if !later {
			body = appendPosition(nil, a.pos, max(0, most-positionLen(a.pos))/rangeMax)
			full = len(b) > 0 && len(b)+len(body) > most
		}
		if later || full {
			wait = min(wait, max(due.Sub(now), time.Millisecond))
			kept = append(kept, a)
			continue
		}
		a.posTold, a.posQueued = now, false
		ranges += min(len(a.pos.ahead), maxAheadRanges)
		b = protowire.AppendBytes(append(b, tagResultPositions), body)
	}
	s.posDirty = kept
	if len(kept) > 0 && s.posTimer == nil && !s.closed {
		s.posTimer = time.AfterFunc(wait, s.positionsDue)
	}
	return b
}

func (s *Stream) positionsDue() {
	s.mu.Lock()
	s.posTimer = nil
	s.mu.Unlock()
	s.signal()
}

// notePosition remembers a position that changed, to be told when due.
func (s *Stream) notePosition(a *attachment, pos position) {
	s.mu.Lock()
	a.pos = pos
	first := !a.posQueued && !s.closed
	if first {
		a.posQueued = true
		s.posDirty = append(s.posDirty, a)
	}
	s.mu.Unlock()
	if first {
		s.signal()
	}
}

// send writes the work: the AckResult first, then the items.
func (w *writeWork) send(s *Stream, sink Sink) error {
	if len(w.result) > 0 {
		msg := append(appendVarintHead(s.cfg.Form.ackResult(), len(w.result)), w.result...)
		if err := sink.Send(mem.BufferSlice{mem.SliceBuffer(msg)}); err != nil {
			w.free()
			return err
		}
	}
	if len(w.items) == 0 {
		return nil
	}
	if c := w.items[0].control; c != nil {
		return sink.Send(mem.BufferSlice{mem.SliceBuffer(c)})
	}
	return w.sendRuns(s, sink)
}

func (w *writeWork) sendRuns(s *Stream, sink Sink) error {
	w.lens = w.lens[:0]
	for _, q := range w.items {
		w.lens = append(w.lens, len(*q.run))
	}
	heads := make([]byte, 0, 16+8*len(w.items))
	heads = appendDeliveriesHead(heads, s.cfg.Form.deliveries(), w.lens)
	msg := make(mem.BufferSlice, 0, 2*len(w.items))
	begin := 0
	for i, q := range w.items {
		heads = appendRunLen(heads, w.lens[i])
		msg = append(msg, mem.SliceBuffer(heads[begin:len(heads):len(heads)]), mem.NewBuffer(q.run, mem.DefaultBufferPool()))
		begin = len(heads)
	}
	if err := sink.Send(msg); err != nil {
		return err
	}
	for _, q := range w.items {
		q.p.l.post(event{kind: evHanded, p: q.p, stream: s, first: q.first})
	}
	return nil
}

// free gives the buffers of what was taken and not sent back.
func (w *writeWork) free() {
	for _, q := range w.items {
		if q.run != nil {
			mem.DefaultBufferPool().Put(q.run)
		}
	}
}

// drop frees what is queued after the stream broke.
func (s *Stream) drop() {
	s.mu.Lock()
	w := writeWork{items: s.queue}
	s.d.Metrics.QueuedBytes.Add(-int64(s.queuedB))
	s.queue, s.queuedB = nil, 0
	if s.posTimer != nil {
		s.posTimer.Stop()
		s.posTimer = nil
	}
	s.mu.Unlock()
	w.free()
}

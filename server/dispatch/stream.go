package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackmesh/ackmesh/server/delivery"
)

// StreamConfig is what a client asks for in Open, checked and with defaults.
type StreamConfig struct {
	ClientID    string
	Address     string
	Labels      map[string]string
	AckTimeout  time.Duration
	MaxInFlight int   // records of each subscription
	MaxBytes    int64 // frames in flight
	MaxMessage  int   // the largest frame that is sent
	Form        *Form // of what is sent; nil: SubscribeResponse
}

// Form is how the messages of a stream are written, where they are not those of
// Subscribe. What is in them is the same.
type Form struct {
	// Deliveries and AckResult are the tags of the response's fields that hold
	// these.
	Deliveries, AckResult byte
	// Notice writes a whole response with a Notice; nil: none is told.
	Notice func(Notice) []byte
}

func (f *Form) deliveries() byte {
	if f == nil {
		return tagResponseDeliveries
	}
	return f.Deliveries
}

func (f *Form) ackResult() byte {
	if f == nil {
		return tagResponseAckResult
	}
	return f.AckResult
}

// Stream is one Subscribe stream: its window, its delivery ids, what is
// outstanding on it and what waits to be written. Partition loops put batches
// in, one writer takes them out; the reader of the stream calls Ack, Nack and
// Extend and never waits for the writer.
type Stream struct {
	id    delivery.StreamID
	d     *Dispatcher
	Since time.Time
	done  chan struct{} // closed when the writer has ended
	// writer is one of the writer states. sink, ended and work are the writer's.
	writer atomic.Int32
	sink   Sink
	ended  func(error)
	work   writeWork
	// answered has a signal while the stream ends and no ack is open any more.
	answered chan struct{}
	evicted  chan struct{}

	mu        sync.Mutex
	cfg       StreamConfig
	ids       idBlock
	bindings  map[uint32]*binding
	starving  []*binding  // those with parts that wait for room
	table     []*outBatch // outstanding, sorted by first
	lateCheck int         // length of the table at which late ones are counted
	compactAt int         // length of the table at which answered ones are dropped
	bytes     int64       // in flight
	queue     []queued
	queuedB   int // bytes of runs in queue
	controls  int // messages in queue that are none
	controlB  int // their bytes
	out       outcomes
	pending   int // acks and nacks that are not answered yet
	posDirty  []*attachment
	posTimer  *time.Timer
	ending    bool // no new deliveries
	closed    bool // the writer ends when everything is written
	broke     bool // closed because the writer failed
	closeErr  error
	// inHand: the writer is writing deliveries; onWritten is closed when it
	// has written them.
	inHand    bool
	handSince time.Time
	// lastAnswer is when the client last acked, nacked or extended.
	lastAnswer time.Time
	extends    int           // extensions that the loops have not taken up yet
	extended   chan struct{} // has a signal when there are fewer
	onWritten  []chan struct{}
	isEvicted  bool
	opened     bool // Opened is queued: notices may be
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
	share   int // into how many parts the window is divided: one a partition
	used    int
	sentN   int64 // deliveries sent, and
	sentB   int64 // their bytes
	paused  bool
	pacing  *time.Timer // set while a rate limit holds it back
	paced   []*part     // to be woken then
	gone    bool
	starved []waiting
	topic   *topic
	feed    *loop // of a log that hands records out
	lite    *loop // of a lite topic
	// Guarded by topic.mu: whether delivery has begun, and until then the
	// partitions that the topic has got since the positions were durable.
	active bool
	later  []*loop
}

// waiting is a partition that waits for room in the window: any, or so many bytes.
type waiting struct {
	p    *part
	need int64
}

// errStreamClosed is why nothing more can be done on a stream.
var errStreamClosed = errors.New("stream is closed")

// ErrUnread ends a stream whose client asks, or is told, and does not read.
var ErrUnread = errors.New("answers wait to be read")

// Bounds of what waits for a stream's writer besides deliveries. One message
// alone may be larger.
const (
	maxControls     = 10_000
	maxControlBytes = 8 << 20
)

// control queues a whole SubscribeResponse. If too many wait already the stream
// is ended: ErrUnread.
func (s *Stream) control(msg []byte) error {
	s.mu.Lock()
	s.opened = true
	n, bytes := s.controls, s.controlB
	full := n >= maxControls || n > 0 && bytes+len(msg) > maxControlBytes
	if !s.closed && !full {
		s.queue = append(s.queue, queued{control: msg})
		s.controls++
		s.controlB += len(msg)
	}
	s.mu.Unlock()
	if full {
		return s.unread(fmt.Sprintf("%d messages, %d bytes", n, bytes))
	}
	s.signal()
	return nil
}

// unread ends a stream whose client does not read, and returns why.
func (s *Stream) unread(what string) error {
	err := fmt.Errorf("%w: %s", ErrUnread, what)
	s.abort(err)
	return err
}

// abort ends a stream without waiting for its writer.
func (s *Stream) abort(err error) {
	s.finish(err)
	s.mu.Lock()
	if !s.isEvicted {
		s.isEvicted = true
		close(s.evicted)
	}
	s.mu.Unlock()
}

// signal makes the writer look for work, after the work is queued.
func (s *Stream) signal() {
	for {
		switch now := s.writer.Load(); {
		case now == writerAgain:
			return
		case now == writerIdle && s.writer.CompareAndSwap(now, writerBusy):
			go s.write()
			return
		case now == writerBusy && s.writer.CompareAndSwap(now, writerAgain):
			return
		}
	}
}

// stop ends new deliveries. It tells whether they went on.
func (s *Stream) stop() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	went := !s.ending
	s.ending = true
	return went
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

// fail ends a stream whose writer cannot write any more.
func (s *Stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	if !s.closed {
		s.closed, s.broke, s.closeErr = true, true, err
	}
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

// Control queues a whole encoded SubscribeResponse behind what is queued; Opened
// is the first. When the client does not read what was queued before the stream
// ends: ErrUnread.
func (s *Stream) Control(msg []byte) error { return s.control(msg) }

// Subscriptions is how many the stream has.
func (s *Stream) Subscriptions() int { return s.bindingCount() }

// Done is closed when Write has returned.
func (s *Stream) Done() <-chan struct{} { return s.done }

// Config is what the stream was opened with, and changes since.
func (s *Stream) Config() StreamConfig {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg
}

// notice tells the client something, behind what is queued.
func (s *Stream) notice(kind NoticeKind, detail string, sub uint32, pos ...position) {
	n := Notice{Kind: kind, Detail: detail, Subscription: sub}
	for _, p := range pos {
		n.Positions = append(n.Positions, p.export())
	}
	s.give(n)
}

// give queues a notice. What happens to a stream before it is opened shows in how
// it ends.
func (s *Stream) give(n Notice) {
	s.mu.Lock()
	opened := s.opened
	s.mu.Unlock()
	if !opened {
		return
	}
	encode := s.d.cfg.EncodeNotice
	if s.cfg.Form != nil {
		encode = s.cfg.Form.Notice
	}
	if encode != nil {
		_ = s.control(encode(n)) // a client that does not read is gone then
	}
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

// EndedHere tells whether the server ended the stream, not the client and not a
// connection that broke.
func (s *Stream) EndedHere() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed && !s.broke
}

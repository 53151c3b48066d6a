package ackmesh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ackmesh/ackmesh/clients/go/internal/ledger"
	"github.com/ackmesh/ackmesh/clients/go/internal/wire"
	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// session is one gRPC stream of a Stream: a reader, which is the Stream's run, and
// a writer. Delivery ids are good on it alone, so acks are bound to it: when it has
// ended they go nowhere.
type session struct {
	s      *Stream
	stream grpc.ClientStream
	cancel context.CancelCauseFunc
	wake   chan struct{} // has a token when the writer may have something to do
	writer sync.WaitGroup

	ended   atomic.Bool
	pending atomic.Int64 // acks that the writer has not collected

	// asked is the Open that was sent.
	asked *pb.Open
	// Told by Opened, constant from then on.
	instance   string
	ackTimeout time.Duration

	// Of the reader alone.
	parts map[partKey]run
	runs  []wire.Run

	// Under s.mu.
	ledger   ledger.Ledger
	dirty    []*ledger.Entry        // with acks to collect
	nacks    []nackItem             // to be sent
	again    []nackItem             // answered with RETRY, to be sent again at retryAt
	nackWhy  map[uint64]nackInfo    // sent, not answered
	outbox   []*pb.SubscribeRequest // to be sent before anything else
	changes  map[uint64]chan *pb.Changed
	waits    map[uint64][]*ackWait
	retries  backoff
	retryAt  time.Time   // when acks answered with RETRY are sent again
	resting  bool        // no deadlines are watched, as nothing is held
	leaving  bool        // ends once what is held is finished
	finishBy time.Time   // and then in any case
	cutAt    *time.Timer // ends it although the server takes nothing more; nil: not leaving
	over     bool        // half-closed by us
	goTo     *hint       // where to go next, if told
	shunned  bool        // the instance wants to be left
}

// partKey names a run's partition within a session.
type partKey struct {
	sub       uint32
	partition string
}

// nackItem is a delivery to be nacked.
type nackItem struct {
	id   uint64
	info nackInfo
}

// forever is longer than anyone waits.
const forever = 365 * 24 * time.Hour

// recv receives one message. Its buffer is the caller's to free.
func (ss *session) recv() (mem.Buffer, error) {
	var m inMsg
	if err := ss.stream.RecvMsg(&m); err != nil {
		return nil, err
	}
	return m.buf, nil
}

// read takes messages until the stream ends, and returns how: io.EOF in order.
func (ss *session) read() error {
	for {
		buf, err := ss.recv()
		if err != nil {
			return err
		}
		if err := ss.take(buf); err != nil {
			return err
		}
	}
}

// take takes one message, and its buffer.
func (ss *session) take(buf mem.Buffer) error {
	if body, ok := wire.Body(buf.ReadOnlyData()); ok {
		return ss.deliver(buf, body)
	}
	defer buf.Free()
	var m pb.SubscribeResponse
	if err := proto.Unmarshal(buf.ReadOnlyData(), &m); err != nil {
		return protocolError("%v", err)
	}
	switch k := m.Kind.(type) {
	case *pb.SubscribeResponse_AckResult:
		return ss.results(k.AckResult)
	case *pb.SubscribeResponse_Notice:
		ss.notice(k.Notice)
	case *pb.SubscribeResponse_Changed:
		ss.changed(k.Changed)
	case *pb.SubscribeResponse_Deliveries:
		return ss.deliverPlain(&m)
	case *pb.SubscribeResponse_Opened:
		return protocolError("a second Opened")
	}
	return nil // of a kind that is newer than this client
}

// protocolError says that the server sent what no server sends.
func protocolError(format string, args ...any) error {
	return status.Error(codes.Internal, "ackmesh: protocol: "+fmt.Sprintf(format, args...))
}

// deliverPlain delivers a message in a form that encoders do not usually write: it
// is written again in the usual one.
func (ss *session) deliverPlain(m *pb.SubscribeResponse) error {
	b, err := proto.Marshal(&pb.SubscribeResponse{Kind: m.Kind}) // without what is newer than this client
	if err != nil {
		return protocolError("%v", err)
	}
	buf := mem.SliceBuffer(b)
	body, ok := wire.Body(buf)
	if !ok {
		return protocolError("deliveries beside something else")
	}
	return ss.deliver(buf, body)
}

// deliver makes a Batch of a message and queues it. buf is the batch's from then
// on.
func (ss *session) deliver(buf mem.Buffer, body []byte) error {
	b, err := ss.batch(buf, body)
	if err != nil {
		buf.Free()
		return protocolError("%v", err)
	}
	if b == nil {
		buf.Free()
		return nil
	}
	n := b.Len()
	b.refs.Store(int32(n))
	ss.s.mu.Lock()
	for _, e := range b.entries {
		err = errors.Join(err, ss.ledger.Add(e))
	}
	ss.s.stats.Received += int64(n)
	if ss.resting {
		ss.resting = false
		ss.signal()
	}
	ss.s.mu.Unlock()
	if err != nil {
		return protocolError("%v", err)
	}
	if !ss.s.queue.put(b) {
		from, to := b.claimRest()
		ss.s.dropAll([]rest{{b, from, to}})
	}
	return nil
}

// batch reads a message of deliveries; nil if there are none.
func (ss *session) batch(buf mem.Buffer, body []byte) (*Batch, error) {
	var err error
	if ss.runs, err = wire.AppendRuns(ss.runs[:0], body); err != nil {
		return nil, err
	}
	n := 0
	for i := range ss.runs {
		n += ss.runs[i].Count
	}
	if n == 0 {
		return nil, nil
	}
	b := batches.Get().(*Batch)
	b.sess, b.buf = ss, buf
	b.next.Store(0)
	now := time.Now()
	for i := range ss.runs {
		if err := ss.fill(b, &ss.runs[i], now); err != nil {
			return nil, err
		}
	}
	if len(b.ds) == 0 {
		return nil, nil
	}
	return b, nil
}

// fill adds a run to a batch. Runs of a subscription that is no more are left out:
// the server has taken their records back.
func (ss *session) fill(b *Batch, r *wire.Run, now time.Time) error {
	shared, ok := ss.part(r)
	if !ok {
		return nil
	}
	shared.epoch = r.Epoch
	var e *ledger.Entry
	for left := r.Count; ; left-- {
		b.ds = append(b.ds, Delivery{run: shared, sess: ss})
		d := &b.ds[len(b.ds)-1]
		more, err := r.Next(&d.item)
		if err != nil {
			return err
		}
		if !more {
			b.ds = b.ds[:len(b.ds)-1]
			return nil
		}
		if e == nil || !e.Append(d.item.ID, d.item.Offset) {
			e = ledger.New(shared.part, r.Epoch, now, left-1, d.item.ID, d.item.Offset)
			b.entries = append(b.entries, e)
		}
		d.entry, d.index = e, e.Len()-1
	}
}

// part finds what a run's deliveries share.
func (ss *session) part(r *wire.Run) (run, bool) {
	if shared, ok := ss.parts[partKey{r.Subscription, string(r.Partition)}]; ok {
		return shared, !shared.sub.gone.Load()
	}
	ss.s.mu.Lock()
	defer ss.s.mu.Unlock()
	sub := ss.s.subs[r.Subscription]
	if sub == nil {
		return run{}, false
	}
	name := string(r.Partition)
	shared := run{sub: sub, part: ss.s.table.Partition(sub.Topic, ss.s.subscriber(sub), name)}
	ss.parts[partKey{sub.id, name}] = shared
	return shared, true
}

// acked has the acks of an entry collected: n of them are new.
func (ss *session) acked(e *ledger.Entry, n int) {
	if n == 0 {
		return
	}
	if e.Enqueue() {
		ss.s.mu.Lock()
		ss.dirty = append(ss.dirty, e)
		ss.s.mu.Unlock()
	}
	ss.count(n)
}

// ackedLocked is acked under s.mu.
func (ss *session) ackedLocked(e *ledger.Entry, n int) {
	if e.Enqueue() {
		ss.dirty = append(ss.dirty, e)
	}
	ss.count(n)
}

// count counts acks to be collected, and wakes the writer for the first one and
// when there are enough for a message.
func (ss *session) count(n int) {
	now := ss.pending.Add(int64(n))
	batch := int64(ss.s.cfg.AckBatch)
	if now == int64(n) || now >= batch && now-int64(n) < batch {
		ss.signal()
	}
}

// nack settles a delivery as nacked, and has it sent.
func (ss *session) nack(e *ledger.Entry, i int, info nackInfo) bool {
	ss.s.mu.Lock()
	defer ss.s.mu.Unlock()
	if ss.ended.Load() || !ss.ledger.Nack(e, i) {
		return false
	}
	ss.nacks = append(ss.nacks, nackItem{e.ID(i), info})
	ss.s.stats.Nacked++
	ss.signal()
	return true
}

// signal tells the writer that it may have something to do.
func (ss *session) signal() {
	select {
	case ss.wake <- struct{}{}:
	default:
	}
}

// unconfirmed lists the deliveries whose ack was not answered. The caller holds
// s.mu.
func (ss *session) unconfirmed() []Ref {
	var refs []Ref
	ss.ledger.Unconfirmed(func(e *ledger.Entry, from, to int) { refs = appendRefs(refs, e, from, to) })
	return refs
}

func appendRefs(refs []Ref, e *ledger.Entry, from, to int) []Ref {
	for i := from; i < to; i++ {
		refs = append(refs, refOf(e, i))
	}
	return refs
}

func refOf(e *ledger.Entry, i int) Ref {
	return Ref{Topic: e.Part().Topic(), Partition: e.Part().Name(), Offset: e.Offset(i), DeliveryID: e.ID(i)}
}

// held counts the deliveries whose fate is not decided. The caller holds s.mu.
func (ss *session) held() int {
	n := 0
	ss.ledger.Held(func(_ *ledger.Entry, from, to int) { n += to - from })
	return n
}

// leave ends the session once what is held is finished, or patience is over. It does
// not rely on the writer, which is held up while the server reads nothing. The caller
// holds s.mu.
func (ss *session) leave(patience time.Duration) {
	by := time.Now().Add(patience)
	if !ss.leaving || by.Before(ss.finishBy) {
		ss.finishBy = by
		ss.stopCut()
		ss.cutAt = time.AfterFunc(patience+confirmFor+drainFor, func() { ss.cancel(errDrain) })
	}
	ss.leaving = true
	ss.signal()
}

// stopCut is for a session that has ended. The caller holds s.mu.
func (ss *session) stopCut() {
	if ss.cutAt != nil {
		ss.cutAt.Stop()
	}
}

// pauseAll asks the server for nothing new. The caller holds s.mu.
func (ss *session) pauseAll() {
	ch := &pb.Change{}
	for id := range ss.s.subs {
		ch.Pause = append(ch.Pause, id)
	}
	ss.sendChange(ch)
}

// end ends the session: nothing of it can be acked from now on.
func (ss *session) end(cause error) {
	ss.ended.Store(true)
	ss.cancel(cause)
	ss.writer.Wait()
}

// endedInOrder reports whether a stream's end was an orderly one.
func endedInOrder(err error) bool { return errors.Is(err, io.EOF) }

package ackmesh

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

func (s *Stream) log() *slog.Logger { return s.c.cfg.Logger }

// run opens one session after another, and reads them, until the Stream is closed
// or fails for good.
func (s *Stream) run() {
	defer s.c.leave()
	defer close(s.done)
	defer s.cutLife()
	seek := s.c.newSeeker(s.subscriptions)
	pauses := backoff{min: s.c.cfg.BackoffMin, max: s.c.cfg.BackoffMax}
	stopClose := context.AfterFunc(s.c.closing, s.beginClose)
	defer stopClose()
	for {
		begun := time.Now()
		err := s.once(seek)
		if s.ends(err) {
			break
		}
		if time.Since(begun) >= steady {
			pauses.reset()
		}
		d := max(pauses.next(), retryDelay(err))
		s.log().Warn("ackmesh: stream ended; reconnecting", slog.Any("reason", err), slog.Duration("pause", d))
		if !pause(s.life, d) && s.ends(s.life.Err()) {
			break
		}
	}
	s.stopTaking()
}

// ends decides whether the Stream is over after a session ended with err, and sets
// the Stream's own error.
func (s *Stream) ends(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.final != nil:
		s.err = s.final
	case s.closing || s.life.Err() != nil:
		if s.err == nil && s.c.closing.Err() != nil {
			s.err = ErrClosed
		}
	case IsPermanent(err):
		s.err = err
	default:
		return false
	}
	return true
}

// once opens a session and reads it to its end.
func (s *Stream) once(seek *seeker) error {
	place, err := seek.find(s.life)
	if err != nil {
		return err
	}
	defer place.release()
	ctx, cancel := context.WithCancelCause(s.life)
	defer cancel(nil)
	ss := s.newSession(cancel)
	if err := ss.open(ctx, place); err != nil {
		seek.unreachable(place)
		s.mu.Lock()
		s.endFor(err)
		s.mu.Unlock()
		return s.openError(place, context.Cause(ctx), err)
	}
	seek.reached(ss.instance)
	ss.writer.Add(1)
	go ss.write(ctx)
	err = ss.read()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	ss.end(err)
	s.lose(ss, seek, err)
	if endedInOrder(err) {
		return status.Error(codes.Unavailable, "the server ended the stream")
	}
	return fmt.Errorf("ackmesh: stream at %s: %w", place.address, err)
}

func (s *Stream) openError(at place, cause, err error) error {
	if cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	if e := (*SubscriptionError)(nil); errors.As(err, &e) {
		return err
	}
	return fmt.Errorf("ackmesh: open stream at %s: %w", at.address, err)
}

func (s *Stream) newSession(cancel context.CancelCauseFunc) *session {
	return &session{
		s: s, cancel: cancel, wake: make(chan struct{}, 1),
		parts:   make(map[partKey]run),
		nackWhy: make(map[uint64]nackInfo),
		changes: make(map[uint64]chan *pb.Changed),
		waits:   make(map[uint64][]*ackWait),
		retries: backoff{min: retryMin, max: retryMax},
	}
}

// open opens the gRPC stream and waits for Opened.
func (ss *session) open(ctx context.Context, at place) error {
	timeout := ss.s.c.cfg.OpenTimeout
	t := time.AfterFunc(timeout, func() {
		ss.cancel(status.Errorf(codes.DeadlineExceeded, "not opened within %v", timeout))
	})
	defer t.Stop()
	stream, err := at.NewStream(ctx, &pb.EventMesh_ServiceDesc.Streams[1], pb.EventMesh_Subscribe_FullMethodName,
		grpc.ForceCodecV2(rawCodec{pool}))
	if err != nil {
		return err
	}
	ss.stream = stream
	ss.asked = ss.s.openRequest()
	req := &pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Open{Open: ss.asked}}
	if err := stream.SendMsg(req); err != nil && !endedInOrder(err) {
		return err
	}
	opened, err := ss.recvOpened()
	if err != nil {
		return err
	}
	return ss.s.begin(ss, opened, at)
}

func (ss *session) recvOpened() (*pb.Opened, error) {
	buf, err := ss.recv()
	if err != nil {
		if endedInOrder(err) {
			err = status.Error(codes.Unavailable, "the server ended the stream")
		}
		return nil, err
	}
	defer buf.Free()
	var m pb.SubscribeResponse
	if err := proto.Unmarshal(buf.ReadOnlyData(), &m); err != nil {
		return nil, protocolError("%v", err)
	}
	if m.GetOpened() == nil {
		return nil, protocolError("the first message is not Opened")
	}
	return m.GetOpened(), nil
}

// openRequest is the first message of a session.
func (s *Stream) openRequest() *pb.Open {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &pb.Open{
		ClientId: s.c.cfg.ClientID, Subscriptions: s.subscriptionsLocked(),
		Reconnect: s.wasOpen, MaxMessageBytes: int32(s.c.cfg.MaxMessageBytes), Labels: s.cfg.Labels,
	}
	w := window(s.cfg.MaxInFlight, s.cfg.MaxInFlightBytes)
	o.MaxInFlight, o.MaxInFlightBytes = w.MaxInFlight, w.MaxInFlightBytes
	if s.cfg.AckTimeout > 0 {
		o.AckTimeout = durationpb.New(s.cfg.AckTimeout)
	}
	o.Resume = s.resume()
	return o
}

// maxResumeRanges bounds the finished ranges in one Open, about 1 MiB of them, and
// maxResumeBytes the positions with them: servers take 100,000 positions and 8 MiB.
// What is left out costs repeats on an instance that does not know better.
const (
	maxResumeRanges = 50_000
	maxResumeBytes  = 3 << 20
)

// resume lists the known positions. The caller holds s.mu.
func (s *Stream) resume() []*pb.Position {
	known := s.table.Positions()
	out := make([]*pb.Position, 0, len(known))
	ranges, bytes := maxResumeRanges, maxResumeBytes
	for i := range known {
		p := &known[i]
		p.Ahead = p.Ahead[:min(len(p.Ahead), ranges)]
		ranges -= len(p.Ahead)
		bytes -= 40 + len(p.Topic) + len(p.Subscriber) + len(p.Partition) + 24*len(p.Ahead)
		if bytes < 0 {
			break
		}
		out = append(out, positionToProto(p))
	}
	return out
}

// begin takes what Opened says, and makes the session the present one.
func (s *Stream) begin(ss *session, o *pb.Opened, at place) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	late := ss.late()
	for _, st := range s.subs {
		err := refused(st.Topic, st.id, o.GetResults())
		switch {
		case err == nil:
			st.moved, st.trial = false, false
		case st.trial && IsPermanent(err):
			st.reason = err
			s.forgetLocked(st)
		default:
			return err
		}
	}
	for _, p := range o.GetPositions() {
		s.table.Replace(positionFromProto(p))
	}
	ss.instance = o.GetInstanceId()
	if ss.instance == "" {
		ss.instance = at.instance
	}
	ss.ackTimeout = ackTimeout(o, &s.cfg)
	s.stats.Sessions++
	s.setSession(ss)
	if !s.wasOpen {
		s.wasOpen = true
		close(s.opened)
	}
	if late != nil {
		ss.sendChange(late)
	}
	if s.closing {
		ss.leave(0)
	}
	return nil
}

// ackTimeout is the timeout in force.
func ackTimeout(o *pb.Opened, cfg *SubscribeConfig) time.Duration {
	const serverDefault, least = 30 * time.Second, 100 * time.Millisecond
	d := o.GetAckTimeout().AsDuration()
	if d <= 0 {
		d = cfg.AckTimeout
	}
	if d <= 0 {
		d = serverDefault
	}
	return max(d, least)
}

// late is what Open did not say: what was paused on the stream before, and what has
// changed since Open was sent. nil: nothing. The caller holds s.mu.
func (ss *session) late() *pb.Change {
	s, ch := ss.s, &pb.Change{}
	for _, sub := range ss.asked.GetSubscriptions() {
		switch st := s.subs[sub.GetId()]; {
		case st == nil:
			ch.Remove = append(ch.Remove, sub.GetId())
		case st.paused:
			ch.Pause = append(ch.Pause, sub.GetId())
		}
	}
	if int(ss.asked.GetMaxInFlight()) != s.cfg.MaxInFlight || ss.asked.GetMaxInFlightBytes() != s.cfg.MaxInFlightBytes {
		ch.Window = window(s.cfg.MaxInFlight, s.cfg.MaxInFlightBytes)
	}
	if len(ch.Remove)+len(ch.Pause) == 0 && ch.Window == nil {
		return nil
	}
	return ch
}

// window sets what is not 0.
func window(records int, bytes int64) *pb.Window {
	w := &pb.Window{}
	if records > 0 {
		n := int32(records)
		w.MaxInFlight = &n
	}
	if bytes > 0 {
		w.MaxInFlightBytes = &bytes
	}
	return w
}

// setSession changes the present session and tells who waits for that. The caller
// holds s.mu.
func (s *Stream) setSession(ss *session) {
	s.sess = ss
	close(s.sessChange)
	s.sessChange = make(chan struct{})
}

// lose takes leave of a session that has ended: what it left open is told, and
// what is queued of it is dropped. err is how it ended.
func (s *Stream) lose(ss *session, seek *seeker, err error) {
	s.dropAll(s.queue.clear())
	s.mu.Lock()
	refs := ss.unconfirmed()
	held := ss.held()
	s.stats.Unconfirmed += int64(len(refs))
	ss.failWaits(refs)
	ss.stopCut()
	s.setSession(nil)
	if s.closing && len(refs)+held > 0 && s.err == nil {
		s.err = &CloseError{Unconfirmed: len(refs), Unfinished: held}
	}
	s.endFor(err)
	seek.hint = ss.goTo
	if ss.shunned || !ss.over {
		seek.shun(ss.instance)
	}
	s.mu.Unlock()
	if len(refs) > 0 {
		s.log().Warn("ackmesh: acks unconfirmed, their records may come again", slog.Int("count", len(refs)))
		if s.cfg.OnUnconfirmed != nil {
			s.cfg.OnUnconfirmed(refs)
		}
	}
}

// endFor notes why the stream ends for good, if err says so: a notice may have been
// lost, and comes to nobody before Opened. The caller holds s.mu.
func (s *Stream) endFor(err error) {
	if s.final == nil {
		s.final = ending(err)
	}
}

// subscriber is the name under which positions of a subscription come. The caller
// holds s.mu.
func (s *Stream) subscriber(st *subState) string {
	switch {
	case st.Mode != LoadBalance:
		return "client/" + s.c.cfg.ClientID
	case st.Share != "":
		return "share/" + st.Share
	}
	return s.defaultShare(st.Topic)
}

// defaultShare is the name of a topic's default share, which the server chooses:
// that of the positions that belong to no other subscription.
func (s *Stream) defaultShare(topic string) string {
	named := make(map[string]bool)
	for _, st := range s.subs {
		if st.Topic == topic && st.Share != "" {
			named["share/"+st.Share] = true
		}
	}
	known := s.table.Positions()
	for i := range known {
		p := &known[i]
		if p.Topic == topic && strings.HasPrefix(p.Subscriber, "share/") && !named[p.Subscriber] {
			return p.Subscriber
		}
	}
	return "share/"
}

// notice does what a notice asks for, and tells the application.
func (ss *session) notice(n *pb.Notice) {
	s := ss.s
	s.mu.Lock()
	public := s.publicNotice(n)
	ss.follow(n)
	s.mu.Unlock()
	s.log().Info("ackmesh: notice", slog.String("kind", public.Kind.String()), slog.String("topic", public.Topic), slog.String("detail", public.Detail))
	if s.cfg.OnNotice != nil {
		s.cfg.OnNotice(public)
	}
}

// follow does what a notice asks for. The caller holds s.mu.
func (ss *session) follow(n *pb.Notice) {
	switch n.GetKind() {
	case pb.Notice_KIND_DRAINING:
		ss.moveTo(n.GetGoTo())
	case pb.Notice_KIND_SUPERSEDED:
		ss.superseded(n)
	case pb.Notice_KIND_EVICTED:
		ss.s.final = fmt.Errorf("%w: %s", ErrEvicted, n.GetDetail())
		ss.leave(0)
	case pb.Notice_KIND_POSITION_CORRECTED, pb.Notice_KIND_RESET:
		for _, p := range n.GetPositions() {
			ss.s.table.Replace(positionFromProto(p))
		}
	case pb.Notice_KIND_REASSIGNED:
		ss.reassigned(n)
	}
}

// moveTo ends the session once what is at hand is finished, and has the next one
// opened elsewhere: where told, or where anyone recommends, but not here.
func (ss *session) moveTo(to *pb.RecommendResponse) {
	if to.GetInstanceUrl() != "" && to.GetInstanceId() != ss.instance {
		ss.goTo = &hint{address: to.GetInstanceUrl(), instance: to.GetInstanceId()}
	}
	ss.shunned = true
	ss.leave(ss.s.cfg.Drain)
}

// superseded drops the subscription that a newer stream of the client has taken.
// With the last one, the Stream ends.
func (ss *session) superseded(n *pb.Notice) {
	s := ss.s
	for id, st := range s.subs {
		if n.GetSubscription() == id || n.GetSubscription() == 0 {
			s.forgetLocked(st)
		}
	}
	if len(s.subs) == 0 {
		s.final = fmt.Errorf("%w: %s", ErrSuperseded, n.GetDetail())
		ss.leave(0)
	}
}

// reassigned moves the Stream if no share of it has partitions here any more. A
// stream that also serves others from here stays: it would be sent back for them.
func (ss *session) reassigned(n *pb.Notice) {
	stay := false
	for id, st := range ss.s.subs {
		if n.GetSubscription() == id || n.GetSubscription() == 0 {
			st.moved = true
		}
		stay = stay || st.Mode == LoadBalance && !st.moved
	}
	if !stay {
		ss.moveTo(n.GetGoTo())
	}
}

// stale reports whether a claimed delivery is not to be handled any more: its
// stream has ended, its subscription is gone, or a reset came.
func (d *Delivery) stale() bool {
	return d.sess.ended.Load() || d.run.sub.gone.Load() || d.run.part.Stale(d.run.epoch)
}

// stale reports whether all deliveries of a batch are.
func (b *Batch) stale() bool {
	for i := range b.ds {
		if !b.ds[i].stale() {
			return false
		}
	}
	return true
}

// drop gives a claimed delivery up without an answer.
func (s *Stream) drop(d *Delivery) {
	s.mu.Lock()
	s.stats.Dropped += int64(d.sess.ledger.Drop(d.entry, d.index, d.index+1))
	s.mu.Unlock()
	d.sess.signal()
}

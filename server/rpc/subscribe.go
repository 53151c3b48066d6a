package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server/dispatch"
)

// answerGrace is how long the end of a stream waits for acks under way.
const answerGrace = 10 * time.Second

// subReader reads one Subscribe stream. It is the only one that changes the
// stream's subscriptions.
type subReader struct {
	e      *EventMesh
	s      *dispatch.Stream
	stream grpc.ServerStream
	ctx    context.Context
	access *access
	resume map[offsetstore.Key]dispatch.Resume
	ranges []dispatch.Answered
}

// run serves the stream until the client or the stream ends: open sets it up,
// handle takes one message after that.
func (r *subReader) run(open func() error, handle func(msg []byte) error) {
	err := aside(open)
	for err == nil {
		in := new(rawIn)
		if err = r.stream.RecvMsg(in); err == nil {
			err = handle(in.bytes())
			in.free()
		}
	}
	r.end(err)
}

// end ends the stream for what reading it ended with.
func (r *subReader) end(err error) {
	switch {
	case errors.Is(err, io.EOF): // half-close: an orderly end
		r.e.d.End(r.s, false, answerGrace, nil)
	case r.ctx.Err() != nil: // the stream broke, or has ended here
		r.e.d.End(r.s, !r.s.EndedHere(), 0, err)
	default: // what the client sent, mostly: a break, or it could do so for ever
		r.e.d.End(r.s, !r.s.EndedHere(), answerGrace, err)
	}
}

// aside calls open in a goroutine of its own. What open needs of the stack would
// else be kept by this one, of which there is one for each stream.
func aside(open func() error) error {
	opened := make(chan error, 1)
	go func() { opened <- open() }()
	return <-opened
}

// open sets up the subscriptions of Open and begins delivery after Opened.
func (r *subReader) open(open *pb.Open) error {
	r.resume = resumeOf(open.GetResume())
	opened := r.opened()
	subs, notices, err := r.subscribe(open.GetSubscriptions(), func(res *pb.SubscriptionResult, pos []*pb.Position) {
		opened.Results = append(opened.Results, res)
		opened.Positions = append(opened.Positions, pos...)
	})
	if err != nil {
		return err
	}
	boundAhead(opened.Positions)
	if err := r.send(&pb.SubscribeResponse{Kind: &pb.SubscribeResponse_Opened{Opened: opened}}); err != nil {
		return err
	}
	return r.activate(subs, notices)
}

// opened is an Opened without subscriptions yet.
func (r *subReader) opened() *pb.Opened {
	return &pb.Opened{
		InstanceId: r.e.limits.InstanceID, InstanceUrl: r.e.limits.InstanceURL,
		AckTimeout: durationOf(r.s.Config().AckTimeout),
	}
}

// send sends a message of control.
func (r *subReader) send(msg proto.Message) error {
	raw, err := proto.Marshal(msg)
	if err != nil {
		return err
	}
	return r.s.Control(raw)
}

// activate lets subscriptions begin after these notices.
func (r *subReader) activate(subs []*dispatch.Subscribed, notices []*pb.Notice) error {
	for _, n := range notices {
		if err := r.send(&pb.SubscribeResponse{Kind: &pb.SubscribeResponse_Notice{Notice: n}}); err != nil {
			return err
		}
	}
	for _, sub := range subs {
		r.e.d.Activate(sub)
	}
	return nil
}

// subscribe adds subscriptions, each with its own result. An error ends the
// stream.
func (r *subReader) subscribe(list []*pb.Subscription, report func(*pb.SubscriptionResult, []*pb.Position)) ([]*dispatch.Subscribed, []*pb.Notice, error) {
	var subs []*dispatch.Subscribed
	var notices []*pb.Notice
	for _, want := range list {
		res := &pb.SubscriptionResult{Id: want.GetId()}
		spec, err := r.e.limits.subscription(r.s.Config().ClientID, want)
		var sub *dispatch.Subscribed
		if err == nil {
			sub, err = r.subscribeOne(spec)
		}
		if err != nil {
			if r.ctx.Err() != nil {
				return nil, nil, r.ctx.Err()
			}
			res.Status = statusOf(fmt.Errorf("subscription %d: %w", want.GetId(), err)).Proto()
			report(res, nil)
			continue
		}
		if n := shareNotice(want); n != nil {
			notices = append(notices, n)
		}
		subs = append(subs, sub)
		report(res, positionsOf(sub.Positions))
	}
	return subs, notices, nil
}

// subscribeOne adds a subscription if the caller may have it.
func (r *subReader) subscribeOne(spec dispatch.Subscription) (*dispatch.Subscribed, error) {
	if err := r.e.limits.room(r.s.Subscriptions()); err != nil {
		return nil, err
	}
	p, err := r.access.admit(&spec)
	if err != nil {
		return nil, err
	}
	spec.Resume = r.resume
	sub, err := r.e.d.Subscribe(r.ctx, r.s, spec)
	if err != nil {
		r.access.forget(p)
	}
	return sub, err
}

func shareNotice(want *pb.Subscription) *pb.Notice {
	if want.GetMode() != pb.Mode_MODE_LOAD_BALANCE || want.GetShare() != "" {
		return nil
	}
	return &pb.Notice{
		Kind: pb.Notice_KIND_SHARE_DEFAULT, Subscription: want.GetId(),
		Detail: fmt.Sprintf("the default share of topic %q divides its records among all clients that name no share", want.GetTopic()),
	}
}

// handle takes one message after Open.
func (r *subReader) handle(b []byte) error {
	num, body, err := kindOf(b, "SubscribeRequest")
	if err != nil {
		return err
	}
	switch num {
	case 1:
		return invalid("open", "is only allowed as the first message of a stream")
	case 2:
		if err := r.e.limits.checkChange(body); err != nil {
			return err
		}
		change := &pb.Change{}
		if err := proto.Unmarshal(body, change); err != nil {
			return invalid("change", err.Error())
		}
		return r.change(change)
	case answerAck, answerNack, answerExtend:
		return r.answer(int(num), body)
	}
	return invalid("request", fmt.Sprintf("has the unknown kind %d", num))
}

// kindOf takes a message apart that must have exactly one kind: its number, and
// what it holds. name is that of the message.
func kindOf(b []byte, name string) (num protowire.Number, body []byte, err error) {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 || typ != protowire.BytesType {
		return 0, nil, invalid("request", "is no "+name)
	}
	body, m := protowire.ConsumeBytes(b[n:])
	if m < 0 || n+m != len(b) {
		return 0, nil, invalid("request", "is no "+name+" with exactly one kind")
	}
	return num, body, nil
}

// The kinds of answers, with the numbers of SubscribeRequest.
const (
	answerAck    = 3
	answerNack   = 4
	answerExtend = 5
)

// answer takes an Ack, a Nack or an Extend.
func (r *subReader) answer(kind int, b []byte) error {
	a := answerMsg{ranges: r.ranges[:0], delay: -1}
	if err := a.parse(b); err != nil {
		return err
	}
	r.ranges = a.ranges
	switch kind {
	case answerAck:
		return r.s.Ack(a.ranges)
	case answerNack:
		if err := checkReason(a.reason); err != nil {
			return err
		}
		return r.s.Nack(a.ranges, min(a.delay, maxNackDelay), a.dead, a.reason)
	}
	return r.s.Extend(a.ranges, r.e.limits.extension(a.delay))
}

// maxNackDelay is the longest that a nacked record waits: for longer it would keep
// its subscriber's position back, and the log may have dropped it.
const maxNackDelay = 7 * 24 * time.Hour

// checkReason checks the reason of a Nack. It goes into a dead letter, which takes
// only text.
func checkReason(reason string) error {
	switch {
	case len(reason) > 1024:
		return invalid("nack.reason", fmt.Sprintf("has %d bytes, at most 1024 are allowed", len(reason)))
	case !utf8.ValidString(reason):
		return invalid("nack.reason", "is not UTF-8")
	}
	return nil
}

// answerMsg is an Ack, Nack or Extend: they share their first two fields.
type answerMsg struct {
	ranges []dispatch.Answered
	delay  time.Duration // Nack.delay or Extend.by; -1: unset
	reason string
	dead   bool
}

func (a *answerMsg) parse(b []byte) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return invalid("request", "is damaged: "+protowire.ParseError(n).Error())
		}
		b = b[n:]
		n, err := a.field(num, typ, b)
		if err != nil {
			return err
		}
		if n < 0 {
			return invalid("request", "is damaged: "+protowire.ParseError(n).Error())
		}
		b = b[n:]
	}
	return nil
}

func (a *answerMsg) field(num protowire.Number, typ protowire.Type, b []byte) (n int, err error) {
	switch {
	case num == 1 && typ == protowire.Fixed64Type:
		id, n := protowire.ConsumeFixed64(b)
		if n < 0 {
			return n, nil
		}
		return n, a.add(id, id)
	case num == 5 && typ == protowire.VarintType:
		v, n := protowire.ConsumeVarint(b)
		a.dead = v != 0
		return n, nil
	case typ == protowire.BytesType && num <= 4:
		v, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return n, nil
		}
		return n, a.bytesField(num, v)
	}
	return protowire.ConsumeFieldValue(num, typ, b), nil
}

func (a *answerMsg) bytesField(num protowire.Number, v []byte) error {
	switch num {
	case 1:
		if len(v)%8 != 0 {
			return invalid("delivery_ids", "is damaged")
		}
		for ; len(v) > 0; v = v[8:] {
			id, _ := protowire.ConsumeFixed64(v)
			if err := a.add(id, id); err != nil {
				return err
			}
		}
	case 2:
		return a.rangeField(v)
	case 3:
		d, err := parseDuration(v)
		a.delay = d
		return err
	case 4:
		a.reason = string(v)
	}
	return nil
}

func (a *answerMsg) rangeField(v []byte) error {
	var r [3]uint64
	for len(v) > 0 {
		num, typ, n := protowire.ConsumeTag(v)
		if n < 0 {
			return invalid("ranges", "is damaged")
		}
		v = v[n:]
		if typ == protowire.Fixed64Type && num <= 2 {
			r[num], n = protowire.ConsumeFixed64(v)
		} else {
			n = protowire.ConsumeFieldValue(num, typ, v)
		}
		if n < 0 {
			return invalid("ranges", "is damaged")
		}
		v = v[n:]
	}
	return a.add(r[1], r[2])
}

// add notes a range; adjacent ones are joined.
func (a *answerMsg) add(first, last uint64) error {
	switch {
	case first == 0:
		return invalid("delivery_ids", "has 0, which is no delivery id")
	case last < first:
		return invalid("ranges", fmt.Sprintf("has the reversed range %d to %d", first, last))
	case last >= 1<<63:
		return invalid("delivery_ids", fmt.Sprintf("has %d: delivery ids are below 2^63", last))
	}
	if k := len(a.ranges); k > 0 && a.ranges[k-1].Last+1 == first {
		a.ranges[k-1].Last = last
		return nil
	}
	if len(a.ranges) == maxAnswerRanges {
		return invalid("ranges", fmt.Sprintf("has more than %d ranges of ids: send several messages", maxAnswerRanges))
	}
	a.ranges = append(a.ranges, dispatch.Answered{First: first, Last: last})
	return nil
}

// change alters the stream's subscriptions.
func (r *subReader) change(c *pb.Change) error {
	if err := r.e.limits.checkLists(c); err != nil {
		return err
	}
	out := &pb.Changed{ChangeId: c.GetChangeId()}
	result := func(id uint32, err error) {
		res := &pb.SubscriptionResult{Id: id}
		if err != nil {
			res.Status = statusOf(fmt.Errorf("subscription %d: %w", id, err)).Proto()
		}
		out.Results = append(out.Results, res)
	}
	if w := c.GetWindow(); w != nil {
		records, bytes, err := r.e.limits.window(w.MaxInFlight, w.MaxInFlightBytes)
		if err != nil {
			return err
		}
		r.s.SetWindow(records, bytes)
	}
	for _, id := range c.GetRemove() {
		r.access.drop(id)
		result(id, r.e.d.Unsubscribe(r.s, id))
	}
	pause := func(ids []uint32, paused, added bool) { // what the message adds, once it is there
		for _, id := range ids {
			if added == slices.ContainsFunc(c.GetAdd(), func(s *pb.Subscription) bool { return s.GetId() == id }) {
				result(id, r.e.d.Pause(r.s, id, paused))
			}
		}
	}
	pause(c.GetPause(), true, false)
	pause(c.GetResume(), false, false)
	subs, notices, err := r.subscribe(c.GetAdd(), func(res *pb.SubscriptionResult, pos []*pb.Position) {
		out.Results = append(out.Results, res)
		out.Positions = append(out.Positions, pos...)
	})
	if err != nil {
		return err
	}
	pause(c.GetPause(), true, true)
	pause(c.GetResume(), false, true)
	boundAhead(out.Positions)
	if err := r.send(&pb.SubscribeResponse{Kind: &pb.SubscribeResponse_Changed{Changed: out}}); err != nil {
		return err
	}
	return r.activate(subs, notices)
}

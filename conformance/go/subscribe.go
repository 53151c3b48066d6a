package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// open begins a stream and waits for Opened, or for its end where it is refused.
type open struct {
	Stream    string            `json:"stream"`
	Open      json.RawMessage   `json:"open"`
	Results   map[string]string `json:"results"`
	Positions []position        `json:"positions"`
	Code      string            `json:"code"`
}

// position is what Opened says about the one partition of a topic.
type position struct {
	Topic      string     `json:"topic"`
	NextOffset int64      `json:"next_offset"`
	Ahead      [][2]int64 `json:"ahead"`
}

func (o *open) run(w *world) error {
	msg := &pb.Open{}
	if err := protojson.Unmarshal(o.Open, msg); err != nil {
		return err
	}
	s, err := w.connect(o.Stream)
	if err != nil {
		return err
	}
	if err := s.send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Open{Open: msg}}); err != nil {
		return err
	}
	if orOK(o.Code) != "OK" {
		return (&ended{Stream: o.Stream, Code: o.Code}).run(w)
	}
	if err := w.await("Opened", func() bool { return s.opened != nil }, s); err != nil {
		return err
	}
	if err := checkResults(s.opened.GetResults(), o.Results); err != nil {
		return err
	}
	for _, p := range o.Positions {
		if err := p.check(s.opened.GetPositions()); err != nil {
			return err
		}
	}
	return nil
}

// checkResults: subscriptions that are not named are to stand.
func checkResults(results []*pb.SubscriptionResult, want map[string]string) error {
	for _, r := range results {
		id := fmt.Sprint(r.GetId())
		if got := codeOf(r.GetStatus()); got != orOK(want[id]) {
			return fmt.Errorf("subscription %s is %s %s, not %s", id, got, r.GetStatus().GetMessage(), orOK(want[id]))
		}
	}
	for id := range want {
		if !slices.ContainsFunc(results, func(r *pb.SubscriptionResult) bool { return fmt.Sprint(r.GetId()) == id }) {
			return fmt.Errorf("subscription %s has no result", id)
		}
	}
	return nil
}

func (p *position) check(of []*pb.Position) error {
	for _, got := range of {
		if got.GetTopic() != p.Topic {
			continue
		}
		var ahead [][2]int64
		for _, r := range got.GetFinishedAhead() {
			ahead = append(ahead, [2]int64{r.GetFirst(), r.GetLast()})
		}
		if got.GetNextOffset() != p.NextOffset || !slices.Equal(ahead, p.Ahead) {
			return fmt.Errorf("the position in %s is %d and ahead %v, not %d and %v", p.Topic, got.GetNextOffset(), ahead, p.NextOffset, p.Ahead)
		}
		return nil
	}
	return fmt.Errorf("no position in %s is told", p.Topic)
}

// send passes a message on. That the stream has ended is told by what is awaited.
func (s *stream) send(msg *pb.SubscribeRequest) error {
	if err := s.call.Send(msg); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// change changes the subscriptions of a stream and waits for Changed.
type change struct {
	Stream  string            `json:"stream"`
	Change  json.RawMessage   `json:"change"`
	Results map[string]string `json:"results"`
}

func (c *change) run(w *world) error {
	msg := &pb.Change{}
	if err := protojson.Unmarshal(c.Change, msg); err != nil {
		return err
	}
	s, err := w.stream(c.Stream)
	if err != nil {
		return err
	}
	if err := s.send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Change{Change: msg}}); err != nil {
		return err
	}
	if err := w.await("Changed", func() bool { return s.changed[msg.GetChangeId()] != nil }, s); err != nil {
		return err
	}
	return checkResults(s.changed[msg.GetChangeId()].GetResults(), c.Results)
}

// receive waits for deliveries: exactly these, and in this order unless AnyOrder.
type receive struct {
	Streams    []string   `json:"streams"`
	Deliveries []expected `json:"deliveries"`
	AnyOrder   bool       `json:"any_order"`
	AfterMS    int        `json:"after_ms"`
}

// expected is one delivery. What is not set may be anything, but Attempt, which
// is 1 then.
type expected struct {
	As           string            `json:"as"`
	Stream       string            `json:"stream"`
	Subscription *uint32           `json:"subscription"`
	Topic        *string           `json:"topic"`
	Offset       *int64            `json:"offset"`
	Attempt      int32             `json:"attempt"`
	Data         *string           `json:"data"`
	Attributes   map[string]string `json:"attributes"`
}

func (r *receive) run(w *world) error {
	var of []*stream
	for _, name := range r.Streams {
		s, err := w.stream(name)
		if err != nil {
			return err
		}
		of = append(of, s)
	}
	var got []*delivery
	what := fmt.Sprintf("the last of %d deliveries", len(r.Deliveries))
	err := w.await(what, func() bool {
		got = append(got, w.pick(of, len(r.Deliveries)-len(got))...)
		return len(got) == len(r.Deliveries)
	}, of...)
	if err != nil {
		return fmt.Errorf("%w; %d came: %v", err, len(got), got)
	}
	open := slices.Clone(r.Deliveries)
	for _, d := range got {
		i, err := r.match(d, open)
		if err != nil {
			return err
		}
		if earliest := w.nacked.Add(time.Duration(r.AfterMS) * time.Millisecond); r.AfterMS > 0 && d.at.Before(earliest) {
			return fmt.Errorf("%s came %v early", d, earliest.Sub(d.at))
		}
		if open[i].As != "" {
			w.held[open[i].As] = d
		}
		open = slices.Delete(open, i, i+1)
	}
	return nil
}

// pick takes up to n of the deliveries of some streams that are waiting.
func (w *world) pick(of []*stream, n int) []*delivery {
	var got, left []*delivery
	for _, d := range w.waiting {
		if len(got) < n && slices.Contains(of, d.stream) {
			got = append(got, d)
		} else {
			left = append(left, d)
		}
	}
	w.waiting = left
	return got
}

// match finds which of the open expectations a delivery meets.
func (r *receive) match(d *delivery, open []expected) (int, error) {
	if !r.AnyOrder {
		open = open[:1]
	}
	var why error
	for i := range open {
		if why = open[i].check(d); why == nil {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%s came: %w", d, why)
}

func (e *expected) check(d *delivery) error {
	err := errors.Join(
		same("attempt", d.GetAttempt(), max(e.Attempt, 1)),
		sameIfSet("subscription", d.run.GetSubscription(), e.Subscription),
		sameIfSet("topic", d.run.GetTopic(), e.Topic),
		sameIfSet("offset", d.GetOffset(), e.Offset),
		sameIfSet("data", string(d.GetFrame().GetData()), e.Data),
	)
	if e.Stream != "" {
		err = errors.Join(err, same("stream", d.stream.name, e.Stream))
	}
	for name, value := range e.Attributes {
		err = errors.Join(err, same("attribute "+name, d.GetFrame().GetAttributes()[name], value))
	}
	return err
}

func sameIfSet[T comparable](what string, got T, want *T) error {
	if want == nil {
		return nil
	}
	return same(what, got, *want)
}

// selection names deliveries, on their own stream or another.
type selection struct {
	Stream     string   `json:"stream"`
	Deliveries []string `json:"deliveries"`
	IDs        []uint64 `json:"ids"`
	AsRange    bool     `json:"as_range"`
	// Status is what AckResult is to say; DURABLE if empty, NONE: nothing is awaited.
	Status string `json:"status"`
}

// resolve finds the stream and the ids, and the same as what goes over the wire.
func (sel *selection) resolve(w *world) (s *stream, all, ids []uint64, ranges []*pb.DeliveryRange, err error) {
	if sel.Stream != "" {
		if s, err = w.stream(sel.Stream); err != nil {
			return nil, nil, nil, nil, err
		}
	}
	all = slices.Clone(sel.IDs)
	for _, label := range sel.Deliveries {
		d := w.held[label]
		if d == nil {
			return nil, nil, nil, nil, fmt.Errorf("nothing was received as %q", label)
		}
		if s == nil {
			s = d.stream
		}
		all = append(all, d.GetDeliveryId())
	}
	switch {
	case s == nil || len(all) == 0:
		return nil, nil, nil, nil, errors.New("no stream or no delivery is named")
	case sel.AsRange:
		return s, all, nil, []*pb.DeliveryRange{{First: slices.Min(all), Last: slices.Max(all)}}, nil
	}
	return s, all, all, nil, nil
}

// settle waits until every id has an answer, and takes it.
func (sel *selection) settle(w *world, s *stream, ids []uint64) error {
	want := sel.Status
	switch want {
	case "NONE":
		return nil
	case "":
		want = "DURABLE"
	}
	for _, id := range ids {
		if err := w.await("an AckResult", func() bool { return len(s.fates[id]) > 0 }, s); err != nil {
			return err
		}
		got := s.fates[id][0]
		s.fates[id] = s.fates[id][1:]
		if err := same("the AckResult", got.String(), "STATUS_"+want); err != nil {
			return err
		}
	}
	return nil
}

// ack acks deliveries and waits for the answer.
type ack struct{ selection }

func (a *ack) run(w *world) error {
	s, all, ids, ranges, err := a.resolve(w)
	if err != nil {
		return err
	}
	msg := &pb.Ack{DeliveryIds: ids, Ranges: ranges}
	if err := s.send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Ack{Ack: msg}}); err != nil {
		return err
	}
	return a.settle(w, s, all)
}

// nack gives deliveries back and waits for the answer.
type nack struct {
	selection
	DelayMS    *int64 `json:"delay_ms"`
	Reason     string `json:"reason"`
	DeadLetter bool   `json:"dead_letter"`
}

func (n *nack) run(w *world) error {
	s, all, ids, ranges, err := n.resolve(w)
	if err != nil {
		return err
	}
	msg := &pb.Nack{DeliveryIds: ids, Ranges: ranges, Reason: n.Reason, DeadLetter: n.DeadLetter}
	if n.DelayMS != nil {
		msg.Delay = durationpb.New(time.Duration(*n.DelayMS) * time.Millisecond)
	}
	w.nacked = time.Now()
	if err := s.send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Nack{Nack: msg}}); err != nil {
		return err
	}
	return n.settle(w, s, all)
}

// extend moves the deadline of deliveries; nothing answers it.
type extend struct {
	selection
	ByMS int64 `json:"by_ms"`
}

func (e *extend) run(w *world) error {
	s, _, ids, ranges, err := e.resolve(w)
	if err != nil {
		return err
	}
	msg := &pb.Extend{DeliveryIds: ids, Ranges: ranges, By: durationpb.New(time.Duration(e.ByMS) * time.Millisecond)}
	return s.send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Extend{Extend: msg}})
}

// notice waits for a notice.
type notice struct {
	Stream       string `json:"stream"`
	Kind         string `json:"kind"`
	Subscription uint32 `json:"subscription"`
}

func (n *notice) run(w *world) error {
	s, err := w.stream(n.Stream)
	if err != nil {
		return err
	}
	return w.await("notice "+n.Kind, func() bool {
		return slices.ContainsFunc(s.notices, func(got *pb.Notice) bool {
			return got.GetKind().String() == "KIND_"+n.Kind && got.GetSubscription() == n.Subscription
		})
	}, s)
}

// end ends a stream in order: it must end with OK, and have brought nothing that
// no step received.
type end struct {
	Stream string `json:"stream"`
}

func (e *end) run(w *world) error {
	s, err := w.stream(e.Stream)
	if err != nil {
		return err
	}
	if err := s.call.CloseSend(); err != nil {
		return err
	}
	return (&ended{Stream: e.Stream}).run(w)
}

// ended waits until the server has ended a stream.
type ended struct {
	Stream string `json:"stream"`
	Code   string `json:"code"`
	Reason string `json:"reason"`
}

func (e *ended) run(w *world) error {
	s, err := w.stream(e.Stream)
	if err != nil {
		return err
	}
	// As long as it is open itself it is what could bring its end.
	if err := w.await("the end of stream "+e.Stream, func() bool { return s.ended != nil }, s); err != nil {
		return err
	}
	if got := nameOf(s.ended.Code()); got != orOK(e.Code) {
		return fmt.Errorf("the stream ended with %s, not %s", describe(s.ended), orOK(e.Code))
	}
	if e.Reason != "" {
		if err := same("the reason", reasonOf(s.ended), e.Reason); err != nil {
			return err
		}
	}
	return w.nothingLeft(s)
}

// breakOff breaks a stream, as a client does that dies.
type breakOff struct {
	Stream string `json:"stream"`
}

func (b *breakOff) run(w *world) error {
	s, err := w.stream(b.Stream)
	if err != nil {
		return err
	}
	s.call.Close()
	if err := w.await("the break", func() bool { return s.ended != nil }, s); err != nil {
		return err
	}
	w.waiting = slices.DeleteFunc(w.waiting, func(d *delivery) bool { return d.stream == s })
	return nil
}

package rpc

import (
	"errors"
	"fmt"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server/dispatch"
	"github.com/ackmesh/ackmesh/storage"
)

// liteForm is how a SubscribeLiteResponse differs from a SubscribeResponse.
var liteForm = &dispatch.Form{Deliveries: 2<<3 | 2, AckResult: 3<<3 | 2, Notice: encodeLiteNotice}

func encodeLiteNotice(n dispatch.Notice) []byte {
	notice := noticeOf(n)
	return encodeNotice(&pb.SubscribeLiteResponse{Kind: &pb.SubscribeLiteResponse_Notice{Notice: notice}}, notice)
}

// subscribe serves one SubscribeLite stream.
func (l *Lite) subscribe(stream grpc.ServerStream) error {
	if _, err := l.topics(); err != nil {
		return statusOf(err).Err()
	}
	open, err := l.receiveOpen(stream)
	if err != nil {
		return err
	}
	cfg, err := l.mesh.limits.streamConfig(stream.Context(), &pb.Open{
		ClientId: open.GetClientId(), MaxInFlight: open.MaxInFlight, MaxInFlightBytes: open.MaxInFlightBytes,
		AckTimeout: open.GetAckTimeout(), MaxMessageBytes: open.GetMaxMessageBytes(), Labels: open.GetLabels(),
	})
	if err == nil {
		err = storage.CheckName("parent", open.GetParent())
	}
	if err != nil {
		return statusOf(err).Err()
	}
	cfg.Form = liteForm
	return l.mesh.serve(stream, cfg, func(r *subReader) {
		lr := &liteReader{subReader: r, parent: open.GetParent(), ordered: open.GetOrdered(), ids: map[string]uint32{}}
		lr.run(func() error { return lr.open(open) }, lr.handle)
	})
}

// receiveOpen reads the first message of a stream.
func (l *Lite) receiveOpen(stream grpc.ServerStream) (*pb.OpenLite, error) {
	in := new(rawIn)
	if err := stream.RecvMsg(in); err != nil {
		return nil, endOfRead(err, "OpenLite")
	}
	defer in.free()
	open, err := l.mesh.limits.parseOpenLite(in.bytes())
	if err != nil {
		return nil, statusOf(err).Err()
	}
	return open, nil
}

// parseOpenLite checks the size of the first message of a stream, then unpacks it.
func (l Limits) parseOpenLite(b []byte) (*pb.OpenLite, error) {
	if len(b) > maxControlBytes {
		return nil, invalid("open", fmt.Sprintf("has %d bytes, at most %d are allowed", len(b), maxControlBytes))
	}
	lites := 0
	for rest := b; len(rest) > 0; { // several Opens are one
		num, typ, k := protowire.ConsumeField(rest)
		if k < 0 {
			break // told by who unpacks it
		}
		if num == 1 && typ == protowire.BytesType {
			_, _, n := protowire.ConsumeTag(rest)
			open, _ := protowire.ConsumeBytes(rest[n:])
			lites += fieldsOf(open, 3)
		}
		rest = rest[k:]
	}
	if err := atMost("lites", lites, l.MaxLitesPerStream); err != nil {
		return nil, err
	}
	req := &pb.SubscribeLiteRequest{}
	if err := proto.Unmarshal(b, req); err != nil {
		return nil, invalid("open", err.Error())
	}
	if req.GetOpen() == nil {
		return nil, invalid("open", "must be the first message of a stream")
	}
	return req.GetOpen(), nil
}

// liteReader reads one SubscribeLite stream. It is the only one that changes the
// stream's lite topics.
type liteReader struct {
	*subReader
	parent  string
	ordered bool
	ids     map[string]uint32 // of the lite topics that the stream has
	last    uint32
}

// open sets up the lite topics of OpenLite and begins delivery after Opened.
func (r *liteReader) open(open *pb.OpenLite) error {
	if _, err := r.access.admit(&dispatch.Subscription{Topic: r.parent, Subscriber: r.subscriber()}); err != nil {
		return err
	}
	opened := r.opened()
	subs, err := r.add(open.GetLites(), func(res *pb.SubscriptionResult, pos []*pb.Position) {
		opened.Results = append(opened.Results, res)
		opened.Positions = append(opened.Positions, pos...)
	})
	if err != nil {
		return err
	}
	boundAhead(opened.Positions)
	return r.begin(&pb.SubscribeLiteResponse{Kind: &pb.SubscribeLiteResponse_Opened{Opened: opened}}, subs)
}

// begin answers and lets subscriptions begin.
func (r *liteReader) begin(answer *pb.SubscribeLiteResponse, subs []*dispatch.Subscribed) error {
	if err := r.send(answer); err != nil {
		return err
	}
	return r.activate(subs, nil)
}

func (r *liteReader) subscriber() offsetstore.Subscriber {
	return offsetstore.Subscriber{Kind: offsetstore.KindClient, Name: r.s.Config().ClientID}
}

// add subscribes to lite topics, each with its own result. An error ends the
// stream: it is of the parent, or of the stream.
func (r *liteReader) add(lites []string, report func(*pb.SubscriptionResult, []*pb.Position)) (subs []*dispatch.Subscribed, err error) {
	results := make([]*pb.SubscriptionResult, len(lites))
	spec := dispatch.LiteSubscription{
		Parent: r.parent, Subscriber: r.subscriber(),
		Settings: dispatch.Settings{Mode: dispatch.Broadcast, Ordered: r.ordered, Lite: true},
	}
	var asked []int // of spec.Topics, its place in lites
	for i, lite := range lites {
		results[i] = &pb.SubscriptionResult{Lite: lite}
		if err := r.admissible(lite); err != nil {
			results[i].Status = liteStatus(lite, err)
			continue
		}
		r.last++
		r.ids[lite] = r.last
		results[i].Id = r.last
		spec.Topics = append(spec.Topics, dispatch.LiteTopic{ID: r.last, Name: lite})
		asked = append(asked, i)
	}
	done, err := r.e.d.SubscribeLite(r.ctx, r.s, spec)
	if err != nil {
		return nil, err
	}
	positions := make([][]*pb.Position, len(lites))
	for k, one := range done {
		i := asked[k]
		if one.Err != nil {
			if r.ctx.Err() != nil {
				return nil, r.ctx.Err()
			}
			delete(r.ids, lites[i])
			results[i].Status = liteStatus(lites[i], one.Err)
			continue
		}
		subs, positions[i] = append(subs, one.Subscribed), positionsOf(one.Positions)
	}
	for i := range lites {
		report(results[i], positions[i])
	}
	return subs, nil
}

// admissible tells whether the stream may have one more lite topic, of that name.
func (r *liteReader) admissible(lite string) error {
	if err := storage.CheckLite("lite", lite); err != nil {
		return err
	}
	if r.ids[lite] != 0 {
		return dispatch.ErrSubscriptionExists
	}
	if n, most := len(r.ids), r.e.limits.MaxLitesPerStream; n >= most {
		return fmt.Errorf("%w: the stream has %d lite topics, at most %d are allowed", errTooMany, n, most)
	}
	return nil
}

// handle takes one message after OpenLite.
func (r *liteReader) handle(b []byte) error {
	num, body, err := kindOf(b, "SubscribeLiteRequest")
	if err != nil {
		return err
	}
	switch num {
	case 1:
		return invalid("open", "is only allowed as the first message of a stream")
	case 2:
		return r.answer(answerAck, body)
	case 3:
		return r.answer(answerNack, body)
	case 4:
		return r.changeLites(body)
	case 5:
		return r.answer(answerExtend, body)
	}
	return invalid("request", fmt.Sprintf("has the unknown kind %d", num))
}

// changeLites adds and removes lite topics.
func (r *liteReader) changeLites(b []byte) error {
	if len(b) > maxControlBytes {
		return invalid("change", fmt.Sprintf("has %d bytes, at most %d are allowed", len(b), maxControlBytes))
	}
	most := r.e.limits.MaxLitesPerStream
	if err := errors.Join(atMost("add", fieldsOf(b, 1), most), atMost("remove", fieldsOf(b, 2), most)); err != nil {
		return err
	}
	change := &pb.ChangeLite{}
	if err := proto.Unmarshal(b, change); err != nil {
		return invalid("change", err.Error())
	}
	out := &pb.Changed{ChangeId: change.GetChangeId()}
	for _, lite := range change.GetRemove() {
		out.Results = append(out.Results, r.remove(lite))
	}
	subs, err := r.add(change.GetAdd(), func(res *pb.SubscriptionResult, pos []*pb.Position) {
		out.Results = append(out.Results, res)
		out.Positions = append(out.Positions, pos...)
	})
	if err != nil {
		return err
	}
	boundAhead(out.Positions)
	return r.begin(&pb.SubscribeLiteResponse{Kind: &pb.SubscribeLiteResponse_Changed{Changed: out}}, subs)
}

// remove ends the subscription of one lite topic.
func (r *liteReader) remove(lite string) *pb.SubscriptionResult {
	id := r.ids[lite]
	delete(r.ids, lite)
	res := &pb.SubscriptionResult{Id: id, Lite: lite}
	if err := r.e.d.Unsubscribe(r.s, id); err != nil {
		res.Status = liteStatus(lite, err)
	}
	return res
}

// liteStatus is why a lite topic was not added or removed.
func liteStatus(lite string, err error) *rpcstatus.Status {
	if len(lite) > storage.MaxLiteName { // it may have megabytes
		lite = lite[:storage.MaxLiteName] + "…"
	}
	return statusOf(fmt.Errorf("lite topic %q: %w", lite, err)).Proto()
}

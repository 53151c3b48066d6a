package ackmesh

import (
	"fmt"

	"github.com/ackmesh/ackmesh/clients/go/internal/progress"
	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/offset"
)

// NoticeKind is what a Notice is about.
type NoticeKind int

// The kinds, and what the client does about them by itself.
const (
	// NoticeDraining: the instance shuts down. The client finishes what is at hand
	// and goes elsewhere.
	NoticeDraining NoticeKind = NoticeKind(pb.Notice_KIND_DRAINING)
	// NoticeSuperseded: a newer stream of the client took the subscription. It is
	// dropped; with the last one the stream ends with ErrSuperseded.
	NoticeSuperseded NoticeKind = NoticeKind(pb.Notice_KIND_SUPERSEDED)
	// NoticeEvicted: the stream ends with ErrEvicted.
	NoticeEvicted NoticeKind = NoticeKind(pb.Notice_KIND_EVICTED)
	// NoticePositionCorrected: a position was corrected to fit the log.
	NoticePositionCorrected NoticeKind = NoticeKind(pb.Notice_KIND_POSITION_CORRECTED)
	// NoticeReset: an operator moved the position. Deliveries of before that no
	// handler has begun are dropped.
	NoticeReset NoticeKind = NoticeKind(pb.Notice_KIND_RESET)
	// NoticeReassigned: the share has no partition at this instance. The client
	// goes to the one that has.
	NoticeReassigned NoticeKind = NoticeKind(pb.Notice_KIND_REASSIGNED)
	// NoticeShareDefault: the subscription uses the topic's default share.
	NoticeShareDefault NoticeKind = NoticeKind(pb.Notice_KIND_SHARE_DEFAULT)
)

// String returns the kind's name on the wire, without its prefix.
func (k NoticeKind) String() string {
	const prefix = len("KIND_")
	if name, ok := pb.Notice_Kind_name[int32(k)]; ok {
		return name[prefix:]
	}
	return fmt.Sprintf("NoticeKind(%d)", int(k))
}

// Notice is what the server says about a stream or subscription.
type Notice struct {
	Kind NoticeKind
	// Detail is for people.
	Detail string
	// Topic of the subscription concerned; empty: the whole stream.
	Topic string
	// Positions concerned, as they are now.
	Positions []Position
	// GoTo is the address of the instance to go to, if any.
	GoTo string
}

// Position says how far a subscriber is in a partition.
type Position struct {
	// Topic, Subscriber (`client/NAME` or `share/NAME`) and Partition say whose.
	Topic, Subscriber, Partition string
	// NextOffset is next to deliver: everything below it is finished.
	NextOffset int64
	// Epoch is raised by each reset.
	Epoch uint64
	// FinishedAhead are the finished ranges above NextOffset, at most 1,000.
	FinishedAhead []OffsetRange
}

// OffsetRange is a range of offsets, both ends included.
type OffsetRange struct{ First, Last int64 }

func publicPosition(p *progress.Position) Position {
	out := Position{Topic: p.Topic, Subscriber: p.Subscriber, Partition: p.Partition, NextOffset: p.Next, Epoch: p.Epoch}
	for _, r := range p.Ahead {
		out.FinishedAhead = append(out.FinishedAhead, OffsetRange(r))
	}
	return out
}

func positionToProto(p *progress.Position) *pb.Position {
	out := &pb.Position{Topic: p.Topic, Subscriber: p.Subscriber, Partition: p.Partition, NextOffset: p.Next, Epoch: p.Epoch}
	for _, r := range p.Ahead {
		out.FinishedAhead = append(out.FinishedAhead, &pb.OffsetRange{First: r.First, Last: r.Last})
	}
	return out
}

func positionFromProto(p *pb.Position) *progress.Position {
	out := &progress.Position{Topic: p.GetTopic(), Subscriber: p.GetSubscriber(), Partition: p.GetPartition(), Next: p.GetNextOffset(), Epoch: p.GetEpoch()}
	for _, r := range p.GetFinishedAhead() {
		if r.GetFirst() <= r.GetLast() {
			out.Ahead = append(out.Ahead, offset.Range{First: r.GetFirst(), Last: r.GetLast()})
		}
	}
	return out
}

func (s *Stream) publicNotice(n *pb.Notice) Notice {
	out := Notice{Kind: NoticeKind(n.GetKind()), Detail: n.GetDetail(), GoTo: n.GetGoTo().GetInstanceUrl()}
	if sub := s.subs[n.GetSubscription()]; sub != nil {
		out.Topic = sub.Topic
	}
	for _, p := range n.GetPositions() {
		out.Positions = append(out.Positions, publicPosition(positionFromProto(p)))
	}
	return out
}

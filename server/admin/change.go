package admin

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server/dispatch"
	"github.com/ackmesh/ackmesh/server/rpc"
	"github.com/ackmesh/ackmesh/storage"
)

func subscriberOf(text string) (offsetstore.Subscriber, error) {
	sub, err := offsetstore.ParseSubscriber(text)
	switch {
	case err != nil:
		return sub, fmt.Errorf("%w: %w", err, storage.ErrInvalid)
	case sub.Kind == offsetstore.KindClient || sub.Name != "": // a share without a name is a topic's default one
		return sub, storage.CheckName("subscriber", sub.Name)
	}
	return sub, nil
}

// ResetOffset moves a subscriber's position.
func (s *Service) ResetOffset(ctx context.Context, req *pb.ResetOffsetRequest) (*pb.ResetOffsetResponse, error) {
	sub, err := subscriberOf(req.GetSubscriber())
	if err != nil {
		return nil, fail(err)
	}
	if req.GetTo().GetPlace() == nil {
		return nil, fail(fmt.Errorf("to is not set: give LATEST, EARLIEST, an offset or a time: %w", storage.ErrInvalid))
	}
	place, err := rpc.PlaceOf(req.GetTo())
	if err != nil {
		return nil, fail(err)
	}
	moved, err := s.d.Reset(ctx, dispatch.ResetRequest{
		Topic: req.GetTopic(), Subscriber: sub, Partition: req.GetPartition(), To: place, DryRun: req.GetDryRun(),
	})
	if err != nil {
		return nil, fail(err)
	}
	out := &pb.ResetOffsetResponse{}
	for _, m := range moved {
		p := &pb.ResetPartition{Partition: m.Partition, From: m.From, To: m.To, Epoch: m.Epoch, Warning: m.Warning, Records: m.To - m.From}
		if m.To < m.From {
			p.Records = m.From - m.To
			if p.Warning != "" {
				p.Warning += "; "
			}
			p.Warning += fmt.Sprintf("about %d records come again, read from the disk where they are old", p.Records)
		}
		out.Partitions = append(out.Partitions, p)
	}
	return out, nil
}

// DeleteSubscriber removes a subscriber's progress.
func (s *Service) DeleteSubscriber(ctx context.Context, req *pb.DeleteSubscriberRequest) (*pb.DeleteSubscriberResponse, error) {
	sub, err := subscriberOf(req.GetSubscriber())
	if err != nil {
		return nil, fail(err)
	}
	if err := s.d.DeleteSubscriber(ctx, req.GetTopic(), sub); err != nil {
		return nil, fail(err)
	}
	return &pb.DeleteSubscriberResponse{}, nil
}

// EvictClient ends a client's streams.
func (s *Service) EvictClient(_ context.Context, req *pb.EvictClientRequest) (*pb.EvictClientResponse, error) {
	if err := storage.CheckName("client_id", req.GetClientId()); err != nil {
		return nil, fail(err)
	}
	why := req.GetReason()
	if why == "" {
		why = "evicted by an operator"
	}
	return &pb.EvictClientResponse{Streams: int32(s.d.Evict(req.GetClientId(), why))}, nil
}

const (
	defaultPage = 100
	maxPage     = 1000
	// maxPageFrames bounds the events in one page of several, so that it fits the
	// 4 MiB that clients take by default; letters beyond come without.
	maxPageFrames = 2 << 20
	// eventsPatience bounds how long the events of a page of several are waited
	// for: the letters themselves are known without the log.
	eventsPatience = 3 * time.Second
)

// letterQuery is what a request says of the dead letters that it is about.
func letterQuery(req interface {
	GetTopic() string
	GetSubscriber() string
},
) (q dispatch.LetterQuery, err error) {
	if err := storage.CheckName("topic", req.GetTopic()); err != nil {
		return q, err
	}
	if req.GetSubscriber() != "" {
		if _, err := subscriberOf(req.GetSubscriber()); err != nil {
			return q, err
		}
	}
	return dispatch.LetterQuery{Topic: req.GetTopic(), Subscriber: req.GetSubscriber()}, nil
}

// ListDeadLetters browses dead letters.
func (s *Service) ListDeadLetters(ctx context.Context, req *pb.ListDeadLettersRequest) (*pb.ListDeadLettersResponse, error) {
	size := int(req.GetPageSize())
	switch {
	case size < 0 || size > maxPage:
		return nil, fail(fmt.Errorf("page_size is %d, 1 to %d are allowed: %w", size, maxPage, storage.ErrInvalid))
	case size == 0:
		size = defaultPage
	}
	q, err := letterQuery(req)
	if err != nil {
		return nil, fail(err)
	}
	q.After, q.Limit = req.GetPageToken(), size
	list, next, err := s.d.Letters(q)
	if err != nil {
		return nil, fail(err)
	}
	out := &pb.ListDeadLettersResponse{NextPageToken: next}
	for _, let := range list {
		m := &pb.DeadLetter{
			Id: let.ID, Topic: let.Topic, Subscriber: let.Subscriber, Partition: let.Partition, Offset: let.Offset,
			Reason: let.Reason, Attempts: let.Attempts, Time: timestamppb.New(time.UnixMilli(let.Time)),
		}
		if let.Detail != "" {
			m.Reason += ": " + let.Detail
		}
		out.DeadLetters = append(out.DeadLetters, m)
	}
	if err := s.addEvents(ctx, list, out.GetDeadLetters(), size); err != nil {
		return nil, fail(err)
	}
	return out, nil
}

// addEvents gives the letters of a page their events. A page of one has its event
// or says why not; in larger ones those from the first on that cannot be read, or
// that there is no room for, come without.
func (s *Service) addEvents(ctx context.Context, list []dispatch.Letter, page []*pb.DeadLetter, size int) error {
	if size > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, eventsPatience)
		defer cancel()
	}
	room := maxPageFrames
	for i, let := range list {
		v, err := s.d.LetterFrame(ctx, let)
		switch {
		case err != nil && size == 1:
			return err
		case v == nil && err == nil:
			continue
		case err != nil, len(v) > room && size > 1:
			return nil
		}
		page[i].Frame = rpc.FrameMessage(v)
		room -= len(v)
	}
	return nil
}

// maxAnswer bounds how long before its deadline a replay stops, so that the answer
// arrives.
const maxAnswer = 2 * time.Second

// withAnswer ends before the deadline of ctx, while there is time for an answer.
func withAnswer(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-min(time.Until(end)/4, maxAnswer)))
}

// ReplayDeadLetters publishes dead letters again, as many as it comes to.
func (s *Service) ReplayDeadLetters(ctx context.Context, req *pb.ReplayDeadLettersRequest) (*pb.ReplayDeadLettersResponse, error) {
	q, err := letterQuery(req)
	if err != nil {
		return nil, fail(err)
	}
	q.IDs = req.GetIds()
	ctx, cancel := withAnswer(ctx)
	defer cancel()
	n, left, err := s.d.Replay(ctx, q)
	if err != nil {
		return nil, fail(err)
	}
	return &pb.ReplayDeadLettersResponse{Replayed: n, Left: left}, nil
}

// PurgeDeadLetters forgets dead letters.
func (s *Service) PurgeDeadLetters(ctx context.Context, req *pb.PurgeDeadLettersRequest) (*pb.PurgeDeadLettersResponse, error) {
	q, err := letterQuery(req)
	if err != nil {
		return nil, fail(err)
	}
	q.IDs = req.GetIds()
	n, err := s.d.Purge(ctx, q)
	if err != nil {
		return nil, fail(err)
	}
	return &pb.PurgeDeadLettersResponse{Purged: n}, nil
}

// Package admin serves the operators' calls. It has a listener apart from that
// of the data.
package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server/dispatch"
	"github.com/ackmesh/ackmesh/server/ratelimit"
	"github.com/ackmesh/ackmesh/server/rpc"
	"github.com/ackmesh/ackmesh/storage"
)

// Service answers Admin calls of one instance. Bind it before use.
type Service struct {
	pb.UnimplementedAdminServer
	backend  storage.Backend
	store    offsetstore.Store
	d        *dispatch.Dispatcher
	limits   *ratelimit.Limits
	instance Instance
}

// Parts are what the calls work on. They stay the caller's.
type Parts struct {
	Backend    storage.Backend
	Store      offsetstore.Store
	Dispatcher *dispatch.Dispatcher
	Limits     *ratelimit.Limits
	Instance   Instance
}

// Bind gives s what it serves. It must be called before the first call.
func (s *Service) Bind(p Parts) {
	s.backend, s.store, s.d, s.limits, s.instance = p.Backend, p.Store, p.Dispatcher, p.Limits, p.Instance
}

// fail turns an error into the status that the caller gets.
func fail(err error) error { return rpc.Status(err).Err() }

func (s *Service) lacks(what string) error {
	return status.Errorf(codes.Unimplemented, "backend %s has no %s", s.backend.Name(), what)
}

// ListTopics lists topics with the bounds of their partitions.
func (s *Service) ListTopics(ctx context.Context, req *pb.ListTopicsRequest) (*pb.ListTopicsResponse, error) {
	topics, err := s.backend.Topics(ctx)
	if err != nil {
		return nil, fail(err)
	}
	out := &pb.ListTopicsResponse{}
	log := newAsker(ctx)
	for _, t := range topics {
		if !strings.HasPrefix(t.Name, req.GetPrefix()) {
			continue
		}
		msg, err := s.topic(ctx, t, log)
		if err != nil {
			return nil, fail(err)
		}
		if slices.ContainsFunc(msg.GetPartitions(), isAbsent) {
			continue // deleted, or made anew, since the topics were listed
		}
		out.Topics = append(out.Topics, msg)
	}
	return out, nil
}

func isAbsent(p *pb.Partition) bool { return p.GetBounds() == pb.BoundsState_BOUNDS_STATE_ABSENT }

// topic shows a topic, with bounds where the log tells them.
func (s *Service) topic(ctx context.Context, t storage.Topic, log *asker) (*pb.Topic, error) {
	out := &pb.Topic{Topic: t.Name, Id: t.ID}
	b, ok := storage.As[storage.Bounder](s.backend)
	for _, name := range t.Partitions {
		p := &pb.Partition{Partition: name}
		var err error
		p.Bounds, p.BoundsError, err = log.ask(ctx, func(ctx context.Context) error {
			if !ok {
				return fmt.Errorf("backend %s does not tell them: %w", s.backend.Name(), storage.ErrUnknown)
			}
			low, high, err := b.Bounds(ctx, t.Name, name)
			if err == nil {
				p.MinOffset, p.MaxOffset = low, high
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		out.Partitions = append(out.Partitions, p)
	}
	return out, nil
}

// minRetention is the shortest retention of a topic, as it is of the server.
const minRetention = time.Second

// CreateTopic makes a topic.
func (s *Service) CreateTopic(ctx context.Context, req *pb.CreateTopicRequest) (*pb.CreateTopicResponse, error) {
	a, ok := storage.As[storage.TopicAdmin](s.backend)
	if !ok {
		return nil, s.lacks("creation of topics: create them at the broker")
	}
	if err := storage.CheckName("topic", req.GetTopic()); err != nil {
		return nil, fail(err)
	}
	cfg := storage.TopicConfig{Partitions: int(req.GetPartitions())}
	if r := req.GetRetention(); r != nil {
		if cfg.Retention = r.AsDuration(); cfg.Retention < minRetention {
			return nil, fail(fmt.Errorf("retention is %v, it must be %v or more: %w", cfg.Retention, minRetention, storage.ErrInvalid))
		}
	}
	t, err := a.CreateTopic(ctx, req.GetTopic(), cfg)
	if err != nil {
		return nil, fail(err)
	}
	msg, err := s.topic(ctx, t, newAsker(ctx))
	if err != nil {
		return nil, fail(err)
	}
	return &pb.CreateTopicResponse{Topic: msg}, nil
}

// DeleteTopic removes a topic and all that is known of its subscribers.
func (s *Service) DeleteTopic(ctx context.Context, req *pb.DeleteTopicRequest) (*pb.DeleteTopicResponse, error) {
	a, ok := storage.As[storage.TopicAdmin](s.backend)
	if !ok {
		return nil, s.lacks("deletion of topics: delete them at the broker")
	}
	if err := a.DeleteTopic(ctx, req.GetTopic()); err != nil {
		return nil, fail(err)
	}
	s.d.LookSoon()
	if err := s.d.DeleteTopicState(ctx, req.GetTopic()); err != nil {
		return nil, fail(err)
	}
	return &pb.DeleteTopicResponse{}, nil
}

// GetOffsets shows bounds, positions and lag.
func (s *Service) GetOffsets(ctx context.Context, req *pb.GetOffsetsRequest) (*pb.GetOffsetsResponse, error) {
	var want offsetstore.Subscriber
	if req.GetSubscriber() != "" {
		var err error
		if want, err = subscriberOf(req.GetSubscriber()); err != nil {
			return nil, fail(err)
		}
	}
	out := &pb.GetOffsetsResponse{}
	log := newAsker(ctx)
	var failed error
	err := s.store.Scan(req.GetTopic(), func(k offsetstore.Key, v offsetstore.Value) bool {
		if want.Kind != 0 && k.Subscriber != want {
			return true
		}
		var pops bool
		if pops, failed = s.d.PopsFor(k.Topic, k.Subscriber); failed != nil {
			return false
		}
		if pops {
			failed = s.groupOffsets(ctx, k, v, log, out)
			return failed == nil
		}
		var o *pb.PartitionOffsets
		if o, failed = s.offsets(ctx, k, v, log); failed != nil {
			return false
		}
		out.Offsets = append(out.Offsets, o)
		return true
	})
	if err = cmp.Or(err, failed); err != nil {
		return nil, fail(err)
	}
	slices.SortFunc(out.Offsets, func(a, b *pb.PartitionOffsets) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Subscriber, b.Subscriber), comparePartitions(a.Partition, b.Partition))
	})
	return out, nil
}

// comparePartitions orders names that are numbers by number.
func comparePartitions(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// offsets shows where a subscriber is, between the bounds where the log tells them.
func (s *Service) offsets(ctx context.Context, k offsetstore.Key, v offsetstore.Value, log *asker) (*pb.PartitionOffsets, error) {
	o, err := s.progress(ctx, k, v)
	if err != nil {
		return nil, err
	}
	o.Bounds, o.BoundsError, err = log.ask(ctx, func(ctx context.Context) error {
		low, high, err := s.d.Bounds(ctx, k)
		if err == nil {
			o.MinOffset, o.MaxOffset, o.Lag = low, high, max(0, high-o.Position)
		}
		return err
	})
	return o, err
}

// progress shows where a subscriber is, and what is under way.
func (s *Service) progress(ctx context.Context, k offsetstore.Key, v offsetstore.Value) (*pb.PartitionOffsets, error) {
	o := &pb.PartitionOffsets{
		Topic: k.Topic, Subscriber: k.Subscriber.String(), Partition: k.Partition,
		Position: v.Position, Epoch: v.Epoch,
	}
	for _, r := range v.Finished {
		o.FinishedAhead += r.Len()
	}
	live, ok, err := s.d.Live(ctx, k)
	if err != nil {
		return nil, err
	}
	if ok {
		o.InFlight, o.Waiting = int64(live.InFlight), int64(live.Waiting)
		if !live.OldestSent.IsZero() {
			o.OldestUnfinished = durationpb.New(time.Since(live.OldestSent))
		}
		if !live.LastAck.IsZero() {
			o.LastAck = timestamppb.New(live.LastAck)
		}
	}
	return o, nil
}

// ListSubscribers lists who has progress.
func (s *Service) ListSubscribers(_ context.Context, req *pb.ListSubscribersRequest) (*pb.ListSubscribersResponse, error) {
	list, err := s.d.Subscribers(req.GetTopic())
	if err != nil {
		return nil, fail(err)
	}
	out := &pb.ListSubscribersResponse{}
	for _, i := range list {
		m := &pb.Subscriber{
			Topic: i.Topic, Subscriber: i.Subscriber.String(), Mode: pb.Mode(i.Settings.Mode),
			Filter: i.Settings.Filter, Ordered: i.Settings.Ordered, Streams: int32(i.Streams),
		}
		if i.Absent != 0 {
			m.AbsentSince = timestamppb.New(time.UnixMilli(i.Absent))
		}
		out.Subscribers = append(out.Subscribers, m)
	}
	return out, nil
}

// ListClients lists live streams.
func (s *Service) ListClients(_ context.Context, req *pb.ListClientsRequest) (*pb.ListClientsResponse, error) {
	out := &pb.ListClientsResponse{}
	for _, c := range s.d.Clients() {
		if req.GetClientId() != "" && c.Config.ClientID != req.GetClientId() {
			continue
		}
		m := &pb.Client{
			ClientId: c.Config.ClientID, Address: c.Config.Address, Since: timestamppb.New(c.Since), Labels: c.Config.Labels,
			InFlight: int64(c.InFlight), InFlightBytes: c.InFlightBytes,
		}
		for _, sub := range c.Subscriptions {
			m.Subscriptions = append(m.Subscriptions, &pb.Subscription{
				Id: sub.ID, Topic: sub.Topic, Mode: pb.Mode(sub.Settings.Mode), Share: sub.Share,
				Filter: sub.Settings.Filter, Ordered: sub.Settings.Ordered,
			})
		}
		out.Clients = append(out.Clients, m)
	}
	return out, nil
}

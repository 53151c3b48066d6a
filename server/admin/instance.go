package admin

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/ratelimit"
	"github.com/ackmesh/ackmesh/storage"
)

// Instance is the running server as a whole.
type Instance interface {
	// ID names it.
	ID() string
	// DefaultGrace is how long clients have to finish when nobody says.
	DefaultGrace() time.Duration
	// Drain refuses new streams and has the live ones end within grace. It
	// returns how many there are, and does not wait.
	Drain(grace time.Duration) (streams int)
	// EndDrain takes streams again.
	EndDrain()
}

// maxGrace bounds DrainRequest.grace.
const maxGrace = 10 * time.Minute

// Drain empties the instance, or has it take streams again.
func (s *Service) Drain(_ context.Context, req *pb.DrainRequest) (*pb.DrainResponse, error) {
	if id := req.GetInstanceId(); id != "" && id != s.instance.ID() {
		return nil, status.Errorf(codes.NotFound, "instance %q is not this one, which is %q: ask that one itself", id, s.instance.ID())
	}
	grace := s.instance.DefaultGrace()
	if g := req.GetGrace(); g != nil {
		if grace = g.AsDuration(); g.CheckValid() != nil || grace < 0 || grace > maxGrace {
			return nil, fail(fmt.Errorf("grace is %v, 0 to %v is allowed: %w", grace, maxGrace, storage.ErrInvalid))
		}
	}
	if req.GetUndo() {
		if req.GetGrace() != nil {
			return nil, fail(fmt.Errorf("grace is of no use with undo: %w", storage.ErrInvalid))
		}
		s.instance.EndDrain()
		return &pb.DrainResponse{}, nil
	}
	return &pb.DrainResponse{Streams: int32(s.instance.Drain(grace))}, nil
}

// SetRateLimit bounds a rate, or ends a bound.
func (s *Service) SetRateLimit(ctx context.Context, req *pb.SetRateLimitRequest) (*pb.SetRateLimitResponse, error) {
	rule := ratelimit.Rule{
		Scope:  ratelimit.Scope{Topic: req.GetTopic(), Client: req.GetClientId()},
		Events: req.GetEventsPerSecond(), Bytes: req.GetBytesPerSecond(),
	}
	switch req.GetDirection() {
	case pb.SetRateLimitRequest_DIRECTION_PUBLISH:
		rule.Direction = ratelimit.Publish
	case pb.SetRateLimitRequest_DIRECTION_DELIVER:
		rule.Direction = ratelimit.Deliver
	default: // refused by Set
	}
	if err := s.limits.Set(ctx, rule); err != nil {
		return nil, fail(err)
	}
	return &pb.SetRateLimitResponse{}, nil
}

// ListRateLimits lists the bounds.
func (s *Service) ListRateLimits(context.Context, *pb.ListRateLimitsRequest) (*pb.ListRateLimitsResponse, error) {
	out := &pb.ListRateLimitsResponse{}
	for _, r := range s.limits.Rules() {
		out.RateLimits = append(out.RateLimits, &pb.RateLimit{
			Topic: r.Topic, ClientId: r.Client, Direction: pb.SetRateLimitRequest_Direction(r.Direction),
			EventsPerSecond: r.Events, BytesPerSecond: r.Bytes,
		})
	}
	return out, nil
}

// RebuildDeadLetters adds to the ledger what the topic of dead letters tells.
func (s *Service) RebuildDeadLetters(ctx context.Context, req *pb.RebuildDeadLettersRequest) (*pb.RebuildDeadLettersResponse, error) {
	found, added, err := s.d.RebuildLetters(ctx, req.GetTopic())
	if err != nil {
		return nil, fail(err)
	}
	return &pb.RebuildDeadLettersResponse{Found: found, Added: added}, nil
}

package ackmesh

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// avoidFor is how long an instance that failed is reported as such.
const avoidFor = 30 * time.Second

// place is an instance to open a stream on. Whoever gets one releases conn.
type place struct {
	*conn
	instance string // its id; empty if nobody told
	asked    string // the address that recommended it; empty if none did
}

// seeker finds places for one stream after another. One goroutine uses it.
type seeker struct {
	client *Client
	subs   func() []*pb.Subscription // what the stream is for; nil: nothing to weigh
	turn   int
	avoid  map[string]time.Time // instance id → until when
	hint   *hint
}

// hint is a place to try next, without asking.
type hint struct{ address, instance string }

func (c *Client) newSeeker(subs func() []*pb.Subscription) *seeker {
	return &seeker{client: c, subs: subs, turn: rand.IntN(len(c.cfg.Addresses)), avoid: make(map[string]time.Time)}
}

// find returns the next place to try. An error that IsPermanent is final.
func (s *seeker) find(ctx context.Context) (place, error) {
	if h := s.hint; h != nil {
		s.hint = nil
		return s.take(h.address, h.instance, "")
	}
	if s.client.cfg.Direct {
		s.turn++
		return s.take(s.address(s.turn), "", "")
	}
	return s.ask(ctx)
}

// address is the i-th known address, in turn.
func (s *seeker) address(i int) string {
	all := s.client.cfg.Addresses
	return all[i%len(all)]
}

// ask asks the addresses in turn until one recommends an instance.
func (s *seeker) ask(ctx context.Context) (place, error) {
	var last error
	for i := range s.client.cfg.Addresses {
		p, err := s.askAt(ctx, s.address(s.turn+i))
		if err == nil {
			s.turn += i
			return p, nil
		}
		if last = err; IsPermanent(err) || ctx.Err() != nil {
			break
		}
	}
	s.turn++
	return place{}, last
}

// askAt asks one address.
func (s *seeker) askAt(ctx context.Context, address string) (place, error) {
	p, err := s.take(address, "", "")
	if err != nil {
		return place{}, err
	}
	answer, err := s.recommend(ctx, p)
	switch {
	case status.Code(err) == codes.Unimplemented:
		return p, nil
	case err != nil:
		p.release()
		return place{}, fmt.Errorf("ackmesh: recommend at %s: %w", address, err)
	case answer.InstanceUrl == "" || answer.InstanceUrl == address:
		p.instance = answer.InstanceId
		return p, nil
	}
	if err := s.client.cfg.checkToken(answer.InstanceUrl); err != nil {
		s.client.cfg.Logger.Warn("ackmesh: recommended instance not used", slog.Any("reason", err))
		return p, nil
	}
	p.release()
	return s.take(answer.InstanceUrl, answer.InstanceId, address)
}

func (s *seeker) recommend(ctx context.Context, p place) (*pb.RecommendResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.client.cfg.ConnectTimeout)
	defer cancel()
	req := &pb.RecommendRequest{ClientId: s.client.cfg.ClientID, FailedInstances: s.avoided()}
	if s.subs != nil {
		req.Subscriptions = s.subs()
	}
	return pb.NewSessionClient(p.ClientConn).Recommend(ctx, req)
}

func (s *seeker) take(address, instance, asked string) (place, error) {
	if err := s.client.cfg.checkToken(address); err != nil {
		return place{}, err
	}
	c, err := s.client.conns.get(address)
	return place{conn: c, instance: instance, asked: asked}, err
}

// unreachable says that no stream could be opened at p. Where it was only
// recommended, the one that recommended it is tried itself: an advertised address
// may be wrong from here.
func (s *seeker) unreachable(p place) {
	s.shun(p.instance)
	if p.asked != "" {
		s.hint = &hint{address: p.asked}
	}
}

// shun reports an instance as failed for a while.
func (s *seeker) shun(instance string) {
	if instance != "" {
		s.avoid[instance] = time.Now().Add(avoidFor)
	}
}

// reached says that a stream stands on the instance.
func (s *seeker) reached(instance string) { delete(s.avoid, instance) }

// avoided lists the instances that failed lately.
func (s *seeker) avoided() []string {
	var ids []string
	now := time.Now()
	for id, until := range s.avoid {
		if now.After(until) {
			delete(s.avoid, id)
			continue
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

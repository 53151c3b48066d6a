package auth

import (
	"slices"
	"strings"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// Fields that requests of operators name things by.
type (
	topicNamer      interface{ GetTopic() string }
	subscriberNamer interface{ GetSubscriber() string }
	clientNamer     interface{ GetClientId() string }
)

// Operate tells whether the caller may make an Admin call: whether its patterns
// match what the request names. A change that names no topic, subscriber or
// client where it could concerns all of them, and needs *. What a listing shows
// is left to Hide.
func (c *Caller) Operate(req any) error {
	g, err := c.having(RoleAdminRead)
	if err != nil {
		return err
	}
	if _, ok := req.(*pb.DrainRequest); ok && !g.Topics.All() {
		return lacksAll(g, inTopics, "drains the instance")
	}
	if r, ok := req.(topicNamer); ok {
		if err := g.reaches(req, inTopics, g.Topics, r.GetTopic()); err != nil {
			return err
		}
	}
	if r, ok := req.(clientNamer); ok {
		if err := g.reaches(req, inClients, g.Clients, r.GetClientId()); err != nil {
			return err
		}
	}
	if r, ok := req.(subscriberNamer); ok {
		return g.reachesSubscriber(req, r.GetSubscriber())
	}
	return nil
}

// lists tells whether a request only lists, so that Hide applies to its answer.
func lists(req any) bool {
	switch req.(type) {
	case *pb.ListTopicsRequest, *pb.ListSubscribersRequest, *pb.ListClientsRequest, *pb.GetOffsetsRequest,
		*pb.ListDeadLettersRequest, *pb.ListRateLimitsRequest:
		return true
	}
	return false
}

// reaches tells whether a name is among those of a list; none is all of them.
func (g *Grant) reaches(req any, list string, patterns Patterns, name string) error {
	switch {
	case name != "" && !patterns.Match(name):
		return lacksPattern(g, list, name)
	case name == "" && !lists(req) && !patterns.All():
		return lacksAll(g, list, "names no "+kinds[list])
	}
	return nil
}

// reachesSubscriber is reaches for client/NAME or share/NAME.
func (g *Grant) reachesSubscriber(req any, name string) error {
	if name == "" {
		if lists(req) {
			return nil
		}
		if !g.Clients.All() {
			return lacksAll(g, inClients, "names no subscriber")
		}
		if !g.Shares.All() {
			return lacksAll(g, inShares, "names no subscriber")
		}
		return nil
	}
	if share, ok := strings.CutPrefix(name, "share/"); ok {
		if !g.Shares.Match(share) {
			return lacksPattern(g, inShares, share)
		}
		return nil
	}
	client, ok := strings.CutPrefix(name, "client/")
	if ok && !g.Clients.Match(client) {
		return lacksPattern(g, inClients, client)
	}
	return nil // no subscriber is called so: whoever serves the call says it
}

func (g *Grant) seesSubscriber(topic, name string) bool {
	return g.Topics.Match(topic) && g.reachesSubscriber(nil, name) == nil
}

func (g *Grant) seesSubscription(s *pb.Subscription) bool {
	return g.Topics.Match(s.GetTopic()) && (s.GetMode() != pb.Mode_MODE_LOAD_BALANCE || g.Shares.Match(s.GetShare()))
}

// Hide takes out of the answer to an Admin call what the caller's patterns do
// not match.
func (c *Caller) Hide(answer any) error {
	g, err := c.grant()
	if err != nil {
		return err
	}
	if g.Topics.All() && g.Clients.All() && g.Shares.All() {
		return nil
	}
	switch a := answer.(type) {
	case *pb.ListTopicsResponse:
		a.Topics = slices.DeleteFunc(a.Topics, func(t *pb.Topic) bool { return !g.Topics.Match(t.GetTopic()) })
	case *pb.ListSubscribersResponse:
		a.Subscribers = slices.DeleteFunc(a.Subscribers, func(s *pb.Subscriber) bool {
			return !g.seesSubscriber(s.GetTopic(), s.GetSubscriber())
		})
	case *pb.GetOffsetsResponse:
		a.Offsets = slices.DeleteFunc(a.Offsets, func(o *pb.PartitionOffsets) bool {
			return !g.seesSubscriber(o.GetTopic(), o.GetSubscriber())
		})
	case *pb.ListDeadLettersResponse:
		a.DeadLetters = slices.DeleteFunc(a.DeadLetters, func(l *pb.DeadLetter) bool {
			return !g.seesSubscriber(l.GetTopic(), l.GetSubscriber())
		})
	case *pb.ListRateLimitsResponse: // those that concern all show to who may read: they bound the caller too
		a.RateLimits = slices.DeleteFunc(a.RateLimits, func(l *pb.RateLimit) bool {
			return l.GetTopic() != "" && !g.Topics.Match(l.GetTopic()) || l.GetClientId() != "" && !g.Clients.Match(l.GetClientId())
		})
	case *pb.ListClientsResponse:
		a.Clients = slices.DeleteFunc(a.Clients, func(cl *pb.Client) bool { return !g.Clients.Match(cl.GetClientId()) })
		for _, cl := range a.Clients {
			cl.Subscriptions = slices.DeleteFunc(cl.Subscriptions, func(s *pb.Subscription) bool { return !g.seesSubscription(s) })
		}
	}
	return nil
}

package session

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
)

// Route is what the proxies know of a topic.
type Route struct {
	// Topic is its name.
	Topic string
	// Queues are its queues, in order of broker and number.
	Queues []Queue
	// Types are the types of messages that the topic takes; empty: not told.
	Types []v2.MessageType
}

// Queue is one queue of a topic.
type Queue struct {
	Broker             string
	ID                 int
	Readable, Writable bool
}

// Brokers names the brokers that have queues to read from, each once.
func (r *Route) Brokers() (list []string) {
	for _, q := range r.Queues {
		if q.Readable && (len(list) == 0 || list[len(list)-1] != q.Broker) {
			list = append(list, q.Broker)
		}
	}
	return list
}

// Takes tells whether the topic takes messages of a type, as far as is known.
func (r *Route) Takes(t v2.MessageType) bool {
	return len(r.Types) == 0 || slices.Contains(r.Types, t)
}

// routeEntry is what is remembered of a topic. Session.mu guards it.
type routeEntry struct {
	route       *Route // nil: never seen
	at          time.Time
	absentSince time.Time // zero: it was there when asked last
	asking      bool
}

// Route returns what is known of a topic; one that was seen before is returned
// at once and asked for beside that when it is older than Options.RouteAge. One
// that was not seen before is asked for.
//
// Errors: an Error with TOPIC_NOT_FOUND, what the transport says, ctx.Err(),
// ErrClosed.
func (s *Session) Route(ctx context.Context, topic string) (*Route, error) {
	s.mu.Lock()
	e := s.routes[topic]
	if e == nil || e.route == nil || s.believedAbsent(e) {
		s.mu.Unlock()
		return s.AskRoute(ctx, topic)
	}
	route := e.route
	if time.Since(e.at) > s.o.RouteAge && !e.asking && !s.closed {
		e.asking = true
		s.wg.Add(1)
		go s.refreshRoute(topic)
	}
	s.mu.Unlock()
	return route, nil
}

func (s *Session) refreshRoute(topic string) {
	defer s.wg.Done()
	_, err := s.AskRoute(s.ctx, topic)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.routes[topic]; e != nil {
		e.asking = false
		if err != nil {
			e.at = time.Now().Add(time.Second - s.o.RouteAge) // ask again in a second
		}
	}
}

// believedAbsent tells whether a topic has been said to be absent for long. mu
// is held.
func (s *Session) believedAbsent(e *routeEntry) bool {
	return !e.absentSince.IsZero() && time.Since(e.absentSince) > s.o.AbsentAfter
}

// AskRoute asks a proxy for a topic now. A topic that was seen before and is
// said not to be there is an Error with PROXY_TIMEOUT for a while, since proxies
// say so of topics whose brokers are down; see Options.AbsentAfter.
func (s *Session) AskRoute(ctx context.Context, topic string) (*Route, error) {
	const op = "route"
	var res *v2.QueryRouteResponse
	err := s.unary(ctx, op, s.id, func(ctx context.Context) (st *v2.Status, err error) {
		res, err = s.rpc.QueryRoute(ctx, &v2.QueryRouteRequest{Topic: s.resource(topic), Endpoints: s.points})
		return res.GetStatus(), err
	})
	if code := CodeOf(err); code == v2.Code_TOPIC_NOT_FOUND || code == v2.Code_NOT_FOUND {
		return nil, s.absent(topic, err)
	}
	if err != nil {
		return nil, err
	}
	r := routeOf(topic, res.GetMessageQueues())
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.routes[topic]
	if e == nil {
		e = &routeEntry{}
		s.routes[topic] = e
	}
	e.route, e.at, e.absentSince = r, time.Now(), time.Time{}
	return r, nil
}

// absent notes that a topic is said not to be there, and says whether that is
// believed.
func (s *Session) absent(topic string, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.routes[topic]
	if e == nil || e.route == nil {
		return err
	}
	if e.absentSince.IsZero() {
		e.absentSince = time.Now()
	}
	if s.believedAbsent(e) {
		delete(s.routes, topic)
		return err
	}
	var was *Error
	errors.As(err, &was)
	return &Error{Op: was.Op, Code: v2.Code_PROXY_TIMEOUT, Message: "the topic is said not to be there, and was a moment ago: its brokers may be down: " + was.Message}
}

// Known lists the topics that were seen and are not believed to be absent.
func (s *Session) Known() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, e := range s.routes {
		if e.route != nil && !s.believedAbsent(e) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

func routeOf(topic string, queues []*v2.MessageQueue) *Route {
	r := &Route{Topic: topic}
	seen := map[Queue]bool{}
	for _, q := range queues {
		p := q.GetPermission()
		one := Queue{
			Broker: q.GetBroker().GetName(), ID: int(q.GetId()),
			Readable: p == v2.Permission_READ || p == v2.Permission_READ_WRITE,
			Writable: p == v2.Permission_WRITE || p == v2.Permission_READ_WRITE,
		}
		if key := (Queue{Broker: one.Broker, ID: one.ID}); !seen[key] { // a replica tells the same queues again
			seen[key] = true
			r.Queues = append(r.Queues, one)
		}
		for _, t := range q.GetAcceptMessageTypes() {
			if t != v2.MessageType_MESSAGE_TYPE_UNSPECIFIED && !slices.Contains(r.Types, t) {
				r.Types = append(r.Types, t)
			}
		}
	}
	slices.SortFunc(r.Queues, func(a, b Queue) int {
		return cmp.Or(cmp.Compare(a.Broker, b.Broker), cmp.Compare(a.ID, b.ID))
	})
	return r
}

package server

import (
	"context"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/ackmesh/ackmesh/server/dispatch"
	"github.com/ackmesh/ackmesh/server/recommend"
)

// serviceState is what health is told by. It is guarded by Server.stateMu, which
// is held over telling, so that the last to change tells last.
type serviceState struct {
	ready   bool  // the stores are open
	drained bool  // an operator has asked for it
	disk    error // why writes are refused
	store   error // why the offset store takes no writes, if not for that
}

// change changes the state and tells health.
func (s *Server) change(fn func(*serviceState)) {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	fn(&s.state)
	s.ready.Store(s.state.ready)
	st := healthpb.HealthCheckResponse_NOT_SERVING
	if s.state.ready && !s.state.drained && s.state.disk == nil && s.state.store == nil {
		st = healthpb.HealthCheckResponse_SERVING
	}
	s.setHealth(st)
}

// drained tells whether an operator has drained the instance.
func (s *Server) drained() bool {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	return s.state.drained
}

// ID is the instance's.
func (s *Server) ID() string { return s.core.id }

// DefaultGrace is how long clients have by default to finish what is in flight.
func (s *Server) DefaultGrace() time.Duration { return s.cfg.Drain.Grace }

// Drain turns health to NOT_SERVING, refuses new streams and tells the live ones
// to go; they have grace to finish what is in flight. It returns how many there
// are, without waiting for their end. The instance is Ready.
func (s *Server) Drain(grace time.Duration) (streams int) {
	s.draining.Lock()
	defer s.draining.Unlock()
	s.change(func(st *serviceState) { st.drained = true })
	streams, _ = s.core.d.BeginDrain(context.Background(), grace)
	s.log.Info("drained: no new streams, live ones are told to go", "streams", streams, "grace", grace)
	return streams
}

// EndDrain takes streams again.
func (s *Server) EndDrain() {
	s.draining.Lock()
	defer s.draining.Unlock()
	s.core.d.EndDrain()
	s.change(func(st *serviceState) { st.drained = false })
	s.log.Info("streams are taken again")
}

// instances is what Recommend chooses from: alone, this one, unless it is
// drained.
func (s *Server) instances() []recommend.Instance {
	if s.drained() {
		return nil
	}
	return []recommend.Instance{{
		ID: s.core.id, URL: s.advertise(), Sampled: true,
		Load: recommend.Load{Sessions: int(s.core.d.Metrics.StreamsLive.Load())},
	}}
}

// goTo says where a client should go that cannot stay here: to the freest of the
// other instances, if there are any.
func (s *Server) goTo(string) (dispatch.Instance, bool) {
	list := s.instances()
	others := list[:0]
	for _, in := range list {
		if in.ID != s.core.id {
			others = append(others, in)
		}
	}
	in, score, err := recommend.Choose(others, nil)
	if err != nil {
		return dispatch.Instance{}, false
	}
	return dispatch.Instance{ID: in.ID, URL: in.URL, Score: score}, true
}

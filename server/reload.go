package server

import (
	"errors"
	"fmt"
	"sync"
)

// reloads are what is read again without a restart.
type reloads struct {
	mu   sync.Mutex
	list []reload
}

type reload struct {
	what string
	do   func() error
}

// onReload has do called by each Reload.
func (s *Server) onReload(what string, do func() error) {
	s.reloads.mu.Lock()
	defer s.reloads.mu.Unlock()
	s.reloads.list = append(s.reloads.list, reload{what, do})
}

// noReload ends that: what would be read is closed.
func (s *Server) noReload() {
	s.reloads.mu.Lock()
	defer s.reloads.mu.Unlock()
	s.reloads.list = nil
}

// Reload reads certificates and tokens again, and opens the audit log anew. What
// cannot be read stays as it was; that is logged and returned. Streams whose
// tokens no longer allow what they do end. It may be called at any time, before
// Run and after too, when it does nothing.
func (s *Server) Reload() error {
	s.reloads.mu.Lock()
	defer s.reloads.mu.Unlock()
	var errs []error
	for _, r := range s.reloads.list {
		result := "ok"
		if err := r.do(); err != nil {
			result = "failed"
			errs = append(errs, fmt.Errorf("reload of %s: %w", r.what, err))
			s.log.Error("reload failed, what was read before stays", "what", r.what, "error", err)
		} else {
			s.log.Info("reloaded", "what", r.what)
		}
		s.meters.reloads.WithLabelValues(r.what, result).Inc()
	}
	return errors.Join(errs...)
}

package server

import (
	"context"
	"time"
)

// storeLook is the time between two looks at whether the offset store takes writes.
const storeLook = time.Second

// watchStore turns health to NOT_SERVING while the offset store takes no writes:
// nothing is delivered then, and where the store has failed it stays so until the
// next start. Of a full disk the guard tells at once, and of nothing else.
func (s *Server) watchStore(ctx context.Context) {
	tick := time.NewTicker(storeLook)
	defer tick.Stop()
	for told := error(nil); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := s.core.store.Healthy()
		if err != nil && s.core.guard.check() != nil {
			err = nil
		}
		if (err == nil) == (told == nil) {
			continue
		}
		told = err
		s.change(func(st *serviceState) { st.store = err })
		if err != nil {
			s.log.Error("nothing is delivered: the offset store takes no writes", "error", err)
			continue
		}
		s.log.Info("the offset store takes writes again")
		s.core.d.Unblocked()
	}
}

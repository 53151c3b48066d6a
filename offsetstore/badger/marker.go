package badger

import (
	"fmt"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// Marker implements offsetstore.Store.
func (s *Store) Marker(key offsetstore.Key) (offsetstore.Marker, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	e, _, _ := s.index.get(key)
	if e == nil {
		return nil, fmt.Errorf("offset store: marker of %v: %w", key, offsetstore.ErrNotFound)
	}
	return &marker{s: s, e: e}, nil
}

type marker struct {
	s *Store
	e *entry
}

// Mark implements offsetstore.Marker: one write of 32 bytes into space that
// the file has, so that it works on a full disk too.
func (m *marker) Mark(epoch uint64, high int64) error {
	if err := m.s.usable(); err != nil {
		return err
	}
	e, next := m.e, mark{epoch, high}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead {
		return fmt.Errorf("offset store: mark: %w", offsetstore.ErrNotFound)
	}
	if !next.above(e.mark) {
		return nil
	}
	if err := m.s.marks.write(e.slot, next); err != nil {
		return fmt.Errorf("offset store %s: %w", m.s.dir, err)
	}
	e.mark = next
	return nil
}

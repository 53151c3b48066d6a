package server

import (
	"path/filepath"
	"sync/atomic"

	"github.com/ackmesh/ackmesh/offsetstore/badger"
	"github.com/ackmesh/ackmesh/server/diskguard"
)

// guard watches the disk that the data directory is on.
type guard interface {
	// check returns nil while writes may go on, else why not.
	check() error
	// room asks for free bytes for what cannot be put off.
	room(need int64) error
	// onChange calls fn with each change of what check returns; nil: no more.
	onChange(fn func(error))
	close() error
}

// noGuard is for instances that keep nothing on disk.
type noGuard struct{}

func (noGuard) check() error         { return nil }
func (noGuard) room(int64) error     { return nil }
func (noGuard) onChange(func(error)) {}
func (noGuard) close() error         { return nil }

// diskGuard keeps the data directory's disk from running full.
type diskGuard struct {
	g      *diskguard.Guard
	notify atomic.Pointer[func(error)]
	cancel func()
}

// segmentRoom is the room for the segment that the log prepares ahead.
func segmentRoom(total int64) int64 { return 2 * min(max(total/64, 1<<20), 64<<20) }

// openGuard watches the disk of the data directory.
func (s *Server) openGuard() (guard, error) {
	if s.parts.Backend != nil || s.cfg.Storage == StorageMemory {
		return noGuard{}, nil
	}
	u, err := diskguard.Statfs(s.cfg.Data)
	if err != nil {
		return nil, err
	}
	sizes, err := badger.SizesOf(filepath.Join(s.cfg.Data, offsetsDir))
	if err != nil {
		return nil, err
	}
	margin := int64(s.cfg.Disk.Margin)
	if margin == 0 {
		margin = sizes.Margin() + segmentRoom(u.Total)
	}
	g, err := diskguard.New(diskguard.Options{Dir: s.cfg.Data, Margin: margin, Ballast: sizes.Needs(), Logger: s.log})
	if err != nil {
		return nil, err
	}
	d := &diskGuard{g: g}
	d.cancel = g.Subscribe(d.changed)
	g.Start()
	return d, nil
}

func (d *diskGuard) changed(err error) {
	if fn := d.notify.Load(); fn != nil && *fn != nil {
		(*fn)(err)
	}
}

func (d *diskGuard) check() error          { return d.g.Check() }
func (d *diskGuard) room(need int64) error { return d.g.Room(need) }

// onChange also tells fn at once when writes are refused already.
func (d *diskGuard) onChange(fn func(error)) {
	d.notify.Store(&fn)
	if err := d.g.Check(); err != nil && fn != nil {
		fn(err)
	}
}

func (d *diskGuard) close() error {
	d.cancel()
	d.g.Stop()
	return nil
}

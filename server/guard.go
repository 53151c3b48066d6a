package server

import (
	"path/filepath"

	"github.com/ackmesh/ackmesh/offsetstore/badger"
	"github.com/ackmesh/ackmesh/server/diskguard"
)

// guard watches the disk that the data directory is on.
type guard interface {
	// check returns nil while writes may go on, else why not.
	check() error
	// room asks for free bytes for what cannot be put off.
	room(need int64) error
	// onChange calls fn, one call at a time, with each change of what check returns
	// between nil and an error; nil: no more.
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
	cancel func()

	telling chan struct{} // held while fn is told
	fn      func(error)   // nil: nobody is to be told
	refused bool          // what fn was told last
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
	return watchDisk(g), nil
}

// watchDisk starts a guard.
func watchDisk(g *diskguard.Guard) *diskGuard {
	d := &diskGuard{g: g, telling: make(chan struct{}, 1)}
	d.cancel = g.Subscribe(d.changed)
	g.Start()
	return d
}

func (d *diskGuard) check() error          { return d.g.Check() }
func (d *diskGuard) room(need int64) error { return d.g.Room(need) }

// onChange also tells fn at once when writes are refused already. What was told
// before is not called any more when it returns.
func (d *diskGuard) onChange(fn func(error)) {
	d.telling <- struct{}{}
	defer func() { <-d.telling }()
	d.fn, d.refused = fn, false
	d.tell()
}

// changed tells how it is now, which may not be how it was when the guard saw a
// change.
func (d *diskGuard) changed(error) {
	d.telling <- struct{}{}
	defer func() { <-d.telling }()
	d.tell()
}

// tell tells fn what it was not told yet. The caller holds telling.
func (d *diskGuard) tell() {
	if d.fn == nil {
		return
	}
	if err := d.g.Check(); (err != nil) != d.refused {
		d.refused = err != nil
		d.fn(err)
	}
}

func (d *diskGuard) close() error {
	d.cancel()
	d.g.Stop()
	return nil
}

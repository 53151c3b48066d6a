// Package diskguard watches the free space of the filesystem that a data
// directory is on and refuses writes while a margin is still free. Files that
// are mapped into memory need that: a write to a mapped page that the disk has
// no room for is SIGBUS, which ends the process.
//
// A ballast file holds back some space. It is released when something must be
// done that needs room, like closing a database, and made anew when the disk
// has space again; until then its size counts as used, so that releasing it
// opens no writes.
//
// What it cannot do: stop another process. One that fills the margin faster
// than a commit and the flush behind it take may still cause a SIGBUS.
package diskguard

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// ErrFull is the cause when too little space is free to write.
var ErrFull = errors.New("disk is full")

// Options of a Guard.
type Options struct {
	// Dir is the data directory; it must exist.
	Dir string
	// Margin is how many bytes are to stay free: below it writes are refused,
	// above 1.25 times it they go on.
	Margin int64
	// Ballast is the size of the ballast file, in bytes. Default 0: none.
	Ballast int64
	// Interval is the time between two measurements. Default 200 ms.
	Interval time.Duration
	// Usage measures. Default: Statfs.
	Usage func(dir string) (Usage, error)
	// Logger gets changes. Default: discarded.
	Logger *slog.Logger
}

// fresh is how old a measurement may be for Check to rely on it.
const fresh = time.Millisecond

// minInodes is how many files are to stay possible to make.
const minInodes = 64

// Guard watches one filesystem. All methods may be called concurrently.
type Guard struct {
	opt  Options
	last atomic.Pointer[measurement]

	wake  chan struct{}
	stop  chan struct{}
	ended chan struct{}
	start sync.Once
	halt  sync.Once

	mu      sync.Mutex // held to measure and to change the ballast
	ballast bool       // is there
	without bool       // it could not be made, and that was told

	subsMu sync.Mutex
	subs   map[int]func(error)
	nextID int
}

// measurement is what was found, and what follows from it.
type measurement struct {
	at   time.Time
	free int64 // bytes that may be used: less a ballast to be made anew
	err  error // why writes are refused
}

// New measures once, and makes the ballast if there is room for it. It starts
// no goroutine: see Start.
func New(o Options) (*Guard, error) {
	if o.Interval <= 0 {
		o.Interval = 200 * time.Millisecond
	}
	if o.Usage == nil {
		o.Usage = Statfs
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Guard{
		opt: o, wake: make(chan struct{}, 1), stop: make(chan struct{}),
		ended: make(chan struct{}), subs: map[int]func(error){},
	}
	g.ballast = ballastIsWhole(g.ballastPath(), o.Ballast)
	if _, err := o.Usage(o.Dir); err != nil {
		return nil, fmt.Errorf("free space of %s: %w", o.Dir, err)
	}
	if g.last.Store(&measurement{}); g.Measure() == nil {
		g.refill()
	}
	return g, nil
}

func (g *Guard) ballastPath() string { return filepath.Join(g.opt.Dir, BallastFile) }

// Start starts the goroutine that measures. It is to be called once; Stop ends
// it.
func (g *Guard) Start() { g.start.Do(func() { go g.run() }) }

// Stop ends the goroutine and waits for it, also when there is none. The
// ballast stays for the next start. Check goes on to work.
func (g *Guard) Stop() {
	g.start.Do(func() { close(g.ended) })
	g.halt.Do(func() { close(g.stop) })
	<-g.ended
}

func (g *Guard) run() {
	defer close(g.ended)
	tick := time.NewTicker(g.opt.Interval)
	defer tick.Stop()
	told := g.last.Load().err
	for {
		select {
		case <-tick.C:
			if g.Measure() == nil {
				g.refill()
			}
		case <-g.wake:
		case <-g.stop:
			return
		}
		if err := g.last.Load().err; (err == nil) != (told == nil) {
			told = err
			g.tell(err)
		}
	}
}

// Check returns nil while writes may go on, else an error that wraps ErrFull
// or tells why it is not known. It relies on a measurement of the last ms, in which
// a disk takes far less than any margin, and else measures: one statfs.
func (g *Guard) Check() error {
	m := g.last.Load()
	if time.Since(m.at) > fresh && g.mu.TryLock() {
		defer g.mu.Unlock()
		return g.measure().err
	}
	return m.err
}

// Measure measures now and returns what Check would.
func (g *Guard) Measure() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.measure().err
}

// measure replaces the last measurement. The caller holds the lock.
func (g *Guard) measure() *measurement {
	u, err := g.opt.Usage(g.opt.Dir)
	before := g.last.Load()
	m := &measurement{at: time.Now(), free: u.Free}
	if !g.ballast {
		m.free -= g.opt.Ballast
	}
	m.err = g.judge(m.free, u, err, before.err)
	g.last.Store(m)
	if (m.err == nil) != (before.err == nil) {
		g.log(m)
		select {
		case g.wake <- struct{}{}:
		default: // the goroutine will look anyway
		}
	}
	return m
}

// judge says why writes are refused. Once refused, they go on a quarter of the
// margin later than they would have been stopped.
func (g *Guard) judge(free int64, u Usage, err, before error) error {
	limit := g.opt.Margin
	if before != nil {
		limit += limit / 4
	}
	switch {
	case err != nil:
		return fmt.Errorf("free space of %s: %w", g.opt.Dir, err)
	case free < limit:
		return fmt.Errorf("%w: %s has %s free, writes go on at %s: free some space", ErrFull,
			g.opt.Dir, mebibytes(u.Free), mebibytes(g.opt.Margin+g.opt.Margin/4+u.Free-free))
	case u.Inodes >= 0 && u.Inodes < minInodes:
		return fmt.Errorf("%w: the filesystem of %s can take %d more files, needed are %d: remove some",
			ErrFull, g.opt.Dir, u.Inodes, minInodes)
	}
	return nil
}

func (g *Guard) log(m *measurement) {
	if m.err != nil {
		g.opt.Logger.Error("writes are refused", "error", m.err)
		return
	}
	g.opt.Logger.Info("writes go on", "dir", g.opt.Dir, "free", m.free)
}

// Subscribe calls fn with each change of what Check returns between nil and
// an error, from the guard's goroutine; fn must not block. Changes that follow
// closely may be told as one. cancel ends that; fn may be running then.
func (g *Guard) Subscribe(fn func(error)) (cancel func()) {
	g.subsMu.Lock()
	defer g.subsMu.Unlock()
	id := g.nextID
	g.nextID++
	g.subs[id] = fn
	return func() {
		g.subsMu.Lock()
		defer g.subsMu.Unlock()
		delete(g.subs, id)
	}
}

func (g *Guard) tell(err error) {
	g.subsMu.Lock()
	fns := make([]func(error), 0, len(g.subs))
	for _, fn := range g.subs {
		fns = append(fns, fn)
	}
	g.subsMu.Unlock()
	for _, fn := range fns {
		fn(err)
	}
}

// Room sees to it that need bytes are free for what cannot be put off, and
// releases the ballast if they are not. An error wraps ErrFull.
func (g *Guard) Room(need int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	u, err := g.opt.Usage(g.opt.Dir)
	if err == nil && u.Free < need && g.ballast {
		g.opt.Logger.Warn("the ballast is released", "file", g.ballastPath(), "free", u.Free, "needed", need)
		if err = g.release(); err == nil {
			u, err = g.opt.Usage(g.opt.Dir)
		}
	}
	g.measure()
	switch {
	case err != nil:
		return fmt.Errorf("free space of %s: %w", g.opt.Dir, err)
	case u.Free < need:
		return fmt.Errorf("%w: %s has %s free, needed are %s: free some space",
			ErrFull, g.opt.Dir, mebibytes(u.Free), mebibytes(need))
	}
	return nil
}

// mebibytes writes a size for people.
func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

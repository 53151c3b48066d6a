// Package memory is a message log in memory, for tests and trials. It keeps
// every promise of package storage except that nothing outlives the process;
// Reopen and Crash stand for a restart of the process on the same log.
//
// It has the capabilities Bounder, TopicAdmin, Trimmer, Fingerprinter,
// Checkpointer and Liter, topic identities and deduplication. It takes no acks.
package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

// Defaults of Options.
const (
	DefaultPartitions  = 4
	DefaultDedupWindow = 2 * time.Minute
)

// MaxPartitions is the most partitions that a topic may have.
const MaxPartitions = 1024

// MaxFrame is the largest frame that Append takes, in bytes.
const MaxFrame = 16 << 20

// runLength is how many events without a key go to one partition in a row.
const runLength = 64

// Options of a log. The zero value is usable.
type Options struct {
	// Partitions of a topic that is made without a number. 0: 4.
	Partitions int
	// NoAutoCreate: Append and EnsureTopic do not make missing topics.
	NoAutoCreate bool
	// Clock gives the time of append and decides about retention and
	// deduplication. Waiting in Poll is by the real clock, or that of the
	// synctest bubble. It may be called concurrently and must not block.
	// nil: time.Now.
	Clock func() time.Time
	// DedupWindow is how long a DedupKey is remembered. 0: 2 minutes; less:
	// events are not deduplicated.
	DedupWindow time.Duration
	// MaxBytes bounds the frame bytes that one partition keeps: the oldest
	// records are dropped, never the newest. 0: no bound.
	MaxBytes int64
	// Gap, where not nil, tells how many offsets stay unused after a record:
	// for tests of offsets with gaps. It is called under a lock: it must not
	// block nor call the log.
	Gap func(topic, partition string, offset int64) int64
	// LeaderEpochs: records have leader epochs, and Truncate begins a new one.
	LeaderEpochs bool
	// PartitionName names partition i of a topic; distinct i, distinct name.
	// nil: the decimal number.
	PartitionName func(i int) string
}

func (o Options) withDefaults() Options {
	if o.Partitions <= 0 {
		o.Partitions = DefaultPartitions
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.DedupWindow == 0 {
		o.DedupWindow = DefaultDedupWindow
	}
	if o.PartitionName == nil {
		o.PartitionName = strconv.Itoa
	}
	return o
}

// Backend is an open log. All methods may be called concurrently.
type Backend struct {
	log *log

	mu     sync.Mutex // guards closed, and calls.Add against Close
	closed bool
	calls  sync.WaitGroup // calls under way
	done   chan struct{}  // closed by Close
}

// log is what outlives a Backend: topics with their records.
type log struct {
	opts Options

	mu     sync.RWMutex // guards topics
	topics map[string]*topic
}

var (
	_ storage.Backend       = (*Backend)(nil)
	_ storage.Bounder       = (*Backend)(nil)
	_ storage.TopicAdmin    = (*Backend)(nil)
	_ storage.Trimmer       = (*Backend)(nil)
	_ storage.Fingerprinter = (*Backend)(nil)
	_ storage.Checkpointer  = (*Backend)(nil)
	_ storage.Liter         = (*Backend)(nil)
)

// lastTopicID makes topic identities unique in the process, so that another
// log is not taken for this one.
var lastTopicID atomic.Int64

// New makes an empty log and opens it.
func New(opts Options) *Backend {
	return open(&log{opts: opts.withDefaults(), topics: map[string]*topic{}})
}

func open(l *log) *Backend { return &Backend{log: l, done: make(chan struct{})} }

// Name is "memory".
func (b *Backend) Name() string { return "memory" }

// Close saves the pull offsets, wakes what waits and returns when no call is
// under way any more: every done of an Append has returned by then. A second
// Close returns nil.
func (b *Backend) Close() error {
	if b.stop() {
		b.log.saveCursors()
	}
	return nil
}

// Reopen closes b and opens its log again, as a process does that is stopped
// and started.
func (b *Backend) Reopen() *Backend {
	_ = b.Close() // always nil
	return open(b.log)
}

// Crash ends b without saving anything and opens its log again, as a process
// does that is killed and started: pull offsets are those of the last
// Checkpoint or Close.
func (b *Backend) Crash() *Backend {
	b.stop()
	b.log.loadCursors()
	return open(b.log)
}

// stop refuses new calls, wakes what waits and waits for the calls under
// way. It tells whether it was the first.
func (b *Backend) stop() bool {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	if first {
		close(b.done)
	}
	b.mu.Unlock()
	b.calls.Wait()
	return first
}

// enter begins a call; where it returns nil, leave must follow.
func (b *Backend) enter() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return fmt.Errorf("memory: %w", storage.ErrClosed)
	}
	b.calls.Add(1)
	return nil
}

func (b *Backend) leave() { b.calls.Done() }

// Checkpoint saves the pull offsets: what Crash finds.
func (b *Backend) Checkpoint(context.Context) error {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	b.log.saveCursors()
	return nil
}

// all lists the topics in order of name.
func (l *log) all() []*topic {
	l.mu.RLock()
	defer l.mu.RUnlock()
	list := make([]*topic, 0, len(l.topics))
	for _, name := range slices.Sorted(maps.Keys(l.topics)) {
		list = append(list, l.topics[name])
	}
	return list
}

func (l *log) saveCursors() { l.eachPartition(func(p *partition) { p.saved = p.cursor }) }
func (l *log) loadCursors() { l.eachPartition(func(p *partition) { p.cursor = p.saved }) }

func (l *log) eachPartition(f func(*partition)) {
	for _, t := range l.all() {
		for _, part := range append(t.allLites(), t) {
			part.mu.Lock()
			for _, p := range part.partitions {
				f(p)
			}
			part.mu.Unlock()
		}
	}
}

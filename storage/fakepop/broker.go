// Package fakepop is a POP log in memory, for tests: records are handed out to
// groups, invisible for a while, acked one by one, as RocketMQ 5 does it
// (RIP-19). What that does that surprises is done here too: a record that is
// handed out again is in another queue at another offset, only its ID stays; a
// receipt that was renewed is answered with OK when it is acked, and has no
// effect; an ordered group hands out again what was acked behind a record that
// was not; restarts and refusals happen on request.
//
// A Broker lasts, Backends are its clients: open two for two instances. Topics
// and records are those of a memory log, so that what is published can also be
// read by position. It keeps the contract of package storage; it is no model
// for a real broker's speed.
package fakepop

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
)

// Bounds of the invisible time, as RocketMQ 5 has them by default.
const (
	MinInvisible = 10 * time.Second
	MaxInvisible = 12 * time.Hour
)

// maxPop is the most records that one Pop returns.
const maxPop = 256

// Options of a Broker. The zero value is usable.
type Options struct {
	// Partitions of a topic that is made without a number. 0: 4.
	Partitions int
	// Clock decides what is visible and gives the time of append. It may be
	// called concurrently. After a jump call Broker.Wake. nil: time.Now.
	Clock func() time.Time
	// MaxDeliveries is how often a record is handed out to a group at most;
	// then the group has lost it (Counts.Dropped). 0: no limit.
	MaxDeliveries int
	// Raw hands out bodies that are no frames as they are, against the
	// contract of storage.Record, to see who relies on it. Else they are
	// wrapped into one.
	Raw bool
}

// Broker is what lasts: topics, records and groups. All methods may be called
// concurrently.
type Broker struct {
	opts Options

	mu       sync.Mutex
	log      *memory.Backend
	groups   map[groupKey]*group
	receipts map[string]receipt // every receipt ever given, by its text
	serial   int64              // of receipts
	wake     chan struct{}      // closed when something may be visible
	down     bool
	holdAcks chan struct{} // non-nil: acks wait until it is closed
	refuse   int           // so many acks are answered with a failure
	renewals int           // so many renewals fail in passing
	ackErr   error
	renewErr error
	counts   map[groupKey]*Counts
}

type groupKey struct{ topic, group string }

// Counts is what a group did at the broker.
type Counts struct {
	// Pops are the calls of Pop that returned records, Popped the records.
	Pops, Popped int
	// Acks counts the acks that had an effect, AckCalls all entries of all
	// calls of Ack, by message ID.
	Acks, AckCalls map[string]int
	// Handed counts how often a message was handed out, by ID.
	Handed map[string]int
	// Refused are the acks answered with a failure, Stale those of receipts
	// that were replaced or ran out.
	Refused, Stale int
	// Renewed and Released are receipts.
	Renewed, Released int
	// Dropped are the records that reached Options.MaxDeliveries.
	Dropped int
	// Opens are the calls of OpenGroup, Moves those of MoveGroup.
	Opens, Moves int
}

// New makes a broker without topics. Close it after its Backends.
func New(o Options) *Broker {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Broker{
		opts: o,
		log: memory.New(memory.Options{
			Partitions: o.Partitions, Clock: o.Clock,
			PartitionName: func(i int) string { return fmt.Sprintf("broker-a:%d", i) },
		}),
		groups: map[groupKey]*group{}, receipts: map[string]receipt{},
		wake: make(chan struct{}), counts: map[groupKey]*Counts{},
	}
}

// Close frees the log. A second Close returns nil.
func (br *Broker) Close() error { return br.current().Close() }

// Open connects a client.
func (br *Broker) Open() *Backend { return &Backend{br: br, done: make(chan struct{})} }

// current is the log as of now.
func (br *Broker) current() *memory.Backend {
	br.mu.Lock()
	defer br.mu.Unlock()
	return br.log
}

// Wake makes Pops that wait look again: after the clock has jumped.
func (br *Broker) Wake() {
	br.mu.Lock()
	defer br.mu.Unlock()
	br.wakeAll()
}

// wakeAll wakes what waits. mu is held.
func (br *Broker) wakeAll() {
	close(br.wake)
	br.wake = make(chan struct{})
}

// Stop makes every call of Pop, Ack, Renew, Release and OpenGroup fail with
// ErrUnavailable, those under way too, until Start: a proxy that is away.
func (br *Broker) Stop() {
	br.mu.Lock()
	defer br.mu.Unlock()
	br.down = true
	br.wakeAll()
}

// Start ends what Stop began. Receipts are still good.
func (br *Broker) Start() {
	br.mu.Lock()
	defer br.mu.Unlock()
	br.down = false
	br.wakeAll()
}

// RefuseAcks answers the next n entries of Ack with a failure that may pass.
func (br *Broker) RefuseAcks(n int) {
	br.mu.Lock()
	defer br.mu.Unlock()
	br.refuse = n
}

// RefuseRenewals makes the renewal of the next n receipts fail, each alone: they
// may still be good.
func (br *Broker) RefuseRenewals(n int) {
	br.mu.Lock()
	defer br.mu.Unlock()
	br.renewals = n
}

// FailAcks makes calls of Ack fail with err; nil heals.
func (br *Broker) FailAcks(err error) {
	br.mu.Lock()
	defer br.mu.Unlock()
	br.ackErr = err
}

// FailRenewals makes calls of Renew fail with err; nil heals.
func (br *Broker) FailRenewals(err error) {
	br.mu.Lock()
	defer br.mu.Unlock()
	br.renewErr = err
}

// HoldAcks makes calls of Ack wait until release is called or their context
// ends; those that were waiting then have an effect only after release.
func (br *Broker) HoldAcks() (release func()) {
	held := make(chan struct{})
	br.mu.Lock()
	br.holdAcks = held
	br.mu.Unlock()
	return sync.OnceFunc(func() {
		br.mu.Lock()
		if br.holdAcks == held {
			br.holdAcks = nil
		}
		br.mu.Unlock()
		close(held)
	})
}

// Groups names the groups of a topic, sorted.
func (br *Broker) Groups(topic string) []string {
	br.mu.Lock()
	defer br.mu.Unlock()
	var list []string
	for k := range br.groups {
		if k.topic == topic {
			list = append(list, k.group)
		}
	}
	slices.Sort(list)
	return list
}

// Counts returns a copy of what a group did so far.
func (br *Broker) Counts(topic, group string) Counts {
	br.mu.Lock()
	defer br.mu.Unlock()
	c := *br.count(groupKey{topic, group})
	c.Acks, c.AckCalls, c.Handed = clone(c.Acks), clone(c.AckCalls), clone(c.Handed)
	return c
}

func clone(m map[string]int) map[string]int {
	out := make(map[string]int, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

func (br *Broker) count(k groupKey) *Counts {
	c := br.counts[k]
	if c == nil {
		c = &Counts{Acks: map[string]int{}, AckCalls: map[string]int{}, Handed: map[string]int{}}
		br.counts[k] = c
	}
	return c
}

// Outstanding is how many records of a group are popped and not acked, as of
// now by the broker's clock.
func (br *Broker) Outstanding(topic, group string) int {
	br.mu.Lock()
	defer br.mu.Unlock()
	g := br.groups[groupKey{topic, group}]
	if g == nil {
		return 0
	}
	n, now := 0, br.opts.Clock()
	for _, f := range g.flights {
		if f.until.After(now) {
			n++
		}
	}
	return n
}

// ID is the identity of the message that was appended at a place.
func (br *Broker) ID(topic, partition string, offset int64) string {
	t, err := br.current().Topic(context.Background(), topic)
	if err != nil {
		return ""
	}
	return messageID(t.ID, partition, offset)
}

func messageID(topicID, partition string, offset int64) string {
	return fmt.Sprintf("01%s-%s-%016X", topicID, partition, offset)
}

// unavailable is what calls fail with while the broker is stopped. mu is held.
func (br *Broker) unavailable() error {
	if br.down {
		return fmt.Errorf("fakepop: the broker is stopped: %w", storage.ErrUnavailable)
	}
	return nil
}

// sortFlights puts flights into the order of their queues.
func sortFlights(list []*flight) {
	slices.SortFunc(list, func(a, b *flight) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.offset, b.offset))
	})
}

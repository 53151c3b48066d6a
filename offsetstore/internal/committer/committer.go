// Package committer runs the one goroutine that commits a store's
// transactions. Grouping is natural: what queued during a commit is the next
// group. Only behind a group that stands for many acks is there a pause, so that
// a store in full flow makes fewer and larger commits. A transaction that stands
// for none ends it: something may wait for that one.
package committer

import (
	"sync"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
)

const (
	// many acks in one group tell that the flow is full.
	many = 128
	// spacing is the least time from the beginning of such a group to that of the
	// next one.
	spacing = 5 * time.Millisecond
)

// Item is a transaction and who waits for it.
type Item struct {
	Txn *offsetstore.Txn
	// Done is to be called once, with the fate of the transaction.
	Done func(error)
}

// Committer queues transactions and commits them in groups. All methods may
// be called concurrently.
type Committer struct {
	commit func([]Item)
	wake   chan struct{} // holds one token while there is something to do
	hurry  chan struct{} // holds one while something that stands for no acks is queued
	ending chan struct{} // closed when the goroutine is to end
	ended  chan struct{}

	mu     sync.Mutex
	queue  []Item
	closed bool
}

// Start starts the goroutine. commit gets each group in the order of Submit,
// never two at once, and calls Done of every item; the slice is only lent.
// Whoever starts a Committer calls Close or Abort.
func Start(commit func([]Item)) *Committer {
	c := &Committer{commit: commit, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), ending: make(chan struct{}), ended: make(chan struct{})}
	go c.run()
	return c
}

// Submit queues a transaction; it does not block. Of a closed committer done
// is called with ErrClosed, from a goroutine of its own: never from Submit, so
// that the caller may hold a lock that done takes.
func (c *Committer) Submit(txn *offsetstore.Txn, done func(error)) {
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.queue = append(c.queue, Item{txn, done})
	}
	if txn.Acks == 0 {
		token(c.hurry)
	}
	c.mu.Unlock()
	if closed {
		go done(offsetstore.ErrClosed)
		return
	}
	token(c.wake)
}

// Close commits what is queued, ends the goroutine and waits for it.
func (c *Committer) Close() { c.end(false) }

// Abort is Close that drops what is queued and calls no Done for it: the death
// of the process, for tests. A group that is being committed is finished.
func (c *Committer) Abort() { c.end(true) }

func (c *Committer) end(drop bool) {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.ending)
	}
	if drop {
		c.queue = nil
	}
	c.mu.Unlock()
	token(c.wake)
	<-c.ended
}

// token puts a token into a channel for one, unless there is one: it is served
// after our change.
func token(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func (c *Committer) run() {
	defer close(c.ended)
	var group []Item
	for range c.wake {
		clear(group)
		var closed bool
		group, closed = c.swap(group[:0])
		began := time.Now()
		full := acks(group) >= many
		if len(group) > 0 {
			c.commit(group)
		}
		if closed {
			return
		}
		if full {
			c.pause(spacing - time.Since(began))
		}
	}
}

// acks is how many acks a group stands for.
func acks(group []Item) (n int) {
	for i := range group {
		n += group[i].Txn.Acks
	}
	return n
}

// pause waits, but neither with something queued that is in a hurry nor when the
// committer is to end.
func (c *Committer) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.hurry:
	case <-c.ending:
	}
}

// swap takes the queue and leaves an empty one. When closed, nothing can be
// queued any more.
func (c *Committer) swap(empty []Item) (group []Item, closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.hurry:
	default:
	}
	group, c.queue = c.queue, empty
	return group, c.closed
}

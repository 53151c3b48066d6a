// Package committer runs the one goroutine that commits a store's
// transactions. Grouping is natural: what queued during a commit is the next
// group. There is no timer.
package committer

import (
	"sync"

	"github.com/ackmesh/ackmesh/offsetstore"
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
	ended  chan struct{}

	mu     sync.Mutex
	queue  []Item
	closed bool
}

// Start starts the goroutine. commit gets each group in the order of Submit,
// never two at once, and calls Done of every item; the slice is only lent.
// Whoever starts a Committer calls Close or Abort.
func Start(commit func([]Item)) *Committer {
	c := &Committer{commit: commit, wake: make(chan struct{}, 1), ended: make(chan struct{})}
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
	c.mu.Unlock()
	if closed {
		go done(offsetstore.ErrClosed)
		return
	}
	c.signal()
}

// Close commits what is queued, ends the goroutine and waits for it.
func (c *Committer) Close() { c.end(false) }

// Abort is Close that drops what is queued and calls no Done for it: the death
// of the process, for tests. A group that is being committed is finished.
func (c *Committer) Abort() { c.end(true) }

func (c *Committer) end(drop bool) {
	c.mu.Lock()
	c.closed = true
	if drop {
		c.queue = nil
	}
	c.mu.Unlock()
	c.signal()
	<-c.ended
}

func (c *Committer) signal() {
	select {
	case c.wake <- struct{}{}:
	default: // a token is there: it is served after our change
	}
}

func (c *Committer) run() {
	defer close(c.ended)
	var group []Item
	for range c.wake {
		clear(group)
		var closed bool
		group, closed = c.swap(group[:0])
		if len(group) > 0 {
			c.commit(group)
		}
		if closed {
			return
		}
	}
}

// swap takes the queue and leaves an empty one. When closed, nothing can be
// queued any more.
func (c *Committer) swap(empty []Item) (group []Item, closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	group, c.queue = c.queue, empty
	return group, c.closed
}

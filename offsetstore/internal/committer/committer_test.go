package committer

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/ackmesh/ackmesh/offsetstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestGroupsAreWhatQueued: a group is what queued during the commit before it,
// in order.
func TestGroupsAreWhatQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		var sizes []int
		c := Start(func(group []Item) {
			sizes = append(sizes, len(group))
			<-hold
			for _, it := range group {
				it.Done(nil)
			}
		})
		var order []int
		submit := func(from, to int) {
			for i := from; i < to; i++ {
				c.Submit(&offsetstore.Txn{}, func(error) { order = append(order, i) })
			}
		}
		submit(0, 1)
		synctest.Wait()
		submit(1, 6)
		synctest.Wait()
		hold <- struct{}{}
		synctest.Wait()
		submit(6, 8)
		close(hold)
		c.Close()
		if len(sizes) != 3 || sizes[0] != 1 || sizes[1] != 5 || sizes[2] != 2 {
			t.Errorf("groups have %v transactions, want 1, 5, 2", sizes)
		}
		for i := range 8 {
			if len(order) != 8 || order[i] != i {
				t.Fatalf("answers came in the order %v", order)
			}
		}
	})
}

// TestDoneMaySubmit: an answer may bring the next transaction.
func TestDoneMaySubmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(succeed)
		n := 0
		var next func(error)
		next = func(error) {
			if n++; n < 10 {
				c.Submit(&offsetstore.Txn{}, next)
			}
		}
		c.Submit(&offsetstore.Txn{}, next)
		synctest.Wait()
		c.Close()
		if n != 10 {
			t.Errorf("%d answers of 10", n)
		}
	})
}

func succeed(group []Item) {
	for _, it := range group {
		it.Done(nil)
	}
}

// TestClosed: what comes after Close is told so, and not from Submit; a lock
// may be held there that the answer takes.
func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(succeed)
		c.Close()
		c.Close()
		var mu sync.Mutex
		var got error
		mu.Lock()
		c.Submit(&offsetstore.Txn{}, func(err error) {
			mu.Lock()
			defer mu.Unlock()
			got = err
		})
		mu.Unlock()
		synctest.Wait()
		if !errors.Is(got, offsetstore.ErrClosed) {
			t.Errorf("answer is %v, want ErrClosed", got)
		}
	})
}

// TestCloseWaits: every Close returns only when the queue is committed.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		committed := 0
		c := Start(func(group []Item) {
			<-hold
			committed += len(group)
			succeed(group)
		})
		c.Submit(&offsetstore.Txn{}, func(error) {})
		synctest.Wait()
		c.Submit(&offsetstore.Txn{}, func(error) {})
		var closed atomic.Int32
		for range 2 {
			go func() { c.Close(); closed.Add(1) }()
		}
		synctest.Wait()
		if closed.Load() > 0 {
			t.Fatal("closed while a commit was under way")
		}
		close(hold)
		synctest.Wait()
		if closed.Load() != 2 || committed != 2 {
			t.Errorf("%d of 2 closed, %d of 2 committed", closed.Load(), committed)
		}
	})
}

// TestAbortDropsTheQueue: as if the process had died.
func TestAbortDropsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		c := Start(func(group []Item) { <-hold; succeed(group) })
		answers := 0
		for range 3 {
			c.Submit(&offsetstore.Txn{}, func(error) { answers++ })
			synctest.Wait()
		}
		go c.Abort()
		synctest.Wait()
		close(hold)
		synctest.Wait()
		if answers != 1 {
			t.Errorf("%d answers, want that of the commit under way only", answers)
		}
	})
}

// TestPauseInFullFlow: behind a group of many acks the next one waits, behind one
// of few it does not.
func TestPauseInFullFlow(t *testing.T) {
	for _, tt := range []struct {
		acks int
		want time.Duration
	}{{0, 0}, {many - 1, 0}, {many, spacing}, {100 * many, spacing}} {
		synctest.Test(t, func(t *testing.T) {
			var began []time.Time
			c := Start(func(group []Item) {
				began = append(began, time.Now())
				succeed(group)
			})
			c.Submit(&offsetstore.Txn{Acks: tt.acks}, func(error) {})
			synctest.Wait()
			answered := make(chan struct{})
			c.Submit(&offsetstore.Txn{Acks: 1}, func(error) { close(answered) })
			<-answered
			c.Close()
			if got := began[1].Sub(began[0]); got != tt.want {
				t.Errorf("behind a group of %d acks the next one begins after %v, want %v", tt.acks, got, tt.want)
			}
		})
	}
}

// TestPauseEndsInAHurry: a transaction that stands for no acks is not held up, be it
// there when the pause begins or not, and takes with it what waits.
func TestPauseEndsInAHurry(t *testing.T) {
	for _, before := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			hold := make(chan struct{})
			var began []time.Time
			c := Start(func(group []Item) {
				began = append(began, time.Now())
				<-hold
				succeed(group)
			})
			c.Submit(&offsetstore.Txn{Acks: many}, func(error) {})
			synctest.Wait()
			c.Submit(&offsetstore.Txn{Acks: 1}, func(error) {})
			submit := func() { c.Submit(&offsetstore.Txn{}, func(error) {}) }
			if before {
				submit()
			}
			close(hold)
			synctest.Wait()
			if !before {
				submit()
				synctest.Wait()
			}
			if len(began) != 2 || began[1] != began[0] {
				t.Errorf("queued before the pause: %v: commits at %v, want two at the same time", before, began)
			}
			c.Close()
		})
	}
}

// TestNoPauseAtTheEnd: what is queued in a pause is committed by Close at once, and
// dropped by Abort.
func TestNoPauseAtTheEnd(t *testing.T) {
	for name, end := range map[string]func(*Committer){"Close": (*Committer).Close, "Abort": (*Committer).Abort} {
		synctest.Test(t, func(t *testing.T) {
			c := Start(succeed)
			answers := 0
			c.Submit(&offsetstore.Txn{Acks: many}, func(error) { answers++ })
			synctest.Wait()
			c.Submit(&offsetstore.Txn{Acks: 1}, func(error) { answers++ })
			began := time.Now()
			end(c)
			want := map[string]int{"Close": 2, "Abort": 1}[name]
			if took := time.Since(began); took > 0 || answers != want {
				t.Errorf("%s took %v and %d transactions were answered, want none and %d", name, took, answers, want)
			}
		})
	}
}

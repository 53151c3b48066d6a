package ledger

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sort"
	"time"

	"github.com/ackmesh/ackmesh/clients/go/internal/wire"
)

// Outcome is the fate of an ack or nack.
type Outcome uint8

// The outcomes, as AckResult names them.
const (
	Durable Outcome = iota + 1
	Retry
	Unknown
	Stale
	Fenced
)

// ErrRepeated: a delivery came with an id that is outstanding already.
var ErrRepeated = errors.New("delivery id used twice")

// Ledger is the account of a stream. The zero value is empty and ready.
type Ledger struct {
	entries []*Entry // rising ids, no overlap
	open    int      // acks sent and not answered, or to be sent again
	retry   int      // acks to be sent again
	crowd   int      // with so many entries, those behind the first are looked at
	pruned  bool     // entries were forgotten since Extend last looked
}

// Add takes an entry in.
func (l *Ledger) Add(e *Entry) error {
	k := len(l.entries)
	for k > 0 && l.entries[k-1].first > e.last() {
		k-- // mostly none or few: stretches come nearly in order
	}
	if k > 0 && l.entries[k-1].last() >= e.first {
		return fmt.Errorf("%w: %d to %d", ErrRepeated, e.first, e.last())
	}
	l.entries = slices.Insert(l.entries, k, e)
	return nil
}

// Find returns the entry and index of a delivery that is not done.
func (l *Ledger) Find(id uint64) (*Entry, int, bool) {
	k := l.search(id)
	if k == len(l.entries) || id < l.entries[k].first {
		return nil, 0, false
	}
	return l.entries[k], int(id - l.entries[k].first), true
}

// search returns the index of the first entry whose last id is at least id.
func (l *Ledger) search(id uint64) int {
	return sort.Search(len(l.entries), func(k int) bool { return l.entries[k].last() >= id })
}

// Open is how many acks were collected and are not answered for good.
func (l *Ledger) Open() int { return l.open }

// Uncollected is how many deliveries are acked, or about to be, and not collected.
func (l *Ledger) Uncollected() int {
	n := 0
	for _, e := range l.entries {
		n += e.settledCount() - e.decided
	}
	return n
}

// Retries is how many acks wait to be sent again.
func (l *Ledger) Retries() int { return l.retry }

// Collect appends the ids of the entry's acks that were not collected before.
// They are open from then on.
func (l *Ledger) Collect(e *Entry, dst []wire.Range) []wire.Range {
	e.queued.Store(false)
	for k := range e.words {
		w := &e.words[k]
		fresh := w.acked.Load() &^ w.seen
		if fresh == 0 {
			continue
		}
		w.seen |= fresh
		w.open |= fresh
		n := bits.OnesCount64(fresh)
		e.decided += n
		l.open += n
		dst = e.appendRanges(dst, k, fresh)
	}
	return dst
}

// CollectRetries appends the ids of all acks that were answered with Retry. They
// are open again.
func (l *Ledger) CollectRetries(dst []wire.Range) []wire.Range {
	if l.retry == 0 {
		return dst
	}
	for _, e := range l.entries {
		for k := range e.words {
			w := &e.words[k]
			again := w.retry &^ w.nacked
			w.retry &^= again
			w.open |= again
			l.retry -= bits.OnesCount64(again)
			dst = e.appendRanges(dst, k, again)
		}
	}
	return dst
}

// Nack settles a delivery as nacked and reports whether it was not settled
// before. The caller then sends it.
func (l *Ledger) Nack(e *Entry, i int) bool {
	w, bit := &e.words[i/64], uint64(1)<<(i%64)
	if w.settled.Or(bit)&bit != 0 {
		return false
	}
	w.open |= bit
	w.nacked |= bit
	e.decided++
	return true
}

// Drop settles what is not settled of indexes from to to-1, without an answer to
// the server, and returns how many that were.
func (l *Ledger) Drop(e *Entry, from, to int) int {
	dropped := 0
	for i := from; i < to; i++ {
		w, bit := &e.words[i/64], uint64(1)<<(i%64)
		if w.settled.Or(bit)&bit == 0 {
			e.decided++
			dropped++
		}
	}
	return dropped
}

// Apply takes an answer for a range of ids and calls changed for each stretch of
// deliveries, indexes from to to-1, that were open. Ids that are not open are left
// alone. A nack that is answered with Retry stays open: the caller knows with what
// to send it again.
func (l *Ledger) Apply(out Outcome, r wire.Range, changed func(e *Entry, from, to int, nack bool)) {
	for k := l.search(r.First); k < len(l.entries); k++ {
		e := l.entries[k]
		if e.first > r.Last {
			return
		}
		from := int(max(r.First, e.first) - e.first)
		to := int(min(r.Last, e.last())-e.first) + 1
		l.applyTo(e, out, from, to, changed)
	}
}

func (l *Ledger) applyTo(e *Entry, out Outcome, from, to int, changed func(*Entry, int, int, bool)) {
	for k := from / 64; 64*k < to; k++ {
		mask := between(from-64*k, to-64*k) & e.words[k].open
		l.answer(e, k, out, mask)
		nacked := e.words[k].nacked
		stretches(mask&^nacked, 64*k, func(a, b int) { changed(e, a, b, false) })
		stretches(mask&nacked, 64*k, func(a, b int) { changed(e, a, b, true) })
	}
}

// answer moves the bits of mask out of open.
func (l *Ledger) answer(e *Entry, k int, out Outcome, mask uint64) {
	w := &e.words[k]
	w.open &^= mask
	acks := bits.OnesCount64(mask &^ w.nacked)
	if out == Retry {
		w.retry |= mask &^ w.nacked
		w.open |= mask & w.nacked // sent again by the caller, who knows with what
		l.retry += acks
		return
	}
	l.open -= acks
}

// between is the mask of bits a to b-1, as far as they are in 0 to 63.
func between(a, b int) uint64 {
	mask := ^uint64(0)
	if b < 64 {
		mask = 1<<max(b, 0) - 1
	}
	if a > 0 {
		mask &= ^uint64(0) << min(a, 64)
	}
	return mask
}

// Prune forgets the entries with which nothing can happen any more.
func (l *Ledger) Prune() {
	keep := 0
	for keep < len(l.entries) && l.entries[keep].done() {
		keep++
	}
	// One stuck delivery must not keep all after it.
	if keep == 0 && len(l.entries) < max(l.crowd, leastCrowd) {
		return
	}
	n := len(l.entries)
	l.entries = slices.DeleteFunc(l.entries, (*Entry).done)
	l.pruned = l.pruned || len(l.entries) < n
	l.crowd = 2 * len(l.entries) // each is looked at twice or so for one that goes
}

// leastCrowd is how few entries are not worth a look.
const leastCrowd = 64

// Extend appends the ids that are held, in entries whose deadline was last moved
// before due. They count as extended at now. Left out is what the application took
// before oldest; and what still waits for its turn, if it has come no further with
// anything since then.
func (l *Ledger) Extend(dst []wire.Range, now, due, oldest time.Time) []wire.Range {
	moved := l.pruned
	l.pruned = false
	for _, e := range l.entries {
		moved = e.look(now) || moved
	}
	for _, e := range l.entries {
		if moved {
			e.waiting = now
		}
		if e.extended.After(due) {
			continue
		}
		for k := range e.words {
			if held := e.due(k, oldest); held != 0 {
				dst = e.appendRanges(dst, k, held)
				e.extended = now
			}
		}
	}
	return dst
}

// Unconfirmed calls f for each stretch of deliveries, indexes from to to-1, that
// were acked and whose ack was not answered for good.
func (l *Ledger) Unconfirmed(f func(e *Entry, from, to int)) {
	for _, e := range l.entries {
		for k := range e.words {
			w := &e.words[k]
			mask := w.acked.Load()&^w.seen | (w.open|w.retry)&^w.nacked
			stretches(mask, 64*k, func(a, b int) { f(e, a, b) })
		}
	}
}

// Held calls f for each stretch of deliveries, indexes from to to-1, whose fate
// is not decided.
func (l *Ledger) Held(f func(e *Entry, from, to int)) {
	for _, e := range l.entries {
		for k := range e.words {
			stretches(valid(e.n, k)&^e.words[k].settled.Load(), 64*k, func(a, b int) { f(e, a, b) })
		}
	}
}

// Len is how many entries are kept.
func (l *Ledger) Len() int { return len(l.entries) }

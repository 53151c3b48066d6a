package dispatch

import (
	"bytes"
	"slices"
	"time"

	"github.com/ackmesh/ackmesh/offset"
	"github.com/ackmesh/ackmesh/offsetstore"
)

// popChange is what a commit writes of a message.
type popChange struct {
	q     *popped
	entry popEntry
	done  bool // finished by it
	write bool // the entry is written
	txn   int  // which of several transactions of the commit writes it
	last  bool // the last one does
}

// unsaved tells whether there are deliveries that are not on disk.
func (f *feed) unsaved() bool { return f != nil && f.dirty }

// record adds to a commit what is to be kept of messages: which are finished
// with it, and what the others went through. Where that is more than fits one
// transaction it returns those that are to go before: what is in them is true
// even if the last one fails. The entry of a dead letter's message goes with the
// ledger's.
func (f *feed) record(v offsetstore.Value, txn *offsetstore.Txn) (before []*offsetstore.Txn) {
	if f == nil {
		return nil
	}
	f.dirty = false
	f.list(v)
	var written []*popChange
	var list []offsetstore.Record
	for i := range f.changes {
		switch c := &f.changes[i]; {
		case c.write && c.q.dead:
			txn.Sets = append(txn.Sets, f.recordOf(c))
			c.last = true
		case c.write:
			written, list = append(written, c), append(list, f.recordOf(c))
		}
	}
	parts := cutRecords(list)
	if len(parts) == 1 {
		txn.Sets = append(txn.Sets, list...)
		return nil
	}
	for n, part := range parts {
		before = append(before, &offsetstore.Txn{Sets: part})
		for _, c := range written[:len(part)] {
			c.txn = n
		}
		written = written[len(part):]
	}
	return before
}

// saved tells whether it was written by a commit that failed.
func (c *popChange) saved(fates []error) bool {
	n := c.txn
	if c.last {
		n = len(fates) - 1
	}
	return n >= 0 && n < len(fates) && fates[n] == nil
}

func (f *feed) recordOf(c *popChange) offsetstore.Record {
	return offsetstore.Record{Space: popSpace, Key: f.prefix + c.q.id, Value: c.entry.encode()}
}

// list lists what a commit of v changes of messages.
func (f *feed) list(v offsetstore.Value) {
	f.changes = f.changes[:0]
	now := time.Now().UnixMilli()
	finished, attempts := v.Finished, v.Attempts
	for _, q := range f.open {
		for len(finished) > 0 && finished[0].Last < q.off {
			finished = finished[1:]
		}
		for len(attempts) > 0 && attempts[0].Last < q.off {
			attempts = attempts[1:]
		}
		c := popChange{q: q, entry: popEntry{sent: 1, at: now}}
		switch {
		case q.off < v.Position || covers(finished, q.off):
			c.done, c.write = true, !q.silent
			c.entry = popEntry{finished: true, at: now}
			if f.at[q.off] != q { // dropped: it is not finished
				continue
			}
		case q.off >= v.High:
			continue
		default:
			c.failed(attempts)
			old, ok := f.known[q.id]
			if c.write = !ok || !c.entry.same(old); !c.write {
				continue
			}
		}
		if c.done {
			q.state = popFinishing
		}
		f.changes = append(f.changes, c)
	}
}

// failed takes over what an unfinished offset went through, if there is more to
// tell than that it is in flight for the first time. It may be kept for long
// then, so its memory becomes its own.
func (c *popChange) failed(attempts []offsetstore.Attempt) {
	if len(attempts) == 0 || attempts[0].First > c.q.off {
		return
	}
	a := attempts[0]
	c.entry.sent, c.entry.spent, c.entry.breaks, c.entry.due = a.Sent, a.Spent, a.Breaks, a.Due
	if !c.q.own {
		c.q.own, c.q.rec.Frame = true, bytes.Clone(c.q.rec.Frame)
	}
}

func covers(ranges []offset.Range, off int64) bool { return len(ranges) > 0 && ranges[0].Contains(off) }

// recorded ends a commit, after the clients were told: what is finished durably
// is acked at the broker. fates is how each of its transactions went, where there
// were several.
func (f *feed) recorded(err error, fates []error) {
	if f == nil {
		return
	}
	if err != nil {
		f.dirty = true
		for _, c := range f.changes {
			if c.q.state == popFinishing {
				c.q.state = popOpen
			}
			if c.write && c.saved(fates) { // on disk all the same
				f.known[c.q.id] = c.entry
			}
		}
		f.changes = f.changes[:0]
		return
	}
	for _, c := range f.changes {
		if c.write {
			f.known[c.q.id] = c.entry
		}
		if c.done && c.q.state == popFinishing {
			f.finished(c.q)
		}
	}
	clear(f.changes)
	f.changes = f.changes[:0]
	f.open = slices.DeleteFunc(f.open, func(q *popped) bool { return f.at[q.off] != q })
}

// finished takes a message out of what is held.
func (f *feed) finished(q *popped) {
	delete(f.at, q.off)
	f.metrics().Held.Add(-1)
	f.l.d.Metrics.WindowBytes.Add(-int64(q.size))
	q.rec.Frame = nil
	f.toAck(q)
}

// forgetIDs has entries taken off the disk.
func (f *feed) forgetIDs(ids []string) {
	if len(ids) == 0 {
		return
	}
	if len(f.unset) == 0 {
		f.unsetAt = time.Now().Add(unsetAfter)
	}
	f.unset = append(f.unset, ids...)
}

const (
	// unsetAfter and unsetMost are when entries that are not needed any more
	// are taken off the disk: many at once.
	unsetAfter = 200 * time.Millisecond
	unsetMost  = 256
)

// flushUnset takes entries off the disk, if it is time.
func (f *feed) flushUnset(now time.Time) {
	if len(f.unset) == 0 || f.unsetting || f.over {
		return
	}
	if now.Before(f.unsetAt) && (len(f.unset) < unsetMost && !f.l.stopping) {
		f.l.note(f.unsetAt)
		return
	}
	ids := f.unset[:min(len(f.unset), 4*unsetMost)]
	f.unset = f.unset[len(ids):]
	var list []offsetstore.Record
	for _, id := range ids {
		if q := f.byID[id]; q != nil && q.state != popConfirmed {
			continue // it came again as something new
		}
		delete(f.known, id)
		list = append(list, offsetstore.Record{Space: popSpace, Key: f.prefix + id})
	}
	if len(list) == 0 {
		return
	}
	f.unsetting = true
	submitUnsets(f.l.d.store, list, func(err error) {
		f.l.post(event{kind: evCall, call: func() { f.unsetDone(ids, err) }})
	})
}

// sweep forgets entries that are too old, once an hour, when the broker has had
// the time to hand them out.
func (f *feed) sweep(now time.Time) {
	if f.began.IsZero() {
		f.began = now
	}
	if now.Sub(f.swept) < time.Hour || now.Sub(f.began) < popKeep {
		return
	}
	f.swept = now
	oldest := now.Add(-popKeep).UnixMilli()
	for id, e := range f.known {
		if e.at < oldest && f.byID[id] == nil {
			f.forgetIDs([]string{id})
		}
	}
}

// unsetDone has entries tried again that could not be taken off.
func (f *feed) unsetDone(ids []string, err error) {
	f.unsetting = false
	if err == nil {
		return
	}
	f.metrics().ForgetFailures.Add(1)
	if f.l.stopping {
		f.unset = nil // they do no harm, and go when they are old
		return
	}
	f.unset = append(slices.Clone(ids), f.unset...)
	f.unsetAt = time.Now().Add(popLongestRetry)
}

package dispatch

import (
	"context"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

// toAck puts a finished message among those to be acked at the broker.
func (f *feed) toAck(q *popped) {
	q.state, q.tries, q.retryAt = popFinished, 0, time.Time{}
	f.acks = append(f.acks, q)
	f.metrics().PendingAcks.Add(1)
}

// ack acks at the broker what is due, one call at a time: what comes meanwhile
// shares the next.
func (f *feed) ack(now time.Time) {
	if f.acking || len(f.acks) == 0 || f.over {
		return
	}
	due := f.dueAcks(now)
	if len(due) == 0 {
		return
	}
	handles, vers := make([]any, len(due)), make([]int, len(due))
	for i, q := range due {
		handles[i], vers[i], q.busy = q.handle, q.ver, true
	}
	f.acking = true
	var known []bool
	var err error
	f.call(func(ctx context.Context) { known, err = f.l.d.pop.acker.Ack(ctx, handles) },
		func(now time.Time) { f.acked(due, vers, known, err, now) })
}

// dueAcks takes up to popBatch messages out of those to be acked, and gives up
// those whose receipt has run out.
func (f *feed) dueAcks(now time.Time) (due []*popped) {
	kept := f.acks[:0]
	for _, q := range f.acks {
		switch {
		case q.busy || len(due) == popBatch:
			kept = append(kept, q)
		case !now.Before(q.until):
			f.metrics().AckExpired.Add(1)
			f.giveUp(q)
			f.warn("a finished message could not be acked at the broker before its receipt ran out: it is acked when it comes again", "id", q.id, "tries", q.tries)
		case now.Before(q.retryAt):
			kept = append(kept, q)
			f.l.note(earlier(q.retryAt, q.until))
		default:
			due = append(due, q)
		}
	}
	clear(f.acks[len(kept):])
	f.acks = kept
	return due
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// acked takes the broker's answers: each message has its own.
func (f *feed) acked(list []*popped, vers []int, known []bool, err error, now time.Time) {
	f.acking = false
	if err != nil {
		f.metrics().AckFailures.Add(1)
		f.l.d.cfg.Logger.Debug("acks at the broker failed", "group", f.group, "error", err)
	}
	for i, q := range list {
		q.busy = false
		ok := i < len(known) && known[i]
		switch {
		case q.ver != vers[i]: // it came again meanwhile: the new receipt counts
			f.acks = append(f.acks, q)
		case ok:
			f.confirmed(q, now)
		case err == nil:
			f.metrics().AckUnknown.Add(1)
			f.giveUp(q)
		default:
			q.tries++
			q.retryAt = now.Add(backoffOf(q.tries + 1))
			f.acks = append(f.acks, q)
		}
	}
}

// giveUp forgets a finished message that the broker was not told of. Its entry
// stays, so that it is acked and not delivered if it comes again.
func (f *feed) giveUp(q *popped) {
	f.metrics().PendingAcks.Add(-1)
	if f.byID[q.id] == q {
		delete(f.byID, q.id)
	}
}

// forsake forgets, at the end, all that the broker was not told of.
func (f *feed) forsake() {
	if len(f.acks) > 0 {
		f.warn("finished messages are not acked at the broker yet: they are when they come again to a stream of the subscriber", "records", len(f.acks))
	}
	for _, q := range f.acks {
		f.giveUp(q)
	}
	f.acks = nil
}

const (
	// recentMost bounds the confirmed messages that are remembered.
	recentMost = 20_000
	// recentLeast is how long they are at least: a broker that is killed has
	// forgotten the acks of its last seconds, and hands those messages out
	// again when it is back.
	recentLeast = time.Minute
)

// confirmed ends a message's way. It is remembered for one invisible time, and
// recentLeast: an answer of the broker may cross with its handing it out again.
func (f *feed) confirmed(q *popped, now time.Time) {
	f.metrics().Acked.Add(1)
	f.metrics().PendingAcks.Add(-1)
	q.state, q.forget = popConfirmed, f.forgetAfter(now)
	q.rec, q.handle, q.history = storage.Record{Partition: q.rec.Partition, Offset: q.rec.Offset}, nil, nil // there are many
	f.recent = append(f.recent, q)
	if f.byID[q.id] == q && (!f.inOrder || f.given != nil && !f.openBefore(q)) { // else it has been handed out as something new since
		f.forgetEntry(q)
	}
}

// forgetAfter is until when what is confirmed now is remembered.
func (f *feed) forgetAfter(now time.Time) time.Time { return now.Add(max(f.invisible, recentLeast)) }

func (f *feed) forgetEntry(q *popped) {
	if _, ok := f.known[q.id]; ok {
		f.forgetIDs([]string{q.id})
	}
}

// purge forgets confirmed messages whose time is over. An ordered group hands
// out again what was acked behind a record that was not: such a message is kept
// until nothing before it in its partition is open.
func (f *feed) purge(now time.Time) {
	for len(f.recent) > 0 && (!now.Before(f.recent[0].forget) || len(f.recent) > recentMost && !f.inOrder) {
		q := f.recent[0]
		f.recent[0] = nil
		f.recent = f.recent[1:]
		if q.state != popConfirmed || f.byID[q.id] != q {
			continue
		}
		if f.inOrder && f.openBefore(q) {
			q.forget = f.forgetAfter(now)
			f.recent = append(f.recent, q)
			continue
		}
		delete(f.byID, q.id)
		f.forgetEntry(q)
	}
}

// leaveOrdered forgets, when an ordered feed gives up what it holds, the confirmed
// messages that do not come again with that.
func (f *feed) leaveOrdered() {
	if f.given == nil {
		f.given = map[string]int64{}
	}
	for _, q := range f.open {
		if low, ok := f.given[q.rec.Partition]; f.at[q.off] == q && (!ok || q.rec.Offset < low) {
			f.given[q.rec.Partition] = q.rec.Offset
		}
	}
	for _, q := range f.recent {
		if q.state == popConfirmed && f.byID[q.id] == q && !f.openBefore(q) {
			f.forgetEntry(q)
		}
	}
}

// openBefore tells whether something of q's partition before it is open, or was
// when the feed gave up what it held.
func (f *feed) openBefore(q *popped) bool {
	if low, ok := f.given[q.rec.Partition]; ok && low < q.rec.Offset {
		return true
	}
	for _, o := range f.open {
		if o.rec.Partition == q.rec.Partition && o.rec.Offset < q.rec.Offset {
			return true
		}
	}
	return false
}

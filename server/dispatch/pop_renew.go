package dispatch

import (
	"context"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

// renew renews the receipts of what is not finished before they run out: looked
// at six times in an invisible time, those with less than half of it left. What
// no stream may get, because all are paused, is released instead.
func (f *feed) renew(now time.Time) {
	if len(f.open) == 0 || f.renewing || f.l.parts[f.sub] == nil {
		return
	}
	if now.Before(f.renewAt) {
		f.l.note(f.renewAt)
		return
	}
	f.releasePaused(now)
	list, more := f.renewable(now)
	if !more {
		f.renewAt = now.Add(f.invisible / 6)
		f.l.note(f.renewAt)
	}
	if len(list) == 0 {
		return
	}
	handles, vers := make([]any, len(list)), make([]int, len(list))
	for i, q := range list {
		handles[i], vers[i], q.busy = q.handle, q.ver, true
	}
	f.renewing = true
	var out []storage.Renewed
	var err error
	f.call(func(ctx context.Context) { out, err = f.l.d.pop.Renew(ctx, handles, f.invisible) },
		func(after time.Time) { f.renewed(list, vers, out, err, now, after) })
}

// releasePaused gives up what no stream may get for now, because all of them are
// paused, instead of renewing it: others may have room.
func (f *feed) releasePaused(now time.Time) {
	p := f.l.parts[f.sub]
	n := len(f.queue)
	if n == 0 || f.queue[0].until.Sub(now) >= f.invisible/2 || !p.paused() {
		return
	}
	p.m.Pass(f.queue[n-1].off + 1)
	for _, q := range f.queue {
		f.discard(q)
		f.leaving = append(f.leaving, q)
	}
	f.queue, f.queueB = nil, 0
	f.l.touch(p)
}

// paused tells whether no stream of the part takes anything whatever it acks.
func (p *part) paused() bool {
	for _, a := range p.atts {
		if !a.b.s.isPaused(a.b) {
			return false
		}
	}
	return true
}

func (s *Stream) isPaused(b *binding) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending || b.gone || b.paused || s.max(b) == 0 || s.cfg.MaxBytes == 0
}

// renewable lists up to popBatch messages whose receipts are to be renewed.
func (f *feed) renewable(now time.Time) (list []*popped, more bool) {
	for _, q := range f.open {
		left := q.until.Sub(now)
		if q.busy || q.state != popOpen && q.state != popFinishing || f.at[q.off] != q || left <= 0 || left >= f.invisible/2 {
			continue
		}
		if len(list) == popBatch {
			return list, true
		}
		list = append(list, q)
	}
	return list, false
}

// renewed takes the new receipts. They are counted from when they were asked
// for.
func (f *feed) renewed(list []*popped, vers []int, out []storage.Renewed, err error, asked, now time.Time) {
	f.renewing = false
	failed := 0
	for i, q := range list {
		q.busy = false
		switch {
		case err == nil && i < len(out) && !out[i].OK && out[i].Handle != nil: // it may still be good
			failed++
		case err != nil || i >= len(out) || q.ver != vers[i]:
		case out[i].OK:
			q.handle, q.until = out[i].Handle, asked.Add(f.invisible)
			q.ver++
			f.metrics().Renewed.Add(1)
		default:
			q.until = asked // it comes again; what is not sent yet is not sent
		}
	}
	if err != nil {
		failed = len(list)
	}
	if failed > 0 {
		f.metrics().RenewFailures.Add(1)
		f.warn("receipts could not be renewed, trying again", "receipts", failed, "error", err)
		f.renewAt = now.Add(f.invisible / 20)
	}
}

// letGo gives up what is not finished, because the last stream has gone: it is
// visible to others again.
func (f *feed) letGo() {
	if f == nil {
		return
	}
	if f.inOrder {
		f.leaveOrdered()
	}
	for _, q := range f.open {
		if f.at[q.off] != q || q.state > popFinishing {
			continue
		}
		f.discard(q)
		f.leaving = append(f.leaving, q)
	}
	f.open, f.queue, f.queueB = nil, nil, 0
	f.release()
}

// release makes visible again what was given up. A receipt that is being
// renewed waits for the new one.
func (f *feed) release() {
	if len(f.leaving) == 0 || f.over {
		return
	}
	var handles []any
	kept := f.leaving[:0]
	for _, q := range f.leaving {
		if q.busy || len(handles) == popBatch {
			kept = append(kept, q)
			continue
		}
		handles = append(handles, q.handle)
	}
	f.leaving = kept
	if len(handles) == 0 {
		return
	}
	var err error
	f.call(func(ctx context.Context) { err = f.l.d.pop.Release(ctx, handles) }, func(time.Time) {
		if err != nil {
			f.warn("popped records could not be released: they come again when their time is over", "records", len(handles), "error", err)
			return
		}
		f.metrics().Released.Add(int64(len(handles)))
	})
}

package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/storage"
)

const (
	// proofsAtOnce bounds the records that are asked for at once.
	proofsAtOnce = 64
	// proofTimeout bounds the time that it takes.
	proofTimeout = 30 * time.Second
	// trailSteps is how many ends of batches are remembered.
	trailSteps = 16
)

// proof sees to it that positions are used on the log that they were counted
// in. With each commit a part keeps the fingerprints of two records: the last
// one below its position, and the last one that it has come past. A log that
// was cut below them, or made again, and has grown past them since, has others
// there. They are compared before anything is delivered to a part that was just
// opened, and again when a read tells of another leader, comes after a read that
// failed, or gets past an end that was below a position.
//
// It is the loop's.
type proof struct {
	l       *loop
	printer storage.Fingerprinter // nil: the log has none and is believed
	trail   trail
	epoch   int32 // highest leader epoch read, 0 before
	begun   bool  // there is one: something was read, now or before
	shaken  bool  // the last read at the cursor failed
	busy    bool  // the log is being asked
	notTill time.Time
}

func newProof(l *loop) proof {
	printer, _ := storage.As[storage.Fingerprinter](l.d.backend)
	return proof{l: l, printer: printer}
}

// none tells that the log cannot prove anything, or needs not: what is handed
// out has an identity of its own.
func (f *proof) none() bool { return f.printer == nil || f.l.pop != nil }

// remember brings the fingerprints of a part up to date: position is what it is
// about to commit.
func (f *proof) remember(p *part, position int64) {
	if f.none() || p.unproven {
		return
	}
	p.log.Floor = f.below(position, p.log.Floor)
	p.log.Top = f.below(p.m.NextNew(), p.log.Top)
}

// below is the fingerprint of the last record below next, of one further below
// where that is not in memory any more, or what there was.
func (f *proof) below(next int64, was offsetstore.Fingerprint) offsetstore.Fingerprint {
	if r := f.l.cache.below(next); r != nil {
		if was.Known() && r.Offset == was.Offset {
			return was
		}
		return offsetstore.Fingerprint(r.Fingerprint())
	}
	if end := f.trail.below(next); end.Known() && (!was.Known() || end.Offset > was.Offset) {
		return end
	}
	return was
}

// opened begins the proof of a part that was taken up.
func (f *proof) opened(p *part, now time.Time) {
	for _, known := range []offsetstore.Fingerprint{p.log.Floor, p.log.Top} {
		if known.Known() { // a later leader is one that may lack it
			f.begun, f.epoch = true, max(f.epoch, known.LeaderEpoch)
		}
	}
	if f.suspect(p) {
		f.prove(now)
	}
}

// suspect makes a part wait for its proof; false: there is nothing to prove it
// by.
func (f *proof) suspect(p *part) bool {
	p.unproven = !f.none() && (p.log.Floor.Known() || p.log.Top.Known())
	return p.unproven
}

// arriving sees what a batch tells of the log before it gets into the window.
func (f *proof) arriving(b *storage.Batch, tail bool, now time.Time) {
	if f.none() || len(b.Records) == 0 {
		return
	}
	last := &b.Records[len(b.Records)-1]
	risen := f.begun && last.LeaderEpoch > f.epoch
	if risen || tail && f.shaken {
		f.doubt(now)
	}
	if tail {
		f.shaken = false
	}
	f.begun, f.epoch = true, max(f.epoch, last.LeaderEpoch)
	f.trail.add(offsetstore.Fingerprint(last.Fingerprint()))
}

// doubt has every part proven again, and forgets what was read: the log may
// hold something else there by now.
func (f *proof) doubt(now time.Time) {
	for _, p := range f.l.parts {
		f.remember(p, p.m.Position())
		f.suspect(p)
	}
	f.forget()
	f.prove(now)
}

// forget drops what was read, and what is being read.
func (f *proof) forget() {
	f.l.cache.clear(f.l.d.freeChunk)
	f.trail = trail{}
	for off := range f.l.fetches {
		f.l.fetches[off] = false
	}
}

// again is to be called with each turn: it tries again what has failed.
func (f *proof) again(now time.Time) {
	switch {
	case f.notTill.IsZero():
	case now.Before(f.notTill):
		f.l.note(f.notTill)
	default:
		f.notTill = time.Time{}
		f.prove(now)
	}
}

// prove asks the log for the records that unproven parts rest on.
func (f *proof) prove(now time.Time) {
	if f.busy || f.none() {
		return
	}
	if now.Before(f.notTill) {
		f.l.note(f.notTill)
		return
	}
	verdicts := map[offsetstore.Fingerprint]bool{}
	for _, p := range f.l.parts {
		if p.unproven && len(verdicts) < proofsAtOnce {
			verdicts[p.log.Floor], verdicts[p.log.Top] = true, true
		}
	}
	delete(verdicts, offsetstore.Fingerprint{})
	if len(verdicts) == 0 {
		return
	}
	f.busy = true
	d, t, partition, printer := f.l.d, f.l.t, f.l.partition, f.printer
	d.readers.do(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, proofTimeout)
		defer cancel()
		low, err := t.compare(ctx, printer, partition, verdicts)
		f.l.post(event{kind: evCall, call: func() { f.proved(verdicts, low, err, time.Now()) }})
	})
}

// compare sets for each fingerprint whether the log may still be the one that
// has it: its record is there, or gone with nothing in its place. Where one is
// not, low is the log's minimum.
func (t *topic) compare(ctx context.Context, printer storage.Fingerprinter, partition string, verdicts map[offsetstore.Fingerprint]bool) (low int64, err error) {
	other := false
	for want := range verdicts {
		got, ok, err := printer.Fingerprint(ctx, t.name, partition, want.Offset+1)
		if err != nil {
			return 0, err
		}
		same := !ok || got.Offset < want.Offset || offsetstore.Fingerprint(got) == want
		verdicts[want] = same
		other = other || !same
	}
	if other {
		low, _, err = t.bounds(ctx, partition)
	}
	return low, err
}

// proved takes the answers in. Parts that others have kept from being asked
// about are next.
func (f *proof) proved(verdicts map[offsetstore.Fingerprint]bool, low int64, err error, now time.Time) {
	f.busy = false
	if err != nil {
		if !errors.Is(err, storage.ErrClosed) && !errors.Is(err, context.Canceled) {
			f.l.readFailed("compare", err)
		}
		f.notTill = now.Add(readRetry)
		f.l.note(f.notTill)
		return
	}
	for _, p := range f.l.parts {
		if p.unproven {
			f.judge(p, verdicts, low)
		}
	}
	f.prove(now)
}

// judge ends the wait of a part all of whose fingerprints were asked for.
func (f *proof) judge(p *part, verdicts map[offsetstore.Fingerprint]bool, low int64) {
	floor, top := p.log.Floor, p.log.Top
	floorSame, floorAsked := verdicts[floor]
	topSame, topAsked := verdicts[top]
	if floor.Known() && !floorAsked || top.Known() && !topAsked {
		return
	}
	p.unproven = false
	switch {
	case floor.Known() && !floorSame:
		f.replaced(p, low, floor.Offset)
	case top.Known() && !topSame && floor.Known():
		f.replaced(p, max(low, min(floor.Offset+1, p.m.Position())), top.Offset)
	case top.Known() && !topSame:
		f.replaced(p, low, top.Offset)
	}
	f.l.touch(p)
	f.l.enlist(p)
}

// replaced restarts a part on a log that is not the one that it knew at an
// offset.
func (f *proof) replaced(p *part, to, at int64) {
	from := p.m.Position()
	f.forget()
	f.l.restart(p, p.m.Epoch()+1, to, p.log.TopicID)
	f.l.corrected(p, from, to, fmt.Sprintf("the log has another record at offset %d than before: it was cut or made again, and has grown since", at))
	f.l.feed()
}

// trail keeps the fingerprints of the last records of recent batches, since
// batches leave the window before all of them is acked.
type trail struct {
	steps [trailSteps]offsetstore.Fingerprint
	next  int
}

func (t *trail) add(f offsetstore.Fingerprint) {
	t.steps[t.next%trailSteps] = f
	t.next++
}

// below is the one at the highest offset below next.
func (t *trail) below(next int64) (best offsetstore.Fingerprint) {
	for _, f := range t.steps[:min(t.next, trailSteps)] {
		if f.Offset < next && (!best.Known() || f.Offset > best.Offset) {
			best = f
		}
	}
	return best
}

// printBefore is the fingerprint of the record before an offset that is above
// the log's minimum; none where the log has no fingerprints.
func (d *Dispatcher) printBefore(ctx context.Context, topic, partition string, next int64) (offsetstore.Fingerprint, error) {
	printer, ok := storage.As[storage.Fingerprinter](d.backend)
	if !ok || d.pop != nil {
		return offsetstore.Fingerprint{}, nil
	}
	f, ok, err := printer.Fingerprint(ctx, topic, partition, next)
	if err != nil || !ok {
		return offsetstore.Fingerprint{}, err
	}
	return offsetstore.Fingerprint(f), nil
}

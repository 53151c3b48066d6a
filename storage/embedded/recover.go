package embedded

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/embedded/seglog"
)

// recover brings the state in memory to what is on disk.
func (l *Log) recover() error {
	if err := l.loadTopics(); err != nil {
		return err
	}
	noted, err := l.loadCursors()
	if err != nil {
		return err
	}
	if err := l.openSegments(noted); err != nil {
		return err
	}
	l.removeStrayIndexes()
	if err := l.loadRuns(); err != nil {
		return err
	}
	if err := l.retain(); err != nil {
		l.opts.Logger.Warn("embedded log: retention failed, tried again later", "err", err)
	}
	return nil
}

// openSegments opens the segment log, which is to reach as far as was noted.
// What was noted of a log without syncs is no promise after a loss of power.
func (l *Log) openSegments(noted cursorsFile) (err error) {
	o := seglog.Options{FS: l.opts.FS, Dir: l.logDir(), SegmentSize: l.opts.SegmentSize, Reach: noted.LogEnd}
	if noted.NoSync {
		o.Reach = 0
	}
	l.seg, err = seglog.Open(o)
	if errors.Is(err, seglog.ErrShort) {
		return fmt.Errorf("%w; restore it from a backup, or remove %s and its backup to go on without what is missing", l.logError(err), l.cursorsName())
	}
	if err != nil {
		return l.logError(err)
	}
	if _, end := l.seg.Bounds(); end < noted.LogEnd {
		l.opts.Logger.Warn("embedded log: the end of the log is missing, it was written without syncs", "end", end, "had_reached", noted.LogEnd)
		l.cursors.dirty.Store(true)
	}
	return nil
}

// logError gives errors of the segment log their meaning here.
func (l *Log) logError(err error) error {
	if errors.Is(err, seglog.ErrCorrupt) {
		return fmt.Errorf("embedded log: %w in %s: %w", storage.ErrCorrupt, l.logDir(), err)
	}
	return fmt.Errorf("embedded log: %w", err)
}

// loadRuns fills the indexes of the partitions and the window of duplicates.
func (l *Log) loadRuns() error {
	l.commits.dedup = newDedup(l.opts.DedupWindow, l.opts.DedupEntries)
	now := l.opts.Now()
	l.commits.ticks.last = now.UnixMilli()
	ld := loader{l: l, topics: map[uint32]*topic{}, seen: map[*partition]int64{}, since: math.MaxInt64}
	if l.opts.DedupWindow > 0 {
		ld.since = now.Add(-l.opts.DedupWindow).UnixMilli()
	}
	for _, t := range l.topics {
		ld.topics[t.num] = t
	}
	segs := l.seg.Segments()
	for i, s := range segs {
		full := i+1 < len(segs)
		runs, err := l.segmentRuns(s, full)
		if err != nil {
			return l.logError(err)
		}
		for _, r := range runs {
			if err := ld.add(r); err != nil {
				return err
			}
		}
		if !full {
			l.commits.index = segmentIndex{seq: s.Seq, runs: runs}
		}
		l.readable.Store(s.End)
	}
	return ld.loadKeys()
}

// loader puts runs where they belong when the log is opened.
type loader struct {
	l      *Log
	topics map[uint32]*topic
	seen   map[*partition]int64 // end of the last run
	since  int64                // ms; younger runs may be repeated
	recent []indexedRun
}

// add puts a run into its partition. Runs of topics that were deleted, and
// what retention has passed, are left out.
func (ld *loader) add(r indexedRun) error {
	if r.topic >= ld.l.nextNum {
		return fmt.Errorf("embedded log: %s is missing or older than the records, it knows no topic number %d: %w", ld.l.topicsName(), r.topic, storage.ErrCorrupt)
	}
	t := ld.topics[r.topic]
	if t == nil {
		return nil
	}
	if r.keyed && r.time >= ld.since {
		ld.recent = append(ld.recent, r)
	}
	if r.part >= len(t.parts) {
		return ld.l.logError(fmt.Errorf("position %d: topic %q has no partition %d: %w", r.pos, t.name, r.part, seglog.ErrCorrupt))
	}
	p := t.parts[r.part]
	if r.first < ld.seen[p] {
		return ld.l.logError(fmt.Errorf("position %d: offset %d of topic %q partition %d comes twice: %w", r.pos, r.first, t.name, r.part, seglog.ErrCorrupt))
	}
	ld.checkGap(p, r)
	ld.seen[p] = r.end()
	p.next, p.lastTime = max(p.next, r.end()), max(p.lastTime, r.time)
	if r.end() > p.min {
		p.runs.add(r.runRef)
	}
	return nil
}

// checkGap notices records that are missing before a run: files were removed
// by hand, or the machine lost power without syncs. Where they were the first,
// the minimum moves up, so that readers are told.
func (ld *loader) checkGap(p *partition, r indexedRun) {
	end, known := ld.seen[p]
	if !known {
		end = p.min
	}
	if r.first <= end {
		return
	}
	ld.l.opts.Logger.Warn("embedded log: records are missing", "topic", p.topic.name, "partition", p.name, "first", end, "last", r.first-1)
	if !known {
		p.min = r.first
	}
}

// loadKeys reads the dedup keys of the newest runs, newest first up to the
// bound, and remembers them in the order of the log. A run that is damaged is
// left out here; who reads its records is told.
func (ld *loader) loadKeys() error {
	keep := len(ld.recent)
	for records := 0; keep > 0 && records < ld.l.opts.DedupEntries; keep-- {
		records += ld.recent[keep-1].count
	}
	var buf []byte
	for _, r := range ld.recent[keep:] {
		n := min(r.size, seglog.EntryHeader+runMetaLen(r.count, true))
		buf = slices.Grow(buf[:0], n)[:n]
		if _, err := ld.l.seg.ReadAt(buf, r.pos); err != nil {
			return ld.l.logError(err)
		}
		e, err := seglog.MetaOnly(buf, r.pos)
		var h runHeader
		if err == nil {
			h, err = parseRun(e.Meta)
		}
		if err != nil {
			ld.l.opts.Logger.Warn("embedded log: a run is damaged, repeats of its events are not noticed",
				"topic", ld.topics[r.topic].name, "partition", r.part, "first", r.first, "last", r.end()-1, "err", err)
			continue
		}
		ld.l.remember(h, e.Meta)
	}
	return nil
}

// remember adds the keys of a run. One from a time to come, before which the
// clock was set back, counts as of now.
func (l *Log) remember(h runHeader, meta []byte) {
	at := min(h.time, l.commits.ticks.last)
	for i := range h.count {
		if k := h.key(meta, i); k != (dedupKey{}) {
			l.commits.dedup.add(k, place{offset: h.first + int64(i), time: at, part: h.part})
		}
	}
}

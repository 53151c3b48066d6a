package embedded

import (
	"errors"
	"fmt"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/embedded/seglog"
)

// recover brings the state in memory to what is on disk.
func (l *Log) recover() error {
	if err := l.loadTopics(); err != nil {
		return err
	}
	var err error
	l.seg, err = seglog.Open(seglog.Options{FS: l.opts.FS, Dir: l.logDir(), SegmentSize: l.opts.SegmentSize})
	if err != nil {
		return l.logError(err)
	}
	l.removeStrayIndexes()
	if err := l.loadRuns(); err != nil {
		return err
	}
	if err := l.retain(); err != nil {
		l.opts.Logger.Warn("embedded log: retention failed, tried again later", "err", err)
	}
	return l.loadCursors()
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
	topics := map[uint32]*topic{}
	for _, t := range l.topics {
		topics[t.num] = t
	}
	segs := l.seg.Segments()
	var recent []indexedRun
	since := l.opts.Now().Add(-l.opts.DedupWindow).UnixMilli()
	seen := map[*partition]int64{}
	for i, s := range segs {
		full := i+1 < len(segs)
		runs, err := l.segmentRuns(s, full)
		if err != nil {
			return l.logError(err)
		}
		for _, r := range runs {
			if r.time >= since && l.opts.DedupWindow > 0 {
				recent = append(recent, r)
			}
			if err := addRun(topics, seen, r); err != nil {
				return l.logError(err)
			}
		}
		if !full {
			l.commits.index = segmentIndex{seq: s.Seq, runs: runs}
		}
	}
	return l.loadKeys(topics, recent)
}

// addRun puts a run into its partition. Runs of topics that were deleted, and
// what retention has passed, are left out.
func addRun(topics map[uint32]*topic, seen map[*partition]int64, r indexedRun) error {
	t := topics[r.topic]
	if t == nil {
		return nil
	}
	if r.part >= len(t.parts) {
		return fmt.Errorf("position %d: topic %q has no partition %d: %w", r.pos, t.name, r.part, seglog.ErrCorrupt)
	}
	p := t.parts[r.part]
	if r.first < seen[p] {
		return fmt.Errorf("position %d: offset %d of topic %q partition %d comes twice: %w", r.pos, r.first, t.name, r.part, seglog.ErrCorrupt)
	}
	seen[p] = r.end()
	p.next, p.lastTime = max(p.next, r.end()), max(p.lastTime, r.time)
	if r.end() > p.min {
		p.runs.add(r.runRef)
	}
	return nil
}

// loadKeys reads the dedup keys of the newest runs, newest first up to the
// bound, and remembers them in the order of the log.
func (l *Log) loadKeys(topics map[uint32]*topic, recent []indexedRun) error {
	keep := len(recent)
	for records := 0; keep > 0 && records < l.opts.DedupEntries; keep-- {
		records += recent[keep-1].count
	}
	var buf []byte
	for _, r := range recent[keep:] {
		if topics[r.topic] == nil {
			continue
		}
		n := min(r.size, seglog.EntryHeader+runMetaLen(r.count, true))
		buf = append(buf[:0], make([]byte, n)...)
		if _, err := l.seg.ReadAt(buf, r.pos); err != nil {
			return l.logError(err)
		}
		e, err := seglog.MetaOnly(buf, r.pos)
		if err != nil {
			return l.logError(err)
		}
		h, err := parseRun(e.Meta)
		if err != nil {
			return l.logError(fmt.Errorf("position %d: %w: %w", r.pos, seglog.ErrCorrupt, err))
		}
		l.remember(h, e.Meta)
	}
	return nil
}

func (l *Log) remember(h runHeader, meta []byte) {
	for i := range h.count {
		if k := h.key(meta, i); k != (dedupKey{}) {
			l.commits.dedup.add(k, place{offset: h.first + int64(i), time: h.time, part: h.part})
		}
	}
}

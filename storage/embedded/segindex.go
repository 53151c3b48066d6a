package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/ackmesh/ackmesh/storage/embedded/seglog"
	"github.com/ackmesh/ackmesh/storage/embedded/vfs"
)

// The index file of a full segment is a state file (package vfs) with, as
// varints: base and end of the segment, number of runs, and for each run topic
// number, twice the partition (plus 1: with dedup keys), first offset, time,
// position behind that of the run before, count, size.
const (
	indexKind    = "ackmesh-runs"
	indexVersion = 1
)

// indexedRun is a run with whose it is.
type indexedRun struct {
	topic uint32
	part  int
	keyed bool
	runRef
}

// mark is partition and keyed in one number.
func (r indexedRun) mark() int64 {
	if r.keyed {
		return 2*int64(r.part) + 1
	}
	return 2 * int64(r.part)
}

// segmentIndex collects the runs of the segment that is written to.
type segmentIndex struct {
	seq  int64
	runs []indexedRun
}

func (x *segmentIndex) add(r newRun) {
	x.runs = append(x.runs, indexedRun{r.part.topic.num, r.part.num, r.part.batch.keyed, r.ref})
}

// follow notices that the log has gone on to another segment, and writes the
// index of the full one in the background. It is called before the first run
// of the new segment is added.
func (x *segmentIndex) follow(l *Log) {
	seq := l.seg.Writing()
	if seq == x.seq {
		return
	}
	full := *x
	x.seq, x.runs = seq, nil
	l.wg.Go(func() { full.save(l) })
}

// save writes the index file. Without it the next start only takes longer.
func (x *segmentIndex) save(l *Log) {
	for _, s := range l.seg.Segments() {
		if s.Seq != x.seq {
			continue
		}
		if err := vfs.WriteState(l.opts.FS, l.indexName(x.seq), indexKind, indexVersion, packIndex(s, x.runs)); err != nil {
			l.opts.Logger.Warn("embedded log: index of a segment not saved, the next start will read the segment", "err", err)
		}
	}
}

func (l *Log) logDir() string { return filepath.Join(l.dir, "log") }

func (l *Log) indexName(seq int64) string {
	return filepath.Join(l.logDir(), fmt.Sprintf("%012d.idx", seq))
}

func packIndex(s seglog.Segment, runs []indexedRun) []byte {
	b := make([]byte, 0, 64+16*len(runs))
	for _, v := range []int64{s.Base, s.End, int64(len(runs))} {
		b = binary.AppendUvarint(b, uint64(v))
	}
	pos := s.Base
	for _, r := range runs {
		for _, v := range []int64{int64(r.topic), r.mark(), r.first, r.time, r.pos - pos, int64(r.count), int64(r.size)} {
			b = binary.AppendUvarint(b, uint64(v))
		}
		pos = r.pos
	}
	return b
}

var errIndex = errors.New("index does not fit its segment")

// unpackIndex reads what packIndex wrote; errIndex for bytes that are no index
// of this segment.
func unpackIndex(b []byte, s seglog.Segment) ([]indexedRun, error) {
	var v [7]uint64
	b, ok := uvarints(b, v[:3])
	if !ok || int64(v[0]) != s.Base || int64(v[1]) != s.End || v[2] > uint64(len(b)) {
		return nil, errIndex
	}
	runs := make([]indexedRun, 0, v[2])
	for pos := s.Base; len(runs) < cap(runs); {
		if b, ok = uvarints(b, v[:]); !ok {
			return nil, errIndex
		}
		pos += int64(v[4])
		r := indexedRun{uint32(v[0]), int(v[1] / 2), v[1]%2 == 1, runRef{first: int64(v[2]), time: int64(v[3]), pos: pos, count: int(v[5]), size: int(v[6])}}
		if !r.fits(s) {
			return nil, errIndex
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// fits tells whether the run can be one of the segment.
func (r indexedRun) fits(s seglog.Segment) bool {
	return r.part >= 0 && r.part < maxPartitions && r.first >= 0 && r.time >= 0 &&
		r.pos >= s.Base && r.pos < s.End && r.size > 0 && int64(r.size) <= s.End-r.pos &&
		r.count > 0 && r.count <= r.size/4
}

func uvarints(b []byte, v []uint64) (rest []byte, ok bool) {
	for i := range v {
		x, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, false
		}
		v[i], b = x, b[n:]
	}
	return b, true
}

// segmentRuns lists the runs of a segment: from its index file if that is
// sound, else from the segment.
func (l *Log) segmentRuns(s seglog.Segment, full bool) ([]indexedRun, error) {
	if full {
		runs, err := l.readIndex(s)
		if err == nil {
			return runs, nil
		}
		level := slog.LevelWarn
		if errors.Is(err, fs.ErrNotExist) {
			level = slog.LevelInfo // the process ended before it was written
		}
		l.opts.Logger.Log(context.Background(), level, "embedded log: index of a segment cannot be used, reading the segment", "err", err)
		l.opts.Observe.indexRebuilt(s.Seq)
	}
	runs, err := l.scanSegment(s)
	if err != nil || !full {
		return runs, err
	}
	(&segmentIndex{seq: s.Seq, runs: runs}).save(l)
	return runs, nil
}

func (l *Log) readIndex(s seglog.Segment) ([]indexedRun, error) {
	name := l.indexName(s.Seq)
	_, b, err := vfs.ReadState(l.opts.FS, name, indexKind, indexVersion)
	if err != nil {
		return nil, err
	}
	runs, err := unpackIndex(b, s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return runs, nil
}

func (l *Log) scanSegment(s seglog.Segment) ([]indexedRun, error) {
	var runs []indexedRun
	err := l.seg.Walk(s.Seq, func(e seglog.Entry) error {
		h, err := parseRun(e.Meta)
		if err != nil {
			return fmt.Errorf("position %d in segment %d: %w: %w", e.Pos, s.Seq, seglog.ErrCorrupt, err)
		}
		runs = append(runs, indexedRun{h.topic, h.part, h.keyed, runRef{first: h.first, time: h.time, pos: e.Pos, count: h.count, size: e.Size}})
		return nil
	})
	return runs, err
}

// removeStrayIndexes removes index files whose segment is gone. Left behind
// they only take room, so failure is no reason to stop.
func (l *Log) removeStrayIndexes() {
	names, err := l.opts.FS.List(l.logDir())
	if err != nil {
		l.opts.Logger.Warn("embedded log: cannot list the segments", "err", err)
		return
	}
	held := map[string]bool{}
	for _, s := range l.seg.Segments() {
		held[filepath.Base(l.indexName(s.Seq))] = true
	}
	for _, n := range names {
		if !strings.HasSuffix(n, ".idx") || held[n] {
			continue
		}
		if err := l.opts.FS.Remove(filepath.Join(l.logDir(), n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.opts.Logger.Warn("embedded log: cannot remove an index without a segment", "err", err)
		}
	}
}

func (o *Observe) indexRebuilt(seq int64) {
	if o.IndexRebuilt != nil {
		o.IndexRebuilt(seq)
	}
}

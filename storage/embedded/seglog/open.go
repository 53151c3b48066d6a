package seglog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/ackmesh/ackmesh/storage/embedded/vfs"
)

// Open opens the log in a directory or begins one, and finds its end: what a
// crash tore off is left out. Errors: ErrCorrupt, ErrShort, what the disk says.
func Open(o Options) (*Log, error) {
	if o.SegmentSize <= 0 {
		o.SegmentSize = defaultSegmentSize
	}
	l := &Log{opts: o, next: make(chan prepared, 1)}
	if err := l.load(); err != nil {
		for _, s := range l.segs {
			_ = s.file.Close() // the first error is the one to tell
		}
		return nil, err
	}
	return l, nil
}

func (l *Log) load() error {
	seqs, err := l.list()
	if err != nil {
		return err
	}
	for _, seq := range seqs {
		if err := l.openSegment(seq); err != nil {
			return err
		}
	}
	blank, err := l.splitBlank()
	if err != nil {
		return err
	}
	if len(l.segs) > 0 {
		err = l.findEnd()
	}
	if err == nil {
		err = l.checkReach(blank)
	}
	if err != nil {
		l.segs = append(l.segs, blank...) // they stay as they are, and are closed
		return err
	}
	if err := l.removeBlank(blank); err != nil {
		return err
	}
	if len(l.segs) == 0 {
		return l.begin()
	}
	return nil
}

// list returns the numbers of the segment files; they must be in a row.
func (l *Log) list() ([]int64, error) {
	names, err := l.opts.FS.List(l.opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", l.opts.Dir, err)
	}
	var seqs []int64
	for _, name := range names {
		var seq int64
		if n, err := fmt.Sscanf(name, "%012d.seg", &seq); n == 1 && err == nil && name == fmt.Sprintf("%012d.seg", seq) {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	for i := 1; i < len(seqs); i++ {
		if seqs[i] != seqs[i-1]+1 {
			return nil, fmt.Errorf("%s is missing: %w", l.opts.name(seqs[i-1]+1), ErrCorrupt)
		}
	}
	return seqs, nil
}

func (l *Log) openSegment(seq int64) error {
	name := l.opts.name(seq)
	f, err := l.opts.FS.Open(name)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	s := &segment{seq: seq, base: -1, file: f, users: 1}
	l.segs = append(l.segs, s)
	if s.size, err = f.Size(); err != nil {
		return fmt.Errorf("size of %s: %w", name, err)
	}
	h := make([]byte, headerLen)
	if _, err := f.ReadAt(h, 0); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if base, ok := parseFileHeader(h, seq); ok {
		s.base, s.headed = base, true
	}
	return nil
}

// splitBlank takes the files without a header off the end: the one prepared,
// and the one whose first Write did not succeed.
func (l *Log) splitBlank() (blank []*segment, err error) {
	n := len(l.segs)
	for n > 0 && !l.segs[n-1].headed {
		n--
	}
	l.segs, blank = l.segs[:n], l.segs[n:]
	for i, s := range l.segs {
		if !s.headed || i > 0 && s.base <= l.segs[i-1].base {
			return blank, fmt.Errorf("%s has no valid header: %w", l.opts.name(s.seq), ErrCorrupt)
		}
	}
	if n == 0 && len(blank) > 0 && blank[0].seq != 1 {
		return blank, fmt.Errorf("%s has no valid header and nothing precedes it: %w", l.opts.name(blank[0].seq), ErrCorrupt)
	}
	return blank, nil
}

// checkReach refuses a log that ends before the place it is known to have
// reached: what is missing there was not torn off by a crash.
func (l *Log) checkReach(blank []*segment) error {
	end := l.end.Load()
	if end >= l.opts.Reach {
		return nil
	}
	where := l.opts.Dir
	switch n := len(l.segs); {
	case len(blank) > 0 && n == 0:
		where = l.opts.name(blank[0].seq)
	case n > 0:
		where = l.opts.name(l.segs[n-1].seq)
	}
	return fmt.Errorf("%s: the log ends at position %d, it had reached %d: %w: %w", where, end, l.opts.Reach, ErrShort, ErrCorrupt)
}

// removeBlank removes files that nothing was durably written to, after making
// sure of that: their first Write would have begun at the log's end.
func (l *Log) removeBlank(blank []*segment) error {
	var errs []error
	for _, s := range blank {
		s.base = l.end.Load()
		err := l.checkTorn(s, newWindow(s.file, s.size), headerLen)
		if err == nil && len(errs) == 0 {
			err = l.opts.FS.Remove(l.opts.name(s.seq))
		}
		errs = append(errs, err, s.file.Close())
	}
	return errors.Join(errs...)
}

func (l *Log) begin() error {
	p := l.prepare(1, min(firstSegmentSize, l.opts.SegmentSize))
	if p.err != nil {
		return fmt.Errorf("first segment in %s: %w", l.opts.Dir, p.err)
	}
	l.segs = []*segment{{seq: 1, size: p.size, file: p.file, users: 1}}
	return nil
}

// findEnd reads the last segment to its end.
func (l *Log) findEnd() error {
	s := l.segs[len(l.segs)-1]
	r := newWindow(s.file, s.size)
	off := int64(headerLen)
	var last Entry
	for {
		e, err := r.entry(off, s.base+off-headerLen)
		if err != nil && !errors.Is(err, errBroken) {
			return fmt.Errorf("read %s: %w", l.opts.name(s.seq), err)
		}
		if err != nil || off > headerLen && e.prev != l.prev {
			break
		}
		l.prev, last = e.crc, e
		off += int64(e.Size)
	}
	l.end.Store(s.base + off - headerLen)
	if err := l.checkTorn(s, r, off); err != nil {
		return err
	}
	return l.settle(s, last.begin)
}

// settle sees to it that what the last process wrote and did not sync does not
// vanish when the machine loses power: it counts as written from now on. If its
// sync has failed, the system takes it for clean, and no sync writes it: so the
// last Write, which began at a position, is written again, unless it is known
// to be durable; and the header, where it may be of a Write that failed.
func (l *Log) settle(s *segment, begin int64) (err error) {
	end := l.end.Load()
	if end > l.opts.Reach || end == s.base {
		begin = max(begin, s.base)
		b := make([]byte, end-begin)
		if _, err = s.file.ReadAt(b, begin-s.base+headerLen); err == nil || len(b) == 0 {
			err = l.writeTo(&segment{seq: s.seq, base: s.base, file: s.file, headed: begin > s.base}, begin, b)
		}
	} else {
		err = s.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("sync the end of %s: %w", l.opts.name(s.seq), err)
	}
	return nil
}

// checkTorn tells a torn end from damage: an entry further on whose Write
// began behind this place proves that what was here had been synced.
func (l *Log) checkTorn(s *segment, r *window, from int64) error {
	pos := s.base + from - headerLen
	for off := from + 8; off+EntryHeader <= s.size; off += 8 {
		b, err := r.bytes(off, EntryHeader)
		if err != nil {
			return fmt.Errorf("read %s: %w", l.opts.name(s.seq), err)
		}
		if binary.LittleEndian.Uint32(b) != magicEntry {
			continue
		}
		e, err := r.meta(off, s.base+off-headerLen)
		if err == nil && e.begin > pos {
			return fmt.Errorf("%s is damaged at byte %d, a later write follows at byte %d: %w", l.opts.name(s.seq), from, off, ErrCorrupt)
		}
	}
	return nil
}

// Walk calls f for each entry of a segment in order, with its meta only, which
// is valid during the call. Errors: ErrNotFound, ErrCorrupt, what f returns.
func (l *Log) Walk(seq int64, f func(e Entry) error) error {
	for _, s := range l.Segments() {
		if s.Seq == seq {
			return l.walk(s, f)
		}
	}
	return fmt.Errorf("segment %d: %w", seq, ErrNotFound)
}

func (l *Log) walk(seg Segment, f func(e Entry) error) error {
	if seg.Base == seg.End {
		return nil
	}
	s, _, err := l.use(seg.Base)
	if err != nil {
		return err
	}
	defer l.release(s)
	r := newWindow(s.file, headerLen+seg.End-seg.Base)
	for pos := seg.Base; pos < seg.End; {
		e, err := r.meta(pos-seg.Base+headerLen, pos)
		if errors.Is(err, errBroken) {
			return fmt.Errorf("%s at byte %d: %w", l.opts.name(seg.Seq), pos-seg.Base+headerLen, ErrCorrupt)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", l.opts.name(seg.Seq), err)
		}
		if err := f(e); err != nil {
			return err
		}
		pos += int64(e.Size)
	}
	return nil
}

// window reads a file through a buffer that moves forward.
type window struct {
	file vfs.File
	size int64
	buf  []byte
	from int64
}

const windowSize = 256 << 10

func newWindow(f vfs.File, size int64) *window { return &window{file: f, size: size} }

// bytes returns n bytes at off, valid until the next call; errBroken where the
// file ends before.
func (w *window) bytes(off int64, n int) ([]byte, error) {
	if off+int64(n) > w.size {
		return nil, errBroken
	}
	if off < w.from || off+int64(n) > w.from+int64(len(w.buf)) {
		if err := w.fill(off, n); err != nil {
			return nil, err
		}
	}
	return w.buf[off-w.from:][:n], nil
}

func (w *window) fill(off int64, n int) error {
	want := int(min(int64(max(n, windowSize)), w.size-off))
	if cap(w.buf) < want {
		w.buf = make([]byte, want)
	}
	w.buf, w.from = w.buf[:want], off
	got, err := w.file.ReadAt(w.buf, off)
	w.buf = w.buf[:got]
	if got >= n {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return errBroken
	}
	return err
}

func (w *window) meta(off, pos int64) (Entry, error) {
	b, err := w.bytes(off, EntryHeader)
	if err != nil {
		return Entry{}, err
	}
	_, n, err := parseHead(b)
	if err != nil {
		return Entry{}, err
	}
	if b, err = w.bytes(off, EntryHeader+n); err != nil {
		return Entry{}, err
	}
	return parseMeta(b, pos)
}

func (w *window) entry(off, pos int64) (Entry, error) {
	e, err := w.meta(off, pos)
	if err != nil {
		return e, err
	}
	b, err := w.bytes(off, e.Size)
	if err != nil {
		return e, err
	}
	return parseEntry(b, pos)
}

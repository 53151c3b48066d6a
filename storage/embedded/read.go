package embedded

import (
	"fmt"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/embedded/seglog"
)

const (
	readChunk = 256 << 10 // most that is read from disk at once, but for one large run
	bufStep   = 64 << 10  // Batch.Buf is a multiple of this
	readGap   = 16 << 10  // other partitions' bytes worth reading to save a call
)

// reader fills a batch. Records read from disk stay where the disk put them in
// Batch.Buf; those of the tail are copied there.
type reader struct {
	l      *Log
	p      *partition
	req    storage.PollRequest
	start  int64
	batch  *storage.Batch
	bytes  int
	isFull bool
}

// readRuns reads records of runs into the batch. Where something fails behind
// the first record the batch ends there; the next Poll meets the error.
func (l *Log) readRuns(p *partition, runs []runRef, start int64, req storage.PollRequest, batch *storage.Batch) error {
	r := reader{l: l, p: p, req: req, start: start, batch: batch}
	r.reserve(runs)
	for len(runs) > 0 && !r.isFull {
		n, err := r.some(runs)
		if err != nil && len(batch.Records) == 0 {
			return r.explain(runs[0], err)
		}
		if err != nil {
			break
		}
		runs = runs[n:]
	}
	if n := len(batch.Records); n > 0 {
		batch.Next = batch.Records[n-1].Offset + 1
	}
	return nil
}

// explain tells a run that retention has just removed from damage, of which it
// says where the sound records go on.
func (r *reader) explain(run runRef, err error) error {
	r.p.mu.Lock()
	gone := r.p.check(r.start)
	r.p.mu.Unlock()
	if gone != nil {
		return gone
	}
	if r.l.closed.Load() {
		return fmt.Errorf("embedded log: %w", storage.ErrClosed)
	}
	return fmt.Errorf("topic %q partition %q offsets %d to %d cannot be read, those from %d on may be: %w",
		r.p.topic.name, r.p.name, max(run.first, r.start), run.end()-1, run.end(), r.l.logError(err))
}

// reserve makes room for all at once, so that Buf does not move under the
// records.
func (r *reader) reserve(runs []runRef) {
	need, at := 0, runs[0].pos
	tail := r.l.tail.begin()
	for _, run := range runs {
		need += run.size
		if gap := run.pos - at; run.pos < tail && gap <= readGap {
			need += int(gap)
		}
		at = run.pos + int64(run.size)
	}
	r.grow(need)
}

// grow makes Buf at least n bytes long, in steps, while it is empty.
func (r *reader) grow(n int) {
	if b := r.batch; cap(b.Buf) < n {
		b.Buf = make([]byte, 0, (n+bufStep-1)/bufStep*bufStep)
	}
}

// hasRoom tells whether a run still fits. Reads that were expected in memory
// and came from disk can have used more than was reserved; then the batch ends.
func (r *reader) hasRoom(run runRef) bool {
	if len(r.batch.Records) == 0 {
		r.batch.Buf = r.batch.Buf[:0]
		r.grow(run.size)
	}
	r.isFull = cap(r.batch.Buf)-len(r.batch.Buf) < run.size
	return !r.isFull
}

// some reads the first run, or the first few where one read gets them.
func (r *reader) some(runs []runRef) (n int, err error) {
	if !r.hasRoom(runs[0]) {
		return 0, nil
	}
	if block, data := r.l.tail.use(runs[0].pos, runs[0].size); block != nil {
		defer block.release()
		return 1, r.copyRun(runs[0], data)
	}
	n, size := r.group(runs)
	from := len(r.batch.Buf)
	buf := r.batch.Buf[from : from+size]
	if _, err := r.l.seg.ReadAt(buf, runs[0].pos); err != nil {
		return 0, err
	}
	r.batch.Buf = r.batch.Buf[:from+size]
	for _, run := range runs[:n] {
		at := run.pos - runs[0].pos
		if err := r.takeRun(run, buf[at:at+int64(run.size)]); err != nil {
			return 0, err
		}
		if r.isFull {
			break // a smaller record behind the one left out must not go in
		}
	}
	return n, nil
}

// group is how many of the runs to read at once, and how many bytes that is.
func (r *reader) group(runs []runRef) (n, size int) {
	room := cap(r.batch.Buf) - len(r.batch.Buf)
	limit := r.l.seg.EndOf(runs[0].pos)
	n, size = 1, runs[0].size
	for ; n < len(runs); n++ {
		end := runs[n].pos + int64(runs[n].size)
		all := int(end - runs[0].pos)
		if end > limit || all > readChunk || all > room || runs[n].pos-runs[0].pos-int64(size) > readGap {
			break
		}
		size = all
	}
	return n, size
}

// takeRun adds the records of a run that was read from disk, in place.
func (r *reader) takeRun(run runRef, data []byte) error {
	e, err := seglog.Parse(data, run.pos)
	if err != nil {
		return err
	}
	h, err := r.checkRun(run, e)
	if err != nil {
		return err
	}
	if err := checkEnds(e.Meta, h.count, len(e.Body)); err != nil {
		return fmt.Errorf("run at position %d: %w: %w", run.pos, seglog.ErrCorrupt, err)
	}
	from, to := r.choose(h, e.Meta)
	r.add(h, e.Meta, e.Body, from, to, 0)
	return nil
}

// copyRun adds the records of a run in memory. It was checked when written.
func (r *reader) copyRun(run runRef, data []byte) error {
	e, err := seglog.Split(data)
	if err != nil {
		return err
	}
	h, err := r.checkRun(run, e)
	if err != nil {
		return err
	}
	from, to := r.choose(h, e.Meta)
	if from == to {
		return nil
	}
	skip := recordEnd(e.Meta, from-1)
	at := len(r.batch.Buf)
	r.batch.Buf = append(r.batch.Buf, e.Body[skip:recordEnd(e.Meta, to-1)]...)
	r.add(h, e.Meta, r.batch.Buf[at:], from, to, skip)
	return nil
}

func (r *reader) checkRun(run runRef, e seglog.Entry) (runHeader, error) {
	h, err := parseRun(e.Meta)
	if err != nil || h.topic != r.p.topic.num || h.part != r.p.num || h.first != run.first || h.count != run.count {
		return h, fmt.Errorf("run at position %d is not what the index says: %w", run.pos, seglog.ErrCorrupt)
	}
	return h, nil
}

// choose tells which records of a run go into the batch: from, up to but
// without to. At least one goes into an empty batch.
func (r *reader) choose(h runHeader, meta []byte) (from, to int) {
	from = int(max(0, r.start-h.first))
	last := recordEnd(meta, from-1)
	for to = from; to < h.count; to++ {
		end := recordEnd(meta, to)
		n := len(r.batch.Records) + to - from
		if n > 0 && (n >= r.req.MaxRecords || r.bytes+end-last > r.req.MaxBytes) {
			r.isFull = true
			return from, to
		}
		r.bytes += end - last
		last = end
	}
	return from, to
}

// add appends records from..to to the batch; body begins skip bytes into the
// run's.
func (r *reader) add(h runHeader, meta, body []byte, from, to, skip int) {
	at := recordEnd(meta, from-1) - skip
	for i := from; i < to; i++ {
		end := recordEnd(meta, i) - skip
		r.batch.Records = append(r.batch.Records, storage.Record{Offset: h.first + int64(i), Time: h.time, Frame: body[at:end:end]})
		at = end
	}
}

package kafka

import (
	"errors"
	"io"
	"time"

	"github.com/IBM/sarama"

	"github.com/ackmesh/ackmesh/storage"
)

const (
	// versionTagged is the first form of the fetch request with tagged fields
	// and short lengths, versionByID the first that names topics by identity.
	versionTagged = 12
	versionByID   = 13
	// minFetch is the oldest form that is used: Kafka 0.11's, which has the
	// last stable offset.
	minFetch = 4
)

// query is what a fetch asks for.
type query struct {
	at        *place
	start     int64
	bytes     int
	waitMS    int32
	committed bool
}

// result is what a broker answers to a query.
type result struct {
	chunk  *chunk
	code   sarama.KError
	high   int64         // watermark
	mute   time.Duration // how long the broker answers nothing more on this connection
	found  bool          // the partition is in the answer
	byID   bool          // the broker has compared the topic's identity
	damage error         // what came behind the chunk, which cannot be read; nil: nothing
}

// throttled tells that a quota is used up: the broker has left out everything.
func (r *result) throttled() bool { return r.mute > 0 && r.code == 0 && !r.found }

// readResult reads the body of an answer of n bytes in a form of the fetch
// request. Where it returns an error, that is one of src, or wraps
// storage.ErrCorrupt. Records before damage are an answer, with the rest of it
// left in src: who reads on comes to the damage.
func readResult(src io.Reader, n int, version int16, q *query) (*result, error) {
	d := &decoder{version: version, q: q, soundNext: q.start, chunk: chunk{start: q.start, next: q.start, began: time.Now()}}
	d.s = newStream(src, n, d.keep)
	d.body()
	d.s.end()
	d.flush()
	if err := d.s.err; err != nil {
		if d.res.damage == nil || d.soundNext == q.start || !errors.Is(err, storage.ErrCorrupt) {
			d.free()
			return nil, err
		}
		d.cut(d.soundRecs)
		d.next = d.soundNext
	}
	c, res := d.chunk, d.res
	res.chunk = &c
	return &res, nil
}

// decoder reads one answer.
type decoder struct {
	s       *stream
	version int16
	q       *query
	res     result
	chunk
	out    *piece // takes what was not stored as it is read; nil: nothing so far
	used   int    // of its memory
	grown  int    // bytes that were decompressed
	copies bool   // from now on records are copied into out

	recs      int   // how many there are
	soundRecs int   // of them in batches that are sound
	soundNext int64 // behind those

	aborted  []abortion     // not yet begun, in order
	aborting map[int64]bool // producers amid an aborted transaction
}

// abortion is a transaction that was aborted.
type abortion struct{ producer, first int64 }

// keep takes a piece with records.
func (d *decoder) keep(p *piece) {
	d.pieces = append(d.pieces, p)
	d.size += p.bytes
}

// flush ends the piece that takes copies.
func (d *decoder) flush() {
	switch {
	case d.out == nil:
	case len(d.out.recs) > 0:
		d.keep(d.out)
	default:
		d.out.free()
	}
	d.out, d.used = nil, 0
}

func (d *decoder) tagged() bool { return d.version >= versionTagged }

// length takes the length of a list or of bytes; -1: there is none.
func (d *decoder) length() int {
	if d.tagged() {
		return int(d.s.uvarint()) - 1
	}
	return int(d.s.int32())
}

// tags passes tagged fields.
func (d *decoder) tags() {
	if !d.tagged() {
		return
	}
	for n := d.s.uvarint(); n > 0 && d.s.err == nil; n-- {
		d.s.uvarint()
		d.s.skip(int(d.s.uvarint()))
	}
}

// body reads the answer to the end.
func (d *decoder) body() {
	s := d.s
	d.res.mute = time.Duration(max(s.int32(), 0)) * time.Millisecond
	if d.version >= 7 {
		d.res.code = sarama.KError(s.int16())
		s.int32() // session
	}
	for n := d.length(); n > 0 && s.err == nil; n-- {
		d.topic()
	}
	d.tags()
	s.skip(s.remaining())
}

func (d *decoder) topic() {
	s := d.s
	ours := false
	switch id := d.q.at.uuid; {
	case d.version >= versionByID:
		if b := s.peek(len(id)); b != nil {
			ours = sarama.Uuid(b) == id
		}
		s.skip(len(id))
	default:
		n := d.nameLen()
		if b := s.peek(n); b != nil {
			ours = string(b) == d.q.at.topic
		}
		s.skip(n)
	}
	for n := d.length(); n > 0 && s.err == nil; n-- {
		d.partition(ours)
	}
	d.tags()
}

// nameLen takes the length of a name.
func (d *decoder) nameLen() int {
	n := 0
	if d.tagged() {
		n = int(d.s.uvarint()) - 1
	} else {
		n = int(d.s.int16())
	}
	if n < 0 {
		d.s.fail("a topic has no name")
		return 0
	}
	return n
}

func (d *decoder) partition(ours bool) {
	s := d.s
	ours = s.int32() == d.q.at.number && ours && !d.res.found
	code, high, stable := s.int16(), s.int64(), s.int64()
	if d.version >= 5 {
		s.int64() // where the log starts
	}
	aborted := d.abortions(ours && d.q.committed)
	if d.version >= 11 {
		s.int32() // replica to be preferred: the leader is asked in any case
	}
	n := max(d.length(), 0)
	switch {
	case s.err != nil:
		return
	case !ours:
		s.skip(n)
	default:
		d.ours(sarama.KError(code), high, stable)
		d.aborted = aborted
		d.records(n)
	}
	d.tags()
}

// ours takes in what the broker says of the partition that was asked for.
func (d *decoder) ours(code sarama.KError, high, stable int64) {
	d.res.found, d.res.high, d.res.byID = true, high, d.version >= versionByID
	if d.res.code == 0 {
		d.res.code = code
	}
	d.end = high
	if d.q.committed {
		d.end = stable
	}
}

package dispatch

import (
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/server/delivery"
	"github.com/ackmesh/ackmesh/storage"
)

// encoder builds one run at a time into a pooled buffer. It belongs to a loop.
type encoder struct {
	p     *part
	a     *attachment
	now   time.Time
	slots int
	room  int64

	buf   *[]byte // from the pool; nil until the first record
	want  int     // about how long buf will get; 0: a whole batch
	head  int     // length of the run's head in buf
	offs  []int64
	idPos []int32

	again    int                  // of offs, sent before
	causes   [delivery.Causes]int // of again, why
	traces   []Traced
	finished int  // records that were finished instead of sent
	refused  bool // a record did not fit the stream's window

	memo   memo
	memoAt int
}

func (e *encoder) begin(p *part, a *attachment, slots int, room int64, now time.Time) {
	e.p, e.a, e.slots, e.room, e.now = p, a, slots, room, now
	e.offs, e.idPos = e.offs[:0], e.idPos[:0]
	e.again, e.finished, e.refused = 0, 0, false
	e.want = 0
	e.causes = [delivery.Causes]int{}
	e.traces = e.traces[:0]
	e.memoAt = 0
	if len(p.l.parts) > 1 {
		e.memo.turn(p.m.NextNew())
	}
}

// end gives the buffer back unless it was sent.
func (e *encoder) end() {
	if e.buf != nil {
		mem.DefaultBufferPool().Put(e.buf)
		e.buf = nil
	}
	e.p, e.a = nil, nil
}

// estimate is about what a record takes in the run.
func (e *encoder) estimate(rec *storage.Record) int { return len(rec.Frame) + deliveryHeaderMax + 64 }

// bodyLen is the length of the run so far.
func (e *encoder) bodyLen() int {
	if e.buf == nil {
		return 0
	}
	return len(*e.buf)
}

// full tells whether the batch ends here.
func (e *encoder) full() bool { return len(e.offs) >= e.slots || e.bodyLen() >= batchBytes }

// fits tells whether a record is within the room that is reserved.
func (e *encoder) fits(rec *storage.Record) bool {
	return int64(e.bodyLen()+e.estimate(rec)) <= e.room
}

// widen makes room for a first record that is larger than a batch.
func (e *encoder) widen(rec *storage.Record) bool {
	need := int64(e.estimate(rec) + e.headLen())
	if need <= e.room {
		return true
	}
	if !e.a.b.s.widen(e.a.b, e.p, e.room, need) {
		return false
	}
	e.room = need
	return true
}

func (e *encoder) headLen() int { return 32 + len(e.p.key.Topic) + len(e.p.key.Partition) }

// expect says which records come next: ten thousand streams that get one record
// each must not take a whole batch's buffer each.
func (e *encoder) expect(recs []storage.Record) {
	e.want = e.headLen()
	for i := range recs[:min(len(recs), e.slots)] {
		if e.want += e.estimate(&recs[i]); e.want >= batchBuffer {
			return
		}
	}
}

// start takes a buffer and writes the run's head.
func (e *encoder) start(rec *storage.Record) {
	want := batchBuffer
	if e.want > 0 {
		want = min(want, e.want)
	}
	e.buf = mem.DefaultBufferPool().Get(max(want, e.estimate(rec)+e.headLen()))
	b := (*e.buf)[:0]
	*e.buf = appendRunHead(b, e.a.b.id, e.p.key.Topic, e.p.key.Partition, e.p.m.Epoch())
	e.head = len(*e.buf)
}

// append encodes a record. On an error the batch is as before.
func (e *encoder) append(rec *storage.Record, attempt int32, opt frame.ProtoOptions) error {
	if e.buf == nil {
		e.start(rec)
	}
	if attempt == 1 && e.fromMemo(rec.Offset) {
		return nil
	}
	before := len(*e.buf)
	b, at, err := appendDelivery(*e.buf, rec.Offset, attempt, rec.Frame, opt)
	*e.buf = b
	if err != nil {
		return err
	}
	e.offs = append(e.offs, rec.Offset)
	e.idPos = append(e.idPos, int32(at))
	if attempt == 1 && len(e.p.l.parts) > 1 {
		e.memo.add(rec.Offset, b[before:], at-before)
	}
	return nil
}

// undo takes the last record out again; before is bodyLen as it was, or 0.
func (e *encoder) undo(before int) {
	*e.buf = (*e.buf)[:max(before, e.head)]
	e.offs = e.offs[:len(e.offs)-1]
	e.idPos = e.idPos[:len(e.idPos)-1]
}

// messageLen is the length of a message with the last record alone, which
// begins at before.
func (e *encoder) messageLen(before int) int {
	run := e.head + len(*e.buf) - max(before, e.head)
	inner := 1 + protowire.SizeVarint(uint64(run)) + run
	return 1 + protowire.SizeVarint(uint64(inner)) + inner
}

// memo keeps deliveries encoded last, for the other subscribers of the same
// records: only the ids differ.
type memo struct {
	buf  []byte
	recs []memoRec
}

type memoRec struct {
	off      int64
	from, to int32 // in buf
	id       int32 // of the eight bytes, from `from`
}

const (
	memoTurn = turnBatches * batchBytes // what one part takes in a turn
	memoMax  = 2*memoTurn + batchBytes
)

// turn makes room when a new stretch of records begins at next.
func (m *memo) turn(next int64) {
	n := len(m.recs)
	if n > 0 && len(m.buf) >= memoTurn && next > m.recs[n-1].off {
		m.buf, m.recs = m.buf[:0], m.recs[:0]
	}
}

// add remembers the encoding of a record that follows those remembered.
func (m *memo) add(off int64, b []byte, id int) {
	n := len(m.recs)
	if n > 0 && off <= m.recs[n-1].off || len(b) > batchBytes {
		return
	}
	if len(m.buf)+len(b) > memoMax {
		m.buf, m.recs = m.buf[:0], m.recs[:0]
	}
	from := len(m.buf)
	m.buf = append(m.buf, b...)
	m.recs = append(m.recs, memoRec{off, int32(from), int32(len(m.buf)), int32(id)})
}

// fromMemo copies the encoding of a record out of the memo, if it is there.
func (e *encoder) fromMemo(off int64) bool {
	recs := e.memo.recs
	for e.memoAt < len(recs) && recs[e.memoAt].off < off {
		e.memoAt++
	}
	if e.memoAt == len(recs) || recs[e.memoAt].off != off {
		return false
	}
	r := recs[e.memoAt]
	e.idPos = append(e.idPos, int32(len(*e.buf))+r.id)
	e.offs = append(e.offs, off)
	*e.buf = append(*e.buf, e.memo.buf[r.from:r.to]...)
	return true
}

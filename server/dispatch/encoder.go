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
	finished int   // records that were finished instead of sent
	need     int64 // what a first record takes that did not fit the stream's window; 0: none
	passed   bool  // a record was left to another stream, which takes larger ones
	learnt   bool  // for the first time: that stream is to be picked
}

func (e *encoder) begin(p *part, a *attachment, slots int, room int64, now time.Time) {
	e.p, e.a, e.slots, e.room, e.now = p, a, slots, room, now
	e.offs, e.idPos = e.offs[:0], e.idPos[:0]
	e.again, e.finished, e.need, e.passed, e.learnt = 0, 0, 0, false, false
	e.want = 0
	e.causes = [delivery.Causes]int{}
	e.traces = e.traces[:0]
}

// end gives the buffer back unless it was sent.
func (e *encoder) end() {
	if e.buf != nil {
		mem.DefaultBufferPool().Put(e.buf)
		e.buf = nil
	}
	e.p, e.a = nil, nil
}

// estimate is what a record takes in the run at most, and a little: lengths may take
// longer there than in the log, and a check key is added.
func (e *encoder) estimate(rec *storage.Record) int {
	return len(rec.Frame) + 3*min(frame.View(rec.Frame).Count(), frame.MaxAttributes) + len(rec.CheckKey) + deliveryHeaderMax + 64
}

// bodyLen is the length of the run so far.
func (e *encoder) bodyLen() int {
	if e.buf == nil {
		return 0
	}
	return len(*e.buf)
}

// full tells whether the batch ends here.
func (e *encoder) full() bool { return len(e.offs) >= e.slots || e.bodyLen() >= batchBytes }

// fits tells whether a record is within the room that is reserved and, with others
// before it, within what the client takes in one message.
func (e *encoder) fits(rec *storage.Record) bool {
	need := e.bodyLen() + e.estimate(rec)
	return int64(need) <= e.room && (len(e.offs) == 0 || need <= e.a.b.s.cfg.MaxMessage)
}

// widen makes room for a first record that is larger than a batch; false: the
// window has none.
func (e *encoder) widen(rec *storage.Record) bool {
	need := int64(e.estimate(rec) + e.headLen())
	if need <= e.room {
		return true
	}
	if !e.a.b.s.widen(e.room, need) {
		e.need = need
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
	recs = recs[:min(len(recs), e.slots)]
	for i := range recs { // without a look at the records, which are far away still
		if e.want += len(recs[i].Frame); e.want >= batchBuffer {
			return
		}
	}
	for i := range recs {
		e.want += e.estimate(&recs[i]) - len(recs[i].Frame)
	}
}

// start takes a buffer and writes the run's head.
func (e *encoder) start(rec *storage.Record) {
	want := batchBuffer
	if e.want > 0 {
		want = min(want, e.want)
	}
	want = int(min(int64(want), e.room))
	e.buf = mem.DefaultBufferPool().Get(max(want, e.estimate(rec)+e.headLen()))
	b := (*e.buf)[:0]
	*e.buf = appendRunHead(b, e.a.b.id, e.p.key.Topic, e.p.key.Partition, e.p.m.Epoch())
	e.head = len(*e.buf)
}

// append encodes record i of a chunk. On an error the batch is as before.
func (e *encoder) append(c *chunk, i int, attempt int32, opt frame.ProtoOptions) error {
	rec := &c.batch.Records[i]
	if e.buf == nil {
		e.start(rec)
	}
	shared := attempt == 1 && len(e.p.l.parts) > 1
	before := len(*e.buf)
	if shared {
		if b, id := c.wire.get(i); b != nil {
			*e.buf = append(*e.buf, b...)
			e.appended(rec, before+id)
			return nil
		}
	}
	b, at, err := appendDelivery(*e.buf, rec.Offset, attempt, rec.Frame, opt)
	*e.buf = b
	if err != nil {
		return err
	}
	e.appended(rec, at)
	if shared {
		e.p.l.grow(c.wire.put(i, c.batch, b[before:], at-before))
	}
	return nil
}

// appended notes a delivery whose id is to be written at a place in buf.
func (e *encoder) appended(rec *storage.Record, id int) {
	e.offs = append(e.offs, rec.Offset)
	e.idPos = append(e.idPos, int32(id))
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

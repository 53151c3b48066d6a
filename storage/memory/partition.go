package memory

import (
	"slices"
	"sort"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

// record is one stored record. It never changes.
type record struct {
	offset int64
	time   int64 // ms since 1970
	frame  []byte
	epoch  int32 // of the leader that took it
}

// noCursor is a pull offset that nothing has set.
const noCursor int64 = -1

// partition is one partition, guarded by its topic's lock.
//
// Invariants: 0 <= min <= next; every record's offset is in min..next-1;
// offsets rise and times do not fall along records.
type partition struct {
	name    string
	records []record // never changed in place: readers hold parts of it
	dropped int      // records cut off the front since records was last copied
	bytes   int64    // of frames
	min     int64    // lowest offset that may be read
	next    int64    // offset of the next record
	last    int64    // time of the newest record ever
	epoch   int32    // of the leader; see Options.LeaderEpochs

	cursor int64  // pull offset, or noCursor
	saved  int64  // pull offset as last saved
	seeks  uint64 // raised by every Seek, so that a Poll under way notices

	wake chan struct{} // closed at the next append; nil: nobody waits
}

// push stores a record and returns its offset.
func (p *partition) push(now int64, frame []byte) int64 {
	p.last = max(p.last, now)
	offset := p.next
	p.records = append(p.records, record{offset: offset, time: p.last, frame: frame, epoch: p.epoch})
	p.bytes += int64(len(frame))
	p.next++
	return offset
}

// wakeAll wakes what waits for a record.
func (p *partition) wakeAll() {
	if p.wake != nil {
		close(p.wake)
		p.wake = nil
	}
}

// waiter returns a channel that is closed at the next append.
func (p *partition) waiter() <-chan struct{} {
	if p.wake == nil {
		p.wake = make(chan struct{})
	}
	return p.wake
}

// index is the place in records of the first offset that is not below o.
func (p *partition) index(o int64) int {
	return sort.Search(len(p.records), func(i int) bool { return p.records[i].offset >= o })
}

// trim moves the minimum up to before, which is at most next.
func (p *partition) trim(before int64) {
	if before <= p.min {
		return
	}
	p.drop(p.index(before))
	p.min = before
}

// drop cuts n records off the front, without touching them: a reader may
// hold them. They are freed when what was cut outweighs what is left.
func (p *partition) drop(n int) {
	for _, r := range p.records[:n] {
		p.bytes -= int64(len(r.frame))
	}
	p.records = p.records[n:]
	if p.dropped += n; p.dropped > len(p.records) {
		p.records, p.dropped = slices.Clone(p.records), 0
	}
}

// dropFirst drops n records and moves the minimum to the first that is left.
func (p *partition) dropFirst(n int) {
	if n == 0 {
		return
	}
	p.drop(n)
	p.min = p.next
	if len(p.records) > 0 {
		p.min = p.records[0].offset
	}
}

// bound drops the oldest records until at most limit bytes are left, or one
// record.
func (p *partition) bound(limit int64) {
	n, left := 0, p.bytes
	for ; left > limit && n < len(p.records)-1; n++ {
		left -= int64(len(p.records[n].frame))
	}
	p.dropFirst(n)
}

// expire drops the records that are older than retention.
func (p *partition) expire(now time.Time, retention time.Duration) {
	if retention <= 0 {
		return
	}
	oldest := now.Add(-retention).UnixMilli()
	p.dropFirst(sort.Search(len(p.records), func(i int) bool { return p.records[i].time >= oldest }))
}

// atOrAfter is the offset of the first record of time ms or later, or next.
func (p *partition) atOrAfter(ms int64) int64 {
	return p.offsetAt(p.timeIndex(ms))
}

// nearest is the offset of the record with the time nearest to ms; of
// several the first; next for a time after the last record.
func (p *partition) nearest(ms int64) int64 {
	i := p.timeIndex(ms)
	if i == 0 || i == len(p.records) {
		return p.offsetAt(i)
	}
	if before := p.records[i-1].time; ms-before <= p.records[i].time-ms {
		i = p.timeIndex(before)
	}
	return p.offsetAt(i)
}

func (p *partition) timeIndex(ms int64) int {
	return sort.Search(len(p.records), func(i int) bool { return p.records[i].time >= ms })
}

func (p *partition) offsetAt(i int) int64 {
	if i == len(p.records) {
		return p.next
	}
	return p.records[i].offset
}

// rangeError says that offset o is outside what p holds.
func (t *topic) rangeError(p *partition, o int64) error {
	return &storage.RangeError{Topic: t.name, Partition: p.name, Offset: o, Min: p.min, Max: p.next}
}

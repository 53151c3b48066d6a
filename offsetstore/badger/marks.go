package badger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// The file marks has a slot of 32 bytes for each key, overwritten in place and
// never synced: it survives the death of the process, not a loss of power.
//
//	epoch u64 | high i64 | generation u64 | zero u32 | checksum u32
//
// Slot 0 is the header: magic, store id, number of the last commit. A slot
// belongs to a key by its index and generation, which are stored with the key.
// The file grows in chunks that are written out, so that marking needs no new
// space.
const (
	marksFile  = "marks"
	slotSize   = 32
	chunkSlots = 2048
	marksMagic = 0x41434b4d41524b31 // "ACKMARK1"
)

// slotRef names a slot as one key's own.
type slotRef struct {
	index uint32
	gen   uint64 // the commit that gave it out
}

// mark is what a slot says.
type mark struct {
	epoch uint64
	high  int64
}

// above tells whether m is a higher mark than o.
func (m mark) above(o mark) bool {
	return m.epoch > o.epoch || (m.epoch == o.epoch && m.high > o.high)
}

// marks is the file. Slots are given out by the committer alone; writes to
// different slots may be concurrent.
type marks struct {
	path string
	id   uint64
	f    *os.File

	free []uint32 // slots below next that nobody has
	next uint32

	growing sync.Mutex
	slots   atomic.Uint32 // that the file holds
}

func encodeSlot(index uint32, a, b, c uint64) (buf [slotSize]byte) {
	binary.BigEndian.PutUint64(buf[0:], a)
	binary.BigEndian.PutUint64(buf[8:], b)
	binary.BigEndian.PutUint64(buf[16:], c)
	binary.BigEndian.PutUint32(buf[28:], slotChecksum(index, buf[:28]))
	return buf
}

func decodeSlot(index uint32, buf []byte) (a, b, c uint64, ok bool) {
	if binary.BigEndian.Uint32(buf[28:32]) != slotChecksum(index, buf[:28]) {
		return 0, 0, 0, false
	}
	return binary.BigEndian.Uint64(buf[0:]), binary.BigEndian.Uint64(buf[8:]), binary.BigEndian.Uint64(buf[16:]), true
}

// slotChecksum is over index and content; never 0, so that an unwritten slot
// is not a valid one.
func slotChecksum(index uint32, b []byte) uint32 {
	var i [4]byte
	binary.BigEndian.PutUint32(i[:], index)
	return crc32.Update(crc32.Checksum(i[:], castagnoli), castagnoli, b) | 1
}

// openMarks opens the file and fills in the marks of the entries. A file that
// is missing or damaged costs the marks in it and a warning. lastSeq is the
// last commit that the file knows of; 0: unknown.
func openMarks(dir string, id uint64, entries []*entry, log *slog.Logger) (m *marks, lastSeq uint64, err error) {
	m = &marks{path: filepath.Join(dir, marksFile), id: id, next: 1}
	image, err := os.ReadFile(m.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("offset store: %w", err)
	}
	if m.f, err = os.OpenFile(m.path, os.O_CREATE|os.O_RDWR, 0o640); err != nil {
		return nil, 0, fmt.Errorf("offset store: %w", err)
	}
	m.slots.Store(uint32(len(image) / slotSize))
	m.adopt(entries)
	lastSeq, known := m.header(image)
	if !known && len(entries) > 0 {
		log.Warn("offset store: the file of marks is missing or damaged; high marks are those last stored", "file", m.path)
	}
	if bad := m.load(image, entries); bad > 0 {
		log.Warn("offset store: marks are damaged; their high marks are those last stored", "file", m.path, "marks", bad)
	}
	return m, lastSeq, nil
}

// adopt notes which slots are taken.
func (m *marks) adopt(entries []*entry) {
	for _, e := range entries {
		m.next = max(m.next, e.slot.index+1)
	}
	taken := make([]bool, m.next)
	taken[0] = true
	for _, e := range entries {
		taken[e.slot.index] = true
	}
	for i, t := range taken {
		if !t {
			m.free = append(m.free, uint32(i))
		}
	}
}

// header reads slot 0.
func (m *marks) header(image []byte) (seq uint64, ok bool) {
	if len(image) < slotSize {
		return 0, false
	}
	magic, id, seq, ok := decodeSlot(0, image)
	return seq, ok && magic == marksMagic && id == m.id
}

// load fills in the marks and counts those that are damaged.
func (m *marks) load(image []byte, entries []*entry) (bad int) {
	for _, e := range entries {
		at := int(e.slot.index) * slotSize
		if at+slotSize > len(image) {
			continue // never marked, or cut off
		}
		slot := image[at : at+slotSize]
		epoch, high, gen, ok := decodeSlot(e.slot.index, slot)
		switch {
		case ok && gen == e.slot.gen:
			e.mark = mark{epoch, int64(high)}
		case !ok && [slotSize]byte(slot) != [slotSize]byte{}:
			bad++
		}
	}
	return bad
}

// take gives out a slot to the commit of number gen, growing the file if it
// must.
func (m *marks) take(gen uint64) (slotRef, error) {
	if n := len(m.free); n > 0 {
		i := m.free[n-1]
		m.free = m.free[:n-1]
		return slotRef{i, gen}, nil
	}
	if err := m.grow(m.next); err != nil {
		return slotRef{}, err
	}
	m.next++
	return slotRef{m.next - 1, gen}, nil
}

// give takes a slot back.
func (m *marks) give(r slotRef) { m.free = append(m.free, r.index) }

// grow makes room for a slot by whole chunks of written zeros.
func (m *marks) grow(index uint32) error {
	if index < m.slots.Load() {
		return nil
	}
	m.growing.Lock()
	defer m.growing.Unlock()
	for index >= m.slots.Load() {
		from := m.slots.Load()
		end := (from/chunkSlots + 1) * chunkSlots
		zeros := make([]byte, int(end-from)*slotSize)
		if _, err := m.f.WriteAt(zeros, int64(from)*slotSize); err != nil {
			return fmt.Errorf("file of marks: %w", err)
		}
		m.slots.Store(end)
	}
	return nil
}

// write overwrites a slot.
func (m *marks) write(r slotRef, k mark) error {
	if err := m.grow(r.index); err != nil { // at once, but for a lost file
		return err
	}
	buf := encodeSlot(r.index, k.epoch, uint64(k.high), r.gen)
	if _, err := m.f.WriteAt(buf[:], int64(r.index)*slotSize); err != nil {
		return fmt.Errorf("file of marks: %w", markError(err))
	}
	return nil
}

// stamp notes the number of the last commit.
func (m *marks) stamp(seq uint64) error {
	if err := m.grow(0); err != nil {
		return err
	}
	buf := encodeSlot(0, marksMagic, m.id, seq)
	if _, err := m.f.WriteAt(buf[:], 0); err != nil {
		return fmt.Errorf("file of marks: %w", err)
	}
	return nil
}

func markError(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return offsetstore.ErrClosed
	}
	return err
}

func (m *marks) close() error { return m.f.Close() }

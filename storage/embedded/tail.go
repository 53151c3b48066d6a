package embedded

import (
	"math"
	"sort"
	"sync"
	"sync/atomic"
)

// tail keeps the newest part of the log in memory, by position: a row of
// blocks that the committer builds its writes in and readers copy from. When
// it grows beyond its limit the oldest block goes.
type tail struct {
	limit int

	mu     sync.Mutex
	blocks []*tailBlock // by position; the last is built in
	held   int          // bytes of all blocks
	free   *tailBlock   // one without users, to be used again
}

// tailBlock is a piece of memory that holds the log from a position on.
type tailBlock struct {
	pos   int64
	buf   []byte       // what is committed; behind it there may be room
	users atomic.Int32 // readers
}

// blockBytes is the size of a block; one larger write gets a larger one.
func (t *tail) blockBytes() int { return min(max(t.limit/8, 4<<10), 4<<20) }

// room returns memory for the n bytes from position pos on. Only the committer
// calls it and keep; what it builds there nobody sees until keep.
func (t *tail) room(pos int64, n int) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := len(t.blocks); k > 0 {
		b := t.blocks[k-1]
		if used := len(b.buf); b.pos+int64(used) == pos && cap(b.buf)-used >= n {
			return b.buf[used:used:cap(b.buf)]
		}
	}
	b := t.free
	t.free = nil
	if b == nil || cap(b.buf) < n {
		b = &tailBlock{buf: make([]byte, 0, max(n, t.blockBytes()))}
	}
	b.pos, b.buf = pos, b.buf[:0]
	t.blocks = append(t.blocks, b)
	t.held += cap(b.buf)
	t.evict()
	return b.buf
}

// evict drops the oldest blocks beyond the limit. The caller holds mu.
func (t *tail) evict() {
	for len(t.blocks) > 1 && t.held > t.limit {
		b := t.blocks[0]
		t.blocks = append(t.blocks[:0], t.blocks[1:]...)
		t.held -= cap(b.buf)
		if b.users.Load() == 0 && cap(b.buf) == t.blockBytes() {
			t.free = b
		}
	}
}

// keep makes b, which was built in room, part of the tail. What did not fit
// there is left out; readers then find it on disk.
func (t *tail) keep(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.blocks[len(t.blocks)-1]
	used := len(last.buf)
	if cap(last.buf)-used >= len(b) && &last.buf[:used+1][used] == &b[0] {
		last.buf = last.buf[:used+len(b)]
	}
}

// use returns the n bytes at a position if they are here. They stay as they
// are until release.
func (t *tail) use(pos int64, n int) (b *tailBlock, data []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := sort.Search(len(t.blocks), func(i int) bool { return t.blocks[i].pos > pos }) - 1
	if i < 0 {
		return nil, nil
	}
	b = t.blocks[i]
	from := int(pos - b.pos)
	if from+n > len(b.buf) {
		return nil, nil
	}
	b.users.Add(1)
	return b, b.buf[from : from+n]
}

func (b *tailBlock) release() { b.users.Add(-1) }

// begin is the position from which on the tail holds the log.
func (t *tail) begin() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.blocks) == 0 {
		return math.MaxInt64
	}
	return t.blocks[0].pos
}

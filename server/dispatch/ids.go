package dispatch

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// Delivery ids are 63 bits: the salt of the instance, the number of a block out
// of a durable counter, and a number within the block. A stream draws
// consecutive ids from a block of its own and takes another when it is used up.
// No id is ever used twice: the counter is on disk ahead of its use.
const (
	idSaltBits  = 12
	idBlockBits = 20
	idCountBits = 63 - idSaltBits - idBlockBits

	idsAhead  = 256 // blocks reserved by one write
	idsLow    = 64  // blocks left at which the next are reserved
	idsSpace  = "meta"
	idsRecord = "delivery-ids"
)

// idBlock is a run of ids that a stream owns.
type idBlock struct {
	next, end uint64 // [next, end)
	source    *idSource
}

// ready tells whether a batch can be numbered.
func (b *idBlock) ready() bool {
	if b.next+delivery64 <= b.end {
		return true
	}
	if first, ok := b.source.block(); ok {
		b.next, b.end = first, first|(1<<idBlockBits-1)
		return true
	}
	return false
}

// delivery64 is the largest batch.
const delivery64 = 64

// take returns the first of n ids; ready must have been true.
func (b *idBlock) take(n int) uint64 {
	first := b.next
	b.next += uint64(n)
	return first
}

// idSource hands out blocks of ids from the durable counter.
type idSource struct {
	store offsetstore.Store
	mu    sync.Mutex
	salt  uint64
	next  uint64 // next block
	limit uint64 // blocks below are reserved on disk
	busy  bool
	// reservedHook is called after each write of the counter, with its error.
	reservedHook func(error)
}

// openIDs reads the counter, and draws the instance's salt at first start.
func openIDs(ctx context.Context, store offsetstore.Store, rnd *rand.Rand, hook func(error)) (*idSource, error) {
	src := &idSource{store: store, reservedHook: hook}
	raw, ok, err := store.GetRecord(idsSpace, idsRecord)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the delivery id counter: %w", err)
	case ok && len(raw) != 16:
		return nil, fmt.Errorf("the delivery id counter has %d bytes, not 16: %w", len(raw), offsetstore.ErrCorrupt)
	case ok:
		src.salt, src.next = binary.BigEndian.Uint64(raw), binary.BigEndian.Uint64(raw[8:])
	default:
		src.salt, src.next = rnd.Uint64N(1<<idSaltBits), 1
	}
	if err := offsetstore.Commit(ctx, store, src.txn(src.next+idsAhead)); err != nil {
		return nil, fmt.Errorf("reserve delivery ids: %w", err)
	}
	src.limit = src.next + idsAhead
	return src, nil
}

func (s *idSource) txn(limit uint64) *offsetstore.Txn {
	v := binary.BigEndian.AppendUint64(nil, s.salt)
	v = binary.BigEndian.AppendUint64(v, limit)
	return &offsetstore.Txn{Sets: []offsetstore.Record{{Space: idsSpace, Key: idsRecord, Value: v}}}
}

// block returns the first id of a fresh block; ok is false while none is
// reserved on disk. It does not block.
func (s *idSource) block() (first uint64, ok bool) {
	s.mu.Lock()
	low := s.limit-s.next < idsLow && !s.busy
	limit := s.limit + idsAhead
	if low {
		s.busy = true
	}
	if ok = s.next < s.limit; ok {
		n := s.next & (1<<idCountBits - 1)
		s.next++
		first = s.salt<<(idCountBits+idBlockBits) | n<<idBlockBits | 1
	}
	s.mu.Unlock()
	if low {
		s.store.Submit(s.txn(limit), func(err error) { s.reserved(limit, err) })
	}
	return first, ok
}

func (s *idSource) reserved(limit uint64, err error) {
	s.mu.Lock()
	s.busy = false
	if err == nil {
		s.limit = limit
	}
	s.mu.Unlock()
	s.reservedHook(err)
}

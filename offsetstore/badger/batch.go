package badger

import (
	"bytes"
	"slices"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/offsetstore/internal/committer"
)

// batch gathers transactions that go to disk as one of Badger's. Each key is
// read once, merged in memory, and written once.
type batch struct {
	index *index
	limit limits

	items   []committer.Item
	keys    []*staged          // in the order they were touched
	fresh   map[string]*staged // those of them that the index does not have
	records map[string][]byte  // by Badger's key; nil: unset
	size    int                // bound of what is to be written
	count   int                // how many pairs

	buf  []byte
	undo []undo // what the current transaction changed
}

// limits are what one transaction of Badger takes.
type limits struct {
	size, count int
	value       int // size from which on a value is too large
}

// pairCost is what Badger counts for a pair beside key and value, and what our
// envelope adds.
const pairCost = 12 + 30

// staged is what a batch makes of a key.
type staged struct {
	e     *entry // its entry, a new one when the index has none
	topic string
	known bool // the index has e

	value   offsetstore.Value
	present bool // has a value
	reborn  bool // was deleted in this batch: begins anew
	dirty   bool // is to be written
	size    int  // its share of the batch's size
}

// undo is a state to go back to.
type undo struct {
	staged *staged
	was    staged
	record string
	value  []byte
	had    bool
}

func newBatch(x *index, l limits) *batch {
	return &batch{index: x, limit: l, fresh: map[string]*staged{}, records: map[string][]byte{}}
}

// reset empties the batch, letting go of what it staged.
func (b *batch) reset() {
	for _, s := range b.keys {
		s.e.staged = nil
	}
	clear(b.items)
	clear(b.keys)
	clear(b.fresh)
	clear(b.records)
	b.items, b.keys = b.items[:0], b.keys[:0]
	b.size, b.count = 0, 0
}

// add takes in a transaction, or returns an error and leaves the batch as it
// was: ErrTooBig when it does not fit beside the others.
func (b *batch) add(it committer.Item) error {
	clear(b.undo)
	b.undo = b.undo[:0]
	err := b.apply(it.Txn)
	if err == nil && b.full() {
		err = offsetstore.ErrTooBig
	}
	if err != nil {
		b.rollback()
		return err
	}
	b.items = append(b.items, it)
	return nil
}

func (b *batch) full() bool { return b.size > b.limit.size || b.count > b.limit.count }

func (b *batch) apply(txn *offsetstore.Txn) error {
	for _, k := range txn.Deletes {
		s, err := b.stage(k)
		if err != nil {
			return err
		}
		if s.present {
			b.change(s, staged{e: s.e, topic: s.topic, known: s.known, reborn: true, dirty: true}, 0)
		}
	}
	for i := range txn.Puts {
		if err := b.put(&txn.Puts[i]); err != nil {
			return err
		}
	}
	for _, r := range txn.Unsets {
		if err := b.record(r, nil); err != nil {
			return err
		}
	}
	for _, r := range txn.Sets {
		if err := b.record(r, append([]byte{}, r.Value...)); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) put(p *offsetstore.Put) error {
	s, err := b.stage(p.Key)
	if err != nil {
		return err
	}
	next := *s
	next.value = offsetstore.Normal(p.Value)
	if s.present {
		next.value = offsetstore.Merge(s.value, next.value)
	}
	next.present, next.dirty = true, true
	size, err := b.valueSize(next.value)
	if err != nil {
		return err
	}
	b.change(s, next, size)
	return nil
}

// valueSize is a bound of a value's size: for a large one its size.
func (b *batch) valueSize(v offsetstore.Value) (int, error) {
	const exactFrom = 4096
	n := offsetstore.ValueBound(v)
	if n >= exactFrom {
		b.buf = offsetstore.AppendValue(b.buf[:0], v)
		n = len(b.buf)
	}
	if n+pairCost >= b.limit.value {
		return 0, offsetstore.ErrTooBig
	}
	return n, nil
}

// stage finds or reads what the batch makes of a key.
func (b *batch) stage(k offsetstore.Key) (*staged, error) {
	b.buf = badgerKey(b.buf[:0], k)
	if len(b.buf) > maxKey {
		return nil, offsetstore.ErrTooBig
	}
	e := b.index.find(k.Topic, b.buf)
	if e == nil {
		return b.stageFresh(k.Topic), nil
	}
	if e.staged != nil {
		return e.staged, nil
	}
	v, err := decodeEnvelope(e.env, e.at)
	if err != nil {
		return nil, err
	}
	e.staged = &staged{e: e, topic: k.Topic, known: true, value: v, present: true}
	b.keys = append(b.keys, e.staged)
	return e.staged, nil
}

// maxKey is the longest key that Badger takes, less what it adds.
const maxKey = 60_000

// stageFresh is stage of a key that the index does not have; b.buf holds it.
func (b *batch) stageFresh(topic string) *staged {
	if s := b.fresh[string(b.buf)]; s != nil {
		return s
	}
	e := &entry{key: string(b.buf)}
	e.staged = &staged{e: e, topic: topic}
	b.fresh[e.key] = e.staged
	b.keys = append(b.keys, e.staged)
	return e.staged
}

// change replaces the state of a staged key, which can be undone.
func (b *batch) change(s *staged, next staged, size int) {
	b.undo = append(b.undo, undo{staged: s, was: *s})
	next.size = len(s.e.key) + size + pairCost
	b.size += next.size - s.size
	if !s.dirty {
		b.count++
	}
	*s = next
}

// record stages a record; nil unsets it.
func (b *batch) record(r offsetstore.Record, value []byte) error {
	b.buf = recordKey(b.buf[:0], r.Space, r.Key)
	if len(b.buf) > maxKey || len(value)+pairCost >= b.limit.value {
		return offsetstore.ErrTooBig
	}
	key := string(b.buf)
	was, had := b.records[key]
	b.undo = append(b.undo, undo{record: key, value: was, had: had})
	b.size += len(value) - len(was)
	if !had {
		b.size += len(key) + pairCost
		b.count++
	}
	b.records[key] = value
	return nil
}

// rollback takes back what the current transaction changed.
func (b *batch) rollback() {
	for _, u := range slices.Backward(b.undo) {
		if u.staged != nil {
			b.size += u.was.size - u.staged.size
			if !u.was.dirty {
				b.count--
			}
			*u.staged = u.was
			continue
		}
		b.size += len(u.value) - len(b.records[u.record])
		if u.had {
			b.records[u.record] = u.value
			continue
		}
		b.size -= len(u.record) + pairCost
		b.count--
		delete(b.records, u.record)
	}
}

// write is a pair that a batch writes, or removes when env is nil.
type write struct {
	s     *staged
	key   []byte
	env   []byte
	at    int
	slot  slotRef
	fresh bool // has a new slot
}

// unchanged tells whether a staged key needs no write.
func (s *staged) unchanged(enc []byte) bool {
	if !s.present {
		return !s.known
	}
	return s.known && !s.reborn && bytes.Equal(enc, s.e.env[s.e.at:len(s.e.env)-4])
}

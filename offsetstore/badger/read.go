package badger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	kv "github.com/dgraph-io/badger/v4"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// usable is nil until the store is closed.
func (s *Store) usable() error {
	if s.closed.Load() {
		return offsetstore.ErrClosed
	}
	return nil
}

// Get implements offsetstore.Store. It reads memory only.
func (s *Store) Get(key offsetstore.Key) (offsetstore.Value, bool, error) {
	if err := s.usable(); err != nil {
		return offsetstore.Value{}, false, err
	}
	e, env, at := s.index.get(key)
	if e == nil {
		return offsetstore.Value{}, false, nil
	}
	v, err := decodeEnvelope(env, at)
	if err != nil {
		return offsetstore.Value{}, false, fmt.Errorf("offset store %s: %v: %w", s.dir, key, err)
	}
	return e.marked(v), true, nil
}

// Scan implements offsetstore.Store. It reads memory only. What is put or
// deleted meanwhile may or may not be seen.
func (s *Store) Scan(topic string, fn func(offsetstore.Key, offsetstore.Value) bool) error {
	if err := s.usable(); err != nil {
		return err
	}
	keys, err := s.index.keys(topic)
	if err != nil {
		return fmt.Errorf("offset store %s: %w", s.dir, err)
	}
	for _, k := range keys {
		v, ok, err := s.Get(k)
		if err != nil {
			return err
		}
		if ok && !fn(k, v) {
			return nil
		}
	}
	return nil
}

// recordKey appends Badger's key of a record to dst. Keys of one space sort as
// the records' do.
func recordKey(dst []byte, space, key string) []byte {
	dst = binary.AppendUvarint(append(dst, recordSpace), uint64(len(space)))
	return append(append(dst, space...), key...)
}

// GetRecord implements offsetstore.Store.
func (s *Store) GetRecord(space, key string) (value []byte, ok bool, err error) {
	k := recordKey(nil, space, key)
	err = s.view(func(txn *kv.Txn) error {
		item, err := txn.Get(k)
		if err != nil {
			return err
		}
		value, err = recordValue(k, item)
		return err
	})
	if errors.Is(err, kv.ErrKeyNotFound) {
		return nil, false, nil
	}
	return value, err == nil, err
}

func recordValue(key []byte, item *kv.Item) (value []byte, err error) {
	err = item.Value(func(env []byte) error {
		content, err := unseal(key, env)
		value = append([]byte{}, content...)
		return err
	})
	return value, err
}

// view reads Badger, unless the store is closed. After a failed commit it may
// show what is not on disk, so then there is nothing to read.
func (s *Store) view(fn func(*kv.Txn) error) error {
	s.reads.RLock()
	defer s.reads.RUnlock()
	if err := s.usable(); err != nil {
		return err
	}
	if broken := s.broken.Load(); broken != nil {
		return *broken
	}
	err := s.db.View(fn)
	if err != nil && !errors.Is(err, kv.ErrKeyNotFound) {
		return fmt.Errorf("offset store %s: %w", s.dir, err)
	}
	return err
}

// record is one that a scan read.
type record struct {
	key   string
	value []byte
}

// ScanRecords implements offsetstore.Store. It reads ahead in pages, so fn may
// call the store. What is set or unset meanwhile may or may not be seen.
func (s *Store) ScanRecords(space, prefix, after string, fn func(string, []byte) bool) error {
	for {
		page, err := s.page(space, prefix, after)
		if err != nil {
			return err
		}
		for _, r := range page {
			if !fn(r.key, r.value) {
				return nil
			}
		}
		if len(page) < pageSize {
			return nil
		}
		after = page[len(page)-1].key
	}
}

const pageSize = 256

// page reads the next records of a scan.
func (s *Store) page(space, prefix, after string) (page []record, err error) {
	base := len(recordKey(nil, space, ""))
	from := recordKey(nil, space, max(prefix, after))
	err = s.view(func(txn *kv.Txn) error {
		it := txn.NewIterator(kv.IteratorOptions{Prefix: recordKey(nil, space, prefix)})
		defer it.Close()
		for it.Seek(from); it.Valid() && len(page) < pageSize; it.Next() {
			key := it.Item().Key()
			if bytes.Equal(key[base:], []byte(after)) {
				continue // at or below it is only itself
			}
			v, err := recordValue(key, it.Item())
			if err != nil {
				return err
			}
			page = append(page, record{string(key[base:]), v})
		}
		return nil
	})
	return page, err
}

package badger

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	kv "github.com/dgraph-io/badger/v4"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// load reads everything there is, checks it, and fills the index.
func (s *Store) load(f format) error {
	var entries []*entry
	var got, want meta
	err := s.db.View(func(txn *kv.Txn) (err error) {
		if want, err = readMeta(txn, f.state == stateNew); err != nil {
			return err
		}
		got.seq = want.seq
		entries, err = s.loadAll(txn, &got)
		return err
	})
	if err == nil && got != want {
		err = fmt.Errorf("%d pairs with sum %x, the last commit left %d with %x", got.count, got.sum, want.count, want.sum)
	}
	if err != nil {
		return damaged(s.path(), err)
	}
	var stamped uint64
	s.meta = want
	s.marks, stamped, err = openMarks(s.dir, f.id, entries, s.opt.Logger)
	if err != nil {
		return err
	}
	if stamped > want.seq {
		return damaged(s.path(), fmt.Errorf("the last commit is number %d, %s knows of %d",
			want.seq, filepath.Join(s.dir, marksFile), stamped))
	}
	return nil
}

// readMeta reads the meta record; only a store that is being made has none.
func readMeta(txn *kv.Txn, fresh bool) (m meta, err error) {
	item, err := txn.Get(metaKey)
	if fresh && errors.Is(err, kv.ErrKeyNotFound) {
		return meta{}, nil
	}
	if err != nil {
		return meta{}, fmt.Errorf("meta record: %w", err)
	}
	err = item.Value(func(b []byte) error {
		m, err = decodeMeta(b)
		return err
	})
	return m, err
}

// loadAll counts every stored pair into sum and makes the entries.
func (s *Store) loadAll(txn *kv.Txn, sum *meta) (entries []*entry, err error) {
	it := txn.NewIterator(kv.IteratorOptions{})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		key := it.Item().Key()
		if string(key) == string(metaKey) {
			continue
		}
		err := it.Item().Value(func(env []byte) error {
			sum.add(key, env)
			if key[0] == recordSpace {
				_, err := unseal(key, env)
				return err
			}
			e, err := s.loadKey(string(key), bytes.Clone(env))
			entries = append(entries, e)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return entries, nil
}

func (s *Store) loadKey(key string, env []byte) (*entry, error) {
	slot, at, err := openValue([]byte(key), env)
	if err != nil {
		return nil, err
	}
	k, err := offsetstore.DecodeKey([]byte(key[1:]))
	if err != nil {
		return nil, err
	}
	if _, err := decodeEnvelope(env, at); err != nil {
		return nil, fmt.Errorf("value of %v: %w", k, err)
	}
	e := &entry{key: key, slot: slot, env: env, at: at}
	s.index.insert(k.Topic, e)
	return e, nil
}

package badger

import (
	"errors"
	"fmt"
	"time"

	kv "github.com/dgraph-io/badger/v4"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/offsetstore/internal/committer"
)

// commit writes a group of transactions: all in one of Badger's, or in several
// when they do not fit, none of them divided.
func (s *Store) commit(group []committer.Item) {
	b := s.batch
	for _, it := range group {
		err := b.add(it)
		if errors.Is(err, offsetstore.ErrTooBig) && len(b.items) > 0 {
			s.flush(b)
			err = b.add(it)
		}
		if err != nil {
			it.Done(s.refusal(err))
		}
	}
	if len(b.items) > 0 {
		s.flush(b)
	}
	b.reset()
}

// refusal is what a transaction that cannot be taken is told.
func (s *Store) refusal(err error) error {
	if errors.Is(err, offsetstore.ErrTooBig) {
		return fmt.Errorf("offset store: %w: at most %d pairs and %d bytes in one, %d in a value",
			err, s.batch.limit.count, s.batch.limit.size, s.batch.limit.value)
	}
	return fmt.Errorf("offset store %s: %w", s.dir, err)
}

// flush commits a batch, answers its transactions and empties it.
func (s *Store) flush(b *batch) {
	start := time.Now()
	writes, err := s.persist(b)
	s.opt.Observe(Commit{
		Took: time.Since(start), Transactions: len(b.items),
		Writes: writes, Bytes: b.size, Err: err,
	})
	for _, it := range b.items {
		it.Done(err)
	}
	b.reset()
}

// persist makes a batch durable and then visible; an error means that none of
// it is either. It returns how many pairs were written.
func (s *Store) persist(b *batch) (int, error) {
	if err := s.ready(); err != nil {
		return 0, err
	}
	next := s.meta
	next.seq++
	writes, err := s.plan(b, &next)
	if err != nil {
		s.giveBack(writes)
		return 0, err
	}
	if len(writes)+len(b.records) == 0 {
		return 0, nil // nothing changes: what is there is durable
	}
	if err := s.write(writes, b.records, next); err != nil {
		s.giveBack(writes)
		return 0, err
	}
	s.publish(writes)
	return len(writes) + len(b.records), nil
}

// flushPatience is how long a commit waits for flushes that are behind.
const flushPatience = 2 * time.Second

// flushLook is the time between two looks whether one is done: Badger does not
// tell.
const flushLook = 2 * time.Millisecond

// ready returns nil when Badger will take a commit without waiting, for space
// or for a flush. Flushes that are behind hold commits back for a while, then
// commits are refused.
func (s *Store) ready() error {
	for end := time.Now().Add(flushPatience); ; <-time.After(flushLook) {
		if err := s.Healthy(); err != nil {
			return err
		}
		logs, err := s.wal.count()
		if err != nil {
			return err
		}
		if logs <= maxLogs {
			break
		}
		if s.stuck || time.Now().After(end) {
			s.stuck = true
			return fmt.Errorf("offset store %s: %w: %d logs wait to be flushed", s.dir, offsetstore.ErrReadOnly, logs)
		}
	}
	s.stuck = false
	if err := s.wal.provide(!s.opt.NoSync); err != nil {
		return fmt.Errorf("%w: %w", offsetstore.ErrReadOnly, err)
	}
	return nil
}

// plan encodes what is to be written and gives out slots to new keys. After an
// error the slots of what it returns are to be given back.
func (s *Store) plan(b *batch, next *meta) (writes []write, err error) {
	for _, st := range b.keys {
		if !st.dirty {
			continue
		}
		var enc []byte
		if st.present {
			s.buf = offsetstore.AppendValue(s.buf[:0], st.value)
			enc = s.buf
		}
		if st.unchanged(enc) {
			continue
		}
		w := write{s: st, key: []byte(st.e.key), slot: st.e.slot}
		if st.present {
			if w.fresh = !st.known || st.reborn; w.fresh {
				if w.slot, err = s.marks.take(next.seq); err != nil {
					return writes, fmt.Errorf("offset store %s: %w: %w", s.dir, offsetstore.ErrReadOnly, err)
				}
			}
			w.env, w.at = sealValue(w.key, w.slot, enc)
			next.add(w.key, w.env)
		}
		if st.known {
			next.remove(w.key, st.e.env)
		}
		writes = append(writes, w)
	}
	return writes, nil
}

// giveBack frees the slots of writes that were not to be.
func (s *Store) giveBack(writes []write) {
	for _, w := range writes {
		if w.fresh {
			s.marks.give(w.slot)
		}
	}
}

// write commits pairs and the meta record to Badger. An error of Badger's
// leaves open what reached the disk, so it is the last write until the store
// is opened again.
func (s *Store) write(writes []write, records map[string][]byte, next meta) error {
	txn := s.db.NewTransaction(true)
	defer txn.Discard()
	if err := stageAll(txn, writes, records, &next); err != nil {
		return fmt.Errorf("offset store %s: %w", s.dir, err) // nothing was written
	}
	err := txn.Commit()
	if err == nil {
		err = s.followLog()
	}
	if err != nil {
		return s.setBroken(err)
	}
	s.meta = next
	if s.opt.NoSync {
		return nil // a stamp would outlive a loss of power that the commit does not
	}
	if err := s.marks.stamp(next.seq); err != nil {
		s.opt.Logger.Warn("offset store: cannot note the number of the last commit", "error", err)
	}
	return nil
}

// followLog sees whether the commit began a new log, and provides for the next
// one. Where there is no space for that, the next commit tries again before it
// begins. An error means that the new log may vanish.
func (s *Store) followLog() error {
	if err := s.wal.follow(); err != nil || s.wal.spare {
		return err
	}
	err := s.wal.provide(false)
	if err := errors.Join(err, reserveManifest(s.path())); err != nil {
		s.opt.Logger.Warn("offset store: no space ahead of need", "error", err)
	}
	if s.opt.NoSync {
		return nil
	}
	return syncDir(s.path())
}

// stageAll sets and deletes what is to be written in a transaction of Badger's,
// and the meta record that tells of it.
func stageAll(txn *kv.Txn, writes []write, records map[string][]byte, next *meta) error {
	for _, w := range writes {
		if err := setOrDelete(txn, w.key, w.env); err != nil {
			return err
		}
	}
	for k, v := range records {
		if err := stageRecord(txn, []byte(k), v, next); err != nil {
			return err
		}
	}
	return txn.Set(metaKey, next.encode())
}

// stageRecord reads what a record replaces, for the sum over all.
func stageRecord(txn *kv.Txn, key, value []byte, next *meta) error {
	item, err := txn.Get(key)
	switch {
	case errors.Is(err, kv.ErrKeyNotFound):
		if value == nil {
			return nil
		}
	case err != nil:
		return err
	default:
		err = item.Value(func(env []byte) error {
			next.remove(key, env)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if value == nil {
		return txn.Delete(key)
	}
	env := sealRecord(key, value)
	next.add(key, env)
	return txn.Set(key, env)
}

func setOrDelete(txn *kv.Txn, key, env []byte) error {
	if env == nil {
		return txn.Delete(key)
	}
	return txn.Set(key, env)
}

// publish makes durable writes visible.
func (s *Store) publish(writes []write) {
	var dead []*entry
	s.index.mu.Lock()
	for _, w := range writes {
		if w.s.known && (w.env == nil || w.fresh) {
			s.index.remove(w.s.topic, w.s.e)
			dead = append(dead, w.s.e)
		}
		if w.env != nil {
			s.show(w)
		}
	}
	s.index.mu.Unlock()
	for _, e := range dead {
		s.bury(e)
	}
}

// show puts a written value into the index. The caller holds its lock.
func (s *Store) show(w write) {
	e := w.s.e
	if w.fresh {
		e = &entry{key: e.key, slot: w.slot}
		s.index.insert(w.s.topic, e)
	}
	e.env, e.at = w.env, w.at
}

// bury ends the marks of a deleted entry and frees its slot. No marker writes
// to the slot after that.
func (s *Store) bury(e *entry) {
	e.mu.Lock()
	e.dead = true
	e.mu.Unlock()
	s.marks.give(e.slot)
}

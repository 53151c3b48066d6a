// Package memory is an offset store without a disk, for tests: the same
// contract, nothing survives the process. It uses no real time, so that it
// works in a bubble of testing/synctest.
package memory

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/offsetstore/internal/committer"
)

// Disk is what stays of a Store: open it again and all is there, as after a
// restart. One Store at a time may have it open.
type Disk struct {
	mu      sync.RWMutex
	inUse   bool
	values  map[offsetstore.Key]*entry
	records map[string]map[string][]byte // by space and key
}

// entry is what is known of a key.
type entry struct {
	value     offsetstore.Value
	deleted   bool
	markEpoch uint64
	markHigh  int64
}

// NewDisk makes an empty disk.
func NewDisk() *Disk {
	return &Disk{
		values:  map[offsetstore.Key]*entry{},
		records: map[string]map[string][]byte{},
	}
}

// Store is an offsetstore.Store on a Disk.
type Store struct {
	disk    *Disk
	commits *committer.Committer
	killed  chan struct{} // closed by Kill

	mu     sync.Mutex
	closed bool
	fail   error
	held   chan struct{} // non-nil: commits wait until it is closed
}

var _ offsetstore.Store = (*Store)(nil)

// New opens a store on a disk of its own.
func New() *Store {
	s, err := Open(NewDisk())
	if err != nil {
		panic(err) // a new disk is not in use
	}
	return s
}

// Open opens a store on a disk; ErrLocked while another one has it open.
func Open(d *Disk) (*Store, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inUse {
		return nil, fmt.Errorf("memory disk: %w", offsetstore.ErrLocked)
	}
	d.inUse = true
	s := &Store{disk: d, killed: make(chan struct{})}
	s.commits = committer.Start(s.commit)
	return s, nil
}

// Disk is what the store is kept on.
func (s *Store) Disk() *Disk { return s.disk }

// FailWrites makes every commit from now on fail with an error that wraps err;
// nil heals. Healthy tells it. What was failed is not tried again.
func (s *Store) FailWrites(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// HoldWrites makes every commit from now on wait until release is called: what
// a slow disk does. Close waits too. release may be called more than once.
func (s *Store) HoldWrites() (release func()) {
	held := make(chan struct{})
	s.mu.Lock()
	s.held = held
	s.mu.Unlock()
	return sync.OnceFunc(func() {
		s.mu.Lock()
		if s.held == held {
			s.held = nil
		}
		s.mu.Unlock()
		close(held)
	})
}

// Kill ends the store as the death of the process would: what is queued or
// held is lost and its done never called. The disk may be opened again. It is
// to be called once, and not with Close.
func (s *Store) Kill() {
	close(s.killed)
	s.end(s.commits.Abort)
}

// Submit implements offsetstore.Store.
func (s *Store) Submit(txn *offsetstore.Txn, done func(error)) { s.commits.Submit(txn, done) }

// Close implements offsetstore.Store.
func (s *Store) Close() error {
	s.end(s.commits.Close)
	return nil
}

// end stops the committer before reads end and the disk is let go, once.
func (s *Store) end(stop func()) {
	stop()
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	if again {
		return
	}
	s.disk.mu.Lock()
	s.disk.inUse = false
	s.disk.mu.Unlock()
}

// Healthy implements offsetstore.Store.
func (s *Store) Healthy() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return offsetstore.ErrClosed
	}
	return s.fail
}

// open is nil until the store is closed.
func (s *Store) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return offsetstore.ErrClosed
	}
	return nil
}

func (s *Store) commit(group []committer.Item) {
	if !s.wait() {
		return
	}
	if err := s.failure(); err != nil {
		for _, it := range group {
			it.Done(err)
		}
		return
	}
	s.disk.mu.Lock()
	for _, it := range group {
		s.disk.apply(it.Txn)
	}
	s.disk.mu.Unlock()
	for _, it := range group {
		it.Done(nil)
	}
}

// wait blocks while writes are held; false when the store was killed.
func (s *Store) wait() bool {
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	if held == nil {
		return true
	}
	select {
	case <-held:
		return true
	case <-s.killed:
		return false
	}
}

func (s *Store) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail == nil {
		return nil
	}
	return fmt.Errorf("commit to memory: %w", s.fail)
}

// apply makes the changes of a transaction. The caller holds the lock.
func (d *Disk) apply(txn *offsetstore.Txn) {
	for _, k := range txn.Deletes {
		if e := d.values[k]; e != nil {
			e.deleted = true
			delete(d.values, k)
		}
	}
	for _, p := range txn.Puts {
		d.put(p)
	}
	for _, r := range txn.Unsets {
		delete(d.records[r.Space], r.Key)
	}
	for _, r := range txn.Sets {
		if d.records[r.Space] == nil {
			d.records[r.Space] = map[string][]byte{}
		}
		d.records[r.Space][r.Key] = append([]byte{}, r.Value...)
	}
}

func (d *Disk) put(p offsetstore.Put) {
	next := offsetstore.Normal(p.Value)
	e := d.values[p.Key]
	if e == nil {
		d.values[p.Key] = &entry{value: next.Clone()}
		return
	}
	e.value = offsetstore.Merge(e.value, next).Clone()
}

// Get implements offsetstore.Store.
func (s *Store) Get(key offsetstore.Key) (offsetstore.Value, bool, error) {
	if err := s.open(); err != nil {
		return offsetstore.Value{}, false, err
	}
	s.disk.mu.RLock()
	defer s.disk.mu.RUnlock()
	e := s.disk.values[key]
	if e == nil {
		return offsetstore.Value{}, false, nil
	}
	return e.value.Clone().Marked(e.markEpoch, e.markHigh), true, nil
}

// Scan implements offsetstore.Store. What is put or deleted meanwhile may or
// may not be seen.
func (s *Store) Scan(topic string, fn func(offsetstore.Key, offsetstore.Value) bool) error {
	for _, k := range s.disk.keys(topic) {
		v, ok, err := s.Get(k)
		if err != nil {
			return err
		}
		if ok && !fn(k, v) {
			return nil
		}
	}
	return s.open()
}

// keys are the keys of a topic, of all for "", in order.
func (d *Disk) keys(topic string) []offsetstore.Key {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var keys []offsetstore.Key
	for k := range d.values {
		if topic == "" || k.Topic == topic {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, offsetstore.Key.Compare)
	return keys
}

// GetRecord implements offsetstore.Store.
func (s *Store) GetRecord(space, key string) ([]byte, bool, error) {
	if err := s.open(); err != nil {
		return nil, false, err
	}
	s.disk.mu.RLock()
	defer s.disk.mu.RUnlock()
	v, ok := s.disk.records[space][key]
	return bytes.Clone(v), ok, nil
}

// ScanRecords implements offsetstore.Store. What is set or unset meanwhile may
// or may not be seen.
func (s *Store) ScanRecords(space, prefix, after string, fn func(string, []byte) bool) error {
	for _, k := range s.disk.recordKeys(space) {
		if !strings.HasPrefix(k, prefix) || k <= after {
			continue
		}
		v, ok, err := s.GetRecord(space, k)
		if err != nil {
			return err
		}
		if ok && !fn(k, v) {
			return nil
		}
	}
	return s.open()
}

func (d *Disk) recordKeys(space string) []string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.Sorted(maps.Keys(d.records[space]))
}

// Marker implements offsetstore.Store.
func (s *Store) Marker(key offsetstore.Key) (offsetstore.Marker, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	s.disk.mu.RLock()
	defer s.disk.mu.RUnlock()
	e := s.disk.values[key]
	if e == nil {
		return nil, fmt.Errorf("marker of %v: %w", key, offsetstore.ErrNotFound)
	}
	return &marker{s: s, key: key, e: e}, nil
}

type marker struct {
	s   *Store
	key offsetstore.Key
	e   *entry
}

// Mark implements offsetstore.Marker.
func (m *marker) Mark(epoch uint64, high int64) error {
	if err := m.s.open(); err != nil {
		return err
	}
	m.s.disk.mu.Lock()
	defer m.s.disk.mu.Unlock()
	if m.e.deleted {
		return fmt.Errorf("mark of %v: %w", m.key, offsetstore.ErrNotFound)
	}
	if epoch > m.e.markEpoch || (epoch == m.e.markEpoch && high > m.e.markHigh) {
		m.e.markEpoch, m.e.markHigh = epoch, high
	}
	return nil
}

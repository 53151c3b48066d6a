package offsetstoretest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// bug is a fault to build into a toy store.
type bug string

// toyDisk is what stays of a toy store.
type toyDisk struct {
	values  map[string]toyValue
	records map[string][]byte
	marks   map[string]toyMark
	inUse   bool
}

type toyValue struct {
	key   offsetstore.Key
	value offsetstore.Value
}

type toyMark struct {
	epoch uint64
	high  int64
}

func (d *toyDisk) clone() *toyDisk {
	return &toyDisk{values: maps.Clone(d.values), records: maps.Clone(d.records), marks: maps.Clone(d.marks)}
}

// toy is a store that can be seen through, for the suite's own test: it holds
// the contract, but for its bug.
type toy struct {
	bug    bug
	mu     *sync.Mutex // the place's
	disk   *toyDisk
	seen   *toyDisk // what is visible: the disk, but for a bug
	fail   error
	held   chan struct{}
	queue  []toyItem
	wake   chan struct{}
	ended  chan struct{}
	killed bool
	closed bool
	failed []*offsetstore.Txn // that a bug tries again
}

type toyItem struct {
	txn  *offsetstore.Txn
	done func(error)
}

func newToy(b bug, mu *sync.Mutex, d *toyDisk) *toy {
	s := &toy{bug: b, mu: mu, disk: d, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	s.seen = d
	if b == "visible before durable" {
		s.seen = d.clone()
	}
	go s.run()
	return s
}

func (s *toy) has(b bug) bool { return s.bug == b }

func (s *toy) keyOf(k offsetstore.Key) string {
	if s.has("keys joined by a separator") {
		return strings.Join([]string{k.Topic, k.Subscriber.Name, k.Partition}, "#") + k.Subscriber.Kind.String()
	}
	return string(offsetstore.AppendKey(nil, k))
}

func (s *toy) recordOf(r offsetstore.Record) string {
	return string(offsetstore.AppendTopic(nil, r.Space)) + r.Key
}

func (s *toy) Submit(txn *offsetstore.Txn, done func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed && s.has("submit after close is never answered"):
		return
	case s.closed:
		go done(offsetstore.ErrClosed)
		return
	}
	if s.has("done before durable") {
		txn = cloneTxn(txn) // it is the caller's again
		go done(nil)
		done = func(error) {}
	}
	if s.has("visible before durable") {
		s.apply(s.seen, txn)
	}
	s.queue = append(s.queue, toyItem{txn, done})
	if s.has("order of submits is not kept") {
		slices.Reverse(s.queue)
	}
	s.poke()
}

func cloneTxn(txn *offsetstore.Txn) *offsetstore.Txn {
	out := &offsetstore.Txn{Deletes: slices.Clone(txn.Deletes), Unsets: slices.Clone(txn.Unsets)}
	for _, p := range txn.Puts {
		out.Puts = append(out.Puts, offsetstore.Put{Key: p.Key, Value: p.Value.Clone()})
	}
	for _, r := range txn.Sets {
		r.Value = bytes.Clone(r.Value)
		out.Sets = append(out.Sets, r)
	}
	return out
}

func (s *toy) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *toy) run() {
	defer close(s.ended)
	for range s.wake {
		s.mu.Lock()
		held := s.held
		s.mu.Unlock()
		if held != nil {
			<-held
		}
		if s.commitAll() {
			return
		}
	}
}

// commitAll commits the queue and tells whether the store is closed.
func (s *toy) commitAll() bool {
	s.mu.Lock()
	queue, closed, killed, fail := s.queue, s.closed, s.killed, s.fail
	s.queue = nil
	if killed {
		queue = nil
	}
	if closed && s.has("close drops the queue") {
		queue = nil
	}
	for _, it := range queue {
		s.commitOne(it.txn, fail)
	}
	s.mu.Unlock()
	for _, it := range queue {
		it.done(fail)
		if s.has("done is called twice") {
			it.done(fail)
		}
	}
	return closed || killed
}

func (s *toy) commitOne(txn *offsetstore.Txn, fail error) {
	switch {
	case fail == nil:
		for _, t := range s.failed {
			s.apply(s.disk, t)
		}
		s.failed = nil
		s.apply(s.disk, txn)
	case s.has("failed is visible"):
		s.apply(s.disk, txn)
	case s.has("failed is tried again"):
		s.failed = append(s.failed, txn)
	case s.has("half of a failed transaction happens"):
		s.apply(s.disk, &offsetstore.Txn{Puts: txn.Puts})
	}
}

func (s *toy) apply(d *toyDisk, txn *offsetstore.Txn) {
	if s.has("deletes are after puts") {
		defer s.remove(d, txn)
	} else {
		s.remove(d, txn)
	}
	for _, p := range txn.Puts {
		next := offsetstore.Normal(p.Value)
		if !s.has("a put keeps the caller's slices") {
			next = next.Clone()
		}
		k := s.keyOf(p.Key)
		if cur, ok := d.values[k]; ok {
			next = s.merge(cur.value, next)
		}
		d.values[k] = toyValue{p.Key, next}
	}
	for _, r := range txn.Sets {
		d.records[s.recordOf(r)] = append([]byte{}, r.Value...)
	}
}

func (s *toy) remove(d *toyDisk, txn *offsetstore.Txn) {
	for _, k := range txn.Deletes {
		delete(d.values, s.keyOf(k))
		if !s.has("a mark outlives its key") {
			delete(d.marks, s.keyOf(k))
		}
	}
	for _, r := range txn.Unsets {
		delete(d.records, s.recordOf(r))
	}
}

func (s *toy) merge(cur, next offsetstore.Value) offsetstore.Value {
	sameEpoch := cur.Epoch == next.Epoch
	switch {
	case s.has("a put overwrites"):
		return next
	case s.has("a higher epoch does not win"):
		next.Epoch = cur.Epoch
	case s.has("a lower epoch is taken"):
		cur.Epoch = min(cur.Epoch, next.Epoch)
	case sameEpoch && s.has("the position is the maximum finished"):
		for _, r := range next.Finished {
			next.Position = max(next.Position, r.Last+1)
		}
	case sameEpoch && s.has("finished offsets are lost"):
		cur.Finished = nil
	case sameEpoch && s.has("the high mark may go down"):
		next.High = max(next.High, next.Position)
		m := offsetstore.Merge(cur, next)
		m.High = max(next.High, m.Position)
		return m
	case sameEpoch && s.has("a lower put takes the rest"):
		m := offsetstore.Merge(cur, next)
		m.Absent = next.Absent
		return m
	}
	return offsetstore.Merge(cur, next).Clone()
}

func (s *toy) open() error {
	if s.closed {
		return offsetstore.ErrClosed
	}
	return nil
}

func (s *toy) Get(key offsetstore.Key) (offsetstore.Value, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.seen.values[s.keyOf(key)]
	if !ok && s.has("absent is a zero value") {
		return offsetstore.Value{}, true, s.open()
	}
	if !ok || s.open() != nil {
		return offsetstore.Value{}, false, s.open()
	}
	out := v.value
	if !s.has("a get gives the store's slices") {
		out = out.Clone()
	}
	m := s.disk.marks[s.keyOf(key)]
	switch {
	case s.has("marks are ignored"):
		return out, true, nil
	case s.has("marks of any epoch count"):
		m.epoch = out.Epoch
	}
	return out.Marked(m.epoch, m.high), true, nil
}

func (s *toy) Scan(topic string, fn func(offsetstore.Key, offsetstore.Value) bool) error {
	s.mu.Lock()
	var keys []offsetstore.Key
	for _, v := range s.seen.values {
		k := v.key
		if topic == "" || k.Topic == topic || (s.has("a scan finds longer topics") && strings.HasPrefix(k.Topic, topic)) {
			keys = append(keys, k)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(keys, offsetstore.Key.Compare)
	if s.has("a scan has no order") {
		slices.Reverse(keys)
	}
	for i, k := range keys {
		if i == len(keys)-1 && s.has("a scan misses the last") {
			break
		}
		if v, ok, _ := s.Get(k); ok && !fn(k, v) && !s.has("a scan does not stop") {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open()
}

func (s *toy) GetRecord(space, key string) ([]byte, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.seen.records[s.recordOf(offsetstore.Record{Space: space, Key: key})]
	return bytes.Clone(v), ok, s.open()
}

func (s *toy) ScanRecords(space, prefix, after string, fn func(string, []byte) bool) error {
	s.mu.Lock()
	base := string(offsetstore.AppendTopic(nil, space))
	var keys []string
	for r := range s.seen.records {
		if k, ok := strings.CutPrefix(r, base); ok && strings.HasPrefix(k, prefix) &&
			(k > after || (k == after && after != "" && s.has("a scan of records begins at after"))) {
			keys = append(keys, k)
		}
	}
	err := s.open()
	s.mu.Unlock()
	slices.Sort(keys)
	for _, k := range keys {
		if v, ok, _ := s.GetRecord(space, k); ok && !fn(k, v) {
			break
		}
	}
	return err
}

type toyMarker struct {
	s   *toy
	key offsetstore.Key
}

func (s *toy) Marker(key offsetstore.Key) (offsetstore.Marker, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return nil, err
	}
	k := s.keyOf(key)
	if _, ok := s.seen.values[k]; !ok {
		return nil, fmt.Errorf("marker: %w", offsetstore.ErrNotFound)
	}
	if _, ok := s.disk.marks[k]; !ok {
		s.disk.marks[k] = toyMark{}
	}
	return &toyMarker{s: s, key: key}, nil
}

// Mark takes a key whose mark is gone for deleted: Marker makes one.
func (m *toyMarker) Mark(epoch uint64, high int64) error {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	if err := m.s.open(); err != nil {
		return err
	}
	k := m.s.keyOf(m.key)
	cur, ok := m.s.disk.marks[k]
	if !ok && !m.s.has("a marker outlives its key") {
		return fmt.Errorf("mark: %w", offsetstore.ErrNotFound)
	}
	higher := epoch > cur.epoch || (epoch == cur.epoch && high > cur.high)
	if higher || m.s.has("a lower mark is taken") {
		m.s.disk.marks[k] = toyMark{epoch, high}
	}
	return nil
}

func (s *toy) Healthy() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil && !s.has("healthy always") {
		return s.fail
	}
	return s.open()
}

func (s *toy) Close() error { return s.end(false) }

func (s *toy) end(kill bool) error {
	s.mu.Lock()
	again := s.closed
	s.closed, s.killed = true, s.killed || kill
	s.poke()
	s.mu.Unlock()
	if again && s.has("a second close is an error") {
		return offsetstore.ErrClosed
	}
	<-s.ended
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disk.inUse = s.disk.inUse && again
	return nil
}

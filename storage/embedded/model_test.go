package embedded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/embedded/vfs/crashfs"
)

// TestAgainstModel drives a log with appends, repeats, trims, new topics,
// failing calls and crashes of every kind, against lists of what must be there.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		defer func() { _ = m.l.Close() }() // its disk may be failing
		t.Repeat(map[string]func(*rapid.T){
			"append": m.append, "append2": m.append, "append3": m.append, "repeat": m.repeat, "trim": m.trim, "recreate": m.recreate,
			"poll": m.poll, "free": m.free, "checkpoint": m.checkpoint, "wait": m.wait, "fault": m.fault, "heal": m.heal, "crash": m.crash, "reopen": m.reopen,
			"": m.check,
		})
	})
}

// model is what a log must hold.
type model struct {
	disk    *crashfs.FS
	l       *Log
	opts    Options
	clock   *atomic.Int64
	n       int
	faulty  bool
	topics  map[string]*modelTopic
	maybe   [][]string // frames of each append that failed since the last success
	keys    map[string]modelKey
	unclear bool // an admin call failed: after a crash it may have happened
}

type modelTopic struct {
	id    string
	parts []modelPart
}

type modelPart struct {
	frames       []string // by offset
	min, minOr   int64    // minOr: what a failed trim may have made of min
	cursor       int64    // -1: unset
	saved        int64    // the cursor in the last checkpoint
	cursorUnsure bool     // a checkpoint failed meanwhile
}

type modelKey struct {
	topicID, part string
	offset, at    int64
}

func newModel(t *rapid.T) *model {
	m := &model{disk: crashfs.New(), clock: new(atomic.Int64), topics: map[string]*modelTopic{}, keys: map[string]modelKey{}}
	m.clock.Store(1_000_000)
	m.opts = Options{
		SegmentSize: int64(rapid.IntRange(500, 8000).Draw(t, "segment")), TailBytes: 1, Partitions: 3,
		RetentionInterval: -1, CheckpointInterval: -1, Retention: -1, MaxBytes: -1, Logger: quiet,
		Now: func() time.Time { return time.UnixMilli(m.clock.Load()) },
	}
	m.open(t)
	return m
}

func (m *model) open(t *rapid.T) {
	m.opts.FS = m.disk
	l, err := Open("/d", m.opts)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	m.l = l
}

func (m *model) topic(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b"}).Draw(t, "topic")
}

func (m *model) append(t *rapid.T) {
	var evs []storage.Event
	for range rapid.IntRange(1, 5).Draw(t, "events") {
		m.n++
		evs = append(evs, storage.Event{
			Key:      rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(t, "key"),
			DedupKey: rapid.SampledFrom([]string{"", fmt.Sprint("id", m.n)}).Draw(t, "dedup"),
			Frame:    []byte(fmt.Sprintf("%d%*s", m.n, rapid.IntRange(0, 300).Draw(t, "size"), "")),
		})
	}
	m.send(t, m.topic(t), evs)
}

func (m *model) send(t *rapid.T, topic string, evs []storage.Event) {
	r, err := storage.AppendWait(context.Background(), m.l, topic, evs)
	if err != nil {
		m.refused(t, err)
		frames := []string{}
		for _, e := range evs {
			frames = append(frames, string(e.Frame))
		}
		m.maybe = append(m.maybe, frames)
		return
	}
	mt := m.know(t, topic)
	stored := false
	for i, a := range r {
		stored = stored || !a.Duplicate
		m.took(t, mt, evs[i], a)
	}
	if stored {
		// What is confirmed now must not hang on an admin call that is open.
		m.maybe, m.unclear = nil, false
	}
}

// refused wants an error to have a reason.
func (m *model) refused(t *rapid.T, err error) {
	if !m.faulty || !errors.Is(err, storage.ErrReadOnly) {
		t.Fatalf("append with a faulty disk %v: %v", m.faulty, err)
	}
}

// know makes the model follow a topic that was made on first use.
func (m *model) know(t *rapid.T, topic string) *modelTopic {
	if mt := m.topics[topic]; mt != nil {
		return mt
	}
	d, err := m.l.Topic(context.Background(), topic)
	if err != nil {
		t.Fatal(err)
	}
	mt := &modelTopic{id: d.ID, parts: make([]modelPart, len(d.Partitions))}
	for i := range mt.parts {
		mt.parts[i].cursor, mt.parts[i].saved = -1, -1
	}
	m.topics[topic] = mt
	return mt
}

func (m *model) took(t *rapid.T, mt *modelTopic, e storage.Event, a storage.Appended) {
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	key := mt.id + e.DedupKey
	was, known := m.keys[key]
	known = known && e.DedupKey != "" && m.clock.Load()-was.at <= 120_000
	if known != a.Duplicate || known && (was.part != a.Partition || was.offset != a.Offset) {
		t.Fatalf("event %q with key %q: %+v, the first was %+v, in the window %v", e.Frame, e.DedupKey, a, was, known)
	}
	if known {
		return
	}
	p := &mt.parts[a.Partition[0]-'0']
	if a.Offset != int64(len(p.frames)) {
		t.Fatalf("offset %d given in partition %s, want %d", a.Offset, a.Partition, len(p.frames))
	}
	p.frames = append(p.frames, string(e.Frame))
	if e.DedupKey != "" {
		m.keys[key] = modelKey{mt.id, a.Partition, a.Offset, m.clock.Load()}
	}
}

// repeat sends an event again.
func (m *model) repeat(t *rapid.T) {
	n := rapid.IntRange(max(1, m.n-10), max(1, m.n)).Draw(t, "which")
	m.n++
	m.send(t, m.topic(t), []storage.Event{{Frame: []byte(fmt.Sprint(m.n)), DedupKey: fmt.Sprint("id", n)}})
}

func (m *model) wait(t *rapid.T) {
	m.clock.Add(int64(rapid.IntRange(0, 90_000).Draw(t, "ms")))
}

// each calls f for a partition of a topic that is known.
func (m *model) one(t *rapid.T) (topic, part string, p *modelPart) {
	topic = m.topic(t)
	mt := m.topics[topic]
	if mt == nil {
		t.Skip("no topic yet")
	}
	i := rapid.IntRange(0, len(mt.parts)-1).Draw(t, "partition")
	return topic, fmt.Sprint(i), &mt.parts[i]
}

func (m *model) trim(t *rapid.T) {
	topic, part, p := m.one(t)
	before := rapid.Int64Range(0, int64(len(p.frames))).Draw(t, "before")
	err := m.l.Trim(context.Background(), topic, part, before)
	if err == nil {
		p.min = max(p.min, before)
		p.minOr = p.min
	} else {
		m.refused(t, err)
		p.minOr = max(p.minOr, before)
	}
}

func (m *model) recreate(t *rapid.T) {
	topic, _, _ := m.one(t)
	if err := m.l.DeleteTopic(context.Background(), topic); err != nil {
		m.refused(t, err)
		m.unclear = true
		return
	}
	delete(m.topics, topic)
	if rapid.Bool().Draw(t, "again") {
		if _, err := m.l.CreateTopic(context.Background(), topic, storage.TopicConfig{Partitions: 2}); err != nil {
			m.refused(t, err)
			return
		}
		m.know(t, topic)
	}
}

// free lets retention remove segments without a live record.
func (m *model) free(*rapid.T) { m.l.lookAtRetention() }

func (m *model) poll(t *rapid.T) {
	topic, part, p := m.one(t)
	var b storage.Batch
	max := rapid.IntRange(1, 5).Draw(t, "records")
	err := m.l.Poll(context.Background(), storage.PollRequest{Topic: topic, Partition: part, Start: storage.Cursor, MaxRecords: max}, &b)
	start := p.cursor
	if start < 0 {
		start = p.min
	}
	var re *storage.RangeError
	if errors.As(err, &re) && start < p.min {
		if err := m.l.Seek(context.Background(), topic, part, p.min); err != nil {
			t.Fatal(err)
		}
		p.cursor = p.min
		return
	}
	if err != nil || b.Start != start || len(b.Records) > max {
		t.Fatalf("poll at %d: %v, %d records from %d", start, err, len(b.Records), b.Start)
	}
	if b.Next > start {
		p.cursor = b.Next
	}
}

func (m *model) checkpoint(t *rapid.T) {
	err := m.l.Checkpoint(context.Background())
	for _, mt := range m.topics {
		for i := range mt.parts {
			p := &mt.parts[i]
			if err == nil {
				p.saved = p.cursor
			}
			p.cursorUnsure = err != nil
		}
	}
	if err != nil && !m.faulty {
		t.Fatal(err)
	}
}

// fault makes some of the next calls fail.
func (m *model) fault(t *rapid.T) {
	from := rapid.IntRange(0, 6).Draw(t, "from")
	to := from + rapid.IntRange(1, 5).Draw(t, "number")
	n := 0
	m.faulty = true
	m.disk.SetHook(func(op crashfs.Op) error {
		if op.Kind == "read" || op.Kind == "open" {
			return nil
		}
		if n++; n > from && n <= to {
			return crashfs.ErrInjected
		}
		return nil
	})
}

// heal: with a sound disk everything works again without a restart.
func (m *model) heal(t *rapid.T) {
	m.disk.SetHook(nil)
	m.l.retryTopics()
	m.faulty = false
	m.append(t)
}

func (m *model) crash(t *rapid.T) {
	m.disk.Halt()
	_ = m.l.Close()
	switch rapid.IntRange(0, 2).Draw(t, "kind") {
	case 0:
		m.disk = m.disk.Kill()
	case 1:
		m.disk = m.disk.PowerLoss()
	case 2:
		rnd := rand.New(rand.NewPCG(uint64(rapid.Int64().Draw(t, "seed")), 0))
		m.disk = m.disk.Torn(rnd.IntN)
	}
	m.restarted(t)
}

func (m *model) reopen(t *rapid.T) {
	m.disk.SetHook(nil)
	if err := m.l.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	for _, mt := range m.topics {
		for i := range mt.parts {
			p := &mt.parts[i]
			p.saved, p.minOr, p.cursorUnsure = p.cursor, p.min, false
		}
	}
	m.unclear = false
	m.restarted(t)
}

// restarted opens the log again and makes up its mind about what was unclear.
func (m *model) restarted(t *rapid.T) {
	m.faulty = false
	m.open(t)
	var extra []string
	for _, name := range []string{"a", "b"} {
		d, err := m.l.Topic(context.Background(), name)
		mt := m.topics[name]
		if err != nil && mt != nil && !m.unclear {
			t.Fatalf("topic %q is gone: %v", name, err)
		}
		if err != nil || mt == nil || mt.id != d.ID {
			delete(m.topics, name)
			if err == nil && mt != nil && !m.unclear {
				t.Fatalf("topic %q is another", name)
			}
		}
		if err == nil {
			extra = append(extra, m.settle(t, name)...)
		}
	}
	ok := len(extra) == 0
	for _, frames := range m.maybe {
		ok = ok || !slices.ContainsFunc(extra, func(f string) bool { return !slices.Contains(frames, f) })
	}
	if !ok {
		t.Fatalf("there are %q, which no single failed append can have left; those were %q", extra, m.maybe)
	}
	if len(extra) > 0 {
		m.keys = map[string]modelKey{} // their keys are known now, which the model does not follow
		m.clock.Add(200_000)
	}
	m.maybe, m.unclear = nil, false
}

// settle follows the partitions of a topic and returns the frames that are
// there although their append failed.
func (m *model) settle(t *rapid.T, name string) (extra []string) {
	mt := m.know(t, name)
	for i := range mt.parts {
		p := &mt.parts[i]
		low, high, err := m.l.Bounds(context.Background(), name, fmt.Sprint(i))
		if err != nil || low != p.min && low != p.minOr || high < int64(len(p.frames)) {
			t.Fatalf("bounds of %s/%d are %d..%d, %v, want %d (or %d)..%d", name, i, low, high, err, p.min, p.minOr, len(p.frames))
		}
		p.min, p.minOr = low, low
		for _, r := range readAll(t, m.l, name, fmt.Sprint(i), max(low, int64(len(p.frames)))) {
			extra = append(extra, string(r.Frame))
			p.frames = append(p.frames, string(r.Frame))
		}
		next, ok := m.l.Cursor(name, fmt.Sprint(i))
		if !ok {
			next = -1
		}
		if next != p.saved && (!p.cursorUnsure || next > p.cursor && p.cursor >= 0) {
			t.Fatalf("cursor of %s/%d is %d after a restart, %d was saved", name, i, next, p.saved)
		}
		p.cursor, p.saved, p.cursorUnsure = next, next, false
	}
	return extra
}

// check reads everything.
func (m *model) check(t *rapid.T) {
	for name, mt := range m.topics {
		for i := range mt.parts {
			p := &mt.parts[i]
			got := readAll(t, m.l, name, fmt.Sprint(i), p.min)
			want := p.frames[p.min:]
			if len(got) != len(want) {
				t.Fatalf("%s/%d holds %d records, want %d", name, i, len(got), len(want))
			}
			for k, r := range got {
				if r.Offset != p.min+int64(k) || string(r.Frame) != want[k] {
					t.Fatalf("%s/%d record %d is %d %q, want %q", name, i, k, r.Offset, r.Frame, want[k])
				}
			}
		}
	}
}

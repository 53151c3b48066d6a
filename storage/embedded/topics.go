package embedded

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/embedded/vfs"
)

// topic is one topic. Its records carry num, which is never used again, so
// those of a deleted topic are never taken for those of its successor.
type topic struct {
	name, id  string
	num       uint32
	retention time.Duration
	parts     []*partition
	names     []string
	spread    atomic.Uint64 // events without a key so far
	gone      atomic.Bool   // deleted
}

// partition is one partition.
type partition struct {
	topic *topic
	num   int
	name  string

	mu        sync.Mutex // guards the rest but the committer's own
	runs      index
	min, next int64
	lastTime  int64 // ms, of the last record ever
	cursor    int64 // -1: not set
	seeks     uint64
	waiters   []chan struct{}

	batch partBatch // the committer's own
}

func newTopic(name, id string, num uint32, partitions int, retention time.Duration) *topic {
	t := &topic{name: name, id: id, num: num, retention: retention}
	parts := make([]partition, partitions)
	for i := range parts {
		p := &parts[i]
		p.topic, p.num, p.name, p.cursor = t, i, strconv.Itoa(i), storage.Cursor
		t.parts = append(t.parts, p)
		t.names = append(t.names, p.name)
	}
	return t
}

func (t *topic) describe() storage.Topic {
	return storage.Topic{Name: t.name, ID: t.id, Partitions: slices.Clone(t.names)}
}

func (l *Log) lookup(name string) *topic {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.topics[name]
}

// topic finds a topic or says what to do.
func (l *Log) topic(name string) (*topic, error) {
	if l.closed.Load() {
		return nil, fmt.Errorf("embedded log: %w", storage.ErrClosed)
	}
	if t := l.lookup(name); t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("embedded log: %w: %q", storage.ErrTopicNotFound, name)
}

// partition finds a partition.
func (l *Log) partition(topic, name string) (*partition, error) {
	t, err := l.topic(topic)
	if err != nil {
		return nil, err
	}
	i, err := strconv.Atoi(name)
	if err != nil || i < 0 || i >= len(t.parts) || t.parts[i].name != name {
		return nil, fmt.Errorf("embedded log: %w: topic %q has %q to %q, not %q", storage.ErrPartitionNotFound, topic, "0", t.names[len(t.names)-1], name)
	}
	return t.parts[i], nil
}

// Topic implements storage.Backend.
func (l *Log) Topic(_ context.Context, name string) (storage.Topic, error) {
	t, err := l.topic(name)
	if err != nil {
		return storage.Topic{}, err
	}
	return t.describe(), nil
}

// Topics implements storage.Backend.
func (l *Log) Topics(context.Context) ([]storage.Topic, error) {
	if l.closed.Load() {
		return nil, fmt.Errorf("embedded log: %w", storage.ErrClosed)
	}
	topics := l.allTopics()
	out := make([]storage.Topic, len(topics))
	for i, t := range topics {
		out[i] = t.describe()
	}
	return out, nil
}

// allTopics lists the topics in order of name.
func (l *Log) allTopics() []*topic {
	l.mu.RLock()
	out := make([]*topic, 0, len(l.topics))
	for _, t := range l.topics {
		out = append(out, t)
	}
	l.mu.RUnlock()
	slices.SortFunc(out, func(a, b *topic) int { return strings.Compare(a.name, b.name) })
	return out
}

// EnsureTopic implements storage.Backend. It waits for the disk when it makes
// the topic.
func (l *Log) EnsureTopic(ctx context.Context, name string) (storage.Topic, error) {
	t, err := l.ensure(ctx, name)
	if err != nil {
		return storage.Topic{}, err
	}
	return t.describe(), nil
}

func (l *Log) ensure(ctx context.Context, name string) (*topic, error) {
	t, err := l.topic(name)
	if !errors.Is(err, storage.ErrTopicNotFound) {
		return t, err
	}
	if l.opts.NoAutoCreate {
		return nil, fmt.Errorf("%w: topics are not made on first use here, create it with %d partitions or another number first", err, l.opts.Partitions)
	}
	t, err = l.create(ctx, name, storage.TopicConfig{})
	if errors.Is(err, storage.ErrTopicExists) {
		return l.topic(name) // another was faster
	}
	return t, err
}

// CreateTopic implements storage.TopicAdmin. A retention above that of the
// whole log has no effect.
func (l *Log) CreateTopic(ctx context.Context, name string, cfg storage.TopicConfig) (storage.Topic, error) {
	t, err := l.create(ctx, name, cfg)
	if err != nil {
		return storage.Topic{}, err
	}
	return t.describe(), nil
}

// create makes the topic durable before anyone can append to it, so no record
// in the log is of a topic that a crash could lose.
func (l *Log) create(ctx context.Context, name string, cfg storage.TopicConfig) (*topic, error) {
	if err := storage.CheckName("topic", name); err != nil {
		return nil, fmt.Errorf("embedded log: %w", err)
	}
	n := cmp.Or(cfg.Partitions, l.opts.Partitions)
	if n < 1 || n > maxPartitions || cfg.Retention < 0 {
		return nil, fmt.Errorf("embedded log: topic %q with %d partitions and retention %v: 1 to %d partitions and no negative retention are allowed: %w",
			name, cfg.Partitions, cfg.Retention, maxPartitions, storage.ErrInvalid)
	}
	if err := l.enter(ctx); err != nil {
		return nil, err
	}
	defer l.leave()
	if l.lookup(name) != nil {
		return nil, fmt.Errorf("embedded log: %w: %q", storage.ErrTopicExists, name)
	}
	t := newTopic(name, newID(), l.nextNum, n, cfg.Retention)
	if err := l.writable(); err != nil {
		return nil, err
	}
	if err := l.saveTopics(append(l.allTopics(), t), nil); err != nil {
		return nil, fmt.Errorf("embedded log: topic %q not created: %w", name, err)
	}
	l.mu.Lock()
	l.topics[name] = t
	l.nextNum++
	l.mu.Unlock()
	return t, nil
}

// DeleteTopic implements storage.TopicAdmin. Its space is freed when the oldest
// segments hold nothing else.
func (l *Log) DeleteTopic(ctx context.Context, name string) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	defer l.leave()
	t, err := l.topic(name)
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(l.allTopics(), func(o *topic) bool { return o == t })
	if err := l.saveTopics(rest, nil); err != nil {
		return fmt.Errorf("embedded log: topic %q not deleted: %w", name, err)
	}
	l.mu.Lock()
	delete(l.topics, name)
	l.mu.Unlock()
	t.gone.Store(true)
	for _, p := range t.parts {
		p.drop()
	}
	l.cursors.dirty.Store(true)
	return nil
}

// drop frees what a deleted topic's partition holds and wakes who waits.
func (p *partition) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runs, p.cursor = index{}, storage.Cursor
	p.wake()
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b[:])
}

// The topics file: a state file (package vfs) with this as JSON.
const (
	topicsKind    = "ackmesh-topics"
	topicsVersion = 1
)

type topicsFile struct {
	// NextNum is the number of the next topic to be made.
	NextNum uint32      `json:"next_num"`
	Topics  []topicFile `json:"topics"`
}

type topicFile struct {
	Name        string `json:"name"`
	ID          string `json:"id"`
	Num         uint32 `json:"num"`
	Partitions  int    `json:"partitions"`
	RetentionMS int64  `json:"retention_ms,omitempty"`
	// Bounds of the partitions that have ever held something: what retention
	// and Trim have made of them, for when the records are gone.
	Bounds map[int]boundsFile `json:"bounds,omitempty"`
}

type boundsFile struct {
	Min  int64 `json:"min"`
	Next int64 `json:"next"`
	Time int64 `json:"time"`
}

// saveTopics writes the topics file. mins overrides the minimum of some
// partitions. The caller has entered.
func (l *Log) saveTopics(topics []*topic, mins map[*partition]int64) error {
	f := topicsFile{NextNum: l.nextNum}
	for _, t := range topics {
		f.NextNum = max(f.NextNum, t.num+1)
		f.Topics = append(f.Topics, t.file(mins))
	}
	b, err := json.Marshal(f)
	if err == nil {
		err = vfs.WriteState(l.opts.FS, l.topicsName(), topicsKind, topicsVersion, b)
	}
	if err != nil {
		// Where the disk may hold another state than we do, nothing may be
		// confirmed before they agree again.
		if errors.Is(err, vfs.ErrUncertain) {
			l.unsaved.Store(true)
		}
		return fmt.Errorf("%w: %w", storage.ErrReadOnly, err)
	}
	l.unsaved.Store(false)
	return nil
}

func (l *Log) topicsName() string { return filepath.Join(l.dir, "topics") }

func (t *topic) file(mins map[*partition]int64) topicFile {
	f := topicFile{Name: t.name, ID: t.id, Num: t.num, Partitions: len(t.parts), RetentionMS: t.retention.Milliseconds()}
	for _, p := range t.parts {
		p.mu.Lock()
		b := boundsFile{Min: p.min, Next: p.next, Time: p.lastTime}
		p.mu.Unlock()
		if m, ok := mins[p]; ok {
			b.Min = m
		}
		if b == (boundsFile{}) {
			continue
		}
		if f.Bounds == nil {
			f.Bounds = map[int]boundsFile{}
		}
		f.Bounds[p.num] = b
	}
	return f
}

// loadTopics reads the topics file; there is none in a new directory.
func (l *Log) loadTopics() error {
	name := l.topicsName()
	_, b, err := vfs.ReadState(l.opts.FS, name, topicsKind, topicsVersion)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, vfs.ErrVersion):
		return fmt.Errorf("embedded log: %w: %w", storage.ErrNewerFormat, err)
	case errors.Is(err, vfs.ErrDamaged):
		return fmt.Errorf("embedded log: %w: %w", storage.ErrCorrupt, err)
	case err != nil:
		return fmt.Errorf("embedded log: read %s: %w", name, err)
	}
	var f topicsFile
	if err := json.Unmarshal(b, &f); err != nil {
		return fmt.Errorf("embedded log: %s: %w: %w", name, storage.ErrCorrupt, err)
	}
	l.nextNum = max(1, f.NextNum)
	for _, tf := range f.Topics {
		if tf.Partitions < 1 || tf.Partitions > maxPartitions {
			return fmt.Errorf("embedded log: %s: topic %q has %d partitions: %w", name, tf.Name, tf.Partitions, storage.ErrCorrupt)
		}
		t := newTopic(tf.Name, tf.ID, tf.Num, tf.Partitions, time.Duration(tf.RetentionMS)*time.Millisecond)
		for i, b := range tf.Bounds {
			if i < 0 || i >= len(t.parts) || b.Min > b.Next {
				return fmt.Errorf("embedded log: %s: bounds of topic %q partition %d: %w", name, tf.Name, i, storage.ErrCorrupt)
			}
			t.parts[i].min, t.parts[i].next, t.parts[i].lastTime = b.Min, b.Next, b.Time
		}
		l.topics[tf.Name] = t
	}
	return nil
}

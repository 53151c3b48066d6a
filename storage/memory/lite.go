package memory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ackmesh/ackmesh/storage"
)

// await is an AwaitLite under way.
type await struct{ arrived func() }

// CreateLiteParent makes a parent of lite topics, as an operator does at a
// broker. Errors: ErrTopicExists, ErrInvalid, ErrClosed.
func (b *Backend) CreateLiteParent(parent string) error {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	_, made, err := b.log.create(parent, storage.TopicConfig{}, true)
	if err == nil && !made {
		err = fmt.Errorf("memory: topic %q: %w", parent, storage.ErrTopicExists)
	}
	return err
}

// ExpireLite empties a lite topic, whose next record then gets the offset 0, as
// a broker does with one in which nothing has happened for long, for tests.
// Errors: ErrTopicNotFound, ErrTopicType, ErrInvalid, ErrClosed.
func (b *Backend) ExpireLite(parent, lite string) error {
	return b.inLite(parent, lite, func(t *topic, p *partition) error {
		p.records, p.bytes, p.min, p.next = nil, 0, 0, 0 // readers may hold the records
		t.dedup = dedup{}
		return nil
	})
}

// LiteParent describes a parent and makes it first where it is missing, unless
// Options.NoAutoCreate is set.
func (b *Backend) LiteParent(_ context.Context, parent string) (storage.Topic, error) {
	if err := b.enter(); err != nil {
		return storage.Topic{}, err
	}
	defer b.leave()
	t, err := b.log.parent(parent)
	if err != nil {
		return storage.Topic{}, err
	}
	return t.describe(), nil
}

// parent finds a parent and makes it first where that is allowed.
func (l *log) parent(name string) (*topic, error) {
	t, err := l.lookup(name)
	if errors.Is(err, storage.ErrTopicNotFound) {
		if l.opts.NoAutoCreate {
			return nil, fmt.Errorf("memory: parent topic %q is not made on first use, create it with CreateLiteParent: %w", name, storage.ErrTopicNotFound)
		}
		t, _, err = l.create(name, storage.TopicConfig{}, true)
	}
	switch {
	case err != nil:
		return nil, err
	case !t.lite:
		return nil, fmt.Errorf("memory: topic %q holds events itself: lite topics need a parent of type LITE: %w", name, storage.ErrTopicType)
	}
	return t, nil
}

// known finds a lite topic, which is made if it is missing; its parent is not.
func (l *log) known(parent, name string) (*topic, error) {
	if err := storage.CheckLite("lite", name); err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	t, err := l.lookup(parent)
	if err != nil {
		return nil, err
	}
	if !t.lite {
		return nil, fmt.Errorf("memory: topic %q is no parent of lite topics: %w", parent, storage.ErrTopicType)
	}
	return t.ensureLite(name)
}

// ensureLite finds or makes a lite topic of parent t.
func (t *topic) ensureLite(name string) (*topic, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if lt := t.lites[name]; lt != nil {
		return lt, nil
	}
	if t.deleted {
		return nil, fmt.Errorf("memory: topic %q was deleted meanwhile: %w", t.name, storage.ErrTopicNotFound)
	}
	name = strings.Clone(name) // it may be part of a buffer that the caller uses again
	lt := newTopic(t.name, t.id, t.retention)
	lt.grow(1, func(int) string { return name })
	if t.lites == nil {
		t.lites = map[string]*topic{}
	}
	t.lites[name] = lt
	return lt, nil
}

// allLites lists the lite topics of a parent.
func (t *topic) allLites() []*topic {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.lites))
}

// inLite calls f with a lite topic's one partition, from which expired records
// are dropped, under its lock.
func (b *Backend) inLite(parent, lite string, f func(*topic, *partition) error) error {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	lt, err := b.log.known(parent, lite)
	if err != nil {
		return err
	}
	now := b.log.opts.Clock()
	lt.mu.Lock()
	defer lt.mu.Unlock()
	lt.partitions[0].expire(now, lt.retention)
	return f(lt, lt.partitions[0])
}

// EnsureLite makes a lite topic unless it is there.
func (b *Backend) EnsureLite(_ context.Context, parent, lite string) error {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	if err := storage.CheckLite("lite", lite); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	t, err := b.log.parent(parent)
	if err == nil {
		_, err = t.ensureLite(lite)
	}
	return err
}

// AppendLite stores copies of the events and calls done before it returns. It
// never waits.
func (b *Backend) AppendLite(ctx context.Context, parent, lite string, events []storage.Event, done storage.AppendDone) error {
	if err := b.EnsureLite(ctx, parent, lite); err != nil {
		return err
	}
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	if err := ctx.Err(); err != nil {
		return err
	}
	size, err := checkSizes(parent, events)
	if err != nil {
		return err
	}
	lt, err := b.log.known(parent, lite)
	if err != nil {
		return err
	}
	results, err := lt.appendAll(b.log.opts, events, make([]byte, 0, size))
	if err != nil {
		return err
	}
	done(results, nil)
	lt.arrived()
	return nil
}

// PollLite reads records of a lite topic. It does not wait.
func (b *Backend) PollLite(ctx context.Context, req storage.PollRequest, batch *storage.Batch) error {
	batch.Reset()
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	if err := ctx.Err(); err != nil {
		return err
	}
	if req.Start < 0 {
		return fmt.Errorf("memory: lite topic %q of %q: start %d is no offset: %w", req.Partition, req.Topic, req.Start, storage.ErrInvalid)
	}
	lt, err := b.log.known(req.Topic, req.Partition)
	if err != nil {
		return err
	}
	if req.TopicID != "" && req.TopicID != lt.id {
		return fmt.Errorf("memory: topic %q has the identity %s, not %s: %w", req.Topic, lt.id, req.TopicID, storage.ErrTopicChanged)
	}
	r := newReading(req)
	r.topic, r.part, r.once = lt, lt.partitions[0], true
	_, err = r.read(b.log.opts.Clock(), batch) // with an error the batch is empty
	return err
}

// LiteBounds returns the lowest offset of a lite topic that may be read and the
// one that the next record will get.
func (b *Backend) LiteBounds(_ context.Context, parent, lite string) (min, max int64, err error) {
	err = b.inLite(parent, lite, func(_ *topic, p *partition) error {
		min, max = p.min, p.next
		return nil
	})
	return min, max, err
}

// AwaitLite has arrived called once a lite topic holds a record at next or
// above, or is gone.
func (b *Backend) AwaitLite(parent, lite string, next int64, arrived func()) (stop func()) {
	a := &await{arrived}
	waits := false
	var lt *topic
	err := b.inLite(parent, lite, func(t *topic, p *partition) error {
		if lt, waits = t, p.next <= next && !t.deleted; waits {
			if t.awaits == nil {
				t.awaits = map[*await]bool{}
			}
			t.awaits[a] = true
		}
		return nil
	})
	if err != nil || !waits { // who reads it learns why
		arrived()
		return func() {}
	}
	return func() {
		lt.mu.Lock()
		defer lt.mu.Unlock()
		delete(lt.awaits, a)
	}
}

// arrived tells who waits for records of a lite topic.
func (t *topic) arrived() {
	t.mu.Lock()
	waiting := t.awaits
	t.awaits = nil
	t.mu.Unlock()
	for a := range waiting {
		a.arrived()
	}
}

// LiteCursor is the pull offset of a lite topic; ok is false while nothing has
// set it, and for one whose parent is not there.
func (b *Backend) LiteCursor(parent, lite string) (next int64, ok bool) {
	next = noCursor
	err := b.inLite(parent, lite, func(_ *topic, p *partition) error {
		next = p.cursor
		return nil
	})
	if err != nil || next == noCursor {
		return 0, false
	}
	return next, true
}

// SeekLite sets the pull offset of a lite topic.
func (b *Backend) SeekLite(parent, lite string, next int64) error {
	if next < 0 {
		return fmt.Errorf("memory: lite topic %q of %q: pull offset %d is below 0: %w", lite, parent, next, storage.ErrInvalid)
	}
	return b.inLite(parent, lite, func(_ *topic, p *partition) error {
		p.cursor = next
		return nil
	})
}

// ForgetLite drops the pull offset of a lite topic.
func (b *Backend) ForgetLite(parent, lite string) {
	_ = b.inLite(parent, lite, func(_ *topic, p *partition) error { // of one that is not there nothing is kept
		p.cursor = noCursor
		return nil
	})
}

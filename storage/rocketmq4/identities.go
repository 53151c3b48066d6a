package rocketmq4

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/embedded/vfs"
)

// RocketMQ gives topics no identity: a topic that was deleted and made again
// looks as it did before. So each topic has one of ours, which changes when
// the topic is found to be another one: by its messages (see anchors), or
// because it was deleted here. The first identity of a name is always the
// same, so that instances agree on it, and a lost file costs nothing.

const (
	identityKind    = "ackmesh-rocketmq4-topics"
	identityVersion = 1
	// retiredKept bounds the topics that are remembered after they went.
	retiredKept = 10_000
)

// identities are the topics that are known, with the anchors of their queues.
type identities struct {
	name   string // of the file
	fs     vfs.FS
	states *states

	mu     sync.Mutex // guards what follows
	topics map[string]*identity
	dirty  bool

	saving chan struct{} // held while the file is written
	sound  bool          // the file is whole; for who holds saving
}

// identity is one topic.
type identity struct {
	id      string
	retired time.Time           // when it was deleted here; zero: it is there
	checked bool                // since the log was opened
	saved   map[string][]anchor // of the file, until the queue is used
}

// identityFile is the JSON of the file.
type identityFile struct {
	Topics []identityEntry `json:"topics"`
}

type identityEntry struct {
	Name    string              `json:"name"`
	ID      string              `json:"id"`
	Retired int64               `json:"retired,omitempty"` // ms since 1970
	Queues  map[string][]anchor `json:"queues,omitempty"`
}

// openIdentities reads the file in a directory that the caller has locked. One
// that is lost or damaged means that nothing is known.
func openIdentities(dir string, s *states, damaged func(err error, usedBackup bool)) (*identities, error) {
	ids := &identities{name: filepath.Join(dir, "topics"), fs: vfs.OS(), states: s, topics: map[string]*identity{}, saving: make(chan struct{}, 1)}
	file, err := ids.read(ids.name)
	if errors.Is(err, vfs.ErrVersion) {
		return nil, fmt.Errorf("identities of topics: %w: %w", storage.ErrNewerFormat, err)
	}
	if ids.sound = err == nil; err != nil {
		var bakErr error
		file, bakErr = ids.read(ids.name + ".bak")
		if !errors.Is(err, fs.ErrNotExist) || !errors.Is(bakErr, fs.ErrNotExist) {
			damaged(err, bakErr == nil)
		}
	}
	for _, e := range file.Topics {
		t := &identity{id: e.ID, saved: e.Queues}
		if e.Retired > 0 {
			t.retired = time.UnixMilli(e.Retired)
		}
		ids.topics[e.Name] = t
	}
	return ids, nil
}

func (ids *identities) read(name string) (file identityFile, err error) {
	_, b, err := vfs.ReadState(ids.fs, name, identityKind, identityVersion)
	if err == nil {
		err = json.Unmarshal(b, &file)
	}
	if err != nil {
		return identityFile{}, fmt.Errorf("%s: %w", name, err)
	}
	return file, nil
}

// firstID is the identity that a name begins with.
func firstID(topic string) string { return strconv.FormatUint(xxhash.Sum64String(topic), 36) }

// of returns the identity of a topic that is there.
func (ids *identities) of(topic string) string {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	return ids.entry(topic).id
}

// current is the identity of a topic, whether it is there or not.
func (ids *identities) current(topic string) string {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	if t := ids.topics[topic]; t != nil {
		return t.id
	}
	return firstID(topic)
}

// entry finds or makes the entry of a topic that is there; the lock is held.
func (ids *identities) entry(topic string) *identity {
	t := ids.topics[topic]
	if t == nil {
		t = &identity{id: firstID(topic)}
		ids.topics[topic] = t
		ids.dirty = true
	}
	if !t.retired.IsZero() {
		t.retired = time.Time{}
		ids.dirty = true
	}
	return t
}

// known tells whether a topic was there when last looked at, and by which
// queues it was known.
func (ids *identities) known(topic string) (queues []string, ok bool) {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	t := ids.topics[topic]
	if t == nil || !t.retired.IsZero() {
		return nil, false
	}
	return slices.Collect(maps.Keys(t.saved)), true
}

// toCheck tells whether a topic has not been looked at since the log was
// opened, and is known by some messages.
func (ids *identities) toCheck(topic string) bool {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	t := ids.entry(topic)
	return !t.checked && len(t.saved) > 0
}

func (ids *identities) wasChecked(topic string) {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	ids.entry(topic).checked = true
}

// takeSaved returns the anchors of a queue that the file had.
func (ids *identities) takeSaved(topic, id, queue string) []anchor {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	t := ids.topics[topic]
	if t == nil || t.id != id {
		return nil
	}
	return t.saved[queue]
}

// renew gives a topic another identity, where it still has the old one, and
// saves it. It returns the one that the topic has then.
func (ids *identities) renew(topic, old string, retired bool) (id string, renewed bool, err error) {
	ids.mu.Lock()
	t := ids.entry(topic)
	if t.id != old {
		id = t.id
		ids.mu.Unlock()
		return id, false, nil
	}
	now := time.Now()
	t.id = firstID(topic) + "." + strconv.FormatInt(now.UnixNano(), 36)
	t.saved, t.checked = nil, true
	if retired {
		t.retired = now
	}
	id = t.id
	ids.dirty = true
	ids.mu.Unlock()
	return id, true, ids.save()
}

// touch notes that there are anchors to be saved.
func (ids *identities) touch() {
	ids.mu.Lock()
	ids.dirty = true
	ids.mu.Unlock()
}

// save writes the file if something changed.
func (ids *identities) save() error {
	ids.saving <- struct{}{}
	defer func() { <-ids.saving }()
	ids.mu.Lock()
	if !ids.dirty {
		ids.mu.Unlock()
		return nil
	}
	file := ids.collect()
	ids.dirty = false
	ids.mu.Unlock()
	if err := ids.write(file); err != nil {
		ids.touch()
		return fmt.Errorf("identities of topics not saved: %w", err)
	}
	return nil
}

func (ids *identities) write(file identityFile) error {
	b, err := json.Marshal(file)
	if err != nil {
		return err
	}
	if ids.sound {
		if err := ids.fs.Rename(ids.name, ids.name+".bak"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		ids.sound = false
	}
	if err := vfs.WriteState(ids.fs, ids.name, identityKind, identityVersion, b); err != nil {
		return err
	}
	ids.sound = true
	return nil
}

// collect lists what is to be saved; the lock is held.
func (ids *identities) collect() (file identityFile) {
	ids.forgetOld()
	for _, name := range slices.Sorted(maps.Keys(ids.topics)) {
		t := ids.topics[name]
		e := identityEntry{Name: name, ID: t.id, Queues: maps.Clone(t.saved)}
		if !t.retired.IsZero() {
			e.Retired = t.retired.UnixMilli()
		}
		for queue, list := range ids.states.anchorsOf(name, t.id) {
			if e.Queues == nil {
				e.Queues = map[string][]anchor{}
			}
			e.Queues[queue] = list
		}
		file.Topics = append(file.Topics, e)
	}
	return file
}

// forgetOld drops the topics that went longest ago, where there are too many;
// the lock is held.
func (ids *identities) forgetOld() {
	var gone []string
	for name, t := range ids.topics {
		if !t.retired.IsZero() {
			gone = append(gone, name)
		}
	}
	if len(gone) <= retiredKept {
		return
	}
	slices.SortFunc(gone, func(a, b string) int { return ids.topics[a].retired.Compare(ids.topics[b].retired) })
	for _, name := range gone[:len(gone)-retiredKept] {
		delete(ids.topics, name)
	}
}

package badger

import (
	"slices"
	"sync"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// entry is what is known of a key. It is kept encoded: most keys are idle,
// and an encoded value takes a tenth of the memory.
type entry struct {
	key  string // Badger's: keySpace and the encoded key
	slot slotRef

	// env is the durable envelope, its value at env[at:len-4]. It is replaced,
	// never changed. The index's lock guards both.
	env []byte
	at  int

	// staged is the committer's own: what a batch will make of it.
	staged *staged

	mu   sync.Mutex // guards what follows, and writing the mark
	mark mark
	dead bool // deleted: its slot may be another's
}

// value decodes a durable value.
func decodeEnvelope(env []byte, at int) (offsetstore.Value, error) {
	return offsetstore.DecodeValue(env[at : len(env)-4])
}

// marked raises v's high mark to what was marked.
func (e *entry) marked(v offsetstore.Value) offsetstore.Value {
	e.mu.Lock()
	defer e.mu.Unlock()
	return v.Marked(e.mark.epoch, e.mark.high)
}

// index finds the entries by topic and key. Only the committer changes it, so
// it may look up without the lock.
type index struct {
	mu     sync.RWMutex
	topics map[string]map[string]*entry
}

func newIndex() *index { return &index{topics: map[string]map[string]*entry{}} }

// find looks a key up; buf holds its encoding. The caller holds the lock or is
// the committer.
func (x *index) find(topic string, buf []byte) *entry { return x.topics[topic][string(buf)] }

// get finds a key's entry and its durable envelope; nil when there is none.
func (x *index) get(key offsetstore.Key) (e *entry, env []byte, at int) {
	buf := badgerKey(make([]byte, 0, 128), key)
	x.mu.RLock()
	defer x.mu.RUnlock()
	if e = x.find(key.Topic, buf); e == nil {
		return nil, nil, 0
	}
	return e, e.env, e.at
}

// insert puts an entry in. The caller holds the lock.
func (x *index) insert(topic string, e *entry) {
	t := x.topics[topic]
	if t == nil {
		t = map[string]*entry{}
		x.topics[topic] = t
	}
	t[e.key] = e
}

// remove takes an entry out. The caller holds the lock.
func (x *index) remove(topic string, e *entry) {
	t := x.topics[topic]
	delete(t, e.key)
	if len(t) == 0 {
		delete(x.topics, topic)
	}
}

// entries are those of a topic, of all for "", in no order.
func (x *index) entries(topic string) []*entry {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var out []*entry
	for name, t := range x.topics {
		if topic != "" && name != topic {
			continue
		}
		for _, e := range t {
			out = append(out, e)
		}
	}
	return out
}

// keys are the keys of a topic, of all for "", in key order.
func (x *index) keys(topic string) ([]offsetstore.Key, error) {
	entries := x.entries(topic)
	keys := make([]offsetstore.Key, len(entries))
	for i, e := range entries {
		k, err := offsetstore.DecodeKey([]byte(e.key[1:]))
		if err != nil {
			return nil, err
		}
		keys[i] = k
	}
	slices.SortFunc(keys, offsetstore.Key.Compare)
	return keys, nil
}

// badgerKey appends Badger's key of a key to dst.
func badgerKey(dst []byte, k offsetstore.Key) []byte {
	return offsetstore.AppendKey(append(dst, keySpace), k)
}

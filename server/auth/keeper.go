package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"sync"
	"sync/atomic"
)

// Keeper knows the tokens in force. Its methods may be called concurrently.
type Keeper struct {
	path  string
	fixed []Grant
	set   atomic.Pointer[set]

	mu      sync.Mutex // one reload at a time; guards changed
	changed chan struct{}
}

// Open reads a tokens file; an empty path is no file. The fixed grants are in
// force beside it, whatever it says.
func Open(path string, fixed ...Grant) (*Keeper, error) {
	k := &Keeper{path: path, fixed: fixed, changed: make(chan struct{})}
	s, err := k.read()
	if err != nil {
		return nil, err
	}
	k.set.Store(s)
	return k, nil
}

func (k *Keeper) read() (*set, error) {
	grants := k.fixed
	if k.path != "" {
		listed, err := ReadFile(k.path)
		if err != nil {
			return nil, err
		}
		grants = append(listed, k.fixed...)
	}
	return newSet(grants), nil
}

// HasFile tells whether tokens come from a file: whether data calls need one.
func (k *Keeper) HasFile() bool { return k.path != "" }

// Reload reads the tokens file again. On an error the tokens stay as they were.
func (k *Keeper) Reload() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, err := k.read()
	if err != nil {
		return err
	}
	k.set.Store(s)
	close(k.changed)
	k.changed = make(chan struct{})
	return nil
}

// Changed is closed with the next successful Reload.
func (k *Keeper) Changed() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changed
}

// Find returns the grant of a token; ok is false when there is none. How long it
// takes says nothing about the tokens in force.
func (k *Keeper) Find(token string) (g *Grant, ok bool) {
	if len(token) > MaxToken {
		return nil, false
	}
	return k.set.Load().find(HashOf(token))
}

// set is the tokens in force at a time. It does not change.
type set struct {
	salt   [sha256.Size]byte
	byKey  map[Hash]*Grant
	equals func(a, b []byte) int
}

func newSet(grants []Grant) *set {
	s := &set{byKey: make(map[Hash]*Grant, len(grants)), equals: subtle.ConstantTimeCompare}
	_, _ = rand.Read(s.salt[:]) // never fails
	for i := range grants {
		s.byKey[s.key(grants[i].Hash)] = &grants[i]
	}
	return s
}

// key is where a hash is looked up: under a hash of it that nobody outside can
// foretell, so that the time of the look-up leads nowhere.
func (s *set) key(h Hash) Hash {
	var in [2 * sha256.Size]byte
	copy(in[:], s.salt[:])
	copy(in[sha256.Size:], h[:])
	return sha256.Sum256(in[:])
}

// nobody stands in for a grant where there is none, so that as much is compared.
var nobody Grant

func (s *set) find(h Hash) (*Grant, bool) {
	g, ok := s.byKey[s.key(h)]
	if !ok {
		g = &nobody
	}
	if s.equals(g.Hash[:], h[:]) != 1 || !ok {
		return nil, false
	}
	return g, true
}

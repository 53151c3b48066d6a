package offsetstoretest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// toyPlace keeps a toy.
type toyPlace struct {
	t     T
	bug   bug
	mu    sync.Mutex
	disk  *toyDisk
	saved *toyDisk // at the last open: for a bug
	store *toy
	fail  error
	held  chan struct{}
}

func (p *toyPlace) Open() (offsetstore.Store, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.disk.inUse && p.bug != "two may open it" {
		return nil, offsetstore.ErrLocked
	}
	switch {
	case p.bug == "deletes are not durable" && p.saved != nil:
		for k, v := range p.saved.values {
			if _, ok := p.disk.values[k]; !ok {
				p.disk.values[k] = v
			}
		}
	case p.bug == "marks die with the process":
		p.disk.marks = map[string]toyMark{}
	case p.bug == "the last commit dies with the process" && p.saved != nil:
		p.disk.values = p.saved.values
	}
	p.disk.inUse = true
	s := newToy(p.bug, &p.mu, p.disk)
	s.fail = p.fail
	p.store = s
	p.t.Cleanup(func() { p.release(); s.Close() })
	return s, nil
}

// save keeps what is on disk before something is done to it, if a bug needs it.
func (p *toyPlace) save() {
	if p.bug != "deletes are not durable" && p.bug != "the last commit dies with the process" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.saved = p.disk.clone()
}

func (p *toyPlace) Kill() {
	p.mu.Lock()
	p.store.killed = true
	p.mu.Unlock()
	p.release()
	if err := p.store.end(true); err != nil {
		p.t.Errorf("kill: %v", err)
	}
}

func (p *toyPlace) Fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = err
	if err != nil {
		p.fail = fmt.Errorf("toy: %w", err)
	}
	p.store.fail = p.fail
}

func (p *toyPlace) Hold() func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = make(chan struct{})
	p.store.held = p.held
	return p.release
}

func (p *toyPlace) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.held)
		p.held, p.store.held = nil, nil
	}
}

func (p *toyPlace) TooBig() *offsetstore.Txn { return nil }
func (p *toyPlace) Tidy()                    {}

// savingPlace saves before each transaction.
type savingPlace struct{ *toyPlace }

func (p savingPlace) Open() (offsetstore.Store, error) {
	s, err := p.toyPlace.Open()
	if err != nil {
		return nil, err
	}
	return savingStore{s, p.toyPlace}, nil
}

type savingStore struct {
	offsetstore.Store
	p *toyPlace
}

func (s savingStore) Submit(txn *offsetstore.Txn, done func(error)) {
	s.p.save()
	s.Store.Submit(txn, done)
}

// fakeT notes failures instead of failing.
type fakeT struct {
	ctx      context.Context
	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func (t *fakeT) Helper() {}
func (t *fakeT) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures = append(t.failures, fmt.Sprintf(format, args...))
}

func (t *fakeT) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}
func (t *fakeT) Cleanup(f func())         { t.cleanups = append(t.cleanups, f) }
func (t *fakeT) Context() context.Context { return t.ctx }

// failures runs a case against a toy with a bug, where time is fake.
func failures(t *testing.T, b bug, run func(T, Place)) (out []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeT{ctx: t.Context()}
		place := &toyPlace{t: f, bug: b, disk: &toyDisk{values: map[string]toyValue{}, records: map[string][]byte{}, marks: map[string]toyMark{}}}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer func() {
				for _, c := range slices.Backward(f.cleanups) {
					c()
				}
			}()
			run(f, savingPlace{place})
		}()
		<-ended
		out = f.failures
	})
	return out
}

// all are the cases of the suite and those that stand alone, small.
func all() []Case {
	return append(Cases(),
		Case{"C11", C11}, Case{"C63", C63}, Case{"C74", C74},
		Case{"C10", func(t T, p Place) { C10(t, p, 50) }},
		Case{"C22", func(t T, p Place) { C22(t, p, 800) }})
}

// TestToyHoldsTheContract: without a bug nothing fails.
func TestToyHoldsTheContract(t *testing.T) {
	for _, c := range all() {
		for _, f := range failures(t, "", c.Run) {
			t.Errorf("%s: %s", c.Name, f)
		}
	}
}

// TestMutants: each bug is caught by a case.
func TestMutants(t *testing.T) {
	for _, b := range []bug{
		"a put overwrites",
		"the position is the maximum finished",
		"finished offsets are lost",
		"the high mark may go down",
		"a lower put takes the rest",
		"a higher epoch does not win",
		"a lower epoch is taken",
		"done before durable",
		"visible before durable",
		"done is called twice",
		"order of submits is not kept",
		"failed is visible",
		"failed is tried again",
		"half of a failed transaction happens",
		"healthy always",
		"deletes are not durable",
		"deletes are after puts",
		"the last commit dies with the process",
		"close drops the queue",
		"a second close is an error",
		"submit after close is never answered",
		"two may open it",
		"absent is a zero value",
		"a get gives the store's slices",
		"a put keeps the caller's slices",
		"keys joined by a separator",
		"a scan finds longer topics",
		"a scan has no order",
		"a scan misses the last",
		"a scan does not stop",
		"a scan of records begins at after",
		"marks are ignored",
		"marks of any epoch count",
		"marks die with the process",
		"a lower mark is taken",
		"a mark outlives its key",
		"a marker outlives its key",
	} {
		t.Run(strings.ReplaceAll(string(b), " ", "_"), func(t *testing.T) {
			for _, c := range all() {
				if f := failures(t, b, c.Run); len(f) > 0 {
					t.Logf("caught by %s: %s", c.Name, f[0])
					return
				}
			}
			t.Errorf("no case catches it")
		})
	}
}

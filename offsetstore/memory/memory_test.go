package memory

import (
	"errors"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/offsetstore/offsetstoretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place is a disk, and the store that has it open.
type place struct {
	t       *testing.T
	disk    *Disk
	store   *Store
	fail    error
	release func()
}

func newPlace(t *testing.T) offsetstoretest.Place {
	return &place{t: t, disk: NewDisk(), release: func() {}}
}

func (p *place) Open() (offsetstore.Store, error) {
	s, err := Open(p.disk)
	if err != nil {
		return nil, err
	}
	p.store = s
	s.FailWrites(p.fail)
	p.t.Cleanup(func() {
		p.release() // or Close waits
		if err := s.Close(); err != nil {
			p.t.Errorf("close: %v", err)
		}
	})
	return s, nil
}

func (p *place) Kill() { p.store.Kill() }

func (p *place) Fail(err error) {
	p.fail = err
	p.store.FailWrites(err)
}

func (p *place) Hold() func() {
	p.release = p.store.HoldWrites()
	return p.release
}

func (p *place) TooBig() *offsetstore.Txn { return nil }
func (p *place) Tidy()                    {}

func TestSuite(t *testing.T) { offsetstoretest.Run(t, newPlace) }

func TestC10_ConcurrentWritesNeverGoDown(t *testing.T) { offsetstoretest.C10(t, newPlace(t), 1000) }
func TestC11_FirstCommitsAtOnce(t *testing.T)          { offsetstoretest.C11(t, newPlace(t)) }
func TestC22_DeletedStaysDeleted(t *testing.T)         { offsetstoretest.C22(t, newPlace(t), 20_000) }
func TestC63_NamesDoNotCollide(t *testing.T)           { offsetstoretest.C63(t, newPlace(t)) }
func TestC74_ReadsChangeNothing(t *testing.T)          { offsetstoretest.C74(t, newPlace(t)) }

// TestBubble: the store works where time is fake.
func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		key := offsetstore.Key{Topic: "t", Partition: "0"}
		txn := &offsetstore.Txn{Puts: []offsetstore.Put{{Key: key, Value: offsetstore.Value{Position: 5}}}}
		release := s.HoldWrites()
		var answers []error
		s.Submit(txn, func(err error) { answers = append(answers, err) })
		synctest.Wait()
		if len(answers) > 0 {
			t.Fatalf("answered %v while held", answers)
		}
		release()
		synctest.Wait()
		full := errors.New("disk full")
		s.FailWrites(full)
		s.Submit(txn, func(err error) { answers = append(answers, err) })
		synctest.Wait()
		if len(answers) != 2 || answers[0] != nil || !errors.Is(answers[1], full) {
			t.Fatalf("answers are %v", answers)
		}
		if err := s.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
		again, err := Open(s.Disk())
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		if v, ok, err := again.Get(key); err != nil || !ok || v.Position != 5 {
			t.Fatalf("after a restart: %+v, %v, %v", v, ok, err)
		}
		again.Kill()
	})
}

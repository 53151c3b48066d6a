package badger

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/ackmesh/ackmesh/offsetstore/offsetstoretest"
)

func TestSuite(t *testing.T) { offsetstoretest.Run(t, forSuite) }

func TestC10_ConcurrentWritesNeverGoDown(t *testing.T) { offsetstoretest.C10(t, newPlace(t), 1000) }
func TestC11_FirstCommitsAtOnce(t *testing.T)          { offsetstoretest.C11(t, newPlace(t)) }
func TestC22_DeletedStaysDeleted(t *testing.T)         { offsetstoretest.C22(t, newPlace(t), 200_000) }
func TestC63_NamesDoNotCollide(t *testing.T)           { offsetstoretest.C63(t, newPlace(t)) }
func TestC74_ReadsChangeNothing(t *testing.T)          { offsetstoretest.C74(t, newPlace(t)) }

func TestCloseLeavesNoGoroutine(t *testing.T) {
	before := goleak.IgnoreCurrent()
	p := newPlace(t)
	for range 3 {
		s := mustOpen(t, p)
		mustCommit(t, s, ackOf(1, 1))
		mustClose(t, s)
	}
	goleak.VerifyNone(t, before)
}

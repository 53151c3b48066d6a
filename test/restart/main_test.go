//go:build long

package restart

import (
	"os"
	"testing"

	"github.com/ackmesh/ackmesh/test/process"
	"github.com/ackmesh/ackmesh/test/site"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

// start starts a server with a log of its own. Topics have one partition.
func start(t *testing.T, args ...string) *mesh {
	t.Helper()
	return startAt(t, site.Embedded, args...)
}

// The suites that also hold on brokers.

func TestAcksOutOfOrder(t *testing.T)     { AcksOutOfOrder(t, site.Embedded) }
func TestLatestSurvives(t *testing.T)     { LatestSurvives(t, site.Embedded) }
func TestC25_LateAck(t *testing.T)        { LateAck(t, site.Embedded) }
func TestC35_OrderlyRestart(t *testing.T) { OrderlyRestart(t, site.Embedded) }
func TestC53_Continues(t *testing.T)      { Continues(t, site.Embedded) }

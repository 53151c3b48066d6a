//go:build long

package poison

import (
	"os"
	"testing"

	"github.com/ackmesh/ackmesh/test/process"
	"github.com/ackmesh/ackmesh/test/site"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

func TestPoisonKillsTheServer(t *testing.T) { KillsTheServer(t, site.Embedded) }

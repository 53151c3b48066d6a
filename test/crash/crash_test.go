//go:build long

package crash

import (
	"os"
	"testing"

	"github.com/ackmesh/ackmesh/test/process"
	"github.com/ackmesh/ackmesh/test/site"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

func TestCrash(t *testing.T) { Run(t, site.Embedded) }

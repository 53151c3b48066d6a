//go:build long

package crash

import (
	"os"
	"testing"

	"github.com/ackmesh/ackmesh/test/process"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

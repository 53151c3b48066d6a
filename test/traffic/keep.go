package traffic

import (
	"os"
	"testing"

	"github.com/ackmesh/ackmesh/server/tracecheck"
)

// Keep writes a trace to where the test's artifacts go, and returns the path.
func Keep(t testing.TB, tr *tracecheck.Trace) string {
	t.Helper()
	f, err := os.CreateTemp(t.ArtifactDir(), "trace-*.txt")
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Write(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

package main

import (
	"strings"
	"testing"
)

// TestImportIsWholeOrNothing: a file with a mistake anywhere sets nothing, above
// all not every partition where one was forgotten.
func TestImportIsWholeOrNothing(t *testing.T) {
	m := startMesh(t, t.TempDir(), "--storage", "memory")
	path, _ := flights(t)
	m.run(t, "publish", "--topic", "flights", path).want(t, exitOK)
	m.run(t, "subscribe", "--topic", "flights", "--client", "c", "--from", "earliest", "--count", "2000").want(t, exitOK)
	before := m.run(t, "offsets", "export")
	before.want(t, exitOK, "client/c")
	good := `{"topic":"flights","subscriber":"client/c","partition":"0","position":1}` + "\n"
	for bad, why := range map[string]string{
		`{"topic":"flights","subscriber":"client/c","position":1}`:                           "no partition",
		`{"topic":"flights","subscriber":"client/c","partition":"","position":1}`:            "no partition",
		`{"topic":"flights","subscriber":"client/c","partition":"1"}`:                        "no position",
		`{"topic":"flights","subscriber":"client/c","partition":"1","position":null}`:        "no position",
		`{"topic":"flights","subscriber":"client/c","partition":"1","position":-1}`:          "position is -1",
		`{"topic":"flights","subscriber":"client/c","partition":"1","position":1.5}`:         "1.5",
		`{"topic":"flights","subscriber":"client/c","partition":"1","position":1e30}`:        "1e30",
		`{"topic":"flights","partition":"1","position":1}`:                                   "no subscriber",
		`{"subscriber":"client/c","partition":"1","position":1}`:                             "no topic",
		`{"topic":"flights","subscriber":"client/c","partition":"1","position":1,"epoch":3}`: "epoch",
		`{"topic":"flights","subscriber":"client/c","partition":"0","position":2}`:           "another position in entry 1",
		`[]`: "array", `null`: "no topic", `{"topic":"flights"`: "EOF", "\xff": "invalid",
	} {
		m.run(t, "offsets", "import", save(t, "bad", good+bad)).want(t, exitFailed, "nothing was set", "entry 2", why)
		if after := m.run(t, "offsets", "export"); after.out != before.out {
			t.Fatalf("%s: positions have changed:\n%s", bad, after.out)
		}
	}
	file := save(t, "good", good)
	m.run(t, "offsets", "import", file, "--dry-run").want(t, exitOK, "nothing was changed; 1 positions would be set")
	if after := m.run(t, "offsets", "export"); after.out != before.out {
		t.Fatalf("a dry run has changed positions:\n%s", after.out)
	}
	m.run(t, "offsets", "import", file).want(t, exitOK, "1 positions were set")
	beyond := save(t, "beyond", strings.Replace(good, `"position":1`, `"position":9000000`, 1))
	m.run(t, "offsets", "import", beyond).want(t, exitOK, "1 positions were set", `partition "0": offset 9000000 is outside`, "corrected to")
	m.run(t, "offsets", "import", save(t, "saved", before.out)).want(t, exitOK, "4 positions were set")
	if after := m.run(t, "offsets", "export"); after.out != before.out {
		t.Errorf("import of an export is not what was exported:\n%s\nwas\n%s", after.out, before.out)
	}
	m.run(t, "offsets", "import", save(t, "unknown", strings.Replace(good, `"partition":"0"`, `"partition":"77"`, 1))).want(t, exitFailed, "NOT_FOUND", `"77"`)
}

package main

import (
	"strings"
	"testing"
)

// TestTimeoutFlag: --timeout means the same in all commands: 0 is for ever, and
// what is negative is refused before anything is done.
func TestTimeoutFlag(t *testing.T) {
	m := startMesh(t, t.TempDir(), "--storage", "memory")
	line := save(t, "one", `{"data":"x"}`+"\n")
	for _, args := range []string{
		"topics list", "recommend", "publish --topic t " + line,
		"subscribe --topic t --client c --from earliest --count 1",
		"lite create --parent t --lite a", "lite publish --parent t --lite a " + line,
		"lite subscribe --parent t --lite a --client c --count 1",
	} {
		out := m.run(t, append(strings.Fields(args), "--timeout", "0")...)
		if strings.Contains(out.err, "DEADLINE") || strings.Contains(out.err, "deadline") || strings.Contains(out.err, "within 0s") {
			t.Errorf("%s --timeout 0: %s", args, out.err)
		}
		if !strings.HasPrefix(args, "lite") {
			out.want(t, exitOK)
		}
		m.run(t, append(strings.Fields(args), "--timeout", "-1s")...).want(t, exitUsage, "--timeout", "negative")
	}
}

package main

import (
	"strings"
	"testing"
	"time"
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

// TestEvictedSubscribe: why a subscription ended is told once.
func TestEvictedSubscribe(t *testing.T) {
	m := startMesh(t, t.TempDir(), "--storage", "memory")
	ended := make(chan output, 1)
	go func() { ended <- m.run(t, "subscribe", "--topic", "t", "--client", "c") }()
	var out output
	for begin := time.Now(); out.code == exitOK; { // a stream that was not open yet comes again
		m.run(t, "clients", "evict", "c", "--reason", "be gone").want(t, exitOK)
		select {
		case out = <-ended:
		default:
			if time.Since(begin) > patience {
				t.Fatal("it does not end")
			}
		}
	}
	out.want(t, exitFailed, "ackmesh: evicted by the server: ", "be gone\n")
	if n := strings.Count(out.err, "evicted by the server"); n != 1 {
		t.Errorf("told %d times: %s", n, out.err)
	}
}

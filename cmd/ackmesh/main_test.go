package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// runMain, set in the environment, makes the test program be the command itself,
// so that tests can start, signal and kill real processes.
const runMain = "TEST_OF_ACKMESH_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// output is what a command printed and how it ended.
type output struct {
	out, err string
	code     int
}

// call runs a command line within the test, with no environment.
func call(t *testing.T, change func(*app), args ...string) output {
	t.Helper()
	var out, errOut bytes.Buffer
	a := newApp()
	a.in, a.out, a.errOut, a.environ, a.terminal = strings.NewReader(""), &out, &errOut, nil, false
	if change != nil {
		change(a)
	}
	code := a.run(context.Background(), args)
	return output{out.String(), errOut.String(), code}
}

// want checks the exit code and that the parts are in what was printed.
func (o output) want(t *testing.T, code int, parts ...string) {
	t.Helper()
	if o.code != code {
		t.Errorf("exit code %d, want %d", o.code, code)
	}
	for _, part := range parts {
		if !strings.Contains(o.out+o.err, part) {
			t.Errorf("the output lacks %q", part)
		}
	}
	if t.Failed() {
		t.Logf("stdout:\n%s\nstderr:\n%s", o.out, o.err)
	}
}

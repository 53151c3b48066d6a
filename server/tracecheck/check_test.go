package tracecheck

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// load reads a trace of testdata, and which promise its first line says it
// breaks; empty: none.
func load(t *testing.T, path string) (tr *Trace, breaks string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`^# (?:breaks (\w+)|keeps all):`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s does not begin with what it breaks", path)
	}
	tr, err = Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return tr, string(m[1])
}

// broken lists the promises that a trace breaks.
func broken(t *testing.T, tr *Trace) []string {
	t.Helper()
	err := Check(tr)
	if errors.Is(err, ErrMalformed) {
		t.Fatal(err)
	}
	var names []string
	for _, p := range Promises() {
		if errors.Is(err, p.Err) {
			names = append(names, p.Name)
		}
	}
	if (err == nil) != (len(names) == 0) {
		t.Fatalf("an error that is no promise's: %v", err)
	}
	return names
}

// TestTraces: each trace breaks exactly the promise that it says, and each
// promise has a trace that breaks it alone.
func TestTraces(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{}
	for _, path := range paths {
		tr, breaks := load(t, path)
		tried[breaks] = true
		var want []string
		if breaks != "" {
			want = []string{breaks}
		}
		if got := broken(t, tr); !slices.Equal(got, want) {
			t.Errorf("%s breaks %v, not %v: %v", path, got, want, Check(tr))
		}
	}
	for _, p := range Promises() {
		if !tried[p.Name] {
			t.Errorf("no trace breaks %s", p.Name)
		}
	}
	if !tried[""] {
		t.Error("no trace keeps all promises")
	}
}

// TestExcept: a promise that is left out is not held against a trace.
func TestExcept(t *testing.T) {
	tr, _ := load(t, filepath.Join("testdata", "once.txt"))
	if err := Check(tr, ErrBrokeOnce); err != nil {
		t.Error(err)
	}
	if err := Check(tr, ErrBrokeOrdered); !errors.Is(err, ErrBrokeOnce) {
		t.Error(err)
	}
}

// TestMalformed: what no client can have recorded is refused, not judged.
func TestMalformed(t *testing.T) {
	for _, text := range []string{
		"opened 1 0:0@0",
		"positions 1 0:0@0",
		"delivered 1 1 0 0 1 0 1",
		"closed 1",
		"open 1 client/a 0\nopen 1 client/a 0",
		"open 1 client/a 0\nack 1 7",
		"open 1 client/a 0\nopen 2 client/a 0\ndelivered 1 7 0 0 1 0 1\nnack 2 7",
		"open 1 client/a 0\nanswer 1 7 durable",
	} {
		tr, err := Parse(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(tr); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, e := range []Event{{}, {Kind: BrokerAck + 1}, {Kind: Down, Status: Stopped + 1}} {
		if err := Check(&Trace{Events: []Event{e}}); !errors.Is(err, ErrMalformed) {
			t.Errorf("%v: %v", e.String(), err)
		}
	}
}

// TestCuts counts what each end of an instance cut off.
func TestCuts(t *testing.T) {
	tr, err := Parse(strings.NewReader(`
open 1 client/a 0
opened 1 0:0@0
publish 1
published 1 0 0
publish 2
publish 3
delivered 1 10 0 0 1 0 1
delivered 1 11 0 1 1 0 2
delivered 1 12 0 2 1 0 3
ack 1 10
ack 1 11
open 2 client/b 0
down killed
answer 1 10 durable
unpublished 2
published 3 0 2
closed 1
up
open 3 client/b 0
publish 2
down stopped
opened 3 0:0@0
published 2 0 1
publish 4
unpublished 4
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Cut{{At: 12, How: Killed, Acks: 1, Publishes: 1, Open: 1}, {At: 20, How: Stopped}}
	if got := Cuts(tr); !slices.Equal(got, want) {
		t.Errorf("cuts are %v, not %v", got, want)
	}
}

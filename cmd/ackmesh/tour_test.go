package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// printedLine is what the tests read of a line of subscribe.
type printedLine struct {
	Partition  string
	Offset     int64
	Attempt    int
	DeliveryID string `json:"deliveryId"`
	Attributes map[string]string
	Data       json.RawMessage
}

// printedLines reads the lines that subscribe printed.
func printedLines(t *testing.T, out string) []printedLine {
	t.Helper()
	var lines []printedLine
	for text := range strings.Lines(out) {
		var line printedLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		lines = append(lines, line)
	}
	return lines
}

// place names a record.
func (l printedLine) place() string { return fmt.Sprint(l.Partition, "@", l.Offset) }

// TestFlightsComeBack: a file that was published comes back complete, each
// partition in order, and each airport in one partition.
func TestFlightsComeBack(t *testing.T) {
	m := startMesh(t, t.TempDir(), "--storage", "memory")
	path, want := flights(t)
	m.run(t, "publish", "--topic", "flights", "--key-attr", "origin", path).want(t, exitOK, "published 2,000 events to flights in ")
	out := m.run(t, "subscribe", "--topic", "flights", "--client", "c", "--from", "earliest", "--count", "2000")
	out.want(t, exitOK, "received 2,000, acked 2,000\n")

	next, airport := make(map[string]int64), make(map[string]string)
	var got []string
	for _, line := range printedLines(t, out.out) {
		if line.Offset != next[line.Partition] || line.Attempt != 1 {
			t.Fatalf("%s as attempt %d, want offset %d", line.place(), line.Attempt, next[line.Partition])
		}
		next[line.Partition]++
		key := line.Attributes["partitionkey"]
		if at, ok := airport[key]; ok && at != line.Partition {
			t.Fatalf("%s is in partitions %s and %s", key, at, line.Partition)
		}
		airport[key] = line.Partition
		got = append(got, string(line.Data))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Error("what came back is not what was published")
	}
	if len(next) != 4 {
		t.Errorf("%d partitions", len(next))
	}
}

// TestKillAndResume is the tour of README.md: after kill -9 exactly what was not
// acked comes again, and what was seen before as the next attempt.
func TestKillAndResume(t *testing.T) {
	m := startMesh(t, t.TempDir())
	path, _ := flights(t)
	m.run(t, "publish", "--topic", "flights", "--key-attr", "origin", path).want(t, exitOK)
	subscribe := func(args ...string) []printedLine {
		out := m.run(t, append([]string{"subscribe", "--topic", "flights", "--client", "me"}, args...)...)
		out.want(t, exitOK)
		return printedLines(t, out.out)
	}
	acked := subscribe("--from", "earliest", "--count", "10")
	seen := subscribe("--count", "10", "--no-ack")
	m.kill()
	m.restart(t)
	rest := subscribe("--count", "1990")
	after := subscribe("--idle-exit", "300ms")

	attempts := make(map[string]int)
	for _, line := range rest {
		attempts[line.place()] = line.Attempt
	}
	for _, line := range acked {
		if attempts[line.place()] != 0 {
			t.Errorf("%s was acked and came again", line.place())
		}
	}
	for _, line := range seen {
		if attempts[line.place()] != 2 {
			t.Errorf("%s, which was seen before, came as attempt %d", line.place(), attempts[line.place()])
		}
	}
	if len(acked) != 10 || len(seen) != 10 || len(attempts) != 1990 || len(after) != 0 {
		t.Errorf("%d acked, %d seen, %d came after the restart, %d after all was acked", len(acked), len(seen), len(attempts), len(after))
	}
}

// TestPublishBadLines: bad lines are told with their numbers, and the rest goes on.
func TestPublishBadLines(t *testing.T) {
	m := startMesh(t, t.TempDir(), "--storage", "memory")
	in := `{"n":1}
hello

{"specversion":"1.0","id":"1","type":"t","emdlqid":"x"}
{"specversion":"1.0","id":"1","type":"t","Bad":"x"}
{"n":2}`
	path := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(path, []byte(in), 0o600); err != nil {
		t.Fatal(err)
	}
	out := m.run(t, "publish", "--topic", "t", path)
	out.want(t, exitFailed, "line 2: no JSON", "line 4: ", "emdlqid", "line 5: ", "published 2 events to t", ", 2 bad lines, 1 refused by the server\n")
	if strings.Contains(out.err, "ackmesh: ") {
		t.Errorf("all is told, and then again:\n%s", out.err)
	}
	got := printedLines(t, m.run(t, "subscribe", "--topic", "t", "--client", "c", "--from", "earliest", "--count", "2").out)
	if len(got) != 2 || string(got[0].Data) != `{"n":1}` || string(got[1].Data) != `{"n":2}` {
		t.Errorf("stored: %v", got)
	}
}

// TestPublishStandardInput reads the lines of a pipe.
func TestPublishStandardInput(t *testing.T) {
	m := startMesh(t, t.TempDir(), "--storage", "memory")
	for _, args := range [][]string{nil, {"-"}} {
		out := call(t, func(a *app) { a.in = strings.NewReader("1\n2\n") },
			append([]string{"publish", "--server", m.grpc, "--topic", "t", "--attr", "type=n"}, args...)...)
		out.want(t, exitOK, "published 2 events to t")
	}
}

// TestPublishInterrupted: an interrupt ends a publish that waits for input; what
// was read is published and told.
func TestPublishInterrupted(t *testing.T) {
	m := startMesh(t, t.TempDir(), "--storage", "memory")
	in, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer writer.Close()
	if _, err := writer.WriteString("1\n2\n"); err != nil {
		t.Fatal(err)
	}
	p := spawnReading(t, in, "publish", "--server", m.grpc, "--topic", "t")
	m.run(t, "subscribe", "--topic", "t", "--client", "c", "--from", "earliest", "--count", "2").want(t, exitOK)
	p.signal(syscall.SIGINT)
	p.wait().want(t, exitFailed, "interrupted", "published 2 events to t")
}

// TestSubscribeAckAfter: acks are late, and still confirmed before the end.
func TestSubscribeAckAfter(t *testing.T) {
	m := startMesh(t, t.TempDir(), "--storage", "memory")
	call(t, func(a *app) { a.in = strings.NewReader("1\n2\n3\n") }, "publish", "--server", m.grpc, "--topic", "t").want(t, exitOK)
	began := time.Now()
	out := m.run(t, "subscribe", "--topic", "t", "--client", "c", "--from", "earliest", "--count", "3", "--ack-after", "300ms")
	out.want(t, exitOK, "received 3, acked 3\n")
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("ended after %v", took)
	}
	m.run(t, "subscribe", "--topic", "t", "--client", "c", "--idle-exit", "200ms").want(t, exitOK, "received 0, acked 0\n")
}

// TestSubscribeInterrupted: an interrupt ends in order; what was printed is acked,
// though its time had not come.
func TestSubscribeInterrupted(t *testing.T) {
	m := startMesh(t, t.TempDir(), "--storage", "memory")
	p := spawn(t, "subscribe", "--server", m.grpc, "--topic", "t", "--client", "c", "--from", "earliest", "--ack-after", "1h")
	call(t, func(a *app) { a.in = strings.NewReader("1\n") }, "publish", "--server", m.grpc, "--topic", "t").want(t, exitOK)
	p.printed("\n")
	p.signal(syscall.SIGINT)
	p.wait().want(t, exitOK, "received 1, acked 1\n")
}

// TestSubscribeEndsWhenTaken: a second client of the same name takes over, and the
// first says why it ends.
func TestSubscribeEndsWhenTaken(t *testing.T) {
	m := startMesh(t, t.TempDir(), "--storage", "memory")
	first := spawn(t, "subscribe", "--server", m.grpc, "--topic", "t", "--client", "c", "--from", "earliest")
	call(t, func(a *app) { a.in = strings.NewReader("1\n") }, "publish", "--server", m.grpc, "--topic", "t").want(t, exitOK)
	first.printed("\n")
	m.run(t, "subscribe", "--topic", "t", "--client", "c", "--idle-exit", "100ms").want(t, exitOK)
	first.wait().want(t, exitFailed, "superseded")
}

// TestNoServer: the error says where nobody answers, and what to do.
func TestNoServer(t *testing.T) {
	for _, args := range []string{"publish --topic t", "subscribe --topic t --client c"} {
		call(t, nil, strings.Fields(args+" --server 127.0.0.1:1 --timeout 5s")...).want(t, exitFailed,
			"127.0.0.1:1: UNAVAILABLE: ", "connection refused", "'ackmesh serve' starts one")
	}
}

// TestMissingFlags: what is needed is asked for before anything is dialled.
func TestMissingFlags(t *testing.T) {
	for args, want := range map[string]string{
		"publish":                                                "--topic is missing",
		"publish --topic t --attr x":                             "--attr",
		"publish --topic t a b":                                  "one FILE at most",
		"subscribe --client c":                                   "--topic is missing",
		"subscribe --topic t":                                    "--client is missing",
		"subscribe --topic t --client c --from then":             "--from",
		"subscribe --topic t --client c --mode all":              "--mode",
		"subscribe --topic t --client c --count -1":              "--count",
		"subscribe --topic t --client c --no-ack --ack-after 1s": "--no-ack",
	} {
		call(t, nil, strings.Fields(args)...).want(t, exitUsage, want)
	}
	call(t, nil, "publish", "--topic", "t", "/does/not/exist").want(t, exitFailed, "/does/not/exist")
	call(t, nil, "publish", "--topic", "t", t.TempDir()).want(t, exitFailed, "is a directory")
}

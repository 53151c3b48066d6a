package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLiteTour: lite topics are made, written and read by the command, and go on
// where they were.
func TestLiteTour(t *testing.T) {
	m := startMesh(t, t.TempDir(), "--storage", "memory")
	at := []string{"--parent", "chat", "--lite", "session-1"}
	m.run(t, append([]string{"lite", "create"}, at...)...).want(t, exitOK, "lite topic session-1 of chat is there")

	path := filepath.Join(t.TempDir(), "words.jsonl")
	var text strings.Builder
	for i := range 600 {
		fmt.Fprintf(&text, "{\"n\":%d}\n", i)
	}
	text.WriteString("no json\n")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	m.run(t, append([]string{"lite", "publish", path, "--attr", "type=word"}, at...)...).want(t, exitFailed,
		"line 601: ", "published 600 events to chat session-1 in ", "1 bad lines")

	subscribe := append([]string{"lite", "subscribe", "--client", "c", "--lite", "session-2"}, at...)
	out := m.run(t, append(subscribe, "--count", "250")...)
	out.want(t, exitOK, "received 250, acked 250\n")
	out2 := m.run(t, append(subscribe, "--idle-exit", "500ms")...)
	out2.want(t, exitOK, "received 350, acked 350\n")
	for i, line := range append(printedLines(t, out.out), printedLines(t, out2.out)...) {
		if line.Partition != "session-1" || line.Offset != int64(i) || string(line.Data) != fmt.Sprintf(`{"n":%d}`, i) || line.Attributes["type"] != "word" {
			t.Fatalf("line %d is %+v", i, line)
		}
	}
	m.run(t, append(subscribe, "--idle-exit", "200ms", "--no-ack")...).want(t, exitOK, "received 0, acked 0\n")
}

// TestLitePublishWaits: what is refused for its rate is published when the answer says,
// if that is soon enough.
func TestLitePublishWaits(t *testing.T) {
	m := startMesh(t, t.TempDir(), "--storage", "memory")
	publish := func(parent string, lines int) output {
		return m.run(t, "lite", "publish", "--parent", parent, "--lite", "a", save(t, "lines", strings.Repeat("{}\n", lines)))
	}
	m.run(t, "rate-limit", "set", "publish", "--topic", "chat", "--events", "2").want(t, exitOK)
	publish("chat", 4).want(t, exitOK, "published 4 events")
	publish("chat", 1).want(t, exitOK, "published 1 events")
	m.run(t, "rate-limit", "set", "publish", "--topic", "slow", "--events", "0.01").want(t, exitOK)
	publish("slow", 1).want(t, exitOK, "published 1 events")
	publish("slow", 1).want(t, exitFailed, "0.01 events a second", "try again in")
}

// TestLiteRefusals: mistakes are told.
func TestLiteRefusals(t *testing.T) {
	m := startMesh(t, t.TempDir(), "--storage", "memory")
	m.run(t, "lite", "create", "--lite", "a").want(t, exitUsage, "--parent is missing")
	m.run(t, "lite", "publish", "--parent", "chat").want(t, exitUsage, "--lite is missing")
	m.run(t, "lite", "subscribe", "--parent", "chat", "--lite", "a").want(t, exitUsage, "--client is missing")
	m.run(t, "lite", "create", "--parent", "chat", "--lite", "a.b").want(t, exitFailed, "INVALID_ARGUMENT", "A-Z, a-z")
	m.run(t, "lite", "subscribe", "--parent", "chat", "--client", "c", "--lite", "a.b").want(t, exitFailed, "INVALID_ARGUMENT", "A-Z, a-z")
}

// TestLiteUnimplemented: a log without lite topics says so.
func TestLiteUnimplemented(t *testing.T) {
	m := startMesh(t, t.TempDir(), "--storage", "embedded")
	path := filepath.Join(t.TempDir(), "words.jsonl")
	if err := os.WriteFile(path, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"create"}, {"publish", path}, {"subscribe", "--client", "c"},
	} {
		out := m.run(t, append(append([]string{"lite"}, args...), "--parent", "chat", "--lite", "a")...)
		out.want(t, exitFailed, "UNIMPLEMENTED", "embedded", "lite topics")
	}
}

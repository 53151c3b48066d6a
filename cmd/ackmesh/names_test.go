package main

import (
	"strings"
	"testing"
)

// TestC63_NamesKeepApart: names may have any character but control characters, and
// positions of names that would be equal if joined are independent.
func TestC63_NamesKeepApart(t *testing.T) {
	m := startMesh(t, t.TempDir())
	pairs := [][2]string{
		{"a#b", "c"},
		{"a", "b#c"},
		{"a/b", "c"},
		{"a", "b/c"},
		{"a:b", "c"},
		{"a", "b:c"},
		{"a|b", "c"},
		{"ä✓", "世界"},
		{strings.Repeat("t", 255), strings.Repeat("c", 255)},
		{"__t", "c"},
	}
	for i, pair := range pairs {
		topic, client := pair[0], pair[1]
		call(t, func(a *app) { a.in = strings.NewReader("1\n2\n3\n") }, "publish", "--server", m.grpc, "--topic", topic).want(t, exitOK)
		got := m.run(t, "subscribe", "--topic", topic, "--client", client, "--from", "earliest", "--count", "1", "--max-in-flight", "1")
		got.want(t, exitOK, "received 1, acked 1\n")
		offsets := m.run(t, "offsets", "get", "--topic", topic, "--subscriber", "client/"+client, "--json")
		offsets.want(t, exitOK)
		if n := strings.Count(offsets.out, `"position": "1"`); n != 1 {
			t.Errorf("pair %d: %d partitions have moved:\n%s", i, n, offsets.out)
		}
	}
	list := m.run(t, "topics", "list")
	for _, pair := range pairs {
		list.want(t, exitOK, "\n"+pair[0]+" ")
	}
}

// TestC63_IllegalNames: the server refuses what is no name, and says why.
func TestC63_IllegalNames(t *testing.T) {
	m := startMesh(t, t.TempDir(), "--storage", "memory")
	for name, want := range map[string]string{
		"a\x00b":                  "control character",
		"a\nb":                    "control character",
		strings.Repeat("x", 256):  "255",
		strings.Repeat("x", 1024): "255",
		"":                        "empty",
	} {
		m.run(t, "topics", "create", name).want(t, exitFailed, "INVALID_ARGUMENT", want)
	}
	m.run(t, "subscribe", "--topic", "t", "--client", "__mqcursor__").want(t, exitFailed, "INVALID_ARGUMENT", "__mqcursor__", "reserved")
	// Protobuf itself refuses strings that are not UTF-8, before they are sent.
	m.run(t, "topics", "create", "\xff").want(t, exitFailed, "UTF-8")
}

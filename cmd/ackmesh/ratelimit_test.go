package main

import (
	"strings"
	"testing"
)

// TestRateLimitCommands: limits are set, listed and removed, and hold.
func TestRateLimitCommands(t *testing.T) {
	m := startMesh(t, t.TempDir(), "--storage", "memory")
	m.run(t, "rate-limit", "list").want(t, exitOK, "DIRECTION")
	m.run(t, "rate-limit", "set", "publish", "--topic", "t", "--events", "0.01").want(t, exitOK, "publish limit of topic t and client (all) was set")
	m.run(t, "rate-limit", "set", "deliver", "--client", "c", "--bytes", "1e6", "--events", "100").want(t, exitOK, "deliver limit")
	m.run(t, "rate-limit", "list").want(t, exitOK, "publish", "0.01", "deliver", "1000000")
	m.run(t, "rate-limit", "list", "--json").want(t, exitOK, `"eventsPerSecond"`, "DIRECTION_DELIVER")
	line := save(t, "one", `{"data":"x"}`+"\n")
	m.run(t, "publish", "--topic", "t", line).want(t, exitOK)
	m.run(t, "publish", "--topic", "t", line).want(t, exitFailed, "0.01 events a second", "try again in")
	m.run(t, "publish", "--topic", "other", line).want(t, exitOK)
	for _, other := range [][]string{{"publish"}, {"deliver", "--topic", "t"}, {"publish", "--topic", "t", "--client", "c"}, {"deliver", "--client", "d"}} {
		m.run(t, append([]string{"rate-limit", "remove"}, other...)...).want(t, exitFailed, "there is no "+other[0]+" limit", "rate-limit list")
	}
	m.run(t, "rate-limit", "remove", "publish", "--topic", "t").want(t, exitOK, "removed")
	m.run(t, "rate-limit", "remove", "publish", "--topic", "t").want(t, exitFailed, "there is no publish limit of topic t and client (all)")
	m.run(t, "publish", "--topic", "t", line).want(t, exitOK)
	if out := m.run(t, "rate-limit", "list"); strings.Contains(out.out, "publish") {
		t.Errorf("a limit that was removed is listed: %s", out.out)
	}
	for _, args := range [][]string{
		{"set", "publish", "--topic", "t"}, {"set", "fetch", "--events", "1"}, {"set"}, {"remove", "both"}, {"raise"},
	} {
		m.run(t, append([]string{"rate-limit"}, args...)...).want(t, exitUsage)
	}
	m.run(t, "rate-limit", "set", "publish", "--events", "-1").want(t, exitFailed, "events_per_second")
}

// TestDrainCommand: an instance is drained and takes streams again.
func TestDrainCommand(t *testing.T) {
	m := startMesh(t, t.TempDir(), "--storage", "memory")
	m.run(t, "publish", "--topic", "t", save(t, "one", `{"data":"x"}`+"\n")).want(t, exitOK)
	m.run(t, "drain", "--grace", "1s").want(t, exitOK, "0 streams were told to go")
	m.run(t, "recommend").want(t, exitFailed)
	m.run(t, "drain", "--undo").want(t, exitOK, "streams are taken again")
	m.run(t, "recommend").want(t, exitOK, m.grpc)
	m.run(t, "subscribe", "--topic", "t", "--client", "c", "--from", "earliest", "--count", "1").want(t, exitOK, "x")
	m.run(t, "drain", "--grace", "1h").want(t, exitFailed, "grace")
	m.run(t, "drain", "now").want(t, exitUsage)
}

// TestRebuildCommand: dead letters are found again on a ledger that has them.
func TestRebuildCommand(t *testing.T) {
	m := startMesh(t, t.TempDir(), "--storage", "memory")
	m.run(t, "dlq", "rebuild", "--topic", "t").want(t, exitFailed, "t_DLQ")
	m.run(t, "topics", "create", "t_DLQ").want(t, exitOK)
	m.run(t, "dlq", "rebuild", "--topic", "t").want(t, exitOK, "0 dead letters were found, 0 of them were added")
}

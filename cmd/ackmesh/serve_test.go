package main

import (
	"strings"
	"syscall"
	"testing"
)

// TestC70_SecondServerOnOneDirectory: a second server on a data directory ends at
// once and names it; after kill -9 the next start works, again and again.
func TestC70_SecondServerOnOneDirectory(t *testing.T) {
	data := t.TempDir()
	first := startMesh(t, data)
	second := spawn(t, "serve", "--listen", freeAddress(t), "--http-listen", freeAddress(t), "--admin-listen", freeAddress(t), "--data", data)
	second.wait().want(t, exitFailed, data, "in use by another process")
	for range 20 {
		first.kill()
		first.restart(t)
	}
	first.signal(syscall.SIGTERM)
	first.wait().want(t, exitOK)
}

// TestServeEndsOnSignals: SIGTERM and SIGINT end a server in order.
func TestServeEndsOnSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			m := startMesh(t, t.TempDir())
			m.signal(s)
			m.wait().want(t, exitOK)
		})
	}
}

// TestServePortTaken: the error names the setting's address and the cause.
func TestServePortTaken(t *testing.T) {
	m := startMesh(t, t.TempDir())
	other := spawn(t, "serve", "--listen", m.grpc, "--http-listen", freeAddress(t), "--admin-listen", freeAddress(t), "--data", t.TempDir())
	got := other.wait()
	got.want(t, exitFailed, m.grpc, "address already in use")
	if n := strings.Count(got.err, "ackmesh: "); n != 1 {
		t.Errorf("the error is told %d times", n)
	}
}

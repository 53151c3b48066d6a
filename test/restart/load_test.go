//go:build long

package restart

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/server/tracecheck"
)

// TestC33_CheckpointsAndAcks: pull offsets are saved every 50 ms while acks
// flow and the server is killed 30 times. Nothing that was confirmed comes again.
func TestC33_CheckpointsAndAcks(t *testing.T) {
	const rounds, events = 30, 60_000
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	m := start(t, "--checkpoint.interval", "50ms")
	run, done := load(ctx, t, m, events)
	began := time.Now()
	var down time.Duration
	for round := range rounds {
		reached(ctx, t, m, run, events*(round+1)/(rounds+1)+rand.IntN(500))
		run.Down(tracecheck.Killed)
		m.Kill()
		if err := run.AwaitClosed(ctx); err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		m.Up()
		run.Up()
		down += time.Since(at)
	}
	finished(ctx, t, m, run, done, events)
	t.Logf("%.0f acks a second while up", events/(time.Since(began)-down).Seconds())
	run.Stop()
	if err := tracecheck.Check(run.Rec.Trace()); err != nil {
		t.Error(err)
	}
}

package gate_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/internal/gate"
)

var errClosed = fmt.Errorf("this log: %w", storage.ErrClosed)

// The context of a call ends with the caller's, with the log, and with the call.
func TestInnerEnds(t *testing.T) {
	for name, end := range map[string]func(g *gate.Gate, giveUp, leave func()){
		"the caller gives up": func(_ *gate.Gate, giveUp, _ func()) { giveUp() },
		"the log ends":        func(g *gate.Gate, _, _ func()) { g.End() },
		"the call leaves":     func(_ *gate.Gate, _, leave func()) { leave() },
	} {
		t.Run(name, func(t *testing.T) {
			g := gate.New(errClosed)
			caller, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			inner, leave, err := g.Enter(caller)
			if err != nil || inner.Err() != nil {
				t.Fatalf("enter: %v, %v", err, inner.Err())
			}
			end(g, giveUp, leave)
			<-inner.Done()
		})
	}
}

// A gate that is shut lets nobody in, and waits for those who are.
func TestShut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New(errClosed)
		inner, leave, err := g.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !g.Shut() || g.Shut() {
			t.Error("Shut was the first time twice, or never")
		}
		if _, _, err := g.Enter(t.Context()); !errors.Is(err, storage.ErrClosed) || err.Error() != errClosed.Error() {
			t.Errorf("enter after Shut: %v", err)
		}
		if inner.Err() != nil || g.Ending().Err() != nil {
			t.Error("Shut ends calls")
		}
		waited := false
		go func() { g.Wait(); waited = true }()
		synctest.Wait()
		if waited {
			t.Error("Wait returns while a call is under way")
		}
		g.End()
		if g.Ending().Err() == nil {
			t.Error("End does not end")
		}
		leave()
		synctest.Wait()
		if !waited {
			t.Error("Wait goes on after the last call")
		}
	})
}

func TestOutcome(t *testing.T) {
	gone, giveUp := context.WithCancel(t.Context())
	giveUp()
	open, over := gate.New(errClosed), gate.New(errClosed)
	over.End()
	other := errors.New("refused")
	late := fmt.Errorf("reading: %w", context.DeadlineExceeded)
	closed := fmt.Errorf("connection: %w", storage.ErrClosed)
	for _, c := range []struct {
		name   string
		g      *gate.Gate
		caller context.Context
		err    error
		want   error
	}{
		{"success", over, gone, nil, nil},
		{"another error", over, gone, other, other},
		{"the caller gave up", open, gone, late, context.Canceled},
		{"the caller gave up, and the log was closed", over, gone, context.Canceled, context.Canceled},
		{"the log was closed", over, t.Context(), context.Canceled, errClosed},
		{"the log was closed, as it says itself", over, t.Context(), closed, errClosed},
		{"a limit of the call's own", open, t.Context(), late, late},
		{"something else was closed", open, t.Context(), closed, closed},
	} {
		if got := c.g.Outcome(c.caller, c.err); !errors.Is(got, c.want) || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

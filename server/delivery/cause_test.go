package delivery

import (
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// TestCause: what is delivered again says why.
func TestCause(t *testing.T) {
	again := map[Cause]func(m *Machine, now time.Time) time.Time{
		CauseNacked: func(m *Machine, now time.Time) time.Time { m.Nack(now, 1, 1, 1, 0, false, ""); return now },
		CauseTimeout: func(m *Machine, now time.Time) time.Time {
			now = now.Add(time.Hour)
			m.Tick(now)
			return now
		},
		CauseEnded:  func(m *Machine, now time.Time) time.Time { m.Detach(now, 1, false); return now },
		CauseBroken: func(m *Machine, now time.Time) time.Time { m.Detach(now, 1, true); return now },
	}
	for want, do := range again {
		t.Run(want.String(), func(t *testing.T) {
			now := time.Unix(1e9, 0)
			m := New(Settings{}, offsetstore.Value{}, now, nil)
			m.Attach(1, time.Minute)
			if v := m.Offer(0, 0); v != Send {
				t.Fatalf("offered: %v", v)
			}
			m.Sent(1, 1, []int64{0})
			m.Handed(now, 1, 1)
			now = do(m, now)
			m.Attach(2, time.Minute)
			m.Snapshot()
			m.EndCommit(now, true)
			items := m.Next(9)
			if len(items) != 1 || m.Cause(0) != want {
				t.Errorf("%v comes again because %v, want %v", items, m.Cause(0), want)
			}
		})
	}
	now := time.Unix(1e9, 0)
	m := New(Settings{}, offsetstore.Value{High: 1}, now, nil)
	m.Attach(1, time.Minute)
	m.Snapshot()
	m.EndCommit(now, true)
	if items := m.Next(9); len(items) != 1 || m.Cause(0) != CauseRestart {
		t.Errorf("%v comes again because %v, want %v", items, m.Cause(0), CauseRestart)
	}
	for want, a := range map[Cause]offsetstore.Attempt{
		CauseBroken: {Sent: 1, Spent: 1, Breaks: 1, Due: 1}, CauseEnded: {Sent: 1, Due: 1}, CauseRestart: {Sent: 1, Spent: 1, Due: 1},
	} {
		m := New(Settings{}, offsetstore.Value{High: 1, Attempts: []offsetstore.Attempt{a}}, now, nil)
		m.Attach(1, time.Minute)
		m.Snapshot()
		m.EndCommit(now, true)
		if items := m.Next(9); len(items) != 1 || m.Cause(0) != want {
			t.Errorf("%+v: %v comes again because %v, want %v", a, items, m.Cause(0), want)
		}
	}
	if Causes.String() != "unknown" {
		t.Errorf("%d causes have names", len(causeNames))
	}
}

package delivery

import (
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/offset"
	"github.com/ackmesh/ackmesh/offsetstore"
)

func attempt(off int64, sent, spent, breaks int32, due int64) offsetstore.Attempt {
	return offsetstore.Attempt{Range: offset.Range{First: off, Last: off}, Sent: sent, Spent: spent, Breaks: breaks, Due: due}
}

// A record that comes again under a new offset goes on with its attempts.
func TestRecall(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	for _, tc := range []struct {
		name    string
		a       offsetstore.Attempt
		alone   bool
		attempt int32
		dead    string
	}{
		{"was in flight", attempt(10, 1, 0, 0, 0), false, 2, ""},
		{"was waiting", attempt(10, 3, 2, 0, 1), false, 4, ""},
		{"last attempt, alone", attempt(10, 6, 5, 2, 0), true, 0, ReasonBroken},
		{"last attempt, with others", attempt(10, 5, 5, 1, 0), false, 6, ""},
		{"spent", attempt(10, 6, 6, 0, 1), false, 0, ReasonSpent},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := New(Settings{Jitter: -1}, offsetstore.Value{Position: 10, High: 10}, now, nil)
			m.Attach(1, time.Second)
			m.Recall(now, tc.a, tc.alone, 0)
			if m.NextNew() != 11 || m.High() != 11 || !m.Dirty() {
				t.Fatalf("next %d, high %d, dirty %v", m.NextNew(), m.High(), m.Dirty())
			}
			if dead := m.Dead(); tc.dead != "" {
				if len(dead) != 1 || dead[0].Reason != tc.dead {
					t.Fatalf("dead letters: %v", dead)
				}
				return
			}
			if m.Pressing() != 1 {
				t.Fatalf("%d are pressing", m.Pressing())
			}
			m.Snapshot()
			m.EndCommit(now, true)
			items := m.Next(1)
			if len(items) != 1 || items[0].Offset != 10 || items[0].Attempt != tc.attempt {
				t.Fatalf("to be sent: %v", items)
			}
			m.Sent(1, 1, []int64{10})
			m.Ack(now, 1, 1, 1)
			m.Snapshot()
			m.EndCommit(now, true)
			if m.Position() != 11 || m.Pressing() != 0 {
				t.Fatalf("position %d, pressing %d", m.Position(), m.Pressing())
			}
		})
	}
}

// TestRecallWaits: a record that comes again while it waits for its retry waits as
// long as it was to, however old the machine is, and no longer than was asked for.
func TestRecallWaits(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	for _, tc := range []struct{ due, asked, want time.Duration }{
		{5 * time.Second, 5 * time.Second, 5 * time.Second},
		{time.Hour, 0, 16 * time.Second},
		{time.Hour, time.Minute, time.Minute},
		{time.Hour, 2 * time.Hour, time.Hour},
	} {
		m := New(Settings{}, offsetstore.Value{Position: 10, High: 10}, now.Add(-time.Hour), nil)
		m.Recall(now, attempt(10, 3, 2, 0, now.Add(tc.due).UnixMilli()), false, tc.asked)
		if at, ok := m.Deadline(); m.Pressing() != 0 || !ok || !at.Equal(now.Add(tc.want)) {
			t.Errorf("%+v: %d are pressing, the next is due at %v, %v", tc, m.Pressing(), at, ok)
		}
	}
}

// TestLongWaits: a wait beyond all backoffs is believed only where the wall clock
// was not set back since.
func TestLongWaits(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	for absent, wait := range map[int64]time.Duration{
		0: 16 * time.Second, now.UnixMilli() + 1: 16 * time.Second, now.UnixMilli(): time.Hour, 1: time.Hour,
	} {
		v := offsetstore.Value{Position: 10, High: 11, Absent: absent, Attempts: []offsetstore.Attempt{attempt(10, 1, 1, 0, now.Add(time.Hour).UnixMilli())}}
		if at, ok := New(Settings{}, v, now, nil).Deadline(); !ok || !at.Equal(now.Add(wait)) {
			t.Errorf("absent since %d: due at %v, %v; want after %v", absent, at, ok, wait)
		}
	}
}

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
			m.Recall(now, tc.a, tc.alone)
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

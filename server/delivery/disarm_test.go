package delivery

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
)

// TestDisarm: retries that were armed when the last stream left in order are
// saved as not sent: a restart neither counts nor costs them.
func TestDisarm(t *testing.T) {
	now := time.Unix(1000, 0)
	v := offsetstore.Value{High: 3, Attempts: []offsetstore.Attempt{{Sent: 1, Due: 1}}}
	v.Attempts[0].First, v.Attempts[0].Last = 0, 2
	m := New(Settings{}, v, now, rand.New(rand.NewPCG(1, 1)))
	m.Attach(1, time.Minute)
	m.Tick(now)
	m.Snapshot()
	m.EndCommit(now, true)
	if items := m.Next(10); len(items) != 3 || items[0].Attempt != 2 {
		t.Fatalf("armed: %v", items)
	}
	m.Detach(now, 1, false)
	m.Disarm()
	if items := m.Next(10); len(items) != 0 {
		t.Fatalf("after disarming: %v", items)
	}
	saved := m.Snapshot()
	m.EndCommit(now, true)
	if len(saved.Attempts) != 1 || saved.Attempts[0].Sent != 1 || saved.Attempts[0].Spent != 0 || saved.Attempts[0].Due == 0 {
		t.Fatalf("saved: %+v", saved.Attempts)
	}
	m = New(Settings{}, saved, now, rand.New(rand.NewPCG(1, 1)))
	m.Attach(1, time.Minute)
	m.Tick(now.Add(time.Second))
	m.Snapshot()
	m.EndCommit(now, true)
	if items := m.Next(10); len(items) != 3 || items[0].Attempt != 2 {
		t.Fatalf("after a restart: %v", items)
	}
}

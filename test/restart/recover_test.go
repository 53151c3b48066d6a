//go:build long

package restart

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/test/process"
)

// TestC04_RecoveryAcksNothing: recovery does not move positions, whoever is
// absent, and however often it runs; what was in flight comes again.
func TestC04_RecoveryAcksNothing(t *testing.T) {
	m := start(t)
	s := m.open("c", "t")
	m.publish("t", Numbers(5)...)
	are(t, s.Take(5), 1, upTo(0, 4)...)
	for range 2 {
		m.crash()
		wait(t, 3*time.Second) // nobody connects
		if n := m.position("t", "client/c"); n != 0 {
			t.Fatalf("recovery has moved the position to %d", n)
		}
	}
	s = m.open("c", "t")
	got := s.Take(5)
	are(t, got, 2, upTo(0, 4)...)
	s.AckDurable(got...)
	s.Ack(got[2])
	if st := s.Outcome(got[2]); st != pb.AckResult_STATUS_UNKNOWN {
		t.Errorf("the second ack is %v, not UNKNOWN", st)
	}
	if n := m.position("t", "client/c"); n != 5 {
		t.Errorf("the position is %d, not 5", n)
	}
}

// wait lets real time pass for a server that must do nothing in it.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// TestC04_DamagedMarks: how far deliveries went is kept in a file of its own.
// When it is damaged the server starts, says so, and everything unfinished
// comes again.
func TestC04_DamagedMarks(t *testing.T) {
	m := start(t)
	s := m.open("c", "t")
	m.publish("t", Numbers(5)...)
	got := s.Take(5)
	s.AckDurable(got[1])
	m.Kill()
	damage(t, filepath.Join(m.Data, "offsets", "marks"), flip)
	m.Up()
	if !m.Logged("marks") {
		t.Errorf("the damaged file was not told of:\n%s", m.Log())
	}
	if n := m.position("t", "client/c"); n != 0 {
		t.Errorf("the position is %d, not 0", n)
	}
	if got := m.open("c", "t").Take(4); Show(got) == "" || Offsets(got)[0] != 0 {
		t.Errorf("delivered are %s", Show(got))
	}
}

// TestC04_DamagedStore: a damaged store is never taken for an empty one: the
// server does not start, and names what is damaged.
func TestC04_DamagedStore(t *testing.T) {
	m := start(t)
	s := m.open("c", "t")
	m.publish("t", Numbers(5)...)
	s.AckDurable(s.Take(5)...)
	m.Kill()
	logs, err := filepath.Glob(filepath.Join(m.Data, "offsets", "badger", "*.mem"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no log of the store: %v", err)
	}
	for _, f := range logs {
		damage(t, f, flip)
	}
	m.Spawn()
	if code := m.Wait(process.Patience); code == 0 {
		t.Errorf("the server ended with code 0")
	}
	if !m.Logged(filepath.Join(m.Data, "offsets")) || !m.Logged("damaged") {
		t.Errorf("it is not told what is damaged, and where:\n%s", m.Log())
	}
}

// damage changes the content of a file.
func damage(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

// flip changes each byte that is not zero.
func flip(b []byte) []byte {
	for i := range b {
		if b[i] != 0 {
			b[i] ^= 0x55
		}
	}
	return b
}

// TestC15_NextIsNext: a restart begins at what comes next, also after resets.
func TestC15_NextIsNext(t *testing.T) {
	m := start(t)
	s := m.open("c", "t")
	m.publish("t", Numbers(20)...)
	s.AckDurable(s.Take(20)[:8]...)
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	m.restart()
	s = m.open("c", "t")
	got := s.Take(12)
	if got[0].Offset != 8 || got[11].Offset != 19 {
		t.Fatalf("after the restart came %s", Show(got))
	}
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}

	m.reset("t", "client/c", &pb.Start{Place: &pb.Start_Offset{Offset: 12}})
	m.restart()
	s = m.open("c", "t")
	are(t, s.Take(8), 1, upTo(12, 19)...)
	s.Quiet(quiet)
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}

	m.reset("t", "client/c", &pb.Start{Place: &pb.Start_At_{At: pb.Start_AT_LATEST}})
	m.restart()
	m.publish("t", "new")
	s = m.open("c", "t")
	are(t, s.Take(1), 1, 20)
	s.Quiet(quiet)
}

// TestC37_SentAgainInOrder: what comes again comes in offset order in each
// partition, after a disconnection and after kill -9.
func TestC37_SentAgainInOrder(t *testing.T) {
	m := start(t, "--topics.partitions", "2")
	s := m.openFor("c", "t", time.Second)
	const total = 20
	for i := range total { // by key, so that both partitions get some
		req := &pb.PublishRequest{Topic: "t", PartitionKey: strconv.Itoa(i), Events: []*pb.EventMeshFrame{{Data: []byte("x")}}}
		if res, err := m.mesh.Publish(t.Context(), req); err != nil || res.GetStatus().GetCode() != 0 {
			t.Fatalf("publish: %v, %v", err, res.GetStatus())
		}
	}
	s.Take(total)
	s.Break()
	wait(t, 2*time.Second) // beyond the ack timeout of 1 s

	s = m.open("c", "t")
	inOrder(t, s.Take(total), 2)
	m.crash()

	// In flight in two breaks: one at a time in each partition.
	s = m.open("c", "t")
	var got []Got
	for range total {
		one := s.Take(1)
		got = append(got, one...)
		s.AckDurable(one...)
	}
	inOrder(t, got, 3)
	s.Quiet(quiet)
}

// inOrder sees that deliveries rise by one in each partition.
func inOrder(t *testing.T, got []Got, attempt int32) {
	t.Helper()
	next := map[string]int64{}
	for _, g := range got {
		if g.Offset != next[g.Partition] || g.Attempt != attempt {
			t.Fatalf("out of order, or not attempt %d: %s", attempt, Show(got))
		}
		next[g.Partition]++
	}
	if len(next) != 2 {
		t.Fatalf("only partitions %v have records", next)
	}
}

// TestC55_DamagedCursors: damaged pull offsets are told of, and nothing is
// skipped for them.
func TestC55_DamagedCursors(t *testing.T) {
	zero := func(b []byte) []byte { clear(b); return b }
	half := func(b []byte) []byte { return b[:len(b)/2] }
	nothing := func([]byte) []byte { return nil }
	far := func(b []byte) []byte { // whole, but for its checksum
		return []byte(strings.Replace(string(b), `"next":[`, `"next":[9`, 1))
	}
	for name, change := range map[string]func([]byte) []byte{"flipped": flip, "zero": zero, "half": half, "empty": nothing, "moved": far} {
		for _, which := range [][]string{{"cursors"}, {"cursors", "cursors.bak"}, {"cursors.tmp"}} {
			t.Run(name+" "+strings.Join(which, " "), func(t *testing.T) {
				t.Parallel()
				damagedCursors(t, which, change)
			})
		}
	}
}

func damagedCursors(t *testing.T, which []string, change func([]byte) []byte) {
	t.Helper()
	m := start(t, "--checkpoint.interval", "100ms")
	cursors := filepath.Join(m.Data, "log", "cursors")
	s := m.open("c", "t")
	m.publish("t", Numbers(10)...)
	s.AckDurable(s.Take(10)[:4]...)
	awaitFile(t, cursors)
	m.publish("t", Numbers(10)...)
	s.Take(10)
	awaitFile(t, cursors+".bak")
	m.Kill()
	whole, err := os.ReadFile(cursors + ".bak") // the file itself may be being replaced
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range which {
		path := filepath.Join(filepath.Dir(cursors), name)
		if err := os.WriteFile(path, change(slices.Clone(whole)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m.Up()
	if which[0] == "cursors" && !m.Logged("pull offsets could not be read") {
		t.Errorf("it is not told that the file is damaged:\n%s", m.Log())
	}
	s = m.open("c", "t")
	got := s.Take(16)
	are(t, got, 2, upTo(4, 19)...)
	m.publish("t", "new")
	last := s.Take(1)
	are(t, last, 1, 20)
	s.AckDurable(append(got, last...)...)
	m.Term(20 * time.Second)
}

// awaitFile waits until a file is there.
func awaitFile(t *testing.T, path string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 1000 {
		if _, err := os.Stat(path); err == nil {
			return
		}
		<-tick.C
	}
	t.Fatalf("%s was not written", path)
}

// TestC70_OneServer: a second server on a directory ends at once and says why;
// after kill -9 nothing keeps the next one from starting.
func TestC70_OneServer(t *testing.T) {
	m := start(t)
	other := process.New(t, m.Data)
	other.Spawn()
	if code := other.Wait(10 * time.Second); code == 0 {
		t.Error("a second server on the directory ended with code 0")
	}
	if !other.Logged(m.Data) || !other.Logged("in use by another process") {
		t.Errorf("it is not told which directory is in use:\n%s", other.Log())
	}
	m.publish("t", "still here")
	for range 20 {
		m.crash()
	}
	m.publish("t", "and still")
	m.Term(20 * time.Second)
	m.Up()
}

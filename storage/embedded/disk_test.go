package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/embedded/vfs/crashfs"
)

// failing makes every call of a kind fail.
func failing(kind string) func(crashfs.Op) error {
	return func(op crashfs.Op) error {
		if op.Kind == kind {
			return crashfs.ErrInjected
		}
		return nil
	}
}

// C54: on a full disk appends fail at once, naming the reason; the log lives,
// what was confirmed stays readable, and when there is room again it takes
// records without a restart. It closes and opens while it is full.
func TestC54_FullDiskHeals(t *testing.T) {
	disk := crashfs.New()
	disk.SetCapacity(2 << 20)
	o := Options{FS: disk, Partitions: 1, SegmentSize: 256 << 10, MaxBytes: -1}
	l := mustOpen(t, "/d", o)
	n := fill(t, l)
	disk.SetCapacity(disk.Used())
	if n < 500 {
		t.Fatalf("the disk was full after %d KiB of 2 MiB", n)
	}
	for range 20 {
		_, err := storage.AppendWait(t.Context(), l, "t", kib(n))
		if !errors.Is(err, storage.ErrReadOnly) || !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("append to a full disk: %v", err)
		}
	}
	if _, err := l.EnsureTopic(t.Context(), "other"); !errors.Is(err, storage.ErrReadOnly) {
		t.Errorf("a topic on a full disk: %v", err)
	}
	wantKib(t, l, n)
	disk.SetCapacity(4 << 20)
	for i := range 100 {
		if r := mustAppend(t, l, "t", kib(n+i)); r[0].Offset != int64(n+i) {
			t.Fatalf("after healing the offset is %d, want %d", r[0].Offset, n+i)
		}
	}
	n += 100 + fill2(t, l, n+100)
	if err := l.Close(); err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("close on a full disk: %v", err)
	}
	l = mustOpen(t, "/d", o)
	wantKib(t, l, n)
	disk.SetCapacity(8 << 20)
	mustAppend(t, l, "t", kib(n))
	o.FS = disk.PowerLoss()
	wantKib(t, mustOpen(t, "/d", o), n+1)
}

// kib is the event number i, of 1 KiB.
func kib(i int) []storage.Event {
	return []storage.Event{{Frame: fmt.Appendf(nil, "%-1024d", i)}}
}

func fill(t *testing.T, l *Log) int { return fill2(t, l, 0) }

// fill2 appends until the disk is full and returns how many it took.
func fill2(t *testing.T, l *Log, from int) int {
	t.Helper()
	for i := from; ; i++ {
		r, err := storage.AppendWait(t.Context(), l, "t", kib(i))
		if err != nil {
			if !errors.Is(err, storage.ErrReadOnly) {
				t.Fatal(err)
			}
			return i - from
		}
		if r[0].Offset != int64(i) {
			t.Fatalf("event %d is at %d", i, r[0].Offset)
		}
	}
}

func wantKib(t *testing.T, l *Log, n int) {
	t.Helper()
	got := readAll(t, l, "t", "0", 0)
	if len(got) != n {
		t.Fatalf("%d records, want %d", len(got), n)
	}
	for i, r := range got {
		if r.Offset != int64(i) || !bytes.Equal(r.Frame, kib(i)[0].Frame) {
			t.Fatalf("record %d is %d %.10q", i, r.Offset, r.Frame)
		}
	}
}

// Of a commit whose sync failed nothing is there: not now, not behind later
// records, not after a restart; its events are no duplicates when they are
// sent again; and offsets go on as if it had not been.
func TestFailedSyncLeavesNothing(t *testing.T) {
	for _, kind := range []string{"sync", "write"} {
		disk := crashfs.New()
		l := mustOpen(t, "/d", Options{FS: disk, Partitions: 1})
		mustAppend(t, l, "t", []storage.Event{{Frame: []byte("a")}})
		disk.SetHook(failing(kind))
		evs := []storage.Event{{Frame: []byte("b"), DedupKey: "b"}, {Frame: []byte("c"), DedupKey: "c"}}
		if _, err := storage.AppendWait(t.Context(), l, "t", evs); !errors.Is(err, storage.ErrReadOnly) || !errors.Is(err, crashfs.ErrInjected) {
			t.Fatalf("%s fails: %v", kind, err)
		}
		wantFrames(t, readAll(t, l, "t", "0", 0), 0, "a")
		disk.SetHook(nil)
		wantFrames(t, readAll(t, mustOpen(t, "/d", Options{FS: disk.Kill()}), "t", "0", 0), 0, "a")
		r := mustAppend(t, l, "t", []storage.Event{{Frame: []byte("d")}, evs[1]})
		if r[0].Offset != 1 || r[1].Offset != 2 || r[1].Duplicate {
			t.Fatalf("after healing: %+v", r)
		}
		for _, d := range []*crashfs.FS{disk.Kill(), disk.PowerLoss()} {
			wantFrames(t, readAll(t, mustOpen(t, "/d", Options{FS: d}), "t", "0", 0), 0, "a", "d", "c")
		}
	}
}

// The guard of the whole data directory is asked before each write.
func TestWritableGuard(t *testing.T) {
	var full atomic.Bool
	guard := errors.New("2 MiB free in /d, 10 MiB are kept")
	var failed atomic.Int64
	l := mustOpen(t, t.TempDir(), Options{
		Partitions: 1,
		Writable: func() error {
			if full.Load() {
				return guard
			}
			return nil
		},
		Observe: Observe{CommitFailed: func(error) { failed.Add(1) }},
	})
	mustAppend(t, l, "t", events("", 0, 1))
	full.Store(true)
	_, err := storage.AppendWait(t.Context(), l, "t", events("", 1, 1))
	if !errors.Is(err, storage.ErrReadOnly) || !errors.Is(err, guard) || failed.Load() != 1 {
		t.Errorf("append: %v, %d counted", err, failed.Load())
	}
	if _, err := l.EnsureTopic(t.Context(), "u"); !errors.Is(err, storage.ErrReadOnly) || !errors.Is(err, guard) {
		t.Errorf("new topic: %v", err)
	}
	full.Store(false)
	if r := mustAppend(t, l, "t", events("", 1, 1)); r[0].Offset != 1 {
		t.Errorf("after healing: %+v", r)
	}
}

// A topic is durable before its first record is.
func TestTopicIsDurableBeforeRecords(t *testing.T) {
	disk := crashfs.New()
	l := mustOpen(t, "/d", Options{FS: disk, Partitions: 1})
	for i := range 20 {
		topic := fmt.Sprint("t", i)
		mustAppend(t, l, topic, events("k", 0, 3))
		after := mustOpen(t, "/d", Options{FS: disk.PowerLoss()})
		wantFrames(t, readAll(t, after, topic, "0", 0), 0, names("k", 0, 3)...)
	}
}

// While it is open whether a deletion is on disk, nothing is confirmed that
// would go with the topic.
func TestNothingIsConfirmedWhileTopicsAreUnsaved(t *testing.T) {
	disk := crashfs.New()
	l := mustOpen(t, "/d", Options{FS: disk, Partitions: 1, RetentionInterval: -1})
	mustAppend(t, l, "t", events("k", 0, 1))
	disk.SetHook(failing("syncdir"))
	if err := l.DeleteTopic(t.Context(), "t"); !errors.Is(err, crashfs.ErrInjected) {
		t.Fatalf("delete: %v", err)
	}
	if _, err := storage.AppendWait(t.Context(), l, "t", events("k", 1, 1)); !errors.Is(err, storage.ErrReadOnly) || !strings.Contains(err.Error(), "topics") {
		t.Errorf("append while the deletion is open: %v", err)
	}
	disk.SetHook(nil)
	l.retryTopics()
	mustAppend(t, l, "t", events("k", 1, 1))
	wantFrames(t, readAll(t, mustOpen(t, "/d", Options{FS: disk.PowerLoss()}), "t", "0", 0), 0, "k-0", "k-1")
}

// powerLoss runs writers, cuts the power at a moment, and returns which
// confirmed records are missing.
func powerLoss(t *testing.T, o Options, crash func(*crashfs.FS) *crashfs.FS) (missing int) {
	t.Helper()
	disk := crashfs.New()
	o.FS, o.Logger = disk, quiet
	l, err := Open("/d", o)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	confirmed := map[string]string{} // place → frame
	cut := 50 + rand.IntN(300)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				topic, frame := fmt.Sprint("t", i%3), fmt.Sprintf("%d-%d", w, i)
				r, err := storage.AppendWait(t.Context(), l, topic, []storage.Event{{Key: fmt.Sprint(i % 7), Frame: []byte(frame)}})
				if err != nil {
					return // the power is gone
				}
				mu.Lock()
				confirmed[fmt.Sprint(topic, "/", r[0].Partition, "/", r[0].Offset)] = frame
				n := len(confirmed)
				mu.Unlock()
				if n == cut {
					disk.Halt()
				}
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil && !errors.Is(err, crashfs.ErrHalted) {
		t.Errorf("close without power: %v", err)
	}
	o.FS = crash(disk)
	after, err := Open("/d", o)
	if err != nil {
		t.Logf("open after the power loss: %v", err)
		return len(confirmed)
	}
	defer after.Close()
	for _, topic := range after.allTopics() {
		for _, p := range topic.parts {
			for _, r := range readAll(t, after, topic.name, p.name, 0) {
				place := fmt.Sprint(topic.name, "/", p.name, "/", r.Offset)
				if confirmed[place] == string(r.Frame) {
					delete(confirmed, place)
				}
			}
		}
	}
	return len(confirmed)
}

func TestPowerLoss(t *testing.T) {
	for i := range 20 {
		crash := (*crashfs.FS).PowerLoss
		if i%2 == 1 {
			crash = func(f *crashfs.FS) *crashfs.FS { return f.Torn(rand.IntN) }
		}
		// What is noted of the log's end is never ahead of it.
		if n := powerLoss(t, Options{SegmentSize: 4 << 10, CheckpointInterval: time.Duration(i%3) * time.Millisecond}, crash); n > 0 {
			t.Fatalf("power loss %d: %d confirmed records are missing", i, n)
		}
	}
}

// Without syncs the same loses records: the test above can fail.
func TestPowerLossWithoutSync(t *testing.T) {
	if n := powerLoss(t, Options{SegmentSize: 4 << 10, NoSync: true}, (*crashfs.FS).PowerLoss); n == 0 {
		t.Error("nothing is missing after a power loss without syncs")
	}
}

// Without syncs a killed process loses nothing.
func TestKillWithoutSync(t *testing.T) {
	for range 5 {
		if n := powerLoss(t, Options{SegmentSize: 4 << 10, NoSync: true}, (*crashfs.FS).Kill); n > 0 {
			t.Errorf("%d confirmed records are missing after a kill", n)
		}
	}
}

// An index file is a help only: whatever it holds, the records are right.
func TestDamagedIndexIsRebuilt(t *testing.T) {
	disk := crashfs.New()
	var rebuilt atomic.Int64
	o := Options{FS: disk, Partitions: 2, SegmentSize: 2 << 10, Observe: Observe{IndexRebuilt: func(int64) { rebuilt.Add(1) }}}
	l := mustOpen(t, "/d", o)
	for i := range 60 {
		mustAppend(t, l, "t", events(fmt.Sprint(i%3), i, 4))
	}
	want := map[string][]storage.Record{}
	for _, p := range []string{"0", "1"} {
		want[p] = readAll(t, l, "t", p, 0)
	}
	mustClose(t, l)
	names, err := disk.List("/d/log")
	if err != nil {
		t.Fatal(err)
	}
	damages := map[string]func([]byte) []byte{
		"none":      func(b []byte) []byte { return b },
		"empty":     func([]byte) []byte { return nil },
		"truncated": func(b []byte) []byte { return b[:len(b)/2] },
		"zeroed":    func(b []byte) []byte { return make([]byte, len(b)) },
		"flipped":   func(b []byte) []byte { b[len(b)-3] ^= 1; return b },
	}
	for what, damage := range damages {
		damaged, n := disk.Kill(), int64(0)
		var donor string
		for _, name := range names {
			if !strings.HasSuffix(name, ".idx") {
				continue
			}
			n++
			if err := damaged.Corrupt("/d/log/"+name, damage); err != nil {
				t.Fatal(err)
			}
			donor = name
		}
		if n < 3 {
			t.Fatalf("only %d index files", n)
		}
		rebuilt.Store(0)
		o.FS = damaged
		checkAll(t, mustOpen(t, "/d", o), what, want)
		if got := rebuilt.Load(); got != n && what != "none" || got != 0 && what == "none" {
			t.Errorf("%s: %d of %d indexes were rebuilt", what, got, n)
		}
		// It was written again.
		rebuilt.Store(0)
		o.FS = damaged.Kill()
		checkAll(t, mustOpen(t, "/d", o), what+", second start", want)
		if got := rebuilt.Load(); got != 0 {
			t.Errorf("%s: %d indexes were rebuilt at the second start", what, got)
		}
		// The index of another segment is no index of this one.
		if err := damaged.Rename("/d/log/"+donor, "/d/log/"+names[0]); err != nil {
			t.Fatal(err)
		}
	}
}

func checkAll(t *testing.T, l *Log, what string, want map[string][]storage.Record) {
	t.Helper()
	for p, records := range want {
		got := readAll(t, l, "t", p, 0)
		if len(got) != len(records) {
			t.Fatalf("%s: partition %s has %d records, want %d", what, p, len(got), len(records))
		}
		for i := range got {
			if got[i].Offset != records[i].Offset || got[i].Time != records[i].Time || !bytes.Equal(got[i].Frame, records[i].Frame) {
				t.Fatalf("%s: partition %s record %d differs", what, p, i)
			}
		}
	}
}

// Damage in a record is told, not delivered; records before it are.
func TestDamagedRecordIsTold(t *testing.T) {
	disk := crashfs.New()
	o := Options{FS: disk, Partitions: 1, SegmentSize: 4 << 10}
	l := mustOpen(t, "/d", o)
	for i := range 20 {
		mustAppend(t, l, "t", kib(i))
	}
	mustClose(t, l)
	if err := disk.Corrupt("/d/log/000000000002.seg", func(b []byte) []byte { b[1200] ^= 1; return b }); err != nil {
		t.Fatal(err)
	}
	l = mustOpen(t, "/d", o)
	var b storage.Batch
	read := 0
	for {
		err := l.Poll(t.Context(), storage.PollRequest{Topic: "t", Partition: "0", Start: int64(read)}, &b)
		if err != nil {
			if !errors.Is(err, storage.ErrCorrupt) || !strings.Contains(err.Error(), "/d/log") || len(b.Records) != 0 {
				t.Fatalf("damaged record: %v, %d records", err, len(b.Records))
			}
			break
		}
		for _, r := range b.Records {
			if !bytes.Equal(r.Frame, kib(read)[0].Frame) {
				t.Fatalf("record %d is damaged", read)
			}
			read++
		}
		if len(b.Records) == 0 {
			t.Fatal("the damage was not found")
		}
	}
	if read < 3 || read > 6 {
		t.Errorf("%d records read before the damage", read)
	}
}

// A slow disk holds up nobody who reads, and appends wait for room no longer
// than their context.
func TestBackpressure(t *testing.T) {
	disk := crashfs.New()
	l := mustOpen(t, "/d", Options{FS: disk, Partitions: 1, QueueBytes: 10 << 10})
	mustAppend(t, l, "t", kib(0))
	stop := make(chan struct{})
	disk.SetHook(func(op crashfs.Op) error {
		if op.Kind == "sync" {
			<-stop
		}
		return nil
	})
	fates := make(chan error, 100)
	accepted := 0
	for ; ; accepted++ {
		ctx, cancel := contextFor(t, 20*time.Millisecond)
		err := l.Append(ctx, "t", kib(accepted+1), func(_ []storage.Appended, err error) { fates <- err })
		cancel()
		if err != nil {
			if !errors.Is(err, errDeadline) {
				t.Errorf("append without room: %v", err)
			}
			break
		}
	}
	if accepted < 5 || accepted > 12 {
		t.Errorf("%d KiB went into a queue of 10 KiB", accepted)
	}
	close(stop)
	for range accepted {
		if err := <-fates; err != nil {
			t.Error(err)
		}
	}
	disk.SetHook(nil)
	wantKib(t, l, accepted+1)
}

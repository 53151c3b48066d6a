package storagefault_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
	"github.com/ackmesh/ackmesh/storage/storagefault"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Without faults the wrapper keeps every promise of what it wraps.
func TestConformance(t *testing.T) {
	wrap := func(b *memory.Backend) storage.Backend { return storagefault.New(b) }
	inner := func(b storage.Backend) *memory.Backend {
		m, _ := storage.As[*memory.Backend](b)
		return m
	}
	storagetest.Run(t, storagetest.Harness{
		Has: storagetest.Capabilities{
			Bounder: true, TopicAdmin: true, Trimmer: true, Fingerprinter: true, Checkpointer: true, Liter: true,
			TopicID: true, AutoCreate: true, AnyName: true, DedupWindow: memory.DefaultDedupWindow,
		},
		Open:        func(storagetest.T) storage.Backend { return wrap(memory.New(memory.Options{})) },
		Reopen:      func(_ storagetest.T, b storage.Backend) storage.Backend { b.Close(); return wrap(inner(b).Reopen()) },
		CrashReopen: func(_ storagetest.T, b storage.Backend) storage.Backend { return wrap(inner(b).Crash()) },
	})
}

// bare is a log without any capability.
type bare struct{ storage.Backend }

func TestHasOnlyWhatIsWrapped(t *testing.T) {
	b := storagefault.New(bare{memory.New(memory.Options{})})
	defer b.Close()
	if _, ok := storage.As[storage.Bounder](b); ok {
		t.Error("Bounder is found")
	}
	if _, ok := storage.As[storage.TopicAdmin](b); ok {
		t.Error("TopicAdmin is found")
	}
	if _, ok := storage.As[storage.Acker](storagefault.New(memory.New(memory.Options{}))); ok {
		t.Error("Acker is found")
	}
}

var errDisk = errors.New("disk failed")

// open makes a log with one topic "t" of one partition and n records.
func open(t *testing.T, n int) *storagefault.Backend {
	t.Helper()
	b := storagefault.New(memory.New(memory.Options{Partitions: 1}))
	for range n {
		if _, err := put(t, b); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func put(t *testing.T, b storage.Backend) ([]storage.Appended, error) {
	t.Helper()
	return storage.AppendWait(t.Context(), b, "t", []storage.Event{{Frame: storagetest.Frame([]byte("x"))}})
}

func poll(ctx context.Context, b storage.Backend, start int64) (int, error) {
	var batch storage.Batch
	err := b.Poll(ctx, storage.PollRequest{Topic: "t", Partition: "0", Start: start}, &batch)
	return len(batch.Records), err
}

func TestNthAndTimes(t *testing.T) {
	b := open(t, 1)
	defer b.Close()
	fault := b.Inject(storagefault.Fault{Op: storagefault.Poll, Nth: 2, Times: 2, Err: errDisk})
	var failed []bool
	for range 5 {
		_, err := poll(t.Context(), b, 0)
		failed = append(failed, errors.Is(err, errDisk))
	}
	if want := []bool{false, true, true, false, false}; !slices.Equal(failed, want) {
		t.Errorf("failed %v, want %v", failed, want)
	}
	if fault.Calls() != 5 || fault.Hits() != 2 || b.Count(storagefault.Poll) != 5 {
		t.Errorf("%d calls, %d hits, %d polls", fault.Calls(), fault.Hits(), b.Count(storagefault.Poll))
	}
}

func TestChoosesByTopicPartitionAndMatch(t *testing.T) {
	b := open(t, 1)
	defer b.Close()
	for _, f := range []storagefault.Fault{
		{Topic: "other"},
		{Partition: "1"},
		{Match: func(c storagefault.Call) bool { return c.Start != 0 }},
	} {
		f.Op, f.Err = storagefault.Poll, errDisk
		fault := b.Inject(f)
		if _, err := poll(t.Context(), b, 0); err != nil || fault.Hits() != 0 {
			t.Errorf("a fault that does not fit: %v, %d hits", err, fault.Hits())
		}
	}
	if _, err := poll(t.Context(), b, 1); !errors.Is(err, errDisk) {
		t.Errorf("the fault that fits: %v", err)
	}
}

func TestRemove(t *testing.T) {
	b := open(t, 1)
	defer b.Close()
	one := b.Inject(storagefault.Fault{Op: storagefault.Append, Err: errDisk})
	two := b.Inject(storagefault.Fault{Op: storagefault.Append, Err: storage.ErrReadOnly})
	for _, want := range []error{errDisk, storage.ErrReadOnly, nil} {
		if _, err := put(t, b); !errors.Is(err, want) {
			t.Errorf("append: %v, want %v", err, want)
		}
		if errors.Is(want, errDisk) {
			one.Remove()
		} else {
			two.Remove()
		}
	}
}

// A refused append stores nothing; a report that tells an error comes of
// events that are stored.
func TestAppendAndDone(t *testing.T) {
	b := open(t, 0)
	defer b.Close()
	b.Inject(storagefault.Fault{Op: storagefault.Append, Times: 1, After: true, Err: errDisk})
	b.Inject(storagefault.Fault{Op: storagefault.Done, Topic: "t", Times: 1, Err: storage.ErrUnknown})
	var told []error
	for range 3 {
		_, err := put(t, b)
		told = append(told, err)
		n, _ := poll(t.Context(), b, 0)
		if n != max(0, len(told)-1) {
			t.Errorf("after append %d there are %d records", len(told), n)
		}
	}
	if !errors.Is(told[0], errDisk) || !errors.Is(told[1], storage.ErrUnknown) || told[2] != nil {
		t.Errorf("told %v", told)
	}
}

// Every way out of a hang.
func TestHang(t *testing.T) {
	for _, way := range []struct {
		name string
		end  func(i *storagefault.Injected, cancel func(), b *storagefault.Backend)
		want error
	}{
		{"release", func(i *storagefault.Injected, _ func(), _ *storagefault.Backend) { i.Release() }, nil},
		{"remove", func(i *storagefault.Injected, _ func(), _ *storagefault.Backend) { i.Remove() }, nil},
		{"context", func(_ *storagefault.Injected, cancel func(), _ *storagefault.Backend) { cancel() }, context.Canceled},
		{"close", func(_ *storagefault.Injected, _ func(), b *storagefault.Backend) { b.Close() }, storage.ErrClosed},
	} {
		t.Run(way.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := open(t, 1)
				defer b.Close()
				fault := b.Inject(storagefault.Fault{Op: storagefault.Poll, Hang: true})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan error, 1)
				go func() {
					_, err := poll(ctx, b, 0)
					ended <- err
				}()
				<-fault.Struck()
				synctest.Wait()
				select {
				case err := <-ended:
					t.Fatalf("it did not hang: %v", err)
				default:
				}
				way.end(fault, cancel, b)
				if err := <-ended; !errors.Is(err, way.want) {
					t.Errorf("ended with %v, want %v", err, way.want)
				}
			})
		})
	}
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, 1)
		defer b.Close()
		b.Inject(storagefault.Fault{Op: storagefault.Topic, Delay: 3 * time.Second, Err: errDisk})
		began := time.Now()
		if _, err := b.Topic(t.Context(), "t"); !errors.Is(err, errDisk) || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// A report that waits holds up neither the append nor other reports, and
// Close brings it out.
func TestDoneThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, 0)
		fault := b.Inject(storagefault.Fault{Op: storagefault.Done, Times: 1, Hang: true})
		reports := make(chan int, 2)
		for i := range 2 {
			err := b.Append(t.Context(), "t", []storage.Event{{}}, func([]storage.Appended, error) { reports <- i })
			if err != nil {
				t.Fatal(err)
			}
		}
		if first := <-reports; first != 1 || fault.Hits() != 1 {
			t.Errorf("report %d came first, %d hits", first, fault.Hits())
		}
		b.Close()
		if second := <-reports; second != 0 {
			t.Errorf("report %d came on Close", second)
		}
	})
}

// With After the effect is there and the caller does not learn of it.
func TestAfter(t *testing.T) {
	b := open(t, 2)
	defer b.Close()
	b.Inject(storagefault.Fault{Op: storagefault.Poll, Times: 1, After: true, Err: errDisk})
	if n, err := poll(t.Context(), b, storage.Cursor); n != 0 || !errors.Is(err, errDisk) {
		t.Errorf("%d records, %v", n, err)
	}
	if next, ok := b.Cursor("t", "0"); next != 2 || !ok {
		t.Errorf("Cursor %d, %v", next, ok)
	}
	b.Inject(storagefault.Fault{Op: storagefault.Cursor, Err: errDisk})
	if next, ok := b.Cursor("t", "0"); ok {
		t.Errorf("Cursor %d is known", next)
	}
}

func TestCapabilitiesFail(t *testing.T) {
	b := open(t, 3)
	defer b.Close()
	bounder, _ := storage.As[storage.Bounder](b)
	admin, _ := storage.As[storage.TopicAdmin](b)
	trimmer, _ := storage.As[storage.Trimmer](b)
	printer, _ := storage.As[storage.Fingerprinter](b)
	checkpointer, _ := storage.As[storage.Checkpointer](b)
	ctx := t.Context()
	for op, call := range map[storagefault.Op]func() error{
		storagefault.Bounds:       func() error { _, _, err := bounder.Bounds(ctx, "t", "0"); return err },
		storagefault.OffsetByTime: func() error { _, err := bounder.OffsetByTime(ctx, "t", "0", time.Now(), storage.Nearest); return err },
		storagefault.CreateTopic:  func() error { _, err := admin.CreateTopic(ctx, "u", storage.TopicConfig{}); return err },
		storagefault.DeleteTopic:  func() error { return admin.DeleteTopic(ctx, "u") },
		storagefault.Trim:         func() error { return trimmer.Trim(ctx, "t", "0", 1) },
		storagefault.Fingerprint:  func() error { _, _, err := printer.Fingerprint(ctx, "t", "0", 3); return err },
		storagefault.Checkpoint:   func() error { return checkpointer.Checkpoint(ctx) },
		storagefault.Seek:         func() error { return b.Seek(ctx, "t", "0", 1) },
		storagefault.EnsureTopic:  func() error { _, err := b.EnsureTopic(ctx, "t"); return err },
		storagefault.Topics:       func() error { _, err := b.Topics(ctx); return err },
	} {
		fault := b.Inject(storagefault.Fault{Op: op, Err: errDisk})
		if err := call(); !errors.Is(err, errDisk) || fault.Hits() != 1 {
			t.Errorf("%s: %v, %d hits", op, err, fault.Hits())
		}
		fault.Remove()
	}
	b.Inject(storagefault.Fault{Op: storagefault.Bounds, Bounds: func(low, high int64) (int64, int64) { return low, high - 1 }})
	if low, high, err := bounder.Bounds(ctx, "t", "0"); low != 0 || high != 2 || err != nil {
		t.Errorf("bounds %d..%d, %v", low, high, err)
	}
}

func TestCloseFails(t *testing.T) {
	b := open(t, 0)
	b.Inject(storagefault.Fault{Op: storagefault.Close, Err: errDisk})
	if err := b.Close(); !errors.Is(err, errDisk) {
		t.Errorf("Close: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := b.Topics(t.Context()); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("what is wrapped is open: %v", err)
	}
}

func TestHooks(t *testing.T) {
	b := open(t, 0)
	defer b.Close()
	var order []string
	b.SetHooks(storagefault.Hooks{
		BeforeAppend: func(string, []storage.Event) { order = append(order, "before append") },
		BeforeDone:   func(_ string, r []storage.Appended, err error) { order = append(order, "before done") },
		AfterDone:    func(_ string, r []storage.Appended, err error) { order = append(order, "after done") },
	})
	err := b.Append(t.Context(), "t", []storage.Event{{}}, func([]storage.Appended, error) { order = append(order, "done") })
	if want := []string{"before append", "before done", "done", "after done"}; err != nil || !slices.Equal(order, want) {
		t.Errorf("%q, %v", order, err)
	}
}

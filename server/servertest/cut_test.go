package servertest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackmesh/ackmesh/frame"
	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/offsetstore"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
	"github.com/ackmesh/ackmesh/storage/storagefault"
)

// cutting is an instance on a log that a test cuts, as a broker does whose new
// leader lacks the end.
type cutting struct {
	t   *testing.T
	log *memory.Backend
	o   Options
	in  *Instance
}

// onCut runs a test on one, in fake time.
func onCut(t *testing.T, o memory.Options, test func(t *testing.T, c *cutting)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Partitions = 1
		log := memory.New(o)
		t.Cleanup(func() { _ = log.Close() })
		c := &cutting{t: t, log: log, o: Options{Backend: log, Store: Store(t)}}
		c.in = Start(t, c.o)
		test(t, c)
	})
}

// epochs is a log that tells of a new leader, noEpochs one that does not.
var epochs, noEpochs = memory.Options{LeaderEpochs: true}, memory.Options{}

func (c *cutting) open() *Stream {
	c.t.Helper()
	return OpenFrom(c.t, c.in.Mesh(), "c", "t", Earliest())
}

// acked publishes n events and acks those at the offsets that ack chooses.
func (c *cutting) acked(n int, ack func(offset int64) bool) *Stream {
	c.t.Helper()
	s := c.open()
	Publish(c.t, c.in.Mesh(), "t", Numbers(n)...)
	s.AckDurable(slices.DeleteFunc(s.Take(n), func(g Got) bool { return !ack(g.Offset) })...)
	return s
}

// cut cuts the log to an offset.
func (c *cutting) cut(to int64) {
	c.t.Helper()
	if err := c.log.Truncate("t", "0", to); err != nil {
		c.t.Fatal(err)
	}
}

// stopped does something while no instance runs.
func (c *cutting) stopped(do func()) {
	c.t.Helper()
	c.in.Stop()
	do()
	c.in = Start(c.t, c.o)
}

// regrow cuts the log to an offset and lets it grow to another, at once.
func (c *cutting) regrow(to, until int64) {
	c.t.Helper()
	c.cut(to)
	var events []storage.Event
	for off := to; off < until; off++ {
		events = append(events, storage.Event{Frame: dataFrame(c.t, fmt.Sprint("new", off))})
	}
	if _, err := storage.AppendWait(context.Background(), c.log, "t", events); err != nil {
		c.t.Fatal(err)
	}
}

// dataFrame is an event with these data.
func dataFrame(t *testing.T, data string) []byte {
	t.Helper()
	raw, err := frame.Append(nil, &frame.Frame{Type: frame.Event, Data: []byte(data)})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// wantFrom wants every record from an offset on, as the log has it now: up to
// cut what was there before.
func (c *cutting) wantFrom(s *Stream, first, cut, until int64) {
	c.t.Helper()
	got := s.Take(int(until - first))
	for i, g := range got {
		off := first + int64(i)
		want := fmt.Sprint("m", off)
		if off >= cut {
			want = fmt.Sprint("new", off)
		}
		if g.Offset != off || g.Data() != want {
			c.t.Fatalf("delivery %d is %s, not %q at %d", i, Show([]Got{g}), want, off)
		}
	}
	s.AckDurable(got...)
	s.Quiet(time.Hour)
	if p := position(c.t, c.in, "t", "client/c"); p.GetPosition() != until {
		c.t.Errorf("the position is %d, not %d", p.GetPosition(), until)
	}
}

// corrected wants that the stream was told once, and that it was counted.
func (c *cutting) corrected(s *Stream, from, to int64) {
	c.t.Helper()
	n := s.Notice(pb.Notice_KIND_POSITION_CORRECTED)
	want := fmt.Sprintf("from %d to %d", from, to)
	if p := n.GetPositions(); len(p) != 1 || p[0].GetNextOffset() != to || p[0].GetEpoch() == 0 || !strings.Contains(n.GetDetail(), want) {
		c.t.Errorf("the notice %q has %v, not %s in a new epoch", n.GetDetail(), p, want)
	}
	c.count(1)
}

func (c *cutting) count(want float64) {
	c.t.Helper()
	if n := metrics(c.t, c.in)["position_corrected_total"]; n != want {
		c.t.Errorf("%v corrections are counted, not %v", n, want)
	}
}

func all(int64) bool { return true }

// TestCut_GrownUnderReader: a log is cut below the position and has grown past
// it when the next read sees it: a record tells of a new leader, and the one
// before the position is another. All of the log is delivered again.
func TestCut_GrownUnderReader(t *testing.T) {
	onCut(t, epochs, func(t *testing.T, c *cutting) {
		s := c.acked(100, all)
		c.regrow(60, 140)
		c.corrected(s, 100, 0)
		c.wantFrom(s, 0, 60, 140)
	})
}

// TestCut_AbovePosition: what was cut lies above the position, among records
// that were acked out of order and that are in flight: delivery goes on at the
// position, in a new epoch, and none of the new records is taken for one that
// was acked.
func TestCut_AbovePosition(t *testing.T) {
	onCut(t, epochs, func(t *testing.T, c *cutting) {
		s := c.acked(100, func(off int64) bool { return off < 50 || off >= 55 && off < 95 })
		c.regrow(80, 150)
		c.corrected(s, 50, 50)
		c.wantFrom(s, 50, 80, 150)
	})
}

// TestCut_OthersGoOn: of two subscribers one is below the cut: it goes on as if
// nothing had happened, and gets the new records.
func TestCut_OthersGoOn(t *testing.T) {
	onCut(t, epochs, func(t *testing.T, c *cutting) {
		slowSub := Sub("t", broadcast)
		slowSub.Start = Earliest()
		o := open("slow", slowSub)
		o.MaxInFlight = ptr(int32(10))
		slow := Open(t, c.in.Mesh(), o)
		c.acked(100, all)
		first := slow.Take(10)
		c.regrow(60, 140)
		synctest.Wait()
		slow.AckDurable(first...)
		for off := int64(10); off < 140; {
			for _, g := range slow.Take(1) {
				if want := fmt.Sprint(map[bool]string{true: "new", false: "m"}[off >= 60], off); g.Offset != off || g.Data() != want {
					t.Fatalf("came %s, not %s", Show([]Got{g}), want)
				}
				slow.AckDurable(g)
				off++
			}
		}
		c.count(1) // that of c
	})
}

// TestCut_WhileStopped: a log that tells of no leaders was cut, and has grown
// past the position, while no instance ran.
func TestCut_WhileStopped(t *testing.T) {
	onCut(t, noEpochs, func(t *testing.T, c *cutting) {
		c.acked(100, all)
		c.stopped(func() { c.regrow(60, 140) })
		s := c.open()
		c.corrected(s, 100, 0)
		c.wantFrom(s, 0, 60, 140)
	})
}

// TestCut_AbovePositionWhileStopped: the same above the position.
func TestCut_AbovePositionWhileStopped(t *testing.T) {
	onCut(t, noEpochs, func(t *testing.T, c *cutting) {
		c.acked(100, func(off int64) bool { return off < 50 || off >= 55 && off < 95 })
		c.stopped(func() { c.regrow(80, 150) })
		s := c.open()
		c.corrected(s, 50, 50)
		c.wantFrom(s, 50, 80, 150)
	})
}

// TestCut_BeforeFirstDelivery: a subscriber that begins behind the last record
// and has got nothing yet.
func TestCut_BeforeFirstDelivery(t *testing.T) {
	onCut(t, noEpochs, func(t *testing.T, c *cutting) {
		Publish(t, c.in.Mesh(), "t", Numbers(100)...)
		Open(t, c.in.Mesh(), open("c", Sub("t", broadcast))).Break()
		c.stopped(func() { c.regrow(60, 140) })
		s := c.open()
		c.corrected(s, 100, 0)
		c.wantFrom(s, 0, 60, 140)
	})
}

// inject puts a fault into force for reads too that are under way: it ends them
// by the event m100, which is acked.
func (c *cutting) inject(s *Stream, log *storagefault.Backend, faults ...storagefault.Fault) []*storagefault.Injected {
	c.t.Helper()
	synctest.Wait() // the next read is under way
	var in []*storagefault.Injected
	for _, f := range faults {
		in = append(in, log.Inject(f))
	}
	Publish(c.t, c.in.Mesh(), "t", "m100")
	s.AckDurable(s.Take(1)...)
	return in
}

// onFaulty starts again, on a log that faults can be put into.
func (c *cutting) onFaulty() *storagefault.Backend {
	c.t.Helper()
	faulty := storagefault.New(c.log)
	c.stopped(func() { c.o.Backend = faulty })
	return faulty
}

// TestCut_BeforeFirstRead: the same under a reader that has read nothing yet: the
// leader epoch of the record before its start is known.
func TestCut_BeforeFirstRead(t *testing.T) {
	onCut(t, epochs, func(t *testing.T, c *cutting) {
		Publish(t, c.in.Mesh(), "t", Numbers(100)...)
		s := Open(t, c.in.Mesh(), open("c", Sub("t", broadcast)))
		synctest.Wait()
		c.regrow(60, 140)
		c.corrected(s, 100, 0)
		c.wantFrom(s, 0, 60, 140)
	})
}

// TestCut_WhileUnreachable: a log that tells of no leaders is cut while it
// cannot be read.
func TestCut_WhileUnreachable(t *testing.T) {
	onCut(t, noEpochs, func(t *testing.T, c *cutting) {
		faulty := c.onFaulty()
		s := c.acked(100, all)
		down := c.inject(s, faulty, storagefault.Fault{Op: storagefault.Poll, Err: storage.ErrUnavailable})[0]
		<-time.After(5 * time.Second)
		c.regrow(60, 140)
		<-time.After(5 * time.Second)
		s.Quiet(0)
		down.Remove()
		c.corrected(s, 101, 0)
		c.wantFrom(s, 0, 60, 140)
	})
}

// TestCut_GrowsWhileInDoubt: the log ends below the position; it grows past it
// before that is believed, with other records.
func TestCut_GrowsWhileInDoubt(t *testing.T) {
	onCut(t, noEpochs, func(t *testing.T, c *cutting) {
		s := c.acked(100, all)
		c.cut(60)
		<-time.After(20 * time.Second)
		s.Quiet(0)
		c.count(0)
		c.regrow(60, 140)
		c.corrected(s, 100, 0)
		c.wantFrom(s, 0, 60, 140)
	})
}

// TestCut_StaysShort: an end that stays below the position for 30 s is believed.
func TestCut_StaysShort(t *testing.T) {
	onCut(t, noEpochs, func(t *testing.T, c *cutting) {
		s := c.acked(100, all)
		c.cut(60)
		<-time.After(29 * time.Second)
		c.count(0)
		<-time.After(2 * time.Second)
		c.corrected(s, 100, 60)
		c.regrow(60, 140)
		c.wantFrom(s, 60, 60, 140)
	})
}

// TestC17_EndComesBack: the end is below the position for 3 s, as after a change
// of leader that hides it: nothing is delivered again, nothing is corrected.
func TestC17_EndComesBack(t *testing.T) {
	onCut(t, epochs, func(t *testing.T, c *cutting) {
		faulty := c.onFaulty()
		s := c.acked(100, all)
		hidden := c.inject(s, faulty, storagefault.Fault{
			Op: storagefault.Poll, Err: &storage.RangeError{Topic: "t", Partition: "0", Offset: 101, Min: 0, Max: 99},
		})[0]
		Publish(t, c.in.Mesh(), "t", "m101")
		s.Quiet(3 * time.Second)
		hidden.Remove()
		c.wantFrom(s, 101, 200, 102)
		c.count(0)
	})
}

// TestMaximumUnknown: for 60 s the log does not know its end, which is how a
// backend reports a broker that answers 0. Nothing moves, and then delivery goes
// on.
func TestMaximumUnknown(t *testing.T) {
	onCut(t, noEpochs, func(t *testing.T, c *cutting) {
		faulty := c.onFaulty()
		s := c.acked(100, all)
		var faults []storagefault.Fault
		for _, op := range []storagefault.Op{storagefault.Poll, storagefault.Bounds, storagefault.Fingerprint} {
			faults = append(faults, storagefault.Fault{Op: op, Err: storage.ErrUnknown})
		}
		down := c.inject(s, faulty, faults...)
		Publish(t, c.in.Mesh(), "t", "m101")
		s.Quiet(time.Minute)
		c.count(0)
		key := offsetstore.Key{Topic: "t", Subscriber: offsetstore.Subscriber{Kind: offsetstore.KindClient, Name: "c"}, Partition: "0"}
		if v, ok, err := c.o.Store.Get(key); err != nil || !ok || v.Position != 101 || v.Epoch != 0 {
			t.Errorf("the position is %d in epoch %d: %v, %v", v.Position, v.Epoch, ok, err)
		}
		for _, d := range down {
			d.Remove()
		}
		c.wantFrom(s, 101, 200, 102)
		c.count(0)
	})
}

// TestProofIsAwaited: while the log does not answer what it has before the
// position, nothing is delivered; then it goes on.
func TestProofIsAwaited(t *testing.T) {
	onCut(t, noEpochs, func(t *testing.T, c *cutting) {
		c.acked(100, all)
		faulty := storagefault.New(c.log)
		down := faulty.Inject(storagefault.Fault{Op: storagefault.Fingerprint, Err: storage.ErrUnknown})
		c.stopped(func() { c.o.Backend = faulty })
		Publish(t, c.in.Mesh(), "t", "m100")
		s := c.open()
		s.Quiet(time.Minute)
		down.Remove()
		c.wantFrom(s, 100, 200, 101)
		c.count(0)
	})
}

// TestProof_RecordIsGone: that the record before the position is not there any
// more says nothing: retention and compaction remove records.
func TestProof_RecordIsGone(t *testing.T) {
	onCut(t, noEpochs, func(t *testing.T, c *cutting) {
		c.acked(100, all)
		c.stopped(func() {
			if err := c.log.Trim(context.Background(), "t", "0", 100); err != nil {
				t.Fatal(err)
			}
		})
		Publish(t, c.in.Mesh(), "t", "m100")
		c.wantFrom(c.open(), 100, 200, 101)
		c.count(0)
	})
}

// nameless is a log whose topics have no identity.
type nameless struct{ storage.Backend }

func (b nameless) Unwrap() storage.Backend { return b.Backend }

func (b nameless) Topic(ctx context.Context, topic string) (storage.Topic, error) {
	t, err := b.Backend.Topic(ctx, topic)
	t.ID = ""
	return t, err
}

func (b nameless) EnsureTopic(ctx context.Context, topic string) (storage.Topic, error) {
	t, err := b.Backend.EnsureTopic(ctx, topic)
	t.ID = ""
	return t, err
}

// TestRecreatedWithoutIdentity: a topic without an identity is deleted and made
// again, and has grown past the position, under a reader and while none runs.
func TestRecreatedWithoutIdentity(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		t.Run(fmt.Sprint("stopped ", stopped), func(t *testing.T) {
			onCut(t, noEpochs, func(t *testing.T, c *cutting) {
				c.stopped(func() { c.o.Backend = nameless{c.log} })
				s := c.acked(100, all)
				if stopped {
					c.in.Stop()
				}
				if err := c.log.DeleteTopic(context.Background(), "t"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // a reader sees that it is gone
				if _, err := c.log.CreateTopic(context.Background(), "t", storage.TopicConfig{Partitions: 1}); err != nil && !errors.Is(err, storage.ErrTopicExists) {
					t.Fatal(err)
				}
				c.regrow(0, 140)
				if stopped {
					c.in = Start(t, c.o)
					s = c.open()
				}
				c.corrected(s, 100, 0)
				c.wantFrom(s, 0, 0, 140)
			})
		})
	}
}

// TestC23_RecreatedWhileStopped: the same with an identity, while no instance
// runs: who comes next is told, with where it begins.
func TestC23_RecreatedWhileStopped(t *testing.T) {
	onCut(t, noEpochs, func(t *testing.T, c *cutting) {
		c.acked(100, all)
		c.in.Stop()
		if err := c.log.DeleteTopic(context.Background(), "t"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.log.CreateTopic(context.Background(), "t", storage.TopicConfig{Partitions: 1}); err != nil {
			t.Fatal(err)
		}
		c.regrow(0, 140)
		c.in = Start(t, c.o)
		s := c.open()
		n := s.Notice(pb.Notice_KIND_POSITION_CORRECTED)
		if p := n.GetPositions(); len(p) != 1 || p[0].GetNextOffset() != 0 || p[0].GetEpoch() != 1 || !strings.Contains(n.GetDetail(), "created again") {
			t.Errorf("the notice is %v", n)
		}
		c.count(1)
		c.wantFrom(s, 0, 0, 140)
	})
}

package servertest_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ackmesh/ackmesh/frame"
	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/offsetstore"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
)

// rebuild rebuilds the ledger of a topic.
func rebuild(t *testing.T, in *Instance, topic string) (found, added int64) {
	t.Helper()
	res, err := in.Admin().RebuildDeadLetters(context.Background(), &pb.RebuildDeadLettersRequest{Topic: topic})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetFound(), res.GetAdded()
}

// readAll reads all that a topic holds.
func readAll(t *testing.T, log storage.Backend, topic string) (all []frame.View) {
	t.Helper()
	info, err := log.Topic(context.Background(), topic)
	if err != nil {
		t.Fatal(err)
	}
	bounder, ok := storage.As[storage.Bounder](log)
	if !ok {
		t.Fatal("the log has no bounds")
	}
	for _, partition := range info.Partitions {
		low, high, err := bounder.Bounds(context.Background(), topic, partition)
		if err != nil {
			t.Fatal(err)
		}
		for low < high {
			var b storage.Batch
			if err := log.Poll(context.Background(), storage.PollRequest{Topic: topic, Partition: partition, Start: low}, &b); err != nil {
				t.Fatal(err)
			}
			for _, rec := range b.Records {
				all = append(all, frame.View(rec.Frame))
			}
			low = b.Next
		}
	}
	return all
}

// loseLedger removes all entries of the ledger, as if they had never been kept.
func loseLedger(t *testing.T, store offsetstore.Store) {
	t.Helper()
	txn := &offsetstore.Txn{}
	err := store.ScanRecords("deadletters", "", "", func(key string, _ []byte) bool {
		txn.Unsets = append(txn.Unsets, offsetstore.Record{Space: "deadletters", Key: key})
		return true
	})
	if err == nil {
		err = offsetstore.Commit(context.Background(), store, txn)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// wantLetters compares dead letters, but for when they died.
func wantLetters(t *testing.T, got, want []*pb.DeadLetter) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d dead letters, want %d", len(got), len(want))
	}
	byID := map[string]*pb.DeadLetter{}
	for _, l := range want {
		byID[l.GetId()] = l
	}
	for _, l := range got {
		other := byID[l.GetId()]
		if other == nil {
			t.Fatalf("letter %s twice, or nobody's", l.GetId())
		}
		delete(byID, l.GetId())
		a, b := proto.CloneOf(l), proto.CloneOf(other)
		a.Time, b.Time = nil, nil
		if !proto.Equal(a, b) {
			t.Errorf("letter %v, want %v", a, b)
		}
	}
}

// TestLedgerRebuilt: out of the topic of dead letters comes the same ledger on a
// new data directory, whatever else is in the topic.
func TestLedgerRebuilt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Lasting(t)
		in := Start(t, o)
		a, b := Open(t, in.Mesh(), open("a", Sub("t", broadcast))), Open(t, in.Mesh(), open("b#/:", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", Numbers(40)...)
		dead(a, a.Take(40)[10:]...)
		dead(b, b.Take(40)[35:]...)
		want := untilLetters(t, in, "t", 35)
		Publish(t, in.Mesh(), "t_DLQ", "no letter", "neither")
		in.Stop()

		o.Store = Store(t)
		in = Start(t, o)
		if n := len(letters(t, in, "t")); n != 0 {
			t.Fatalf("%d dead letters on a new data directory", n)
		}
		if found, added := rebuild(t, in, "t"); found != 35 || added != 35 {
			t.Fatalf("found %d, added %d", found, added)
		}
		wantLetters(t, letters(t, in, "t"), want)
		if found, added := rebuild(t, in, "t"); found != 35 || added != 0 {
			t.Fatalf("again: found %d, added %d", found, added)
		}
		a = OpenFrom(t, in.Mesh(), "a", "t", &pb.Start{Place: &pb.Start_At_{At: pb.Start_AT_LATEST}})
		its := want[slices.IndexFunc(want, func(l *pb.DeadLetter) bool { return l.GetSubscriber() == "client/a" })]
		replay(t, in, its.GetId())
		if got := a.Take(1); got[0].Data() != string(its.GetFrame().GetData()) {
			t.Errorf("replayed as %s", Show(got))
		}
	})
}

// TestGoneStaysGone: what was replayed or purged does not come back into a ledger
// that is rebuilt; it does when the topic of dead letters was made anew.
func TestGoneStaysGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Lasting(t)
		in := Start(t, o)
		admin, ctx := in.Admin(), context.Background()
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		die := func(n int) (list []*pb.DeadLetter) {
			Publish(t, in.Mesh(), "t", Numbers(n)...)
			dead(s, s.Take(n)...)
			return untilLetters(t, in, "t", n)
		}
		ids := func(list []*pb.DeadLetter) (out []string) {
			for _, l := range list {
				out = append(out, l.GetId())
			}
			return out
		}
		list := die(10)
		if res, err := admin.PurgeDeadLetters(ctx, &pb.PurgeDeadLettersRequest{Topic: "t", Ids: ids(list[:3])}); err != nil || res.GetPurged() != 3 {
			t.Fatal(res, err)
		}
		if res, err := admin.ReplayDeadLetters(ctx, &pb.ReplayDeadLettersRequest{Topic: "t", Ids: ids(list[5:7])}); err != nil || res.GetReplayed() != 2 {
			t.Fatal(res, err)
		}
		s.AckDurable(s.Take(2)...)
		want := slices.Concat(list[3:5], list[7:])
		wantLetters(t, letters(t, in, "t"), want)
		if found, added := rebuild(t, in, "t"); found != 10 || added != 0 {
			t.Errorf("with the ledger: found %d, added %d", found, added)
		}
		loseLedger(t, o.Store)
		if found, added := rebuild(t, in, "t"); found != 10 || added != 5 {
			t.Errorf("without: found %d, added %d", found, added)
		}
		wantLetters(t, letters(t, in, "t"), want)

		if _, err := admin.PurgeDeadLetters(ctx, &pb.PurgeDeadLettersRequest{Topic: "t"}); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.DeleteTopic(ctx, &pb.DeleteTopicRequest{Topic: "t_DLQ"}); err != nil {
			t.Fatal(err)
		}
		want = die(4)
		loseLedger(t, o.Store)
		if found, added := rebuild(t, in, "t"); found != 4 || added != 4 {
			t.Errorf("after the topic was made anew: found %d, added %d", found, added)
		}
		wantLetters(t, letters(t, in, "t"), want)
	})
}

// TestRebuildAmidDeaths: a rebuild while records die makes no entry twice and
// misses none.
func TestRebuildAmidDeaths(t *testing.T) {
	in := Start(t, Lasting(t))
	s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
	const n = 300
	Publish(t, in.Mesh(), "t", Numbers(n)...)
	got := s.Take(n)
	stop, stopped := make(chan struct{}), make(chan struct{})
	admin := in.Admin()
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := admin.RebuildDeadLetters(context.Background(), &pb.RebuildDeadLettersRequest{Topic: "t"}); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for part := range slices.Chunk(got, 10) {
		dead(s, part...)
	}
	Eventually(t, Patience, func() error {
		if p := position(t, in, "t", "client/c"); p.GetPosition() != n {
			return fmt.Errorf("floor at %d", p.GetPosition())
		}
		return nil
	})
	close(stop)
	<-stopped
	seen := map[string]bool{}
	list := allLetters(t, in, "t")
	for _, l := range list {
		if seen[l.GetId()] {
			t.Errorf("letter %s of offset %d twice", l.GetId(), l.GetOffset())
		}
		seen[l.GetId()] = true
	}
	if len(list) != n {
		t.Errorf("%d letters, want %d", len(list), n)
	}
}

// TestRebuildRefused: what cannot be rebuilt is refused with the reason.
func TestRebuildRefused(t *testing.T) {
	in := Start(t, Options{})
	for topic, code := range map[string]codes.Code{"never was": codes.NotFound, "t_DLQ": codes.InvalidArgument, "": codes.InvalidArgument} {
		_, err := in.Admin().RebuildDeadLetters(context.Background(), &pb.RebuildDeadLettersRequest{Topic: topic})
		if status.Code(err) != code {
			t.Errorf("topic %q: %v, want %v", topic, err, code)
		}
	}
}

// intruded is a store with something that happens when the ledger is about to be
// read.
type intruded struct {
	offsetstore.Store
	intrude atomic.Pointer[func()]
}

func (s *intruded) ScanRecords(space, prefix, after string, fn func(string, []byte) bool) error {
	if space == "deadletters" {
		if do := s.intrude.Swap(nil); do != nil {
			go (*do)()
			<-time.After(time.Second)
		}
	}
	return s.Store.ScanRecords(space, prefix, after, fn)
}

// TestRebuildAmidAPurge: what is purged while a rebuild looks at what is gone and
// what is there does not come back.
func TestRebuildAmidAPurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Lasting(t)
		store := &intruded{Store: o.Store}
		o.Store = store
		in := Start(t, o)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		dies(t, in, s, "x")
		untilLetters(t, in, "t", 1)
		admin, purged := in.Admin(), make(chan struct{})
		purge := func() {
			defer close(purged)
			if res, err := admin.PurgeDeadLetters(context.Background(), &pb.PurgeDeadLettersRequest{Topic: "t"}); err != nil || res.GetPurged() != 1 {
				t.Error(res, err)
			}
		}
		store.intrude.Store(&purge)
		rebuild(t, in, "t")
		<-purged
		wantEvents(t, letters(t, in, "t"))
	})
}

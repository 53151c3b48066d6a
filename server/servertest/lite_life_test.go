package servertest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
	"github.com/ackmesh/ackmesh/storage/storagefault"
)

// containsAll tells whether text has all parts.
func containsAll(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(text, p) })
}

// TestLite_DeadLetter: what fails for good goes to the parent's dead letters, with
// the lite topic as its partition, and a replay goes to that lite topic, for the
// client that failed alone.
func TestLite_DeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{})
		fillLites(t, in.Lite(), 1, 2)
		s := OpenLite(t, in.Lite(), openLite("c", liteName(0)))
		other := OpenLite(t, in.Lite(), openLite("other", liteName(0)))
		other.AckDurable(other.Take(2)...)
		got := s.Take(2)
		s.AckDurable(got[1])
		for g := got[0]; ; g = s.Take(1)[0] {
			s.Nack(g)
			if g.Attempt == 6 {
				break
			}
		}
		letters := lettersOf(t, in, "chat_DLQ")
		attr := letters.Take(1)[0].Frame.GetAttributes()
		for name, want := range map[string]string{
			"emdlqtopic": "chat", "emdlqpartition": liteName(0), "emdlqoffset": "0", "emdlqsubscriber": "client/c", "emdlqattempts": "6",
		} {
			if attr[name] != want {
				t.Errorf("the dead letter has %s=%q, want %q", name, attr[name], want)
			}
		}
		admin, ctx := in.Admin(), context.Background()
		if list := untilLetters(t, in, "chat", 1); list[0].GetFrame() == nil {
			t.Fatal(list)
		}
		if n, err := admin.ReplayDeadLetters(ctx, &pb.ReplayDeadLettersRequest{Topic: "chat"}); err != nil || n.GetReplayed() != 1 {
			t.Fatal(n, err)
		}
		again := s.Take(1)
		if again[0].Partition != liteName(0) || again[0].Offset != 2 || again[0].Attempt != 1 || again[0].Data() != got[0].Data() {
			t.Errorf("the replay came as %s", Show(again))
		}
		s.AckDurable(again...)
		other.Quiet(time.Minute)
	})
}

// lettersOf subscribes to a topic of dead letters.
func lettersOf(t *testing.T, in *Instance, topic string) *Stream {
	return OpenFrom(t, in.Mesh(), "letters", topic, Earliest())
}

// TestLite_Timeout: an event that is not answered comes again; extending puts
// that off.
func TestLite_Timeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{})
		fillLites(t, in.Lite(), 1, 1)
		s := OpenLite(t, in.Lite(), openLite("c", liteName(0)))
		got := s.Take(1)
		for range 3 {
			s.Quiet(20 * time.Second)
			s.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Extend{Extend: &pb.Extend{DeliveryIds: []uint64{got[0].ID}}}})
		}
		s.Await(time.Minute, 1)
		wantAttempts(t, s.Take(1), 2)
		s.AckDurable(got[0]) // late, and it counts
		s.Quiet(time.Hour)
	})
}

// TestLite_NewStreamTakesOver: the second stream of a client takes what it names
// from the first, and nothing else.
func TestLite_NewStreamTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{})
		lite := in.Lite()
		first := OpenLite(t, lite, openLite("c", liteNames(2)...))
		second := OpenLite(t, lite, openLite("c", liteName(0)))
		first.Notice(pb.Notice_KIND_SUPERSEDED)
		fillLites(t, lite, 2, 1)
		if got := first.Take(1); got[0].Partition != liteName(1) {
			t.Errorf("the first stream got %s", Show(got))
		}
		if got := second.Take(1); got[0].Partition != liteName(0) {
			t.Errorf("the second stream got %s", Show(got))
		}
		third := OpenLite(t, lite, openLite("c", liteName(1)))
		if err := first.End(); status.Code(err) != codes.Aborted {
			t.Errorf("the first stream, which has nothing left, ended with %v", err)
		}
		third.AckDurable(third.Take(1)...)
	})
}

// TestLite_Admin: operators see and move progress in lite topics as in
// partitions.
func TestLite_Admin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Lasting(t)
		in := Start(t, o)
		admin, ctx := in.Admin(), context.Background()
		fillLites(t, in.Lite(), 3, 4)
		s := OpenLite(t, in.Lite(), openLite("c", liteNames(2)...))
		got := byLite(s.Take(8))
		s.AckDurable(append(got[liteName(0)], got[liteName(1)][0])...)

		offsets := func() map[string]*pb.PartitionOffsets {
			t.Helper()
			res, err := admin.GetOffsets(ctx, &pb.GetOffsetsRequest{Topic: "chat"})
			if err != nil {
				t.Fatal(err)
			}
			m := map[string]*pb.PartitionOffsets{}
			for _, p := range res.GetOffsets() {
				m[p.GetPartition()] = p
			}
			return m
		}
		at := offsets()
		if p := at[liteName(0)]; p.GetPosition() != 4 || p.GetLag() != 0 || p.GetMaxOffset() != 4 {
			t.Errorf("offsets %v", p)
		}
		if p := at[liteName(1)]; p.GetPosition() != 1 || p.GetLag() != 3 || p.GetInFlight() != 3 {
			t.Errorf("offsets %v", p)
		}
		subs, err := admin.ListSubscribers(ctx, &pb.ListSubscribersRequest{Topic: "chat"})
		if err != nil || len(subs.GetSubscribers()) != 1 || subs.GetSubscribers()[0].GetStreams() != 1 {
			t.Error(subs, err)
		}
		if n := in.Server.Metrics().LiteTopics.Load(); n != 2 {
			t.Errorf("%d lite topics are in use", n)
		}
		clients, err := admin.ListClients(ctx, &pb.ListClientsRequest{})
		if err != nil || len(clients.GetClients()) != 1 || len(clients.GetClients()[0].GetSubscriptions()) != 1 {
			t.Error(clients, err)
		}

		reset := func(lite string, to *pb.Start) (*pb.ResetOffsetResponse, error) {
			return admin.ResetOffset(ctx, &pb.ResetOffsetRequest{Topic: "chat", Subscriber: "client/c", Partition: lite, To: to})
		}
		res, err := reset(liteName(0), Earliest())
		if err != nil || len(res.GetPartitions()) != 1 || res.GetPartitions()[0].GetTo() != 0 {
			t.Fatal(res, err)
		}
		s.Notice(pb.Notice_KIND_RESET)
		again := s.Take(4)
		wantOffsets(t, again, seq(0, 4))
		if again[0].Partition != liteName(0) || again[0].Epoch == 0 {
			t.Errorf("after the reset came %s", Show(again))
		}
		s.Break()
		synctest.Wait()
		if res, err = reset("", &pb.Start{Place: &pb.Start_Offset{Offset: 2}}); err != nil || len(res.GetPartitions()) != 2 {
			t.Fatal(res, err)
		}
		for lite, p := range offsets() {
			if p.GetPosition() != 2 {
				t.Errorf("%s is at %d after a reset without a stream", lite, p.GetPosition())
			}
		}
		if _, err := reset(liteName(2), Earliest()); status.Code(err) != codes.NotFound {
			t.Errorf("reset of a lite topic that the client never had: %v", err)
		}
		if _, err := reset("", AtTime(time.Now())); status.Code(err) != codes.Unimplemented {
			t.Errorf("reset by time: %v", err)
		}
		if _, err := admin.DeleteSubscriber(ctx, &pb.DeleteSubscriberRequest{Topic: "chat", Subscriber: "client/c"}); err != nil {
			t.Fatal(err)
		}
		if n := in.Server.Metrics().LiteTopics.Load(); n != 0 {
			t.Errorf("%d lite topics are in use by nobody", n)
		}
		if left := keysOf(t, o.Store, "c"); len(left) > 0 || len(offsets()) > 0 {
			t.Errorf("a deleted subscriber left %v", left)
		}
		if next, ok := cursorOf(o.Backend, liteName(0)); ok {
			t.Errorf("nobody reads %s and its pull offset %d is kept", liteName(0), next)
		}
	})
}

// TestLite_LeftOnesExpire: a client that reads on keeps nothing of lite topics that
// it left long ago.
func TestLite_LeftOnesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Lasting(t)
		o.Config = func(c *server.Config) { c.Subscriber.Expiry = 10 * time.Hour }
		in := Start(t, o)
		fillLites(t, in.Lite(), 2, 1)
		s := OpenLite(t, in.Lite(), openLite("c", liteNames(2)...))
		s.AckDurable(s.Take(2)...)
		s.ChangeLite(&pb.ChangeLite{Remove: []string{liteName(0)}})
		s.Quiet(8 * time.Hour)
		if kept := keysOf(t, o.Store, "c"); len(kept) != 2 {
			t.Errorf("after 8 h of 10 the store has %v", kept)
		}
		s.Quiet(4 * time.Hour)
		if kept := keysOf(t, o.Store, "c"); !slices.Equal(kept, []string{liteName(1)}) {
			t.Errorf("after 12 h of 10 the store has %v", kept)
		}
		if _, ok := cursorOf(o.Backend, liteName(0)); ok {
			t.Error("the pull offset of what nobody reads is kept")
		}
		if _, ok := cursorOf(o.Backend, liteName(1)); !ok {
			t.Error("the pull offset of what is read is gone")
		}
	})
}

// TestLite_ParentMadeAnew: a parent that was deleted and made again is another
// one: what is in it comes from its beginning.
func TestLite_ParentMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{})
		fillLites(t, in.Lite(), 1, 5)
		s := OpenLite(t, in.Lite(), openLite("c", liteName(0)))
		s.AckDurable(s.Take(5)...)
		if _, err := in.Admin().DeleteTopic(context.Background(), &pb.DeleteTopicRequest{Topic: "chat"}); err != nil {
			t.Fatal(err)
		}
		fillLites(t, in.Lite(), 1, 2)
		got := s.Take(2)
		wantLites(t, got, 1, 2)
		s.Notice(pb.Notice_KIND_POSITION_CORRECTED)
		s.AckDurable(got...)
	})
}

// TestLite_ExpiredAndBegunAnew: a lite topic that has expired begins again at
// offset 0. Whether it is shorter by now than the position or longer, while it
// is read or when it is opened: all that is new in it comes.
func TestLite_ExpiredAndBegunAnew(t *testing.T) {
	for name, more := range map[string]int{"shorter": 3, "longer": 15} {
		for _, reading := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", reading ", reading), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					log := memory.New(memory.Options{})
					defer func() { _ = log.Close() }()
					in := Start(t, Options{Backend: log})
					fillLites(t, in.Lite(), 1, 10)
					s := OpenLite(t, in.Lite(), openLite("c", liteName(0)))
					s.AckDurable(s.Take(10)...)
					if !reading {
						s.Break()
						synctest.Wait()
					}
					<-time.After(time.Minute)
					if err := log.ExpireLite("chat", liteName(0)); err != nil {
						t.Fatal(err)
					}
					fillLites(t, in.Lite(), 1, more)
					if !reading {
						s = OpenLite(t, in.Lite(), openLite("c", liteName(0)))
					}
					if !s.Await(2*time.Minute, more) {
						t.Fatalf("%d of %d new events came", len(s.Pending()), more)
					}
					got := s.Take(more)
					wantLites(t, got, 1, more)
					s.Notice(pb.Notice_KIND_POSITION_CORRECTED)
					s.AckDurable(got...)
					s.Quiet(time.Hour)
					in.Stop()
				})
			})
		}
	}
}

// TestLite_LogFails: a log that cannot be read for a while loses nothing.
func TestLite_LogFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := storagefault.New(Log(t, 1))
		in := Start(t, Options{Backend: log})
		s := OpenLite(t, in.Lite(), openLite("c", liteName(0)))
		bad := log.Inject(storagefault.Fault{Op: storagefault.Poll, Topic: "chat", Partition: liteName(0), Err: storage.ErrUnavailable})
		fillLites(t, in.Lite(), 1, 3)
		s.Quiet(10 * time.Second)
		bad.Remove()
		s.AckDurable(s.Take(3)...)
		if in.Server.Metrics().ReadFailures.Load() == 0 {
			t.Error("the fault was not met")
		}
	})
}

// TestLite_BesidePop: on a log that hands records out, lite topics are read by
// position, beside ordinary topics that are popped.
func TestLite_BesidePop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := popping(t, 2)
		s := OpenLite(t, p.in.Lite(), openLite("c", liteNames(2)...))
		plain := Open(t, p.in.Mesh(), open("c", Sub("t", broadcast)))
		fillLites(t, p.in.Lite(), 2, 3)
		Publish(t, p.in.Mesh(), "t", Numbers(4)...)
		got := s.Take(6)
		wantLites(t, got, 2, 3)
		s.AckDurable(got[:5]...)
		plain.AckDurable(plain.Take(4)...)
		res, err := p.in.Admin().GetOffsets(context.Background(), &pb.GetOffsetsRequest{})
		if err != nil || len(res.GetOffsets()) != 2+2 {
			t.Fatal(res, err)
		}
		p.crash()
		p.start()
		s = OpenLite(t, p.in.Lite(), openLite("c", liteNames(2)...))
		again := s.Take(1)
		if again[0].Partition != got[5].Partition || again[0].Offset != got[5].Offset || again[0].Attempt != 2 {
			t.Errorf("after a crash came %s, unfinished was %s", Show(again), Show(got[5:]))
		}
		s.AckDurable(again...)
		s.Quiet(time.Minute)
		if _, ok := storage.As[storage.Liter](p.be); !ok {
			t.Error("the log is no Liter")
		}
	})
}

// TestLite_Tokens: what a caller may do in a lite topic is what it may do in the
// parent.
func TestLite_Tokens(t *testing.T) {
	f := newTokens(t,
		token("writer", `roles: [publish], topics: [chat]`),
		token("reader", `roles: [subscribe], topics: [chat], clients: [c]`),
		token("stranger", `roles: [publish, subscribe], topics: [other], clients: ["*"]`),
	)
	in := Start(t, Options{Config: f.config})
	as := func(name string) pb.LiteClient { return pb.NewLiteClient(in.DialAs(tokenOf(name))) }
	ctx := context.Background()
	publish := func(name string) error {
		_, err := as(name).PublishLite(ctx, &pb.PublishLiteRequest{Parent: "chat", Lite: "a", Events: []*pb.EventMeshFrame{{}}})
		return err
	}
	create := func(name string) error {
		_, err := as(name).CreateLiteTopic(ctx, &pb.CreateLiteTopicRequest{Parent: "chat", Lite: "a"})
		return err
	}
	for what, c := range map[string]struct {
		err  error
		code codes.Code
	}{
		"publish, writer":         {publish("writer"), codes.OK},
		"publish, reader":         {publish("reader"), codes.PermissionDenied},
		"publish, stranger":       {publish("stranger"), codes.PermissionDenied},
		"publish, nobody":         {publish("nobody"), codes.Unauthenticated},
		"create, writer":          {create("writer"), codes.OK},
		"create, stranger":        {create("stranger"), codes.PermissionDenied},
		"subscribe, stranger":     {TryOpenLite(t, as("stranger"), openLite("c", "a")).End(), codes.PermissionDenied},
		"subscribe, other client": {TryOpenLite(t, as("reader"), openLite("d", "a")).End(), codes.PermissionDenied},
		"subscribe, writer":       {TryOpenLite(t, as("writer"), openLite("c", "a")).End(), codes.PermissionDenied},
	} {
		if got := status.Code(c.err); got != c.code {
			t.Errorf("%s: %v, want %v", what, c.err, c.code)
		}
	}
	s := OpenLite(t, as("reader"), openLite("c", "a"))
	s.AckDurable(s.Take(1)...)
	f.write(token("writer", `roles: [publish], topics: [chat]`))
	if err := in.Server.Reload(); err != nil {
		t.Fatal(err)
	}
	if err := s.End(); status.Code(err) != codes.Unauthenticated && status.Code(err) != codes.PermissionDenied {
		t.Errorf("the stream of a token that is gone ended with %v", err)
	}
}

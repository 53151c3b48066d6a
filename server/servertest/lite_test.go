package servertest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
)

// liteName names lite topic i of a test.
func liteName(i int) string { return fmt.Sprintf("session-%04d", i) }

func liteNames(n int) (list []string) {
	for i := range n {
		list = append(list, liteName(i))
	}
	return list
}

func openLite(client string, lites ...string) *pb.OpenLite {
	return &pb.OpenLite{ClientId: client, Parent: "chat", Lites: lites}
}

// byLite sorts deliveries by lite topic.
func byLite(got []Got) map[string][]Got {
	m := map[string][]Got{}
	for _, g := range got {
		m[g.Partition] = append(m[g.Partition], g)
	}
	return m
}

// wantLites wants so many deliveries of each of n lite topics, in order and
// without gaps.
func wantLites(t *testing.T, got []Got, n, each int) {
	t.Helper()
	lites := byLite(got)
	if len(lites) != n {
		t.Fatalf("events of %d lite topics came, want %d", len(lites), n)
	}
	for lite, list := range lites {
		if len(list) != each {
			t.Fatalf("%d events of %s came, want %d", len(list), lite, each)
		}
		for i, g := range list {
			if g.Topic != "chat" || g.Data() != fmt.Sprint(lite, "/", i) {
				t.Fatalf("event %d of %s is %s", i, lite, Show([]Got{g}))
			}
		}
	}
}

// fillLites publishes events lite/0, lite/1, … to n lite topics.
func fillLites(t *testing.T, lite pb.LiteClient, n, each int) {
	t.Helper()
	for i := range n {
		var data []string
		for k := range each {
			data = append(data, fmt.Sprint(liteName(i), "/", k))
		}
		PublishLite(t, lite, "chat", liteName(i), data...)
	}
}

// cursorOf is the pull offset of a lite topic.
func cursorOf(b storage.Backend, lite string) (int64, bool) {
	l, ok := storage.As[storage.Liter](b)
	if !ok {
		return 0, false
	}
	return l.LiteCursor("chat", lite)
}

// TestLite_ThousandInOrder: 1,000 lite topics with 20 events each, half of them
// there before and half published since, come whole and in order, and are
// finished.
func TestLite_ThousandInOrder(t *testing.T) {
	const n, each = 1000, 20
	o := Lasting(t)
	in := Start(t, o)
	lite := in.Lite()
	begin := time.Now()
	fillLites(t, lite, n/2, each)
	op := openLite("c", liteNames(n)...)
	op.AckTimeout = durationpb.New(time.Hour)
	s := OpenLite(t, lite, op)
	opened := time.Since(begin)
	for k := 0; k < each; k += 5 {
		for i := n / 2; i < n; i++ {
			var data []string
			for m := range 5 {
				data = append(data, fmt.Sprint(liteName(i), "/", k+m))
			}
			PublishLite(t, lite, "chat", liteName(i), data...)
		}
	}
	got := s.Take(n * each)
	wantLites(t, got, n, each)
	wantAttempts(t, got, 1)
	s.AckDurable(got...)
	t.Logf("open after %v, all after %v", opened, time.Since(begin))
	for i := range n {
		if next, ok := cursorOf(o.Backend, liteName(i)); !ok || next != each {
			t.Fatalf("pull offset of %s is %d, %v", liteName(i), next, ok)
		}
	}
	in.Stop()
	in = Start(t, o)
	s = OpenLite(t, in.Lite(), openLite("c", liteNames(n)...))
	s.Quiet(200 * time.Millisecond)
	PublishLite(t, in.Lite(), "chat", liteName(7), "more")
	wantOffsets(t, s.Take(1), []int64{each})
}

// TestLite_HistoryThenResume: a client that is new in a lite topic gets all that
// the log holds; one that was there goes on where it was; an instance that knows
// nothing begins at the head.
func TestLite_HistoryThenResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Lasting(t)
		in := Start(t, o)
		fillLites(t, in.Lite(), 2, 5)
		s := OpenLite(t, in.Lite(), openLite("c", liteNames(2)...))
		got := s.Take(10)
		wantLites(t, got, 2, 5)
		s.AckDurable(byLite(got)[liteName(0)][:3]...)
		s.AckDurable(byLite(got)[liteName(1)]...)
		if p := s.Positions[liteName(1)]; p.GetTopic() != "chat" || p.GetSubscriber() != "client/c" || p.GetNextOffset() != 5 {
			t.Errorf("position of %s: %v", liteName(1), p)
		}
		in.Stop()

		in = Start(t, o)
		s = OpenLite(t, in.Lite(), openLite("c", liteNames(3)...))
		if p := s.Positions[liteName(0)]; p.GetNextOffset() != 3 {
			t.Errorf("Opened tells position %v", p)
		}
		rest := s.Take(2)
		wantOffsets(t, rest, []int64{3, 4})
		s.AckDurable(rest...)
		s.Quiet(time.Minute)
		other := OpenLite(t, in.Lite(), openLite("other", liteNames(2)...))
		wantLites(t, other.Take(10), 2, 5)
		in.Stop()

		fresh := Options{Backend: o.Backend}
		in = Start(t, fresh)
		s = OpenLite(t, in.Lite(), openLite("c", liteNames(2)...))
		wantLites(t, s.Take(10), 2, 5)
	})
}

// TestLite_PullOffsetBehindAcks: the pull offset is never above what is finished
// by all who read, whatever was delivered, and no crash replays what was DURABLE.
func TestLite_PullOffsetBehindAcks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, store := memory.New(memory.Options{}), Store(t)
		defer func() { _ = log.Close() }()
		in := Start(t, Options{Backend: log, Store: store})
		fillLites(t, in.Lite(), 1, 20)
		s := OpenLite(t, in.Lite(), openLite("c", liteName(0)))
		got := s.Take(20)
		synctest.Wait()
		if next, ok := cursorOf(log, liteName(0)); ok {
			t.Errorf("nothing is acked and the pull offset is %d", next)
		}
		s.AckDurable(got[7])
		if next, ok := cursorOf(log, liteName(0)); ok && next > 0 {
			t.Errorf("offset 7 alone is acked and the pull offset is %d", next)
		}
		s.AckDurable(got[:7]...)
		synctest.Wait()
		if next, ok := cursorOf(log, liteName(0)); !ok || next != 8 {
			t.Errorf("offsets 0 to 7 are acked and the pull offset is %d, %v", next, ok)
		}
		slow := OpenLite(t, in.Lite(), openLite("slow", liteName(0)))
		slow.AckDurable(slow.Take(20)[:2]...)
		synctest.Wait()
		if next, _ := cursorOf(log, liteName(0)); next != 2 {
			t.Errorf("the slower of two has finished 2 and the pull offset is %d", next)
		}
		if err := log.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.AckDurable(got[8:12]...)
		store.FailWrites(errors.New("the process is dead"))
		in.Stop()
		store.FailWrites(nil)
		log = log.Crash()
		if next, _ := cursorOf(log, liteName(0)); next != 2 {
			t.Errorf("saved at 2, the pull offset is %d after a crash", next)
		}
		in = Start(t, Options{Backend: log, Store: store})
		s = OpenLite(t, in.Lite(), openLite("c", liteName(0)))
		wantOffsets(t, s.Take(8), seq(12, 8))
		s.Quiet(time.Second)
		in.Stop()
	})
}

// TestLite_Ordered: with ordered an event waits for the one before it, through
// retries; without, what follows does not.
func TestLite_Ordered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Lasting(t)
		in := Start(t, o)
		fillLites(t, in.Lite(), 2, 4)
		op := openLite("c", liteNames(2)...)
		op.Ordered = true
		s := OpenLite(t, in.Lite(), op)
		seen := map[string][]int64{}
		for range 2 * 5 {
			g := s.Take(1)[0]
			seen[g.Partition] = append(seen[g.Partition], g.Offset)
			if g.Partition == liteName(0) && g.Offset == 1 && g.Attempt == 1 {
				s.Nack(g)
				continue
			}
			s.AckDurable(g)
			if len(seen[liteName(1)]) == 4 && len(seen[liteName(0)]) == 5 {
				break
			}
		}
		if !slices.Equal(seen[liteName(0)], []int64{0, 1, 1, 2, 3}) || !slices.Equal(seen[liteName(1)], []int64{0, 1, 2, 3}) {
			t.Errorf("ordered, with a nack of offset 1 of the first: %v", seen)
		}
		plain := OpenLite(t, in.Lite(), openLite("plain", liteName(0)))
		got := plain.Take(4)
		plain.Nack(got[1])
		plain.AckDurable(got[0], got[2], got[3])
		wantOffsets(t, plain.Take(1), []int64{1})
		differs := TryOpenLite(t, in.Lite(), openLite("c", liteName(0)))
		if st := differs.Opened.GetResults()[0].GetStatus(); codes.Code(st.GetCode()) != codes.FailedPrecondition {
			t.Errorf("another kind of order for a live client: %v", st)
		}
	})
}

// TestLite_Change: lite topics come and go on a live stream.
func TestLite_Change(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{Config: func(c *server.Config) { c.Limits.LiteTopicsPerStream = 4 }})
		lite := in.Lite()
		fillLites(t, lite, 4, 2)
		s := OpenLite(t, lite, openLite("c"))
		s.Quiet(time.Second)
		ch := s.ChangeLite(&pb.ChangeLite{ChangeId: 9, Add: []string{liteName(0), liteName(1), liteName(0), "no good"}})
		want := []codes.Code{codes.OK, codes.OK, codes.AlreadyExists, codes.InvalidArgument}
		for i, r := range ch.GetResults() {
			if codes.Code(r.GetStatus().GetCode()) != want[i] || r.GetLite() == "" || want[i] == codes.OK && r.GetId() == 0 {
				t.Errorf("result %d is %v, want %v", i, r, want[i])
			}
		}
		if ch.GetChangeId() != 9 || len(ch.GetPositions()) != 2 {
			t.Errorf("Changed is %v", ch)
		}
		got := s.Take(4)
		wantLites(t, got, 2, 2)
		held := byLite(got)[liteName(0)]
		ch = s.ChangeLite(&pb.ChangeLite{Remove: []string{liteName(0), liteName(3)}, Add: []string{liteName(2)}})
		want = []codes.Code{codes.OK, codes.NotFound, codes.OK}
		for i, r := range ch.GetResults() {
			if codes.Code(r.GetStatus().GetCode()) != want[i] {
				t.Errorf("result %d is %v, want %v", i, r, want[i])
			}
		}
		s.Ack(held...)
		if st := s.Outcome(held[0]); st != unknown {
			t.Errorf("ack of a lite topic that was left: %v", st)
		}
		added := s.Take(2)
		if added[0].Partition != liteName(2) {
			t.Errorf("of the added one came %s", Show(added))
		}
		s.AckDurable(append(added, byLite(got)[liteName(1)]...)...)
		PublishLite(t, lite, "chat", liteName(0), "nobody")
		s.Quiet(time.Minute)
		s.ChangeLite(&pb.ChangeLite{Add: []string{liteName(0), liteName(3)}})
		again := byLite(s.Take(5))
		wantOffsets(t, again[liteName(0)], []int64{0, 1, 2}) // given back by the removal, and what came since
		ch = s.ChangeLite(&pb.ChangeLite{Add: []string{liteName(4)}})
		if c := codes.Code(ch.GetResults()[0].GetStatus().GetCode()); c != codes.ResourceExhausted {
			t.Errorf("a fifth lite topic: %v", ch.GetResults())
		}
		if err := s.CloseSend(); err != nil {
			t.Errorf("the orderly end: %v", err)
		}
	})
}

// TestLite_Refusals: what is wrong is told, with the code of the contract.
func TestLite_Refusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{})
		lite, ctx := in.Lite(), context.Background()
		Publish(t, in.Mesh(), "plain", "x")
		PublishLite(t, lite, "chat", "a", "x")
		create := func(parent, name string) error {
			_, err := lite.CreateLiteTopic(ctx, &pb.CreateLiteTopicRequest{Parent: parent, Lite: name})
			return err
		}
		publish := func(parent, name string) error {
			_, err := lite.PublishLite(ctx, &pb.PublishLiteRequest{Parent: parent, Lite: name, Events: []*pb.EventMeshFrame{{}}})
			return err
		}
		for _, c := range []struct {
			what string
			err  error
			code codes.Code
		}{
			{"create", create("chat", "b"), codes.OK},
			{"create again", create("chat", "b"), codes.OK},
			{"create with a bad name", create("chat", "a.b"), codes.InvalidArgument},
			{"create without a name", create("chat", ""), codes.InvalidArgument},
			{"create without a parent", create("", "a"), codes.InvalidArgument},
			{"create below an ordinary topic", create("plain", "a"), codes.FailedPrecondition},
			{"publish with a bad name", publish("chat", "a/b"), codes.InvalidArgument},
			{"publish below an ordinary topic", publish("plain", "a"), codes.FailedPrecondition},
			{"subscribe below an ordinary topic", TryOpenLite(t, lite, &pb.OpenLite{ClientId: "c", Parent: "plain", Lites: []string{"a"}}).End(), codes.FailedPrecondition},
			{"subscribe without a client", TryOpenLite(t, lite, &pb.OpenLite{Parent: "chat"}).End(), codes.InvalidArgument},
			{"subscribe without a parent", TryOpenLite(t, lite, &pb.OpenLite{ClientId: "c"}).End(), codes.InvalidArgument},
		} {
			if got := status.Code(c.err); got != c.code {
				t.Errorf("%s: %v, want %v", c.what, c.err, c.code)
			}
		}
		_, err := lite.PublishLite(ctx, &pb.PublishLiteRequest{Parent: "chat", Lite: "a"})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("publish nothing: %v", err)
		}
		res, err := in.Mesh().Publish(ctx, &pb.PublishRequest{Topic: "chat", Events: []*pb.EventMeshFrame{{}}})
		if status.Code(err) != codes.FailedPrecondition {
			t.Errorf("Publish to a parent: %v, %v", res, err)
		}
		sub := TryOpen(t, in.Mesh(), open("c", Sub("chat", broadcast)))
		if st := sub.Opened.GetResults()[0].GetStatus(); codes.Code(st.GetCode()) != codes.FailedPrecondition {
			t.Errorf("Subscribe to a parent: %v", st)
		}
	})
}

// TestLite_HostileMessages: what is no message of the contract ends the stream
// with INVALID_ARGUMENT, and nothing else.
func TestLite_HostileMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{})
		ack := func(ids ...uint64) *pb.SubscribeLiteRequest {
			return &pb.SubscribeLiteRequest{Kind: &pb.SubscribeLiteRequest_Ack{Ack: &pb.Ack{DeliveryIds: ids}}}
		}
		reversed := &pb.Extend{Ranges: []*pb.DeliveryRange{{First: 9, Last: 3}}}
		many := &pb.ChangeLite{Add: slices.Repeat([]string{"a"}, 10_001)}
		for what, msgs := range map[string][]*pb.SubscribeLiteRequest{
			"no open":        {ack(1)},
			"nothing":        {{}},
			"a second open":  {{Kind: &pb.SubscribeLiteRequest_Open{Open: openLite("c", "a")}}, {Kind: &pb.SubscribeLiteRequest_Open{Open: openLite("c", "a")}}},
			"nothing later":  {{Kind: &pb.SubscribeLiteRequest_Open{Open: openLite("c", "a")}}, {}},
			"id 0":           {{Kind: &pb.SubscribeLiteRequest_Open{Open: openLite("c", "a")}}, ack(0)},
			"reversed range": {{Kind: &pb.SubscribeLiteRequest_Open{Open: openLite("c", "a")}}, {Kind: &pb.SubscribeLiteRequest_Extend{Extend: reversed}}},
			"too many":       {{Kind: &pb.SubscribeLiteRequest_Open{Open: openLite("c", slices.Repeat([]string{"a"}, 10_001)...)}}},
			"too many later": {{Kind: &pb.SubscribeLiteRequest_Open{Open: openLite("c", "a")}}, {Kind: &pb.SubscribeLiteRequest_Change{Change: many}}},
		} {
			raw, err := in.Lite().SubscribeLite(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range msgs {
				if err := raw.Send(m); err != nil && !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
			}
			for err == nil {
				_, err = raw.Recv()
			}
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("%s: the stream ended with %v", what, err)
			}
		}
	})
}

// TestLite_OneBadEvent: it does not hide the fate of the others.
func TestLite_OneBadEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{})
		res, err := in.Lite().PublishLite(context.Background(), &pb.PublishLiteRequest{Parent: "chat", Lite: "a", Events: []*pb.EventMeshFrame{
			{Data: []byte("0")}, {Attributes: map[string]string{"emdlqid": "forged"}}, {Data: []byte("1")},
		}})
		if err != nil || len(res.GetEvents()) != 3 {
			t.Fatal(res, err)
		}
		ev := res.GetEvents()
		if ev[0].GetPartition() != "a" || ev[0].GetId() == "" || codes.Code(ev[1].GetStatus().GetCode()) != codes.InvalidArgument || ev[2].GetOffset() != 1 {
			t.Errorf("answers %v", ev)
		}
		s := OpenLite(t, in.Lite(), openLite("c", "a"))
		wantOffsets(t, s.Take(2), []int64{0, 1})
	})
}

// TestLite_Unimplemented: a log without lite topics is named, and what it lacks.
func TestLite_Unimplemented(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{Real: true, Config: func(c *server.Config) {
			c.Storage, c.Data = server.StorageEmbedded, t.TempDir()
		}})
		lite, ctx := in.Lite(), context.Background()
		_, create := lite.CreateLiteTopic(ctx, &pb.CreateLiteTopicRequest{Parent: "chat", Lite: "a"})
		_, publish := lite.PublishLite(ctx, &pb.PublishLiteRequest{Parent: "chat", Lite: "a", Events: []*pb.EventMeshFrame{{}}})
		for what, err := range map[string]error{
			"create": create, "publish": publish, "subscribe": TryOpenLite(t, lite, openLite("c", "a")).End(),
		} {
			st := status.Convert(err)
			if st.Code() != codes.Unimplemented || !containsAll(st.Message(), "embedded", "lite topics") {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// keysOf counts what the store holds of a client below the parent.
func keysOf(t *testing.T, store offsetstore.Store, client string) (lites []string) {
	t.Helper()
	if err := store.Scan("chat", func(k offsetstore.Key, _ offsetstore.Value) bool {
		if k.Subscriber.Name == client {
			lites = append(lites, k.Partition)
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return lites
}

// TestLite_LongNameIsNotRepeated: the refusal of a name of megabytes is short.
func TestLite_LongNameIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{})
		s := TryOpenLite(t, in.Lite(), openLite("c", strings.Repeat("\u00e9\n", 1<<16)))
		st := s.Opened.GetResults()[0].GetStatus()
		if st.GetCode() != int32(codes.InvalidArgument) || len(st.GetMessage()) > 1000 {
			t.Errorf("code %d, a message of %d bytes", st.GetCode(), len(st.GetMessage()))
		}
	})
}

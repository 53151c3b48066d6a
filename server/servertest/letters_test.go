package servertest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ackmesh/ackmesh/frame"
	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/memory"
	"github.com/ackmesh/ackmesh/storage/storagefault"
)

// forgetful is a log that takes the same event twice, as most do.
func forgetful(t *testing.T) Options {
	log := memory.New(memory.Options{Partitions: 1, DedupWindow: -1})
	t.Cleanup(func() { _ = log.Close() })
	return Options{Backend: log, Store: Store(t)}
}

// dies publishes an event that dies for the stream's client.
func dies(t *testing.T, in *Instance, s *Stream, data string) {
	t.Helper()
	Publish(t, in.Mesh(), "t", data)
	dead(s, s.Take(1)...)
}

func deleteTopic(t *testing.T, in *Instance, topic string) {
	t.Helper()
	if _, err := in.Admin().DeleteTopic(context.Background(), &pb.DeleteTopicRequest{Topic: topic}); err != nil {
		t.Fatal(err)
	}
}

func replay(t *testing.T, in *Instance, ids ...string) {
	t.Helper()
	res, err := in.Admin().ReplayDeadLetters(context.Background(), &pb.ReplayDeadLettersRequest{Topic: "t", Ids: ids})
	if err != nil || len(ids) > 0 && res.GetReplayed() != int64(len(ids)) {
		t.Fatalf("replay of %v: %v, %v", ids, res, err)
	}
}

// wantEvents compares the events of dead letters; "": none.
func wantEvents(t *testing.T, list []*pb.DeadLetter, want ...string) {
	t.Helper()
	if len(list) != len(want) {
		t.Fatalf("%d dead letters, want %d: %v", len(list), len(want), list)
	}
	for i, let := range list {
		if got := string(let.GetFrame().GetData()); got != want[i] || (let.GetFrame() == nil) != (want[i] == "") {
			t.Errorf("letter %d has the event %q, want %q", i, got, want[i])
		}
	}
}

// TestLetterTopicMadeAnew: where the topic of dead letters was deleted and made
// again, a letter of before is not taken for what has its place now.
func TestLetterTopicMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Lasting(t))
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		dies(t, in, s, "old")
		untilLetters(t, in, "t", 1)
		deleteTopic(t, in, "t_DLQ")
		<-time.After(time.Minute)
		dies(t, in, s, "new")
		list := untilLetters(t, in, "t", 2)
		wantEvents(t, list, "old", "new")
		replay(t, in, list[0].GetId())
		if got := s.Take(1); got[0].Data() != "old" {
			t.Errorf("replayed as %s", Show(got))
		}
	})
}

// TestLettersOfATopicMadeAnew: letters of a topic that was deleted and made again
// stay apart from those that died in their places since, whatever became of the
// topic of dead letters.
func TestLettersOfATopicMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Lasting(t))
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		dies(t, in, s, "old")
		untilLetters(t, in, "t", 1)
		s.Break()
		deleteTopic(t, in, "t")
		<-time.After(time.Minute)
		s = Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		dies(t, in, s, "new")
		list := untilLetters(t, in, "t", 2)
		wantEvents(t, list, "old", "new")
		if list[0].GetId() == list[1].GetId() {
			t.Errorf("two letters have the id %s", list[0].GetId())
		}
		deleteTopic(t, in, "t_DLQ")
		wantEvents(t, letters(t, in, "t"), "", "new")
	})
}

// TestReplayToNobody: a dead letter is not taken off the list for a subscriber
// that is not there any more: nobody would get it.
func TestReplayToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Lasting(t))
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		other := Open(t, in.Mesh(), open("other", Sub("t", broadcast)))
		dies(t, in, s, "x")
		dead(other, other.Take(1)...)
		untilLetters(t, in, "t", 2)
		s.Break()
		synctest.Wait()
		del := &pb.DeleteSubscriberRequest{Topic: "t", Subscriber: "client/c"}
		if _, err := in.Admin().DeleteSubscriber(context.Background(), del); err != nil {
			t.Fatal(err)
		}
		_, err := in.Admin().ReplayDeadLetters(context.Background(), &pb.ReplayDeadLettersRequest{Topic: "t"})
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "client/c") || !strings.Contains(err.Error(), "1 were replayed") {
			t.Errorf("replay to a subscriber that is gone: %v", err)
		}
		other.AckDurable(other.Take(1)...) // the others are not held up
		list := letters(t, in, "t")
		if len(list) != 1 || list[0].GetSubscriber() != "client/c" {
			t.Fatalf("dead letters: %v", list)
		}
		s = Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		replay(t, in, list[0].GetId())
		if got := s.Take(1); got[0].Data() != "x" {
			t.Errorf("replayed as %s", Show(got))
		}
	})
}

// TestLettersTakenOnce: of several replays and purges at a time each letter is
// taken by one.
func TestLettersTakenOnce(t *testing.T) {
	o := forgetful(t)
	in := Start(t, o)
	s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
	const n = 50
	Publish(t, in.Mesh(), "t", Numbers(n)...)
	dead(s, s.Take(n)...)
	untilLetters(t, in, "t", n)
	var replayed, purged atomic.Int64
	var all sync.WaitGroup
	admin := in.Admin()
	for range 4 {
		all.Go(func() {
			res, err := admin.ReplayDeadLetters(context.Background(), &pb.ReplayDeadLettersRequest{Topic: "t"})
			if err != nil {
				t.Error(err)
			}
			replayed.Add(res.GetReplayed())
		})
		all.Go(func() {
			res, err := admin.PurgeDeadLetters(context.Background(), &pb.PurgeDeadLettersRequest{Topic: "t"})
			if err != nil {
				t.Error(err)
			}
			purged.Add(res.GetPurged())
		})
	}
	all.Wait()
	if sum := replayed.Load() + purged.Load(); sum != n {
		t.Errorf("%d letters were taken, %d replayed and %d purged, want %d", sum, replayed.Load(), purged.Load(), n)
	}
	if again := int64(len(readAll(t, o.Backend, "t"))) - n; again != replayed.Load() {
		t.Errorf("%d were published again, %d of them told", again, replayed.Load())
	}
}

// hasty is a log to which the caller's patience ends with an append.
type hasty struct {
	storage.Backend
	leave atomic.Pointer[context.CancelFunc]
}

func (h *hasty) Unwrap() storage.Backend { return h.Backend }

func (h *hasty) Append(ctx context.Context, topic string, events []storage.Event, done storage.AppendDone) error {
	if leave := h.leave.Load(); leave != nil {
		(*leave)()
		<-time.After(time.Second) // until it is known
	}
	return h.Backend.Append(context.WithoutCancel(ctx), topic, events, done)
}

// TestReplayAfterTheCallerLeft: who leaves during a replay does not find letters
// in the list that were published again.
func TestReplayAfterTheCallerLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := forgetful(t)
		log := &hasty{}
		o.Wrap = func(b storage.Backend) storage.Backend { log.Backend = b; return log }
		in := Start(t, o)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		dies(t, in, s, "x")
		dies(t, in, s, "y")
		untilLetters(t, in, "t", 2)
		ctx, leave := context.WithCancel(context.Background())
		log.leave.Store(&leave)
		if _, err := in.Admin().ReplayDeadLetters(ctx, &pb.ReplayDeadLettersRequest{Topic: "t"}); status.Code(err) != codes.Canceled {
			t.Fatal(err)
		}
		<-time.After(10 * time.Second)
		log.leave.Store(nil)
		s.AckDurable(s.Take(1)...)
		if list := letters(t, in, "t"); len(list) != 1 {
			t.Errorf("%d letters are left of two, one of which was published again", len(list))
		}
		replay(t, in)
		s.AckDurable(s.Take(1)...)
		s.Quiet(time.Minute)
	})
}

// TestLetterOfAnySize: a page of one letter has its event however large; in one of
// several what there is no room for comes without.
func TestLetterOfAnySize(t *testing.T) {
	in := Start(t, Options{Pipe: 32 << 20, Config: func(c *server.Config) { c.Limits.PublishBytes = 16 * server.MiB }})
	mesh := pb.NewEventMeshClient(in.Dial(grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16 << 20))))
	op := open("c", Sub("t", broadcast))
	op.MaxMessageBytes = 16 << 20
	s := Open(t, mesh, op)
	large := strings.Repeat("x", frame.MaxDataSize)
	dies(t, in, s, "small")
	untilLetters(t, in, "t", 1)
	dies(t, in, s, large)
	list := untilLetters(t, in, "t", 2)
	wantEvents(t, list, "small", "")
	admin := pb.NewAdminClient(in.DialAdmin(grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16 << 20))))
	req := &pb.ListDeadLettersRequest{Topic: "t", PageSize: 1}
	for _, want := range []string{"small", large} {
		res, err := admin.ListDeadLetters(context.Background(), req)
		if err != nil {
			t.Fatal(err)
		}
		if l := res.GetDeadLetters(); len(l) != 1 || string(l[0].GetFrame().GetData()) != want {
			t.Errorf("a page of one has %d letters, the event with %d bytes, want %d", len(l), len(l[0].GetFrame().GetData()), len(want))
		}
		req.PageToken = res.GetNextPageToken()
	}
}

// TestLettersOfNoSubscriber: what is no subscriber's name is refused: an empty list
// would say that there are no dead letters.
func TestLettersOfNoSubscriber(t *testing.T) {
	in := Start(t, Options{})
	admin, ctx := in.Admin(), context.Background()
	for _, name := range []string{"billing", "shares/billing", "client/", "/", "client/a\x00"} {
		_, list := admin.ListDeadLetters(ctx, &pb.ListDeadLettersRequest{Topic: "t", Subscriber: name})
		_, again := admin.ReplayDeadLetters(ctx, &pb.ReplayDeadLettersRequest{Topic: "t", Subscriber: name})
		_, purge := admin.PurgeDeadLetters(ctx, &pb.PurgeDeadLettersRequest{Topic: "t", Subscriber: name})
		for call, err := range map[string]error{"list": list, "replay": again, "purge": purge} {
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("%s of subscriber %q: %v", call, name, err)
			}
		}
	}
}

// TestLettersWhileTheLogIsAway: the list is there while the log is not, without
// the events; a page of one says why it has none.
func TestLettersWhileTheLogIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, faults := faulty(t)
		in := Start(t, o)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		for _, data := range Numbers(20) {
			dies(t, in, s, data)
		}
		untilLetters(t, in, "t", 20)
		away := faults.Inject(storagefault.Fault{Op: storagefault.Poll, Topic: "t_DLQ", Hang: true})
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // as the command waits
		defer cancel()
		res, err := in.Admin().ListDeadLetters(ctx, &pb.ListDeadLettersRequest{Topic: "t"})
		if err != nil || len(res.GetDeadLetters()) != 20 {
			t.Errorf("%d letters while the log is away, %v", len(res.GetDeadLetters()), err)
		}
		away.Remove()
		faults.Inject(storagefault.Fault{Op: storagefault.Poll, Topic: "t_DLQ", Err: storage.ErrUnavailable})
		if _, err := in.Admin().ListDeadLetters(ctx, &pb.ListDeadLettersRequest{Topic: "t", PageSize: 1}); status.Code(err) != codes.Unavailable {
			t.Errorf("a page of one letter whose event cannot be read: %v", err)
		}
	})
}

// TestReplayBeyondItsTime: a replay that has no time for all letters answers before
// its deadline, and the next one goes on.
func TestReplayBeyondItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := forgetful(t)
		var log *storagefault.Backend
		o.Wrap = func(b storage.Backend) storage.Backend { log = storagefault.New(b); return log }
		in := Start(t, o)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		const n = 10
		for i := range n {
			dies(t, in, s, fmt.Sprint(i))
		}
		untilLetters(t, in, "t", n)
		log.Inject(storagefault.Fault{Op: storagefault.Append, Topic: "t", Delay: time.Second})
		sum, calls := int64(0), 0
		for left := int64(n); left > 0; calls++ {
			ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
			res, err := in.Admin().ReplayDeadLetters(ctx, &pb.ReplayDeadLettersRequest{Topic: "t"})
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			sum, left = sum+res.GetReplayed(), res.GetLeft()
			if sum+left != n {
				t.Fatalf("%d were replayed, %d are left of %d", sum, left, n)
			}
		}
		if calls != 2 {
			t.Errorf("%d calls of 5 letters each", calls)
		}
		s.AckDurable(s.Take(n)...)
	})
}

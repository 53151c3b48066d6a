package servertest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server"
	"github.com/ackmesh/ackmesh/server/auth"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// tokensFile is a tokens file of a test.
type tokensFile struct {
	t    *testing.T
	path string
}

func newTokens(t *testing.T, entries ...string) *tokensFile {
	t.Helper()
	f := &tokensFile{t, filepath.Join(t.TempDir(), "tokens.yaml")}
	f.write(entries...)
	return f
}

func (f *tokensFile) write(entries ...string) {
	f.t.Helper()
	if err := os.WriteFile(f.path, []byte("tokens:\n"+strings.Join(entries, "")), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// config makes an instance use the file.
func (f *tokensFile) config(c *server.Config) { c.Auth.TokensFile = f.path }

// tokenOf is the token called name.
func tokenOf(name string) string { return "token-for-a-test-called-" + name }

// token is an entry of a tokens file, its members as YAML.
func token(name, members string) string {
	return fmt.Sprintf("- {name: %s, sha256: %s, %s}\n", name, auth.HashOf(tokenOf(name)), members)
}

func meshAs(in *Instance, name string) pb.EventMeshClient {
	return pb.NewEventMeshClient(in.DialAs(tokenOf(name)))
}

func adminAs(in *Instance, name string) pb.AdminClient {
	return pb.NewAdminClient(in.DialAdminAs(tokenOf(name)))
}

// denied checks a refusal and that it names what is missing.
func denied(t *testing.T, what string, err error, missing string) {
	t.Helper()
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(status.Convert(err).Message(), missing) {
		t.Errorf("%s: %v, want PERMISSION_DENIED that names %s", what, err, missing)
	}
}

// refusal is the status of the one subscription of a stream.
func refusal(t *testing.T, s *Stream) error {
	t.Helper()
	if s.Opened == nil || len(s.Opened.GetResults()) != 1 {
		t.Fatalf("opened: %v (stream ended: %v)", s.Opened, s.End())
	}
	return status.ErrorProto(s.Opened.GetResults()[0].GetStatus())
}

func shareSub(topic, share string) *pb.Subscription {
	s := Sub(topic, loadBalance)
	s.Share = share
	return s
}

// teamTokens are tokens of two teams.
var teamTokens = []string{
	token("orders", `roles: [publish, subscribe], topics: ["orders*"], clients: ["o-*"], shares: [billing]`),
	token("payments", `roles: [publish, subscribe], topics: ["payments*"], clients: ["p-*"], shares: [clearing]`),
	token("guest", `roles: [subscribe], topics: [orders], clients: [guest]`),
	token("pub", `roles: [publish], topics: ["*"]`),
	token("reader", `roles: [admin-read], topics: ["orders*"], clients: ["o-*"], shares: [billing]`),
	token("boss", `roles: [admin], topics: ["orders*"], clients: ["o-*"], shares: [billing]`),
}

// TestTokensOnData: nobody publishes to another's topic, takes another's client
// id, or joins or resumes another's share; without a token nothing is done.
func TestTokensOnData(t *testing.T) {
	f := newTokens(t, teamTokens...)
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{Config: f.config})
		ctx := context.Background()
		event := []*pb.EventMeshFrame{{Data: []byte("x")}}
		none, orders, payments := in.Mesh(), meshAs(in, "orders"), meshAs(in, "payments")

		if _, err := none.Publish(ctx, &pb.PublishRequest{Topic: "orders", Events: event}); status.Code(err) != codes.Unauthenticated {
			t.Errorf("publish without a token: %v", err)
		}
		if _, err := pb.NewSessionClient(in.Dial()).Recommend(ctx, &pb.RecommendRequest{}); status.Code(err) != codes.Unauthenticated {
			t.Errorf("recommend without a token: %v", err)
		}
		if _, err := pb.NewSessionClient(in.DialAs(tokenOf("pub"))).Recommend(ctx, &pb.RecommendRequest{}); err != nil {
			t.Errorf("recommend: %v", err)
		}
		Publish(t, orders, "orders", "a")
		Publish(t, payments, "payments", "b")
		_, err := orders.Publish(ctx, &pb.PublishRequest{Topic: "payments", Events: event})
		denied(t, "publish to another's topic", err, `the topic "payments"`)

		s := Open(t, orders, open("o-1", shareSub("orders", "billing")))
		for what, tt := range map[string]struct {
			sub     *pb.Subscription
			missing string
		}{
			"another's topic":   {Sub("payments", broadcast), `the topic "payments"`},
			"another's share":   {shareSub("orders", "clearing"), `the share "clearing"`},
			"the default share": {shareSub("orders", ""), "the default share"},
		} {
			denied(t, what, refusal(t, TryOpen(t, orders, open("o-2", tt.sub))), tt.missing)
			tt.sub.Id = 7
			changed := s.Change(&pb.Change{ChangeId: 1, Add: []*pb.Subscription{tt.sub}})
			denied(t, "Change: "+what, status.ErrorProto(changed.GetResults()[0].GetStatus()), tt.missing)
		}
		denied(t, "another's client id", TryOpen(t, orders, open("p-1", Sub("orders", broadcast))).End(), `the client id "p-1"`)
		denied(t, "no subscriptions, another's client id", TryOpen(t, orders, open("p-1")).End(), `the client id "p-1"`)
		err = TryOpen(t, none, open("o-1")).End()
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("subscribe without a token: %v", err)
		}
		denied(t, "subscribe with a token for publishing", TryOpen(t, meshAs(in, "pub"), open("o-1")).End(), "role subscribe")

		Publish(t, orders, "orders", "mine")
		s.AckDurable(s.Take(1)...) // nobody has taken the stream's subscription
	})
}

// TestResumeIsNoWayIn: positions of a share in resume help nobody who may not join
// it, and move nothing.
func TestResumeIsNoWayIn(t *testing.T) {
	f := newTokens(t, teamTokens...)
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{Config: f.config})
		orders := meshAs(in, "orders")
		s := Open(t, orders, open("o-1", shareSub("orders", "billing")))
		Publish(t, orders, "orders", Numbers(5)...)
		s.AckDurable(s.Take(5)...)
		before := position(t, in, "orders", "share/billing")
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		o := open("guest", shareSub("orders", "billing"))
		o.Reconnect = true
		o.Resume = []*pb.Position{{Topic: "orders", Subscriber: "share/billing", Partition: "0", NextOffset: 2, Epoch: 9}}
		guest := TryOpen(t, meshAs(in, "guest"), o)
		denied(t, "resume another's share", refusal(t, guest), `the share "billing"`)
		changed := guest.Change(&pb.Change{ChangeId: 1, Add: []*pb.Subscription{{Id: 2, Topic: "orders", Mode: loadBalance, Share: "billing"}}})
		denied(t, "Change", status.ErrorProto(changed.GetResults()[0].GetStatus()), `the share "billing"`)
		o.Subscriptions[0].Mode, o.Subscriptions[0].Share = broadcast, ""
		Open(t, meshAs(in, "guest"), o).Quiet(time.Second)
		if p := position(t, in, "orders", "share/billing"); p.GetPosition() != 5 || p.GetEpoch() != before.GetEpoch() {
			t.Errorf("after the resume: %v", p)
		}
	})
}

// TestPublishStreamTokens: a request for another's topic is answered so, and the
// stream goes on.
func TestPublishStreamTokens(t *testing.T) {
	f := newTokens(t, teamTokens...)
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{Config: f.config})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		stream, err := meshAs(in, "orders").PublishStream(ctx)
		if err != nil {
			t.Fatal(err)
		}
		publish := func(topic string) error {
			if err := stream.Send(&pb.PublishRequest{Topic: topic, Events: []*pb.EventMeshFrame{{Data: []byte("x")}}}); err != nil {
				t.Fatal(err)
			}
			res, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			return status.ErrorProto(res.GetStatus())
		}
		if err := publish("orders"); err != nil {
			t.Errorf("own topic: %v", err)
		}
		denied(t, "another's topic", publish("payments"), `the topic "payments"`)
		if err := publish("orders"); err != nil {
			t.Errorf("own topic, after a refusal: %v", err)
		}
		f.write(teamTokens[1])
		if err := in.Server.Reload(); err != nil {
			t.Fatal(err)
		}
		if err := publish("orders"); status.Code(err) != codes.Unauthenticated {
			t.Errorf("the token was taken away: %v", err)
		}
	})
}

// TestTokenTakenAway: a stream ends as soon as its token no longer allows what it
// does; what it held comes again to others at no cost. Other streams go on.
func TestTokenTakenAway(t *testing.T) {
	f := newTokens(t, teamTokens...)
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{Config: f.config})
		orders, payments := meshAs(in, "orders"), meshAs(in, "payments")
		s := Open(t, orders, open("o-1", shareSub("orders", "billing")))
		other := Open(t, payments, open("p-1", Sub("payments", broadcast)))
		Publish(t, orders, "orders", "held")
		s.Take(1)

		f.write("broken")
		if err := in.Server.Reload(); err == nil {
			t.Error("a broken file is taken")
		}
		Publish(t, orders, "orders", "still")
		s.Take(1)

		f.write(token("orders", `roles: [publish, subscribe], topics: ["orders*"], clients: ["o-*"], shares: [shipping]`), teamTokens[1],
			token("heir", `roles: [subscribe], topics: [orders], clients: [heir], shares: [billing]`))
		if err := in.Server.Reload(); err != nil {
			t.Fatal(err)
		}
		denied(t, "the share was taken away", s.End(), `the share "billing"`)
		Publish(t, payments, "payments", "on")
		other.AckDurable(other.Take(1)...)
		heir := Open(t, meshAs(in, "heir"), open("heir", shareSub("orders", "billing")))
		for _, g := range heir.Take(2) {
			if g.Attempt != 2 {
				t.Errorf("comes as attempt %d", g.Attempt)
			}
			heir.AckDurable(g)
		}

		f.write(teamTokens[1])
		if err := in.Server.Reload(); err != nil {
			t.Fatal(err)
		}
		if err := heir.End(); status.Code(err) != codes.Unauthenticated {
			t.Errorf("the token was taken away: %v", err)
		}
		if err := other.CloseSend(); err != nil {
			t.Errorf("the other stream: %v", err)
		}
	})
}

// TestTokensOnAdmin: without a token nothing is seen; with too small a role, or
// beyond its patterns, nothing is changed.
func TestTokensOnAdmin(t *testing.T) {
	f := newTokens(t, teamTokens...)
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{Config: f.config})
		ctx := context.Background()
		root, none := in.Admin(), pb.NewAdminClient(in.DialAdminAs(""))
		reader, boss := adminAs(in, "reader"), adminAs(in, "boss")
		for _, topic := range []string{"orders", "payments"} {
			if _, err := root.CreateTopic(ctx, &pb.CreateTopicRequest{Topic: topic}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := none.ListTopics(ctx, &pb.ListTopicsRequest{}); status.Code(err) != codes.Unauthenticated {
			t.Errorf("without a token: %v", err)
		}
		if _, err := pb.NewAdminClient(in.DialAdminAs(auth.NewToken())).ListTopics(ctx, &pb.ListTopicsRequest{}); status.Code(err) != codes.Unauthenticated {
			t.Errorf("with a token that nobody knows: %v", err)
		}
		_, err := adminAs(in, "pub").ListTopics(ctx, &pb.ListTopicsRequest{})
		denied(t, "a token for publishing", err, "role admin-read")
		list, err := reader.ListTopics(ctx, &pb.ListTopicsRequest{})
		if err != nil || len(list.GetTopics()) != 1 || list.GetTopics()[0].GetTopic() != "orders" {
			t.Errorf("the reader sees %v, %v", list.GetTopics(), err)
		}
		_, err = reader.DeleteTopic(ctx, &pb.DeleteTopicRequest{Topic: "orders"})
		denied(t, "delete with a role for reading", err, "role admin")
		_, err = boss.DeleteTopic(ctx, &pb.DeleteTopicRequest{Topic: "payments"})
		denied(t, "delete another's topic", err, `the topic "payments"`)
		_, err = boss.ResetOffset(ctx, &pb.ResetOffsetRequest{Topic: "orders", Subscriber: "share/clearing", To: Earliest()})
		denied(t, "reset another's share", err, `the share "clearing"`)
		_, err = boss.PurgeDeadLetters(ctx, &pb.PurgeDeadLettersRequest{Topic: "orders"})
		denied(t, "purge for all subscribers", err, `"*" in its clients`)
		if _, err := boss.DeleteTopic(ctx, &pb.DeleteTopicRequest{Topic: "orders"}); err != nil {
			t.Errorf("delete an own topic: %v", err)
		}
		if list, err := root.ListTopics(ctx, &pb.ListTopicsRequest{Prefix: "payments"}); err != nil || len(list.GetTopics()) != 1 {
			t.Errorf("left: %v, %v", list, err)
		}
	})
}

// TestNoTokensFile: without a tokens file data calls need no token, and operators
// do.
func TestNoTokensFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{})
		Publish(t, in.Mesh(), "t", "x")
		Publish(t, meshAs(in, "unknown"), "t", "y")
		if _, err := pb.NewAdminClient(in.DialAdminAs("")).ListTopics(context.Background(), &pb.ListTopicsRequest{}); status.Code(err) != codes.Unauthenticated {
			t.Errorf("operators without a token: %v", err)
		}
		if err := in.Server.Reload(); err != nil {
			t.Error(err)
		}
	})
}

// TestNoAdminToken: an instance in memory that was given no admin token takes no
// admin call.
func TestNoAdminToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{Config: func(c *server.Config) { c.Auth.AdminToken = "" }})
		for _, tok := range []string{"", AdminToken, auth.NewToken()} {
			_, err := pb.NewAdminClient(in.DialAdminAs(tok)).ListTopics(context.Background(), &pb.ListTopicsRequest{})
			if status.Code(err) != codes.Unauthenticated {
				t.Errorf("token %q: %v", tok, err)
			}
		}
	})
}

// retryInfo says when a call that was refused may be made again; nil: it does not.
func retryInfo(err error) *errdetails.RetryInfo {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info
		}
	}
	return nil
}

// TestRateLimits: beyond the rate calls are RESOURCE_EXHAUSTED, health is not;
// resets have a limit of their own, and saying what one would do has none.
func TestRateLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := Start(t, Options{Config: func(c *server.Config) { c.Limits.CallsPerSecond, c.Limits.ResetsPerSecond = 50, 1 }})
		ctx := context.Background()
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		defer s.Break()
		reset := func(dry bool) codes.Code {
			_, err := in.Admin().ResetOffset(ctx, &pb.ResetOffsetRequest{Topic: "t", Subscriber: "client/c", To: Earliest(), DryRun: dry})
			return status.Code(err)
		}
		if a, b, c, d := reset(false), reset(false), reset(false), reset(true); a != codes.OK || b != codes.OK || c != codes.ResourceExhausted || d != codes.OK {
			t.Errorf("three resets and a dry run: %v %v %v %v", a, b, c, d)
		}
		<-time.After(time.Second) // of the bubble: exactly one more
		if a, b := reset(false), reset(false); a != codes.OK || b != codes.ResourceExhausted {
			t.Errorf("a second later: %v %v", a, b)
		}
		refused := 0
		for range 200 {
			_, err := in.Mesh().Publish(ctx, &pb.PublishRequest{Topic: "t", Events: []*pb.EventMeshFrame{{}}})
			if status.Code(err) == codes.ResourceExhausted {
				refused++
				if info := retryInfo(err); info.GetRetryDelay().AsDuration() != 20*time.Millisecond || !strings.HasPrefix(status.Convert(err).Message(), "more than 50 calls a second") {
					t.Fatalf("refused with %v: %v", info, err)
				}
			}
		}
		if refused < 90 || refused > 110 {
			t.Errorf("%d of 200 calls at once were refused", refused)
		}
		if _, err := in.Admin().ListClients(ctx, &pb.ListClientsRequest{}); err != nil {
			t.Errorf("an operator who looks who calls so often: %v", err)
		}
	})
}

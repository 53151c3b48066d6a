package main

import (
	"context"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ackmeshv1 "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// fakeServer answers what the commands ask, and keeps what they asked.
type fakeServer struct {
	ackmeshv1.UnimplementedAdminServer
	ackmeshv1.UnimplementedSessionServer
	created *ackmeshv1.CreateTopicRequest
	deleted string
}

// start serves on a free port until the test ends and returns the address.
func (f *fakeServer) start(t *testing.T) string { return startAdmin(t, f, f) }

func startAdmin(t *testing.T, admin ackmeshv1.AdminServer, session ackmeshv1.SessionServer) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	ackmeshv1.RegisterAdminServer(srv, admin)
	ackmeshv1.RegisterSessionServer(srv, session)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(listener) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func fakeTopic(name string) *ackmeshv1.Topic {
	return &ackmeshv1.Topic{Topic: name, Id: "id-1", Partitions: []*ackmeshv1.Partition{
		{Partition: "0", MinOffset: 3, MaxOffset: 10}, {Partition: "1", MaxOffset: 5},
	}}
}

func (f *fakeServer) ListTopics(_ context.Context, req *ackmeshv1.ListTopicsRequest) (*ackmeshv1.ListTopicsResponse, error) {
	answer := new(ackmeshv1.ListTopicsResponse)
	for _, name := range []string{"far", "orders", "orders_DLQ"} {
		if !strings.HasPrefix(name, req.GetPrefix()) {
			continue
		}
		topic := fakeTopic(name)
		if name == "far" {
			unread(topic.GetPartitions()[1])
		}
		answer.Topics = append(answer.Topics, topic)
	}
	return answer, nil
}

// unread makes the bounds of a partition such as could not be read.
func unread(p *ackmeshv1.Partition) {
	p.MinOffset, p.MaxOffset = 0, 0
	p.Bounds, p.BoundsError = ackmeshv1.BoundsState_BOUNDS_STATE_UNKNOWN, "no broker"
}

func (f *fakeServer) CreateTopic(_ context.Context, req *ackmeshv1.CreateTopicRequest) (*ackmeshv1.CreateTopicResponse, error) {
	f.created = req
	return &ackmeshv1.CreateTopicResponse{Topic: fakeTopic(req.GetTopic())}, nil
}

func (f *fakeServer) DeleteTopic(_ context.Context, req *ackmeshv1.DeleteTopicRequest) (*ackmeshv1.DeleteTopicResponse, error) {
	f.deleted = req.GetTopic()
	if req.GetTopic() != "orders" {
		return nil, status.Errorf(codes.NotFound, "there is no topic %q", req.GetTopic())
	}
	return &ackmeshv1.DeleteTopicResponse{}, nil
}

func (f *fakeServer) GetOffsets(_ context.Context, req *ackmeshv1.GetOffsetsRequest) (*ackmeshv1.GetOffsetsResponse, error) {
	return &ackmeshv1.GetOffsetsResponse{Offsets: []*ackmeshv1.PartitionOffsets{{
		Topic: req.GetTopic(), Subscriber: req.GetSubscriber(), Partition: "0", MinOffset: 1, MaxOffset: 10, Position: 7,
		Lag: 3, InFlight: 2, FinishedAhead: 1, Waiting: 4, Epoch: 5,
	}, {
		Topic: req.GetTopic(), Subscriber: req.GetSubscriber(), Partition: "1", Position: 8,
		Bounds: ackmeshv1.BoundsState_BOUNDS_STATE_UNKNOWN, BoundsError: "no broker",
	}, {
		Topic: req.GetTopic(), Subscriber: req.GetSubscriber(), Partition: "2", Position: 9,
		Bounds: ackmeshv1.BoundsState_BOUNDS_STATE_ABSENT,
	}}}, nil
}

func (f *fakeServer) Recommend(_ context.Context, req *ackmeshv1.RecommendRequest) (*ackmeshv1.RecommendResponse, error) {
	return &ackmeshv1.RecommendResponse{InstanceId: "for-" + req.GetClientId(), InstanceUrl: "127.0.0.1:7460", Score: 1.5}, nil
}

func TestAdminCommands(t *testing.T) {
	f := new(fakeServer)
	addr := f.start(t)
	tests := []struct {
		args string
		code int
		want []string
	}{
		{"topics list", exitOK, []string{"TOPIC       PARTITIONS  OFFSETS\n", "orders      2           12\n", "orders_DLQ  2           12\n"}},
		{"topics list --prefix far", exitOK, []string{"far    2           7+\n", `ackmesh: topic "far": bounds not known (partitions: 1): no broker` + "\n"}},
		{"topics describe far", exitOK, []string{"0          3      10\n", "1          ?      ?\n", "bounds not known (partitions: 1): no broker\n"}},
		{"topics list --prefix orders_", exitOK, []string{"orders_DLQ"}},
		{"topics list --json", exitOK, []string{`"maxOffset"`, `"10"`}},
		{"topics describe orders", exitOK, []string{"topic orders (id id-1)\n", "PARTITION  FIRST  NEXT\n", "0          3      10\n", "1          0      5\n"}},
		{"topics describe order", exitFailed, []string{`there is no topic "order"`}},
		{"topics create new --partitions 2 --retention 1h", exitOK, []string{"topic new"}},
		{"topics delete orders", exitOK, []string{"topic orders is deleted\n"}},
		{"topics delete other", exitFailed, []string{"ackmesh: " + addr + `: NOT_FOUND: there is no topic "other"` + "\n"}},
		{"offsets get --topic t --subscriber client/c", exitOK, []string{
			"TOPIC  SUBSCRIBER  PARTITION  FIRST  POSITION  NEXT  LAG  AHEAD  IN FLIGHT  WAITING  EPOCH\n",
			"t      client/c    0          1      7         10    3    1      2          4        5\n",
			"t      client/c    1          ?      8         ?     ?    0      0          0        0\n",
			"t      client/c    2          -      9         -     -    0      0          0        0\n",
			`ackmesh: topic "t": bounds not known (partitions: 1): no broker` + "\n",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			call(t, nil, append(strings.Fields(tt.args), "--admin", addr)...).want(t, tt.code, tt.want...)
		})
	}
	if f.created.GetPartitions() != 2 || f.created.GetRetention().GetSeconds() != 3600 {
		t.Errorf("asked to create %v", f.created)
	}
}

func TestRecommend(t *testing.T) {
	addr := new(fakeServer).start(t)
	fromEnv := func(a *app) { a.environ = []string{"ACKMESH_SERVER=" + addr} }
	call(t, fromEnv, "recommend", "--client", "c").want(t, exitOK, "INSTANCE  ADDRESS         SCORE\n", "for-c     127.0.0.1:7460  1.5\n")
	call(t, fromEnv, "recommend", "--json").want(t, exitOK, `"instanceUrl"`)
}

func TestUnreachableServer(t *testing.T) {
	addr := new(fakeServer).start(t)
	call(t, nil, "topics", "list", "--admin", "127.0.0.1:1", "--timeout", "5s").want(t, exitFailed, "127.0.0.1:1: UNAVAILABLE: ", "'ackmesh serve' starts one")
	call(t, nil, "topics", "list", "--admin", addr, "--timeout", "1ns").want(t, exitFailed, addr+": DEADLINE_EXCEEDED: ")
}

package auth

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// team is a set of tokens, each with one restriction.
var team = []string{
	entry("pub", "roles: [publish]", `topics: ["orders*"]`),
	entry("sub", "roles: [subscribe]", `topics: ["orders*"]`, `clients: ["o-*"]`, "shares: [billing]"),
	entry("alone", "roles: [subscribe]", `topics: ["*"]`, "clients: [alone]"),
	entry("default", "roles: [subscribe]", "topics: [orders]", `clients: ["*"]`, `shares: [""]`),
	entry("reader", "roles: [admin-read]", `topics: ["orders*"]`, `clients: ["o-*"]`, "shares: [billing]"),
	entry("boss", "roles: [admin]", `topics: ["orders*"]`, `clients: ["o-*"]`, "shares: [billing]"),
	entry("all", "roles: [publish, subscribe, admin]", `topics: ["*"]`, `clients: ["*"]`, `shares: ["*"]`),
}

// TestDataCalls is the table of who may do what on the data listener. What is
// missing is named.
func TestDataCalls(t *testing.T) {
	k, _ := keep(t, team...)
	tests := []struct {
		token, call string
		do          func(c *Caller) error
		missing     string // "" : allowed
	}{
		{"pub", "publish", func(c *Caller) error { return c.Publish("orders") }, ""},
		{"pub", "publish to dead letters", func(c *Caller) error { return c.Publish("orders_DLQ") }, ""},
		{"pub", "publish elsewhere", func(c *Caller) error { return c.Publish("payments") }, `the topic "payments"`},
		{"pub", "subscribe", func(c *Caller) error { return c.Subscribe("o-1", "orders") }, "role subscribe"},
		{"sub", "publish", func(c *Caller) error { return c.Publish("orders") }, "role publish"},
		{"sub", "client", func(c *Caller) error { return c.Client("o-1") }, ""},
		{"sub", "another's client", func(c *Caller) error { return c.Client("p-1") }, `the client id "p-1"`},
		{"sub", "subscribe", func(c *Caller) error { return c.Subscribe("o-1", "orders") }, ""},
		{"sub", "subscribe as another", func(c *Caller) error { return c.Subscribe("p-1", "orders") }, `the client id "p-1"`},
		{"sub", "another topic", func(c *Caller) error { return c.Subscribe("o-1", "payments") }, `the topic "payments"`},
		{"sub", "join", func(c *Caller) error { return c.Join("o-1", "orders", "billing") }, ""},
		{"sub", "another share", func(c *Caller) error { return c.Join("o-1", "orders", "shipping") }, `the share "shipping"`},
		{"sub", "the default share", func(c *Caller) error { return c.Join("o-1", "orders", "") }, "the default share of a topic"},
		{"sub", "join as another", func(c *Caller) error { return c.Join("p-1", "orders", "billing") }, `the client id "p-1"`},
		{"sub", "join elsewhere", func(c *Caller) error { return c.Join("o-1", "payments", "billing") }, `the topic "payments"`},
		{"alone", "any topic", func(c *Caller) error { return c.Subscribe("alone", "payments") }, ""},
		{"alone", "no share", func(c *Caller) error { return c.Join("alone", "payments", "alone") }, `the share "alone"`},
		{"default", "the default share", func(c *Caller) error { return c.Join("x", "orders", "") }, ""},
		{"default", "a named share", func(c *Caller) error { return c.Join("x", "orders", "y") }, `the share "y"`},
		{"boss", "publish", func(c *Caller) error { return c.Publish("orders") }, "role publish"},
		{"boss", "subscribe", func(c *Caller) error { return c.Client("o-1") }, "role subscribe"},
		{"all", "publish", func(c *Caller) error { return c.Publish("x") }, ""},
		{"all", "join", func(c *Caller) error { return c.Join("x", "y", "") }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.token+" "+tt.call, func(t *testing.T) {
			checkMissing(t, tt.do(caller(t, k, tt.token)), tt.token, tt.missing)
		})
	}
}

// checkMissing checks that what was refused names the token and what it lacks.
func checkMissing(t *testing.T, err error, token, missing string) {
	t.Helper()
	if missing == "" {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), missing) || !strings.Contains(err.Error(), fmt.Sprintf("token %q", token)) {
		t.Errorf("got %v, want PERMISSION_DENIED that names %s", err, missing)
	}
}

// TestOperate is the table of who may do what on the listener of operators.
func TestOperate(t *testing.T) {
	k, _ := keep(t, team...)
	tests := []struct {
		token   string
		req     any
		missing string
	}{
		{"reader", &pb.ListTopicsRequest{}, ""},
		{"reader", &pb.GetOffsetsRequest{}, ""},
		{"reader", &pb.GetOffsetsRequest{Topic: "orders", Subscriber: "share/billing"}, ""},
		{"reader", &pb.GetOffsetsRequest{Topic: "payments"}, `the topic "payments"`},
		{"reader", &pb.GetOffsetsRequest{Subscriber: "share/shipping"}, `the share "shipping"`},
		{"reader", &pb.GetOffsetsRequest{Subscriber: "client/p-1"}, `the client id "p-1"`},
		{"reader", &pb.ListClientsRequest{}, ""},
		{"reader", &pb.ListClientsRequest{ClientId: "p-1"}, `the client id "p-1"`},
		{"reader", &pb.ListDeadLettersRequest{Topic: "payments"}, `the topic "payments"`},
		{"pub", &pb.ListTopicsRequest{}, "role admin-read"},
		{"boss", &pb.CreateTopicRequest{Topic: "orders-2"}, ""},
		{"boss", &pb.CreateTopicRequest{Topic: "payments"}, `the topic "payments"`},
		{"boss", &pb.DeleteTopicRequest{Topic: "payments"}, `the topic "payments"`},
		{"boss", &pb.DeleteTopicRequest{}, `no "*" in its topics`},
		{"boss", &pb.ResetOffsetRequest{Topic: "orders", Subscriber: "share/billing"}, ""},
		{"boss", &pb.ResetOffsetRequest{Topic: "orders", Subscriber: "client/o-7"}, ""},
		{"boss", &pb.ResetOffsetRequest{Topic: "payments", Subscriber: "share/billing"}, `the topic "payments"`},
		{"boss", &pb.ResetOffsetRequest{Topic: "orders", Subscriber: "share/"}, "the default share"},
		{"boss", &pb.DeleteSubscriberRequest{Topic: "orders", Subscriber: "client/p-1"}, `the client id "p-1"`},
		{"boss", &pb.EvictClientRequest{ClientId: "o-1"}, ""},
		{"boss", &pb.EvictClientRequest{ClientId: "p-1"}, `the client id "p-1"`},
		{"boss", &pb.ReplayDeadLettersRequest{Topic: "orders", Subscriber: "share/billing"}, ""},
		{"boss", &pb.ReplayDeadLettersRequest{Topic: "orders"}, `no "*" in its clients`},
		{"boss", &pb.PurgeDeadLettersRequest{Topic: "orders"}, `no "*" in its clients`},
		{"boss", &pb.SetRateLimitRequest{Topic: "orders"}, `no "*" in its clients`},
		{"boss", &pb.SetRateLimitRequest{ClientId: "o-1"}, `no "*" in its topics`},
		{"boss", &pb.DrainRequest{}, `no "*" in its topics`},
		{"all", &pb.DrainRequest{}, ""},
		{"all", &pb.PurgeDeadLettersRequest{Topic: "payments"}, ""},
		{"all", &pb.SetRateLimitRequest{}, ""},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s %T %v", tt.token, tt.req, tt.req), func(t *testing.T) {
			checkMissing(t, caller(t, k, tt.token).Operate(tt.req), tt.token, tt.missing)
		})
	}
}

// TestHide: listings show what the caller's patterns match, and no more.
func TestHide(t *testing.T) {
	k, _ := keep(t, team...)
	topics := func() *pb.ListTopicsResponse {
		return &pb.ListTopicsResponse{Topics: []*pb.Topic{{Topic: "orders"}, {Topic: "payments"}, {Topic: "orders_DLQ"}}}
	}
	offsets := func() *pb.GetOffsetsResponse {
		var r pb.GetOffsetsResponse
		for _, topic := range []string{"orders", "payments"} {
			for _, sub := range []string{"share/billing", "share/shipping", "share/", "client/o-1", "client/p-1"} {
				r.Offsets = append(r.Offsets, &pb.PartitionOffsets{Topic: topic, Subscriber: sub})
			}
		}
		return &r
	}
	for token, want := range map[string][2]int{"reader": {2, 2}, "boss": {2, 2}, "all": {3, 10}} {
		c, ts, os := caller(t, k, token), topics(), offsets()
		if err := c.Hide(ts); err != nil || len(ts.Topics) != want[0] {
			t.Errorf("%s sees topics %v, %v", token, ts.Topics, err)
		}
		if err := c.Hide(os); err != nil || len(os.Offsets) != want[1] {
			t.Errorf("%s sees offsets %v, %v", token, os.Offsets, err)
		}
	}
	c := caller(t, k, "reader")
	clients := &pb.ListClientsResponse{Clients: []*pb.Client{{ClientId: "o-1", Subscriptions: []*pb.Subscription{
		{Topic: "orders", Mode: pb.Mode_MODE_LOAD_BALANCE, Share: "billing"},
		{Topic: "orders", Mode: pb.Mode_MODE_LOAD_BALANCE, Share: "shipping"},
		{Topic: "orders", Mode: pb.Mode_MODE_BROADCAST},
		{Topic: "payments", Mode: pb.Mode_MODE_BROADCAST},
		{Topic: "orders", Mode: pb.Mode_MODE_LOAD_BALANCE},
	}}, {ClientId: "p-1"}}}
	letters := &pb.ListDeadLettersResponse{DeadLetters: []*pb.DeadLetter{
		{Topic: "orders", Subscriber: "client/o-1"}, {Topic: "orders", Subscriber: "client/p-1"},
	}}
	subs := &pb.ListSubscribersResponse{Subscribers: []*pb.Subscriber{
		{Topic: "orders", Subscriber: "share/billing"}, {Topic: "orders", Subscriber: "share/x"}, {Topic: "x", Subscriber: "share/billing"},
	}}
	for _, answer := range []any{clients, letters, subs} {
		if err := c.Hide(answer); err != nil {
			t.Error(err)
		}
	}
	if len(clients.Clients) == 1 && len(clients.Clients[0].Subscriptions) != 2 {
		t.Errorf("subscriptions seen: %v", clients.Clients[0].Subscriptions)
	}
	if len(clients.Clients) != 1 || len(letters.DeadLetters) != 1 || len(subs.Subscribers) != 1 {
		t.Errorf("seen: %v, %v, %v", clients, letters, subs)
	}
}

// TestErrorDetails: a program can read what is missing.
func TestErrorDetails(t *testing.T) {
	k, _ := keep(t, team...)
	c := caller(t, k, "sub")
	for _, tt := range []struct {
		err    error
		reason string
		meta   map[string]string
	}{
		{c.Publish("orders"), ReasonRole, map[string]string{"token": "sub", "role": "publish"}},
		{c.Join("o-1", "orders", "x"), ReasonPattern, map[string]string{"token": "sub", "list": "shares", "name": "x"}},
		{c.Operate(&pb.DrainRequest{}), ReasonRole, map[string]string{"token": "sub", "role": "admin-read"}},
		{Unauthenticated(), ReasonNoToken, nil},
	} {
		details := status.Convert(tt.err).Details()
		if len(details) != 1 {
			t.Fatalf("%v has details %v", tt.err, details)
		}
		info, ok := details[0].(*errdetails.ErrorInfo)
		if !ok || info.GetReason() != tt.reason || fmt.Sprint(info.GetMetadata()) != fmt.Sprint(tt.meta) && len(tt.meta) > 0 {
			t.Errorf("%v has details %v", tt.err, info)
		}
	}
}

// TestNeeds: every method of every service has a need of its own, and one that
// nobody thought of has the greatest.
func TestNeeds(t *testing.T) {
	for _, service := range []struct {
		name    string
		methods []string
	}{
		{pb.EventMesh_ServiceDesc.ServiceName, methodsOf(pb.File_ackmesh_v1_eventmesh_proto.Services().Get(0).Methods())},
		{pb.Lite_ServiceDesc.ServiceName, methodsOf(pb.File_ackmesh_v1_lite_proto.Services().Get(0).Methods())},
		{pb.Session_ServiceDesc.ServiceName, methodsOf(pb.File_ackmesh_v1_session_proto.Services().Get(0).Methods())},
	} {
		for _, m := range service.methods {
			if full := "/" + service.name + "/" + m; !NeedOf(full).Data() {
				t.Errorf("%s needs %v", full, NeedOf(full))
			}
		}
	}
	for _, m := range methodsOf(pb.File_ackmesh_v1_admin_proto.Services().Get(0).Methods()) {
		want := NeedAdmin
		if strings.HasPrefix(m, "List") || strings.HasPrefix(m, "Get") {
			want = NeedAdminRead
		}
		if full := "/" + pb.Admin_ServiceDesc.ServiceName + "/" + m; NeedOf(full) != want {
			t.Errorf("%s needs %v", full, NeedOf(full))
		}
	}
	for full, want := range map[string]Need{
		"/grpc.health.v1.Health/Check":                                   NeedNothing,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      NeedNothing,
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": NeedNothing,
		"/grpc.channelz.v1.Channelz/GetServers":                          NeedAdminRead,
		"/session/recommend":                                             NeedToken,
		"/some.other/Method":                                             NeedAdmin,
		"":                                                               NeedAdmin,
	} {
		if NeedOf(full) != want {
			t.Errorf("%q needs %v", full, NeedOf(full))
		}
	}
	for need, role := range map[Need]Role{NeedPublish: RolePublish, NeedSubscribe: RoleSubscribe, NeedAdminRead: RoleAdminRead, NeedAdmin: RoleAdmin, NeedToken: 0} {
		if need.Role() != role {
			t.Errorf("need %v is for role %v", need, need.Role())
		}
	}
}

func methodsOf(list protoreflect.MethodDescriptors) (names []string) {
	for i := range list.Len() {
		names = append(names, string(list.Get(i).Name()))
	}
	return names
}

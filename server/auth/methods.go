package auth

import (
	"strings"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// Need is what a method asks of its caller.
type Need uint8

// The needs.
const (
	// NeedNothing: anyone may call it.
	NeedNothing Need = iota
	// NeedToken: any token will do, and none where data calls need none.
	NeedToken
	// NeedPublish and NeedSubscribe: a token of that role, and none where data
	// calls need none.
	NeedPublish
	NeedSubscribe
	// NeedAdminRead and NeedAdmin: a token of that role, always.
	NeedAdminRead
	NeedAdmin
)

// Role is the role that a need is for; 0: any.
func (n Need) Role() Role {
	switch n {
	case NeedPublish:
		return RolePublish
	case NeedSubscribe:
		return RoleSubscribe
	case NeedAdminRead:
		return RoleAdminRead
	case NeedAdmin:
		return RoleAdmin
	}
	return 0
}

// Data tells whether the need holds only where data calls need a token.
func (n Need) Data() bool { return n == NeedToken || n == NeedPublish || n == NeedSubscribe }

// needs of the methods that are not known by their service.
var needs = map[string]Need{
	pb.EventMesh_Publish_FullMethodName:       NeedPublish,
	pb.EventMesh_PublishStream_FullMethodName: NeedPublish,
	pb.EventMesh_Subscribe_FullMethodName:     NeedSubscribe,
	pb.Lite_CreateLiteTopic_FullMethodName:    NeedPublish,
	pb.Lite_PublishLite_FullMethodName:        NeedPublish,
	pb.Lite_SubscribeLite_FullMethodName:      NeedSubscribe,
	pb.Session_Recommend_FullMethodName:       NeedToken,
	"/session/recommend":                      NeedToken,
	pb.Admin_ListTopics_FullMethodName:        NeedAdminRead,
	pb.Admin_ListSubscribers_FullMethodName:   NeedAdminRead,
	pb.Admin_ListClients_FullMethodName:       NeedAdminRead,
	pb.Admin_GetOffsets_FullMethodName:        NeedAdminRead,
	pb.Admin_ListDeadLetters_FullMethodName:   NeedAdminRead,
	pb.Admin_ListRateLimits_FullMethodName:    NeedAdminRead,
}

// NeedOf says what a method needs. One that is not known needs the most.
func NeedOf(fullMethod string) Need {
	if n, ok := needs[fullMethod]; ok {
		return n
	}
	switch {
	case strings.HasPrefix(fullMethod, "/grpc.health."), strings.HasPrefix(fullMethod, "/grpc.reflection."):
		return NeedNothing
	case strings.HasPrefix(fullMethod, "/grpc.channelz."):
		return NeedAdminRead
	}
	return NeedAdmin
}

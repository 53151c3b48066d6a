package servertest_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
)

// haunted is a log that lists a topic which is deleted a moment later.
type haunted struct{ storage.Backend }

func (h haunted) Unwrap() storage.Backend { return h.Backend }

func (h haunted) Topics(ctx context.Context) ([]storage.Topic, error) {
	list, err := h.Backend.Topics(ctx)
	return slices.Insert(list, 0, storage.Topic{Name: "ghost", Partitions: []string{"0"}}), err
}

// TestListingAmidDeletions: a topic that is deleted while topics are listed does
// not cost the list.
func TestListingAmidDeletions(t *testing.T) {
	in := Start(t, Options{Wrap: func(b storage.Backend) storage.Backend { return haunted{b} }})
	Publish(t, in.Mesh(), "t", "x")
	res, err := in.Admin().ListTopics(context.Background(), &pb.ListTopicsRequest{})
	if err != nil || len(res.GetTopics()) != 1 || res.GetTopics()[0].GetTopic() != "t" {
		t.Errorf("listed: %v, %v", res, err)
	}
}

// TestLongTexts: texts that are too long for an answer are refused without being
// repeated in it.
func TestLongTexts(t *testing.T) {
	in := Start(t, Options{})
	admin, ctx := in.Admin(), context.Background()
	long := strings.Repeat("x", 2<<20)
	to := &pb.Start{Place: &pb.Start_Offset{}}
	_, get := admin.GetOffsets(ctx, &pb.GetOffsetsRequest{Subscriber: long})
	_, sub := admin.ResetOffset(ctx, &pb.ResetOffsetRequest{Topic: "t", Subscriber: "client/" + long, To: to})
	_, part := admin.ResetOffset(ctx, &pb.ResetOffsetRequest{Topic: "t", Subscriber: "client/c", Partition: long, To: to})
	_, evict := admin.EvictClient(ctx, &pb.EvictClientRequest{ClientId: "c", Reason: long})
	_, drain := admin.Drain(ctx, &pb.DrainRequest{InstanceId: long})
	for what, err := range map[string]error{"get": get, "subscriber": sub, "partition": part, "evict": evict, "drain": drain} {
		if st := status.Convert(err); st.Code() != codes.InvalidArgument || len(st.Message()) > 1000 {
			t.Errorf("%s: %v with a message of %d bytes", what, st.Code(), len(st.Message()))
		}
	}
	if _, err := admin.EvictClient(ctx, &pb.EvictClientRequest{ClientId: "c", Reason: strings.Repeat("x", 1024)}); err != nil {
		t.Error(err)
	}
}

// TestShortRetention: a topic's own retention is no shorter than the server's may
// be: what is published would be gone before it is read.
func TestShortRetention(t *testing.T) {
	in := Start(t, Options{})
	for d, code := range map[time.Duration]codes.Code{
		-time.Second: codes.InvalidArgument, 0: codes.InvalidArgument, 1: codes.InvalidArgument,
		time.Second - 1: codes.InvalidArgument, time.Second: codes.OK,
	} {
		req := &pb.CreateTopicRequest{Topic: "t" + d.String(), Retention: durationpb.New(d)}
		if _, err := in.Admin().CreateTopic(context.Background(), req); status.Code(err) != code {
			t.Errorf("a retention of %v: %v, want %v", d, err, code)
		}
	}
}

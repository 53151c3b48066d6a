package servertest_test

import (
	"context"
	"slices"
	"testing"

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

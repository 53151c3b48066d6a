package servertest_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// TestWhoAnswersWrongly: a record that its client always answers in a way that ends
// the stream does not come for ever: that costs an attempt like any other break. What
// was acked before is answered.
func TestWhoAnswersWrongly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		letters := Open(t, in.Mesh(), open("letters", Sub("t_DLQ", broadcast)))
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", "good", "bad")
		for tries := 1; !letters.Await(time.Millisecond, 1); tries++ {
			if tries > 10 {
				t.Fatal("it comes again and again")
			}
			for good := tries == 1; ; good = false {
				g := s.Take(1)[0]
				if good {
					s.Ack(g)
					continue
				}
				s.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Nack{Nack: &pb.Nack{
					DeliveryIds: []uint64{g.ID}, Reason: strings.Repeat("x", 1025),
				}}})
				break
			}
			if err := s.End(); status.Code(err) != codes.InvalidArgument {
				t.Fatalf("a reason of 1025 bytes: %v", err)
			}
			s = Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		}
		if got := Data(letters.Take(1)); got[0] != "bad" {
			t.Errorf("the dead letter: %q", got)
		}
		if p := position(t, in, "t", "client/c"); p.GetPosition() != 2 {
			t.Errorf("position: %v", p)
		}
	})
}

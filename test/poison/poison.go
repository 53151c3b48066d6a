// Package poison sends one record that kills the server whenever it is
// delivered, among many that do not.
package poison

import (
	"context"
	"fmt"
	"testing"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/test/process"
	"github.com/ackmesh/ackmesh/test/site"
)

// KillsTheServer: a record whose delivery kills the server, with 200 neighbours of
// all partitions in flight, is sent at most six times in all; then it is the only
// dead letter, and every neighbour is finished.
func KillsTheServer(t *testing.T, at site.Site) {
	topic := at.Topic(t, "poison", 4)
	srv := at.Start(t, t.TempDir(), 1)
	mesh, admin := pb.NewEventMeshClient(srv.Dial()), pb.NewAdminClient(srv.DialAdmin())
	open := &pb.Open{ClientId: "c", Subscriptions: []*pb.Subscription{servertest.Sub(topic, pb.Mode_MODE_BROADCAST)}}
	if err := servertest.Open(t, mesh, open).CloseSend(); err != nil {
		t.Fatal(err)
	}
	data := servertest.Numbers(201)
	data[100] = "poison"
	for i, d := range data {
		servertest.PublishKey(t, mesh, topic, fmt.Sprint("key ", i%16), d)
	}
	sent, finished := 0, map[string]bool{}
	for range 2 { // with all in flight: from then on all are suspects, which come alone
		servertest.Open(t, mesh, open).Take(len(data))
		sent++
		srv.Kill()
		srv.Up()
	}
	for deadline := time.Now().Add(3 * time.Minute); ; {
		if time.Now().After(deadline) {
			t.Fatalf("after %d deliveries of the poison and %d of 200 neighbours finished there is no end", sent, len(finished))
		}
		if len(letters(t, admin, topic)) > 0 && len(finished) == 200 {
			break
		}
		s := servertest.Open(t, mesh, open)
		came := s.UntilPoison(finished)
		s.Break()
		if came {
			sent++
			srv.Kill()
			srv.Up()
		}
		if sent > 6 {
			t.Fatalf("the poison was sent %d times", sent)
		}
	}
	list := letters(t, admin, topic)
	if len(list) != 1 || string(list[0].GetFrame().GetData()) != "poison" {
		t.Fatalf("dead letters: %v", list)
	}
	t.Logf("the poison was sent %d times", sent)
	srv.Check()
}

func letters(t *testing.T, admin pb.AdminClient, topic string) []*pb.DeadLetter {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), process.Patience)
	defer cancel()
	res, err := admin.ListDeadLetters(ctx, &pb.ListDeadLettersRequest{Topic: topic})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetDeadLetters()
}

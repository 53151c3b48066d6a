package servertest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/storagefault"
)

// faulty is options with a log that can be made to fail.
func faulty(t *testing.T) (Options, *storagefault.Backend) {
	o := Lasting(t)
	faults := storagefault.New(o.Backend)
	o.Backend = faults
	return o, faults
}

// dead nacks a delivery for good.
func dead(s *Stream, got ...Got) {
	for _, g := range got {
		s.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Nack{Nack: &pb.Nack{
			DeliveryIds: []uint64{g.ID}, DeadLetter: true, Reason: "test",
		}}})
	}
}

// TestDeletedStaysDeleted: what is under way for a subscriber when it is deleted
// does not bring it back.
func TestDeletedStaysDeleted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Lasting(t)
		store := Store(t)
		o.Store = store
		in := Start(t, o)
		s := OpenFrom(t, in.Mesh(), "c", "t", Earliest())
		Publish(t, in.Mesh(), "t", Numbers(3)...)
		got := s.Take(3)
		release := store.HoldWrites()
		s.Ack(got...)
		synctest.Wait()
		s.Break()
		synctest.Wait()
		deleted := make(chan error, 1)
		admin := in.Admin()
		go func() {
			_, err := admin.DeleteSubscriber(context.Background(), &pb.DeleteSubscriberRequest{Topic: "t", Subscriber: "client/c"})
			deleted <- err
		}()
		synctest.Wait()
		release()
		if err := <-deleted; err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		res, err := admin.GetOffsets(context.Background(), &pb.GetOffsetsRequest{Topic: "t"})
		if err != nil || len(res.GetOffsets()) != 0 {
			t.Fatalf("after the deletion: %v, %v", res.GetOffsets(), err)
		}
		s = OpenFrom(t, in.Mesh(), "c", "t", Earliest())
		wantOffsets(t, s.Take(3), seq(0, 3))
		_, err = admin.DeleteSubscriber(context.Background(), &pb.DeleteSubscriberRequest{Topic: "t", Subscriber: "client/c"})
		if status.Code(err) != codes.FailedPrecondition {
			t.Errorf("deletion of a live one: %v", err)
		}
	})
}

// TestDeadLetterOutlivesItsStream: a dead letter is noted though the stream that
// it died on has gone while it was written.
func TestDeadLetterOutlivesItsStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o, faults := faulty(t)
		in := Start(t, o)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", "x")
		slow := faults.Inject(storagefault.Fault{Op: storagefault.Append, Topic: "t_DLQ", Hang: true})
		dead(s, s.Take(1)...)
		<-slow.Struck()
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		slow.Remove()
		untilLetters(t, in, "t", 1)
		if p := position(t, in, "t", "client/c"); p.GetPosition() != 1 {
			t.Errorf("floor at %d", p.GetPosition())
		}
	})
}

// TestDeadLettersHoldNobodyUp: dead letters that cannot be written do not keep
// others from what they read from the disk.
func TestDeadLettersHoldNobodyUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o, faults := faulty(t)
		in := Start(t, o)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "u", Numbers(3)...)
		near := Open(t, in.Mesh(), open("near", Sub("u", broadcast)))
		Publish(t, in.Mesh(), "t", Numbers(40)...)
		Publish(t, in.Mesh(), "u", "4th")
		near.AckDurable(near.Take(1)...)
		stuck := faults.Inject(storagefault.Fault{Op: storagefault.Append, Topic: "t_DLQ", Hang: true})
		dead(s, s.Take(40)...)
		<-stuck.Struck()
		far := OpenFrom(t, in.Mesh(), "far", "u", Earliest())
		if !far.Await(soon, 3) {
			t.Error("the reads of another topic wait for the dead letters of this one")
		}
		stuck.Remove()
		untilLetters(t, in, "t", 40)
	})
}

// TestDeadLetterTooLarge: a record that fits its topic but not that of the dead
// letters goes on the ledger alone, and the rest goes on.
func TestDeadLetterTooLarge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o, faults := faulty(t)
		in := Start(t, o)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", "x")
		faults.Inject(storagefault.Fault{Op: storagefault.Append, Topic: "t_DLQ", Err: storage.ErrTooLarge})
		dead(s, s.Take(1)...)
		list := untilLetters(t, in, "t", 1)
		if got := string(list[0].GetFrame().GetData()); got != "x" {
			t.Errorf("the letter shows %q: %v", got, list[0])
		}
	})
}

// TestDeadLettersOfARecreatedTopic: a dead letter of a topic is no repeat of one
// of its predecessor that had the same place, however shortly before.
func TestDeadLettersOfARecreatedTopic(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Lasting(t))
		for i, data := range []string{"old", "new"} {
			Publish(t, in.Mesh(), "t", data)
			s := OpenFrom(t, in.Mesh(), "c", "t", Earliest())
			dead(s, s.Take(1)...)
			untilLetters(t, in, "t", i+1)
			if err := s.CloseSend(); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
			if _, err := in.Admin().DeleteTopic(context.Background(), &pb.DeleteTopicRequest{Topic: "t"}); err != nil {
				t.Fatal(err)
			}
		}
		s := OpenFrom(t, in.Mesh(), "reader", "t_DLQ", Earliest())
		if got := Data(s.Take(2)); got[0] != "old" || got[1] != "new" {
			t.Errorf("the dead letters are %q", got)
		}
	})
}

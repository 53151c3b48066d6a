package servertest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// TestAbsenceIsThatOfTheLastLeave: a subscriber that was away once and came back
// is not removed after a crash for that first absence, however long ago it was and
// however quiet its topic has been since.
func TestAbsenceIsThatOfTheLastLeave(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := Lasting(t)
		store := Store(t)
		o.Store = store
		o.Config = func(c *server.Config) { c.Subscriber.Expiry = 24 * time.Hour }
		in := Start(t, o)
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Hour)
		Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		<-time.After(48 * time.Hour)
		store.FailWrites(errors.New("the power is gone"))
		in.Stop()
		store.FailWrites(nil)
		in = Start(t, o)
		<-time.After(3 * time.Hour)
		Publish(t, in.Mesh(), "t", "meanwhile")
		synctest.Wait()
		again := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		if got := Data(again.Take(1)); got[0] != "meanwhile" {
			t.Errorf("it got %q", got)
		}
	})
}

// TestAbsenceThatIsKnownInPart: where a crash has left a partition without a date,
// those of others tell nothing of how long the subscriber has been away.
func TestAbsenceThatIsKnownInPart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := Store(t)
		o := Options{Backend: Log(t, 2), Store: store, Config: func(c *server.Config) { c.Subscriber.Expiry = 24 * time.Hour }}
		in := Start(t, o)
		Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		synctest.Wait()
		store.FailWrites(errors.New("the power is gone"))
		in.Stop()
		store.FailWrites(nil)
		key := offsetstore.Key{Topic: "t", Subscriber: offsetstore.Subscriber{Kind: offsetstore.KindClient, Name: "c"}, Partition: "1"}
		v, ok, err := store.Get(key)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		v.Absent = time.Now().Add(-48 * time.Hour).UnixMilli()
		if err := offsetstore.Commit(t.Context(), store, &offsetstore.Txn{Puts: []offsetstore.Put{{Key: key, Value: v}}}); err != nil {
			t.Fatal(err)
		}
		in = Start(t, o)
		<-time.After(23 * time.Hour)
		if list := subscribers(t, in); len(list) != 1 {
			t.Fatalf("after 23 hours: %v", list)
		}
		<-time.After(4 * time.Hour)
		if list := subscribers(t, in); len(list) != 0 {
			t.Fatalf("after 27 hours: %v", list)
		}
	})
}

func subscribers(t *testing.T, in *Instance) []*pb.Subscriber {
	t.Helper()
	res, err := in.Admin().ListSubscribers(context.Background(), &pb.ListSubscribersRequest{Topic: "t"})
	if err != nil {
		t.Fatal(err)
	}
	return res.GetSubscribers()
}

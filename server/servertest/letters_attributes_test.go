package servertest_test

import (
	"fmt"
	"maps"
	"testing"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	. "github.com/ackmesh/ackmesh/server/servertest"
)

// bury has a delivery made a dead letter, and waits for it.
func bury(t *testing.T, in *Instance, s *Stream, g Got, letters int) (last *pb.DeadLetter) {
	t.Helper()
	s.Send(&pb.SubscribeRequest{Kind: &pb.SubscribeRequest_Nack{Nack: &pb.Nack{DeliveryIds: []uint64{g.ID}, DeadLetter: true}}})
	Eventually(t, Patience, func() error {
		res, err := in.Admin().ListDeadLetters(t.Context(), &pb.ListDeadLettersRequest{Topic: g.Topic})
		if n := len(res.GetDeadLetters()); err != nil || n != letters {
			return fmt.Errorf("%d dead letters, want %d: %w", n, letters, err)
		}
		last = res.GetDeadLetters()[letters-1]
		return nil
	})
	return last
}

// TestReplayOfTheRightLetter: a topic of dead letters that was made anew holds other
// letters where the old ones were. None is taken for another.
func TestReplayOfTheRightLetter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		Publish(t, in.Mesh(), "t", "first", "second")
		got := s.Take(2)
		first := bury(t, in, s, got[0], 1)
		if _, err := in.Admin().DeleteTopic(t.Context(), &pb.DeleteTopicRequest{Topic: "t_DLQ"}); err != nil {
			t.Fatal(err)
		}
		bury(t, in, s, got[1], 2)
		res, err := in.Admin().ListDeadLetters(t.Context(), &pb.ListDeadLettersRequest{Topic: "t"})
		if err != nil {
			t.Fatal(err)
		}
		for _, let := range res.GetDeadLetters() {
			if want := []string{"first", "second"}[let.GetOffset()]; string(let.GetFrame().GetData()) != want {
				t.Errorf("the letter of the %s: %v", want, let)
			}
		}
		if _, err := in.Admin().ReplayDeadLetters(t.Context(), &pb.ReplayDeadLettersRequest{Topic: "t", Ids: []string{first.GetId()}}); err != nil {
			t.Fatal(err)
		}
		if again := s.Take(1)[0]; again.Data() != "first" {
			t.Errorf("replayed: %s", again.Data())
		}
	})
}

// TestReplayOfAllAttributes: a dead letter has no room for all attributes of an event
// that has very many. Replay publishes them all, as long as the log holds the event.
func TestReplayOfAllAttributes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in := Start(t, Options{})
		s := Open(t, in.Mesh(), open("c", Sub("t", broadcast)))
		attrs := map[string]string{"type": "a", "subject": "b", "datacontenttype": "c", "dataschema": "d", "traceparent": "e"}
		for i := range 51 {
			attrs[fmt.Sprintf("x%d", i)] = fmt.Sprint(i)
		}
		req := &pb.PublishRequest{Topic: "t", PartitionKey: "k", Events: []*pb.EventMeshFrame{{Attributes: attrs, Data: []byte("d")}}}
		if res, err := in.Mesh().Publish(t.Context(), req); err != nil || res.GetStatus().GetCode() != 0 {
			t.Fatal(res, err)
		}
		sent := s.Take(1)[0]
		letters := Open(t, in.Mesh(), open("letters", Sub("t_DLQ", broadcast)))
		bury(t, in, s, sent, 1)
		letter := letters.Take(1)[0].Frame.GetAttributes()
		for _, name := range []string{"id", "source", "time", "partitionkey", "type", "subject", "datacontenttype", "dataschema", "traceparent"} {
			if letter[name] != sent.Frame.GetAttributes()[name] {
				t.Errorf("%s of the letter: %q", name, letter[name])
			}
		}
		if _, err := in.Admin().ReplayDeadLetters(t.Context(), &pb.ReplayDeadLettersRequest{Topic: "t"}); err != nil {
			t.Fatal(err)
		}
		got := s.Take(1)[0].Frame.GetAttributes()
		if !maps.Equal(got, sent.Frame.GetAttributes()) {
			t.Errorf("replayed: %d attributes, not %d", len(got), len(sent.Frame.GetAttributes()))
		}
	})
}

package ackmesh

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// TestC21_ConfirmAfterABreak: acks that were lost with their stream are not durable,
// whether Confirm is called while the stream stands, while there is none, or on the
// next one.
func TestC21_ConfirmAfterABreak(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(2, 0)
		recvN(t, s, 2)[0].Ack()
		st.recvAcks(1)
		st.end(status.Error(codes.Unavailable, "cut"))
		synctest.Wait()
		if err := s.Confirm(t.Context()); !errors.Is(err, ErrUnconfirmed) {
			t.Errorf("without a stream: %v", err)
		}
		if err := s.Confirm(t.Context()); err != nil {
			t.Errorf("what was told is told again: %v", err)
		}
		st = m.accept(t, at(0, 1))
		st.nextID = 5000
		st.deliver(2, 0)
		recvN(t, s, 1)[0].Ack()
		st.recvAcks(1)
		st.end(status.Error(codes.Unavailable, "cut"))
		m.accept(t, at(0, 1))
		synctest.Wait()
		if err := s.Confirm(t.Context()); !errors.Is(err, ErrUnconfirmed) {
			t.Errorf("on the next stream: %v", err)
		}
	})
}

// TestConfirmTellsWhatWasRefused: an ack that was answered before the call counts.
func TestConfirmTellsWhatWasRefused(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(3, 0)
		ds := recvN(t, s, 3)
		ds[0].Ack()
		ds[1].Ack()
		st.recvAcks(2)
		st.answer(pb.AckResult_STATUS_FENCED, 1000, 1000)
		st.answer(durable, 1001, 1001)
		synctest.Wait()
		if err := s.Confirm(t.Context()); !errors.Is(err, ErrFenced) {
			t.Errorf("got %v", err)
		}
		told := make(chan error)
		go func() { told <- ds[2].AckConfirmed(t.Context()) }()
		st.recvAcks(1)
		st.answer(pb.AckResult_STATUS_STALE, 1002, 1002)
		if err := <-told; !errors.Is(err, ErrStale) {
			t.Errorf("AckConfirmed: %v", err)
		}
		if err := s.Confirm(t.Context()); err != nil {
			t.Errorf("what was told to AckConfirmed: %v", err)
		}
	})
}

// TestConfirmGivenUp: what a Confirm did not wait for is told by the next one.
func TestConfirmGivenUp(t *testing.T) {
	streaming(t, nil, func(t *testing.T, s *Stream, m *fake, st *fakeStream) {
		st.deliver(2, 0)
		ds := recvN(t, s, 2)
		ds[0].Ack()
		ds[1].Ack()
		st.recvAcks(2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		told := make(chan error)
		go func() { told <- s.Confirm(ctx) }()
		synctest.Wait()
		st.answer(pb.AckResult_STATUS_STALE, 1000, 1000)
		if err := <-told; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a context that ends: %v", err)
		}
		st.answer(pb.AckResult_STATUS_FENCED, 1001, 1001)
		synctest.Wait()
		if err := s.Confirm(t.Context()); !errors.Is(err, ErrStale) {
			t.Errorf("after it: %v, want the first fate that nobody was told", err)
		}
	})
}

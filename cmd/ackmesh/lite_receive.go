package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ackmesh "github.com/ackmesh/ackmesh/clients/go"
	ackmeshv1 "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// liteReceiving is one run of "ackmesh lite subscribe": one goroutine that prints
// what comes and acks it, and one that receives for it.
type liteReceiving struct {
	*liteSubscribeFlags
	out     *bufio.Writer
	printed int64
	// confirmed are acks that are on the server's disk.
	confirmed int64
	// last is when something came last, at first when the run began.
	last time.Time
	// opened says that a stream was open once.
	opened bool
}

// Pauses between tries to open a stream.
const (
	firstLitePause   = 200 * time.Millisecond
	longestLitePause = 5 * time.Second
)

// run opens one stream after another, as they break, until there is nothing more
// to do or the server refuses for good.
func (r *liteReceiving) run(ctx context.Context, client ackmeshv1.LiteClient, tell func(string, ...any)) error {
	pause := firstLitePause
	for {
		before := r.printed
		err := r.session(ctx, client)
		switch {
		case err == nil:
			return nil
		case errors.As(err, new(unconfirmed)):
			return err
		case ctx.Err() != nil:
			return nil
		case status.Code(err) != codes.Unavailable || !r.opened:
			return err
		case r.printed > before:
			pause = firstLitePause
		}
		tell("the stream broke, trying again: %s\n", reason(err))
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		pause = min(2*pause, longestLitePause)
	}
}

// liteSession is one stream. waiting are acks without an answer.
type liteSession struct {
	*liteReceiving
	stream  grpc.BidiStreamingClient[ackmeshv1.SubscribeLiteRequest, ackmeshv1.SubscribeLiteResponse]
	waiting int64
}

// session works on one stream; nil: all is done and its acks are confirmed.
func (r *liteReceiving) session(ctx context.Context, client ackmeshv1.LiteClient) error {
	life, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	stream, err := client.SubscribeLite(life)
	if err != nil {
		return err
	}
	s := &liteSession{liteReceiving: r, stream: stream}
	if err := s.send(&ackmeshv1.SubscribeLiteRequest{Kind: &ackmeshv1.SubscribeLiteRequest_Open{Open: r.open()}}); err != nil {
		return err
	}
	in, failed := receiveLite(life, stream)
	defer func() { // until it has ended
		cut()
		for range in {
		}
	}()
	if err := s.work(ctx, in, failed); err != nil {
		return err
	}
	return s.finish(in, failed)
}

// receiveLite receives in the background until the end of the stream, which it
// then tells.
func receiveLite(ctx context.Context, stream grpc.BidiStreamingClient[ackmeshv1.SubscribeLiteRequest, ackmeshv1.SubscribeLiteResponse]) (<-chan *ackmeshv1.SubscribeLiteResponse, <-chan error) {
	in, failed := make(chan *ackmeshv1.SubscribeLiteResponse), make(chan error, 1)
	go func() {
		defer close(in)
		for {
			msg, err := stream.Recv()
			if err != nil {
				failed <- err
				return
			}
			select {
			case in <- msg:
			case <-ctx.Done():
				failed <- ctx.Err()
				return
			}
		}
	}()
	return in, failed
}

// send sends one message. That the stream has ended is told by receiving.
func (s *liteSession) send(m *ackmeshv1.SubscribeLiteRequest) error {
	if err := s.stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// work takes messages until the count is reached, nothing has come for long
// enough, or ctx ends.
func (s *liteSession) work(ctx context.Context, in <-chan *ackmeshv1.SubscribeLiteResponse, failed <-chan error) error {
	late, stop := s.overdue()
	defer stop()
	idle := time.NewTimer(time.Hour)
	defer idle.Stop()
	open := false
	for !s.full() {
		if s.idleExit > 0 {
			idle.Reset(max(0, s.idleExit-time.Since(s.last)))
		}
		select {
		case msg, ok := <-in:
			if !ok {
				return <-failed
			}
			if err := s.take(msg); err != nil {
				return err
			}
			open = open || msg.GetOpened() != nil
		case <-late:
			if !open {
				return status.Errorf(codes.DeadlineExceeded, "the stream was not opened within %v", s.timeout)
			}
		case <-idle.C:
			if s.idleExit > 0 && open {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// full says whether all that was wanted is printed.
func (r *liteReceiving) full() bool { return r.count > 0 && r.printed >= r.count }

// finish waits for the answers to acks, then ends the stream in order.
func (s *liteSession) finish(in <-chan *ackmeshv1.SubscribeLiteResponse, failed <-chan error) error {
	late, stop := s.overdue()
	defer stop()
	closed := false
	for {
		if s.waiting <= 0 && !closed {
			if err := s.stream.CloseSend(); err != nil {
				return err
			}
			closed = true
		}
		select {
		case msg, ok := <-in:
			if !ok {
				switch err := <-failed; {
				case s.waiting > 0:
					return unconfirmed(s.waiting)
				case !errors.Is(err, io.EOF):
					return err
				}
				return nil
			}
			if res := msg.GetAckResult(); res != nil {
				if err := s.answered(res); err != nil {
					return err
				}
			}
		case <-late:
			if s.waiting > 0 {
				return unconfirmed(s.waiting)
			}
			return nil
		}
	}
}

// unconfirmed is how many acks got no answer before the end.
type unconfirmed int64

// Error says what that means.
func (n unconfirmed) Error() string {
	return fmt.Sprintf("%d acks were not confirmed: their events may come again", int64(n))
}

// take handles one message.
func (s *liteSession) take(msg *ackmeshv1.SubscribeLiteResponse) error {
	switch k := msg.GetKind().(type) {
	case *ackmeshv1.SubscribeLiteResponse_Opened:
		s.opened = true
		return refused(k.Opened.GetResults())
	case *ackmeshv1.SubscribeLiteResponse_Deliveries:
		return s.deliveries(k.Deliveries)
	case *ackmeshv1.SubscribeLiteResponse_AckResult:
		return s.answered(k.AckResult)
	}
	return nil
}

// deliveries prints what has come, or as much of it as is wanted, and acks it.
func (s *liteSession) deliveries(d *ackmeshv1.Deliveries) error {
	s.last = time.Now()
	var ids []uint64
	for _, run := range d.GetRuns() {
		for _, one := range run.GetDeliveries() {
			if s.full() {
				break
			}
			if err := s.print(run, one); err != nil {
				return err
			}
			s.printed++
			ids = append(ids, one.GetDeliveryId())
		}
	}
	if err := s.out.Flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if s.noAck || len(ids) == 0 {
		return nil
	}
	s.waiting += int64(len(ids))
	return s.ack(&ackmeshv1.Ack{DeliveryIds: ids})
}

func (s *liteSession) ack(ack *ackmeshv1.Ack) error {
	return s.send(&ackmeshv1.SubscribeLiteRequest{Kind: &ackmeshv1.SubscribeLiteRequest_Ack{Ack: ack}})
}

func (s *liteSession) print(run *ackmeshv1.Run, d *ackmeshv1.Delivery) error {
	line := delivered{
		Topic: run.GetTopic(), Partition: run.GetPartition(), Offset: d.GetOffset(), Attempt: d.GetAttempt(),
		DeliveryID: strconv.FormatUint(d.GetDeliveryId(), 10), Attributes: d.GetFrame().GetAttributes(),
	}
	if err := line.setData(d.GetFrame().GetData(), line.Attributes[ackmesh.AttrDataContentType]); err != nil {
		return err
	}
	text, err := line.line()
	if err != nil {
		return err
	}
	if _, err := s.out.Write(text); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// answered counts the fate of acks, and sends those again that the server could
// not record.
func (s *liteSession) answered(res *ackmeshv1.AckResult) error {
	for _, o := range res.GetOutcomes() {
		n := int64(len(o.GetDeliveryIds()))
		for _, rg := range o.GetRanges() {
			n += int64(rg.GetLast() - rg.GetFirst() + 1)
		}
		switch o.GetStatus() {
		case ackmeshv1.AckResult_STATUS_RETRY:
			if err := s.ack(&ackmeshv1.Ack{DeliveryIds: o.GetDeliveryIds(), Ranges: o.GetRanges()}); err != nil {
				return err
			}
			continue
		case ackmeshv1.AckResult_STATUS_DURABLE:
			s.confirmed += n
		}
		s.waiting -= n
	}
	return nil
}

package ackmesh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/ackmesh/ackmesh/clients/go/internal/wire"
	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// steady is how long a stream must have stood for the pauses between attempts to
// begin with the shortest again.
const steady = time.Second

// run sends what is to be sent, over one stream after another, until the
// publisher is closed and nothing is owed. It is the only sender.
func (p *publisher) run() {
	defer close(p.done)
	seek := p.c.newSeeker(nil)
	pauses := backoff{min: p.c.cfg.BackoffMin, max: p.c.cfg.BackoffMax}
	for p.waitForWork() {
		begun := time.Now()
		err := p.session(seek)
		p.shrink(err)
		p.requeue()
		if p.c.cut.Err() != nil {
			err = ErrClosed
		}
		if IsPermanent(err) || errors.Is(err, ErrClosed) {
			p.fail(p.drop(func(*pubBatch) bool { return true }, p.lists()...), err)
			continue
		}
		p.expire(err, p.lists()...)
		if time.Since(begun) >= steady {
			pauses.reset()
		}
		if idle, _ := p.idle(); !idle {
			p.pause(max(pauses.next(), retryDelay(err)), err)
		}
	}
}

// waitForWork returns true when there is something to send, and false when there
// never will be.
func (p *publisher) waitForWork() bool {
	for {
		idle, closed := p.idle()
		switch {
		case !idle:
			return true
		case closed:
			return false
		}
		<-p.wake
	}
}

// pause waits before the next attempt, no longer than until something expires.
func (p *publisher) pause(d time.Duration, err error) {
	p.c.cfg.Logger.Warn("ackmesh: publish stream broke; reconnecting", slog.Any("error", err), slog.Duration("pause", d))
	if t := p.nextExpiry(); !t.IsZero() { // what is due waits for the stream
		d = min(d, max(time.Until(t), 0))
	}
	pause(p.c.cut, d)
	p.expire(err, p.lists()...)
}

// session opens a stream, and sends and takes answers until it breaks or nothing
// will ever be owed again.
func (p *publisher) session(seek *seeker) error {
	place, err := seek.find(p.c.cut)
	if err != nil {
		return err
	}
	defer place.release()
	var helpers sync.WaitGroup
	defer helpers.Wait()
	ctx, cancel := context.WithCancelCause(p.c.cut)
	defer cancel(nil)
	awaitConn(ctx, place.conn)
	p.forget()
	stream, err := place.NewStream(ctx, &pb.EventMesh_ServiceDesc.Streams[0], pb.EventMesh_PublishStream_FullMethodName,
		grpc.ForceCodecV2(rawCodec{pool}))
	if err != nil {
		seek.unreachable(place)
		return fmt.Errorf("ackmesh: publish at %s: %w", place.address, err)
	}
	answers := p.answers.Load()
	received, leave := make(chan error, 1), make(chan struct{})
	helpers.Go(func() { received <- p.receive(stream) })
	helpers.Go(func() { p.watch(ctx, cancel) })
	helpers.Go(func() { watchConn(ctx, place.conn, leave) })
	err = p.send(ctx, stream, received, cancel, leave)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	if err != nil {
		p.blame(seek, place, answers)
		return fmt.Errorf("ackmesh: publish at %s: %w", place.address, err)
	}
	return nil
}

// blame tells the seeker about a place whose stream broke. One that never answered
// may be unreachable from here.
func (p *publisher) blame(seek *seeker, at place, answersBefore uint64) {
	if p.answers.Load() == answersBefore {
		seek.unreachable(at)
		return
	}
	seek.shun(at.instance)
}

// watch breaks the stream when a request that was sent is not answered in time:
// sending may block for as long as the server likes. It returns when ctx ends.
func (p *publisher) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	for left := p.cfg.Timeout; pause(ctx, left); {
		if left = p.oldestSent(); left <= 0 {
			cancel(status.Errorf(codes.DeadlineExceeded, "no answer within %v", p.cfg.Timeout))
			return
		}
	}
}

// oldestSent is how long the oldest request under way has left.
func (p *publisher) oldestSent() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.cfg.Timeout
	for _, b := range p.sent {
		left = min(left, time.Until(b.expires))
	}
	return left
}

// send sends until the stream breaks, or the publisher is closed and all is
// answered, and returns when the receiver has ended.
func (p *publisher) send(ctx context.Context, stream grpc.ClientStream, received <-chan error, cancel context.CancelCauseFunc, leave <-chan struct{}) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if b := p.take(time.Now()); b != nil {
			if err := stream.SendMsg(&outMsg{b.buf}); err != nil {
				return sendError(err, received, cancel)
			}
			continue
		}
		if idle, closed := p.idle(); idle && closed {
			p.half(stream, received, cancel)
			return nil
		}
		if t := p.nextEvent(); !t.IsZero() {
			timer.Reset(max(time.Until(t), time.Millisecond))
		}
		select {
		case <-p.wake:
		case <-timer.C:
			p.expire(nil, &p.later, &p.queue) // what was sent is the watch's
		case <-leave:
			p.half(stream, received, cancel)
			return status.Error(codes.Unavailable, "the server closes its connections")
		case err := <-received:
			return err
		case <-ctx.Done():
			return <-received
		}
	}
}

// sendError returns why a stream broke that refused a message. gRPC tells the
// receiver, unless the message itself was at fault.
func sendError(err error, received <-chan error, cancel context.CancelCauseFunc) error {
	if errors.Is(err, io.EOF) {
		return <-received
	}
	cancel(nil)
	<-received
	return err
}

// half ends the stream in order: what was sent is answered first.
func (p *publisher) half(stream grpc.ClientStream, received <-chan error, cancel context.CancelCauseFunc) {
	if err := stream.CloseSend(); err != nil {
		cancel(nil)
	}
	t := time.AfterFunc(drainFor, func() { cancel(nil) })
	defer t.Stop()
	<-received // how the stream ends does not matter: what is unanswered is sent again
}

// awaitConn waits until a connection stands or was tried in vain, which the call on it
// then tells. gRPC lets calls use a connection before it tells that it stands; to
// watchConn that would look like one that has gone.
func awaitConn(ctx context.Context, c *conn) {
	for {
		state := c.GetState()
		switch state {
		case connectivity.Ready, connectivity.TransientFailure, connectivity.Shutdown:
			return
		case connectivity.Idle:
			c.Connect()
		case connectivity.Connecting:
		}
		if !c.WaitForStateChange(ctx, state) {
			return
		}
	}
}

// watchConn closes leave when the server asks the connection's users to go (HTTP/2
// GOAWAY), or the connection breaks. gRPC would keep the stream as long as we do,
// and the server could not stop. It returns when ctx ends.
func watchConn(ctx context.Context, c *conn, leave chan<- struct{}) {
	if c.WaitForStateChange(ctx, connectivity.Ready) {
		close(leave)
	}
}

// receive takes answers until the stream ends.
func (p *publisher) receive(stream grpc.ClientStream) error {
	if header, err := stream.Header(); err == nil { // else RecvMsg tells
		p.learn(header)
	}
	var r wire.PublishResponse
	for {
		var m inMsg
		if err := stream.RecvMsg(&m); err != nil {
			if errors.Is(err, io.EOF) {
				return status.Error(codes.Unavailable, "the server ended the stream")
			}
			return err
		}
		err := p.takeAnswer(&r, m)
		m.buf.Free()
		if err != nil {
			return err
		}
	}
}

// takeAnswer takes one answer.
func (p *publisher) takeAnswer(r *wire.PublishResponse, m inMsg) error {
	if err := r.Read(m.buf.ReadOnlyData()); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	b, err := p.answered(r.RequestID)
	if err != nil {
		return err
	}
	p.answers.Add(1)
	p.settle(b, r)
	return nil
}

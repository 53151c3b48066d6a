package rpc

import (
	"context"
	"strconv"
	"sync"

	"google.golang.org/grpc/metadata"
)

// Bounds of what one PublishStream may have under way.
const (
	maxStreamRequests = 512
	maxStreamBytes    = 32 << 20
)

// publishCost is about what a request holds until it is answered: its events
// get an id, a source and a time where they have none, and a result.
func publishCost(b []byte) int { return len(b) + publishEventCost*fieldsOf(b, 2) }

const publishEventCost = 400

// pubStream is one PublishStream: requests in order, their answers in the same.
type pubStream struct {
	p     *Publisher
	by    Caller // nil: nobody is asked
	wake  chan struct{}
	room  chan struct{}
	mu    sync.Mutex
	queue []*pending
	bytes int
	ended bool
}

// With these keys of its header metadata a PublishStream tells how large a request may
// be, so that its client can make smaller ones.
const (
	bytesHeader  = "ackmesh-publish-bytes"
	eventsHeader = "ackmesh-publish-events"
)

// header tells the bounds of a request.
func (p *Publisher) header() metadata.MD {
	return metadata.Pairs(bytesHeader, strconv.Itoa(p.maxBytes), eventsHeader, strconv.Itoa(p.maxEvents))
}

type pending struct {
	pb   *publication
	size int
}

// admit waits until another request may be under way.
func (s *pubStream) admit(ctx context.Context, size int) error {
	for {
		s.mu.Lock()
		if len(s.queue) < maxStreamRequests && (s.bytes == 0 || s.bytes+size <= maxStreamBytes) {
			s.bytes += size
			s.mu.Unlock()
			return nil
		}
		s.mu.Unlock()
		select {
		case <-s.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *pubStream) start(ctx context.Context, in *rawIn) error {
	size := publishCost(in.bytes())
	if err := s.admit(ctx, size); err != nil {
		in.free()
		return err
	}
	slot := &pending{size: size}
	s.mu.Lock()
	s.queue = append(s.queue, slot)
	s.mu.Unlock()
	s.p.start(ctx, in.bytes(), s.by, func(pb *publication) {
		s.mu.Lock()
		slot.pb = pb
		first := len(s.queue) > 0 && s.queue[0] == slot
		s.mu.Unlock()
		if first {
			signal(s.wake)
		}
	})
	in.free()
	return nil
}

// next is the oldest request whose answer is known; nil: none is. last: nothing
// more will come.
func (s *pubStream) next() (pb *publication, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return nil, s.ended
	}
	slot := s.queue[0]
	if slot.pb == nil {
		return nil, false
	}
	s.queue[0] = nil
	s.queue = s.queue[1:]
	s.bytes -= slot.size
	return slot.pb, false
}

// write sends answers in order until the last.
func (s *pubStream) write(ctx context.Context, send func(*rawOut) error) error {
	for {
		pb, last := s.next()
		switch {
		case last:
			return nil
		case pb != nil:
			signal(s.room)
			if err := send(s.p.answer(pb)); err != nil {
				return err
			}
		default:
			select {
			case <-s.wake:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// end says that no request follows.
func (s *pubStream) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	signal(s.wake)
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

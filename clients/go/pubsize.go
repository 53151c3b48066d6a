package ackmesh

import (
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/ackmesh/ackmesh/clients/go/internal/wire"
)

// With these keys of its header metadata a server tells how large a request of a
// PublishStream may be, in bytes and in events.
const (
	bytesHeader  = "ackmesh-publish-bytes"
	eventsHeader = "ackmesh-publish-events"
)

// requestBounds are how large requests may be; 0: not known.
type requestBounds struct {
	known         bool // whether the server of this stream has answered
	bytes, events int  // as it told
	guess         int  // bytes that went through, where a server does not tell
}

// learn takes what a server tells at the beginning of a stream.
func (p *publisher) learn(header metadata.MD) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bounds.known = true
	p.bounds.bytes, p.bounds.events = number(header, bytesHeader), number(header, eventsHeader)
	p.signal()
}

func number(header metadata.MD, key string) int {
	for _, v := range header.Get(key) {
		if n, err := strconv.Atoi(v); err == nil && n > 0 {
			return n
		}
	}
	return 0
}

// forget is the beginning of a new stream, perhaps at another server: until it has
// told, what was too large for the last one waits.
func (p *publisher) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bounds.known = false
}

// most is how large a request may be made. p.mu is held.
func (p *publisher) most() (bytes, events int) {
	bytes, events = p.cfg.MaxBatchBytes, p.cfg.MaxBatchEvents
	for _, n := range []int{p.bounds.bytes, p.bounds.guess} {
		if n > 0 {
			bytes = min(bytes, n-idRoom)
		}
	}
	if p.bounds.events > 0 {
		events = min(events, p.bounds.events)
	}
	return bytes, events
}

// tooLarge reports whether the server said that it takes no request like this. p.mu
// is held.
func (p *publisher) tooLarge(b *pubBatch) bool {
	r := &p.bounds
	return r.bytes > 0 && b.size() > r.bytes || r.events > 0 && len(b.items) > r.events
}

// refusedForSize reports whether a request, which was refused as a whole, was too
// large: it is to be sent again in parts.
func (p *publisher) refusedForSize(b *pubBatch, err error) bool {
	if c := status.Code(err); c != codes.ResourceExhausted && c != codes.InvalidArgument {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tooLarge(b)
}

// divide replaces a request of the queue that is too large by parts that are not. One
// event cannot be divided: it is taken off the queue and returned. p.mu is held.
func (p *publisher) divide(i int) (hopeless *pubBatch) {
	b := p.queue[i]
	if b.hopeless == nil && !p.tooLarge(b) && (len(b.items) == 1 || p.bounds.guess == 0 || b.size() <= p.bounds.guess) {
		return nil
	}
	if p.open[b.topic] == b {
		delete(p.open, b.topic)
	}
	if len(b.items) == 1 {
		p.queue = slices.Delete(p.queue, i, i+1)
		p.telling = append(p.telling, b)
		return b
	}
	p.queue = slices.Replace(p.queue, i, i+1, b.split(p.most())...)
	return nil
}

// split moves the events to requests of at most so many bytes and events, or of one
// event, and ends this one.
func (b *pubBatch) split(bytes, events int) (parts []*pubBatch) {
	var part *pubBatch
	for _, it := range b.items {
		if part == nil || !part.fits(it.size, bytes, events) {
			part = newBatch(b.topic, max(min(bytes, b.size()), wire.EventFieldSize(it.size)+len(b.topic))+idRoom, b.expires)
			part.age, part.full, part.tries, part.last, part.open = b.age, true, b.tries, b.last, b.open
			parts = append(parts, part)
		}
		part.readd(b, it)
	}
	for _, f := range b.flushes {
		f.left.Add(int64(len(parts) - 1))
	}
	for _, part := range parts {
		part.flushes = slices.Clone(b.flushes)
	}
	b.free()
	return parts
}

// shrink finds the request at fault after a stream broke for a message that somebody on
// the way takes for too large, but does not tell in the header: the largest is, if any
// is. It is halved, and no later one is larger.
func (p *publisher) shrink(err error) {
	if !brokeForSize(err) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.sent) == 0 {
		return
	}
	b := slices.MaxFunc(p.sent, func(a, b *pubBatch) int { return a.size() - b.size() })
	switch {
	case p.tooLarge(b): // known without a guess
	case len(b.items) == 1:
		b.hopeless = err
	default:
		p.bounds.guess = b.size() / 2
	}
}

// brokeForSize reports whether gRPC, here or there, refused a message for its size. It
// has no code of its own for that.
func brokeForSize(err error) bool {
	text := status.Convert(err).Message()
	return status.Code(err) == codes.ResourceExhausted &&
		(strings.Contains(text, "larger than max") || strings.Contains(text, "exceeds maximum size"))
}

// sizeError is why an event is not sent.
func (p *publisher) sizeError(b *pubBatch) error {
	if b.hopeless != nil {
		return status.Errorf(codes.ResourceExhausted, "ackmesh: event of %d bytes: it is more than the server, or something before it, takes: make it smaller (%v)",
			b.items[0].size, b.hopeless)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return status.Errorf(codes.ResourceExhausted, "ackmesh: event of %d bytes: its request has %d, and the server takes at most %d: make it smaller, or raise limits.publish-bytes of the server",
		b.items[0].size, b.size(), p.bounds.bytes)
}

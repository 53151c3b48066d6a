package traffic

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/tracecheck"
)

// PublisherConfig says what a publisher publishes.
type PublisherConfig struct {
	// Events is how many in all.
	Events int
	// Topics get the events by weight.
	Topics []Weight
	// MaxBatch is the most events of one request. Default 20.
	MaxBatch int
	// Pipeline is how many requests are under way at most. Default 8.
	Pipeline int
	// Lag is how many events a topic may be ahead of each of its Followers.
	Lag       int
	Followers map[string][]string
}

// Weight of a topic among others.
type Weight struct {
	Topic  string
	Weight int
}

// request is a PublishRequest that is not confirmed.
type request struct {
	topic string
	ids   []uint64
	keys  []string
}

type publisher struct {
	r     *Run
	cfg   PublisherConfig
	mesh  pb.EventMeshClient
	rnd   *rand.Rand
	left  int
	again []*request // to be sent again, first of all
	// refused: the server does not take what is sent. The session ends then and
	// the next one begins a little later.
	refused atomic.Bool
}

// Publish starts a publisher. It sends what was not confirmed again, with the
// same source and id, until it is. done is closed when all is.
func (r *Run) Publish(name string, cfg PublisherConfig) (done <-chan struct{}) {
	cfg.MaxBatch = max(cfg.MaxBatch, 1)
	cfg.Pipeline = max(cfg.Pipeline, 1)
	p := &publisher{r: r, cfg: cfg, mesh: pb.NewEventMeshClient(r.dial()), rnd: r.rand("publisher " + name), left: cfg.Events}
	ch := make(chan struct{})
	r.clients.Go(func() {
		for p.left > 0 || len(p.again) > 0 {
			if r.Gate.Wait(r.ctx) != nil {
				return
			}
			p.session()
			if p.refused.Swap(false) {
				pause(r.ctx, refusedPause)
			}
		}
		close(ch)
	})
	return ch
}

// refusedPause is how long a publisher waits after a refusal.
const refusedPause = 50 * time.Millisecond

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// session is one PublishStream, from its begin until it breaks or all is
// confirmed.
func (p *publisher) session() {
	ctx, cancel := context.WithCancel(p.r.ctx)
	defer cancel()
	stream, err := p.mesh.PublishStream(ctx, grpc.WaitForReady(true))
	if err != nil {
		return
	}
	flying := make(chan *request, p.cfg.Pipeline)
	ended := make(chan []*request)
	go func() { ended <- p.receive(stream, flying) }()
	p.send(ctx, stream, flying)
	close(flying)
	_ = stream.CloseSend() // receive sees how it ends
	p.again = append(p.again, <-ended...)
}

// send sends requests until the stream breaks or there are no more.
func (p *publisher) send(ctx context.Context, stream grpc.BidiStreamingClient[pb.PublishRequest, pb.PublishResponse], flying chan<- *request) {
	for ctx.Err() == nil && stream.Context().Err() == nil && !p.refused.Load() {
		req := p.next(stream.Context())
		if req == nil {
			return
		}
		select {
		case flying <- req: // it is under way from here on, sent or not
		case <-stream.Context().Done():
			p.again = append(p.again, req)
			return
		}
		p.r.sending(req)
		msg := &pb.PublishRequest{Topic: req.topic}
		for i, id := range req.ids {
			msg.Events = append(msg.Events, event(id, req.keys[i]))
		}
		if stream.Send(msg) != nil {
			return
		}
	}
}

// next is what to send next: what is to be sent again, else something new.
func (p *publisher) next(ctx context.Context) *request {
	if n := len(p.again); n > 0 {
		req := p.again[n-1]
		p.again = p.again[:n-1]
		return req
	}
	if p.left == 0 {
		return nil
	}
	req := p.invent()
	if err := p.r.awaitFollowers(ctx, req.topic, p.cfg); err != nil {
		p.again = append(p.again, req)
		return nil
	}
	return req
}

// invent makes a request of new events.
func (p *publisher) invent() *request {
	req := &request{topic: p.topic()}
	for range min(1+p.rnd.IntN(p.cfg.MaxBatch), p.left) {
		key := ""
		if p.rnd.IntN(2) == 0 {
			key = "k" + strconv.Itoa(p.rnd.IntN(50))
		}
		req.ids = append(req.ids, p.r.nextID.Add(1))
		req.keys = append(req.keys, key)
	}
	p.left -= len(req.ids)
	return req
}

func (p *publisher) topic() string {
	sum := 0
	for _, w := range p.cfg.Topics {
		sum += w.Weight
	}
	at := p.rnd.IntN(sum)
	i := 0
	for ; at >= p.cfg.Topics[i].Weight; i++ {
		at -= p.cfg.Topics[i].Weight
	}
	return p.cfg.Topics[i].Topic
}

func (r *Run) awaitFollowers(ctx context.Context, topic string, cfg PublisherConfig) error {
	return r.state.await(ctx, func() bool {
		for _, sub := range cfg.Followers[topic] {
			if r.state.topics[topic]-r.state.records(sub) > cfg.Lag {
				return false
			}
		}
		return true
	})
}

// sending records a request before it is sent.
func (r *Run) sending(req *request) {
	events := make([]tracecheck.Event, len(req.ids))
	for i, id := range req.ids {
		events[i] = tracecheck.Event{Kind: tracecheck.Publish, ID: id}
	}
	r.Rec.Add(events...)
	r.state.update(func(c *Counts) { c.Publishes += len(req.ids) })
}

// receive takes the answers, which come in the order of the requests, and
// returns what is not confirmed when the stream ends.
func (p *publisher) receive(stream grpc.BidiStreamingClient[pb.PublishRequest, pb.PublishResponse], flying <-chan *request) []*request {
	var again []*request
	for req := range flying {
		res, err := stream.Recv()
		if err != nil {
			again = append(again, p.r.unanswered(req))
			for req := range flying {
				again = append(again, p.r.unanswered(req))
			}
			return again
		}
		if rest := p.r.answered(req, res); rest != nil {
			again = append(again, rest)
			p.refused.Store(true)
		}
	}
	return again
}

// unanswered records that the fate of a request is open. A request that was
// about to be sent when the stream broke is taken for sent.
func (r *Run) unanswered(req *request) *request {
	var events []tracecheck.Event
	for _, id := range req.ids {
		events = append(events, tracecheck.Event{Kind: tracecheck.Unpublished, ID: id})
	}
	r.Rec.Add(events...)
	r.state.update(func(c *Counts) { c.Publishes -= len(req.ids) })
	return req
}

// answered records an answer and returns what of the request is to be sent
// again; nil: nothing.
func (r *Run) answered(req *request, res *pb.PublishResponse) *request {
	rest := &request{topic: req.topic}
	var events []tracecheck.Event
	list := res.GetEvents()
	if len(list) > 0 && len(list) != len(req.ids) {
		r.t.Errorf("a request of %d events has an answer of %d", len(req.ids), len(list))
		return nil
	}
	for i, id := range req.ids {
		if len(list) == 0 || list[i].GetStatus().GetCode() != 0 {
			events = append(events, tracecheck.Event{Kind: tracecheck.Unpublished, ID: id})
			rest.ids, rest.keys = append(rest.ids, id), append(rest.keys, req.keys[i])
			continue
		}
		e := list[i]
		if e.GetId() != strconv.FormatUint(id, 10) {
			r.t.Errorf("the answer to event %d is that of %q", id, e.GetId())
		}
		events = append(events, tracecheck.Event{Kind: tracecheck.Published, ID: id, Partition: partition(req.topic, e.GetPartition()), Offset: e.GetOffset()})
	}
	r.Rec.Add(events...)
	r.state.mu.Lock()
	r.state.counts.Publishes -= len(req.ids)
	r.state.counts.Published += len(req.ids) - len(rest.ids)
	r.state.topics[req.topic] += len(req.ids) - len(rest.ids)
	r.state.wake()
	r.state.mu.Unlock()
	if len(rest.ids) == 0 {
		return nil
	}
	return rest
}

// PublishAll publishes events to a topic in one request and waits for all to be
// confirmed.
func (r *Run) PublishAll(topic string, n int) error {
	req := &request{topic: topic}
	for range n {
		req.ids, req.keys = append(req.ids, r.nextID.Add(1)), append(req.keys, "")
	}
	msg := &pb.PublishRequest{Topic: topic}
	for _, id := range req.ids {
		msg.Events = append(msg.Events, event(id, ""))
	}
	r.sending(req)
	res, err := pb.NewEventMeshClient(r.dial()).Publish(r.ctx, msg)
	if err != nil {
		r.unanswered(req)
		return err
	}
	if rest := r.answered(req, res); rest != nil {
		return fmt.Errorf("%d of %d events were refused: %w", len(rest.ids), n, errors.New(res.GetStatus().GetMessage()))
	}
	return nil
}

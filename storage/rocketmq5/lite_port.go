package rocketmq5

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// Properties of a message in a lite topic.
const (
	propLite       = "__LITE_TOPIC"
	propDispatch   = "INNER_MULTI_DISPATCH"     // the queues that it is in as well, with commas between them
	propDispatched = "INNER_MULTI_QUEUE_OFFSET" // its offset in each of these
)

// litePort is what the port does for lite topics.
type litePort interface {
	// liteBounds are the lowest offset of a lite topic held at a broker and the
	// next to be written; 0 and 0 where the broker does not know it.
	liteBounds(ctx context.Context, broker, parent, lite string) (low, high int64, err error)
	// readLite reads messages of a lite topic from an offset on that is not
	// above its end.
	readLite(ctx context.Context, broker, parent, lite string, offset int64, most int) (litePull, error)
	// end is the next offset to be written to a queue.
	end(ctx context.Context, q queue) (int64, error)
	// watch waits at a queue of a parent for messages at an offset or above.
	watch(ctx context.Context, q queue, offset int64, wait time.Duration) (liteNews, error)
}

// liteNews is what came to a queue of a parent.
type liteNews struct {
	next int64 // where to go on
	came []liteCame
	// stray are those of messages that the broker has put into no lite topic.
	stray []string
	lost  bool // the queue does not hold the offset
}

// liteCame is a message of a lite topic.
type liteCame struct {
	lite string
	end  int64 // the offset behind it there; 0: not told
}

// litePull is what a read of a lite topic found.
type litePull struct {
	list []stored
	// next is where to go on, low and high are the bounds as the broker has
	// them. moved: the offset is outside them.
	next, low, high int64
	moved           bool
}

// atLite is the address of a broker of a parent, and the queue of a lite topic
// there.
func (p *remotingPort) atLite(ctx context.Context, broker, parent, lite string) (string, remoting.Queue, error) {
	addr, _, err := p.at(ctx, queue{topic: parent, broker: broker})
	return addr, remoting.Queue{Topic: remoting.LiteTopic(parent, lite), Broker: broker}, err
}

func (p *remotingPort) liteBounds(ctx context.Context, broker, parent, lite string) (low, high int64, err error) {
	addr, q, err := p.atLite(ctx, broker, parent, lite)
	if err != nil {
		return 0, 0, err
	}
	if high, err = p.c.MaxOffset(ctx, addr, q); err != nil || high == 0 {
		return 0, 0, err
	}
	low, err = p.c.MinOffset(ctx, addr, q)
	return low, high, err
}

func (p *remotingPort) readLite(ctx context.Context, broker, parent, lite string, offset int64, most int) (litePull, error) {
	addr, q, err := p.atLite(ctx, broker, parent, lite)
	if err != nil {
		return litePull{}, err
	}
	res, err := p.c.Pull(ctx, addr, remoting.PullRequest{Queue: q, Offset: offset, Max: min(most, pullMost)})
	if err != nil {
		return litePull{}, err
	}
	out := litePull{next: offset, low: res.Min, high: res.Max, moved: res.Status == remoting.PullMoved}
	switch res.Status {
	case remoting.PullFound:
	case remoting.PullRetry: // there is a hole
		out.next = max(offset, res.NextOffset)
		return out, nil
	default:
		return out, nil
	}
	msgs, err := remoting.DecodeMessages(res.Body)
	if err != nil {
		return litePull{}, err
	}
	out.list, out.next = storedOf(msgs), res.NextOffset
	for i := range msgs {
		if out.list[i].offset, err = liteOffset(&msgs[i], q.Topic); err != nil {
			return litePull{}, err
		}
	}
	return out, nil
}

// liteOffset is the offset of a message in the queue of a lite topic: its own is
// that in the parent.
func liteOffset(m *remoting.Message, topic string) (int64, error) {
	queues, _ := m.Property(propDispatch)
	offsets, _ := m.Property(propDispatched)
	list := strings.Split(offsets, ",")
	for i, name := range strings.Split(queues, ",") {
		if name != topic || i >= len(list) {
			continue
		}
		if off, err := strconv.ParseInt(list[i], 10, 64); err == nil {
			return off, nil
		}
	}
	return 0, fmt.Errorf("a message of %s tells no offset there (%s=%q, %s=%q): %w", topic, propDispatch, queues, propDispatched, offsets, remoting.ErrMalformed)
}

func (p *remotingPort) end(ctx context.Context, q queue) (int64, error) {
	addr, rq, err := p.at(ctx, q)
	if err != nil {
		return 0, err
	}
	return p.c.MaxOffset(ctx, addr, rq)
}

func (p *remotingPort) watch(ctx context.Context, q queue, offset int64, wait time.Duration) (news liteNews, err error) {
	addr, rq, err := p.at(ctx, q)
	if err != nil {
		return news, err
	}
	res, err := p.c.Pull(ctx, addr, remoting.PullRequest{Queue: rq, Offset: offset, Wait: wait})
	if err != nil {
		return news, err
	}
	switch res.Status {
	case remoting.PullFound:
	case remoting.PullNone:
		return liteNews{next: offset}, nil
	default:
		return liteNews{next: res.NextOffset, lost: true}, nil
	}
	msgs, err := remoting.DecodeMessages(res.Body)
	if err != nil {
		return news, err
	}
	news.next = res.NextOffset
	for i := range msgs {
		news.next = msgs[i].QueueOffset + 1 // the pull may hold more than was decoded
		lite, ok := msgs[i].Property(propLite)
		if !ok {
			continue
		}
		one := liteCame{lite: lite}
		if off, err := liteOffset(&msgs[i], remoting.LiteTopic(q.topic, lite)); err == nil {
			one.end = off + 1
		}
		news.came = append(news.came, one)
		if _, placed := msgs[i].Property(propDispatch); !placed {
			news.stray = append(news.stray, lite)
		}
	}
	return news, nil
}

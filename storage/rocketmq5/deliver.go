package rocketmq5

import (
	"context"
	"fmt"
	"strconv"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq5/session"
)

// deliver sends items in one call, and again what may pass, until each has its
// fate. In a call that is refused each is sent alone, so that one that cannot be
// sent fails alone.
func (s *sender) deliver(t *topicLanes, items []*item) {
	ctx, cancel := context.WithDeadline(s.ctx, items[0].until)
	defer cancel()
	what := fmt.Sprintf("append to topic %q", t.name)
	began, last := time.Now(), error(nil)
	for n := 1; len(items) > 0; n++ {
		left, err := s.once(ctx, t.name, items)
		if len(left) == 0 {
			return
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		items = left
		switch verdict := s.judge(ctx, t.name, items[0].typ, err, time.Since(began)); {
		case ctx.Err() != nil:
			s.failAll(items, s.late(what, last))
			return
		case verdict == otherType:
			s.retype(t, items, err)
			return
		case verdict == final && len(items) > 1:
			for _, it := range items {
				s.deliver(t, []*item{it})
			}
			return
		case verdict == final:
			s.failAll(items, s.refusal(t.name, err))
			return
		}
		if !pause(ctx, session.Pause(n)) {
			s.failAll(items, s.late(what, last))
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *sender) failAll(items []*item, err error) {
	for _, it := range items {
		s.finish(it, "", 0, err)
	}
}

// once makes one call, finishes what is stored and returns the rest, with why.
func (s *sender) once(ctx context.Context, topic string, items []*item) (left []*item, err error) {
	msgs := make([]session.Outgoing, len(items))
	for i, it := range items {
		msgs[i] = it.msg
	}
	sent, err := s.l.sess.Send(ctx, topic, items[0].typ, msgs)
	if err != nil {
		return items, err
	}
	partition := s.l.onlyQueue(ctx, topic)
	for i, it := range items {
		if sent[i].Err != nil {
			left, err = append(left, it), sent[i].Err
			continue
		}
		if it.call.lite != "" { // what is told is a place in the parent
			s.finish(it, it.call.lite, storage.OffsetUntold, nil)
			continue
		}
		place := partition
		if place == "" || it.typ == v2.MessageType_DELAY {
			place = idPartition + it.msg.ID
		}
		s.finish(it, place, sent[i].Offset, nil)
	}
	return left, err
}

// idPartition begins what is told as the partition of a message whose queue is
// not known.
const idPartition = "id:"

// onlyQueue is the partition of a topic that has one to write to; else empty.
func (l *Log) onlyQueue(ctx context.Context, topic string) (name string) {
	route, err := l.sess.Route(ctx, topic)
	if err != nil {
		return "" // what was sent is sent
	}
	for _, q := range route.Queues {
		if !q.Writable {
			continue
		}
		if name != "" {
			return ""
		}
		name = partitionName(q.Broker, q.ID)
	}
	return name
}

func partitionName(broker string, queue int) string { return broker + ":" + strconv.Itoa(queue) }

// verdict is what to do after a call that failed.
type verdict uint8

const (
	again verdict = iota
	final
	otherType // the topic takes messages of another type
)

// judge decides what to do. What a proxy says of a topic may be of a broker that
// is down, or of a cache that is behind, so the topic is looked at anew.
func (s *sender) judge(ctx context.Context, topic string, typ v2.MessageType, err error, since time.Duration) verdict {
	if session.IsTransient(err) {
		return again
	}
	if !session.IsDoubtful(err) {
		return final
	}
	route, asked := s.l.sess.AskRoute(ctx, topic)
	switch {
	case asked != nil && session.IsTransient(asked):
		return again
	case asked != nil:
		return final
	case isNoTopic(err):
		return again
	case !route.Takes(typ):
		return otherType
	case len(route.Types) > 0 && since > typePatience:
		return final
	}
	return again
}

// retype has messages made anew for what the topic takes now, once.
func (s *sender) retype(t *topicLanes, items []*item, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var anew, over []*item
	for _, it := range items {
		if it.retyped {
			over = append(over, it)
			continue
		}
		it.retyped = true
		anew = append(anew, it)
	}
	t.waiting = append(anew, t.waiting...)
	s.route(t)
	if len(over) > 0 {
		refusal := s.refusal(t.name, err)
		s.wg.Go(func() { s.failAll(over, refusal) })
	}
}

// refusal explains why a message was refused for good.
func (s *sender) refusal(topic string, err error) error {
	if isNoTopic(err) {
		return s.l.toCreate(topic, err)
	}
	if session.CodeOf(err) == v2.Code_MESSAGE_PROPERTY_CONFLICT_WITH_TYPE {
		return fmt.Errorf("rocketmq5: topic %q: the proxy says that it takes messages of another type: check +message.type of the topic at every broker: %w: %w", topic, storage.ErrInvalid, err)
	}
	return explain(fmt.Sprintf("append to topic %q", topic), err)
}

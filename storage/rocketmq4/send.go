package rocketmq4

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// sendAll sends the items of one partition and tells their fates. While the
// broker cannot be reached, or is too busy, it is tried again.
func (l *Log) sendAll(haste context.Context, p *partQueue, items []*item) {
	until := time.Now().Add(giveUp)
	since := time.Time{}
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		first, err := l.sendOnce(haste, p, items, since)
		switch {
		case err == nil:
			l.stored(p, items, first)
			return
		case len(items) > 1 && remoting.IsCode(err, remoting.CodeMessageIllegal):
			for i := range items { // one of them is too large
				l.sendAll(haste, p, items[i:i+1])
			}
			return
		case !mayRepeat(err) || time.Until(until) < pause:
			l.notStored(haste, p, items, err)
			return
		}
		if sleep(haste, pause) != nil {
			l.notStored(haste, p, items, err)
			return
		}
		since = time.Now()
	}
}

// sendOnce sends the items, knowing of the topic what was told after since.
func (l *Log) sendOnce(ctx context.Context, p *partQueue, items []*item, since time.Time) (first int64, err error) {
	t, err := l.meta.topic(ctx, p.topic, since)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errNotSent, err)
	}
	part, ok := t.partition(p.name)
	if !ok {
		return 0, fmt.Errorf("rocketmq4: topic %q has no partition %q any more: %w", p.topic, p.name, storage.ErrPartitionNotFound)
	}
	addr := part.master()
	if addr == "" {
		return 0, fmt.Errorf("rocketmq4: topic %q partition %q: broker %s has no master now: %w: %w", p.topic, p.name, part.broker, errNotSent, storage.ErrUnavailable)
	}
	to := remoting.Queue{Topic: p.topic, ID: part.queue, Broker: part.broker}
	var sent remoting.Sent
	if len(items) == 1 {
		sent, err = l.client.Send(ctx, addr, to, items[0].msg)
	} else {
		list := make([]remoting.OutMessage, len(items))
		for i, it := range items {
			list[i] = it.msg
		}
		sent, err = l.client.SendBatch(ctx, addr, to, list)
	}
	if err != nil {
		return 0, l.failed(ctx, addr, err)
	}
	return sent.Offset, nil
}

// errNotSent goes with an error after which nothing was sent.
var errNotSent = errors.New("nothing was sent")

// mayRepeat tells whether it is certain that nothing was stored, and another
// try may do better.
func mayRepeat(err error) bool {
	if errors.Is(err, errNotSent) {
		return errors.Is(err, storage.ErrUnavailable)
	}
	return errors.Is(err, remoting.ErrNotSent) || remoting.IsCode(err, remoting.CodeSystemBusy, remoting.CodeServiceUnavailable)
}

func (l *Log) stored(p *partQueue, items []*item, first int64) {
	state := l.states.of(p.topic, p.topicID, p.name, l.ids)
	state.appended(first + int64(len(items)) - 1)
	for i, it := range items {
		l.finish(it, first+int64(i), nil)
	}
}

func (l *Log) notStored(haste context.Context, p *partQueue, items []*item, err error) {
	switch {
	case haste.Err() != nil:
		err = errors.Join(errClosed(), err)
	case errors.Is(err, storage.ErrTopicNotFound), errors.Is(err, storage.ErrPartitionNotFound):
		l.queue.forget(p.topic)
	}
	err = fmt.Errorf("append to topic %q partition %q: %w", p.topic, p.name, err)
	for _, it := range items {
		l.finish(it, 0, err)
	}
}

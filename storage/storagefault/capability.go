package storagefault

import (
	"context"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

// A node of the chain behind Backend.Unwrap has one capability more than a
// Backend. There are nodes only for what the wrapped log has, so that As
// finds nothing else.
type node struct {
	*Backend
	next storage.Backend
}

func (n node) Unwrap() storage.Backend { return n.next }

// capabilities builds the chain.
func (b *Backend) capabilities() storage.Backend {
	chain := b.inner
	if x, ok := storage.As[storage.Bounder](b.inner); ok {
		chain = bounder{node{b, chain}, x}
	}
	if x, ok := storage.As[storage.TopicAdmin](b.inner); ok {
		chain = topicAdmin{node{b, chain}, x}
	}
	if x, ok := storage.As[storage.Acker](b.inner); ok {
		chain = acker{node{b, chain}, x}
	}
	if x, ok := storage.As[storage.Fingerprinter](b.inner); ok {
		chain = fingerprinter{node{b, chain}, x}
	}
	if x, ok := storage.As[storage.Trimmer](b.inner); ok {
		chain = trimmer{node{b, chain}, x}
	}
	if x, ok := storage.As[storage.Checkpointer](b.inner); ok {
		chain = checkpointer{node{b, chain}, x}
	}
	if x, ok := storage.As[storage.Liter](b.inner); ok {
		chain = liter{node{b, chain}, x}
	}
	return chain
}

type bounder struct {
	node
	inner storage.Bounder
}

func (n bounder) Bounds(ctx context.Context, topic, partition string) (low, high int64, err error) {
	call := Call{Op: Bounds, Topic: topic, Partition: partition}
	met := n.choose(call)
	before, after := divide(met)
	if err := n.suffer(ctx, before); err != nil {
		return 0, 0, err
	}
	if low, high, err = n.inner.Bounds(ctx, topic, partition); err != nil {
		return 0, 0, err
	}
	for _, i := range met {
		if i.fault.Bounds != nil {
			low, high = i.fault.Bounds(low, high)
		}
	}
	if err := n.suffer(ctx, after); err != nil {
		return 0, 0, err
	}
	return low, high, nil
}

func (n bounder) OffsetByTime(ctx context.Context, topic, partition string, at time.Time, m storage.TimeMatch) (offset int64, err error) {
	err = n.through(ctx, Call{Op: OffsetByTime, Topic: topic, Partition: partition}, func() (err error) {
		offset, err = n.inner.OffsetByTime(ctx, topic, partition, at, m)
		return err
	})
	return offset, err
}

type topicAdmin struct {
	node
	inner storage.TopicAdmin
}

func (n topicAdmin) CreateTopic(ctx context.Context, topic string, cfg storage.TopicConfig) (t storage.Topic, err error) {
	err = n.through(ctx, Call{Op: CreateTopic, Topic: topic}, func() (err error) {
		t, err = n.inner.CreateTopic(ctx, topic, cfg)
		return err
	})
	return t, err
}

func (n topicAdmin) DeleteTopic(ctx context.Context, topic string) error {
	return n.through(ctx, Call{Op: DeleteTopic, Topic: topic}, func() error { return n.inner.DeleteTopic(ctx, topic) })
}

type acker struct {
	node
	inner storage.Acker
}

func (n acker) Ack(ctx context.Context, handles []any) (known []bool, err error) {
	err = n.through(ctx, Call{Op: Ack}, func() (err error) {
		known, err = n.inner.Ack(ctx, handles)
		return err
	})
	return known, err
}

type fingerprinter struct {
	node
	inner storage.Fingerprinter
}

func (n fingerprinter) Fingerprint(ctx context.Context, topic, partition string, next int64) (f storage.Fingerprint, ok bool, err error) {
	err = n.through(ctx, Call{Op: Fingerprint, Topic: topic, Partition: partition}, func() (err error) {
		f, ok, err = n.inner.Fingerprint(ctx, topic, partition, next)
		return err
	})
	return f, ok, err
}

type trimmer struct {
	node
	inner storage.Trimmer
}

func (n trimmer) Trim(ctx context.Context, topic, partition string, before int64) error {
	call := Call{Op: Trim, Topic: topic, Partition: partition}
	return n.through(ctx, call, func() error { return n.inner.Trim(ctx, topic, partition, before) })
}

type checkpointer struct {
	node
	inner storage.Checkpointer
}

func (n checkpointer) Checkpoint(ctx context.Context) error {
	return n.through(ctx, Call{Op: Checkpoint}, func() error { return n.inner.Checkpoint(ctx) })
}

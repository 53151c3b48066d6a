package storagetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

var waitCases = []testCase{
	{name: "Wait/EndsEmpty", run: waitEndsEmpty},
	{name: "Wait/RecordWakes", run: waitRecordWakes},
	{name: "Wait/ContextWakes", run: waitContextWakes},
	{name: "Wait/CloseWakes", run: waitCloseWakes},
	{name: "Wait/HoldsUpNobody", run: waitHoldsUpNobody},
	{name: "Wait/ManyAreWoken", run: waitManyAreWoken},
	{name: "Wait/DeleteUnderPoll", needs: hasAdmin, run: waitDeleteUnderPoll},
}

// tail makes a topic of one partition with three records and tells where the
// next one will be.
func (c *env) tail() (topic, partition string, next int64) {
	c.Helper()
	t := c.topic(1)
	list := c.fill(t.Name, "", "before", 3)
	got := c.read(t.Name, list[0].partition, list[0].offset, 3)
	return t.Name, list[0].partition, got[len(got)-1].Offset + 1
}

// waiting is a Poll under way.
type waiting struct {
	batch *storage.Batch
	ended chan error
}

// startPoll begins a Poll and gives it the time to wait.
func (c *env) startPoll(ctx context.Context, req storage.PollRequest) *waiting {
	b := c.b
	w := &waiting{batch: new(storage.Batch), ended: make(chan error, 1)}
	go func() { w.ended <- b.Poll(ctx, req, w.batch) }()
	c.pause(c.h.Settle)
	return w
}

// end wants the Poll to end within the patience.
func (w *waiting) end(c *env, what string) error {
	c.Helper()
	late := time.NewTimer(c.h.Patience)
	defer late.Stop()
	select {
	case err := <-w.ended:
		return err
	case <-late.C:
		c.Fatalf("%s: a waiting Poll did not end within %v", what, c.h.Patience)
		return nil
	}
}

// longer is a Wait that ends only after the patience.
func (c *env) longer() time.Duration { return 4 * c.h.Patience }

// waitEndsEmpty: without a record Poll waits as long as asked, not more, and
// that is no error.
func waitEndsEmpty(c *env) {
	topic, part, next := c.tail()
	for _, start := range []int64{next, storage.Cursor} {
		c.seek(topic, part, next)
		for _, wait := range []time.Duration{0, c.h.Settle} {
			began := time.Now()
			batch := c.poll(storage.PollRequest{Topic: topic, Partition: part, Start: start, Wait: wait})
			took := time.Since(began)
			if len(batch.Records) != 0 || took < wait*9/10 || took > wait+c.h.Patience {
				c.Errorf("Wait %v: %d records after %v", wait, len(batch.Records), took)
			}
			if batch.Next < next {
				c.Errorf("an empty batch from %d has Next %d", next, batch.Next)
			}
		}
	}
}

// waitRecordWakes: a record that arrives ends the wait.
func waitRecordWakes(c *env) {
	topic, part, next := c.tail()
	c.seek(topic, part, next)
	for i, start := range []int64{next, storage.Cursor} {
		w := c.startPoll(context.Background(), storage.PollRequest{Topic: topic, Partition: part, Start: start, Wait: c.longer()})
		list := c.fill(topic, "", fmt.Sprint("after", i), 1)
		if err := w.end(c, "after an append"); err != nil {
			c.Fatalf("a waiting Poll at %d: %v", start, err)
		}
		if i == 0 {
			c.wantRecords("woken", w.batch.Records, list)
		}
		if len(w.batch.Records) == 0 {
			c.Errorf("a Poll was woken without a record")
		}
	}
}

// waitContextWakes: the end of the context ends the wait, as an error.
func waitContextWakes(c *env) {
	topic, part, next := c.tail()
	req := storage.PollRequest{Topic: topic, Partition: part, Start: next, Wait: c.longer()}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := c.startPoll(ctx, req)
	cancel()
	if err := w.end(c, "after cancel"); !errors.Is(err, context.Canceled) {
		c.Errorf("a waiting Poll after cancel: %v, want context.Canceled", err)
	}
	if err := c.startPoll(ctx, req).end(c, "with an ended context"); !errors.Is(err, context.Canceled) {
		c.Errorf("Poll with an ended context: %v, want context.Canceled", err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), c.h.Settle/2)
	defer cancel()
	if err := c.startPoll(ctx, req).end(c, "after the deadline"); !errors.Is(err, context.DeadlineExceeded) {
		c.Errorf("a waiting Poll after its deadline: %v, want context.DeadlineExceeded", err)
	}
}

// waitCloseWakes: Close ends every wait with ErrClosed.
func waitCloseWakes(c *env) {
	topic, part, next := c.tail()
	c.seek(topic, part, next)
	var all []*waiting
	for _, start := range []int64{storage.Cursor, next, next} {
		all = append(all, c.startPoll(context.Background(), storage.PollRequest{Topic: topic, Partition: part, Start: start, Wait: c.longer()}))
	}
	c.must("Close", func(context.Context) error { return c.b.Close() })
	for _, w := range all {
		if err := w.end(c, "after Close"); !errors.Is(err, storage.ErrClosed) {
			c.Errorf("a waiting Poll after Close: %v, want ErrClosed", err)
		}
		if len(w.batch.Records) != 0 {
			c.Errorf("after ErrClosed the batch has %d records", len(w.batch.Records))
		}
	}
}

// waitHoldsUpNobody: while a Poll waits, everything else goes on, the same
// partition and topic included.
func waitHoldsUpNobody(c *env) {
	topic, part, next := c.tail()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.seek(topic, part, next)
	w := c.startPoll(ctx, storage.PollRequest{Topic: topic, Partition: part, Start: storage.Cursor, Wait: c.longer()})
	other := c.topic(2)
	c.wantAll(other, c.fill(other.Name, "k", "other", 5))
	c.wantNothing(topic, part, next)
	if _, err := c.describe(topic); err != nil {
		c.Errorf("Topic while a Poll waits: %v", err)
	}
	c.must("Cursor", func(context.Context) error { c.b.Cursor(topic, part); return nil })
	select {
	case err := <-w.ended:
		c.Errorf("a Poll was ended by what went on elsewhere: %v", err)
	default:
	}
	cancel()
	if err := w.end(c, "after cancel"); !errors.Is(err, context.Canceled) {
		c.Errorf("a waiting Poll after cancel: %v", err)
	}
}

// waitManyAreWoken: any number may wait at explicit offsets, and all get the
// record.
func waitManyAreWoken(c *env) {
	topic, part, next := c.tail()
	req := storage.PollRequest{Topic: topic, Partition: part, Start: next, Wait: c.longer()}
	b := c.b
	all := make([]*waiting, 40)
	for i := range all {
		w := &waiting{batch: new(storage.Batch), ended: make(chan error, 1)}
		go func() { w.ended <- b.Poll(context.Background(), req, w.batch) }()
		all[i] = w
	}
	c.pause(c.h.Settle)
	list := c.fill(topic, "", "after", 1)
	for _, w := range all {
		if err := w.end(c, "after an append"); err != nil {
			c.Fatalf("one of many waiting Polls: %v", err)
		}
		c.wantRecords("one of many waiting Polls", w.batch.Records, list)
	}
}

// waitDeleteUnderPoll: a Poll whose topic is deleted ends when its wait does,
// at the latest, and later ones say that the topic is missing.
func waitDeleteUnderPoll(c *env) {
	topic, part, next := c.tail()
	req := storage.PollRequest{Topic: topic, Partition: part, Start: next, Wait: 2 * c.h.Settle}
	w := c.startPoll(context.Background(), req)
	c.deleteTopic(topic)
	if err := w.end(c, "after DeleteTopic"); err != nil && !errors.Is(err, storage.ErrTopicNotFound) && !errors.Is(err, storage.ErrTopicChanged) {
		c.Errorf("a waiting Poll whose topic was deleted: %v", err)
	}
	if len(w.batch.Records) != 0 {
		c.Errorf("a Poll of a deleted topic gave %d records from its end on", len(w.batch.Records))
	}
	c.eventually("Poll of a deleted topic", func() error {
		return c.topicNotFound("Poll", func(ctx context.Context) error { return c.b.Poll(ctx, req, new(storage.Batch)) })
	})
}

// topicNotFound is nil where f gives ErrTopicNotFound.
func (c *env) topicNotFound(what string, f func(ctx context.Context) error) error {
	if err := c.bounded(what, f); !errors.Is(err, storage.ErrTopicNotFound) {
		return fmt.Errorf("%s gives %w, want ErrTopicNotFound", what, err)
	}
	return nil
}

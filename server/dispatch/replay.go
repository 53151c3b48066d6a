package dispatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/storage"
)

// LetterFrame reads the event of a dead letter, as it is in the topic of dead
// letters, else where it was; nil: the log holds neither any more. What has taken
// its place in a topic that was made anew is not taken for it. Of a letter that had
// no room for all attributes of its event, the event itself comes first.
func (d *Dispatcher) LetterFrame(ctx context.Context, let Letter) (frame.View, error) {
	letter, err := d.frameAt(ctx, let.LetterTopic, "", let.LetterPartition, let.LetterOffset)
	if err != nil {
		return nil, err
	}
	if letter != nil && !isLetter(letter, let.ID) {
		letter = nil
	}
	if letter != nil && !isFull(letter) {
		return letter, nil
	}
	event, err := d.frameAt(ctx, let.Topic, let.TopicID, let.Partition, let.Offset)
	if err != nil || event != nil && (letter == nil || isLetterOf(letter, event)) {
		return event, err
	}
	return letter, nil
}

// frameAt reads the frame of a record; nil: there is none, or no such place.
func (d *Dispatcher) frameAt(ctx context.Context, topic, topicID, partition string, off int64) (frame.View, error) {
	if topic == "" || partition == "" {
		return nil, nil
	}
	rec, err := d.readOne(ctx, topic, topicID, partition, off)
	switch {
	case errors.Is(err, storage.ErrTopicNotFound), errors.Is(err, storage.ErrPartitionNotFound):
		return nil, nil
	case err != nil || rec == nil:
		return nil, err
	}
	return frame.View(rec.Frame), nil
}

// isFull tells whether a letter has as many attributes as a frame may have, so that
// its event may have had more.
func isFull(v frame.View) bool { return v.Count() >= frame.MaxAttributes }

// isLetterOf tells whether an event has all that a letter has of its own.
func isLetterOf(letter, event frame.View) bool {
	for name, value := range letter.Attributes() {
		if frame.Reserved(name) {
			continue
		}
		if had, ok := event.Attr(string(name)); !ok || !bytes.Equal(had, value) {
			return false
		}
	}
	return bytes.Equal(letter.Data(), event.Data())
}

// isLetter tells whether an event is the dead letter of that id.
func isLetter(v frame.View, id string) bool {
	value, ok := v.Attr(frame.AttrDLQID)
	return ok && string(value) == id
}

// ErrNoReplay: a dead letter cannot be published again.
var ErrNoReplay = errors.New("it cannot be replayed")

// Replay publishes dead letters to their topic again, each for the subscriber
// that failed, with a fresh budget, and takes them off the ledger. It returns
// how many it published, and how many it did not come to before the deadline of ctx.
// Those that cannot be replayed are passed over and told of when the others are
// done: ErrNoReplay.
func (d *Dispatcher) Replay(ctx context.Context, q LetterQuery) (n, left int64, err error) {
	list, _, err := d.Letters(q)
	if err != nil {
		return 0, 0, err
	}
	var passed int64
	var why error
	for i, let := range list {
		done, err := d.replayOne(ctx, let)
		switch {
		case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
			left = int64(len(list) - i)
		case errors.Is(err, ErrNoReplay):
			if passed++; why == nil {
				why = fmt.Errorf("dead letter %s: %w", let.ID, err)
			}
		case err != nil:
			return n, 0, fmt.Errorf("replay of dead letter %s (%d before it were replayed): %w", let.ID, n, err)
		case done:
			n++
		}
		if left > 0 {
			break
		}
	}
	switch {
	case passed > 0 && left > 0:
		return n, left, fmt.Errorf("%d were replayed, %d were not, and there was no time for %d: %w", n, passed, left, why)
	case passed > 0:
		return n, 0, fmt.Errorf("%d were replayed, %d were not: %w", n, passed, why)
	}
	return n, left, nil
}

// replayOne replays a letter, if it is on the ledger still.
func (d *Dispatcher) replayOne(ctx context.Context, let Letter) (done bool, err error) {
	if err := d.lockLedger(ctx); err != nil {
		return false, err
	}
	defer d.unlockLedger()
	if listed, err := d.listed(&let); err != nil || !listed {
		return false, err
	}
	e, err := d.revived(ctx, let)
	if err != nil {
		return false, err
	}
	// From here on the caller may leave: what is published again must not be found
	// on the ledger.
	ctx = context.WithoutCancel(ctx)
	res, err := d.appendAgain(ctx, let, e)
	if err == nil {
		err = res[0].Err
	}
	if err != nil {
		return false, err
	}
	return true, d.forgetLetters(ctx, []Letter{let})
}

// revived is the event of a letter as it is published again.
func (d *Dispatcher) revived(ctx context.Context, let Letter) (e storage.Event, err error) {
	if err := d.awaited(let); err != nil {
		return e, err
	}
	v, err := d.LetterFrame(ctx, let)
	if err != nil {
		return e, err
	}
	if v == nil {
		return e, fmt.Errorf("%w: the log holds its event no more, purge it", ErrNoReplay)
	}
	f := v.Frame()
	for i := len(f.Attributes) - 1; i >= 0; i-- {
		if name := f.Attributes[i].Name; frame.Reserved(name) || name == frame.AttrTTL {
			f.Delete(name)
		}
	}
	f.Set(frame.AttrToSubscriber, let.Subscriber)
	raw, err := frame.Append(nil, &f)
	if err != nil {
		return e, fmt.Errorf("%w: %w", ErrNoReplay, err)
	}
	key, _ := f.Get(frame.AttrPartitionKey)
	return storage.Event{Frame: raw, Key: key, DedupKey: "replay:" + let.key()}, nil
}

// awaited returns nil where a letter's subscriber is known: it gets what is
// addressed to it. One that is not, and comes later, may start behind it.
func (d *Dispatcher) awaited(let Letter) error {
	sub, err := offsetstore.ParseSubscriber(let.Subscriber)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoReplay, err)
	}
	_, known, err := d.store.GetRecord(subscribersSpace, recordKey(let.Topic, sub))
	if err == nil && !known {
		err = fmt.Errorf("%w: subscriber %s has no progress on topic %q here, so nobody would get it: replay it once it has subscribed", ErrNoReplay, sub, let.Topic)
	}
	return err
}

// appendAgain appends an event where its dead letter is from.
func (d *Dispatcher) appendAgain(ctx context.Context, let Letter, e storage.Event) ([]storage.Appended, error) {
	lite, err := d.holdsLites(ctx, let.Topic)
	switch {
	case err != nil:
		return nil, err
	case lite:
		return storage.AppendLiteWait(ctx, d.lites, let.Topic, let.Partition, []storage.Event{e})
	}
	return storage.AppendWait(ctx, d.backend, let.Topic, []storage.Event{e})
}

// Purge takes dead letters off the ledger and returns how many.
func (d *Dispatcher) Purge(ctx context.Context, q LetterQuery) (int64, error) {
	list, _, err := d.Letters(q)
	if err != nil {
		return 0, err
	}
	const group = 1000
	var n int64
	for part := range slices.Chunk(list, group) {
		purged, err := d.purge(ctx, part)
		if n += purged; err != nil {
			return n, err
		}
	}
	return n, nil
}

// purge takes off the ledger those of the letters that are on it still.
func (d *Dispatcher) purge(ctx context.Context, list []Letter) (int64, error) {
	if err := d.lockLedger(ctx); err != nil {
		return 0, err
	}
	defer d.unlockLedger()
	var there []Letter
	for i := range list {
		listed, err := d.listed(&list[i])
		if err != nil {
			return 0, err
		}
		if listed {
			there = append(there, list[i])
		}
	}
	if len(there) == 0 {
		return 0, nil
	}
	return int64(len(there)), d.forgetLetters(ctx, there)
}

// listed tells whether a letter is on the ledger.
func (d *Dispatcher) listed(let *Letter) (bool, error) {
	_, ok, err := d.store.GetRecord(ledgerSpace, let.key())
	return ok, err
}

// lockLedger has the caller be the only one who takes letters off the ledger.
func (d *Dispatcher) lockLedger(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err // though the ledger may be free
	}
	select {
	case d.forgetting <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *Dispatcher) unlockLedger() { <-d.forgetting }

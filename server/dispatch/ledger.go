package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/storage"
)

// LetterQuery selects dead letters.
type LetterQuery struct {
	Topic      string
	Subscriber string   // empty: all
	IDs        []string // empty: all
	After      string   // key of the last letter of the page before
	Limit      int      // 0: no limit
}

// Letters lists dead letters in the order of their death, and the key to go on
// after; empty: these were the last. It changes nothing.
func (d *Dispatcher) Letters(q LetterQuery) (list []Letter, next string, err error) {
	var bad error
	err = d.store.ScanRecords(ledgerSpace, ledgerPrefix(q.Topic), q.After, func(key string, value []byte) bool {
		var let Letter
		if bad = json.Unmarshal(value, &let); bad != nil {
			bad = fmt.Errorf("dead letter %q in the ledger: %w (%w)", key, offsetstore.ErrCorrupt, bad)
			return false
		}
		if q.Subscriber != "" && let.Subscriber != q.Subscriber || len(q.IDs) > 0 && !slices.Contains(q.IDs, let.ID) {
			return true
		}
		if q.Limit > 0 && len(list) == q.Limit {
			next = list[len(list)-1].key()
			return false
		}
		list = append(list, let)
		return true
	})
	return list, next, errors.Join(err, bad)
}

// LetterFrame reads the event of a dead letter, as it is in the topic of dead
// letters, else where it was; nil: the log holds neither any more.
func (d *Dispatcher) LetterFrame(ctx context.Context, let Letter) (frame.View, error) {
	places := []struct {
		topic, partition string
		offset           int64
	}{{let.LetterTopic, let.LetterPartition, let.LetterOffset}, {let.Topic, let.Partition, let.Offset}}
	for _, at := range places {
		if at.topic == "" || at.partition == "" {
			continue
		}
		rec, err := d.readOne(ctx, at.topic, at.partition, at.offset)
		if err != nil && !errors.Is(err, storage.ErrTopicNotFound) && !errors.Is(err, storage.ErrPartitionNotFound) {
			return nil, err
		}
		if rec != nil {
			return frame.View(rec.Frame), nil
		}
	}
	return nil, nil
}

// Replay publishes dead letters to their topic again, each for the subscriber
// that failed, with a fresh budget, and takes them off the ledger. It returns
// how many it published.
func (d *Dispatcher) Replay(ctx context.Context, q LetterQuery) (int64, error) {
	list, _, err := d.Letters(q)
	if err != nil {
		return 0, err
	}
	var n int64
	for _, let := range list {
		if err := d.replayOne(ctx, let); err != nil {
			return n, fmt.Errorf("replay of dead letter %s (%d before it were replayed): %w", let.ID, n, err)
		}
		n++
	}
	return n, nil
}

func (d *Dispatcher) replayOne(ctx context.Context, let Letter) error {
	v, err := d.LetterFrame(ctx, let)
	if err != nil {
		return err
	}
	if v == nil {
		return fmt.Errorf("the log holds its event no more: purge it: %w", storage.ErrTopicNotFound)
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
		return err
	}
	key, _ := f.Get(frame.AttrPartitionKey)
	res, err := d.appendAgain(ctx, let, storage.Event{Frame: raw, Key: key, DedupKey: "replay:" + let.key()})
	if err == nil {
		err = res[0].Err
	}
	if err != nil {
		return err
	}
	return d.forgetLetters(ctx, []Letter{let})
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
		if err := d.forgetLetters(ctx, part); err != nil {
			return n, err
		}
		n += int64(len(part))
	}
	return n, nil
}

// ErrBusy: the subscriber has live streams.
var ErrBusy = errors.New("subscriber has live streams")

// DeleteSubscriber removes all that is known of a subscriber of a topic. It must
// have no stream.
func (d *Dispatcher) DeleteSubscriber(ctx context.Context, topic string, key offsetstore.Subscriber) error {
	if err := d.locks.lock(ctx, topic, key); err != nil {
		return err
	}
	defer d.locks.unlock(topic, key) // whoever opens it now finds nothing
	if n := d.streamsOf(topic, key); n > 0 {
		return fmt.Errorf("subscriber %s of topic %q has %d: end them first: %w", key, topic, n, ErrBusy)
	}
	if err := d.settleLeft(ctx, topic, key); err != nil {
		return err
	}
	txn := &offsetstore.Txn{Unsets: []offsetstore.Record{{Space: subscribersSpace, Key: recordKey(topic, key)}}}
	if err := d.store.Scan(topic, func(k offsetstore.Key, _ offsetstore.Value) bool {
		if k.Subscriber == key {
			txn.Deletes = append(txn.Deletes, k)
		}
		return true
	}); err != nil {
		return err
	}
	if err := d.store.ScanRecords(intentSpace, subscriberIntents(topic, key), "", func(k string, _ []byte) bool {
		txn.Unsets = append(txn.Unsets, offsetstore.Record{Space: intentSpace, Key: k})
		return true
	}); err != nil {
		return err
	}
	_, known, err := d.store.GetRecord(subscribersSpace, recordKey(topic, key))
	if err != nil {
		return err
	}
	if len(txn.Deletes) == 0 && !known {
		return fmt.Errorf("subscriber %s has no progress on topic %q: %w", key, topic, offsetstore.ErrNotFound)
	}
	lite, err := d.readsLites(topic, key)
	if err != nil {
		return err
	}
	if lite {
		return d.deleteFromLites(ctx, txn)
	}
	if err := d.forgetPop(ctx, topic, key); err != nil {
		return err
	}
	return offsetstore.Commit(ctx, d.store, txn)
}

// DeleteTopicState removes what is known of all subscribers of a topic without
// streams, after the topic was deleted. Those with streams start anew when the
// topic is made again.
func (d *Dispatcher) DeleteTopicState(ctx context.Context, topic string) error {
	list, err := d.Subscribers(topic)
	if err != nil {
		return err
	}
	for _, info := range list {
		err := d.DeleteSubscriber(ctx, topic, info.Subscriber)
		if err != nil && !errors.Is(err, ErrBusy) && !errors.Is(err, offsetstore.ErrNotFound) {
			return err
		}
	}
	return nil
}

// Evict ends the streams of a client and returns how many.
func (d *Dispatcher) Evict(clientID, why string) int {
	n := 0
	for _, s := range d.allStreams() {
		if s.Config().ClientID == clientID {
			s.evictFor(ErrSentAway, why)
			n++
		}
	}
	return n
}

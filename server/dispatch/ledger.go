package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ackmesh/ackmesh/offsetstore"
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
	wanted := map[string]bool{}
	for _, id := range q.IDs {
		wanted[id] = true
	}
	err = d.store.ScanRecords(ledgerSpace, ledgerPrefix(q.Topic), q.After, func(key string, value []byte) bool {
		var let Letter
		if bad = json.Unmarshal(value, &let); bad != nil {
			bad = fmt.Errorf("dead letter %q in the ledger: %w (%w)", key, offsetstore.ErrCorrupt, bad)
			return false
		}
		if q.Subscriber != "" && let.Subscriber != q.Subscriber || len(wanted) > 0 && !wanted[let.ID] {
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

// ErrBusy: the subscriber has live streams.
var ErrBusy = errors.New("subscriber has live streams")

// DeleteSubscriber removes all that is known of a subscriber of a topic. It must
// have no stream.
func (d *Dispatcher) DeleteSubscriber(ctx context.Context, topic string, key offsetstore.Subscriber) error {
	if err := d.locks.lock(ctx, topic, key); err != nil {
		return err
	}
	defer d.locks.unlock(topic, key) // whoever opens it now finds nothing
	return d.deleteLocked(ctx, topic, key)
}

// deleteLocked is DeleteSubscriber of one that is locked.
func (d *Dispatcher) deleteLocked(ctx context.Context, topic string, key offsetstore.Subscriber) error {
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

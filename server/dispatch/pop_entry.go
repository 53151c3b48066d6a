package dispatch

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/ackmesh/ackmesh/offset"
	"github.com/ackmesh/ackmesh/offsetstore"
)

// popSpace holds an entry for each message that is finished and not confirmed
// by the broker, or was delivered and is not finished.
const popSpace = "pop"

// popEntry is what is kept of a message.
type popEntry struct {
	finished            bool
	sent, spent, breaks int32 // as in offsetstore.Attempt
	due                 int64 // ms; 0: may be in flight
	at                  int64 // when it was written, ms
}

const popEntryVersion = 1

func (e popEntry) encode() []byte {
	b := make([]byte, 0, 32)
	b = append(b, popEntryVersion, 0)
	if e.finished {
		b[1] = 1
	}
	for _, v := range []int64{int64(e.sent), int64(e.spent), int64(e.breaks), e.due, e.at} {
		b = binary.AppendVarint(b, v)
	}
	return b
}

func decodePopEntry(b []byte) (e popEntry, err error) {
	bad := fmt.Errorf("entry of a popped message has %d bytes that cannot be read: %w", len(b), offsetstore.ErrCorrupt)
	if len(b) < 2 || b[0] != popEntryVersion || b[1] > 1 {
		return e, bad
	}
	e.finished, b = b[1] == 1, b[2:]
	var v [5]int64
	for i := range v {
		n := 0
		if v[i], n = binary.Varint(b); n <= 0 {
			return e, bad
		}
		b = b[n:]
	}
	if len(b) != 0 {
		return e, bad
	}
	e.sent, e.spent, e.breaks, e.due, e.at = int32(v[0]), int32(v[1]), int32(v[2]), v[3], v[4]
	return e, nil
}

// dueSlack is within what two due times count as one: they are computed anew
// for each commit.
const dueSlack = 20 // ms

// same tells whether e says no more than o.
func (e popEntry) same(o popEntry) bool {
	d := e.due - o.due
	return e.finished == o.finished && e.sent == o.sent && e.spent == o.spent && e.breaks == o.breaks &&
		(e.due == 0) == (o.due == 0) && d >= -dueSlack && d <= dueSlack
}

// attempt is e as the history of an offset.
func (e popEntry) attempt(off int64) offsetstore.Attempt {
	return offsetstore.Attempt{
		Range: offset.Range{First: off, Last: off}, Sent: e.sent, Spent: e.spent, Breaks: e.breaks, Due: e.due,
	}
}

// asked is how long the message was to wait when the entry was written.
func (e popEntry) asked() time.Duration {
	return time.Duration(min(max(0, e.due-e.at), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// popPrefix is what the keys of a subscriber's entries begin with.
func popPrefix(topic string, sub offsetstore.Subscriber) string {
	key := recordKey(topic, sub)
	return fmt.Sprintf("%d:%s", len(key), key)
}

// loadEntries reads the entries of a subscriber: those to keep, and the keys of
// those that are too old. While nobody popped the broker could hand out nothing,
// so those are only that are older than an absent subscriber may be.
func (d *Dispatcher) loadEntries(prefix string, now time.Time) (known map[string]popEntry, old []string, err error) {
	known = map[string]popEntry{}
	oldest := now.Add(-popKeep - d.cfg.Expiry).UnixMilli()
	var bad error
	err = d.store.ScanRecords(popSpace, prefix, "", func(key string, value []byte) bool {
		e, err := decodePopEntry(value)
		switch {
		case err != nil:
			bad = err
			return false
		case e.at < oldest:
			old = append(old, key[len(prefix):])
		default:
			known[key[len(prefix):]] = e
		}
		return true
	})
	if err == nil {
		err = bad
	}
	return known, old, err
}

// unsetEntries removes the entries of a subscriber.
func (d *Dispatcher) unsetEntries(ctx context.Context, topic string, sub offsetstore.Subscriber) error {
	var list []offsetstore.Record
	err := d.store.ScanRecords(popSpace, popPrefix(topic, sub), "", func(key string, _ []byte) bool {
		list = append(list, offsetstore.Record{Space: popSpace, Key: key})
		return true
	})
	if err != nil {
		return err
	}
	return unsetAll(ctx, d.store, list)
}

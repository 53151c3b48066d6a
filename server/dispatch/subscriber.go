package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server/delivery"
	"github.com/ackmesh/ackmesh/storage"
)

// Mode says how the records of a topic are divided, with the numbers of the wire.
type Mode uint8

// The modes.
const (
	LoadBalance Mode = 1 + iota
	Broadcast
	Multicast
)

// String is the mode's name on the wire, without its prefix.
func (m Mode) String() string {
	return [...]string{"UNSPECIFIED", "LOAD_BALANCE", "BROADCAST", "MULTICAST"}[min(m, 3)]
}

// Filter decides which records a MULTICAST subscriber gets. It must be safe
// for concurrent use.
type Filter interface{ Match(v frame.View) bool }

// Place is where a subscriber begins.
type Place struct {
	// At is what the other fields are read by.
	At     PlaceKind
	Offset int64
	Time   time.Time
	Match  storage.TimeMatch
	// Given: the client asked for it; else it is the default.
	Given bool
}

// PlaceKind says how a Place is given.
type PlaceKind uint8

// The kinds of Place; Latest is the default.
const (
	Latest PlaceKind = iota
	Earliest
	AtOffset
	AtTime
)

// Settings belong to a subscriber of a topic: the first Open sets them.
type Settings struct {
	Mode    Mode   `json:"mode"`
	Filter  string `json:"filter,omitempty"`
	Ordered bool   `json:"ordered,omitempty"`
	// MaxAttempts and Backoff are the subscriber's own retry policy; 0 and
	// empty: the server's. Backoff is written as durations with commas between
	// them, so that Settings can be compared.
	MaxAttempts int    `json:"maxAttempts,omitempty"`
	Backoff     string `json:"backoff,omitempty"`
	// Lite: of lite topics of the topic. Ordered then means one event of each
	// unfinished at a time, whatever its key.
	Lite bool `json:"lite,omitempty"`
}

// JoinBackoff writes waits as Settings.Backoff has them.
func JoinBackoff(waits []time.Duration) string {
	var b strings.Builder
	for i, w := range waits {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(w.String())
	}
	return b.String()
}

// retry puts the subscriber's own policy over the server's.
func (a Settings) retry(set delivery.Settings) delivery.Settings {
	set.Ordered = a.Ordered
	if a.Lite {
		set.LookAhead = liteLookAhead
	}
	if a.MaxAttempts > 0 {
		set.MaxAttempts = a.MaxAttempts
	}
	if a.Backoff == "" {
		return set
	}
	var waits []time.Duration
	for text := range strings.SplitSeq(a.Backoff, ",") {
		w, err := time.ParseDuration(text)
		if err != nil {
			return set // not ours: written by JoinBackoff only
		}
		waits = append(waits, w)
	}
	set.Backoff = waits
	return set
}

// differs names the field in which b is not a; empty: none.
func (a Settings) differs(b Settings) (field string, have, want any) {
	switch {
	case a.Mode != b.Mode:
		return "mode", a.Mode, b.Mode
	case a.Filter != b.Filter:
		return "filter", a.Filter, b.Filter
	case a.Ordered != b.Ordered:
		return "ordered", a.Ordered, b.Ordered
	case a.MaxAttempts != b.MaxAttempts:
		return "retry.max_attempts", a.MaxAttempts, b.MaxAttempts
	case a.Backoff != b.Backoff:
		return "retry.backoff", a.Backoff, b.Backoff
	}
	return "", nil, nil
}

// subscriber is who owns progress on a topic, while it has streams here.
type subscriber struct {
	key      offsetstore.Subscriber
	name     string // key as text
	topic    string
	settings Settings // fixed while live > 0
	filter   Filter
	locks    *subscriberLocks // held while the subscriber is opened
	live     int              // bindings; guarded by topic.mu
	lites    map[*Stream]int  // of lite topics: bindings by stream; guarded by topic.mu
}

// matches tells whether the subscriber wants a record.
func (s *subscriber) matches(rec *storage.Record) bool {
	return s.filter == nil || s.filter.Match(frame.View(rec.Frame))
}

// SettingsError says that a subscription differs from the subscriber's settings.
type SettingsError struct {
	Topic      string
	Subscriber offsetstore.Subscriber
	Field      string
	Have, Want any
}

// Error names the field and both values.
func (e *SettingsError) Error() string {
	return fmt.Sprintf("subscriber %s of topic %q has %s %v, not %v: it can change only while the subscriber has no stream",
		e.Subscriber, e.Topic, e.Field, e.Have, e.Want)
}

// subscribersSpace holds the settings of subscribers.
const subscribersSpace = "subscribers"

// recordKey is the settings' key: the topic with its length before, so that no
// name can be taken for another.
func recordKey(topic string, sub offsetstore.Subscriber) string {
	return fmt.Sprintf("%d:%s%s", len(topic), topic, sub)
}

// join makes the binding one of the topic's, under the settings it asks for.
// leave must follow.
func (t *topic) join(ctx context.Context, b *binding, key offsetstore.Subscriber, want Settings, filter Filter) error {
	t.mu.Lock()
	sub := t.subs[key]
	if sub == nil {
		sub = &subscriber{key: key, name: key.String(), topic: t.name, settings: want, filter: filter, locks: &t.d.locks}
		t.subs[key] = sub
	}
	if field, have, asked := sub.settings.differs(want); field != "" {
		t.mu.Unlock()
		return &SettingsError{Topic: t.name, Subscriber: key, Field: field, Have: have, Want: asked}
	}
	sub.live++
	if t.lite {
		if sub.lites == nil {
			sub.lites = map[*Stream]int{}
		}
		sub.lites[b.s]++
	}
	b.sub, b.topic = sub, t
	t.mu.Unlock()
	return nil
}

func (t *topic) leave(b *binding) {
	t.exit(b)
	if b.lite != nil {
		t.leaveLite(b.lite)
	}
	t.mu.Lock()
	delete(t.bound, b)
	if t.lite {
		if b.sub.lites[b.s]--; b.sub.lites[b.s] == 0 {
			delete(b.sub.lites, b.s)
		}
	}
	if b.sub.live--; b.sub.live == 0 {
		delete(t.subs, b.sub.key)
	}
	t.mu.Unlock()
}

// lock serializes what opens, resets and deletes a subscriber.
func (s *subscriber) lock(ctx context.Context) error { return s.locks.lock(ctx, s.topic, s.key) }

func (s *subscriber) unlock() { s.locks.unlock(s.topic, s.key) }

// position makes a position of the subscriber durable in every partition of
// loops that it has none in. It is what must be done before Opened is sent. It
// returns those that were corrected because the topic was made anew.
func (d *Dispatcher) position(ctx context.Context, t *topic, sub *subscriber, loops []*loop, start *Place, resume map[offsetstore.Key]Resume) (anew []position, err error) {
	if err := sub.lock(ctx); err != nil {
		return nil, err
	}
	defer sub.unlock()
	known, err := d.knownBefore(t, sub)
	if err != nil {
		return nil, err
	}
	txn := &offsetstore.Txn{}
	if known != sub.settings {
		raw, err := json.Marshal(sub.settings)
		if err != nil {
			return nil, err
		}
		txn.Sets = append(txn.Sets, offsetstore.Record{Space: subscribersSpace, Key: recordKey(t.name, sub.key), Value: raw})
	}
	place := start
	if known.Mode != 0 || start == nil {
		place = &Place{At: Earliest} // a partition that has appeared since
	}
	for _, l := range loops {
		put, corrected, err := d.startIn(ctx, t, sub, l.partition, *place, resume)
		if err != nil {
			return nil, fmt.Errorf("start of subscriber %s in topic %q partition %q: %w", sub.key, t.name, l.partition, err)
		}
		if put != nil {
			txn.Puts = append(txn.Puts, *put)
		}
		if corrected {
			anew = append(anew, durablePosition(put.Key, put.Value))
		}
	}
	if len(txn.Puts) == 0 && len(txn.Sets) == 0 {
		return nil, nil
	}
	err = offsetstore.Commit(ctx, d.store, txn)
	if err == nil {
		d.Metrics.Corrected.Add(int64(len(anew)))
	}
	return anew, err
}

// knownBefore returns the settings that the subscriber had last; zero: never seen.
func (d *Dispatcher) knownBefore(t *topic, sub *subscriber) (Settings, error) {
	raw, ok, err := d.store.GetRecord(subscribersSpace, recordKey(t.name, sub.key))
	if err != nil || !ok {
		return Settings{}, err
	}
	var s Settings
	if err := json.Unmarshal(raw, &s); err != nil {
		return Settings{}, fmt.Errorf("settings of subscriber %s of topic %q: %w (%w)", sub.key, t.name, offsetstore.ErrCorrupt, err)
	}
	return s, nil
}

// Resume is a position that the client was told before, of one partition.
type Resume struct {
	Epoch uint64
	Next  int64
}

// startIn resolves where a subscriber begins in a partition; nil: it has a
// position that fits the log. corrected tells that it had one that does not.
func (d *Dispatcher) startIn(ctx context.Context, t *topic, sub *subscriber, partition string, place Place, resume map[offsetstore.Key]Resume) (put *offsetstore.Put, corrected bool, err error) {
	key := offsetstore.Key{Topic: t.name, Subscriber: sub.key, Partition: partition}
	id := t.identity()
	v, ok, err := d.store.Get(key)
	if err != nil {
		return nil, false, err
	}
	if ok && (v.Log.TopicID == id || v.Log.TopicID == "") {
		return nil, false, nil
	}
	low, high, err := t.bounds(ctx, partition)
	if err != nil {
		return nil, false, err
	}
	next := v
	switch r, given := resume[key]; {
	case ok: // the topic was made anew
		d.warn("topic was deleted and created again: starting at its minimum", "topic", t.name, "partition", partition, "subscriber", sub.key.String(), "from", v.Position, "to", low)
		next = offsetstore.Value{Epoch: v.Epoch + 1, Position: low}
	case given && r.Next >= low && r.Next <= high:
		next = offsetstore.Value{Epoch: r.Epoch, Position: r.Next}
	default:
		next.Position, err = d.resolve(ctx, key, place, low, high)
		if err != nil {
			return nil, false, err
		}
	}
	next.High = next.Position
	next.Log = offsetstore.LogID{TopicID: id}
	if next.Position > low {
		before, err := d.printBefore(ctx, t.name, partition, next.Position)
		if err != nil {
			return nil, false, err
		}
		next.Log.Floor, next.Log.Top = before, before
	}
	return &offsetstore.Put{Key: key, Value: next}, ok, nil
}

// resolve turns a place into an offset within the log's bounds.
func (d *Dispatcher) resolve(ctx context.Context, key offsetstore.Key, place Place, low, high int64) (int64, error) {
	switch place.At {
	case Earliest:
		return low, nil
	case AtOffset:
		return min(max(place.Offset, low), high), nil
	case AtTime:
		b, ok := storage.As[storage.Bounder](d.backend)
		if !ok {
			return 0, errors.New("the backend finds no offsets by time")
		}
		off, err := b.OffsetByTime(ctx, key.Topic, key.Partition, place.Time, place.Match)
		return min(max(off, low), high), err
	}
	return high, nil
}

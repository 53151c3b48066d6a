package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server/delivery"
)

// LivePart is what a partition's loop knows of a subscriber.
type LivePart struct {
	delivery.Stats
	LastAck time.Time
}

// Live returns what is going on for a subscriber in a partition; ok is false
// when it has no stream here. It changes nothing.
func (d *Dispatcher) Live(ctx context.Context, key offsetstore.Key) (out LivePart, ok bool, err error) {
	d.mu.Lock()
	t := d.topics[key.Topic]
	d.mu.Unlock()
	if t == nil {
		return LivePart{}, false, nil
	}
	t.mu.Lock()
	l := t.byName[key.Partition]
	if d.pop != nil && !t.lite {
		l = t.feeds[key.Subscriber]
	}
	t.mu.Unlock()
	if l == nil {
		return LivePart{}, false, nil
	}
	err = l.call(ctx, func() {
		if p := l.parts[key.Subscriber]; p != nil {
			out, ok = LivePart{p.m.Stats(), p.lastAck}, true
		}
	})
	if errors.Is(err, errLoopEnded) {
		return LivePart{}, false, nil
	}
	return out, ok, err
}

// LookSoon makes the dispatcher look at its topics at once.
func (d *Dispatcher) LookSoon() { d.lookSoon() }

// SubscriberInfo describes a subscriber of a topic.
type SubscriberInfo struct {
	Topic      string
	Subscriber offsetstore.Subscriber
	Settings   Settings
	Streams    int
	Absent     int64 // ms since 1970; 0: present, or never seen to leave
}

// Subscribers lists who has progress on a topic; empty: on any.
func (d *Dispatcher) Subscribers(topic string) ([]SubscriberInfo, error) {
	type id struct {
		topic string
		sub   offsetstore.Subscriber
	}
	type entry struct {
		SubscriberInfo
		undated bool // a crash has left some of its values without a date
	}
	found := map[id]*entry{}
	var bad error
	err := d.store.ScanRecords(subscribersSpace, "", "", func(key string, value []byte) bool {
		t, sub, err := splitRecordKey(key)
		if err != nil {
			bad = err
			return false
		}
		if topic != "" && t != topic {
			return true
		}
		info := &entry{SubscriberInfo: SubscriberInfo{Topic: t, Subscriber: sub}}
		if bad = json.Unmarshal(value, &info.Settings); bad != nil {
			return false
		}
		found[id{t, sub}] = info
		return true
	})
	if err = cmp.Or(err, bad); err != nil {
		return nil, err
	}
	err = d.store.Scan(topic, func(k offsetstore.Key, v offsetstore.Value) bool {
		if info := found[id{k.Topic, k.Subscriber}]; info != nil {
			info.Absent = max(info.Absent, v.Absent)
			info.undated = info.undated || v.Absent == 0
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	out := make([]SubscriberInfo, 0, len(found))
	for _, info := range found {
		if info.Streams = d.streamsOf(info.Topic, info.Subscriber); info.Streams > 0 || info.undated {
			info.Absent = 0
		}
		out = append(out, info.SubscriberInfo)
	}
	slices.SortFunc(out, func(a, b SubscriberInfo) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Subscriber.String(), b.Subscriber.String()))
	})
	return out, nil
}

func (d *Dispatcher) streamsOf(topic string, sub offsetstore.Subscriber) int {
	d.mu.Lock()
	t := d.topics[topic]
	d.mu.Unlock()
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.subs[sub]
	switch {
	case s == nil:
		return 0
	case t.lite && len(s.lites) > 0:
		return len(s.lites)
	}
	return s.live
}

// splitRecordKey is the inverse of recordKey.
func splitRecordKey(key string) (topic string, sub offsetstore.Subscriber, err error) {
	head, rest, ok := strings.Cut(key, ":")
	n, err := strconv.Atoi(head)
	if !ok || err != nil || n < 0 || n > len(rest) {
		return "", sub, fmt.Errorf("record %q of a subscriber has no topic: %w", key, offsetstore.ErrCorrupt)
	}
	sub, err = offsetstore.ParseSubscriber(rest[n:])
	return rest[:n], sub, err
}

// ClientInfo describes a live stream.
type ClientInfo struct {
	Config        StreamConfig
	Since         time.Time
	InFlight      int
	InFlightBytes int64
	Subscriptions []SubscriptionInfo
}

// SubscriptionInfo describes a subscription of a stream.
type SubscriptionInfo struct {
	ID           uint32
	Topic, Share string
	Settings     Settings
}

// Clients lists the live streams, by client and start.
func (d *Dispatcher) Clients() []ClientInfo {
	streams := d.allStreams()
	out := make([]ClientInfo, 0, len(streams))
	for _, s := range streams {
		info := ClientInfo{Config: s.Config(), Since: s.Since}
		info.InFlight, info.InFlightBytes = s.InFlight()
		parent := false
		for _, b := range s.allBindings() {
			if b.lite != nil && parent {
				continue // all are of one parent and one subscriber
			}
			parent = b.lite != nil
			sub := SubscriptionInfo{ID: b.id, Topic: b.topic.name, Settings: b.sub.settings}
			if b.sub.key.Kind == offsetstore.KindShare {
				sub.Share = b.sub.key.Name
			}
			info.Subscriptions = append(info.Subscriptions, sub)
		}
		slices.SortFunc(info.Subscriptions, func(a, b SubscriptionInfo) int { return cmp.Compare(a.ID, b.ID) })
		out = append(out, info)
	}
	slices.SortFunc(out, func(a, b ClientInfo) int {
		return cmp.Or(cmp.Compare(a.Config.ClientID, b.Config.ClientID), a.Since.Compare(b.Since))
	})
	return out
}

package rocketmq5_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/ackmesh/ackmesh/storage"
)

func liteOf(t *testing.T, b storage.Backend) storage.Liter {
	t.Helper()
	l, ok := storage.As[storage.Liter](b)
	if !ok {
		t.Fatal("no Liter")
	}
	return l
}

// TestLiteSentAlone: each message of a lite topic goes in a call of its own, in
// the order of the events, with its lite topic, and is told no offset.
func TestLiteSentAlone(t *testing.T) {
	r, b := appending(t, v2.MessageType_LITE)
	lites := []string{"a", "b", "c"}
	fates := make(chan []storage.Appended, len(lites))
	for _, lite := range lites {
		var events []storage.Event
		for i := range 20 {
			events = append(events, eventWith(fmt.Sprint("key", i), fmt.Sprint(lite, i)))
		}
		err := liteOf(t, b).AppendLite(t.Context(), "t", lite, events, func(results []storage.Appended, err error) {
			if err != nil {
				t.Error(err)
			}
			fates <- results
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for range lites {
		results := <-fates
		noErrors(t, results)
		for _, res := range results {
			if !slices.Contains(lites, res.Partition) || res.Offset != storage.OffsetUntold {
				t.Fatalf("an event is told to be at %s:%d", res.Partition, res.Offset)
			}
		}
	}
	sent := r.proxy.Sent()
	if n := r.proxy.Calls("SendMessage"); n != len(sent) || n != 60 {
		t.Errorf("60 events took %d calls for %d messages", n, len(sent))
	}
	next := map[string]int{}
	for i, data := range dataOf(sent) {
		sys := sent[i].GetSystemProperties()
		lite := sys.GetLiteTopic()
		if data != fmt.Sprint(lite, next[lite]) || sys.GetMessageType() != v2.MessageType_LITE || sys.MessageGroup != nil {
			t.Fatalf("message %d is %q with %v, event %d of %q is next", i, data, sys, next[lite], lite)
		}
		next[lite]++
	}
}

// TestLiteRefused: what cannot become a message of a lite topic is told, and how
// to do it.
func TestLiteRefused(t *testing.T) {
	r, b := appending(t, v2.MessageType_LITE)
	r.topic(t, "plain", 1)
	for name, c := range map[string]struct {
		parent, lite string
		event        storage.Event
		want         error
		says         string
	}{
		"a bad name":        {"t", "a.b", eventWith("", "x"), storage.ErrInvalid, "A-Z"},
		"an ordinary topic": {"plain", "a", eventWith("", "x"), storage.ErrTopicType, "+message.type=LITE"},
		"a missing parent":  {"none", "a", eventWith("", "x"), storage.ErrTopicNotFound, "updateTopic"},
		"a delayed event":   {"t", "a", eventWith("", "x", "emdeliverytime", "2099-01-01T00:00:00Z"), storage.ErrInvalid, "deliver at once"},
	} {
		results, err := storage.AppendLiteWait(t.Context(), liteOf(t, b), c.parent, c.lite, []storage.Event{c.event})
		if err == nil {
			err = results[0].Err
		}
		if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	results := appendTo(t, b, "t", eventWith("", "x"))
	if err := results[0].Err; !errors.Is(err, storage.ErrTopicType) || !strings.Contains(err.Error(), "lite topic") {
		t.Errorf("an ordinary append to a parent: %v", err)
	}
	if topic, err := b.Topic(t.Context(), "t"); err != nil || !topic.Lite || len(topic.Partitions) > 0 {
		t.Errorf("the parent is %+v, %v", topic, err)
	}
}

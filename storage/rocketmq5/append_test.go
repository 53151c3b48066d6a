package rocketmq5_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq5"
	"github.com/ackmesh/ackmesh/storage/rocketmq5/fakeproxy"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

// appending is a log for appends, with a topic of some types.
func appending(t *testing.T, types ...v2.MessageType) (*rig, storage.Backend) {
	t.Helper()
	r := newRig(t, false, fakeproxy.Options{})
	b := r.open(t, rocketmq5.Options{WriteTimeout: 10 * time.Second})
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	r.topic(t, "t", 1)
	if len(types) > 0 {
		r.proxy.SetTypes("t", types...)
	}
	return r, b
}

func eventWith(key, data string, attrs ...string) storage.Event {
	return storage.Event{Key: key, Frame: storagetest.Frame([]byte(data), attrs...)}
}

func appendTo(t *testing.T, b storage.Backend, topic string, events ...storage.Event) []storage.Appended {
	t.Helper()
	results, err := storage.AppendWait(t.Context(), b, topic, events)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return results
}

func noErrors(t *testing.T, results []storage.Appended) {
	t.Helper()
	for i, r := range results {
		if r.Err != nil {
			t.Errorf("event %d: %v", i, r.Err)
		}
	}
}

// dataOf is what messages carry, in order.
func dataOf(list []*v2.Message) (data []string) {
	for _, m := range list {
		data = append(data, string(frame.View(m.GetBody()).Data()))
	}
	return data
}

// Events without a key go in few calls, in their order, and each is told its
// place.
func TestAppendInBatches(t *testing.T) {
	r, b := appending(t)
	var events []storage.Event
	var want []string
	for i := range 300 {
		want = append(want, fmt.Sprint(i))
		events = append(events, eventWith("", fmt.Sprint(i), "id", fmt.Sprint("e", i), "type", "x", "note", "a\nb"))
	}
	results := appendTo(t, b, "t", events...)
	noErrors(t, results)
	for i, res := range results {
		if res.Partition != "broker-a:0" || res.Offset != int64(i) {
			t.Fatalf("event %d is told to be at %s:%d", i, res.Partition, res.Offset)
		}
	}
	sent := r.proxy.Sent()
	if !slices.Equal(dataOf(sent), want) {
		t.Errorf("sent is %q", dataOf(sent))
	}
	if n := r.proxy.Calls("SendMessage"); n > 3 {
		t.Errorf("300 events took %d calls", n)
	}
	m := sent[7]
	if p := m.GetUserProperties(); p["id"] != "e7" || p["type"] != "x" || len(p) != 2 {
		t.Errorf("properties %v: what RocketMQ does not take must be left out", p)
	}
	if sys := m.GetSystemProperties(); !slices.Equal(sys.GetKeys(), []string{"e7"}) || sys.GetMessageType() != v2.MessageType_NORMAL || sys.MessageGroup != nil || len(sys.GetMessageId()) != 34 {
		t.Errorf("system properties %v", sys)
	}
}

// What a topic takes decides what an event becomes.
func TestAppendByType(t *testing.T) {
	soon, past := time.Now().Add(time.Hour).Truncate(time.Millisecond), time.Now().Add(-time.Hour)
	const normal, fifo, delay = v2.MessageType_NORMAL, v2.MessageType_FIFO, v2.MessageType_DELAY
	mixed := []v2.MessageType{normal, fifo, delay}
	long := strings.Repeat("k", 200)
	for name, c := range map[string]struct {
		types []v2.MessageType
		event storage.Event
		want  v2.MessageType // 0: refused
		group string
		due   time.Time
	}{
		"keyed on FIFO":      {[]v2.MessageType{fifo}, eventWith("k", "d"), fifo, "k", time.Time{}},
		"keyless on FIFO":    {[]v2.MessageType{fifo}, eventWith("", "d"), fifo, "*", time.Time{}},
		"long key":           {[]v2.MessageType{fifo}, eventWith(long, "d"), fifo, "*", time.Time{}},
		"key with a control": {[]v2.MessageType{fifo}, eventWith("a\tb", "d"), fifo, "*", time.Time{}},
		"keyed on NORMAL":    {[]v2.MessageType{normal}, eventWith("k", "d"), normal, "", time.Time{}},
		"keyed on several":   {mixed, eventWith("k", "d"), fifo, "k", time.Time{}},
		"keyless on several": {mixed, eventWith("", "d"), normal, "", time.Time{}},
		"due on several":     {mixed, eventWith("k", "d", "emdeliverytime", soon.Format(time.RFC3339Nano)), delay, "", soon},
		"due, in ms":         {[]v2.MessageType{delay}, eventWith("", "d", "emdeliverytime", fmt.Sprint(soon.UnixMilli())), delay, "", soon},
		"due in the past":    {[]v2.MessageType{normal}, eventWith("", "d", "emdeliverytime", past.Format(time.RFC3339)), normal, "", time.Time{}},
		"not due, on DELAY":  {[]v2.MessageType{delay}, eventWith("", "d"), delay, "", time.Now()},
		"due on NORMAL":      {[]v2.MessageType{normal}, eventWith("", "d", "emdeliverytime", soon.Format(time.RFC3339)), 0, "", time.Time{}},
		"due at no time":     {[]v2.MessageType{delay}, eventWith("", "d", "emdeliverytime", "tomorrow"), 0, "", time.Time{}},
		"on a lite topic":    {[]v2.MessageType{v2.MessageType_LITE}, eventWith("", "d"), 0, "", time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			r, b := appending(t, c.types...)
			res := appendTo(t, b, "t", c.event)[0]
			if c.want == 0 {
				if !errors.Is(res.Err, storage.ErrInvalid) && !errors.Is(res.Err, storage.ErrTopicType) {
					t.Errorf("append: %v, want it refused", res.Err)
				}
				return
			}
			noErrors(t, []storage.Appended{res})
			sys := r.proxy.Sent()[0].GetSystemProperties()
			if sys.GetMessageType() != c.want {
				t.Fatalf("sent as %v, want %v", sys.GetMessageType(), c.want)
			}
			if g := sys.GetMessageGroup(); c.group != "*" && g != c.group || c.group == "*" && (len(g) < 20 || len(g) > 63) {
				t.Errorf("the message group is %q", g)
			}
			if got := sys.GetDeliveryTimestamp().AsTime(); !c.due.IsZero() && got.Sub(c.due).Abs() > 10*time.Second {
				t.Errorf("due at %v, want %v", got, c.due)
			}
		})
	}
}

// Events of one key keep their order on a FIFO topic, whatever fails in passing.
func TestAppendKeepsOrderOfKeys(t *testing.T) {
	r, b := appending(t, v2.MessageType_FIFO)
	r.proxy.Fail("SendMessage", 5, v2.Code_INTERNAL_SERVER_ERROR, "in passing")
	var events []storage.Event
	for i := range 100 {
		events = append(events, eventWith(fmt.Sprint("k", i%7), fmt.Sprint(i)))
	}
	noErrors(t, appendTo(t, b, "t", events...))
	last := map[string]int{}
	for _, m := range r.proxy.Sent() {
		var n int
		if _, err := fmt.Sscan(dataOf([]*v2.Message{m})[0], &n); err != nil {
			t.Fatal(err)
		}
		g := m.GetSystemProperties().GetMessageGroup()
		if before, ok := last[g]; ok && n < before {
			t.Errorf("group %s: %d was sent after %d", g, n, before)
		}
		last[g] = n
	}
}

// One event that is refused fails alone; one that is too large refuses all.
func TestAppendOneRefused(t *testing.T) {
	r, b := appending(t)
	results := appendTo(t, b, "t", eventWith("", "a"), eventWith("", "refuse me"), eventWith("", "c"))
	if results[0].Err != nil || results[2].Err != nil || !errors.Is(results[1].Err, storage.ErrInvalid) {
		t.Errorf("results %v", results)
	}
	if got := dataOf(r.proxy.Sent()); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("sent is %q", got)
	}
	_, err := storage.AppendWait(t.Context(), b, "t", []storage.Event{eventWith("", "d"), {Frame: make([]byte, 5<<20)}})
	if !errors.Is(err, storage.ErrTooLarge) || !strings.Contains(err.Error(), "maxMessageSize") {
		t.Errorf("5 MiB: %v", err)
	}
	if _, err := storage.AppendWait(t.Context(), b, "t", []storage.Event{{}}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("nothing: %v", err)
	}
}

// While the proxy is away events wait; they are sent when it is back, once. A
// log that is closed meanwhile fails them.
func TestAppendThroughARestart(t *testing.T) {
	r, b := appending(t)
	noErrors(t, appendTo(t, b, "t", eventWith("", "first")))
	r.proxy.Down()
	fate := make(chan []storage.Appended, 1)
	if err := b.Append(t.Context(), "t", []storage.Event{eventWith("", "second")}, func(res []storage.Appended, err error) {
		if err != nil {
			t.Errorf("append: %v", err)
		}
		fate <- res
	}); err != nil {
		t.Fatal(err)
	}
	r.proxy.Up()
	noErrors(t, <-fate)
	if got := dataOf(r.proxy.Sent()); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("sent is %q", got)
	}
}

// A topic whose type is another one now is noticed: messages are made anew.
func TestAppendAfterChangeOfType(t *testing.T) {
	r, b := appending(t)
	noErrors(t, appendTo(t, b, "t", eventWith("k", "normal")))
	r.proxy.SetTypes("t", v2.MessageType_FIFO)
	noErrors(t, appendTo(t, b, "t", eventWith("k", "fifo")))
	if sys := r.proxy.Sent()[1].GetSystemProperties(); sys.GetMessageType() != v2.MessageType_FIFO || sys.GetMessageGroup() != "k" {
		t.Errorf("sent as %v", sys)
	}
	r.proxy.Fail("SendMessage", 3, v2.Code_MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, "a cache is behind")
	noErrors(t, appendTo(t, b, "t", eventWith("k", "again")))
	r.proxy.SetTypes("t", v2.MessageType_LITE)
	if res := appendTo(t, b, "t", eventWith("k", "lite")); res[0].Err == nil || !strings.Contains(res[0].Err.Error(), "lite") {
		t.Errorf("to a lite topic: %v", res[0].Err)
	}
}

// A missing topic is told with the command that makes it.
func TestMissingTopic(t *testing.T) {
	_, b := appending(t)
	res := appendTo(t, b, "none", eventWith("", "d"))
	if !errors.Is(res[0].Err, storage.ErrTopicNotFound) || !strings.Contains(res[0].Err.Error(), "mqadmin updateTopic") {
		t.Errorf("append: %v", res[0].Err)
	}
	if _, err := b.EnsureTopic(t.Context(), "none"); !errors.Is(err, storage.ErrTopicNotFound) || !strings.Contains(err.Error(), "mqadmin updateTopic") {
		t.Errorf("EnsureTopic: %v", err)
	}
	if _, err := b.Topic(t.Context(), "with space"); !errors.Is(err, storage.ErrTopicNotFound) || !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("a name that cannot be: %v", err)
	}
	list, err := b.Topics(t.Context())
	if err != nil || len(list) != 1 || list[0].Name != "t" || !slices.Equal(list[0].Partitions, []string{"broker-a:0"}) {
		t.Errorf("topics: %+v, %v", list, err)
	}
}

// Where the topic has several queues, the place that is told is found again.
func TestPlaceByID(t *testing.T) {
	r, b := appending(t)
	r.topic(t, "wide", 3)
	res := appendTo(t, b, "wide", eventWith("", "d"))[0]
	if !strings.HasPrefix(res.Partition, "id:01") {
		t.Fatalf("the place is %+v", res)
	}
	bounds, _ := storage.As[storage.Bounder](b)
	for _, q := range []string{"broker-a:0", "broker-a:1", "broker-a:2"} {
		_, high, err := bounds.Bounds(t.Context(), "wide", q)
		if err != nil {
			t.Fatal(err)
		}
		if high == 0 {
			continue
		}
		var batch storage.Batch // the fake stores under ids of its own
		err = b.Poll(t.Context(), storage.PollRequest{Topic: "wide", Partition: "id:" + r.br.ID("wide", q, 0), Start: res.Offset, MaxRecords: -1, MaxBytes: -1}, &batch)
		if err != nil || len(batch.Records) != 1 || string(frame.View(batch.Records[0].Frame).Data()) != "d" || batch.Records[0].Offset != res.Offset {
			t.Errorf("by its id is found %+v, %v", batch.Records, err)
		}
	}
}

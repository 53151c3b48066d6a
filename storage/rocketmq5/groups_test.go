package rocketmq5_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq5"
	"github.com/ackmesh/ackmesh/storage/rocketmq5/fakeproxy"
)

const groupName = "EM-0123456789"

func openGroup(t *testing.T, b storage.Backend, spec storage.GroupSpec) (storage.Group, error) {
	t.Helper()
	p, ok := storage.As[storage.Popper](b)
	if !ok {
		t.Fatal("no Popper")
	}
	if spec.Topic == "" {
		spec.Topic = "t"
	}
	spec.Group = groupName
	return p.OpenGroup(t.Context(), spec)
}

func popSome(t *testing.T, b storage.Backend, n int) (list []storage.Record) {
	t.Helper()
	p, _ := storage.As[storage.Popper](b)
	for end := time.Now().Add(20 * time.Second); len(list) < n; {
		var batch storage.Batch
		err := p.Pop(t.Context(), storage.PopRequest{Topic: "t", Group: groupName, Max: n - len(list), Invisible: 30 * time.Second, Wait: time.Second}, &batch)
		if err != nil {
			t.Fatalf("pop: %v", err)
		}
		if list = append(list, batch.Records...); time.Now().After(end) {
			t.Fatalf("%d of %d records came", len(list), n)
		}
	}
	return list
}

// A group that may not be made is told with the command that makes it.
func TestGroupMayNotBeMade(t *testing.T) {
	_, b := appending(t)
	rocketmq5.PortOf(b).RefuseGroups(errors.New("no permission"))
	for ordered, more := range map[bool]string{false: "-r 100000", true: "-o true"} {
		_, err := openGroup(t, b, storage.GroupSpec{Ordered: ordered})
		if !errors.Is(err, storage.ErrUnsupported) || !strings.Contains(err.Error(), "mqadmin updateSubGroup") || !strings.Contains(err.Error(), groupName) || !strings.Contains(err.Error(), more) {
			t.Errorf("ordered %v: %v", ordered, err)
		}
	}
	rocketmq5.PortOf(b).RefuseGroups(nil)
	if g, err := openGroup(t, b, storage.GroupSpec{}); err != nil || !g.Created || g.StartOpen {
		t.Errorf("when it may be made: %+v, %v", g, err)
	}
	if _, err := openGroup(t, b, storage.GroupSpec{Topic: "none"}); !errors.Is(err, storage.ErrTopicNotFound) || !strings.Contains(err.Error(), "mqadmin updateTopic") {
		t.Errorf("of a missing topic: %v", err)
	}
}

// A group that an error kept from being placed in every queue is still new when it
// is opened again: it does not begin at the minimum of the other queues.
func TestGroupIsPlacedAfterAnError(t *testing.T) {
	r, b := appending(t)
	r.topic(t, "two", 2)
	for _, name := range []string{"old", "old too"} {
		noErrors(t, appendTo(t, b, "two", eventWith("", name), eventWith("", name)))
	}
	spec := storage.GroupSpec{Topic: "two", Start: storage.GroupStart{At: storage.GroupLatest}}
	rocketmq5.PortOf(b).FailPlace("broker-a:1")
	for range 2 {
		if _, err := openGroup(t, b, spec); !errors.Is(err, storage.ErrUnavailable) {
			t.Fatalf("while a queue is away: %v", err)
		}
	}
	rocketmq5.PortOf(b).FailPlace("")
	if g, err := openGroup(t, b, spec); err != nil || !g.Created {
		t.Fatalf("when it is back: %+v, %v", g, err)
	}
	admin, _ := storage.As[storage.GroupAdmin](b)
	list, err := admin.GroupOffsets(t.Context(), "two", groupName)
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, o := range list {
		total += o.Max
		if o.Next != o.Max {
			t.Errorf("%s is to begin at %d, its end is %d", o.Partition, o.Next, o.Max)
		}
	}
	if total != 4 {
		t.Errorf("%d events are in the queues: %+v", total, list)
	}
	if g, err := openGroup(t, b, spec); err != nil || g.Created {
		t.Errorf("once it is placed: %+v, %v", g, err)
	}
}

// Without name servers an ordered group cannot be made, an explicit start not
// be given, nothing be read by position, and each of these says what to set.
func TestBareSaysWhatToSet(t *testing.T) {
	r := newRig(t, true, fakeproxy.Options{})
	b := r.open(t, rocketmq5.Options{})
	defer b.Close()
	r.topic(t, "t", 1)
	_, ordered := openGroup(t, b, storage.GroupSpec{Ordered: true})
	_, start := openGroup(t, b, storage.GroupSpec{Start: storage.GroupStart{At: storage.GroupLatest}})
	var batch storage.Batch
	read := b.Poll(t.Context(), storage.PollRequest{Topic: "t", Partition: "broker-a:0"}, &batch)
	for what, err := range map[string]error{"an ordered group": ordered, "an explicit start": start, "a read": read} {
		if !errors.Is(err, storage.ErrUnsupported) || !strings.Contains(err.Error(), "rocketmq5.nameservers") {
			t.Errorf("%s: %v", what, err)
		}
	}
	g, err := openGroup(t, b, storage.GroupSpec{})
	if err != nil || !g.StartOpen || !strings.Contains(g.Note, "rocketmq5.nameservers") || !strings.Contains(g.Note, "17 times") {
		t.Errorf("a group: %+v, %v", g, err)
	}
	if g, err := openGroup(t, b, storage.GroupSpec{}); err != nil || g.Created {
		t.Errorf("the same group again: %+v, %v", g, err)
	}
}

// A receipt that was used or replaced is not sent again: the broker would say
// OK.
func TestC32_SpentReceiptsAreNotSent(t *testing.T) {
	r, b := appending(t)
	if _, err := openGroup(t, b, storage.GroupSpec{}); err != nil {
		t.Fatal(err)
	}
	noErrors(t, appendTo(t, b, "t", eventWith("", "a"), eventWith("", "b")))
	list := popSome(t, b, 2)
	acker, _ := storage.As[storage.Acker](b)
	popper, _ := storage.As[storage.Popper](b)
	renewed, err := popper.Renew(t.Context(), []any{list[1].Handle}, time.Minute)
	if err != nil || !renewed[0].OK {
		t.Fatalf("renew: %v, %v", renewed, err)
	}
	for range 5 {
		if _, err := acker.Ack(t.Context(), []any{list[0].Handle, list[1].Handle}); err != nil {
			t.Fatal(err)
		}
	}
	if known, err := acker.Ack(t.Context(), []any{renewed[0].Handle}); err != nil || !known[0] {
		t.Errorf("the renewed one: %v, %v", known, err)
	}
	c := r.br.Counts("t", groupName)
	for id, n := range c.AckCalls {
		if n != 1 {
			t.Errorf("the broker was told %d times of message %s", n, id)
		}
	}
	if len(c.Acks) != 2 {
		t.Errorf("%d messages are acked", len(c.Acks))
	}
}

// An ack that is refused in passing is an error and can be tried again; the
// others of the call are acked.
func TestC31_RefusedAck(t *testing.T) {
	r, b := appending(t)
	if _, err := openGroup(t, b, storage.GroupSpec{}); err != nil {
		t.Fatal(err)
	}
	noErrors(t, appendTo(t, b, "t", eventWith("", "a"), eventWith("", "b")))
	list := popSome(t, b, 2)
	handles := []any{list[0].Handle, list[1].Handle}
	acker, _ := storage.As[storage.Acker](b)
	for range 2 {
		r.proxy.Fail("AckMessage", 1, v2.Code_INTERNAL_SERVER_ERROR, "busy") // the last entry comes first there
		known, err := acker.Ack(t.Context(), handles)
		if !errors.Is(err, storage.ErrUnavailable) || known[1] {
			t.Fatalf("a refused ack: %v, %v", known, err)
		}
	}
	known, err := acker.Ack(t.Context(), handles)
	if err != nil || known[0] || !known[1] {
		t.Errorf("the third time: %v, %v", known, err)
	}
	if n := len(r.br.Counts("t", groupName).Acks); n != 2 {
		t.Errorf("%d messages are acked", n)
	}
}

// A renewal that fails for some in passing is tried again; none is lost.
func TestRenewTriesAgain(t *testing.T) {
	r, b := appending(t)
	if _, err := openGroup(t, b, storage.GroupSpec{}); err != nil {
		t.Fatal(err)
	}
	var events []storage.Event
	for i := range 10 {
		events = append(events, eventWith("", fmt.Sprint(i)))
	}
	noErrors(t, appendTo(t, b, "t", events...))
	var handles []any
	for _, rec := range popSome(t, b, 10) {
		handles = append(handles, rec.Handle)
	}
	popper, _ := storage.As[storage.Popper](b)
	r.proxy.Fail("ChangeInvisibleDuration", 3, v2.Code_PROXY_TIMEOUT, "slow")
	out, err := popper.Renew(t.Context(), handles, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range out {
		if !o.OK {
			t.Errorf("record %d was not renewed", i)
		}
	}
	r.proxy.Fail("ChangeInvisibleDuration", 1000, v2.Code_PROXY_TIMEOUT, "slow")
	if out, err := popper.Renew(t.Context(), []any{out[0].Handle}, time.Minute); !errors.Is(err, storage.ErrUnavailable) || out != nil {
		t.Errorf("renewal while nothing answers: %v, %v", out, err)
	}
	if _, err := popper.Renew(t.Context(), handles, time.Second); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("renewal for a second: %v", err)
	}
}

// A renewal that fails again and again for one of two receipts says so of that one
// alone, and not that it is known no more.
func TestRenewFailsForOne(t *testing.T) {
	r, b := appending(t)
	if _, err := openGroup(t, b, storage.GroupSpec{}); err != nil {
		t.Fatal(err)
	}
	noErrors(t, appendTo(t, b, "t", eventWith("", "a"), eventWith("", "b")))
	var handles []any
	for _, rec := range popSome(t, b, 2) {
		handles = append(handles, rec.Handle)
	}
	popper, _ := storage.As[storage.Popper](b)
	r.proxy.Fail("ChangeInvisibleDuration", 7, v2.Code_PROXY_TIMEOUT, "slow") // four tries of one, three of the other
	out, err := popper.Renew(t.Context(), handles, time.Minute)
	if err != nil || out[0].OK == out[1].OK {
		t.Fatalf("renewed: %+v, %v", out, err)
	}
	one := 0
	if out[0].OK {
		one = 1
	}
	if out[one].Handle != handles[one] {
		t.Fatalf("of the one that failed: %+v", out[one])
	}
	if again, err := popper.Renew(t.Context(), []any{out[one].Handle}, time.Minute); err != nil || !again[0].OK {
		t.Errorf("another try: %+v, %v", again, err)
	}
}

// Receipts of a group that was removed make no client of it: nobody would ever
// close that. Once the group is there again its own client is used.
func TestReceiptsOfARemovedGroup(t *testing.T) {
	r, b := appending(t)
	if _, err := openGroup(t, b, storage.GroupSpec{}); err != nil {
		t.Fatal(err)
	}
	noErrors(t, appendTo(t, b, "t", eventWith("", "a"), eventWith("", "b")))
	list := popSome(t, b, 2)
	admin, _ := storage.As[storage.GroupAdmin](b)
	popper, _ := storage.As[storage.Popper](b)
	if err := admin.DeleteGroup(t.Context(), "t", groupName); err != nil {
		t.Fatal(err)
	}
	if err := popper.Release(t.Context(), []any{list[0].Handle}); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("release: %v", err)
	}
	if _, err := popper.Renew(t.Context(), []any{list[1].Handle}, time.Minute); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("renewal: %v", err)
	}
	if n := r.proxy.Clients(); n != 0 {
		t.Errorf("%d clients are left of a group that is removed", n)
	}
	if _, err := openGroup(t, b, storage.GroupSpec{Start: storage.GroupStart{At: storage.GroupEarliest}}); err != nil {
		t.Fatal(err)
	}
	popSome(t, b, 2)
	if _, err := popper.Renew(t.Context(), []any{list[1].Handle}, time.Minute); err != nil {
		t.Errorf("renewal when the group is there again: %v", err)
	}
	if n := r.proxy.Clients(); n != 1 {
		t.Errorf("%d clients of one group", n)
	}
}

// A body is made a frame whatever it is, also when its producer has compressed
// it.
func TestBodies(t *testing.T) {
	plain, event := []byte("just text"), eventWith("", "a frame", "id", "1").Frame
	zipped := func(w interface {
		Write([]byte) (int, error)
		Close() error
	}, body []byte,
	) {
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var gz, z bytes.Buffer
	zipped(gzip.NewWriter(&gz), plain)
	zipped(zlib.NewWriter(&z), event)
	key := "k1"
	for name, c := range map[string]struct {
		body     []byte
		encoding v2.Encoding
		want     string
		attrs    map[string]string
	}{
		"frame":            {event, v2.Encoding_IDENTITY, "a frame", map[string]string{"id": "1"}},
		"bytes":            {plain, v2.Encoding_IDENTITY, "just text", map[string]string{"shop": "7", "partitionkey": "k1"}},
		"CloudEvent":       {[]byte(`{"specversion":"1.0","id":"2","source":"s","type":"t","data":"x"}`), v2.Encoding_IDENTITY, `"x"`, map[string]string{"id": "2"}},
		"gzip":             {gz.Bytes(), v2.Encoding_GZIP, "just text", nil},
		"zlib, said gzip":  {z.Bytes(), v2.Encoding_GZIP, "a frame", map[string]string{"id": "1"}},
		"gzip that is not": {plain, v2.Encoding_GZIP, "just text", nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := &v2.Message{Body: c.body, UserProperties: map[string]string{"shop": "7"}, SystemProperties: &v2.SystemProperties{BodyEncoding: c.encoding, MessageGroup: &key}}
			b, err := rocketmq5.AppendFrame(nil, m)
			if err != nil {
				t.Fatal(err)
			}
			view, err := frame.Parse(b)
			if err != nil {
				t.Fatal(err)
			}
			if string(view.Data()) != c.want {
				t.Errorf("data %q, want %q", view.Data(), c.want)
			}
			for name, want := range c.attrs {
				if got, _ := view.Attr(name); string(got) != want {
					t.Errorf("attribute %s is %q, want %q", name, got, want)
				}
			}
		})
	}
}

// A message that is handed out again shows that it lies in the group's retries;
// its id and time stay.
func TestPlaceOfWhatComesAgain(t *testing.T) {
	r, b := appending(t)
	if _, err := openGroup(t, b, storage.GroupSpec{}); err != nil {
		t.Fatal(err)
	}
	noErrors(t, appendTo(t, b, "t", eventWith("", "a")))
	first := popSome(t, b, 1)[0]
	r.ahead.Add(int64(time.Minute))
	r.br.Wake()
	second := popSome(t, b, 1)[0]
	if first.Partition != "broker-a:0" || second.Partition != "retry:broker-a:0" || second.ID != first.ID || second.Time != first.Time || second.DeliveryCount != 2 {
		t.Errorf("first %+v, then %+v", first, second)
	}
	if d, ok := rocketmq5.Invisible(second.CheckKey); !ok || d != 30*time.Second {
		t.Errorf("the receipt %q says %v, %v", second.CheckKey, d, ok)
	}
}

func TestOptions(t *testing.T) {
	good := rocketmq5.Options{Endpoints: []string{"p:8081"}}
	for name, change := range map[string]func(*rocketmq5.Options){
		"no endpoint":         func(o *rocketmq5.Options) { o.Endpoints = nil },
		"half an endpoint":    func(o *rocketmq5.Options) { o.Endpoints = []string{"p"} },
		"half a name server":  func(o *rocketmq5.Options) { o.NameServers = []string{"n"} },
		"key without secret":  func(o *rocketmq5.Options) { o.AccessKey = "k" },
		"records of no bytes": func(o *rocketmq5.Options) { o.MaxRecordBytes = 1 },
		"no queue":            func(o *rocketmq5.Options) { o.QueueBytes = -1 },
		"no time":             func(o *rocketmq5.Options) { o.WriteTimeout = -1 },
	} {
		o := good
		change(&o)
		if b, err := rocketmq5.Open(o); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				b.Close()
			}
		}
	}
	o := good
	o.NameServers = []string{"n:9876"}
	for _, o := range []rocketmq5.Options{good, o} {
		b, err := rocketmq5.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		_, admin := storage.As[storage.GroupAdmin](b)
		_, bounder := storage.As[storage.Bounder](b)
		if want := len(o.NameServers) > 0; admin != want || bounder != want {
			t.Errorf("with name servers %q: GroupAdmin %v, Bounder %v", o.NameServers, admin, bounder)
		}
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

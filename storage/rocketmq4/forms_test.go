package rocketmq4_test

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage/observe"
	"github.com/ackmesh/ackmesh/storage/rocketmq4"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/fakebroker"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// properties is the text of names and values.
func properties(pairs ...string) (text string) {
	for i := 0; i < len(pairs); i += 2 {
		text = remoting.AppendProperty(text, pairs[i], pairs[i+1])
	}
	return text
}

func zipped(t *testing.T, s string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := zlib.NewWriter(&buf)
	if _, err := w.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// Messages of other programs, of every form, become events; nothing is dropped,
// and what was no frame is counted.
func TestForms(t *testing.T) {
	compressed := remoting.SysCompressed | remoting.SysZlib
	event := `{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"a":1}}`
	batch, err := remoting.EncodeBatch([]remoting.OutMessage{{Body: []byte("one")}, {Body: []byte("two"), Properties: properties("TAGS", "x")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		m     remoting.Message
		form  string
		data  []string
		attrs map[string]string
	}{
		{"frame", remoting.Message{Body: numbered(7), Properties: properties("KEYS", "k")}, "", []string{""}, map[string]string{"id": "7"}},
		{
			"plain, with keys and tags",
			remoting.Message{Body: []byte("hello"), Properties: properties("KEYS", "k1 k2", "TAGS", "a", "UNIQ_KEY", "u", "WAIT", "true", "mine", "1")},
			"bytes",
			[]string{"hello"},
			map[string]string{"KEYS": "k1 k2", "TAGS": "a", "UNIQ_KEY": "u", "mine": "1", "partitionkey": "k1 k2"},
		},
		{
			"plain, with a sharding key",
			remoting.Message{Body: []byte("hello"), Properties: properties("__SHARDINGKEY", "s", "KEYS", "k")},
			"bytes",
			[]string{"hello"},
			map[string]string{"KEYS": "k", "partitionkey": "s"},
		},
		{
			"CloudEvent in JSON",
			remoting.Message{Body: []byte(event)},
			"cloudevents-json",
			[]string{`{"a":1}`},
			map[string]string{"id": "1", "source": "/s", "type": "t", "datacontenttype": "application/json"},
		},
		{
			"CloudEvent in binary mode",
			remoting.Message{Body: []byte("data"), Properties: properties("CE_specversion", "1.0", "CE_id", "2", "CE_type", "t", "CE_datacontenttype", "text/plain", "own", "x")},
			"cloudevents-binary",
			[]string{"data"},
			map[string]string{"id": "2", "type": "t", "datacontenttype": "text/plain", "own": "x"},
		},
		{
			"CloudEvent without data",
			remoting.Message{Body: []byte{0}, Properties: properties("CE_specversion", "1.0", "CE_id", "3")},
			"cloudevents-binary",
			[]string{""},
			map[string]string{"id": "3"},
		},
		{"compressed", remoting.Message{Body: zipped(t, "text"), SysFlag: compressed}, "bytes", []string{"text"}, map[string]string{}},
		{"compressed event", remoting.Message{Body: zipped(t, event), SysFlag: compressed}, "cloudevents-json", []string{`{"a":1}`}, nil},
		{"damaged compression", remoting.Message{Body: []byte("not zlib"), SysFlag: compressed}, "bytes", []string{"not zlib"}, map[string]string{}},
		{"batch in one message", remoting.Message{Body: batch, SysFlag: remoting.SysInnerBatch | remoting.SysUnwrap}, "bytes", []string{"one", "two"}, nil},
		{"long topic of properties", remoting.Message{Body: []byte("x"), Properties: properties("n", strings.Repeat("v", 5000), "ok", "1")}, "bytes", []string{"x"}, map[string]string{"ok": "1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := cluster(t, fakebroker.Options{})
			c.CreateTopic("t", 1)
			var forms sync.Map
			l := open(t, c, rocketmq4.Options{Observe: observe.Broker{Foreign: func(form string, _, _ int) { forms.Store(form, true) }}})
			if _, err := c.Append(master, "t", 0, tc.m); err != nil {
				t.Fatal(err)
			}
			store(t, c, "t", 0, 99, 100)
			var got []frame.Frame
			for next := int64(0); len(got) < len(tc.data)+1; {
				b := mustPoll(t, l, at(next))
				for i, r := range b.Records {
					f, err := frame.Decode(r.Frame)
					if err != nil || r.Offset != next+int64(i) || r.Time == 0 {
						t.Fatalf("record %d at %d, time %d: %v", i, r.Offset, r.Time, err)
					}
					got = append(got, f)
				}
				next = b.Next
			}
			for i, data := range tc.data {
				if string(got[i].Data) != data {
					t.Errorf("event %d has the data %q, want %q", i, got[i].Data, data)
				}
			}
			if attrs := attributes(got[0]); tc.attrs != nil && !reflect.DeepEqual(attrs, tc.attrs) {
				t.Errorf("attributes are %v, want %v", attrs, tc.attrs)
			}
			if _, ok := forms.Load(tc.form); ok != (tc.form != "") {
				t.Errorf("the form %q was counted: %v", tc.form, ok)
			}
		})
	}
}

func attributes(f frame.Frame) map[string]string {
	attrs := map[string]string{}
	for _, a := range f.Attributes {
		attrs[a.Name] = a.Value
	}
	return attrs
}

// The key of an event is the sharding key of its message, and chooses the queue
// that Java's clients would choose by it.
func TestKeys(t *testing.T) {
	c := cluster(t, fakebroker.Options{})
	c.CreateTopic("t", 7)
	l := open(t, c, rocketmq4.Options{})
	for key, hash := range map[string]int32{"a": 97, "order-17": 1234255109, "ключ": 33309882, "🔑": 1772660} { // of Java's String.hashCode
		if got := rocketmq4.HashOfKey(key); got != hash {
			t.Errorf("hash of %q is %d, want %d", key, got, hash)
		}
		r := writeKeyed(t, l, "t", 0, 1, func(int) string { return key })[0]
		n := int64(rocketmq4.HashOfKey(key))
		if n < 0 {
			n = -n
		}
		if want := fmt.Sprint(master, ":", n%7); r.Partition != want {
			t.Errorf("key %q went to %s, want %s", key, r.Partition, want)
		}
		remote, err := remoting.New(remoting.Options{NameServers: c.NameServers()})
		if err != nil {
			t.Fatal(err)
		}
		p, err := remote.Pull(t.Context(), c.Addr(master), remoting.PullRequest{Queue: remoting.Queue{Topic: "t", ID: int(n % 7)}, Offset: r.Offset})
		remote.Close()
		if err != nil {
			t.Fatal(err)
		}
		list, err := remoting.DecodeMessages(p.Body)
		if err != nil || len(list) == 0 {
			t.Fatalf("%d messages, %v", len(list), err)
		}
		if got, _ := list[0].Property(remoting.PropShardingKey); got != key {
			t.Errorf("the message of key %q has the sharding key %q", key, got)
		}
	}
	// A key that no property can hold places the event all the same.
	for _, key := range []string{"a\x01b", strings.Repeat("k", 20_000)} {
		if r := writeKeyed(t, l, "t", 0, 1, func(int) string { return key }); r[0].Err != nil {
			t.Error(r[0].Err)
		}
	}
}

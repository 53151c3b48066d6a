package kafka_test

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kfake"
	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/kafka"
	"github.com/ackmesh/ackmesh/storage/kafka/kafkatest"
	"github.com/ackmesh/ackmesh/storage/observe"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

// What other programs write arrives, in every form, and what finds no place is
// counted.
func TestForms(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	seed(t, c, "t", 1)
	var mu sync.Mutex
	counted := map[string]int{}
	leftOut := 0
	l := open(t, kafka.Options{Brokers: c.ListenAddrs(), Observe: observe.Broker{Foreign: func(form string, attributes, _ int) {
		mu.Lock()
		counted[form]++
		leftOut += attributes
		mu.Unlock()
	}}})
	header := func(pairs ...string) (list []sarama.RecordHeader) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, sarama.RecordHeader{Key: []byte(pairs[i]), Value: []byte(pairs[i+1])})
		}
		return list
	}
	cases := []struct {
		key, value string
		headers    []sarama.RecordHeader
		attributes map[string]string
		data       string
	}{
		{value: string(storagetest.Frame([]byte("d"), "id", "1")), attributes: map[string]string{"id": "1"}, data: "d"},
		{
			value:      `{"specversion":"1.0","id":"2","source":"/s","type":"t","data":{"a":1}}`,
			headers:    header("content-type", "application/cloudevents+json"),
			attributes: map[string]string{"id": "2", "source": "/s", "type": "t", "datacontenttype": "application/json"}, data: `{"a":1}`,
		},
		{
			key: "k", value: "\x00\xff", headers: header("ce_specversion", "1.0", "ce_id", "3", "ce_type", "t", "ce_source", "/s", "content-type", "application/avro", "x", "y"),
			attributes: map[string]string{"id": "3", "type": "t", "source": "/s", "datacontenttype": "application/avro", "x": "y", "partitionkey": "k"}, data: "\x00\xff",
		},
		{key: "k", value: "plain", headers: header("h", "1", "h", "2"), attributes: map[string]string{"h": "1", "partitionkey": "k"}, data: "plain"},
		{value: "", attributes: map[string]string{}, data: ""},
	}
	var messages []*sarama.ProducerMessage
	for _, m := range cases {
		p := &sarama.ProducerMessage{Topic: "t", Value: sarama.StringEncoder(m.value), Headers: m.headers}
		if m.key != "" {
			p.Key = sarama.StringEncoder(m.key)
		}
		messages = append(messages, p)
	}
	messages[4].Value = nil // a tombstone
	kafkatest.Produce(t, c.ListenAddrs(), messages...)
	b := mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: "0", Start: 0, Wait: patience})
	if len(b.Records) != len(cases) {
		t.Fatalf("%d records, want %d", len(b.Records), len(cases))
	}
	for i, m := range cases {
		f, err := frame.Decode(b.Records[i].Frame)
		if err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
		got := map[string]string{}
		for _, a := range f.Attributes {
			got[a.Name] = a.Value
		}
		if !maps.Equal(got, m.attributes) || string(f.Data) != m.data {
			t.Errorf("record %d is %v %q, want %v %q", i, got, f.Data, m.attributes, m.data)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if counted["frame"] != 0 || counted["cloudevents-json"] != 1 || counted["cloudevents-binary"] != 1 || counted["bytes"] != 2 || leftOut != 1 {
		t.Errorf("counted %v, %d attributes left out", counted, leftOut)
	}
}

// Many forms in one batch, read in small pieces: no record disturbs another.
func TestFormsMixed(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	seed(t, c, "t", 1)
	l := open(t, kafka.Options{Brokers: c.ListenAddrs()})
	var messages []*sarama.ProducerMessage
	for n := range 300 {
		value := fmt.Sprint("raw ", n, strings.Repeat("x", n%50))
		if n%2 == 0 {
			value = string(storagetest.Frame([]byte(value)))
		}
		messages = append(messages, &sarama.ProducerMessage{Topic: "t", Value: sarama.StringEncoder(value)})
	}
	kafkatest.Produce(t, c.ListenAddrs(), messages...)
	b := new(storage.Batch)
	for next, n := int64(0), 0; n < 300; next = b.Next {
		if err := l.Poll(t.Context(), storage.PollRequest{Topic: "t", Partition: "0", Start: next, MaxRecords: 7, MaxBytes: 300, Wait: patience}, b); err != nil {
			t.Fatal(err)
		}
		for _, r := range b.Records {
			want := fmt.Sprint("raw ", n, strings.Repeat("x", n%50))
			if f, err := frame.Decode(r.Frame); err != nil || string(f.Data) != want {
				t.Fatalf("record %d is %q, %v", n, f.Data, err)
			}
			n++
		}
	}
}

// What is written as CloudEvents is what the Kafka binding says.
func TestWritesCloudEvents(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	seed(t, c, "t", 1)
	l := open(t, kafka.Options{Brokers: c.ListenAddrs(), Format: kafka.FormatCloudEvents})
	event := storagetest.Frame([]byte("{}"), "id", "1", "source", "/s", "type", "t", "datacontenttype", "application/json", "partitionkey", "k", "ext", "é")
	asFrame := storagetest.Frame([]byte("\xEF\x01 is how frames begin"), "id", "2")
	flagged := bytes.Clone(event)
	flagged[3] = 1
	for _, f := range [][]byte{event, asFrame, flagged} {
		if r, err := storage.AppendWait(t.Context(), l, "t", []storage.Event{{Key: "k", Frame: f}}); err != nil || r[0].Err != nil {
			t.Fatalf("append: %v, %+v", err, r)
		}
	}
	got := consume(t, c.ListenAddrs(), 3)
	headers := map[string]string{}
	for _, h := range got[0].Headers {
		headers[string(h.Key)] = string(h.Value)
	}
	want := map[string]string{
		"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/s", "ce_type": "t", "ce_partitionkey": "k", "ce_ext": "é", "content-type": "application/json",
	}
	if !maps.Equal(headers, want) || string(got[0].Value) != "{}" || string(got[0].Key) != "k" {
		t.Errorf("written is %q with %v and the key %q", got[0].Value, headers, got[0].Key)
	}
	for i, f := range [][]byte{asFrame, flagged} {
		if m := got[i+1]; !bytes.Equal(m.Value, f) || len(m.Headers) > 0 {
			t.Errorf("what CloudEvents would change is written as %q", m.Value)
		}
	}
	for i, r := range mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: "0", Start: 0, Wait: patience}).Records {
		if !equalEvents([][]byte{event, asFrame, flagged}[i], r.Frame) {
			t.Errorf("record %d is read as %q", i, r.Frame)
		}
	}
}

// consume reads n messages of a topic as another program does.
func consume(t *testing.T, brokers []string, n int) (list []*sarama.ConsumerMessage) {
	t.Helper()
	conf := sarama.NewConfig()
	conf.Version = sarama.V2_8_0_0
	c, err := sarama.NewConsumer(brokers, conf)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := c.ConsumePartition("t", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for range n {
		list = append(list, <-p.Messages())
	}
	return list
}

// Whatever frame is written as CloudEvents is read back as the same event.
func TestCloudEventsRoundTrip(t *testing.T) {
	c := cluster(t, kfake.NumBrokers(1))
	seed(t, c, "t", 1)
	l := open(t, kafka.Options{Brokers: c.ListenAddrs(), Format: kafka.FormatCloudEvents})
	next := int64(0)
	rapid.Check(t, func(rt *rapid.T) {
		f := frame.Frame{Type: frame.Event, Data: rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(rt, "data")}
		names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"id", "source", "type", "datacontenttype", "specversion", "content-type", "ce_id", "My-Header", "", "partitionkey", "é"}), 0, 8, rapid.ID).Draw(rt, "names")
		for _, name := range names {
			value := rapid.OneOf(rapid.SampledFrom([]string{"", "1.0", "0.3", "application/cloudevents+json", "text/plain"}), rapid.StringN(0, 20, -1)).Draw(rt, "value")
			f.Set(name, strings.ToValidUTF8(value, ""))
		}
		b, err := frame.Append(nil, &f)
		if err != nil {
			rt.Fatal(err)
		}
		r, err := storage.AppendWait(t.Context(), l, "t", []storage.Event{{Frame: b}})
		if err != nil || r[0].Err != nil {
			rt.Fatalf("append: %v, %+v", err, r)
		}
		got := mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: "0", Start: r[0].Offset, Wait: patience})
		next = got.Next
		if !equalEvents(b, got.Records[0].Frame) {
			rt.Fatalf("written %q, read %q", b, got.Records[0].Frame)
		}
	})
	if next == 0 {
		t.Error("nothing was written")
	}
}

// equalEvents tells whether two frames say the same, in whatever order. The
// specversion 1.0 goes without saying.
func equalEvents(a, b []byte) bool {
	x, errX := frame.Decode(a)
	y, errY := frame.Decode(b)
	for _, f := range []*frame.Frame{&x, &y} {
		if v, _ := f.Get(frame.AttrSpecVersion); v == "1.0" {
			f.Delete(frame.AttrSpecVersion)
		}
	}
	if errX != nil || errY != nil || x.Type != y.Type || x.Flags != y.Flags || x.Seq != y.Seq || !bytes.Equal(x.Data, y.Data) || len(x.Attributes) != len(y.Attributes) {
		return false
	}
	for _, attr := range x.Attributes {
		if v, ok := y.Get(attr.Name); !ok || v != attr.Value {
			return false
		}
	}
	return true
}

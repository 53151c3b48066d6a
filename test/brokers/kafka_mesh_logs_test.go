//go:build brokers

package brokers_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/servertest"
	"github.com/ackmesh/ackmesh/storage/kafka/kafkatest"
	"github.com/ackmesh/ackmesh/test/brokers/mesh"
)

// logIsCut: the broker loses the end of a log, and it has grown past a position
// again before it is read, once under a reader and once while no server runs.
// The record before the position is another one, so all that the log has now is
// delivered, in a new epoch, and the client is told.
func (k kafkaMesh) logIsCut(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		t.Run(fmt.Sprint("stopped ", stopped), func(t *testing.T) {
			at := mesh.Site(k)
			topic := at.Topic(t, "cut", 1)
			n := mesh.Start(t, at)
			s := n.Open("c", topic, servertest.Earliest())
			n.Publish(topic, nil, servertest.Numbers(40)...)
			s.AckDurable(s.Take(40)...)
			if stopped {
				s.Break() // an orderly end waits for those that are there
				n.Term(20 * time.Second)
			}
			k.kill(t)
			cutFile(t, filepath.Join(k.data, "log", topic+"-0", "00000000000000000000.log"))
			k.start(t)
			more := make([]string, 60)
			for i := range more {
				more[i] = fmt.Sprint("new", i)
			}
			mesh.Start(t, at).Publish(topic, nil, more...)
			if stopped {
				n.Up()
				s = n.Open("c", topic, nil)
			}
			note := s.Notice(pb.Notice_KIND_POSITION_CORRECTED)
			t.Log(note.GetDetail())
			kept := 0 // of the old records
			got := s.Take(60)
			for kept < len(got) && got[kept].Data() == fmt.Sprint("m", kept) {
				kept++
			}
			got = append(got, s.Take(kept)...)
			if kept == 0 || kept >= 40 || !slices.Equal(servertest.Data(got[kept:]), more) || got[0].Epoch == 0 {
				t.Errorf("%d old records are left, then: %s", kept, servertest.Show(got[kept:]))
			}
			s.AckDurable(got...)
			s.Quiet(500 * time.Millisecond)
		})
	}
}

// otherPrograms: Kafka's own console producer writes plain values with keys and
// headers, another client CloudEvents in both modes. All arrive right, and what
// the mesh writes as CloudEvents is read so by the other client.
func (k kafkaMesh) otherPrograms(t *testing.T) {
	at := mesh.Site(k)
	at.Flags = append(at.Flags, "--kafka.format", "cloudevents", "--kafka.compression", "zstd")
	topic := at.Topic(t, "others", 1)
	n := mesh.Start(t, at)
	s := n.Open("c", topic, servertest.Earliest())
	k.console(t, topic, "trace:7,lang:en\tkey\tplain")
	header := func(name, value string) sarama.RecordHeader {
		return sarama.RecordHeader{Key: []byte(name), Value: []byte(value)}
	}
	kafkatest.Produce(t, k.addrs(),
		&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(`{"specversion":"1.0","id":"1","source":"/s","type":"t","subject":"x","data":{"a":1}}`)},
		&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("d"), Headers: []sarama.RecordHeader{
			header("ce_specversion", "1.0"), header("ce_id", "2"), header("ce_source", "/s"), header("ce_type", "t"), header("content-type", "text/plain"),
		}})
	got := s.Take(3)
	for i, want := range []struct {
		data  string
		attrs map[string]string
	}{
		{"plain", map[string]string{"partitionkey": "key", "trace": "7", "lang": "en"}},
		{`{"a":1}`, map[string]string{"id": "1", "source": "/s", "type": "t", "subject": "x"}},
		{"d", map[string]string{"id": "2", "source": "/s", "type": "t", "datacontenttype": "text/plain"}},
	} {
		attrs := got[i].Frame.GetAttributes()
		for name, value := range want.attrs {
			if attrs[name] != value {
				t.Errorf("record %d has the attributes %v, not %s=%s", i, attrs, name, value)
			}
		}
		if got[i].Data() != want.data {
			t.Errorf("record %d has the data %q, not %q", i, got[i].Data(), want.data)
		}
	}
	s.AckDurable(got...)
	n.Publish(topic, []string{"k"}, "ours")
	s.AckDurable(s.Take(1)...)
	k.isCloudEvent(t, topic, 3)
}

// console writes a line with Kafka's console producer.
func (k kafkaMesh) console(t *testing.T, topic, line string) {
	t.Helper()
	cmd := exec.Command("bash", "kafka.sh", "tool", k.install, "org.apache.kafka.tools.ConsoleProducer",
		"--bootstrap-server", k.addrs()[0], "--topic", topic, "--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
	cmd.Stdin = strings.NewReader(line + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("console producer: %v\n%s", err, out)
	}
}

// isCloudEvent reads a record with another client.
func (k kafkaMesh) isCloudEvent(t *testing.T, topic string, offset int64) {
	t.Helper()
	c, err := sarama.NewConsumer(k.addrs(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := c.ConsumePartition(topic, 0, offset)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case m := <-p.Messages():
		have := map[string]string{}
		for _, h := range m.Headers {
			have[string(h.Key)] = string(h.Value)
		}
		if string(m.Value) != "ours" || string(m.Key) != "k" || have["ce_specversion"] != "1.0" || have["ce_id"] == "" || have["ce_source"] == "" {
			t.Errorf("another client reads key %q, value %q, headers %v", m.Key, m.Value, have)
		}
	case <-timer.C:
		t.Fatal("another client reads nothing")
	}
}

// gaps: a server that reads committed records only delivers those, passes the
// markers of transactions and what was aborted, and has no lag at the end.
func (k kafkaMesh) gaps(t *testing.T) {
	at := mesh.Site(k)
	at.Flags = append(at.Flags, "--kafka.read-committed")
	topic := at.Topic(t, "gaps", 1)
	n := mesh.Start(t, at)
	s := n.Open("c", topic, servertest.Earliest())
	conf := sarama.NewConfig()
	conf.Version = sarama.V2_8_0_0
	conf.Producer.Idempotent, conf.Producer.RequiredAcks, conf.Net.MaxOpenRequests = true, sarama.WaitForAll, 1
	conf.Producer.Return.Successes = true
	conf.Producer.Transaction.ID = topic
	p, err := sarama.NewSyncProducer(k.addrs(), conf)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for round, end := range []func() error{p.CommitTxn, p.AbortTxn, p.CommitTxn, p.AbortTxn} {
		if err := p.BeginTxn(); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if _, _, err := p.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(fmt.Sprint(round, "-", i))}); err != nil {
				t.Fatal(err)
			}
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	got := s.Take(6)
	if want := []string{"0-0", "0-1", "0-2", "2-0", "2-1", "2-2"}; !slices.Equal(servertest.Data(got), want) {
		t.Errorf("delivered is %q, not %q", servertest.Data(got), want)
	}
	s.AckDurable(got...)
	eventually(t, func() error {
		if next := n.Position(topic, "client/c", "0"); next != 16 {
			return fmt.Errorf("the position is %d, not 16, which is behind the last marker", next)
		}
		return nil
	})
	s.Quiet(0)
}

// topicsAreToBeMade: where servers make no topics, an Open says which commands
// make what is missing, and stands once they were run.
func (k kafkaMesh) topicsAreToBeMade(t *testing.T) {
	at := mesh.Site(k)
	at.Flags = append(at.Flags, "--topics.auto-create=false")
	n := mesh.Start(t, at)
	open := &pb.Open{ClientId: "c", Subscriptions: []*pb.Subscription{servertest.Sub("to-be-made", pb.Mode_MODE_BROADCAST)}}
	for _, missing := range []string{"to-be-made", "to-be-made_DLQ"} {
		s := servertest.TryOpen(t, n.Mesh, open)
		said := s.Opened.GetResults()[0].GetStatus().GetMessage()
		if want := "kafka-topics.sh --bootstrap-server " + k.addrs()[0] + " --create --topic " + missing + " "; !strings.Contains(said, want) {
			t.Errorf("an Open says %q, not %q", said, want)
		}
		k.CreateTopic(t, missing, 1)
	}
	s := servertest.Open(t, n.Mesh, open)
	n.Publish("to-be-made", nil, "a")
	s.AckDurable(s.Take(1)...)
}

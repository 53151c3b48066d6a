package kafka

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/IBM/sarama"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/snappy/xerial"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackmesh/ackmesh/frame"
)

// told is a record as a test expects it.
type told struct {
	offset, time int64
	epoch        int32
	key, value   string // "-": none
	headers      string // name=value, one after the other
}

func textOf(b []byte) string {
	if b == nil {
		return "-"
	}
	return string(b)
}

// list takes all records of a chunk.
func (c *chunk) list() (all []told) {
	for len(c.pieces) > 0 {
		p := c.pieces[0]
		for i := range p.recs {
			r := &p.recs[i]
			t := told{offset: r.offset, time: r.time, epoch: r.epoch, key: textOf(p.of(r.key)), value: textOf(p.of(r.value))}
			for _, h := range p.headersOf(r) {
				t.headers += h.Name + "=" + string(h.Value) + " "
			}
			all = append(all, t)
		}
		c.take(len(p.recs))
	}
	return all
}

// entry is a record to be put into a batch.
type entry struct {
	delta      int32 // of the offset
	time       int64 // beyond the batch's
	key, value []byte
	headers    []kmsg.Header
}

func text(delta int32, value string) entry { return entry{delta: delta, value: []byte(value)} }

// batch is a record batch to be written.
type testBatch struct {
	base        int64
	epoch       int32
	attributes  int16 // but for the compression
	codec       int
	first, last int64 // times
	producer    int64
	entries     []entry
}

func (b testBatch) bytes(t testing.TB) []byte {
	t.Helper()
	var records []byte
	last := int32(0)
	for _, e := range b.entries {
		r := kmsg.Record{TimestampDelta64: e.time, OffsetDelta: e.delta, Key: e.key, Value: e.value, Headers: e.headers}
		body := r.AppendTo(nil)[1:] // behind a length of 0
		records = append(binary.AppendVarint(records, int64(len(body))), body...)
		last = e.delta
	}
	rb := kmsg.RecordBatch{
		FirstOffset: b.base, PartitionLeaderEpoch: b.epoch, Magic: 2, Attributes: b.attributes | int16(b.codec), LastOffsetDelta: last,
		FirstTimestamp: b.first, MaxTimestamp: b.last, ProducerID: b.producer, ProducerEpoch: 1, NumRecords: int32(len(b.entries)),
		Records: deflate(t, b.codec, records),
	}
	raw := rb.AppendTo(nil)
	seal(raw)
	return raw
}

// seal sets length and checksum of a batch.
func seal(raw []byte) {
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-entryHead))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[checkedFrom:], castagnoli))
}

// deflate compresses; codec -2 is snappy without its frame.
func deflate(t testing.TB, codec int, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	switch codec {
	case 0:
		return b
	case codecGzip:
		w = gzip.NewWriter(&out)
	case codecSnappy:
		if len(b)%2 == 0 { // both forms are in use
			return snappy.Encode(nil, b)
		}
		return xerial.Encode(nil, b)
	case codecLZ4:
		w = lz4.NewWriter(&out)
	case codecZSTD:
		z, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		w = z
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// oldMessage is a message of the forms 0 and 1.
func oldMessage(magic int8, attributes int8, offset, time int64, key, value []byte) []byte {
	var raw []byte
	if magic == 0 {
		raw = (&kmsg.MessageV0{Offset: offset, Magic: 0, Attributes: attributes, Key: key, Value: value}).AppendTo(nil)
	} else {
		raw = (&kmsg.MessageV1{Offset: offset, Magic: 1, Attributes: attributes, Timestamp: time, Key: key, Value: value}).AppendTo(nil)
	}
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-entryHead))
	binary.BigEndian.PutUint32(raw[entryHead:], crc32.ChecksumIEEE(raw[magicAt:]))
	return raw
}

var asked = &place{topic: "topic", topicID: "id", uuid: sarama.Uuid{1, 2, 3}, number: 3, epoch: 7}

// answerOf writes an answer, with others around what was asked for where
// crowded.
func answerOf(version int16, records []byte, aborted []abortion, crowded bool) []byte {
	res := kmsg.NewPtrFetchResponse()
	res.Version, res.ThrottleMillis, res.SessionID = version, 1, 9
	ours := kmsg.NewFetchResponseTopicPartition()
	ours.Partition, ours.HighWatermark, ours.LastStableOffset, ours.RecordBatches = asked.number, 1000, 900, records
	for _, a := range aborted {
		ab := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
		ab.ProducerID, ab.FirstOffset = a.producer, a.first
		ours.AbortedTransactions = append(ours.AbortedTransactions, ab)
	}
	topic := kmsg.NewFetchResponseTopic()
	topic.Topic, topic.TopicID = asked.topic, asked.uuid
	other := ours
	other.Partition, other.RecordBatches = 4, []byte("not a batch, and of another partition")
	if crowded {
		foreign := topic
		foreign.Topic, foreign.TopicID = "other", sarama.Uuid{9}
		foreign.Partitions = []kmsg.FetchResponseTopicPartition{other, ours}
		topic.Partitions = []kmsg.FetchResponseTopicPartition{other, ours, ours}
		res.Topics = []kmsg.FetchResponseTopic{foreign, topic, foreign}
	} else {
		topic.Partitions = []kmsg.FetchResponseTopicPartition{ours}
		res.Topics = []kmsg.FetchResponseTopic{topic}
	}
	return res.AppendTo(nil)
}

// pieceReader gives what it has in parts of random length.
type pieceReader struct {
	b   []byte
	rnd *rand.Rand
}

func (r *pieceReader) Read(b []byte) (int, error) {
	n := copy(b, r.b[:min(len(r.b), 1+r.rnd.IntN(5000))])
	r.b = r.b[n:]
	if n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// decoded reads an answer, in one go and in parts; both must be the same.
func decoded(t *testing.T, version int16, body []byte, q query) (*result, []told) {
	t.Helper()
	q.at = asked
	var lists [2][]told
	var last *result
	for i, src := range []io.Reader{bytes.NewReader(body), &pieceReader{b: body, rnd: rand.New(rand.NewPCG(1, 2))}} {
		res, err := readResult(src, len(body), version, &q)
		if err != nil {
			t.Fatal(err)
		}
		lists[i], last = res.chunk.list(), res
	}
	if !slices.Equal(lists[0], lists[1]) {
		t.Errorf("read in parts it is another answer: %d and %d records", len(lists[0]), len(lists[1]))
	}
	return last, lists[0]
}

func wantRecords(t *testing.T, got, want []told) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Fatalf("record %d, %+v, is missing", i, want[i])
		case i >= len(want):
			t.Fatalf("record %d, %+v, is too many", i, got[i])
		case got[i] != want[i]:
			t.Fatalf("record %d is %+v, want %+v", i, got[i], want[i])
		}
	}
}

// someFrame is a frame with some data.
func someFrame(t testing.TB, n int, size int) []byte {
	t.Helper()
	b, err := frame.Append(nil, &frame.Frame{
		Type: frame.Event, Attributes: []frame.Attribute{{Name: "id", Value: fmt.Sprint(n)}}, Data: bytes.Repeat([]byte{byte(n)}, size),
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ackmesh/ackmesh/storage"
)

// twoBatches are two batches, what they hold, and where the second begins.
func twoBatches(t testing.TB, codec int) (raw []byte, want []told, second int) {
	t.Helper()
	one := testBatch{base: 10, epoch: 5, codec: codec, first: 1000, last: 2000, producer: -1, entries: []entry{
		{delta: 0, key: []byte("k"), value: []byte("first"), headers: []kmsg.Header{{Key: "a", Value: []byte("1")}, {Key: "b"}}},
		{delta: 1, time: 5, value: []byte{}, key: []byte{}},
		{delta: 4, time: -7},
	}}.bytes(t)
	two := testBatch{base: 20, epoch: 6, codec: codec, attributes: bitLogAppendTime, first: 1000, last: 3000, producer: -1, entries: []entry{
		text(0, "second"), text(1, "third"),
	}}.bytes(t)
	return append(one, two...), []told{
		{10, 1000, 5, "k", "first", "a=1 b= "},
		{11, 1005, 5, "", "", ""},
		{14, 993, 5, "-", "-", ""},
		{20, 3000, 6, "-", "second", ""},
		{21, 3000, 6, "-", "third", ""},
	}, len(one)
}

// Every form of the answer, and every compression.
func TestAnswerForms(t *testing.T) {
	for version := int16(minFetch); version <= versionByID; version++ {
		for codec := 0; codec <= codecZSTD; codec++ {
			for _, crowded := range []bool{false, true} {
				t.Run(fmt.Sprintf("version %d, compression %d, crowded %v", version, codec, crowded), func(t *testing.T) {
					raw, want, _ := twoBatches(t, codec)
					body := answerOf(version, raw, []abortion{{1, 2}}, crowded)
					res, got := decoded(t, version, body, query{start: 10})
					wantRecords(t, got, want)
					if c := res.chunk; res.code != 0 || !res.found || res.byID != (version == versionByID) || res.high != 1000 || c.end != 1000 || c.next != 22 {
						t.Errorf("%+v, chunk %+v", res, c)
					}
					res, got = decoded(t, version, body, query{start: 14, committed: true})
					wantRecords(t, got, want[2:])
					if res.chunk.end != 900 || res.high != 1000 {
						t.Errorf("the end is %d, high %d", res.chunk.end, res.high)
					}
				})
			}
		}
	}
}

// A batch that is there in part only is left for the next fetch.
func TestAnswerEndsWithinABatch(t *testing.T) {
	for codec := 0; codec <= codecGzip; codec++ {
		raw, want, second := twoBatches(t, codec)
		for n := range raw {
			res, got := decoded(t, versionByID, answerOf(versionByID, raw[:n], nil, false), query{start: 10})
			whole, next := 0, int64(10)
			if n >= second {
				whole, next = 3, 15
			}
			wantRecords(t, got, want[:whole])
			if res.chunk.next != next || res.chunk.start != next {
				t.Errorf("with %d bytes reading goes on at %d, the rest begins at %d; want %d", n, res.chunk.next, res.chunk.start, next)
			}
		}
	}
}

// Of transactions that were aborted nothing is left when that is asked for; the
// markers are never records.
func TestAnswerTransactions(t *testing.T) {
	marker := func(base, producer int64, kind byte) []byte {
		return testBatch{base: base, attributes: bitControl | bitTransactional, producer: producer, entries: []entry{
			{key: []byte{0, 0, 0, kind}, value: []byte{0, 0}},
		}}.bytes(t)
	}
	for codec := 0; codec <= codecZSTD; codec++ {
		within := func(base, producer int64, value string) []byte {
			return testBatch{base: base, attributes: bitTransactional, codec: codec, producer: producer, entries: []entry{text(0, value)}}.bytes(t)
		}
		raw := bytes.Join([][]byte{
			within(0, 1, "aborted"), within(1, 2, "kept"), testBatch{base: 2, producer: 1, entries: []entry{text(0, "outside")}}.bytes(t),
			marker(3, 1, 0), within(4, 1, "later"), marker(5, 2, 1), within(6, 2, "aborted too"), marker(7, 1, 1), marker(8, 2, 0),
		}, nil)
		aborted := []abortion{{2, 6}, {1, 0}} // in any order
		all := []told{
			{0, 0, 0, "-", "aborted", ""}, {1, 0, 0, "-", "kept", ""}, {2, 0, 0, "-", "outside", ""}, {4, 0, 0, "-", "later", ""}, {6, 0, 0, "-", "aborted too", ""},
		}
		res, got := decoded(t, versionByID, answerOf(versionByID, raw, aborted, false), query{})
		wantRecords(t, got, all)
		if res.chunk.next != 9 {
			t.Errorf("reading goes on at %d, not 9", res.chunk.next)
		}
		_, got = decoded(t, versionByID, answerOf(versionByID, raw, aborted, false), query{committed: true})
		wantRecords(t, got, all[1:4])
	}
}

// The forms before Kafka 0.11, alone and compressed, and beside the new one.
func TestAnswerOldMessages(t *testing.T) {
	inner := func(magic int8, first int64) []byte {
		return append(oldMessage(magic, 0, first, 50, []byte("k"), []byte("x")), oldMessage(magic, 0, first+1, 60, nil, []byte("y"))...)
	}
	v2 := testBatch{base: 9, first: 8, entries: []entry{text(0, "new")}}.bytes(t)
	raw := bytes.Join([][]byte{
		v2,
		oldMessage(0, 0, 10, 0, []byte("k"), []byte("a")),
		oldMessage(1, 0, 11, 40, nil, nil),
		oldMessage(1, bitLogAppendTime, 12, 41, nil, []byte{}),
		oldMessage(0, codecGzip, 14, 0, nil, deflate(t, codecGzip, inner(0, 13))),                                 // absolute offsets
		oldMessage(1, codecSnappy, 16, 70, nil, deflate(t, codecSnappy, inner(1, 0))),                             // relative ones
		oldMessage(1, codecLZ4|bitLogAppendTime, 18, 71, nil, deflate(t, codecLZ4, append(inner(1, 0), 1, 2, 3))), // a third one in part
		testBatch{base: 19, first: 9, entries: []entry{text(0, "newer")}}.bytes(t),
	}, nil)
	want := []told{
		{9, 8, 0, "-", "new", ""},
		{10, 0, -1, "k", "a", ""},
		{11, 40, -1, "-", "-", ""},
		{12, 41, -1, "-", "", ""},
		{13, 0, -1, "k", "x", ""},
		{14, 0, -1, "-", "y", ""},
		{15, 50, -1, "k", "x", ""},
		{16, 60, -1, "-", "y", ""},
		{17, 71, -1, "k", "x", ""},
		{18, 71, -1, "-", "y", ""},
		{19, 9, 0, "-", "newer", ""},
	}
	for from, first := range map[int64]int{9: 0, 10: 1, 14: 5, 16: 7, 19: 10} {
		res, got := decoded(t, 4, answerOf(4, raw, nil, false), query{start: from})
		wantRecords(t, got, want[first:])
		if res.chunk.next != 20 {
			t.Errorf("reading goes on at %d", res.chunk.next)
		}
	}
}

// An answer of megabytes: every record comes whole, wherever memory ends, and
// what is well filled becomes a batch as it is.
func TestAnswerOfManyPieces(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, codec := range []int{0, codecZSTD} {
		var raw []byte
		var want []told
		for base := int64(0); base < 3000; base += 100 {
			b := testBatch{base: base, codec: codec}
			for i := range int32(100) {
				size := rnd.IntN(3000)
				if n := base + int64(i); n == 500 || n == 501 {
					size = 400 << 10 // larger than a piece
				}
				f := someFrame(t, int(base)+int(i), size)
				b.entries = append(b.entries, entry{delta: i, value: f})
				want = append(want, told{base + int64(i), 0, 0, "-", string(f), ""})
			}
			raw = append(raw, b.bytes(t)...)
		}
		_, got := decoded(t, versionByID, answerOf(versionByID, raw, nil, false), query{})
		wantRecords(t, got, want)
		wantBatches(t, answerOf(versionByID, raw, nil, false), want)
	}
}

// wantBatches takes an answer as Poll does, into one batch after the other.
func wantBatches(t *testing.T, body []byte, want []told) {
	t.Helper()
	l := &Log{opts: Options{}.withDefaults()}
	res, err := readResult(bytes.NewReader(body), len(body), versionByID, &query{at: asked})
	if err != nil {
		t.Fatal(err)
	}
	c, n, whole := res.chunk, 0, 0
	var batch storage.Batch
	for len(c.pieces) > 0 {
		batch.Reset()
		if err := l.pack(&batch, c, 4096, pieceBytes); err != nil {
			t.Fatal(err)
		}
		if cap(batch.Buf) == pieceBytes && len(batch.Buf) == pieceBytes {
			whole++
		}
		sum := 0
		for _, r := range batch.Records {
			if string(r.Frame) != want[n].value || r.Offset != want[n].offset {
				t.Fatalf("record %d is another one", n)
			}
			sum += len(r.Frame)
			n++
		}
		if len(batch.Records) == 0 || len(batch.Records) > 1 && sum > pieceBytes {
			t.Fatalf("a batch has %d records, %d bytes", len(batch.Records), sum)
		}
	}
	if n != len(want) || c.size != 0 || whole < 10 {
		t.Errorf("%d records of %d, %d bytes left, %d batches are pieces", n, len(want), c.size, whole)
	}
}

// Where a byte of what the checksum covers differs, the answer is damaged; where
// another one does, it is damaged or another answer.
func TestAnswerDamaged(t *testing.T) {
	for codec := 0; codec <= codecZSTD; codec++ {
		raw, _, second := twoBatches(t, codec)
		for i := range raw {
			for bit := byte(1); bit > 0; bit <<= 7 {
				bad := bytes.Clone(raw)
				bad[i] ^= bit
				body := answerOf(versionByID, bad, nil, false)
				res, err := readResult(bytes.NewReader(body), len(body), versionByID, &query{at: asked})
				if err == nil {
					err = res.damage
				}
				inBatch := i
				if i >= second {
					inBatch -= second
				}
				if err == nil && inBatch >= 17 || err != nil && !errors.Is(err, storage.ErrCorrupt) {
					t.Fatalf("byte %d, bit %x: %v", i, bit, err)
				}
			}
		}
	}
}

// Batches that are sealed, and not what they say.
func TestAnswerLies(t *testing.T) {
	plain := func() []byte { raw, _, n := twoBatches(t, 0); return raw[:n] }
	put := func(at int, v ...byte) func([]byte) { return func(b []byte) { copy(b[at:], v) } }
	for name, tt := range map[string]struct {
		raw  []byte
		edit func([]byte)
	}{
		"fewer records":         {plain(), put(57, 0, 0, 0, 2)},
		"more records":          {plain(), put(57, 0, 0, 0, 4)},
		"very many records":     {plain(), put(57, 0x7f, 0xff, 0xff, 0xff)},
		"less than no record":   {plain(), put(57, 0xff, 0xff, 0xff, 0xff)},
		"ends before it starts": {plain(), put(23, 0xff, 0xff, 0xff, 0xff)},
		"below 0":               {plain(), put(0, 0xff)},
		"another compression":   {plain(), put(22, codecGzip)},
		"no compression":        {plain(), put(22, 7)},
		"a longer record":       {plain(), put(61, 0x7e)},
		"a record without end":  {plain(), put(61, 0xff, 0xff, 0xff, 0xff, 0xff)},
		"a record below 0":      {plain(), put(61, 1)},
		"a key without end":     {plain(), put(65, 0x7e)},
		"another form":          {plain(), put(16, 3)},
	} {
		tt.edit(tt.raw)
		seal(tt.raw)
		body := answerOf(versionByID, tt.raw, nil, false)
		if _, err := readResult(bytes.NewReader(body), len(body), versionByID, &query{at: asked}); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
	short := plain()
	binary.BigEndian.PutUint32(short[8:], 40)
	body := answerOf(versionByID, short, nil, false)
	if _, err := readResult(bytes.NewReader(body), len(body), versionByID, &query{at: asked}); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("a length of 40: %v", err)
	}
}

// A batch that would fill the memory is refused; one that is as large as is
// allowed is not.
func TestAnswerIsNoBomb(t *testing.T) {
	for codec := codecGzip; codec <= codecZSTD; codec++ {
		for _, n := range []int{100_000, 100_001} {
			packed := deflate(t, codec, make([]byte, n))
			var out bytes.Buffer
			if err := inflate(&out, codec, packed, n); err != nil || out.Len() != n {
				t.Errorf("compression %d: %d of %d bytes, %v", codec, out.Len(), n, err)
			}
			out.Reset()
			if err := inflate(&out, codec, packed, n-1); err == nil {
				t.Errorf("compression %d: %d bytes are taken, and only %d are allowed", codec, n, n-1)
			}
		}
	}
}

// Errors of the broker, and of the connection.
func TestAnswerErrors(t *testing.T) {
	res := kmsg.NewPtrFetchResponse()
	res.Version = versionByID
	body := func() []byte { return res.AppendTo(nil) }
	if res, _ := decoded(t, versionByID, body(), query{}); res.found || res.code != 0 {
		t.Errorf("an empty answer: %+v", res)
	}
	res.ErrorCode = 70
	if res, _ := decoded(t, versionByID, body(), query{}); res.code != 70 {
		t.Errorf("an error of all: %v", res.code)
	}
	res.ErrorCode = 0
	part := kmsg.NewFetchResponseTopicPartition()
	part.Partition, part.ErrorCode = asked.number, int16(sarama.ErrOffsetOutOfRange)
	res.Topics = []kmsg.FetchResponseTopic{{TopicID: asked.uuid, Partitions: []kmsg.FetchResponseTopicPartition{part}}}
	if res, _ := decoded(t, versionByID, body(), query{}); res.code != sarama.ErrOffsetOutOfRange || !res.found {
		t.Errorf("an error of the partition: %v", res.code)
	}
	raw, _, _ := twoBatches(t, 0)
	whole := answerOf(versionByID, raw, nil, false)
	for n := range whole {
		if _, err := readResult(bytes.NewReader(whole[:n]), len(whole), versionByID, &query{at: asked}); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("a connection that ends after %d bytes: %v", n, err)
		}
		if _, err := readResult(bytes.NewReader(whole[:n]), n, versionByID, &query{at: asked}); !errors.Is(err, storage.ErrCorrupt) {
			t.Fatalf("an answer of %d bytes: %v", n, err)
		}
	}
}

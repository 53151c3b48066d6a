package remoting_test

import (
	"bytes"
	"compress/zlib"
	"encoding/hex"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// message is one with every field set.
func message() remoting.Message {
	return remoting.Message{
		Topic: "t", QueueID: 3, QueueOffset: 17, PhysicalOffset: 4711, Flag: 5, BornTime: 1000, StoreTime: 2000, ReconsumeTimes: 1,
		StoreHost: []byte{127, 0, 0, 1, 0, 0, 0x2a, 0x9f}, Body: []byte("hello"), Properties: "KEYS\x01k\x02a\x01b=c\x02",
	}
}

func TestDecodeMessages(t *testing.T) {
	long := message()
	long.Topic = strings.Repeat("l", 200) // the second form
	v6 := message()
	v6.SysFlag = remoting.SysBornV6 | remoting.SysHostV6
	v6.StoreHost = bytes.Repeat([]byte{9}, 20)
	want := []remoting.Message{message(), long, v6}
	var body []byte
	for i := range want {
		body = remoting.AppendMessage(body, &want[i])
	}
	got, err := remoting.DecodeMessages(body)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if id := got[0].ID(); id != "7F00000100002A9F0000000000001267" {
		t.Errorf("the identity is %s", id)
	}
	for name, want := range map[string]string{"KEYS": "k", "a": "b=c", "none": ""} {
		if v, ok := got[0].Property(name); v != want || ok != (name != "none") {
			t.Errorf("property %s is %q, %v", name, v, ok)
		}
	}
	// Cut anywhere, what is whole is returned, with an error unless the cut is
	// between messages.
	ends := map[int]int{0: 0}
	for i, size := 0, 0; i < len(want); i++ {
		size += len(remoting.AppendMessage(nil, &want[i]))
		ends[size] = i + 1
	}
	whole := 0
	for n := range len(body) {
		end, between := ends[n]
		if between {
			whole = end
		}
		part, err := remoting.DecodeMessages(body[:n])
		if len(part) != whole || (err == nil) != between || err != nil && !errors.Is(err, remoting.ErrMalformed) {
			t.Fatalf("%d of %d bytes give %d messages, want %d, and %v", n, len(body), len(part), whole, err)
		}
	}
}

// compressors are the forms of compression that RocketMQ has.
var compressors = map[int]func(io.Writer) (io.WriteCloser, error){
	0:                func(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil }, // of old clients
	remoting.SysZlib: func(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil },
	remoting.SysLZ4:  func(w io.Writer) (io.WriteCloser, error) { return lz4.NewWriter(w), nil },
	remoting.SysZSTD: func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
}

func compress(t testing.TB, how int, b []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := compressors[how](&buf)
	if err == nil {
		_, err = w.Write(b)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestCompressed(t *testing.T) {
	text := bytes.Repeat([]byte("again and "), 1000)
	for how := range compressors {
		m := message()
		m.SysFlag = remoting.SysCompressed | how
		m.Body = compress(t, how, text)
		got, err := remoting.DecodeMessages(remoting.AppendMessage(nil, &m))
		if err != nil || got[0].BodyErr != nil || !bytes.Equal(got[0].Body, text) || got[0].SysFlag != 0 {
			t.Errorf("compression %d: %v, %v, %d bytes, flag %d", how>>8, err, got[0].BodyErr, len(got[0].Body), got[0].SysFlag)
		}
		// One that is damaged is not dropped.
		m.Body = append([]byte("damaged"), m.Body...)
		got, err = remoting.DecodeMessages(remoting.AppendMessage(nil, &m))
		if err != nil || !errors.Is(got[0].BodyErr, remoting.ErrMalformed) || !bytes.Equal(got[0].Body, m.Body) {
			t.Errorf("compression %d, damaged: %v, %v, %d bytes", how>>8, err, got[0].BodyErr, len(got[0].Body))
		}
	}
	m := message()
	m.SysFlag = remoting.SysCompressed | 5<<8
	if got, err := remoting.DecodeMessages(remoting.AppendMessage(nil, &m)); err != nil || !errors.Is(got[0].BodyErr, remoting.ErrMalformed) {
		t.Errorf("an unknown compression: %v, %v", err, got[0].BodyErr)
	}
}

// A few bytes that would become very many are refused.
func TestCompressionBomb(t *testing.T) {
	const limit = 1 << 20
	for how := range compressors {
		for size, fits := range map[int]bool{limit: true, limit + 1: false, 3 * limit: false} {
			out, err := remoting.Decompress(compress(t, how, make([]byte, size)), how, limit)
			if fits && (err != nil || len(out) != size) || !fits && (!errors.Is(err, remoting.ErrMalformed) || out != nil) {
				t.Errorf("compression %d of %d bytes: %d bytes, %v", how>>8, size, len(out), err)
			}
		}
	}
}

// A batch that a broker keeps as one message is read as its messages.
func TestInnerBatch(t *testing.T) {
	inner := []remoting.OutMessage{{Body: []byte("a"), Properties: "p\x011\x02"}, {Body: []byte("b")}, {Body: nil, Properties: "q\x012"}}
	body, err := remoting.EncodeBatch(inner)
	if err != nil {
		t.Fatal(err)
	}
	m := message()
	m.SysFlag = remoting.SysInnerBatch | remoting.SysUnwrap | remoting.SysCompressed | remoting.SysZSTD
	m.Body = compress(t, remoting.SysZSTD, body)
	next := message()
	next.QueueOffset = 20
	got, err := remoting.DecodeMessages(remoting.AppendMessage(remoting.AppendMessage(nil, &m), &next))
	if err != nil || len(got) != 4 {
		t.Fatalf("%d messages, %v", len(got), err)
	}
	for i := range inner {
		g := got[i]
		if g.QueueOffset != 17+int64(i) || !bytes.Equal(g.Body, inner[i].Body) || g.Properties != inner[i].Properties || g.StoreTime != 2000 || g.Topic != "t" {
			t.Errorf("message %d is %+v", i, g)
		}
	}
}

// TestNoInnerBatch: a message that only says that it is a batch, which any
// producer of RocketMQ 4 can write, is one message. It neither ends the reading of
// its queue nor hides those behind it.
func TestNoInnerBatch(t *testing.T) {
	body, err := remoting.EncodeBatch([]remoting.OutMessage{{Body: []byte("a")}, {Body: []byte("b")}, {Body: []byte("c")}})
	if err != nil {
		t.Fatal(err)
	}
	next := message()
	next.QueueOffset = 18
	for name, tt := range map[string]struct {
		flag int
		body []byte
	}{
		"cut off":                 {0, body[:len(body)-3]},
		"empty":                   {0, []byte{}},
		"garbage":                 {0, []byte("garbage")},
		"cannot be decompressed":  {remoting.SysCompressed | remoting.SysLZ4, []byte("garbage")},
		"counted as one":          {0, body},
		"compressed, cut off":     {remoting.SysCompressed | remoting.SysZSTD, compress(t, remoting.SysZSTD, body[:len(body)-1])},
		"of more than can be had": {0, bytes.Repeat(body[:23], remoting.MaxInner+1)},
	} {
		m := message()
		m.SysFlag, m.Body = remoting.SysInnerBatch|remoting.SysUnwrap|tt.flag, tt.body
		got, err := remoting.DecodeMessages(remoting.AppendMessage(remoting.AppendMessage(nil, &m), &next))
		if err != nil || len(got) != 2 || got[0].QueueOffset != 17 || got[1].QueueOffset != 18 {
			t.Errorf("%s: %d messages, %v", name, len(got), err)
			continue
		}
		if !errors.Is(got[0].BodyErr, remoting.ErrMalformed) || !bytes.Equal(got[0].Body, tt.body) {
			t.Errorf("%s: body of %d bytes, %v", name, len(got[0].Body), got[0].BodyErr)
		}
	}
}

// TestManyCompressionBombs: the messages of one pull are bounded together. What
// there is no room for is left for the next pull; the first message always comes.
func TestManyCompressionBombs(t *testing.T) {
	const limit = 1 << 20
	var body []byte
	for i := range 8 {
		m := message()
		m.QueueOffset = 17 + int64(i)
		m.SysFlag = remoting.SysCompressed | remoting.SysZlib
		m.Body = compress(t, remoting.SysZlib, make([]byte, limit*2/5))
		body = remoting.AppendMessage(body, &m)
	}
	for most, want := range map[int]int{limit: 2, limit / 100: 1, 4 * limit: 8} {
		got, err := remoting.DecodeUpTo(body, most)
		if err != nil || len(got) != want {
			t.Errorf("%d messages, %v; want %d", len(got), err, want)
		}
	}
}

func TestBatch(t *testing.T) {
	want := []remoting.OutMessage{{Body: []byte("a"), Properties: "x\x01y"}, {Body: []byte{}}, {Body: bytes.Repeat([]byte("z"), 1000)}}
	b, err := remoting.EncodeBatch(want)
	if err != nil {
		t.Fatal(err)
	}
	head, err := hex.DecodeString("0000001a" + "000000000000000000000000" + "00000001" + "61" + "0003" + "780179")
	if err != nil || !bytes.HasPrefix(b, head) {
		t.Errorf("the first message is %x, want %x", b[:len(head)], head)
	}
	got, err := remoting.DecodeBatch(b)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := remoting.EncodeBatch([]remoting.OutMessage{{Properties: strings.Repeat("x", 1<<16)}}); !errors.Is(err, remoting.ErrMalformed) {
		t.Errorf("too many properties: %v", err)
	}
	if _, err := remoting.DecodeBatch(b[:len(b)-1]); !errors.Is(err, remoting.ErrMalformed) {
		t.Errorf("cut off: %v", err)
	}
}

func FuzzDecodeMessages(f *testing.F) {
	m := message()
	f.Add(remoting.AppendMessage(nil, &m))
	m.SysFlag = remoting.SysCompressed | remoting.SysLZ4
	m.Body = compress(f, remoting.SysLZ4, []byte("text"))
	f.Add(remoting.AppendMessage(nil, &m))
	body, err := remoting.EncodeBatch([]remoting.OutMessage{{Body: []byte("a")}, {Body: []byte("b")}})
	if err != nil {
		f.Fatal(err)
	}
	m.SysFlag, m.Body = remoting.SysInnerBatch|remoting.SysUnwrap, body
	f.Add(remoting.AppendMessage(nil, &m))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := remoting.DecodeMessages(b)
		if err != nil && !errors.Is(err, remoting.ErrMalformed) {
			t.Fatalf("error %v", err)
		}
		for i := range list {
			if len(list[i].Body) > remoting.MaxBody && list[i].BodyErr == nil {
				t.Fatalf("a body of %d bytes", len(list[i].Body))
			}
			for name := range list[i].AllProperties() {
				list[i].Property(name)
			}
		}
	})
}

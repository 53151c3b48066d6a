package remoting_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// A request as it goes over the wire, byte by byte.
func TestFrameVector(t *testing.T) {
	req := remoting.Command{Code: 105, Opaque: 7, Fields: map[string]string{"topic": "a"}, Body: []byte("xy")}
	b, err := req.Append([]byte("before"))
	if err != nil {
		t.Fatal(err)
	}
	head := `{"code":105,"language":"GO","version":401,"opaque":7,"flag":0,"extFields":{"topic":"a"},"serializeTypeCurrentRPC":"JSON"}`
	want := "before" + string(binary.BigEndian.AppendUint32(nil, uint32(4+len(head)+2))) +
		string(binary.BigEndian.AppendUint32(nil, uint32(len(head)))) + head + "xy"
	if string(b) != want {
		t.Errorf("frame is\n%q, want\n%q", b, want)
	}
}

// What a real broker answers is read.
func TestDecodeAnswer(t *testing.T) {
	head := `{"code":17,"extFields":{},"flag":1,"language":"JAVA","opaque":3,"remark":"No topic route info","serializeTypeCurrentRPC":"JSON","version":401}`
	b := append(binary.BigEndian.AppendUint32(nil, uint32(len(head))), head...)
	c, err := remoting.Decode(append(b, "body"...))
	want := remoting.Command{Code: 17, Opaque: 3, Response: true, Remark: "No topic route info", Fields: map[string]string{}, Body: []byte("body")}
	if err != nil || !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v, %v; want %+v", c, err, want)
	}
}

func TestDecodeDamaged(t *testing.T) {
	for name, b := range map[string]string{
		"empty": "", "short": "\x00\x00\x00", "longer header than frame": "\x00\x00\x00\x05{}",
		"other encoding": "\x01\x00\x00\x02{}", "no JSON": "\x00\x00\x00\x02{{", "header missing": "\x00\x00\x00\x00",
		"wrong types": "\x00\x00\x00\x0a{\"code\":\"\"}",
	} {
		if c, err := remoting.Decode([]byte(b)); !errors.Is(err, remoting.ErrMalformed) {
			t.Errorf("%s: %+v, %v; want ErrMalformed", name, c, err)
		}
	}
}

// A length that is announced and does not come takes no memory.
func TestReadLimits(t *testing.T) {
	for size, want := range map[uint32]error{3: remoting.ErrMalformed, remoting.MaxFrame + 1: remoting.ErrMalformed, remoting.MaxFrame: io.ErrUnexpectedEOF} {
		b := append(binary.BigEndian.AppendUint32(nil, size), "few bytes"...)
		allocated := testing.AllocsPerRun(1, func() {
			if _, err := remoting.Read(bufio.NewReader(bytes.NewReader(b))); !errors.Is(err, want) {
				t.Errorf("a frame of %d bytes, of which 9 come: %v, want %v", size, err, want)
			}
		})
		if allocated > 20 {
			t.Errorf("%v allocations", allocated)
		}
	}
}

func TestAppendLimits(t *testing.T) {
	for name, c := range map[string]remoting.Command{
		"header": {Remark: strings.Repeat("x", remoting.MaxHeader)},
		"body":   {Body: make([]byte, remoting.MaxFrame)},
	} {
		if b, err := c.Append([]byte("a")); !errors.Is(err, remoting.ErrMalformed) || string(b) != "a" {
			t.Errorf("%s: %d bytes, %v; want ErrMalformed", name, len(b), err)
		}
	}
}

// What is written is read as it was.
func TestFrameRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := remoting.Command{
			Code: rapid.IntRange(-1, 1000).Draw(rt, "code"), Opaque: rapid.Int32().Draw(rt, "opaque"),
			Response: rapid.Bool().Draw(rt, "response"), OneWay: rapid.Bool().Draw(rt, "oneway"), Remark: rapid.String().Draw(rt, "remark"),
			Fields: rapid.MapOfN(rapid.String(), rapid.String(), 1, 5).Draw(rt, "fields"), Body: rapid.SliceOfN(rapid.Byte(), 1, 100).Draw(rt, "body"),
		}
		b, err := c.Append(nil)
		if err != nil {
			rt.Fatal(err)
		}
		got, err := remoting.Read(bufio.NewReader(bytes.NewReader(b)))
		if err != nil || !reflect.DeepEqual(got, c) {
			rt.Fatalf("got %+v, %v; want %+v", got, err, c)
		}
	})
}

func FuzzDecode(f *testing.F) {
	c := remoting.Command{Code: 11, Opaque: 1, Response: true, Remark: "FOUND", Fields: map[string]string{"maxOffset": "7"}, Body: []byte("b")}
	b, err := c.Append(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[4:])
	f.Add([]byte("\x00\x00\x00\x02{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := remoting.Decode(b)
		if err != nil {
			if !errors.Is(err, remoting.ErrMalformed) {
				t.Fatalf("error %v", err)
			}
			return
		}
		again, err := c.Append(nil)
		if err != nil {
			t.Fatalf("%+v cannot be written: %v", c, err)
		}
		if d, err := remoting.Decode(again[4:]); err != nil || d.Code != c.Code || !bytes.Equal(d.Body, c.Body) {
			t.Fatalf("read again it is %+v, %v; was %+v", d, err, c)
		}
	})
}

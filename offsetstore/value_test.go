package offsetstore

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/offset"
)

// roundTrip encodes and decodes v, and holds the bound against the size.
func roundTrip(t interface{ Fatalf(string, ...any) }, v Value) []byte {
	b := AppendValue(nil, v)
	got, err := DecodeValue(b)
	if err != nil {
		t.Fatalf("decode %x: %v", b, err)
	}
	if want := v; !reflect.DeepEqual(got, emptied(want)) {
		t.Fatalf("decoded %+v, encoded %+v", got, want)
	}
	if bound := ValueBound(v); len(b) > bound {
		t.Fatalf("%d bytes exceed the bound %d of %+v", len(b), bound, v)
	}
	return b
}

// emptied has nil for empty slices, as decoding gives.
func emptied(v Value) Value {
	if len(v.Finished) == 0 {
		v.Finished = nil
	}
	if len(v.Attempts) == 0 {
		v.Attempts = nil
	}
	return v
}

func TestValueRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { roundTrip(t, gen(t, "value")) })
}

func TestValueRoundTripWide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { roundTrip(t, genWide(t)) })
}

// randomFinished is n finished offsets out of the 2n above position.
func randomFinished(n int, position int64) []offset.Range {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	var s offset.Set
	for _, i := range slices.Sorted(slices.Values(r.Perm(2 * n)[:n])) {
		s.Add(offset.Range{First: position + int64(i), Last: position + int64(i)})
	}
	return s.Ranges()
}

// TestFinishedEncodeSmall holds the size of what the store writes for many
// finished offsets, in each of the forms.
func TestFinishedEncodeSmall(t *testing.T) {
	run := []offset.Range{{First: 1_000_001, Last: 1_049_999}}
	far := []offset.Range{{First: 1_000_001, Last: 1_000_001}, {First: 1 << 50, Last: 1 << 51}}
	var stripes []offset.Range
	for i := range int64(1000) {
		stripes = append(stripes, offset.Range{First: 1_000_001 + i*5000, Last: 1_000_000 + i*5000 + 4000})
	}
	for name, c := range map[string]struct {
		finished []offset.Range
		limit    int
	}{
		"one run":         {run, 24},
		"50,000 random":   {randomFinished(50_000, 1_000_000), 17_000},
		"a thousand":      {randomFinished(1000, 1_000_000), 2_000},
		"long runs":       {stripes, 5_000},
		"farther than 32": {far, 40},
	} {
		t.Run(name, func(t *testing.T) {
			v := Normal(Value{Epoch: 1, Position: 1_000_000, Finished: c.finished})
			b := roundTrip(t, v)
			t.Logf("%d ranges take %d bytes", len(c.finished), len(b))
			if len(b) > c.limit {
				t.Errorf("%d bytes, want at most %d", len(b), c.limit)
			}
		})
	}
}

func TestDecodeValueRefuses(t *testing.T) {
	good := AppendValue(nil, Value{Position: 5, Finished: []offset.Range{{First: 7, Last: 8}}})
	edit := func(i int, c byte) []byte {
		b := slices.Clone(good)
		b[i] = c
		return b
	}
	for name, b := range map[string][]byte{
		"empty":          nil,
		"version 0":      edit(0, 0),
		"version 3":      edit(0, 3),
		"no hash":        {2, flagFloor, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"unknown flag":   edit(1, 0x80),
		"bitmap of runs": edit(1, flagBitmap),
		"trailing byte":  append(slices.Clone(good), 0),
		"cut":            good[:len(good)-1],
		"many ranges":    {1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f},
		"long number":    {1, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0},
		"past the end":   {1, 0, 0, 2, 0, 1, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0},
	} {
		if v, err := DecodeValue(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: DecodeValue(%x) = %+v, %v", name, b, v, err)
		}
	}
	for i := range good {
		if v, err := DecodeValue(good[:i]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("first %d bytes: %+v, %v", i, v, err)
		}
	}
}

// TestDecodeFirstVersion: what version 1 wrote is read, but for what told
// nothing.
func TestDecodeFirstVersion(t *testing.T) {
	want := Value{Epoch: 3, Position: 5, High: 9, Finished: []offset.Range{{First: 7, Last: 8}}, Log: LogID{TopicID: "id"}, Absent: 6}
	for name, b := range map[string][]byte{
		"plain":       {1, 0, 3, 10, 4, 1, 2, 1, 0, 2, 'i', 'd', 1, 12},
		"fingerprint": {1, flagFloor, 3, 10, 4, 1, 2, 1, 0, 2, 'i', 'd', 6, 1, 2, 3, 4, 5, 6, 7, 8, 12},
	} {
		if got, err := DecodeValue(b); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
	for name, b := range map[string][]byte{
		"a flag of version 2": {1, flagTop, 3, 10, 4, 1, 2, 1, 0, 2, 'i', 'd', 1, 12},
		"a long leader epoch": {1, 0, 3, 10, 4, 1, 2, 1, 0, 2, 'i', 'd', 0x80, 0x80, 0x80, 0x80, 0x20, 12},
	} {
		if v, err := DecodeValue(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
}

// FuzzDecodeValue: any bytes give a value that encodes to one that is the
// same, or an error that wraps ErrCorrupt.
func FuzzDecodeValue(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(AppendValue(nil, Value{}))
	f.Add(AppendValue(nil, Value{
		Epoch: 3, Position: 9, High: 12, Finished: randomFinished(200, 10),
		Attempts: []Attempt{{Range: offset.Range{First: 9, Last: 9}, Sent: 2, Spent: 1, Breaks: 1, Due: 77}},
		Log:      LogID{TopicID: "id", Floor: Fingerprint{Offset: 8, Hash: 7}, Top: Fingerprint{Offset: 11, Hash: 9, LeaderEpoch: -1}}, Absent: 5,
	}))
	f.Add(AppendValue(nil, Value{Finished: randomFinished(5000, 0)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := DecodeValue(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("error without ErrCorrupt: %v", err)
			}
			return
		}
		roundTrip(t, v)
	})
}

// FuzzDecodeKey: any bytes are the encoding of one key, or an error.
func FuzzDecodeKey(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(AppendKey(nil, Key{Topic: "a#b", Subscriber: Subscriber{KindClient, "c"}, Partition: "0"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := DecodeKey(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("error without ErrCorrupt: %v", err)
			}
			return
		}
		if got := AppendKey(nil, k); !slices.Equal(got, b) {
			t.Fatalf("key %v decoded from %x encodes to %x", k, b, got)
		}
	})
}

// TestKeyRoundTrip also holds that keys of a topic share its prefix, and no
// others do.
func TestKeyRoundTrip(t *testing.T) {
	name := rapid.OneOf(rapid.String(), rapid.StringN(1000, 1024, -1), rapid.SampledFrom([]string{"", "a", "a#b", "a/", "\x00"}))
	rapid.Check(t, func(t *rapid.T) {
		k := Key{
			Topic: name.Draw(t, "topic"), Partition: name.Draw(t, "partition"),
			Subscriber: Subscriber{Kind(rapid.Byte().Draw(t, "kind")), name.Draw(t, "name")},
		}
		b := AppendKey(nil, k)
		got, err := DecodeKey(b)
		if err != nil || got != k {
			t.Fatalf("decoded %v, %v; encoded %v", got, err, k)
		}
		other := name.Draw(t, "other topic")
		p := AppendTopic(nil, other)
		if has := len(b) >= len(p) && slices.Equal(b[:len(p)], p); has != (other == k.Topic) {
			t.Fatalf("key of topic %q begins with the prefix of %q: %v", k.Topic, other, has)
		}
	})
}

func TestSubscriberRoundTrip(t *testing.T) {
	for _, s := range []Subscriber{{KindClient, "a/b"}, {KindShare, ""}, {KindShare, "x"}} {
		if got, err := ParseSubscriber(s.String()); err != nil || got != s {
			t.Errorf("ParseSubscriber(%q) = %v, %v", s.String(), got, err)
		}
	}
	for _, s := range []string{"", "client", "other/x"} {
		if got, err := ParseSubscriber(s); err == nil {
			t.Errorf("ParseSubscriber(%q) = %v, want an error", s, got)
		}
	}
}

func BenchmarkAppendValue(b *testing.B) {
	small := Value{Epoch: 1, Position: 12345, High: 12400, Finished: []offset.Range{{First: 12350, Last: 12360}}}
	for name, v := range map[string]Value{"small": small, "50000random": {Finished: randomFinished(50_000, 0)}} {
		b.Run(name, func(b *testing.B) {
			var buf []byte
			for b.Loop() {
				buf = AppendValue(buf[:0], v)
			}
		})
	}
}

func BenchmarkDecodeValue(b *testing.B) {
	small := Value{Epoch: 1, Position: 12345, High: 12400, Finished: []offset.Range{{First: 12350, Last: 12360}}}
	for name, v := range map[string]Value{"small": small, "50000random": {Finished: randomFinished(50_000, 0)}} {
		enc := AppendValue(nil, v)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := DecodeValue(enc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

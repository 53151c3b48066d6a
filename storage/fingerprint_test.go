package storage

import (
	"bytes"
	"testing"

	"github.com/ackmesh/ackmesh/frame"
)

// TestFingerprintIsForEver holds what is kept on disk: a fingerprint that a new
// version computes otherwise would be taken for a log that was cut. The second
// record is one that a backend made of a foreign message.
func TestFingerprintIsForEver(t *testing.T) {
	plain := frame.FromRaw([]byte("hello"), []frame.Header{{Name: "trace", Value: []byte("x")}}, []byte("key"))
	foreign, err := frame.Append(nil, &plain.Frame)
	if err != nil {
		t.Fatal(err)
	}
	cloud := frame.FromRaw([]byte(`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"a":1}}`), nil, nil)
	event, err := frame.Append(nil, &cloud.Frame)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		r    Record
		hash uint64
	}{
		"frame":   {Record{Offset: 7, Time: 1_700_000_000_000, Frame: []byte("\xef\x01\x03\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x02id\x00\x00\x00\x01ahi")}, 0x3fcaa1d0d7ee8d69},
		"foreign": {Record{Offset: 8, Time: 1, Frame: foreign}, 0x9ac7ae1ac040924d},
		"event":   {Record{Offset: 9, Time: 2, Frame: event}, 0x27a55708274d2eaa},
		"large":   {Record{Offset: 10, Time: 3, Frame: bytes.Repeat([]byte{1}, 100_000)}, 0x892262fb115e003a},
	} {
		if got := c.r.Fingerprint(); got.Hash != c.hash || got.Offset != c.r.Offset {
			t.Errorf("%s: fingerprint %#x of offset %d, not %#x", name, got.Hash, got.Offset, c.hash)
		}
	}
}

// TestFingerprintTellsApart: whatever of a record differs, the fingerprint
// does, unless it is behind the first 64 KiB of a frame of the same length.
func TestFingerprintTellsApart(t *testing.T) {
	long := bytes.Repeat([]byte{1}, 100_000)
	other := bytes.Clone(long)
	other[70_000] = 2
	of := func(offset, at int64, frame []byte, epoch int32) Fingerprint {
		return (&Record{Offset: offset, Time: at, Frame: frame, LeaderEpoch: epoch}).Fingerprint()
	}
	base := of(5, 6, long, 1)
	for name, f := range map[string]Fingerprint{
		"offset": of(6, 6, long, 1), "time": of(5, 7, long, 1), "length": of(5, 6, long[:99_999], 1),
		"epoch": of(5, 6, long, 2), "frame": of(5, 6, append([]byte{2}, long[1:]...), 1),
	} {
		if f == base {
			t.Errorf("another %s has the same fingerprint", name)
		}
	}
	if of(5, 6, other, 1) != base {
		t.Error("more of a frame is hashed than 64 KiB")
	}
}

package dispatch

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/storage"
)

// What was put is got, whatever was put beside it, and the memory that was told
// is the memory that is held.
func TestEncodings_KeepWhatWasPut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(t, "records")
		batch := &storage.Batch{Records: make([]storage.Record, n), Buf: make([]byte, rapid.IntRange(0, 1<<18).Draw(t, "bytes"))}
		var c encodings
		type put struct {
			b  []byte
			id int
		}
		want, grown := map[int]put{}, 0
		for range rapid.IntRange(0, 40).Draw(t, "puts") {
			i := rapid.IntRange(0, n-1).Draw(t, "record")
			b := bytes.Repeat([]byte{byte(len(want) + 1)}, rapid.IntRange(1, encodingsBlock+1).Draw(t, "length"))
			grown += c.put(i, batch, b, i)
			if len(b) <= encodingsBlock {
				want[i] = put{bytes.Clone(b), i}
			}
			clear(b) // the caller's again
		}
		for i := range n {
			got, id := c.get(i)
			if w := want[i]; !bytes.Equal(got, w.b) || got != nil && id != w.id {
				t.Fatalf("record %d: got %d bytes with the id at %d, want %d at %d", i, len(got), id, len(w.b), w.id)
			}
		}
		if c.size() != grown {
			t.Fatalf("size %d, grown by %d", c.size(), grown)
		}
		c.free()
		if b, _ := c.get(0); b != nil || c.size() != 0 {
			t.Fatal("something is left after free")
		}
	})
}

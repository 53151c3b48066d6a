package kafka

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/ackmesh/ackmesh/storage"
)

// A batch of which compaction has left nothing has no records to decompress.
func TestAnswerOfEmptyBatch(t *testing.T) {
	for codec := int16(0); codec <= codecZSTD; codec++ {
		empty := testBatch{base: 5, attributes: codec, producer: -1}.bytes(t)
		raw := append(empty, testBatch{base: 6, producer: -1, entries: []entry{text(0, "x")}}.bytes(t)...)
		res, got := decoded(t, versionByID, answerOf(versionByID, raw, nil, false), query{})
		wantRecords(t, got, []told{{6, 0, 0, "-", "x", ""}})
		if res.chunk.next != 7 {
			t.Errorf("reading goes on at %d", res.chunk.next)
		}
	}
}

// Many batches that each become large are not all taken at once: reading goes on
// behind those that were.
func TestAnswerIsNoBombOfManyBatches(t *testing.T) {
	const size = 24 << 20
	value := make([]byte, size)
	old := deflate(t, codecGzip, oldMessage(1, 0, 0, 5, nil, value))
	for name, batch := range map[string]func(base int64) []byte{
		"batches": func(base int64) []byte {
			return testBatch{base: base, codec: codecZSTD, producer: -1, entries: []entry{{value: value}}}.bytes(t)
		},
		"old messages": func(base int64) []byte {
			return oldMessage(1, codecGzip, base, 5, nil, old)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var raw []byte
			for base := range int64(4) {
				raw = append(raw, batch(base)...)
			}
			body := answerOf(4, raw, nil, false)
			res, err := readResult(bytes.NewReader(body), len(body), 4, &query{at: asked})
			if err != nil {
				t.Fatal(err)
			}
			c := res.chunk
			if want := int64(3); c.next != want || c.size != want*size || len(c.list()) != int(want) {
				t.Errorf("%d bytes up to %d", c.size, c.next)
			}
		})
	}
}

// What lies before damage is read; the damage is told to who goes on there.
func TestAnswerBeforeDamage(t *testing.T) {
	for codec := 0; codec <= codecZSTD; codec++ {
		raw, want, second := twoBatches(t, codec)
		for start, first := range map[int64]int{10: 0, 14: 2, 15: 3} {
			for at := second; at < len(raw); at++ {
				bad := bytes.Clone(raw)
				bad[at] ^= 0x80
				body := answerOf(versionByID, bad, nil, false)
				res, err := readResult(bytes.NewReader(body), len(body), versionByID, &query{at: asked, start: start})
				if start == 15 && errors.Is(err, storage.ErrCorrupt) {
					continue // there is nothing before it
				}
				if err != nil {
					t.Fatalf("byte %d is damaged, and nothing is read: %v", at-second, err)
				}
				if res.damage == nil && at >= second+magicAt {
					t.Fatalf("byte %d is damaged, and nobody is told", at-second)
				}
				if res.damage == nil {
					continue // another answer
				}
				c := res.chunk
				size, next := c.size, c.next
				got := c.list()
				wantRecords(t, got, want[first:3])
				for _, r := range got {
					size -= int64(len(strings.Trim(r.key, "-")) + len(strings.Trim(r.value, "-")))
				}
				if size != 0 || next != 15 {
					t.Fatalf("%d bytes do not belong to what is read, up to %d", size, next)
				}
			}
		}
	}
}

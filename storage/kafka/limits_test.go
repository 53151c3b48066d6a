package kafka

import (
	"bytes"
	"testing"
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
	old := oldMessage(1, 0, 0, 5, nil, value)
	for name, batch := range map[string]func(base int64) []byte{
		"batches": func(base int64) []byte {
			return testBatch{base: base, codec: codecZSTD, producer: -1, entries: []entry{{value: value}}}.bytes(t)
		},
		"old messages": func(base int64) []byte {
			return oldMessage(1, codecGzip, base, 5, nil, deflate(t, codecGzip, old))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var raw []byte
			for base := range int64(6) {
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

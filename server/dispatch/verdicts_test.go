package dispatch

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
)

// numbered wants the records whose data begins with a byte that its own divides,
// and counts how often it was asked.
type numbered struct {
	by    byte
	asked *int
}

func (f numbered) Match(v frame.View) bool {
	*f.asked++
	return v[0]%f.by == 0
}

// Whoever asks, and in whatever order: the answer is that of its own filter, and
// as long as there is room for its text each record is asked after once for all
// who filter by it.
func TestVerdicts_AreThoseOfTheFilter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &chunk{batch: &storage.Batch{}}
		for i := range rapid.IntRange(1, 200).Draw(t, "records") {
			c.batch.Records = append(c.batch.Records, storage.Record{Frame: []byte{byte(i)}})
		}
		texts := rapid.IntRange(1, 2*maxVerdicts).Draw(t, "texts")
		asked := make([]int, texts)
		pairs := map[[2]int]bool{}
		for range rapid.IntRange(0, 1000).Draw(t, "questions") {
			text, i := rapid.IntRange(0, texts-1).Draw(t, "text"), rapid.IntRange(0, len(c.batch.Records)-1).Draw(t, "record")
			by := byte(text%5 + 1)
			sub := &subscriber{settings: Settings{Filter: fmt.Sprint(text)}, filter: numbered{by, &asked[text]}}
			if got, want := c.wanted(i, sub), byte(i)%by == 0; got != want {
				t.Fatalf("record %d, filter %d: %t, want %t", i, text, got, want)
			}
			pairs[[2]int{text, i}] = true
		}
		if !c.wanted(0, &subscriber{}) {
			t.Fatal("who does not filter wants everything")
		}
		if len(c.verdicts) > maxVerdicts {
			t.Fatalf("%d texts are kept", len(c.verdicts))
		}
		total := 0
		for _, n := range asked {
			total += n
		}
		if texts <= maxVerdicts && total != len(pairs) {
			t.Fatalf("filters were asked %d times about %d pairs of record and text", total, len(pairs))
		}
	})
}

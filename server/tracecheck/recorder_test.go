package tracecheck

import (
	"strings"
	"sync"
	"testing"

	"github.com/ackmesh/ackmesh/offset"
)

// TestRecorder records one of each and reads them as text.
func TestRecorder(t *testing.T) {
	r := NewRecorder(6)
	r.Add(Event{Kind: Publish, ID: 1}, Event{Kind: Published, ID: 1, Partition: "a b/0", Offset: 3})
	s := r.Open("client/x y", 5)
	r.Opened(s, []Position{{Partition: "a b/0", Next: 3, Epoch: 1}})
	r.Add(Event{Kind: Delivered, Stream: s, Delivery: 9, Partition: "a b/0", Offset: 3, Attempt: 1, Epoch: 1, ID: 1})
	r.Positions(s, nil)
	r.Positions(s, []Position{{Partition: "1", Next: 4, Ahead: []offset.Range{{First: 6, Last: 7}, {First: 9, Last: 9}}}})
	r.Of(Dead, "client/x y", "1", 2)
	var b strings.Builder
	if err := r.Trace().Write(&b); err != nil {
		t.Fatal(err)
	}
	want := `attempts 6
publish 1
published 1 a+b%2F0 3
open 1 client%2Fx+y 5
opened 1 a+b%2F0:3@1
delivered 1 9 a+b%2F0 3 1 1 1
positions 1 1:4@0+6-7+9-9
dead client%2Fx+y 1 2
`
	if b.String() != want {
		t.Errorf("recorded:\n%s\nnot:\n%s", b.String(), want)
	}
}

// TestRecorderConcurrent: streams have numbers of their own, and a trace that
// was taken does not change.
func TestRecorderConcurrent(t *testing.T) {
	r := NewRecorder(0)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				s := r.Open("client/a", 0)
				before := r.Trace()
				n := len(before.Events)
				r.Add(Event{Kind: Closed, Stream: s})
				if len(before.Events) != n {
					t.Error("a trace that was taken has grown")
				}
			}
		})
	}
	wg.Wait()
	if err := Check(r.Trace()); err != nil {
		t.Error(err)
	}
	if n := len(r.Trace().Events); n != 1600 {
		t.Errorf("%d events were recorded, not 1600", n)
	}
}

// FuzzParse: any text is a trace or an error; a trace comes back from its text
// as it was, and can be checked.
func FuzzParse(f *testing.F) {
	f.Add("attempts 6\nopen 1 client/a 3\nopened 1 0:1@2+3-4\npublish 1\ndelivered 1 2 0 1 1 0 1\nack 1 2\nanswer 1 2 durable\n")
	f.Add("# comment\n\ndown powerlost\nup\nclosed 1\nnack 1 1\nunpublished 1\npublished 1 x 1\npositions 1\n")
	f.Add("brokerack share/ %3a 0\ndead client/%2F a%20b 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		tr, err := Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		_ = Check(tr) // must not panic
		var first, second strings.Builder
		if err := tr.Write(&first); err != nil {
			t.Fatal(err)
		}
		again, err := Parse(strings.NewReader(first.String()))
		if err != nil {
			t.Fatalf("%v in\n%s", err, first.String())
		}
		if err := again.Write(&second); err != nil {
			t.Fatal(err)
		}
		if first.String() != second.String() {
			t.Fatalf("written:\n%s\nand again:\n%s", first.String(), second.String())
		}
	})
}

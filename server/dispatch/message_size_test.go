package dispatch

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/mem"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
)

// TestMessageOfManyRuns: runs of one small record each, which wait because the
// client reads slowly, are not put together into a message that is larger than
// what it takes.
func TestMessageOfManyRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 20_000
		r := newRig(t, Config{})
		reads := make(chan struct{})
		largest, runs := 0, 0
		r.openLimited("c", limit, sinkFunc(func(msg mem.BufferSlice) error {
			<-reads
			largest = max(largest, msg.Len())
			runs += len(msg) / 2
			return nil
		}))
		for range 900 {
			r.publish(1)
			synctest.Wait()
		}
		close(reads)
		synctest.Wait()
		if runs < 900 || largest > limit {
			t.Errorf("the largest message of %d runs has %d bytes, the client takes %d", runs, largest, limit)
		}
	})
}

// TestMessageOfManyAttributes: records whose attributes take more bytes on the wire
// than in the log are not put together beyond what the client takes either.
func TestMessageOfManyAttributes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := frame.Frame{Type: frame.Event}
		for i := range 60 {
			f.Attributes = append(f.Attributes, frame.Attribute{Name: fmt.Sprint("name", i), Value: strings.Repeat("v", 128)})
		}
		raw, err := frame.Append(nil, &f)
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, Config{})
		for most := 2 * len(raw); most < 2*len(raw)+600; most += 20 {
			r.openLimited(fmt.Sprint("c", most), most, sinkFunc(func(msg mem.BufferSlice) error {
				if msg.Len() > most {
					t.Errorf("a message of %d bytes, the client takes %d", msg.Len(), most)
				}
				return nil
			}))
		}
		if _, err := storage.AppendWait(t.Context(), r.log, "t", []storage.Event{{Frame: raw}, {Frame: raw}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
	})
}

package dispatch

import (
	"math"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/storage"
)

// TestTimeToLive: an event lives for emttl from the time of its append; where that
// is not known, or beyond all measure, it does not expire.
func TestTimeToLive(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	for _, c := range []struct {
		appended int64
		ttl      string
		expired  bool
	}{
		{now.UnixMilli() - 1000, "1000", true},
		{now.UnixMilli() - 999, "1000", false},
		{now.UnixMilli(), "0", true},
		{1, "1000", true},
		{0, "1000", false},
		{-1, "1000", false},
		{math.MinInt64, "1000", false},
		{math.MaxInt64, "1000", false},
		{now.UnixMilli(), "9223372036854", false},
		{math.MaxInt64 - 5, "9223372036854", false},
	} {
		f := frame.Frame{Type: frame.Event}
		f.Set(frame.AttrTTL, c.ttl)
		raw, err := frame.Append(nil, &f)
		if err != nil {
			t.Fatal(err)
		}
		ch := &chunk{batch: &storage.Batch{Records: []storage.Record{{Time: c.appended, Frame: raw}}}}
		if got := ch.expired(0, now); got != c.expired {
			t.Errorf("appended at %d, %s ms: expired %v", c.appended, c.ttl, got)
		}
	}
}

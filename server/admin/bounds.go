package admin

import (
	"context"
	"errors"
	"strings"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/storage"
)

const (
	// boundsPatience is how long a call waits in all for what the log then does not
	// tell, half of what is left of it for each. What it tells costs none of it.
	boundsPatience = 5 * time.Second
	// leastPatience is what is too short to ask with.
	leastPatience = 20 * time.Millisecond
	// maxWhy bounds the text that tells why bounds are not known, in bytes: an
	// answer may have many.
	maxWhy = 256
)

// asker asks the log for bounds, for one call.
type asker struct {
	left time.Duration
	why  string // of the last bounds that were not told
}

// newAsker is for a call with that context: half of its time is left for the answer.
func newAsker(ctx context.Context) *asker {
	a := &asker{left: boundsPatience}
	if end, ok := ctx.Deadline(); ok {
		a.left = min(a.left, time.Until(end)/2)
	}
	return a
}

// ask tells what became of read, which reads bounds. An error is that the call has
// ended meanwhile.
func (a *asker) ask(ctx context.Context, read func(context.Context) error) (state pb.BoundsState, why string, err error) {
	if a.left < leastPatience {
		return pb.BoundsState_BOUNDS_STATE_UNKNOWN, "not asked for, since others were not told: " + a.why, nil
	}
	begun := time.Now()
	limited, cancel := context.WithTimeout(ctx, a.left/2)
	defer cancel()
	err = read(limited)
	switch {
	case err == nil:
		return pb.BoundsState_BOUNDS_STATE_KNOWN, "", nil
	case ctx.Err() != nil:
		return 0, "", ctx.Err()
	case errors.Is(err, storage.ErrTopicNotFound), errors.Is(err, storage.ErrPartitionNotFound):
		return pb.BoundsState_BOUNDS_STATE_ABSENT, "", nil
	}
	a.left -= time.Since(begun)
	text := err.Error()
	a.why = strings.ToValidUTF8(text[:min(len(text), maxWhy)], "")
	return pb.BoundsState_BOUNDS_STATE_UNKNOWN, a.why, nil
}

package ackmesh

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// RetryPolicy says how failed deliveries are retried. It belongs to the subscriber,
// as Ordered does.
type RetryPolicy struct {
	// MaxAttempts is how often a record is delivered at most: the failure of the last
	// attempt makes a dead letter. 1 to 100; 0: the server's number, 6 unless set
	// otherwise.
	MaxAttempts int
	// Backoff is the waits after the first, second, … failure by nack, each within a
	// fifth of it; the last one repeats. At most 16, of 0 to 12 h. Empty: the server's,
	// 1, 2, 4, 8 and 16 s unless set otherwise.
	Backoff []time.Duration
}

// The bounds of RetryPolicy in the wire contract.
const (
	maxAttempts = 100
	maxBackoffs = 16
	maxBackoff  = 12 * time.Hour
)

func (r *RetryPolicy) validate() error {
	if r.MaxAttempts < 0 || r.MaxAttempts > maxAttempts {
		return fmt.Errorf("Retry.MaxAttempts %d: give 1 to %d, or 0 for the server's", r.MaxAttempts, maxAttempts)
	}
	if len(r.Backoff) > maxBackoffs {
		return fmt.Errorf("Retry.Backoff has %d waits: give at most %d, the last one repeats", len(r.Backoff), maxBackoffs)
	}
	for _, d := range r.Backoff {
		if d < 0 || d > maxBackoff {
			return fmt.Errorf("Retry.Backoff %v: give 0 to %v", d, maxBackoff)
		}
	}
	return nil
}

// proto is nil where nothing is asked for.
func (r *RetryPolicy) proto() *pb.RetryPolicy {
	if r.MaxAttempts == 0 && len(r.Backoff) == 0 {
		return nil
	}
	p := &pb.RetryPolicy{MaxAttempts: int32(r.MaxAttempts)}
	for _, d := range r.Backoff {
		p.Backoff = append(p.Backoff, durationpb.New(d))
	}
	return p
}

package traffic

import (
	"context"
	"fmt"
	"time"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// AwaitFinished waits until every subscriber has finished everything in the
// topics. It fails when what is left has not become less for patience.
func AwaitFinished(ctx context.Context, admin pb.AdminClient, patience time.Duration, topics ...string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	least, since := int64(-1), time.Now()
	for {
		left, err := unfinished(ctx, admin, topics)
		switch {
		case err != nil:
			return err
		case left == 0:
			return nil
		case least < 0 || left < least:
			least, since = left, time.Now()
		case time.Since(since) > patience:
			return fmt.Errorf("%d records are not finished, for %v already", left, patience)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d records are not finished: %w", left, ctx.Err())
		}
	}
}

// unfinished counts the records above all positions.
func unfinished(ctx context.Context, admin pb.AdminClient, topics []string) (left int64, err error) {
	for _, topic := range topics {
		res, err := admin.GetOffsets(ctx, &pb.GetOffsetsRequest{Topic: topic})
		if err != nil {
			return 0, fmt.Errorf("offsets of topic %s: %w", topic, err)
		}
		for _, o := range res.GetOffsets() {
			if o.GetBounds() == pb.BoundsState_BOUNDS_STATE_UNKNOWN {
				return 0, fmt.Errorf("bounds of topic %s partition %s: %s", topic, o.GetPartition(), o.GetBoundsError())
			}
			left += o.GetMaxOffset() - o.GetPosition()
		}
	}
	return left, nil
}

package admin

import (
	"context"
	"fmt"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/storage"
)

// groupOffsets shows where the group of a subscriber is in each partition, as
// the broker has it: it decides where reading goes on. Where the broker does not
// tell, what is known here is one row without bounds.
func (s *Service) groupOffsets(ctx context.Context, k offsetstore.Key, v offsetstore.Value, log *asker, out *pb.GetOffsetsResponse) error {
	first, err := s.progress(ctx, k, v)
	if err != nil {
		return err
	}
	var list []storage.GroupOffset
	first.Bounds, first.BoundsError, err = log.ask(ctx, func(ctx context.Context) error {
		var known bool
		list, known, err = s.d.GroupOffsets(ctx, k.Topic, k.Subscriber)
		if err == nil && !known {
			err = fmt.Errorf("the broker does not tell them of this group: %w", storage.ErrUnknown)
		}
		return err
	})
	if err != nil {
		return err
	}
	if first.GetBounds() != pb.BoundsState_BOUNDS_STATE_KNOWN {
		out.Offsets = append(out.Offsets, first)
		return nil
	}
	for i, g := range list {
		o := &pb.PartitionOffsets{
			Topic: first.GetTopic(), Subscriber: first.GetSubscriber(), Partition: g.Partition, Epoch: first.GetEpoch(),
			Position: g.Acked, MinOffset: g.Min, MaxOffset: g.Max, Lag: max(0, g.Max-g.Acked),
			Bounds: first.GetBounds(),
		}
		if i == 0 { // these are of all partitions together
			o.InFlight, o.Waiting, o.OldestUnfinished, o.LastAck = first.GetInFlight(), first.GetWaiting(), first.GetOldestUnfinished(), first.GetLastAck()
		}
		out.Offsets = append(out.Offsets, o)
	}
	return nil
}

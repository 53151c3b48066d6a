package dispatch

import (
	"context"
	"errors"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/storage"
)

// GroupOffsets tells how far the group of a subscriber is at the broker; ok is
// false where the broker does not tell, or has no such group.
func (d *Dispatcher) GroupOffsets(ctx context.Context, topic string, sub offsetstore.Subscriber) (list []storage.GroupOffset, ok bool, err error) {
	if d.pop == nil || d.pop.admin == nil {
		return nil, false, nil
	}
	list, err = d.pop.admin.GroupOffsets(ctx, topic, GroupName(topic, sub))
	for _, gone := range []error{storage.ErrTopicNotFound, storage.ErrGroupNotFound, storage.ErrUnsupported} {
		if errors.Is(err, gone) {
			return nil, false, nil
		}
	}
	return list, err == nil, err
}

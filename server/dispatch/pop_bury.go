package dispatch

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/offsetstore"
)

// bury writes the dead letters that the machine yields, out of the records that
// are held.
func (f *feed) bury(p *part, now time.Time) {
	for _, dead := range p.m.Dead() {
		q := f.at[dead.Offset]
		if q == nil {
			p.m.Finish(dead.Offset)
			f.l.touch(p)
			continue
		}
		q.dead = true
		rec := q.rec
		rec.Frame = letterFrame(q)
		let := Letter{
			ID:    letterID(offsetstore.Key{Topic: p.key.Topic, Subscriber: p.key.Subscriber, Partition: q.id}, p.log.TopicID, -1, p.m.Epoch()),
			Topic: p.key.Topic, TopicID: p.log.TopicID, Subscriber: p.key.Subscriber.String(), Partition: rec.Partition, Offset: rec.Offset, Epoch: p.m.Epoch(),
			Reason: dead.Reason, Detail: dead.Detail, Attempts: dead.Attempts, Time: now.UnixMilli(),
		}
		f.l.dig(grave{p, dead, let, func(ctx context.Context, let *Letter) error {
			if strings.HasSuffix(let.Topic, DeadLetterSuffix) { // dead letters have no dead letters
				return nil
			}
			return f.l.d.publishLetter(ctx, &rec, let)
		}})
	}
}

// letterFrame is a copy of the record's frame; a body that is none is wrapped
// into one.
func letterFrame(q *popped) []byte {
	if q.bad == nil {
		return bytes.Clone(q.rec.Frame)
	}
	body := q.rec.Frame[:min(len(q.rec.Frame), frame.MaxDataSize)]
	out, err := frame.Append(nil, &frame.Frame{Type: frame.Event, Data: body})
	if err != nil { // cannot be: data within the limit is legal
		return nil
	}
	return out
}

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	ackmesh "github.com/ackmesh/ackmesh/clients/go"
)

// source is where deliveries come from: an *ackmesh.Stream.
type source interface {
	Recv(ctx context.Context) (*ackmesh.Batch, error)
}

// receiving is one run of "ackmesh subscribe": one goroutine that prints what
// comes and acks it, at once or when it is due.
type receiving struct {
	receiveFlags
	from    source
	out     *bufio.Writer
	printed int64
	// last is when something came last, at first when the run began.
	last time.Time
	// due are deliveries printed and not acked yet, the earliest first.
	due []dueAck
}

// dueAck is a delivery to be acked at a time.
type dueAck struct {
	at time.Time
	d  *ackmesh.Delivery
}

func newReceiving(from source, out io.Writer, f receiveFlags) *receiving {
	return &receiving{receiveFlags: f, from: from, out: bufio.NewWriterSize(out, 64<<10), last: time.Now()}
}

// run works until the count is reached, nothing has come for long enough, ctx
// ends, or the stream has ended for good, which is an error. Whatever the reason,
// it acks what was printed, when it is due.
func (r *receiving) run(ctx context.Context) error {
	for !r.full() {
		batch, err := r.next(ctx)
		switch {
		case err != nil && isEnd(err) && ctx.Err() != nil:
			r.ackRest()
			return nil
		case err != nil && !isEnd(err):
			return err
		case err != nil:
			r.ackDue(time.Now())
			if r.idle(time.Now()) {
				r.waitRest(ctx)
				return nil
			}
		default:
			if err := r.take(batch); err != nil {
				return err
			}
			r.ackDue(time.Now())
		}
	}
	r.waitRest(ctx)
	return nil
}

// full says whether all that was wanted is printed.
func (r *receiving) full() bool { return r.count > 0 && r.printed >= r.count }

// idle says whether nothing has come for so long that the run ends.
func (r *receiving) idle(now time.Time) bool {
	return r.idleExit > 0 && now.Sub(r.last) >= r.idleExit
}

// next waits for a batch, but not longer than until there is something to do.
func (r *receiving) next(ctx context.Context) (*ackmesh.Batch, error) {
	at, ok := r.alarm()
	if !ok {
		return r.from.Recv(ctx)
	}
	ctx, cancel := context.WithDeadline(ctx, at)
	defer cancel()
	return r.from.Recv(ctx)
}

// alarm is when there is something to do though nothing comes.
func (r *receiving) alarm() (at time.Time, ok bool) {
	if r.idleExit > 0 {
		at, ok = r.last.Add(r.idleExit), true
	}
	if len(r.due) > 0 && (!ok || r.due[0].at.Before(at)) {
		at, ok = r.due[0].at, true
	}
	return at, ok
}

// take prints a batch, or as much of it as is wanted, and then acks.
func (r *receiving) take(batch *ackmesh.Batch) error {
	defer batch.Release()
	r.last = time.Now()
	n := 0
	for _, d := range batch.All() {
		if r.full() {
			break
		}
		if err := r.print(d); err != nil {
			return err
		}
		r.printed++
		n++
	}
	if err := r.out.Flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	for i := range n {
		r.ack(batch.At(i))
	}
	return nil
}

func (r *receiving) print(d *ackmesh.Delivery) error {
	line := delivered{
		Topic: d.Topic(), Partition: d.Partition(), Offset: d.Offset(), Attempt: int32(d.Attempt()),
		DeliveryID: strconv.FormatUint(d.DeliveryID(), 10), Attributes: d.Map(),
	}
	if err := line.setData(d.Data(), line.Attributes[ackmesh.AttrDataContentType]); err != nil {
		return err
	}
	text, err := line.line()
	if err != nil {
		return err
	}
	if _, err := r.out.Write(text); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// ack acks a printed delivery, or notes when to. One whose stream has broken cannot
// be acked; it comes again.
func (r *receiving) ack(d *ackmesh.Delivery) {
	switch {
	case r.noAck:
	case r.ackAfter == 0:
		d.Ack()
	default:
		r.due = append(r.due, dueAck{time.Now().Add(r.ackAfter), d.Clone()})
	}
}

// ackDue acks what is due.
func (r *receiving) ackDue(now time.Time) {
	n := 0
	for n < len(r.due) && !r.due[n].at.After(now) {
		r.due[n].d.Ack()
		n++
	}
	clear(r.due[:n])
	r.due = r.due[n:]
}

// ackRest acks all that was printed.
func (r *receiving) ackRest() {
	for _, ack := range r.due {
		ack.d.Ack()
	}
	r.due = nil
}

// waitRest acks the rest as it comes due, and all at once when ctx ends.
func (r *receiving) waitRest(ctx context.Context) {
	for len(r.due) > 0 {
		timer := time.NewTimer(time.Until(r.due[0].at))
		select {
		case <-timer.C:
			r.ackDue(time.Now())
		case <-ctx.Done():
			timer.Stop()
			r.ackRest()
		}
	}
}

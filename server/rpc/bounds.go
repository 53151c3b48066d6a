package rpc

import (
	"cmp"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// Bounds of one message of a Subscribe stream. They are checked before it is
// unpacked: two bytes on the wire can make a hundred in memory.
const (
	// maxControlBytes is how large an Open or a Change may be.
	maxControlBytes = 8 << 20
	// maxResume is how many positions an Open may hold.
	maxResume = 100_000
	// maxAnswerRanges is how many ranges of ids an Ack, a Nack or an Extend may
	// hold, after adjacent ids were joined.
	maxAnswerRanges = 100_000
	// maxWaits is how many waits the retry policies of one message may have
	// together.
	maxWaits = 100_000
	// maxAhead is how many ranges finished ahead the positions of an Open may have
	// together.
	maxAhead = 1_000_000
)

// MaxMessageBytes is how large a message a server must take that takes publish requests
// of so many bytes: other calls do not suffer from a low bound of these, and a request
// somewhat beyond it is answered with what the bound is. One that gRPC refuses would end
// its stream.
func MaxMessageBytes(publishBytes int) int { return max(publishBytes, maxControlBytes) + 1<<16 }

// errTooMany: a stream would have more of something than is allowed.
var errTooMany = errors.New("limit reached")

// fieldsOf counts how often a message has a field whose value has a length. Of a
// damaged message it counts what comes before the damage.
func fieldsOf(b []byte, field protowire.Number) (n int) {
	for len(b) > 0 {
		num, typ, k := protowire.ConsumeField(b)
		if k < 0 {
			return n
		}
		if num == field && typ == protowire.BytesType {
			n++
		}
		b = b[k:]
	}
	return n
}

// nested counts like fieldsOf, within the fields that the others lead to.
func nested(b []byte, field protowire.Number, within ...protowire.Number) (n int) {
	if len(within) == 0 {
		return fieldsOf(b, field)
	}
	for len(b) > 0 {
		num, typ, k := protowire.ConsumeField(b)
		if k < 0 {
			return n
		}
		if num == field && typ == protowire.BytesType {
			_, _, head := protowire.ConsumeTag(b)
			v, _ := protowire.ConsumeBytes(b[head:])
			n += nested(v, within[0], within[1:]...)
		}
		b = b[k:]
	}
	return n
}

// checkOpen checks the size of the first message of a stream.
func (l Limits) checkOpen(b []byte) error {
	if len(b) > maxControlBytes {
		return invalid("open", fmt.Sprintf("has %d bytes, at most %d are allowed", len(b), maxControlBytes))
	}
	return cmp.Or( // several Opens are one
		atMost("subscriptions", nested(b, 1, 2), l.MaxSubscriptionsPerStream),
		atMost("subscriptions.retry.backoff", nested(b, 1, 2, 9, 2), maxWaits),
		atMost("resume", nested(b, 1, 7), maxResume),
		atMost("resume.finished_ahead", nested(b, 1, 7, 5), maxAhead),
	)
}

// checkChange checks the size of a Change.
func (l Limits) checkChange(b []byte) error {
	if len(b) > maxControlBytes {
		return invalid("change", fmt.Sprintf("has %d bytes, at most %d are allowed", len(b), maxControlBytes))
	}
	return cmp.Or(
		atMost("add", fieldsOf(b, 2), l.MaxSubscriptionsPerStream),
		atMost("add.retry.backoff", nested(b, 2, 9, 2), maxWaits),
	)
}

// checkLists checks how many subscriptions a Change names.
func (l Limits) checkLists(c *pb.Change) error {
	return errors.Join(
		atMost("remove", len(c.GetRemove()), l.MaxSubscriptionsPerStream),
		atMost("pause", len(c.GetPause()), l.MaxSubscriptionsPerStream),
		atMost("resume", len(c.GetResume()), l.MaxSubscriptionsPerStream),
	)
}

func atMost(field string, n, limit int) error {
	if n > limit {
		return invalid(field, fmt.Sprintf("has %d, at most %d are allowed", n, limit))
	}
	return nil
}

// maxToldAhead is how many ranges finished ahead an Opened or a Changed tells: with a
// thousand of each of very many partitions its client could not take it.
const maxToldAhead = 10_000

// boundAhead leaves the ranges beyond maxToldAhead out of positions.
func boundAhead(list []*pb.Position) {
	left := maxToldAhead
	for _, p := range list {
		p.FinishedAhead = p.FinishedAhead[:min(left, len(p.FinishedAhead))]
		left -= len(p.FinishedAhead)
	}
}

// room tells whether a stream with n subscriptions may have another.
func (l Limits) room(n int) error {
	if n >= l.MaxSubscriptionsPerStream {
		return fmt.Errorf("%w: the stream has %d subscriptions, at most %d are allowed", errTooMany, n, l.MaxSubscriptionsPerStream)
	}
	return nil
}

package dispatch

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/offset"
)

// Field tags of ackmesh.v1, as they stand on the wire. A test holds them
// against the generated code.
const (
	tagResponseDeliveries = 3<<3 | 2 // SubscribeResponse.deliveries
	tagResponseAckResult  = 4<<3 | 2 // SubscribeResponse.ack_result
	tagDeliveriesRuns     = 1<<3 | 2 // Deliveries.runs
	tagRunSubscription    = 1 << 3
	tagRunTopic           = 2<<3 | 2
	tagRunPartition       = 3<<3 | 2
	tagRunEpoch           = 4 << 3
	tagRunDeliveries      = 5<<3 | 2
	tagDeliveryID         = 1<<3 | 1
	tagDeliveryOffset     = 2 << 3
	tagDeliveryAttempt    = 3 << 3
	tagDeliveryFrame      = 4<<3 | 2
	tagResultOutcomes     = 1<<3 | 2
	tagResultPositions    = 2<<3 | 2
	tagOutcomeStatus      = 1 << 3
	tagOutcomeIDs         = 2<<3 | 2 // packed fixed64
	tagOutcomeRanges      = 3<<3 | 2
	tagRangeFirst         = 1<<3 | 1
	tagRangeLast          = 2<<3 | 1
	tagPositionTopic      = 1<<3 | 2
	tagPositionSubscriber = 2<<3 | 2
	tagPositionPartition  = 3<<3 | 2
	tagPositionNext       = 4 << 3
	tagPositionAhead      = 5<<3 | 2
	tagPositionEpoch      = 6 << 3
	tagOffsetFirst        = 1 << 3
	tagOffsetLast         = 2 << 3
)

// deliveryHeaderMax is the most bytes before the frame in a Delivery with its
// own tag and length.
const deliveryHeaderMax = 1 + 5 + 9 + 11 + 11 + 1 + 5

// appendRunHead writes what all deliveries of a run share.
func appendRunHead(b []byte, subscription uint32, topic, partition string, epoch uint64) []byte {
	b = protowire.AppendVarint(append(b, tagRunSubscription), uint64(subscription))
	b = protowire.AppendString(append(b, tagRunTopic), topic)
	b = protowire.AppendString(append(b, tagRunPartition), partition)
	if epoch != 0 {
		b = protowire.AppendVarint(append(b, tagRunEpoch), epoch)
	}
	return b
}

// appendDelivery writes Run.deliveries with id 0 and returns where the eight
// bytes of the id are. The frame is transcoded in place: its length, and so
// that of the header before it, is guessed first and mended when wrong.
func appendDelivery(b []byte, off int64, attempt int32, stored []byte, opt frame.ProtoOptions) (out []byte, idPos int, err error) {
	begin := len(b)
	guess := deliveryHeaderLen(off, attempt, len(stored)+8)
	b = append(b, make([]byte, guess)...)
	b, err = frame.AppendProto(b, stored, opt)
	if err != nil {
		return b[:begin], 0, err
	}
	size := len(b) - begin - guess
	if want := deliveryHeaderLen(off, attempt, size); want != guess {
		b = append(b, make([]byte, max(0, want-guess))...)
		copy(b[begin+want:], b[begin+guess:begin+guess+size])
		b = b[:begin+want+size]
	}
	h := b[begin:begin]
	h = protowire.AppendVarint(append(h, tagRunDeliveries), uint64(deliveryBodyHead(off, attempt, size)+size))
	idPos = begin + len(h) + 1
	h = append(h, tagDeliveryID, 0, 0, 0, 0, 0, 0, 0, 0)
	h = protowire.AppendVarint(append(h, tagDeliveryOffset), uint64(off))
	h = protowire.AppendVarint(append(h, tagDeliveryAttempt), uint64(attempt))
	protowire.AppendVarint(append(h, tagDeliveryFrame), uint64(size))
	return b, idPos, nil
}

// deliveryBodyHead is the length of a Delivery's fields before its frame's bytes.
func deliveryBodyHead(off int64, attempt int32, frameLen int) int {
	return 9 + 1 + protowire.SizeVarint(uint64(off)) + 1 + protowire.SizeVarint(uint64(attempt)) +
		1 + protowire.SizeVarint(uint64(frameLen))
}

func deliveryHeaderLen(off int64, attempt int32, frameLen int) int {
	head := deliveryBodyHead(off, attempt, frameLen)
	return 1 + protowire.SizeVarint(uint64(head+frameLen)) + head
}

// patchIDs writes consecutive delivery ids from first on.
func patchIDs(b []byte, idPos []int32, first uint64) {
	for i, p := range idPos {
		binary.LittleEndian.PutUint64(b[p:], first+uint64(i))
	}
}

// appendDeliveriesHead writes the head of a response that carries runs of the
// given lengths, whose own heads are appended by appendRunLen. tag is that of its
// field deliveries.
func appendDeliveriesHead(b []byte, tag byte, runLens []int) []byte {
	total := 0
	for _, n := range runLens {
		total += 1 + protowire.SizeVarint(uint64(n)) + n
	}
	return protowire.AppendVarint(append(b, tag), uint64(total))
}

// appendVarintHead begins a message with the tag and length of its one field.
func appendVarintHead(tag byte, n int) []byte {
	return protowire.AppendVarint(append(make([]byte, 0, 11+n), tag), uint64(n))
}

func appendRunLen(b []byte, n int) []byte {
	return protowire.AppendVarint(append(b, tagDeliveriesRuns), uint64(n))
}

// idRange is a range of delivery ids, both ends included.
type idRange struct{ first, last uint64 }

// appendOutcome writes AckResult.outcomes.
func appendOutcome(b []byte, status AckStatus, ranges []idRange) []byte {
	singles := 0
	for _, r := range ranges {
		if r.first == r.last {
			singles++
		}
	}
	const rangeLen = 2 + 18 // tag, length, two fixed64 fields
	body := 2 + (len(ranges)-singles)*rangeLen
	if singles > 0 {
		body += 1 + protowire.SizeVarint(uint64(8*singles)) + 8*singles
	}
	b = protowire.AppendVarint(append(b, tagResultOutcomes), uint64(body))
	b = append(b, tagOutcomeStatus, byte(status))
	if singles > 0 {
		b = protowire.AppendVarint(append(b, tagOutcomeIDs), uint64(8*singles))
		for _, r := range ranges {
			if r.first == r.last {
				b = protowire.AppendFixed64(b, r.first)
			}
		}
	}
	for _, r := range ranges {
		if r.first != r.last {
			b = append(b, tagOutcomeRanges, 18, tagRangeFirst)
			b = append(protowire.AppendFixed64(b, r.first), tagRangeLast)
			b = protowire.AppendFixed64(b, r.last)
		}
	}
	return b
}

// position is what a client is told of its progress in a partition.
type position struct {
	topic, subscriber, partition string
	next                         int64
	ahead                        []offset.Range
	epoch                        uint64
}

// maxAheadRanges bounds Position.finished_ahead.
const maxAheadRanges = 1000

// rangeMax is the most that a range takes in an AckResult, of ids or of offsets.
const rangeMax = 24

// positionLen is the most that a Position takes without its ranges.
func positionLen(p position) int { return len(p.topic) + len(p.subscriber) + len(p.partition) + 64 }

// appendPosition writes the body of a Position with up to that many ranges.
func appendPosition(b []byte, p position, ranges int) []byte {
	b = protowire.AppendString(append(b, tagPositionTopic), p.topic)
	b = protowire.AppendString(append(b, tagPositionSubscriber), p.subscriber)
	b = protowire.AppendString(append(b, tagPositionPartition), p.partition)
	b = protowire.AppendVarint(append(b, tagPositionNext), uint64(p.next))
	for _, r := range p.ahead[:min(len(p.ahead), ranges, maxAheadRanges)] {
		n := 2 + protowire.SizeVarint(uint64(r.First)) + protowire.SizeVarint(uint64(r.Last))
		b = protowire.AppendVarint(append(b, tagPositionAhead), uint64(n))
		b = protowire.AppendVarint(append(b, tagOffsetFirst), uint64(r.First))
		b = protowire.AppendVarint(append(b, tagOffsetLast), uint64(r.Last))
	}
	return protowire.AppendVarint(append(b, tagPositionEpoch), p.epoch)
}

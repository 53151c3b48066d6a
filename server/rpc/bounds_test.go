package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ackmesh/ackmesh/storage"
)

// TestAnswersAreBounded: an Ack of very many ids that do not touch is refused.
func TestAnswersAreBounded(t *testing.T) {
	var ids []byte
	for i := range uint64(2_000_000) {
		ids = binary.LittleEndian.AppendUint64(ids, 2*i+1)
	}
	var a answerMsg
	err := a.parse(protowire.AppendBytes([]byte{1<<3 | 2}, ids))
	var field *fieldError
	if !errors.As(err, &field) || len(a.ranges) > 200_000 {
		t.Errorf("%d ranges, %v", len(a.ranges), err)
	}
}

// TestPublishIsBounded: a request of very many events is refused before they are
// listed.
func TestPublishIsBounded(t *testing.T) {
	b := protowire.AppendString([]byte{1<<3 | 2}, "t")
	for range 2_000_000 {
		b = append(b, 2<<3|2, 0)
	}
	pub := publication{most: MaxPublishEvents}
	err := pub.parse(b)
	var field *fieldError
	if !errors.As(err, &field) || field.field != "events" || len(pub.frames) > 2*MaxPublishEvents {
		t.Errorf("%d events listed, %v", len(pub.frames), err)
	}
}

// idle is a log that takes events and never says what became of them.
type idle struct {
	storage.Backend
	held int
}

func (l *idle) Append(_ context.Context, _ string, events []storage.Event, _ storage.AppendDone) error {
	for _, e := range events {
		l.held += len(e.Frame)
	}
	return nil
}

// TestPublishStreamIsBounded: what one stream has under way is bounded by what it
// takes here, not by what it took on the wire.
func TestPublishStreamIsBounded(t *testing.T) {
	log := &idle{}
	s := &pubStream{p: NewPublisher(log, "/test", [12]byte{}), wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	b := protowire.AppendString([]byte{1<<3 | 2}, "t")
	for range MaxPublishEvents {
		b = append(b, 2<<3|2, 0)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // whoever has to wait gives up
	for range maxStreamRequests {
		if err := s.start(ctx, &rawIn{mem.SliceBuffer(b)}); err != nil {
			break
		}
	}
	if log.held > maxStreamBytes {
		t.Errorf("%d bytes are under way, at most %d may be", log.held, maxStreamBytes)
	}
}

// TestOpenIsBoundedWithin: what the subscriptions and positions of an Open and of a
// Change hold is counted too before it is unpacked.
func TestOpenIsBoundedWithin(t *testing.T) {
	many := func(within ...protowire.Number) []byte {
		b := bytes.Repeat(protowire.AppendBytes(protowire.AppendTag(nil, within[len(within)-1], protowire.BytesType), nil), 1<<21)
		for i := len(within) - 2; i >= 0; i-- {
			b = protowire.AppendBytes(protowire.AppendTag(nil, within[i], protowire.BytesType), b)
		}
		return b
	}
	l := Limits{}.withDefaults()
	for _, err := range []error{
		l.checkOpen(many(1, 2, 9, 2)), l.checkOpen(many(1, 7, 5)), l.checkChange(many(2, 9, 2)),
	} {
		if status.Code(statusOf(err).Err()) != codes.InvalidArgument {
			t.Errorf("two million: %v", err)
		}
	}
	if err := l.checkOpen(many(1, 2, 9, 2)[:1000]); err != nil {
		t.Errorf("a damaged one is for who unpacks it to refuse: %v", err)
	}
}

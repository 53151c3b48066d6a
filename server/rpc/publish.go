package rpc

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/ackmesh/ackmesh/frame"
	"github.com/ackmesh/ackmesh/server/ratelimit"
	"github.com/ackmesh/ackmesh/storage"
)

// Limits of a PublishRequest, if nothing else is set.
const (
	// MaxPublishEvents is how many events one request may hold.
	MaxPublishEvents = 10_000
	// MaxPublishBytes is how large one request may be on the wire.
	MaxPublishBytes = 64 << 20
)

// Publisher takes events in and appends them to the log.
type Publisher struct {
	backend storage.Backend
	source  []byte
	prefix  string
	next    atomic.Uint64
	metrics *PublishMetrics
	topics  topicCounts
	tracer  PublishTracer
	limits  *ratelimit.Limits

	maxEvents, maxBytes int
}

// PublishMetrics counts what was published since the start.
type PublishMetrics struct {
	Events, Bytes, Duplicates, Refused, Failed atomic.Int64
}

// NewPublisher makes a Publisher over a log. source is the attribute `source`
// of events that have none, seed makes the ids of events that have none unique.
func NewPublisher(backend storage.Backend, source string, seed [12]byte) *Publisher {
	return &Publisher{
		backend: backend, source: []byte(source), prefix: hex.EncodeToString(seed[:]) + "-", metrics: &PublishMetrics{},
		maxEvents: MaxPublishEvents, maxBytes: MaxPublishBytes,
	}
}

// SetRequestLimits bounds a request: events, and bytes on the wire. It must be called
// before the first one.
func (p *Publisher) SetRequestLimits(events, bytes int) { p.maxEvents, p.maxBytes = events, bytes }

// SetLimits bounds the rate of publishing. It must be called before the first
// request.
func (p *Publisher) SetLimits(l *ratelimit.Limits) { p.limits = l }

// Metrics counts what was published.
func (p *Publisher) Metrics() *PublishMetrics { return p.metrics }

// publication is one PublishRequest under way.
type publication struct {
	requestID uint64
	topic     string
	key       []byte
	frames    [][]byte // of the request: wire bytes of each event

	arena  *[]byte // stored frames, one after another, and dedup keys
	events []storage.Event
	ids    [][2]int32 // where each event's id is in the arena
	bad    []error    // why an event was not taken; nil: none was refused
	index  []int32    // of each event of events, its place in the request; nil: the same

	results []storage.Appended
	err     error

	lite string // the lite topic of topic; empty: topic itself
	most int    // events; one more is listed, and is enough to refuse
}

// request is a publication to be parsed.
func (p *Publisher) request() *publication { return &publication{most: p.maxEvents} }

// parse walks a PublishRequest once. The slices point into b.
func (pb *publication) parse(b []byte) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return invalid("request", "is no PublishRequest: "+protowire.ParseError(n).Error())
		}
		b = b[n:]
		switch {
		case num == 4 && typ == protowire.VarintType:
			pb.requestID, n = protowire.ConsumeVarint(b)
		case num <= 3 && typ == protowire.BytesType:
			var v []byte
			v, n = protowire.ConsumeBytes(b)
			if n >= 0 {
				pb.field(num, v)
			}
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return invalid("request", "is no PublishRequest: "+protowire.ParseError(n).Error())
		}
		b = b[n:]
	}
	return pb.check()
}

func (pb *publication) field(num protowire.Number, v []byte) {
	switch num {
	case 1:
		pb.topic = string(v)
	case 2:
		if len(pb.frames) <= pb.most {
			pb.frames = append(pb.frames, v)
		}
	case 3:
		pb.key = v
	}
}

func (pb *publication) check() error {
	if err := storage.CheckName("topic", pb.topic); err != nil {
		return err
	}
	switch n := len(pb.frames); {
	case n == 0:
		return invalid("events", "is empty: give at least one event")
	case n > pb.most:
		return invalid("events", fmt.Sprintf("has more than %d events, which is what one request may hold", pb.most))
	}
	if len(pb.key) > frame.MaxValueLen {
		return invalid("partition_key", fmt.Sprintf("has %d bytes, at most %d are allowed", len(pb.key), frame.MaxValueLen))
	}
	return nil
}

// transcode turns the events into stored frames. What is not legal is left out
// with its reason; it does not hide the others.
func (p *Publisher) transcode(pb *publication, size int, now time.Time) {
	pb.arena = mem.DefaultBufferPool().Get(size + size/8 + 160*len(pb.frames) + 64)
	b := (*pb.arena)[:0]
	opt := frame.PublishOptions{Source: p.source, Time: now.UTC().AppendFormat(nil, time.RFC3339Nano), PartitionKey: pb.key}
	type span struct{ from, to, id, idLen, src, srcLen, key, keyLen int32 }
	spans := make([]span, 0, len(pb.frames))
	var idBuf [64]byte
	for i, msg := range pb.frames {
		opt.ID = p.id(idBuf[:0])
		from := len(b)
		out, meta, err := frame.AppendFromProto(b, msg, opt)
		if err != nil {
			pb.refuse(i, err)
			continue
		}
		base := unsafe.SliceData(out)
		at := func(s []byte) (int32, int32) {
			if len(s) == 0 {
				return 0, 0
			}
			return int32(uintptr(unsafe.Pointer(unsafe.SliceData(s))) - uintptr(unsafe.Pointer(base))), int32(len(s))
		}
		s := span{from: int32(from), to: int32(len(out))}
		s.id, s.idLen = at(meta.ID)
		s.key, s.keyLen = at(meta.PartitionKey)
		if named(&meta, &opt) { // a repeat can be told
			s.src, s.srcLen = at(meta.Source)
		}
		b = out
		spans = append(spans, s)
		if pb.bad != nil {
			pb.index = append(pb.index, int32(i))
		}
	}
	keys := len(b)
	for _, s := range spans {
		if s.srcLen > 0 {
			b = append(append(append(b, b[s.src:s.src+s.srcLen]...), 0), b[s.id:s.id+s.idLen]...)
		}
	}
	*pb.arena = b
	pb.events = make([]storage.Event, len(spans))
	pb.ids = make([][2]int32, len(spans))
	for i, s := range spans {
		ev := &pb.events[i]
		ev.Frame = b[s.from:s.to:s.to]
		ev.Key = text(b[s.key : s.key+s.keyLen])
		if s.srcLen > 0 {
			n := int(s.srcLen + 1 + s.idLen)
			ev.DedupKey = text(b[keys : keys+n])
			keys += n
		}
		pb.ids[i] = [2]int32{s.id, s.id + s.idLen}
	}
}

// named tells whether source and id are the publisher's own, so that together
// they name the event: those filled in here are no publisher's, and two without a
// source may count alike. A source with the byte that stands between both names
// nothing.
func named(m *frame.Meta, opt *frame.PublishOptions) bool {
	return string(m.ID) != string(opt.ID) && string(m.Source) != string(opt.Source) && bytes.IndexByte(m.Source, 0) < 0
}

// text is b as a string without a copy: for values that live as long as the
// arena and are not kept by the log.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// id writes a fresh event id.
func (p *Publisher) id(b []byte) []byte {
	b = append(b, p.prefix...)
	return strconv.AppendUint(b, p.next.Add(1), 36)
}

func (pb *publication) refuse(i int, err error) {
	if pb.bad == nil {
		pb.bad = make([]error, len(pb.frames))
		for k := range i { // all before were taken
			pb.index = append(pb.index, int32(k))
		}
	}
	pb.bad[i] = err
}

// start takes a request in and appends it; done is called once, when the answer
// is known, from any goroutine. msg is not kept. by is asked for the topic; nil:
// nobody is.
func (p *Publisher) start(ctx context.Context, msg []byte, by Caller, done func(*publication)) {
	pb := p.request()
	p.begin(ctx, pb, pb.parse(msg), len(msg), by, done)
}

// begin appends a request of so many bytes that was parsed; err is what was wrong
// with it.
func (p *Publisher) begin(ctx context.Context, pb *publication, err error, size int, by Caller, done func(*publication)) {
	if err == nil && size > p.maxBytes {
		err = fmt.Errorf("request: %w: it has %d bytes, at most %d are allowed", errTooMany, size, p.maxBytes)
	}
	if err == nil {
		err = p.admit(pb, by, time.Now())
	}
	if err != nil {
		p.fail(pb, err, done)
		return
	}
	p.transcode(pb, size, time.Now())
	pb.key = nil
	if len(pb.events) == 0 {
		done(pb)
		return
	}
	if p.tracer != nil {
		done = p.traced(ctx, pb, done)
	}
	err = p.append(ctx, pb, func(results []storage.Appended, err error) {
		pb.results, pb.err = results, err
		done(pb)
	})
	if err != nil {
		p.fail(pb, err, done)
	}
}

// admit tells whether a request may go on: whether its caller may publish to the
// topic, and at this rate.
func (p *Publisher) admit(pb *publication, by Caller, now time.Time) error {
	who := ""
	if by != nil {
		if err := by.Publish(pb.topic); err != nil {
			return err
		}
		who = by.Name()
	}
	if p.limits == nil {
		return nil
	}
	var bytes int64
	for _, f := range pb.frames {
		bytes += int64(len(f))
	}
	return p.limits.Publish(pb.topic, who, len(pb.frames), bytes, now)
}

func (p *Publisher) fail(pb *publication, err error, done func(*publication)) {
	pb.err = err
	done(pb)
}

// answer writes the PublishResponse and frees what the request held.
func (p *Publisher) answer(pb *publication) *rawOut {
	b := make([]byte, 0, 32+48*len(pb.frames))
	if pb.requestID != 0 {
		b = protowire.AppendVarint(append(b, 1<<3), pb.requestID)
	}
	overall, events := pb.err, []byte(nil)
	if pb.err == nil {
		events, overall = p.appendEvents(pb, 3<<3|2)
	}
	b = appendStatus(append(b, 2<<3|2), overall)
	b = append(b, events...)
	p.count(pb)
	pb.free()
	return &rawOut{mem.BufferSlice{mem.SliceBuffer(b)}}
}

// free gives back what the request held.
func (pb *publication) free() {
	if pb.arena != nil {
		mem.DefaultBufferPool().Put(pb.arena)
		pb.arena = nil
	}
}

// appendEvents writes the events of a response, in the field of that tag, and
// returns the first error among them.
func (p *Publisher) appendEvents(pb *publication, tag byte) (b []byte, first error) {
	b = make([]byte, 0, 48*len(pb.frames))
	var body []byte
	k := 0
	for i := range pb.frames {
		body = body[:0]
		var err error
		if pb.bad != nil {
			err = pb.bad[i]
		}
		if err == nil {
			body, err = pb.appendEvent(body, k)
			k++
		}
		if err != nil {
			body = appendStatus(append(body, 4<<3|2), err)
			if first == nil {
				first = err
			}
		}
		b = protowire.AppendBytes(append(b, tag), body)
	}
	return b, first
}

// appendEvent writes what became of stored event k.
func (pb *publication) appendEvent(b []byte, k int) ([]byte, error) {
	r := &pb.results[k]
	id := (*pb.arena)[pb.ids[k][0]:pb.ids[k][1]]
	if r.Err == nil {
		b = protowire.AppendString(append(b, 1<<3|2), r.Partition)
		b = protowire.AppendVarint(append(b, 2<<3), uint64(r.Offset))
	}
	return protowire.AppendBytes(append(b, 3<<3|2), id), r.Err
}

// appendStatus writes a google.rpc.Status with its length; OK is empty.
func appendStatus(b []byte, err error) []byte {
	if err == nil {
		return append(b, 0)
	}
	raw, merr := proto.Marshal(statusOf(err).Proto())
	if merr != nil { // a status always encodes
		raw = []byte{1 << 3, 13}
	}
	return protowire.AppendBytes(b, raw)
}

func (p *Publisher) count(pb *publication) {
	m := p.metrics
	if pb.err != nil {
		m.Failed.Add(int64(len(pb.frames)))
		return
	}
	var stored, bytes, dup, failed int64
	for i := range pb.results {
		switch r := &pb.results[i]; {
		case r.Err != nil:
			failed++
		case r.Duplicate:
			dup++
		default:
			stored++
			bytes += int64(len(pb.events[i].Frame))
		}
	}
	m.Events.Add(stored)
	p.topics.add(pb.topic, stored)
	m.Bytes.Add(bytes)
	m.Duplicates.Add(dup)
	m.Failed.Add(failed)
	m.Refused.Add(int64(len(pb.frames) - len(pb.events)))
}

// Publish answers one request once its fate is known.
func (p *Publisher) publish(ctx context.Context, in *rawIn, by Caller) (*rawOut, error) {
	ch := make(chan *publication, 1)
	p.start(ctx, in.bytes(), by, func(pb *publication) { ch <- pb })
	in.free()
	select {
	case pb := <-ch:
		err := pb.err
		out := p.answer(pb)
		if err != nil {
			return nil, statusOf(err).Err()
		}
		return out, nil
	case <-ctx.Done():
		return nil, statusOf(fmt.Errorf("the fate of the events is open: %w", ctx.Err())).Err()
	}
}

package rpc

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ackmesh/ackmesh/frame"
	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/server/dispatch"
	"github.com/ackmesh/ackmesh/server/filter"
	"github.com/ackmesh/ackmesh/storage"
)

// Limits bound what clients may ask for, and say what they get unasked. Zero
// values mean the default.
type Limits struct {
	InstanceID, InstanceURL   string
	AckTimeout                time.Duration // default 30 s
	MinAckTimeout             time.Duration // default 1 s
	MaxAckTimeout             time.Duration // default 12 h
	InFlight, MaxInFlight     int           // default 1,000 and 100,000
	Bytes, MaxBytes           int64         // default 16 MiB and 1 GiB
	MaxSubscriptionsPerStream int           // default 1,000
	MaxLitesPerStream         int           // default 10,000
}

func (l Limits) withDefaults() Limits {
	def(&l.AckTimeout, 30*time.Second)
	def(&l.MinAckTimeout, time.Second)
	def(&l.MaxAckTimeout, 12*time.Hour)
	def(&l.InFlight, 1000)
	def(&l.MaxInFlight, 100_000)
	def(&l.Bytes, 16<<20)
	def(&l.MaxBytes, 1<<30)
	def(&l.MaxSubscriptionsPerStream, 1000)
	def(&l.MaxLitesPerStream, 10_000)
	return l
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

const (
	defaultMaxMessage = 4 << 20
	maxLabels         = 16
	maxLabelLen       = 256
)

// parseOpen reads the first message of a stream.
func (l Limits) parseOpen(in *rawIn) (*pb.Open, error) {
	if err := l.checkOpen(in.bytes()); err != nil {
		return nil, err
	}
	req := &pb.SubscribeRequest{}
	if err := proto.Unmarshal(in.bytes(), req); err != nil {
		return nil, invalid("open", err.Error())
	}
	open := req.GetOpen()
	if open == nil {
		return nil, invalid("open", "must be the first message of a stream")
	}
	return open, nil
}

// streamConfig checks what Open says of the stream as a whole.
func (l Limits) streamConfig(ctx context.Context, open *pb.Open) (dispatch.StreamConfig, error) {
	cfg := dispatch.StreamConfig{ClientID: open.GetClientId(), Labels: open.GetLabels()}
	if err := checkOwner("client_id", cfg.ClientID); err != nil {
		return cfg, err
	}
	if err := checkLabels(open.GetLabels()); err != nil {
		return cfg, err
	}
	records, bytes, err := l.window(open.MaxInFlight, open.MaxInFlightBytes)
	if err != nil {
		return cfg, err
	}
	if cfg.MaxInFlight = records; records < 0 {
		cfg.MaxInFlight = l.InFlight
	}
	if cfg.MaxBytes = bytes; bytes < 0 {
		cfg.MaxBytes = l.Bytes
	}
	cfg.AckTimeout = l.AckTimeout
	if t := open.GetAckTimeout(); t != nil {
		cfg.AckTimeout = min(max(t.AsDuration(), l.MinAckTimeout), l.MaxAckTimeout)
	}
	switch cfg.MaxMessage = int(open.GetMaxMessageBytes()); {
	case cfg.MaxMessage < 0:
		return cfg, invalid("max_message_bytes", "is negative")
	case cfg.MaxMessage == 0:
		cfg.MaxMessage = defaultMaxMessage
	}
	if p, ok := peer.FromContext(ctx); ok {
		cfg.Address = p.Addr.String()
	}
	return cfg, nil
}

func checkLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return invalid("labels", fmt.Sprintf("has %d, at most %d are allowed", len(labels), maxLabels))
	}
	for k, v := range labels {
		if len(k) > maxLabelLen || len(v) > maxLabelLen {
			return invalid("labels", fmt.Sprintf("has a name or value of more than %d bytes", maxLabelLen))
		}
	}
	return nil
}

// checkOwner checks a name that owns progress. Names that begin with two
// underscores are the mesh's own.
func checkOwner(field, name string) error {
	if err := storage.CheckName(field, name); err != nil {
		return err
	}
	if strings.HasPrefix(name, "__") {
		return invalid(field, fmt.Sprintf("%q is reserved: names that begin with __ are the mesh's own", name))
	}
	return nil
}

// window checks windows; -1 stands for what is not set.
func (l Limits) window(records *int32, bytes *int64) (int, int64, error) {
	n, b := -1, int64(-1)
	if records != nil {
		if n = int(*records); n < 0 || n > l.MaxInFlight {
			return 0, 0, invalid("max_in_flight", fmt.Sprintf("is %d, 0 to %d are allowed", n, l.MaxInFlight))
		}
	}
	if bytes != nil {
		if b = *bytes; b < 0 || b > l.MaxBytes {
			return 0, 0, invalid("max_in_flight_bytes", fmt.Sprintf("is %d, 0 to %d are allowed", b, l.MaxBytes))
		}
	}
	return n, b, nil
}

// extension brings Extend.by into bounds, as ack_timeout is. A client learns of no
// error in an answer but by the end of its stream, which holds others' deliveries.
// Below 0: it is not set.
func (l Limits) extension(by time.Duration) time.Duration {
	if by < 0 {
		return 0
	}
	return min(max(by, l.MinAckTimeout), l.MaxAckTimeout)
}

// subscription checks one subscription.
func (l Limits) subscription(client string, s *pb.Subscription) (dispatch.Subscription, error) {
	spec := dispatch.Subscription{ID: s.GetId(), Topic: s.GetTopic(), MaxInFlight: -1}
	if s.GetId() == 0 {
		return spec, invalid("id", "is 0: give each subscription of a stream an id of its own")
	}
	if err := storage.CheckName("topic", s.GetTopic()); err != nil {
		return spec, err
	}
	if s.MaxInFlight != nil {
		n, _, err := l.window(s.MaxInFlight, nil)
		if err != nil {
			return spec, err
		}
		spec.MaxInFlight = n
	}
	spec.Settings.Filter, spec.Settings.Ordered = s.GetFilter(), s.GetOrdered()
	if err := modeOf(client, s, &spec); err != nil {
		return spec, err
	}
	if err := l.retryOf(s.GetRetry(), &spec.Settings); err != nil {
		return spec, err
	}
	var err error
	spec.Start, err = PlaceOf(s.GetStart())
	return spec, err
}

const (
	maxRetryAttempts = 100
	maxRetryWaits    = 16
)

// retryOf checks a retry policy.
func (l Limits) retryOf(p *pb.RetryPolicy, set *dispatch.Settings) error {
	if n := p.GetMaxAttempts(); n < 0 || n > maxRetryAttempts {
		return invalid("retry.max_attempts", fmt.Sprintf("is %d, 1 to %d are allowed", n, maxRetryAttempts))
	}
	if n := len(p.GetBackoff()); n > maxRetryWaits {
		return invalid("retry.backoff", fmt.Sprintf("has %d waits, at most %d are allowed", n, maxRetryWaits))
	}
	waits := make([]time.Duration, 0, len(p.GetBackoff()))
	for _, d := range p.GetBackoff() {
		w := d.AsDuration()
		if d.CheckValid() != nil || w < 0 || w > l.MaxAckTimeout {
			return invalid("retry.backoff", fmt.Sprintf("has a wait of %v, 0 to %v are allowed", w, l.MaxAckTimeout))
		}
		waits = append(waits, w)
	}
	set.MaxAttempts, set.Backoff = int(p.GetMaxAttempts()), dispatch.JoinBackoff(waits)
	return nil
}

// modeOf says who the subscriber is.
func modeOf(client string, s *pb.Subscription, spec *dispatch.Subscription) error {
	spec.Subscriber = offsetstore.Subscriber{Kind: offsetstore.KindClient, Name: client}
	if s.GetMode() != pb.Mode_MODE_LOAD_BALANCE && s.GetShare() != "" {
		return invalid("share", "is only for LOAD_BALANCE")
	}
	if s.GetMode() != pb.Mode_MODE_MULTICAST && s.GetFilter() != "" {
		return invalid("filter", "is only for MULTICAST")
	}
	switch s.GetMode() {
	case pb.Mode_MODE_LOAD_BALANCE:
		if s.GetShare() != "" {
			if err := checkOwner("share", s.GetShare()); err != nil {
				return err
			}
		}
		spec.Subscriber = offsetstore.Subscriber{Kind: offsetstore.KindShare, Name: s.GetShare()}
		spec.Settings.Mode = dispatch.LoadBalance
	case pb.Mode_MODE_BROADCAST:
		spec.Settings.Mode = dispatch.Broadcast
	case pb.Mode_MODE_MULTICAST:
		spec.Settings.Mode = dispatch.Multicast
		f, err := filter.Compile(s.GetFilter())
		if err != nil {
			return invalid("filter", err.Error())
		}
		spec.Filter = f
	default:
		return invalid("mode", fmt.Sprintf("is %v: give LOAD_BALANCE, BROADCAST or MULTICAST", s.GetMode()))
	}
	return nil
}

// PlaceOf checks a Start; unset is the latest.
func PlaceOf(s *pb.Start) (dispatch.Place, error) {
	p := dispatch.Place{Given: s.GetPlace() != nil}
	switch s.GetMatch() {
	case pb.Start_TIME_MATCH_UNSPECIFIED, pb.Start_TIME_MATCH_NEAREST:
		p.Match = storage.Nearest
	case pb.Start_TIME_MATCH_AT_OR_AFTER:
		p.Match = storage.AtOrAfter
	default:
		return p, invalid("start.match", fmt.Sprintf("has the unknown value %v", s.GetMatch()))
	}
	switch place := s.GetPlace().(type) {
	case nil:
	case *pb.Start_At_:
		switch place.At {
		case pb.Start_AT_UNSPECIFIED, pb.Start_AT_LATEST:
		case pb.Start_AT_EARLIEST:
			p.At = dispatch.Earliest
		default:
			return p, invalid("start.at", fmt.Sprintf("has the unknown value %v", place.At))
		}
	case *pb.Start_Offset:
		if place.Offset < 0 {
			return p, invalid("start.offset", "is negative")
		}
		p.At, p.Offset = dispatch.AtOffset, place.Offset
	case *pb.Start_Time:
		if err := place.Time.CheckValid(); err != nil {
			return p, invalid("start.time", err.Error())
		}
		p.At, p.Time = dispatch.AtTime, place.Time.AsTime()
	}
	return p, nil
}

// maxEpoch leaves room for resets above whatever a client says.
const maxEpoch = 1 << 62

func resumeOf(list []*pb.Position) map[offsetstore.Key]dispatch.Resume {
	out := make(map[offsetstore.Key]dispatch.Resume, len(list))
	for _, p := range list {
		sub, err := offsetstore.ParseSubscriber(p.GetSubscriber())
		if err != nil || p.GetNextOffset() < 0 || p.GetEpoch() > maxEpoch {
			continue // it helps nobody, and harms nobody
		}
		key := offsetstore.Key{Topic: p.GetTopic(), Subscriber: sub, Partition: p.GetPartition()}
		if _, known := out[key]; !known {
			out[key] = dispatch.Resume{Epoch: p.GetEpoch(), Next: p.GetNextOffset()}
		}
	}
	return out
}

func positionsOf(list []dispatch.Position) []*pb.Position {
	out := make([]*pb.Position, 0, len(list))
	for _, p := range list {
		q := &pb.Position{Topic: p.Topic, Subscriber: p.Subscriber, Partition: p.Partition, NextOffset: p.Next, Epoch: p.Epoch}
		for _, r := range p.Ahead {
			q.FinishedAhead = append(q.FinishedAhead, &pb.OffsetRange{First: r.First, Last: r.Last})
		}
		out = append(out, q)
	}
	return out
}

// EncodeNotice writes a SubscribeResponse with a Notice.
func EncodeNotice(n dispatch.Notice) []byte {
	notice := noticeOf(n)
	return encodeNotice(&pb.SubscribeResponse{Kind: &pb.SubscribeResponse_Notice{Notice: notice}}, notice)
}

func noticeOf(n dispatch.Notice) *pb.Notice {
	notice := &pb.Notice{
		Kind: pb.Notice_Kind(n.Kind), Detail: n.Detail, Subscription: n.Subscription, Positions: positionsOf(n.Positions),
	}
	if to := n.GoTo; to != nil {
		notice.GoTo = &pb.RecommendResponse{InstanceId: to.ID, InstanceUrl: to.URL, Score: to.Score}
	}
	return notice
}

// encodeNotice writes a response that holds a notice.
func encodeNotice(msg proto.Message, notice *pb.Notice) []byte {
	raw, err := proto.Marshal(msg)
	if err != nil { // only for text that is not UTF-8, which no name can be
		notice.Detail = ""
		raw, _ = proto.Marshal(msg)
	}
	return raw
}

func durationOf(d time.Duration) *durationpb.Duration { return durationpb.New(d) }

// parseDuration reads a google.protobuf.Duration: 0 where it is negative, the
// longest there is where it is longer.
func parseDuration(v []byte) (time.Duration, error) {
	var sec, nanos uint64
	for len(v) > 0 {
		num, typ, n := protowire.ConsumeTag(v)
		if n < 0 {
			return 0, invalid("duration", "is damaged")
		}
		v = v[n:]
		switch {
		case num == 1 && typ == protowire.VarintType:
			sec, n = protowire.ConsumeVarint(v)
		case num == 2 && typ == protowire.VarintType:
			nanos, n = protowire.ConsumeVarint(v)
		default:
			n = protowire.ConsumeFieldValue(num, typ, v)
		}
		if n < 0 {
			return 0, invalid("duration", "is damaged")
		}
		v = v[n:]
	}
	d := &durationpb.Duration{Seconds: int64(sec), Nanos: int32(nanos)}
	if err := d.CheckValid(); err != nil {
		return 0, invalid("duration", "is none: "+err.Error())
	}
	return max(d.AsDuration(), 0), nil
}

// FrameMessage is a stored frame as a message, the mesh's own stamps included.
func FrameMessage(v frame.View) *pb.EventMeshFrame {
	m := &pb.EventMeshFrame{
		Type: pb.MessageType(v.Type()), Flags: uint32(v.Flags()), Seq: v.Seq(), Data: append([]byte(nil), v.Data()...),
	}
	for name, value := range v.Attributes() {
		if m.Attributes == nil {
			m.Attributes = map[string]string{}
		}
		m.Attributes[string(name)] = string(value)
	}
	return m
}

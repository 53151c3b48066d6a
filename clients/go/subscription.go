package ackmesh

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// Mode says how the records of a topic are divided.
type Mode int

// The modes.
const (
	// LoadBalance: each record goes to exactly one stream of the share.
	LoadBalance Mode = iota + 1
	// Broadcast: each client gets every record.
	Broadcast
	// Multicast: each client gets every record that passes its filter.
	Multicast
)

// String returns the mode's name as the command line spells it.
func (m Mode) String() string {
	switch m {
	case LoadBalance:
		return "load-balance"
	case Broadcast:
		return "broadcast"
	case Multicast:
		return "multicast"
	}
	return fmt.Sprintf("Mode(%d)", int(m))
}

func (m Mode) proto() pb.Mode {
	switch m {
	case LoadBalance:
		return pb.Mode_MODE_LOAD_BALANCE
	case Broadcast:
		return pb.Mode_MODE_BROADCAST
	case Multicast:
		return pb.Mode_MODE_MULTICAST
	}
	return pb.Mode_MODE_UNSPECIFIED
}

// Start says where a subscriber begins that was never there before. The zero value
// is Latest. It has no effect on a subscriber that has a position.
type Start struct{ pb *pb.Start }

// Latest begins behind the last record.
func Latest() Start { return startAt(pb.Start_AT_LATEST) }

// Earliest begins at the first record that the log still holds.
func Earliest() Start { return startAt(pb.Start_AT_EARLIEST) }

func startAt(at pb.Start_At) Start { return Start{&pb.Start{Place: &pb.Start_At_{At: at}}} }

// AtOffset begins at an offset in every partition, moved into what the log holds.
func AtOffset(offset int64) Start {
	return Start{&pb.Start{Place: &pb.Start_Offset{Offset: offset}}}
}

// AtTime begins at the record whose time of append is nearest to t; of several, at
// the first.
func AtTime(t time.Time) Start { return startTime(t, pb.Start_TIME_MATCH_NEAREST) }

// AtOrAfter begins at the first record appended at t or later.
func AtOrAfter(t time.Time) Start { return startTime(t, pb.Start_TIME_MATCH_AT_OR_AFTER) }

func startTime(t time.Time, match pb.Start_TimeMatch) Start {
	return Start{&pb.Start{Place: &pb.Start_Time{Time: timestamppb.New(t)}, Match: match}}
}

// Subscription asks for the records of one topic. Mode, Filter, Ordered and Retry
// belong to the subscriber, not to this stream: the first stream sets them, and a
// differing one is refused with FAILED_PRECONDITION.
type Subscription struct {
	// Topic has 1 to 255 bytes of UTF-8 without control characters.
	Topic string
	// Mode is required.
	Mode Mode
	// Share names who divides the records; only with LoadBalance. Empty: the
	// topic's default share, one for all clients that name none.
	Share string
	// Filter is a CloudEvents SQL expression; required with Multicast, and only
	// used with it.
	Filter string
	// Ordered keeps one record of each partition key unfinished at a time. A record
	// that comes again waits for a handler of this process that still works on it.
	Ordered bool
	// Start applies to a subscriber that was never there before.
	Start Start
	// MaxInFlight overrides SubscribeConfig.MaxInFlight, if not 0.
	MaxInFlight int
	// Retry says how failed deliveries are retried.
	Retry RetryPolicy
}

func (s *Subscription) validate() error {
	if err := checkName("topic", s.Topic); err != nil {
		return err
	}
	switch {
	case s.Mode < LoadBalance || s.Mode > Multicast:
		return fmt.Errorf("ackmesh: subscription to %q has no Mode: choose LoadBalance, Broadcast or Multicast", s.Topic)
	case s.Share != "" && s.Mode != LoadBalance:
		return fmt.Errorf("ackmesh: subscription to %q: a Share goes with LoadBalance, not %v", s.Topic, s.Mode)
	case s.Filter != "" && s.Mode != Multicast:
		return fmt.Errorf("ackmesh: subscription to %q: a Filter goes with Multicast, not %v", s.Topic, s.Mode)
	case s.Filter == "" && s.Mode == Multicast:
		return fmt.Errorf("ackmesh: subscription to %q: Multicast needs a Filter; Broadcast has none", s.Topic)
	case s.MaxInFlight < 0:
		return fmt.Errorf("ackmesh: subscription to %q: MaxInFlight %d is negative", s.Topic, s.MaxInFlight)
	}
	if err := s.Retry.validate(); err != nil {
		return fmt.Errorf("ackmesh: subscription to %q: %w", s.Topic, err)
	}
	if s.Share != "" {
		return checkName("share", s.Share)
	}
	return nil
}

func (s *Subscription) proto(id uint32) *pb.Subscription {
	p := &pb.Subscription{
		Id: id, Topic: s.Topic, Mode: s.Mode.proto(), Share: s.Share,
		Filter: s.Filter, Ordered: s.Ordered, Start: s.Start.pb, Retry: s.Retry.proto(),
	}
	if s.MaxInFlight != 0 {
		n := int32(min(s.MaxInFlight, 1<<30))
		p.MaxInFlight = &n
	}
	return p
}

// Defaults of SubscribeConfig. Where none is given here, the server's hold: 1,000
// records and 16 MiB in flight, 30 s to ack.
const (
	DefaultAckBatch     = 256 // or a quarter of what may be in flight, where that is less
	DefaultAckInterval  = 2 * time.Millisecond
	DefaultMaxExtension = time.Hour
	DefaultGrace        = 10 * time.Second
	DefaultDrain        = 8 * time.Second
)

// The largest windows that the wire contract takes.
const (
	maxRecords     = 100_000
	maxWindowBytes = 1 << 30
)

// SubscribeConfig says what to subscribe to, and how.
type SubscribeConfig struct {
	// Topics to subscribe to with the settings below. Subscriptions are further
	// ones with settings of their own. At least one of either is required.
	Topics        []string
	Mode          Mode
	Share, Filter string
	Ordered       bool
	Start         Start
	Retry         RetryPolicy
	Subscriptions []Subscription

	// Concurrency is how many handlers run at once; default 1, which keeps the
	// order in which records arrive. Subscribe only.
	Concurrency int
	// MaxInFlight bounds the records of each subscription, MaxInFlightBytes their
	// bytes on this stream, that the server has sent and that are not acked. More
	// in flight hides the latency of the network and of a slow disk. 0: the
	// server's default; at most 100,000 and 1 GiB.
	MaxInFlight      int
	MaxInFlightBytes int64
	// AckTimeout is how long the server waits for an ack before it delivers the
	// record again. The client moves the deadline of everything it holds, so this
	// only bounds how soon others get the records of a client that hangs.
	AckTimeout time.Duration
	// MaxExtension is how long a handler, or the caller of Recv, may hold a delivery.
	// After it, the server gives it to someone else once AckTimeout is over. What
	// waits in the client for its turn is kept as long as that takes, unless nothing
	// at all is begun or finished for MaxExtension. Negative: deadlines are not moved.
	MaxExtension time.Duration
	// AckBatch and AckInterval say when acks are sent: at so many, or so long after
	// the acks before, whichever is first; at once after a longer pause. AckBatch 0:
	// DefaultAckBatch, or a quarter of the least MaxInFlight.
	AckBatch    int
	AckInterval time.Duration
	// Grace is how long handlers may take to finish when the subscription ends.
	// After it their context is cancelled. Negative: no time.
	Grace time.Duration
	// Drain is how long deliveries at hand may take to finish when the server asks
	// the client to go elsewhere. What is not finished by then comes again there.
	Drain time.Duration
	// Labels are shown to operators; at most 16.
	Labels map[string]string

	// OnNotice is told what the server says about the stream. OnConfirm is told the
	// fate of every ack: nil when it is durable, else ErrNotOutstanding, ErrStale
	// or ErrFenced. OnUnconfirmed is told, when a stream breaks, which acks the
	// server had not confirmed: those records may come again. All run on the
	// stream's own goroutine and must be quick; they must not call the Stream.
	OnNotice      func(Notice)
	OnConfirm     func(Ref, error)
	OnUnconfirmed func([]Ref)
}

// Ref names a delivery.
type Ref struct {
	Topic, Partition string
	Offset           int64
	DeliveryID       uint64
}

func (c SubscribeConfig) withDefaults() SubscribeConfig {
	def(&c.Concurrency, 1)
	def(&c.AckBatch, c.usualAckBatch())
	def(&c.AckInterval, DefaultAckInterval)
	def(&c.MaxExtension, DefaultMaxExtension)
	def(&c.Grace, DefaultGrace)
	def(&c.Drain, DefaultDrain)
	return c
}

// usualAckBatch is large enough that acks cost next to nothing, and small enough
// that the server has room to send while they are on their way.
func (c *SubscribeConfig) usualAckBatch() int {
	window := cmp.Or(max(c.MaxInFlight, 0), 1000)
	for _, s := range c.Subscriptions {
		if s.MaxInFlight > 0 {
			window = min(window, s.MaxInFlight)
		}
	}
	return min(max(window/4, 1), DefaultAckBatch)
}

// all returns every subscription asked for.
func (c *SubscribeConfig) all() []Subscription {
	subs := make([]Subscription, 0, len(c.Topics)+len(c.Subscriptions))
	for _, t := range c.Topics {
		subs = append(subs, Subscription{Topic: t, Mode: c.Mode, Share: c.Share, Filter: c.Filter, Ordered: c.Ordered, Start: c.Start, Retry: c.Retry})
	}
	return append(subs, c.Subscriptions...)
}

func (c *SubscribeConfig) validate() error {
	subs := c.all()
	if len(subs) == 0 {
		return errors.New("ackmesh: SubscribeConfig names no topic: set Topics or Subscriptions")
	}
	for i := range subs {
		if err := subs[i].validate(); err != nil {
			return err
		}
	}
	return c.validateNumbers()
}

func (c *SubscribeConfig) validateNumbers() error {
	switch {
	case c.Concurrency < 1 || c.Concurrency > 100_000:
		return fmt.Errorf("ackmesh: SubscribeConfig.Concurrency %d: give 1 to 100,000", c.Concurrency)
	case c.MaxInFlight < 0 || c.MaxInFlight > maxRecords:
		return fmt.Errorf("ackmesh: SubscribeConfig.MaxInFlight %d: give 1 to 100,000, or 0 for the server's default", c.MaxInFlight)
	case c.MaxInFlightBytes < 0 || c.MaxInFlightBytes > maxWindowBytes:
		return fmt.Errorf("ackmesh: SubscribeConfig.MaxInFlightBytes %d: give 1 to 1 GiB, or 0 for the server's default", c.MaxInFlightBytes)
	case c.AckTimeout < 0:
		return fmt.Errorf("ackmesh: SubscribeConfig.AckTimeout %v is negative", c.AckTimeout)
	case c.AckBatch < 1 || c.AckInterval < 0 || c.Drain < 0:
		return errors.New("ackmesh: SubscribeConfig: AckBatch, AckInterval or Drain is negative")
	}
	return nil
}

package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
)

// Mesh is where a server is.
type Mesh struct {
	// GRPC and HTTP are host:port, Control is a URL that takes POST /crash.
	GRPC, HTTP, Control string
}

// Client is what publishes and subscribes: Generated or Library.
type Client interface {
	// Publish is EventMesh.Publish.
	Publish(ctx context.Context, req *pb.PublishRequest) (*pb.PublishResponse, error)
	// Subscribe begins EventMesh.Subscribe on a connection of its own.
	Subscribe() (Call, error)
}

// Call is one Subscribe call.
type Call interface {
	Send(msg *pb.SubscribeRequest) error
	Recv() (*pb.SubscribeResponse, error)
	// CloseSend ends it in order.
	CloseSend() error
	// Close breaks it, if it has not ended, and its connection. It may be called
	// again.
	Close()
}

// world is one scenario under way. Everything that streams bring comes through
// arrivals, so that one goroutine knows all of it.
type world struct {
	mesh     Mesh
	client   Client
	patience time.Duration
	arrivals chan arrival
	streams  map[string]*stream
	waiting  []*delivery          // arrived, and no step has received them
	held     map[string]*delivery // received, by their labels
	nacked   time.Time            // when the last nack was sent
	done     chan struct{}
}

// arrival is one message of a stream, or its end.
type arrival struct {
	stream *stream
	at     time.Time
	msg    *pb.SubscribeResponse
	err    error
}

// stream is one Subscribe call on a connection of its own.
type stream struct {
	name    string
	call    Call
	opened  *pb.Opened
	changed map[uint64]*pb.Changed
	fates   map[uint64][]pb.AckResult_Status // of each delivery id, not yet looked at
	notices []*pb.Notice
	ended   *status.Status
}

// delivery is one Delivery and what its run says.
type delivery struct {
	*pb.Delivery
	stream *stream
	run    *pb.Run
	at     time.Time
}

func newWorld(m Mesh, c Client, patienceMS int) *world {
	w := &world{
		mesh: m, client: c, patience: defaultPatience, arrivals: make(chan arrival), done: make(chan struct{}),
		streams: map[string]*stream{}, held: map[string]*delivery{},
	}
	if patienceMS > 0 {
		w.patience = time.Duration(patienceMS) * time.Millisecond
	}
	return w
}

// close breaks what is left.
func (w *world) close() {
	close(w.done)
	for _, s := range w.streams {
		s.call.Close()
	}
}

// dial connects anew.
func (m Mesh) dial() (*grpc.ClientConn, error) {
	return grpc.NewClient(m.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
}

// limit is a context for one call that is no stream.
func (w *world) limit() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), w.patience)
}

// connect begins a stream under a name, and replaces one of that name which has
// ended.
func (w *world) connect(name string) (*stream, error) {
	if old := w.streams[name]; old != nil && old.ended == nil {
		return nil, fmt.Errorf("stream %s is open", name)
	}
	call, err := w.client.Subscribe()
	if err != nil {
		return nil, err
	}
	s := &stream{name: name, call: call, changed: map[uint64]*pb.Changed{}, fates: map[uint64][]pb.AckResult_Status{}}
	w.streams[name] = s
	go w.read(s)
	return s, nil
}

// read passes on what a stream brings, until it ends or the scenario does.
func (w *world) read(s *stream) {
	for {
		msg, err := s.call.Recv()
		select {
		case w.arrivals <- arrival{s, time.Now(), msg, err}:
		case <-w.done:
			return
		}
		if err != nil {
			return
		}
	}
}

// stream finds one by its name.
func (w *world) stream(name string) (*stream, error) {
	if s := w.streams[name]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("no stream is called %q", name)
}

// await takes in what arrives until ok. It fails when the patience is over, or
// the only streams that could bring it have ended.
func (w *world) await(what string, ok func() bool, of ...*stream) error {
	timer := time.NewTimer(w.patience)
	defer timer.Stop()
	for !ok() {
		if !slices.ContainsFunc(of, func(s *stream) bool { return s.ended == nil }) {
			return fmt.Errorf("%s did not come: stream %s ended with %s", what, of[0].name, describe(of[0].ended))
		}
		select {
		case a := <-w.arrivals:
			w.take(a)
		case <-timer.C:
			return fmt.Errorf("%s did not come within %v", what, w.patience)
		}
	}
	return nil
}

// take notes one message where it belongs.
func (w *world) take(a arrival) {
	s := a.stream
	if a.err != nil {
		s.ended = ending(a.err)
		s.call.Close()
		return
	}
	switch k := a.msg.GetKind().(type) {
	case *pb.SubscribeResponse_Opened:
		s.opened = k.Opened
	case *pb.SubscribeResponse_Changed:
		s.changed[k.Changed.GetChangeId()] = k.Changed
	case *pb.SubscribeResponse_Notice:
		s.notices = append(s.notices, k.Notice)
	case *pb.SubscribeResponse_AckResult:
		for _, o := range k.AckResult.GetOutcomes() {
			for _, id := range spread(o.GetDeliveryIds(), o.GetRanges()) {
				s.fates[id] = append(s.fates[id], o.GetStatus())
			}
		}
	case *pb.SubscribeResponse_Deliveries:
		for _, run := range k.Deliveries.GetRuns() {
			for _, d := range run.GetDeliveries() {
				w.waiting = append(w.waiting, &delivery{Delivery: d, stream: s, run: run, at: a.at})
			}
		}
	}
}

// spread is ids and every id of ranges.
func spread(ids []uint64, ranges []*pb.DeliveryRange) []uint64 {
	all := slices.Clone(ids)
	for _, r := range ranges {
		for id := r.GetFirst(); id <= r.GetLast(); id++ {
			all = append(all, id)
		}
	}
	return all
}

// endAll ends every stream that is open, in the order of their names.
func (w *world) endAll() error {
	var names []string
	for name, s := range w.streams {
		if s.ended == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if err := (&end{Stream: name}).run(w); err != nil {
			return err
		}
	}
	return nil
}

// nothingLeft fails if a stream brought a delivery that no step received.
func (w *world) nothingLeft(s *stream) error {
	for _, d := range w.waiting {
		if d.stream == s {
			return fmt.Errorf("stream %s brought what no step received: %s", s.name, d)
		}
	}
	return nil
}

// String shows a delivery for people.
func (d *delivery) String() string {
	data := d.GetFrame().GetData()
	if len(data) > 40 {
		data = data[:40]
	}
	return fmt.Sprintf("%q of %s, offset %d, attempt %d", data, d.run.GetTopic(), d.GetOffset(), d.GetAttempt())
}

// ending is the status of a stream that ended; io.EOF is OK.
func ending(err error) *status.Status {
	if errors.Is(err, io.EOF) {
		return status.New(codes.OK, "")
	}
	return status.Convert(err)
}

func describe(st *status.Status) string { return nameOf(st.Code()) + " " + st.Message() }

// nameOf is a code as the documentation writes it.
func nameOf(c codes.Code) string { return code.Code(c).String() }

// reasonOf is the reason of a status' ErrorInfo; empty: it has none.
func reasonOf(st *status.Status) string {
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

// same fails unless two values are equal.
func same[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s is %v, not %v", what, got, want)
	}
	return nil
}

// orOK is the code that a scenario means: none is OK.
func orOK(name string) string {
	if name == "" {
		return code.Code_OK.String()
	}
	return name
}

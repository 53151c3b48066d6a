package fakeproxy

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // what the protocol signs with
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ackmesh/ackmesh/storage"
)

// signedWith tells whether a call is signed with a key.
func signedWith(md metadata.MD, key string) bool {
	date, auth := md.Get("x-mq-date-time"), md.Get("authorization")
	if len(date) != 1 || len(auth) != 1 {
		return false
	}
	mac := hmac.New(sha1.New, []byte(key))
	mac.Write([]byte(date[0]))
	return strings.HasPrefix(auth[0], "MQv2-HMAC-SHA1 Credential=") && strings.HasSuffix(auth[0], "Signature="+hex.EncodeToString(mac.Sum(nil)))
}

// statusOf is how the broker's errors are told.
func statusOf(err error) *v2.Status {
	switch {
	case err == nil:
		return ok
	case errors.Is(err, storage.ErrTopicNotFound):
		return status(v2.Code_TOPIC_NOT_FOUND, err.Error())
	case errors.Is(err, storage.ErrGroupNotFound):
		return status(v2.Code_CONSUMER_GROUP_NOT_FOUND, err.Error())
	case errors.Is(err, storage.ErrInvalid):
		return status(v2.Code_BAD_REQUEST, err.Error())
	}
	return status(v2.Code_INTERNAL_SERVER_ERROR, err.Error())
}

// QueryRoute tells the queues of a topic.
func (p *Proxy) QueryRoute(ctx context.Context, req *v2.QueryRouteRequest) (*v2.QueryRouteResponse, error) {
	_, _, st := p.begin(ctx, "QueryRoute")
	if st != nil {
		return &v2.QueryRouteResponse{Status: st}, nil
	}
	t, err := p.be.Topic(ctx, req.GetTopic().GetName())
	if err != nil {
		return &v2.QueryRouteResponse{Status: statusOf(err)}, nil
	}
	res := &v2.QueryRouteResponse{Status: ok}
	for _, name := range t.Partitions {
		broker, id, _ := strings.Cut(name, ":")
		n, err := strconv.Atoi(id)
		if err != nil {
			return nil, grpcstatus.Errorf(codes.Internal, "partition %q", name)
		}
		res.MessageQueues = append(res.MessageQueues, p.queue(req.GetTopic(), broker, n))
	}
	if p.o.Idle {
		res.MessageQueues = append(res.MessageQueues, p.queue(req.GetTopic(), IdleBroker, 0))
	}
	return res, nil
}

func (p *Proxy) queue(topic *v2.Resource, broker string, id int) *v2.MessageQueue {
	return &v2.MessageQueue{
		Topic: topic, Id: int32(id), Permission: v2.Permission_READ_WRITE, Broker: &v2.Broker{Name: broker}, AcceptMessageTypes: p.typesOf(topic.GetName()),
	}
}

func (p *Proxy) typesOf(topic string) []v2.MessageType {
	p.mu.Lock()
	defer p.mu.Unlock()
	if types, ok := p.types[topic]; ok {
		return types
	}
	return []v2.MessageType{v2.MessageType_NORMAL}
}

// SendMessage stores messages; several of them have one answer.
func (p *Proxy) SendMessage(ctx context.Context, req *v2.SendMessageRequest) (*v2.SendMessageResponse, error) {
	_, _, st := p.begin(ctx, "SendMessage")
	if st != nil {
		return &v2.SendMessageResponse{Status: st}, nil
	}
	topic := req.GetMessages()[0].GetTopic().GetName()
	events := make([]storage.Event, len(req.GetMessages()))
	for i, m := range req.GetMessages() {
		if !slices.Contains(p.typesOf(topic), m.GetSystemProperties().GetMessageType()) {
			return &v2.SendMessageResponse{Status: status(v2.Code_MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, "current message type not match with topic accept message types")}, nil
		}
		if strings.Contains(string(m.GetBody()), "refuse me") {
			return &v2.SendMessageResponse{Status: status(v2.Code_ILLEGAL_MESSAGE_KEY, "this message is refused")}, nil
		}
		events[i] = storage.Event{Key: "one queue", Frame: m.GetBody()}
	}
	if _, err := p.be.Topic(ctx, topic); err != nil {
		return &v2.SendMessageResponse{Status: statusOf(err)}, nil
	}
	results, err := storage.AppendWait(ctx, p.be, topic, events)
	if err != nil {
		return &v2.SendMessageResponse{Status: statusOf(err)}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, req.GetMessages()...)
	return &v2.SendMessageResponse{Status: ok, Entries: []*v2.SendResultEntry{{Status: ok, Offset: results[0].Offset}}}, nil
}

// Telemetry keeps the settings of a client.
func (p *Proxy) Telemetry(stream grpc.BidiStreamingServer[v2.TelemetryCommand, v2.TelemetryCommand]) error {
	client, _, st := p.begin(stream.Context(), "Telemetry")
	if st != nil {
		return grpcstatus.Error(codes.Unavailable, st.GetMessage())
	}
	for {
		cmd, err := stream.Recv()
		if err != nil {
			return err
		}
		set := cmd.GetSettings()
		if set == nil {
			continue
		}
		sub := set.GetSubscription()
		if p.o.MakesGroups && len(sub.GetSubscriptions()) == 1 {
			// An error, as of a topic that is not there, shows in the receives.
			_, _ = p.be.OpenGroup(stream.Context(), storage.GroupSpec{Topic: sub.GetSubscriptions()[0].GetTopic().GetName(), Group: sub.GetGroup().GetName()})
		}
		ordered, _ := p.br.Kind(sub.GetSubscriptions()[0].GetTopic().GetName(), sub.GetGroup().GetName())
		sub.Fifo = &ordered
		p.mu.Lock()
		p.settings[client] = set
		p.counts["Settings"]++
		p.mu.Unlock()
		set.BackoffPolicy = &v2.RetryPolicy{MaxAttempts: 17}
		if err := stream.Send(&v2.TelemetryCommand{Status: ok, Command: &v2.TelemetryCommand_Settings{Settings: set}}); err != nil {
			return err
		}
	}
}

// Heartbeat fails for a client without settings.
func (p *Proxy) Heartbeat(ctx context.Context, _ *v2.HeartbeatRequest) (*v2.HeartbeatResponse, error) {
	client, _, st := p.begin(ctx, "Heartbeat")
	if st == nil && p.settingsOf(client) == nil {
		st = status(v2.Code_UNRECOGNIZED_CLIENT_TYPE, "cannot find client settings for this client")
	}
	if st == nil {
		st = ok
	}
	return &v2.HeartbeatResponse{Status: st}, nil
}

// NotifyClientTermination forgets a client.
func (p *Proxy) NotifyClientTermination(ctx context.Context, _ *v2.NotifyClientTerminationRequest) (*v2.NotifyClientTerminationResponse, error) {
	client, _, _ := p.begin(ctx, "NotifyClientTermination")
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.settings, client)
	return &v2.NotifyClientTerminationResponse{Status: ok}, nil
}

// ReceiveMessage pops for a group from the queues of one broker.
func (p *Proxy) ReceiveMessage(req *v2.ReceiveMessageRequest, stream grpc.ServerStreamingServer[v2.ReceiveMessageResponse]) error {
	client, f, st := p.begin(stream.Context(), "ReceiveMessage")
	if st == nil && p.settingsOf(client) == nil {
		st = lost("settings")
	}
	tell := func(st *v2.Status) error {
		return stream.Send(&v2.ReceiveMessageResponse{Content: &v2.ReceiveMessageResponse_Status{Status: st}})
	}
	if st != nil {
		return tell(st)
	}
	if req.GetMessageQueue().GetBroker().GetName() == IdleBroker {
		return p.idle(stream, req, tell)
	}
	var b storage.Batch
	err := p.be.Pop(stream.Context(), storage.PopRequest{
		Topic: req.GetMessageQueue().GetTopic().GetName(), Group: req.GetGroup().GetName(), Max: int(min(req.GetBatchSize(), 32)),
		Invisible: req.GetInvisibleDuration().AsDuration(), Wait: req.GetLongPollingTimeout().AsDuration(),
	}, &b)
	if err != nil {
		return tell(statusOf(err))
	}
	if len(b.Records) == 0 {
		return tell(status(v2.Code_MESSAGE_NOT_FOUND, "no new message"))
	}
	if err := tell(ok); err != nil {
		return err
	}
	for i := range b.Records {
		if f.cut && i > 0 {
			return grpcstatus.Error(codes.Unavailable, "the connection broke")
		}
		m := p.message(req.GetMessageQueue().GetTopic(), &b.Records[i], req.GetInvisibleDuration().AsDuration())
		if err := stream.Send(&v2.ReceiveMessageResponse{Content: &v2.ReceiveMessageResponse_Message{Message: m}}); err != nil {
			return err
		}
	}
	return nil
}

// idle waits as long as it was asked to.
func (p *Proxy) idle(stream grpc.ServerStreamingServer[v2.ReceiveMessageResponse], req *v2.ReceiveMessageRequest, tell func(*v2.Status) error) error {
	p.mu.Lock()
	life := p.life
	p.mu.Unlock()
	timer := time.NewTimer(req.GetLongPollingTimeout().AsDuration())
	defer timer.Stop()
	select {
	case <-timer.C:
		return tell(status(v2.Code_MESSAGE_NOT_FOUND, "no new message"))
	case <-stream.Context().Done():
		return stream.Context().Err()
	case <-life:
		return grpcstatus.Error(codes.Unavailable, "the proxy goes down")
	}
}

// message is a record as a proxy hands it out.
func (p *Proxy) message(topic *v2.Resource, r *storage.Record, invisible time.Duration) *v2.Message {
	kind := 0
	if isRetry(r.Partition) {
		kind = 1
	}
	_, id, _ := strings.Cut(r.Partition, ":")
	told := p.receipt(kind, id, r.Offset, invisible, r.CheckKey)
	n, _ := strconv.Atoi(id) // fakepop numbers its queues
	count := int32(r.DeliveryCount)
	return &v2.Message{
		Topic: topic, Body: slices.Clone(r.Frame), SystemProperties: &v2.SystemProperties{
			MessageId: r.ID, ReceiptHandle: &told, QueueId: int32(n), QueueOffset: &r.Offset, DeliveryAttempt: &count,
			BornTimestamp: timestamppb.New(time.UnixMilli(r.Time)), BodyEncoding: v2.Encoding_IDENTITY,
		},
	}
}

// receipt writes a receipt as RocketMQ does, for one of fakepop's.
func (p *Proxy) receipt(kind int, queue string, offset int64, invisible time.Duration, fake string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serial++
	told := fmt.Sprintf("%d %d %d 0 %d %s %s %d %d", offset, time.Now().UnixMilli(), invisible.Milliseconds(), kind, Broker, queue, offset, p.serial)
	p.receipts[told] = fake
	return told
}

func (p *Proxy) handle(told string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.receipts[told]
}

// AckMessage acks entries, each with its own answer, in an order of its own.
func (p *Proxy) AckMessage(ctx context.Context, req *v2.AckMessageRequest) (*v2.AckMessageResponse, error) {
	_, _, st := p.begin(ctx, "AckMessage")
	if st != nil {
		return &v2.AckMessageResponse{Status: st}, nil
	}
	res := &v2.AckMessageResponse{Status: ok}
	for _, e := range slices.Backward(req.GetEntries()) {
		st := p.entryFault()
		if st == nil {
			known, err := p.be.Ack(ctx, []any{p.handle(e.GetReceiptHandle())})
			if st = statusOf(err); err == nil && !known[0] {
				st = status(v2.Code_INVALID_RECEIPT_HANDLE, "receipt handle is expired")
			}
		}
		if st.GetCode() != v2.Code_OK {
			res.Status = status(v2.Code_MULTIPLE_RESULTS, "MULTIPLE_RESULTS")
		}
		res.Entries = append(res.Entries, &v2.AckMessageResultEntry{MessageId: e.GetMessageId(), ReceiptHandle: e.GetReceiptHandle(), Status: st})
	}
	return res, nil
}

// entryFault is what the next entry of an ack is answered with; nil: the truth.
func (p *Proxy) entryFault() *v2.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.faults["AckMessage"]
	if len(list) == 0 {
		return nil
	}
	p.faults["AckMessage"] = list[1:]
	return status(list[0].code, list[0].text)
}

// ChangeInvisibleDuration renews, and gives back what is to be visible within
// seconds.
func (p *Proxy) ChangeInvisibleDuration(ctx context.Context, req *v2.ChangeInvisibleDurationRequest) (*v2.ChangeInvisibleDurationResponse, error) {
	client, _, st := p.begin(ctx, "ChangeInvisibleDuration")
	if st == nil && p.settingsOf(client) == nil {
		st = lost("io.netty.channel.Channel.id()")
	}
	if st != nil {
		return &v2.ChangeInvisibleDurationResponse{Status: st}, nil
	}
	fake, d := p.handle(req.GetReceiptHandle()), req.GetInvisibleDuration().AsDuration()
	if d < 10*time.Second {
		err := p.be.Release(ctx, []any{fake})
		return &v2.ChangeInvisibleDurationResponse{Status: statusOf(err), ReceiptHandle: "released"}, nil
	}
	out, err := p.be.Renew(ctx, []any{fake}, d)
	if err != nil {
		return &v2.ChangeInvisibleDurationResponse{Status: statusOf(err)}, nil
	}
	if !out[0].OK {
		return &v2.ChangeInvisibleDurationResponse{Status: status(v2.Code_INVALID_RECEIPT_HANDLE, "receipt handle is expired")}, nil
	}
	f := strings.Fields(req.GetReceiptHandle())
	kind, _ := strconv.Atoi(f[4])               // receipt has written it
	offset, _ := strconv.ParseInt(f[7], 10, 64) // and this
	return &v2.ChangeInvisibleDurationResponse{Status: ok, ReceiptHandle: p.receipt(kind, f[6], offset, d, out[0].Handle.(string))}, nil
}

package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	sessionpb "github.com/ackmesh/ackmesh/gen/go/session"
)

// event is one event to publish, and what is to become of it.
type event struct {
	Attributes map[string]string `json:"attributes"`
	Data       string            `json:"data"`
	Size       int               `json:"size"`
	Code       string            `json:"code"`
	Offset     *int64            `json:"offset"`
}

// publish calls Publish once.
type publish struct {
	Topic        string  `json:"topic"`
	PartitionKey string  `json:"partition_key"`
	Events       []event `json:"events"`
	Code         string  `json:"code"`
}

func (p *publish) run(w *world) error {
	ctx, cancel := w.limit()
	defer cancel()
	answer, err := w.client.Publish(ctx, p.request(1))
	if err != nil {
		st := status.Convert(err)
		answer = &pb.PublishResponse{RequestId: 1, Status: &rpcstatus.Status{Code: int32(st.Code()), Message: st.Message()}}
	}
	return p.check(answer, 1)
}

func (p *publish) request(id uint64) *pb.PublishRequest {
	req := &pb.PublishRequest{Topic: p.Topic, PartitionKey: p.PartitionKey, RequestId: id}
	for _, e := range p.Events {
		data := e.Data + strings.Repeat("x", e.Size)
		req.Events = append(req.Events, &pb.EventMeshFrame{Attributes: e.Attributes, Data: []byte(data)})
	}
	return req
}

// check holds an answer against what is to come. The events of a request that was
// refused as a whole have no fate of their own.
func (p *publish) check(answer *pb.PublishResponse, id uint64) error {
	if err := same("request_id", answer.GetRequestId(), id); err != nil {
		return err
	}
	got := codeOf(answer.GetStatus())
	if got != orOK(p.Code) {
		return fmt.Errorf("the request's status is %s %s, not %s", got, answer.GetStatus().GetMessage(), orOK(p.Code))
	}
	if got != "OK" && len(answer.GetEvents()) == 0 {
		return nil
	}
	if err := same("the number of events answered", len(answer.GetEvents()), len(p.Events)); err != nil {
		return err
	}
	for i, e := range p.Events {
		was := answer.GetEvents()[i]
		if err := same(fmt.Sprintf("the status of event %d", i+1), codeOf(was.GetStatus()), orOK(e.Code)); err != nil {
			return err
		}
		if e.Offset != nil && was.GetOffset() != *e.Offset {
			return fmt.Errorf("event %d is at offset %d, not %d", i+1, was.GetOffset(), *e.Offset)
		}
	}
	return nil
}

// codeOf is the code of a status in a message; none is OK.
func codeOf(st *rpcstatus.Status) string { return nameOf(codes.Code(st.GetCode())) }

// publishStream sends all its requests on one PublishStream and then takes the
// answers, which come in their order.
type publishStream struct {
	Requests []publish `json:"requests"`
}

func (p *publishStream) run(w *world) error {
	conn, err := w.mesh.dial()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // answered
	ctx, cancel := w.limit()
	defer cancel()
	call, err := pb.NewEventMeshClient(conn).PublishStream(ctx)
	if err != nil {
		return err
	}
	for i := range p.Requests {
		if err := call.Send(p.Requests[i].request(uint64(i + 1))); err != nil {
			return err
		}
	}
	if err := call.CloseSend(); err != nil {
		return err
	}
	for i := range p.Requests {
		answer, err := call.Recv()
		if err != nil {
			return fmt.Errorf("answer %d: %w", i+1, err)
		}
		if err := p.Requests[i].check(answer, uint64(i+1)); err != nil {
			return fmt.Errorf("answer %d: %w", i+1, err)
		}
	}
	if _, err := call.Recv(); err != io.EOF { //nolint:errorlint // gRPC promises this very value
		return fmt.Errorf("after the last answer came %w, not the end", err)
	}
	return nil
}

// recommend asks where to connect; an instance alone recommends itself.
type recommend struct {
	Over string `json:"over"`
}

func (r *recommend) run(w *world) error {
	ctx, cancel := w.limit()
	defer cancel()
	var where string
	var err error
	switch r.Over {
	case "http":
		where, err = w.recommendHTTP(ctx)
	case "grpc", "grpc_literal":
		where, err = w.recommendGRPC(ctx, r.Over == "grpc_literal")
	default:
		return fmt.Errorf("over %q: it must be http, grpc or grpc_literal", r.Over)
	}
	if err != nil {
		return err
	}
	return same("instance_url", where, w.mesh.GRPC)
}

func (w *world) recommendGRPC(ctx context.Context, literal bool) (string, error) {
	conn, err := w.mesh.dial()
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }() // answered
	req := &pb.RecommendRequest{ClientId: "conformance"}
	if literal {
		answer, err := sessionpb.NewSessionClient(conn).Recommend(ctx, req)
		return answer.GetInstanceUrl(), err
	}
	answer, err := pb.NewSessionClient(conn).Recommend(ctx, req)
	return answer.GetInstanceUrl(), err
}

func (w *world) recommendHTTP(ctx context.Context) (string, error) {
	at := url.URL{Scheme: "http", Host: w.mesh.HTTP, Path: "/session/recommend", RawQuery: "client_id=conformance"}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }() // read
	var answer struct {
		InstanceURL string `json:"instanceUrl"`
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return "", fmt.Errorf("%s answers %s: %w", at.String(), res.Status, err)
	}
	return answer.InstanceURL, same("the HTTP status", res.StatusCode, http.StatusOK)
}

// crash has the server killed and started again.
type crash struct{}

func (*crash) run(w *world) error {
	res, err := http.Post(w.mesh.Control+"/crash", "", nil)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // its status says all
	return same("the status of crash", res.StatusCode, http.StatusOK)
}

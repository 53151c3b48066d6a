package server

import (
	"bytes"
	"context"
	"encoding/json"
	"path"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/audit"
	"github.com/ackmesh/ackmesh/server/auth"
)

// maxAudited bounds the bytes of a request or an answer in an entry.
const maxAudited = 16 << 10

type entryKey struct{}

// nameAuditor notes who makes the audited call of ctx, if it is one.
func nameAuditor(ctx context.Context, who string) {
	if e, ok := ctx.Value(entryKey{}).(*audit.Entry); ok {
		e.Who = who
	}
}

// auditUnary records what operators change, and what they were not allowed to.
// Who has no token is not recorded: anyone could fill the disk.
func (s *Server) auditUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if auth.NeedOf(info.FullMethod) != auth.NeedAdmin || changesNothing(req) {
		return next(ctx, req)
	}
	e := &audit.Entry{Time: time.Now().UTC(), Call: path.Base(info.FullMethod)}
	if p, ok := peer.FromContext(ctx); ok {
		e.Address = p.Addr.String()
	}
	res, err := next(context.WithValue(ctx, entryKey{}, e), req)
	if status.Code(err) == codes.Unauthenticated {
		return res, err
	}
	e.Request = auditJSON(req)
	conclude(e, res, err)
	s.record(e)
	return res, err
}

func changesNothing(req any) bool {
	r, ok := req.(*pb.ResetOffsetRequest)
	return ok && r.GetDryRun()
}

// conclude notes how the call ended.
func conclude(e *audit.Entry, res any, err error) {
	e.Outcome = codeName(status.Code(err))
	if err != nil {
		e.Detail = status.Convert(err).Message()
		return
	}
	r, ok := res.(*pb.ResetOffsetResponse)
	if !ok {
		e.Result = auditJSON(res)
		return
	}
	e.From, e.To = map[string]int64{}, map[string]int64{}
	for _, p := range r.GetPartitions() {
		e.From[p.GetPartition()], e.To[p.GetPartition()] = p.GetFrom(), p.GetTo()
	}
}

// record writes an entry to the audit log and to the server's own.
func (s *Server) record(e *audit.Entry) {
	s.log.Info("admin change", "who", e.Who, "address", e.Address, "call", e.Call, "request", string(e.Request),
		"from", e.From, "to", e.To, "result", string(e.Result), "outcome", e.Outcome, "detail", e.Detail)
	if s.core.audit == nil {
		return
	}
	if err := s.core.audit.Write(e); err != nil {
		s.meters.auditFailures.Inc()
		s.log.Error("a change is missing in the audit log", "error", err)
	}
}

// auditJSON is a message as compact JSON. Of one that is too long only what it
// names is kept, and its size.
func auditJSON(v any) json.RawMessage {
	m, ok := v.(proto.Message)
	if !ok {
		return nil
	}
	var out bytes.Buffer
	raw, err := protojson.Marshal(m)
	if err == nil {
		err = json.Compact(&out, raw) // protojson spaces differ from one program to the next
	}
	if err != nil || out.Len() > maxAudited {
		return briefJSON(m)
	}
	return out.Bytes()
}

func briefJSON(m proto.Message) json.RawMessage {
	brief := map[string]any{"bytes": proto.Size(m)}
	if r, ok := m.(interface{ GetTopic() string }); ok {
		brief["topic"] = r.GetTopic()
	}
	if r, ok := m.(interface{ GetSubscriber() string }); ok {
		brief["subscriber"] = r.GetSubscriber()
	}
	if r, ok := m.(interface{ GetIds() []string }); ok {
		brief["ids"] = len(r.GetIds())
	}
	raw, _ := json.Marshal(brief) // numbers and text always encode
	return raw
}

// codeName writes a code as the wire contract does: NOT_FOUND.
func codeName(c codes.Code) string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return c.String()
}

var codeNames = map[codes.Code]string{
	codes.OK: "OK", codes.Canceled: "CANCELLED", codes.Unknown: "UNKNOWN", codes.InvalidArgument: "INVALID_ARGUMENT",
	codes.DeadlineExceeded: "DEADLINE_EXCEEDED", codes.NotFound: "NOT_FOUND", codes.AlreadyExists: "ALREADY_EXISTS",
	codes.PermissionDenied: "PERMISSION_DENIED", codes.ResourceExhausted: "RESOURCE_EXHAUSTED",
	codes.FailedPrecondition: "FAILED_PRECONDITION", codes.Aborted: "ABORTED", codes.OutOfRange: "OUT_OF_RANGE",
	codes.Unimplemented: "UNIMPLEMENTED", codes.Internal: "INTERNAL", codes.Unavailable: "UNAVAILABLE",
	codes.DataLoss: "DATA_LOSS", codes.Unauthenticated: "UNAUTHENTICATED",
}

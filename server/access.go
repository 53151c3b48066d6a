package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors"
	"google.golang.org/grpc"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server/audit"
	"github.com/ackmesh/ackmesh/server/auth"
	"github.com/ackmesh/ackmesh/server/rpc"
	"github.com/ackmesh/ackmesh/storage"
)

// auditFile is the audit log's name in the data directory.
const auditFile = "audit.log"

// keepsData tells whether the instance has a data directory.
func (s *Server) keepsData() bool { return s.parts.Backend == nil && s.cfg.Storage != StorageMemory }

// openAccess reads the tokens and opens the audit log. The data directory must
// be this instance's alone.
func (s *Server) openAccess() error {
	fixed, err := s.adminGrant()
	if err != nil {
		return err
	}
	c := &s.core
	if c.tokens, err = auth.Open(s.cfg.Auth.TokensFile, fixed...); err != nil {
		return fmt.Errorf("auth.tokens-file: %w", err)
	}
	if c.tokens.HasFile() {
		s.onReload("tokens", c.tokens.Reload)
	}
	if !s.keepsData() {
		return nil
	}
	if c.audit, err = audit.Open(filepath.Join(s.cfg.Data, auditFile)); err != nil {
		return err
	}
	s.onReload("audit log", c.audit.Reopen)
	return nil
}

// adminGrant is that of the admin token: the one of the settings, else that of
// the data directory, which is made at the first start.
func (s *Server) adminGrant() ([]auth.Grant, error) {
	if t := s.cfg.Auth.AdminToken; t != "" {
		return []auth.Grant{auth.Operator("auth.admin-token", auth.HashOf(string(t)))}, nil
	}
	if !s.keepsData() {
		if s.cfg.Auth.TokensFile == "" && !s.parts.NoAdmin {
			s.log.Warn("admin calls are refused: there is no admin token; set auth.admin-token")
		}
		return nil, nil
	}
	token, made, err := auth.EnsureAdminToken(s.cfg.Data)
	if err != nil {
		return nil, err
	}
	if made {
		s.log.Info("made an admin token, which the command reads there", "path", filepath.Join(s.cfg.Data, auth.AdminTokenFile))
	}
	return []auth.Grant{auth.Operator(auth.AdminTokenFile, auth.HashOf(token))}, nil
}

// needsToken tells whether a method needs a token here.
func (s *Server) needsToken(_ context.Context, m interceptors.CallMeta) bool {
	need := auth.NeedOf(m.FullMethod())
	return need != auth.NeedNothing && (!need.Data() || s.core.tokens.HasFile())
}

// authenticate puts the caller into the context of a call that needs one. The
// caller must have the role that the method needs.
func (s *Server) authenticate(ctx context.Context) (context.Context, error) {
	method, _ := grpc.Method(ctx)
	caller, err := s.core.tokens.Authenticate(ctx)
	if err == nil {
		nameAuditor(ctx, caller.Name())
		err = caller.Role(auth.NeedOf(method).Role())
	}
	if err != nil {
		return nil, s.refused(err)
	}
	return auth.With(ctx, caller), nil
}

// refused counts a call, a request or a subscription that was not allowed.
func (s *Server) refused(err error) error {
	if err == nil {
		return nil
	}
	var e *auth.Error
	if errors.As(err, &e) {
		s.meters.refused.WithLabelValues(strings.ToLower(e.Reason)).Inc()
		s.log.Debug("not allowed", "token", e.Token, "reason", e.Reason, "detail", e.Error())
	}
	return err
}

// authorizer says what data calls may do; nil: everything.
func (s *Server) authorizer() rpc.Authorizer {
	if !s.core.tokens.HasFile() {
		return nil
	}
	return func(ctx context.Context) rpc.Caller {
		if c := auth.From(ctx); c != nil {
			return &dataCaller{Caller: c, s: s}
		}
		return nobody{} // no call comes here without a caller
	}
}

// dataCaller is a caller whose refusals are counted.
type dataCaller struct {
	*auth.Caller
	s *Server
}

// Publish is auth.Caller.Publish.
func (c *dataCaller) Publish(topic string) error { return c.s.refused(c.Caller.Publish(topic)) }

// Client is auth.Caller.Client.
func (c *dataCaller) Client(id string) error { return c.s.refused(c.Caller.Client(id)) }

// Subscribe is auth.Caller.Subscribe.
func (c *dataCaller) Subscribe(client, topic string) error {
	return c.s.refused(c.Caller.Subscribe(client, topic))
}

// Join is auth.Caller.Join.
func (c *dataCaller) Join(client, topic, share string) error {
	return c.s.refused(c.Caller.Join(client, topic, share))
}

// nobody may do nothing.
type nobody struct{}

var errNobody = auth.Unauthenticated()

func (nobody) Name() string                      { return "" }
func (nobody) Publish(string) error              { return errNobody }
func (nobody) Client(string) error               { return errNobody }
func (nobody) Subscribe(string, string) error    { return errNobody }
func (nobody) Join(string, string, string) error { return errNobody }
func (nobody) Changed() <-chan struct{}          { return nil }

// operateUnary checks the requests of operators: what they name must be legal and
// within the caller's patterns. Out of the answers it takes what is not.
func (s *Server) operateUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if !strings.HasPrefix(info.FullMethod, "/"+pb.Admin_ServiceDesc.ServiceName+"/") {
		return next(ctx, req)
	}
	c := auth.From(ctx)
	if c == nil {
		return nil, errNobody // no call comes here without a caller
	}
	if err := checkNames(req); err != nil {
		return nil, rpc.Status(err).Err()
	}
	if err := s.refused(c.Operate(req)); err != nil {
		return nil, err
	}
	if r, ok := req.(*pb.ResetOffsetRequest); ok && !r.GetDryRun() {
		if err := s.resets.Limit(ctx); err != nil {
			return nil, err
		}
	}
	res, err := next(ctx, req)
	if err != nil {
		return nil, err
	}
	return res, c.Hide(res)
}

// checkNames refuses requests whose names are not legal, and those that lack a
// topic where one is needed.
func checkNames(req any) error {
	if r, ok := req.(interface{ GetTopic() string }); ok && (r.GetTopic() != "" || needsTopic(req)) {
		if err := storage.CheckName("topic", r.GetTopic()); err != nil {
			return err
		}
	}
	if r, ok := req.(interface{ GetClientId() string }); ok && r.GetClientId() != "" {
		if err := storage.CheckName("client_id", r.GetClientId()); err != nil {
			return err
		}
	}
	return checkTexts(req)
}

const (
	// maxSubscriber is how long client/NAME or share/NAME may be.
	maxSubscriber = len("client/") + storage.MaxNameLen
	// maxReason bounds what is told to a client that is evicted.
	maxReason = 1024
)

// checkTexts refuses texts that are too long for any answer: what is not found,
// and why a stream ends, is told in a status, which many clients take only a few
// KiB of.
func checkTexts(req any) error {
	within := func(field, text string, most int) error {
		if len(text) <= most {
			return nil
		}
		return fmt.Errorf("%s has %d bytes, at most %d are allowed: %w", field, len(text), most, storage.ErrInvalid)
	}
	var errs []error
	if r, ok := req.(interface{ GetSubscriber() string }); ok {
		errs = append(errs, within("subscriber", r.GetSubscriber(), maxSubscriber))
	}
	if r, ok := req.(interface{ GetPartition() string }); ok {
		errs = append(errs, within("partition", r.GetPartition(), storage.MaxNameLen))
	}
	if r, ok := req.(interface{ GetReason() string }); ok {
		errs = append(errs, within("reason", r.GetReason(), maxReason))
	}
	if r, ok := req.(interface{ GetInstanceId() string }); ok {
		errs = append(errs, within("instance_id", r.GetInstanceId(), storage.MaxNameLen))
	}
	return errors.Join(errs...)
}

func needsTopic(req any) bool {
	switch req.(type) {
	case *pb.CreateTopicRequest, *pb.DeleteTopicRequest, *pb.DeleteSubscriberRequest, *pb.ResetOffsetRequest,
		*pb.ListDeadLettersRequest, *pb.ReplayDeadLettersRequest, *pb.PurgeDeadLettersRequest, *pb.RebuildDeadLettersRequest:
		return true
	}
	return false
}

// guardMetrics serves metrics, which name topics and clients, to those who may
// see them: everyone where data calls need no token, else callers with the role
// admin-read.
func (s *Server) guardMetrics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.cfg.Auth.TokensFile == "" {
			next.ServeHTTP(w, r)
			return
		}
		if !s.ready.Load() {
			reply(w, http.StatusServiceUnavailable, "not ready")
			return
		}
		c, err := s.core.tokens.AuthenticateHeader(r.Header.Get("Authorization"))
		code := http.StatusUnauthorized
		if err == nil {
			err, code = c.Role(auth.RoleAdminRead), http.StatusForbidden
		}
		if s.refused(err) != nil {
			w.Header().Set("WWW-Authenticate", `Bearer realm="ackmesh"`)
			reply(w, code, err.Error())
			return
		}
		next.ServeHTTP(w, r)
	})
}

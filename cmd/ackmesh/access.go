package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/ackmesh/ackmesh/server"
	"github.com/ackmesh/ackmesh/server/auth"
)

// access is how a command shows who it is, and how it knows the server.
type access struct {
	token, tokenFile string
	// data is the server's data directory, which holds the admin token: for
	// operators' commands.
	data  string
	admin bool

	tls             bool
	ca, cert, key   string
	serverName      string
	plaintextTokens bool
	getenv          func(string) string
}

// accessFlags adds the flags of tokens and TLS. admin: of operators.
func (a *app) accessFlags(flags *pflag.FlagSet, x *access, admin bool) {
	x.admin, x.getenv = admin, a.getenv
	env := envToken
	if admin {
		env = envAdminToken
	}
	flags.StringVar(&x.token, "token", "", "token to show; other programs can see it in the list of processes (environment: "+env+")")
	flags.StringVar(&x.tokenFile, "token-file", "", "file that holds the token to show")
	if admin {
		flags.StringVar(&x.data, "data", "", "data directory of the server, where its admin token is read (default: that of the server; environment: "+envName("data")+")")
	}
	flags.BoolVar(&x.tls, "tls", false, "use TLS; implied by the other flags of TLS")
	flags.StringVar(&x.ca, "tls-ca", "", "PEM file of the roots that the server's certificate must come from; default: the system's (environment: "+envCA+")")
	flags.StringVar(&x.cert, "tls-cert", "", "PEM file of a certificate to show to the server")
	flags.StringVar(&x.key, "tls-key", "", "PEM file of that certificate's key")
	flags.StringVar(&x.serverName, "tls-name", "", "name in the server's certificate, where it is not the host of its address")
	flags.BoolVar(&x.plaintextTokens, "plaintext-token", false, "show the token without TLS to other machines too: whoever is on the way can read and use it")
}

// secure tells whether TLS is used.
func (x *access) secure() bool {
	return x.tls || x.roots() != "" || x.cert != "" || x.key != "" || x.serverName != ""
}

func (x *access) roots() string {
	if x.ca != "" {
		return x.ca
	}
	return x.getenv(envCA)
}

// tlsConfig is for the connection; nil: without TLS.
func (x *access) tlsConfig() (*tls.Config, error) {
	if !x.secure() {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: x.serverName}
	if path := x.roots(); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--tls-ca: %s has no PEM certificate", path)
		}
	}
	if (x.cert == "") != (x.key == "") {
		return nil, usageError{errors.New("--tls-cert and --tls-key go together")}
	}
	if x.cert != "" {
		pair, err := tls.LoadX509KeyPair(x.cert, x.key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// shown is the token to show to the server at addr; empty: none.
func (x *access) shown(addr string) (string, error) {
	token, err := x.findToken(addr)
	if err != nil || token == "" {
		return "", err
	}
	if err := auth.CheckToken(token); err != nil {
		return "", usageError{fmt.Errorf("the token is none: %w", err)}
	}
	if !x.secure() && !x.plaintextTokens && !isLoopback(addr) {
		return "", usageError{fmt.Errorf("the token would go to %s in plain text: give --tls, or --plaintext-token if nobody can listen on the way", addr)}
	}
	return token, nil
}

// findToken looks for a token: flags, then the environment, then (for operators)
// the data directory. One that was not asked for is only taken for a server on
// this machine.
func (x *access) findToken(addr string) (string, error) {
	switch {
	case x.token != "" && x.tokenFile != "":
		return "", usageError{errors.New("--token and --token-file: give one of them")}
	case x.token != "":
		return x.token, nil
	case x.tokenFile != "":
		text, err := os.ReadFile(x.tokenFile)
		if err != nil {
			return "", fmt.Errorf("--token-file: %w", err)
		}
		return strings.TrimSpace(string(text)), nil
	case !x.admin:
		return x.getenv(envToken), nil
	case x.data != "":
		return auth.ReadAdminToken(x.data)
	}
	if token := x.getenv(envAdminToken); token != "" {
		return token, nil
	}
	if !isLoopback(addr) {
		return "", nil
	}
	return x.localToken()
}

// localToken reads the admin token where a server on this machine has it unless
// told otherwise. That it is not there, or not for this user, is no error: the
// server says whether it is needed.
func (x *access) localToken() (string, error) {
	dir := x.getenv(envName("data"))
	if dir == "" {
		dir = server.Defaults().Data
	}
	token, err := auth.ReadAdminToken(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return "", nil
	}
	return token, err
}

// isLoopback tells whether host:port is on this machine.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// dialOptions are for a connection to addr.
func (x *access) dialOptions(addr string) ([]grpc.DialOption, error) {
	cfg, err := x.tlsConfig()
	if err != nil {
		return nil, err
	}
	creds := insecure.NewCredentials()
	if cfg != nil {
		creds = credentials.NewTLS(cfg)
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds), grpc.WithUnaryInterceptor(waitForTurn),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)), // a listing is as long as it is
	}
	token, err := x.shown(addr)
	if err != nil {
		return nil, err
	}
	if token != "" {
		opts = append(opts, grpc.WithPerRPCCredentials(auth.Bearer{Token: token, Plaintext: cfg == nil}))
	}
	return opts, nil
}

// waitForTurn makes a call again that was too much for the server's rate, after
// the wait that it asks for, if there is time for that.
func waitForTurn(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	var refused error
	for {
		err := call(ctx, method, req, reply, cc, opts...)
		wait, ok := retryDelay(err)
		switch {
		case ok:
			refused = err
		case err != nil && ctx.Err() != nil && refused != nil:
			return refused // says more than that time is up
		default:
			return err
		}
		if end, ok := ctx.Deadline(); ok && time.Until(end) < wait {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

// retryDelay is how long a server that refuses a call for its rate asks to wait.
func retryDelay(err error) (time.Duration, bool) {
	st := status.Convert(err)
	if st.Code() != codes.ResourceExhausted {
		return 0, false
	}
	for _, detail := range st.Details() {
		if r, ok := detail.(*errdetails.RetryInfo); ok && r.GetRetryDelay() != nil {
			return r.GetRetryDelay().AsDuration(), true
		}
	}
	return 0, false
}

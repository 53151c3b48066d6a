package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	pb "github.com/ackmesh/ackmesh/gen/go/ackmesh/v1"
	"github.com/ackmesh/ackmesh/server"
	"github.com/ackmesh/ackmesh/server/auth"
	"github.com/ackmesh/ackmesh/test/certs"
)

const patience = 20 * time.Second

// authority issues certificates for a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, next: 1}
	a.cert, a.key = a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "root"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

// issue signs a certificate, or makes it its own root.
func (a *authority) issue(c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.next++
	c.SerialNumber = big.NewInt(a.next)
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// server issues a certificate for 127.0.0.1, client one for a client.
func (a *authority) server() (*x509.Certificate, *ecdsa.PrivateKey) {
	return a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "server"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

func (a *authority) client() tls.Certificate {
	cert, key := a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "client"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

// trust is a client's configuration that knows the root, with certificates.
func (a *authority) trust(certs ...tls.Certificate) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{RootCAs: pool, Certificates: certs, MinVersion: tls.VersionTLS12}
}

// save writes a certificate and its key into dir under a name.
func (a *authority) save(dir, name string, cert *x509.Certificate, key *ecdsa.PrivateKey) (certPath, keyPath string) {
	a.t.Helper()
	certPath, keyPath = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	certs.Save(a.t, tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}, certPath, keyPath)
	return certPath, keyPath
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// running is an instance on free loopback ports.
type running struct {
	*server.Server
	t    *testing.T
	data string
	stop func()
}

// run starts an instance on a data directory of its own and waits until it
// serves.
func run(t *testing.T, change func(*server.Config)) *running {
	t.Helper()
	cfg := server.Defaults()
	cfg.Listen, cfg.HTTPListen, cfg.AdminListen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.Data, cfg.Sync, cfg.Topics.Partitions = t.TempDir(), false, 1
	cfg.Drain.Grace = 0
	if change != nil {
		change(&cfg)
	}
	s, err := server.New(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	r := &running{Server: s, t: t, data: cfg.Data}
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the instance did not stop in order: %v", err)
		}
	}
	t.Cleanup(r.stop)
	select {
	case <-s.Ready():
	case err := <-done:
		stopped = true
		cancel()
		t.Fatalf("the instance did not start: %v", err)
	}
	return r
}

// dial connects to an address; nil: without TLS.
func (r *running) dial(addr string, cfg *tls.Config, opts ...grpc.DialOption) *grpc.ClientConn {
	r.t.Helper()
	creds := insecure.NewCredentials()
	if cfg != nil {
		creds = credentials.NewTLS(cfg)
	}
	conn, err := grpc.NewClient(addr, append(opts, grpc.WithTransportCredentials(creds))...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// healthy makes a call that needs no token.
func healthy(conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	return err
}

// get fetches a path of the HTTP listener.
func (r *running) get(scheme, path string, cfg *tls.Config, header http.Header) (code int, body string, err error) {
	r.t.Helper()
	tr := &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequest(http.MethodGet, scheme+"://"+r.Addresses().HTTP+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header = header
	res, err := (&http.Client{Transport: tr, Timeout: patience}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

// TestTLS: every listener speaks TLS, and nothing else.
func TestTLS(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	cert, key := ca.server()
	r := run(t, func(c *server.Config) { c.TLS.Cert, c.TLS.Key = ca.save(dir, "server", cert, key) })
	a := r.Addresses()
	for _, addr := range []string{a.GRPC, a.Admin} {
		if err := healthy(r.dial(addr, ca.trust())); err != nil {
			t.Errorf("with TLS: %v", err)
		}
		if err := healthy(r.dial(addr, nil)); status.Code(err) != codes.Unavailable {
			t.Errorf("without TLS: %v", err)
		}
		if err := healthy(r.dial(addr, newAuthority(t).trust())); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("a root that is not ours: %v", err)
		}
	}
	for path, want := range map[string]string{"/healthz": "alive", "/readyz": "ready", "/metrics": "ackmesh_streams", "/session/recommend": a.GRPC} {
		code, body, err := r.get("https", path, ca.trust(), nil)
		if err != nil || code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d, %v, %.200s", path, code, err, body)
		}
	}
	if code, body, err := r.get("http", "/healthz", nil, nil); err == nil && code == http.StatusOK {
		t.Errorf("HTTP without TLS: %d %s", code, body)
	}
}

// TestMutualTLS: who shows no certificate of a root that is known does not get
// as far as a call; a listener may have files of its own.
func TestMutualTLS(t *testing.T) {
	ca, clients, dir := newAuthority(t), newAuthority(t), t.TempDir()
	cert, key := ca.server()
	adminCA := newAuthority(t)
	adminCert, adminKey := adminCA.server()
	r := run(t, func(c *server.Config) {
		c.TLS.Cert, c.TLS.Key = ca.save(dir, "server", cert, key)
		c.TLS.ClientCA, _ = clients.save(dir, "clients", clients.cert, clients.key)
		c.TLS.HTTP.ClientCA = "none"
		c.TLS.Admin.Cert, c.TLS.Admin.Key = adminCA.save(dir, "admin", adminCert, adminKey)
	})
	a := r.Addresses()
	tests := []struct {
		what, addr string
		cfg        *tls.Config
		ok         bool
	}{
		{"data, with a certificate", a.GRPC, ca.trust(clients.client()), true},
		{"data, without", a.GRPC, ca.trust(), false},
		{"data, with one of another root", a.GRPC, ca.trust(ca.client()), false},
		{"admin, its own certificate", a.Admin, adminCA.trust(clients.client()), true},
		{"admin, the certificate of the others", a.Admin, ca.trust(clients.client()), false},
		{"admin, without", a.Admin, adminCA.trust(), false},
	}
	for _, tt := range tests {
		err := healthy(r.dial(tt.addr, tt.cfg))
		if ok := err == nil; ok != tt.ok {
			t.Errorf("%s: %v", tt.what, err)
		}
	}
	code, body, err := r.get("https", "/session/recommend", ca.trust(), nil)
	if err != nil || code != http.StatusOK || !strings.Contains(body, a.GRPC) {
		t.Errorf("HTTP asks for no certificate: %d, %v, %s", code, err, body)
	}
}

// serial is the number of the certificate that an address shows.
func serial(t *testing.T, addr string, cfg *tls.Config) int64 {
	t.Helper()
	cfg = cfg.Clone()
	cfg.NextProtos = []string{"h2"}
	conn, err := (&tls.Dialer{Config: cfg}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// TestCertificatesReload: a new certificate is used from the next handshake on,
// connections that live stay; files that are no certificate change nothing.
func TestCertificatesReload(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	cert, key := ca.server()
	r := run(t, func(c *server.Config) { c.TLS.Cert, c.TLS.Key = ca.save(dir, "server", cert, key) })
	a := r.Addresses()
	old := r.dial(a.GRPC, ca.trust())
	if err := healthy(old); err != nil {
		t.Fatal(err)
	}
	renewed, key := ca.server()
	certPath, _ := ca.save(dir, "server", renewed, key)
	for _, addr := range []string{a.GRPC, a.HTTP, a.Admin} {
		if n := serial(t, addr, ca.trust()); n != cert.SerialNumber.Int64() {
			t.Errorf("before the reload: certificate %d", n)
		}
	}
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, certPath, "no certificate")
	if err := r.Reload(); err == nil || !strings.Contains(err.Error(), certPath) {
		t.Errorf("a bad file: %v", err)
	}
	for _, addr := range []string{a.GRPC, a.HTTP, a.Admin} {
		if n := serial(t, addr, ca.trust()); n != renewed.SerialNumber.Int64() {
			t.Errorf("after the reloads: certificate %d", n)
		}
	}
	if err := healthy(old); err != nil {
		t.Errorf("a connection from before: %v", err)
	}
	r.stop()
	if err := r.Reload(); err != nil {
		t.Errorf("after the end: %v", err)
	}
}

// TestClientRootsReload: a root that was taken away lets nobody in any more.
func TestClientRootsReload(t *testing.T) {
	ca, clients, dir := newAuthority(t), newAuthority(t), t.TempDir()
	cert, key := ca.server()
	var roots string
	r := run(t, func(c *server.Config) {
		c.TLS.Cert, c.TLS.Key = ca.save(dir, "server", cert, key)
		roots, _ = clients.save(dir, "clients", clients.cert, clients.key)
		c.TLS.ClientCA = roots
	})
	trust := ca.trust(clients.client())
	trust.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	if err := healthy(r.dial(r.Addresses().GRPC, trust)); err != nil {
		t.Fatal(err)
	}
	others := newAuthority(t)
	others.save(dir, "clients", others.cert, others.key)
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if err := healthy(r.dial(r.Addresses().GRPC, trust)); err == nil {
		t.Error("a certificate of a root that was taken away is taken")
	}
	if err := healthy(r.dial(r.Addresses().GRPC, ca.trust(others.client()))); err != nil {
		t.Errorf("the new root: %v", err)
	}
}

// TestBadFilesAtStart: what is wrong with certificates or tokens is told before
// anything is begun.
func TestBadFilesAtStart(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad")
	writeFile(t, bad, "bad")
	for what, change := range map[string]func(*server.Config){
		"tls.cert":         func(c *server.Config) { c.TLS.Cert, c.TLS.Key = bad, bad },
		"tls.admin.cert":   func(c *server.Config) { c.TLS.Admin.Cert, c.TLS.Admin.Key = bad, bad },
		"auth.tokens-file": func(c *server.Config) { c.Auth.TokensFile = bad },
	} {
		cfg := server.Defaults()
		cfg.Data = filepath.Join(dir, "data")
		change(&cfg)
		s, err := server.New(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := os.Stat(cfg.Data); err == nil {
			t.Errorf("%s: the data directory was made", what)
		}
	}
}

// TestAdminTokenOfDirectory: at the first start a token is made that only the
// server's user can read, and it is the same after a restart.
func TestAdminTokenOfDirectory(t *testing.T) {
	r := run(t, nil)
	path := filepath.Join(r.data, auth.AdminTokenFile)
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	token, err := auth.ReadAdminToken(r.data)
	if err != nil {
		t.Fatal(err)
	}
	list := func(r *running, token string) error {
		var opts []grpc.DialOption
		if token != "" {
			opts = append(opts, grpc.WithPerRPCCredentials(auth.Bearer{Token: token, Plaintext: true}))
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, err := pb.NewAdminClient(r.dial(r.Addresses().Admin, nil, opts...)).ListTopics(ctx, &pb.ListTopicsRequest{})
		return err
	}
	if err := list(r, ""); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a token: %v", err)
	}
	if err := list(r, auth.NewToken()); status.Code(err) != codes.Unauthenticated {
		t.Errorf("with another token: %v", err)
	}
	if err := list(r, token); err != nil {
		t.Errorf("with the token: %v", err)
	}
	r.stop()
	again := run(t, func(c *server.Config) { c.Data = r.data })
	if err := list(again, token); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	again.stop()
	given := run(t, func(c *server.Config) { c.Auth.AdminToken = "a-token-of-the-settings" })
	if err := list(given, "a-token-of-the-settings"); err != nil {
		t.Errorf("the token of the settings: %v", err)
	}
	if _, err := os.Stat(filepath.Join(given.data, auth.AdminTokenFile)); err == nil {
		t.Error("a token was made although the settings have one")
	}
}

// TestHTTPTokens: with tokens, metrics are for those who may see them, a
// recommendation for any token, and health for everyone.
func TestHTTPTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	reader, other := auth.NewToken(), auth.NewToken()
	writeFile(t, path, "tokens:\n"+
		"- {name: reader, sha256: "+auth.HashOf(reader).String()+", roles: [admin-read], topics: ['*']}\n"+
		"- {name: other, sha256: "+auth.HashOf(other).String()+", roles: [publish], topics: ['*']}\n")
	r := run(t, func(c *server.Config) { c.Auth.TokensFile = path })
	tests := []struct {
		path, token string
		want        int
	}{
		{"/healthz", "", 200},
		{"/readyz", "", 200},
		{"/metrics", "", 401},
		{"/metrics", auth.NewToken(), 401},
		{"/metrics", other, 403},
		{"/metrics", reader, 200},
		{"/session/recommend", "", 401},
		{"/session/recommend", auth.NewToken(), 401},
		{"/session/recommend", other, 200},
	}
	for _, tt := range tests {
		header := http.Header{}
		if tt.token != "" {
			header.Set("Authorization", "Bearer "+tt.token)
		}
		code, body, err := r.get("http", tt.path, nil, header)
		if err != nil || code != tt.want {
			t.Errorf("%s: %d, want %d, %v, %.200s", tt.path, code, tt.want, err, body)
		}
	}
}

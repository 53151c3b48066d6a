package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/server"
	"github.com/ackmesh/ackmesh/server/auth"
	"github.com/ackmesh/ackmesh/test/certs"
)

// save writes a file of a test and returns its path.
func save(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// certificate makes a certificate for 127.0.0.1 that is its own root.
func certificate(t *testing.T) (certPath, keyPath string) {
	t.Helper()
	dir := t.TempDir()
	certPath, keyPath = filepath.Join(dir, "mesh.crt"), filepath.Join(dir, "mesh.key")
	cert, _ := certs.New(t, "mesh.example")
	certs.Save(t, cert, certPath, keyPath)
	return certPath, keyPath
}

// TestTokensAndTLS is the way of a team that is careful: TLS, tokens from a file,
// the admin token of the data directory; a token is taken away by SIGHUP.
func TestTokensAndTLS(t *testing.T) {
	token := strings.TrimSpace(call(t, nil, "token", "new").out)
	hash := strings.TrimSpace(call(t, func(a *app) { a.in = strings.NewReader(token + "\n") }, "token", "hash").out)
	if hash != auth.HashOf(token).String() {
		t.Fatalf("token %q has the hash %q", token, hash)
	}
	entry := "tokens:\n- {name: app, sha256: %s, roles: [publish, subscribe], topics: ['orders*'], clients: [app]}\n"
	tokens := save(t, "tokens.yaml", fmt.Sprintf(entry, hash))
	cert, key := certificate(t)
	data := t.TempDir()
	addr, admin := freeAddress(t), freeAddress(t)
	p := spawn(t, "serve", "--listen", addr, "--http-listen", freeAddress(t), "--admin-listen", admin, "--data", data,
		"--tls.cert", cert, "--tls.key", key, "--auth.tokens-file", tokens)
	p.told("msg=serving")
	with := func(environ ...string) func(*app) {
		return func(a *app) {
			a.environ = append([]string{envServer + "=" + addr, envAdmin + "=" + admin, envCA + "=" + cert}, environ...)
			a.in = strings.NewReader("1\n")
		}
	}
	call(t, with(envToken+"="+token), "publish", "--topic", "orders").want(t, exitOK, "published 1 events")
	call(t, with(), "publish", "--topic", "orders", "--token-file", save(t, "token", token+"\n")).want(t, exitOK, "published 1 events")
	call(t, with(), "publish", "--topic", "orders").want(t, exitFailed, "UNAUTHENTICATED", "--token")
	call(t, with(envToken+"="+token), "publish", "--topic", "payments").want(t, exitFailed, "PERMISSION_DENIED", "payments")
	call(t, with(envToken+"="+token), "subscribe", "--topic", "orders", "--client", "app", "--from", "earliest", "--count", "2").
		want(t, exitOK, "received 2, acked 2")
	call(t, with(envToken+"="+token), "subscribe", "--topic", "orders", "--client", "other").want(t, exitFailed, "PERMISSION_DENIED", "other")
	call(t, with(envToken+"="+token), "recommend").want(t, exitOK, addr)

	call(t, with(), "topics", "list", "--data", data).want(t, exitOK, "orders")
	call(t, with(envName("data")+"="+data), "topics", "list").want(t, exitOK, "orders")
	call(t, with(), "topics", "list", "--token", token).want(t, exitFailed, "PERMISSION_DENIED", "role admin-read")
	call(t, with(), "topics", "list").want(t, exitFailed, "UNAUTHENTICATED", "--data")
	call(t, with(), "topics", "list", "--data", t.TempDir()).want(t, exitFailed, auth.AdminTokenFile)
	call(t, with(), "topics", "list", "--data", data, "--tls-name", "other.example").want(t, exitFailed, "UNAVAILABLE", "other.example")
	call(t, with(), "topics", "list", "--data", data, "--tls-name", "mesh.example").want(t, exitOK, "orders")

	if err := os.WriteFile(tokens, []byte(fmt.Sprintf(entry, auth.HashOf(auth.NewToken()))), 0o600); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	p.told(`reloaded what=tokens`)
	call(t, with(envToken+"="+token), "publish", "--topic", "orders").want(t, exitFailed, "UNAUTHENTICATED")
	if err := os.WriteFile(tokens, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	p.told(`reload failed`)
	p.signal(syscall.SIGTERM)
	p.wait().want(t, exitOK)
}

// TestServeIsSafeByDefault: a start that other machines could reach without TLS and
// tokens is refused, and says what to do.
func TestServeIsSafeByDefault(t *testing.T) {
	call(t, nil, "serve", "--listen", "0.0.0.0:0", "--advertise", "mesh:7460", "--data", t.TempDir()).
		want(t, exitUsage, "listen: other machines can reach 0.0.0.0:0", "tls.cert", "auth.tokens-file", "insecure=true")
	call(t, nil, "serve", "--admin-listen", "0.0.0.0:0", "--data", t.TempDir()).want(t, exitUsage, "admin-listen: other machines", "tls.cert")
}

// TestWhichToken is the order in which tokens are looked for, and where they may go.
func TestWhichToken(t *testing.T) {
	const local, far = "127.0.0.1:1", "192.0.2.1:1"
	fromFlag, fromFile, fromEnv := "the-token-of-the-flag-x", "the-token-of-the-file-x", "the-token-of-the-environment"
	path := save(t, "token", fromFile+"\n")
	data := t.TempDir()
	inData, _, err := auth.EnsureAdminToken(data)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	tests := []struct {
		name string
		x    access
		env  map[string]string
		addr string
		want string
		err  string
	}{
		{"nothing", access{}, env, local, "", ""},
		{"flag before environment", access{token: fromFlag}, map[string]string{envToken: fromEnv}, local, fromFlag, ""},
		{"file before environment", access{tokenFile: path}, map[string]string{envToken: fromEnv}, local, fromFile, ""},
		{"environment", access{}, map[string]string{envToken: fromEnv}, local, fromEnv, ""},
		{"not that of operators", access{}, map[string]string{envAdminToken: fromEnv, "ACKMESH_DATA": data}, local, "", ""},
		{"both flags", access{token: fromFlag, tokenFile: path}, env, local, "", "one of them"},
		{"missing file", access{tokenFile: path + "x"}, env, local, "", "--token-file"},
		{"no token", access{token: "short"}, env, local, "", "5 characters"},
		{"operators: environment", access{admin: true}, map[string]string{envAdminToken: fromEnv, envToken: fromFlag}, local, fromEnv, ""},
		{"operators: directory before environment", access{admin: true, data: data}, map[string]string{envAdminToken: fromEnv}, local, inData, ""},
		{"operators: directory of the server", access{admin: true}, map[string]string{"ACKMESH_DATA": data}, local, inData, ""},
		{"operators: no directory", access{admin: true}, map[string]string{"ACKMESH_DATA": data + "x"}, local, "", ""},
		{"operators: named directory without one", access{admin: true, data: data + "x"}, env, local, "", "admin.token"},
		{"operators: not to other machines unasked", access{admin: true, tls: true}, map[string]string{"ACKMESH_DATA": data}, far, "", ""},
		{"operators: to other machines", access{admin: true, tls: true, data: data}, env, far, inData, ""},
		{"plain text", access{token: fromFlag}, env, far, "", "plain text"},
		{"plain text of a name", access{token: fromFlag}, env, "mesh.example:1", "", "plain text"},
		{"plain text, asked for", access{token: fromFlag, plaintextTokens: true}, env, far, fromFlag, ""},
		{"TLS", access{token: fromFlag, ca: "x"}, env, far, fromFlag, ""},
		{"TLS of the environment", access{token: fromFlag}, map[string]string{envCA: "x"}, far, fromFlag, ""},
		{"localhost", access{token: fromFlag}, env, "localhost:1", fromFlag, ""},
		{"IPv6", access{token: fromFlag}, env, "[::1]:1", fromFlag, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.x.getenv = func(name string) string { return tt.env[name] }
			got, err := tt.x.shown(tt.addr)
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// TestWaitsForItsTurn: a command whose calls are too much for the server's rate
// goes on when it may, and says so at once when there is no time to wait.
func TestWaitsForItsTurn(t *testing.T) {
	imports := func(rate string, times int) (m *mesh, path string) {
		m = startMesh(t, t.TempDir(), "--storage", "memory", "--limits.resets-per-second", rate)
		m.run(t, "subscribe", "--topic", "t", "--client", "c", "--idle-exit", "1ms").want(t, exitOK)
		saved := m.run(t, "offsets", "export")
		saved.want(t, exitOK, "client/c")
		return m, save(t, "saved", strings.Repeat(saved.out, times)) // of 4 partitions
	}
	m, path := imports("20", 12)
	begin := time.Now()
	m.run(t, "offsets", "import", path).want(t, exitOK, "48 positions were set")
	if took := time.Since(begin); took < 400*time.Millisecond { // 40 go at once, 8 more at 20 a second
		t.Errorf("48 positions were set in %v", took)
	}
	m, path = imports("0.01", 1)
	m.run(t, "offsets", "import", path, "--timeout", "30s").want(t, exitFailed, "RESOURCE_EXHAUSTED", "0.01 resets a second")
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("it waited %v for what takes 100 s", took)
	}
}

func TestBadTLSFlags(t *testing.T) {
	cert, _ := certificate(t)
	none := save(t, "none", "none")
	for args, want := range map[string]string{
		"--tls-ca " + none:                               "no PEM certificate",
		"--tls-ca " + none + "x":                         "--tls-ca",
		"--tls-cert " + cert:                             "go together",
		"--tls-cert " + cert + " --tls-key " + none:      "--tls-cert and --tls-key",
		"--token " + auth.NewToken() + " --token-file x": "one of them",
	} {
		for _, command := range []string{"topics list", "publish --topic t", "recommend"} {
			out := call(t, nil, strings.Fields(command+" "+args)...)
			if out.code == exitOK || !strings.Contains(out.err, want) {
				t.Errorf("%s %s: exit code %d, %s", command, args, out.code, out.err)
			}
		}
	}
}

func TestTokenHashErrors(t *testing.T) {
	for _, in := range []string{"", "short\n", strings.Repeat("x", 5000)} {
		call(t, func(a *app) { a.in = strings.NewReader(in) }, "token", "hash").want(t, exitFailed, "no token")
	}
}

// reloading is a server that tells when it is to reload.
type reloading struct {
	runFunc
	reloads chan struct{}
}

// Reload tells of it.
func (r reloading) Reload() error { r.reloads <- struct{}{}; return nil }

// TestHangupReloads: each SIGHUP reloads, and the server goes on.
func TestHangupReloads(t *testing.T) {
	r := reloading{reloads: make(chan struct{})}
	r.runFunc = func(context.Context) error {
		for range 3 {
			if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
				return err
			}
			<-r.reloads
		}
		return nil
	}
	call(t, func(a *app) {
		a.newServer = func(server.Config, *slog.Logger) (runner, error) { return r, nil }
	}, "serve").want(t, exitOK)
}

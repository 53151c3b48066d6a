package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ackmesh/ackmesh/server"
)

// serveWith runs "serve" and returns the settings that the server was built with.
func serveWith(t *testing.T, file string, environ []string, args ...string) (server.Config, output) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "mesh.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	var got server.Config
	out := call(t, func(a *app) {
		a.environ = environ
		a.newServer = func(c server.Config, _ *slog.Logger) (runner, error) {
			got = c
			return runFunc(func(context.Context) error { return nil }), nil
		}
	}, append([]string{"serve"}, args...)...)
	return got, out
}

type runFunc func(context.Context) error

func (f runFunc) Run(ctx context.Context) error { return f(ctx) }

// Reload has nothing to read.
func (runFunc) Reload() error { return nil }

func TestConfigPrecedence(t *testing.T) {
	file := "data: /file\ntopics:\n  partitions: 3\n  refresh: 1m\nlog.level: warn\nack-timeout:\n  default: 3s\n"
	env := []string{"ACKMESH_DATA=/env", "ACKMESH_TOPICS_PARTITIONS=5", "ACKMESH_SERVER=elsewhere:1", "HOME=/root"}
	got, out := serveWith(t, file, env, "--data", "/flag", "--sync=false")
	out.want(t, exitOK)
	want := server.Defaults()
	want.Data, want.Sync = "/flag", false
	want.Topics.Partitions = 5
	want.Topics.Refresh, want.AckTimeout.Default = time.Minute, 3*time.Second
	want.Log.Level = "warn"
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestConfigDefaults(t *testing.T) {
	got, out := serveWith(t, "# nothing\n", nil)
	out.want(t, exitOK)
	if want := server.Defaults(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestConfigKinds(t *testing.T) {
	file := `
insecure: true
retention: {size: 20GiB, age: 0}
delivery:
  backoff: [100ms, 2s]
  jitter: 0.5
window.max-in-flight.default: 7
topics:   # a group with everything commented out
`
	got, out := serveWith(t, file, []string{"ACKMESH_LISTEN=0.0.0.0:7460", "ACKMESH_ADVERTISE=mesh:7460"}, "--delivery.max-attempts", "2", "--topics.auto-create=false")
	out.want(t, exitOK)
	want := server.Defaults()
	want.Insecure, want.Listen, want.Advertise = true, "0.0.0.0:7460", "mesh:7460"
	want.Retention = server.RetentionConfig{Size: 20 * server.GiB}
	want.Delivery.Backoff = []time.Duration{100 * time.Millisecond, 2 * time.Second}
	want.Delivery.Jitter, want.Delivery.MaxAttempts = 0.5, 2
	want.Window.MaxInFlight.Default, want.Topics.AutoCreate = 7, false
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestConfigErrors(t *testing.T) {
	tests := []struct {
		name, file string
		env, args  []string
		want       []string
	}{
		{"unknown in the file", "lisen: x\n", nil, nil, []string{"mesh.yaml:1: lisen is no setting", "did you mean listen?"}},
		{"unknown in a group", "topics:\n  partition: 4\n", nil, nil, []string{"mesh.yaml:2: topics.partition is no setting", "topics.partitions"}},
		{"unknown group", "tsl:\n  cert: x\n", nil, nil, []string{"mesh.yaml:1: tsl is no setting"}},
		{"group as a value", "topics: 4\n", nil, nil, []string{"mesh.yaml:1: topics is a group", "topics.partitions"}},
		{"setting as a group", "listen:\n  host: x\n", nil, nil, []string{"mesh.yaml:1: listen must have one value"}},
		{"setting without a value", "listen:\n", nil, nil, []string{"mesh.yaml:1: listen must have one value"}},
		{"twice", "listen: 127.0.0.1:1\nlisten: 127.0.0.1:2\n", nil, nil, []string{"mesh.yaml:2: listen is set a second time, after line 1"}},
		{"twice in two ways", "topics:\n  partitions: 1\ntopics.partitions: 2\n", nil, nil, []string{"mesh.yaml:3: topics.partitions is set a second time, after line 2"}},
		{"a list of maps", "delivery:\n  backoff: [{a: 1s}]\n", nil, nil, []string{"delivery.backoff must have"}},
		{"no mapping", "- listen\n", nil, nil, []string{"mesh.yaml:1: settings are written as NAME: VALUE"}},
		{"a second document", "listen: 127.0.0.1:1\n---\nauth.tokens-file: tokens.yaml\n", nil, nil, []string{"mesh.yaml: it has more than one document"}},
		{"no YAML", "a: [\n", nil, nil, []string{"mesh.yaml", "line 1"}},
		{"unknown in the environment", "", []string{"ACKMESH_LISTENN=x"}, nil, []string{"environment variable ACKMESH_LISTENN is no setting", "did you mean ACKMESH_LISTEN "}},
		{"no number in the environment", "", []string{"ACKMESH_TOPICS_PARTITIONS=many"}, nil, []string{`environment variable ACKMESH_TOPICS_PARTITIONS: "many" is no whole number`}},
		{"an empty number", "", []string{"ACKMESH_TOPICS_PARTITIONS="}, nil, []string{`"" is no whole number`}},
		{"a huge number", "", nil, []string{"--topics.partitions", "99999999999999999999"}, []string{"flag --topics.partitions: 99999999999999999999 is too large"}},
		{"duration without a unit", "checkpoint:\n  interval: 5\n", nil, nil, []string{`mesh.yaml:2: checkpoint.interval: "5" is no duration`, "30s"}},
		{"no bool", "", nil, []string{"--sync=maybe"}, []string{`flag --sync: "maybe" is neither true nor false`}},
		{"no size", "", nil, []string{"--memory.limit", "1GB"}, []string{`flag --memory.limit: "1GB" is no size`, "GiB"}},
		{"no fraction", "", nil, []string{"--delivery.jitter", "x"}, []string{`flag --delivery.jitter: "x" is no number`}},
		{"no durations", "", nil, []string{"--delivery.backoff", "1s,x"}, []string{`flag --delivery.backoff: "x" is no duration`}},
		{"beyond a limit", "", nil, []string{"--topics.partitions", "2000"}, []string{"topics.partitions: 2000 is out of range: 1 to 1024"}},
		{"exposed", "", nil, []string{"--listen", "0.0.0.0:7460"}, []string{"listen: other machines can reach 0.0.0.0:7460", "insecure=true"}},
		{"without a proxy", "", nil, []string{"--storage", "rocketmq5"}, []string{"rocketmq5.endpoints: it is empty"}},
		{"several", "lisen: x\n", []string{"ACKMESH_X=1"}, []string{"--sync=x"}, []string{"lisen", "ACKMESH_X", "--sync"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, out := serveWith(t, tt.file, tt.env, tt.args...)
			out.want(t, exitUsage, tt.want...)
		})
	}
}

func TestConfigFileMissing(t *testing.T) {
	_, out := serveWith(t, "", []string{"ACKMESH_CONFIG=/does/not/exist.yaml"})
	out.want(t, exitUsage, "settings file", "/does/not/exist.yaml")
}

func TestPrintConfig(t *testing.T) {
	_, out := serveWith(t, "topics:\n  partitions: 8\n", nil, "--print-config", "--instance-id", "17")
	out.want(t, exitOK)
	golden(t, filepath.Join("testdata", "config.yaml"), out.out)
}

// TestPrintedConfigReadsBack prints any settings and reads them as a file.
func TestPrintedConfigReadsBack(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		want := server.Defaults()
		for _, s := range settings(&want) {
			draw(t, s)
		}
		text, err := configYAML(want)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "mesh.yaml")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := fileLayer(path)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		got := server.Defaults()
		if err := l.applyTo(&got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %+v\nwant %+v\n%s", got, want, text)
		}
	})
}

// draw gives a setting any value.
func draw(t *rapid.T, s setting) {
	switch p := s.field.Addr().Interface().(type) {
	case *string:
		*p = rapid.StringMatching(`[ -~äß✓]{0,12}`).Draw(t, s.key)
	case *server.Bytes:
		*p = server.Bytes(rapid.Int64Min(0).Draw(t, s.key))
	case *time.Duration:
		*p = time.Duration(rapid.Int64().Draw(t, s.key))
	case *[]time.Duration:
		for _, n := range rapid.SliceOfN(rapid.Int64(), len(*p), 8).Draw(t, s.key) {
			*p = append(*p, time.Duration(n))
		}
	case *bool:
		*p = rapid.Bool().Draw(t, s.key)
	case *int:
		*p = rapid.Int().Draw(t, s.key)
	case *int64:
		*p = rapid.Int64().Draw(t, s.key)
	case *float64:
		*p = rapid.Float64().Draw(t, s.key)
	case *server.Secret: // printed as asterisks
	default:
		t.Fatalf("%s is of a type that no test knows: %s", s.key, s.field.Type())
	}
}

func TestSecretsAreMaskedInPrint(t *testing.T) {
	secret := server.Secret("hunter2")
	s := setting{"token", reflect.ValueOf(&secret).Elem()}
	if n := s.node(); n.Value != "******" {
		t.Errorf("printed as %q", n.Value)
	}
	if err := s.set("new"); err != nil || secret != "new" {
		t.Errorf("set to %q, %v", string(secret), err)
	}
}

func TestEnvNamesAreDistinct(t *testing.T) {
	seen := make(map[string]string)
	for _, key := range allKeys() {
		name := envName(key)
		if other, ok := seen[name]; ok {
			t.Errorf("%s and %s are both %s", key, other, name)
		}
		seen[name] = key
		if strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") != "" {
			t.Errorf("%s becomes %s", key, name)
		}
	}
}

func TestServeErrors(t *testing.T) {
	broken := errors.New("data directory /x is in use")
	fails := func(build, run error) func(*app) {
		return func(a *app) {
			a.newServer = func(server.Config, *slog.Logger) (runner, error) {
				return runFunc(func(context.Context) error { return run }), build
			}
		}
	}
	call(t, fails(broken, nil), "serve").want(t, exitFailed, "ackmesh: cannot start: data directory /x is in use\n")
	call(t, fails(nil, broken), "serve").want(t, exitFailed, "ackmesh: data directory /x is in use\n")
	call(t, fails(nil, nil), "serve").want(t, exitOK)
}

func TestLoggerFollowsSettings(t *testing.T) {
	var out strings.Builder
	newLogger(server.LogConfig{Level: "warn", Format: "json"}, &out).Info("no")
	newLogger(server.LogConfig{Level: "warn", Format: "json"}, &out).Warn("yes")
	newLogger(server.LogConfig{Level: "debug", Format: "text"}, &out).Debug("also")
	got := out.String()
	if strings.Contains(got, "no") || !strings.Contains(got, `"msg":"yes"`) || !strings.Contains(got, "msg=also") {
		t.Errorf("logged:\n%s", got)
	}
}

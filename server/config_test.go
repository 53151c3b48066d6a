package server

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDefaultsAreValid(t *testing.T) {
	if err := Defaults().Validate(); err != nil {
		t.Fatal(err)
	}
}

func TestDefaultsShareNothing(t *testing.T) {
	a, b := Defaults(), Defaults()
	a.Delivery.Backoff[0] = time.Hour
	if b.Delivery.Backoff[0] != time.Second {
		t.Fatal("changing one Config changed another")
	}
}

// secured sets what listeners need that other machines reach.
func secured(c *Config) { c.TLS.Cert, c.TLS.Key, c.Auth.TokensFile = "cert", "key", "tokens" }

func TestValidate(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Config)
		want   []string // parts of the message; none: no error
	}{
		{"all interfaces", func(c *Config) { c.Listen = ":7460"; c.Advertise = "mesh:7460" }, []string{"listen: ", "loopback", "insecure=true"}},
		{"all interfaces, insecure", func(c *Config) { c.Listen, c.Insecure, c.Advertise = ":7460", true, "mesh:7460" }, nil},
		{"all interfaces, TLS without tokens", func(c *Config) { c.Listen, c.Advertise = ":7460", "mesh:7460"; secured(c); c.Auth.TokensFile = "" }, []string{"listen: ", "without tokens", "auth.tokens-file"}},
		{"all interfaces, tokens without TLS", func(c *Config) { c.Listen, c.Advertise, c.Auth.TokensFile = ":7460", "mesh:7460", "tokens" }, []string{"listen: ", "without TLS", "tls.cert"}},
		{"all interfaces, TLS and tokens", func(c *Config) {
			c.Listen, c.HTTPListen, c.AdminListen, c.Advertise = ":7460", ":7461", ":7462", "mesh:7460"
			secured(c)
		}, nil},
		{"HTTP beyond loopback, TLS of its own", func(c *Config) {
			c.HTTPListen, c.TLS.HTTP.Cert, c.TLS.HTTP.Key, c.Auth.TokensFile = ":7461", "c", "k", "tokens"
		}, nil},
		{"admin beyond loopback, TLS", func(c *Config) { c.AdminListen, c.TLS.Cert, c.TLS.Key = ":7462", "c", "k" }, nil},
		{"admin beyond loopback, TLS of another", func(c *Config) { c.AdminListen, c.TLS.HTTP.Cert, c.TLS.HTTP.Key = ":7462", "c", "k" }, []string{"admin-listen: ", "without TLS"}},
		{"certificate without key", func(c *Config) { c.TLS.Cert = "c" }, []string{"tls.cert: ", "tls.key"}},
		{"key without certificate", func(c *Config) { c.TLS.Admin.Key = "k" }, []string{"tls.admin.cert: ", "tls.admin.key"}},
		{"clients' roots without certificate", func(c *Config) { c.TLS.ClientCA = "ca" }, []string{"tls.client-ca: ", "tls.cert"}},
		{"admin's roots, the certificate of all", func(c *Config) { c.TLS.Cert, c.TLS.Key, c.TLS.Admin.ClientCA = "c", "k", "ca" }, nil},
		{"admin's roots without certificate", func(c *Config) { c.TLS.Admin.ClientCA = "ca" }, []string{"tls.admin.client-ca: "}},
		{"no roots at all", func(c *Config) { secured(c); c.TLS.ClientCA = "none" }, []string{"tls.client-ca: leave it empty"}},
		{"short admin token", func(c *Config) { c.Auth.AdminToken = "secret" }, []string{"auth.admin-token: ", "6 characters"}},
		{"negative rate", func(c *Config) { c.Limits.CallsPerSecond = -1 }, []string{"limits.calls-per-second: -1"}},
		{"rate that is none", func(c *Config) { c.Limits.ResetsPerSecond = math.NaN() }, []string{"limits.resets-per-second: NaN"}},
		{"a host's address", func(c *Config) { c.HTTPListen = "192.0.2.1:80" }, []string{"http-listen: ", "192.0.2.1:80"}},
		{"a host's name", func(c *Config) { c.AdminListen = "mesh.example:80" }, []string{"admin-listen: "}},
		{"localhost", func(c *Config) { c.Listen = "localhost:0" }, nil},
		{"IPv6 loopback", func(c *Config) { c.Listen = "[::1]:7460" }, nil},
		{"mapped loopback", func(c *Config) { c.Listen = "[::ffff:127.0.0.1]:7460" }, nil},
		{"no port", func(c *Config) { c.Listen = "127.0.0.1" }, []string{"listen: ", "host:port"}},
		{"port too high", func(c *Config) { c.Listen = "127.0.0.1:65536" }, []string{"listen: ", "0 to 65535"}},
		{"named port", func(c *Config) { c.Listen = "127.0.0.1:http" }, []string{"listen: ", "0 to 65535"}},
		{"nothing to advertise", func(c *Config) { c.Listen, c.Insecure = "0.0.0.0:7460", true }, []string{"advertise: ", "0.0.0.0:7460"}},
		{"wildcard advertised", func(c *Config) { c.Advertise = "[::]:7460" }, []string{"advertise: ", "no particular host"}},
		{"advertised without port", func(c *Config) { c.Advertise = "mesh" }, []string{"advertise: ", "host:port"}},
		{"storage unknown", func(c *Config) { c.Storage = "disk" }, []string{"storage: ", `"disk"`, "embedded, memory, kafka"}},
		{"rocketmq5 without proxies", func(c *Config) { c.Storage = StorageRocketMQ5 }, []string{"rocketmq5.endpoints: it is empty"}},
		{"rocketmq5", func(c *Config) { c.Storage, c.RocketMQ5.Endpoints = StorageRocketMQ5, "p1:8081,p2:8081" }, nil},
		{"rocketmq5 invisible too short", func(c *Config) {
			c.Storage, c.RocketMQ5.Endpoints, c.RocketMQ5.Invisible = StorageRocketMQ5, "p:8081", time.Second
		}, []string{"rocketmq5.invisible: 1s", "10s to 12h"}},
		{"rocketmq5 key without a secret", func(c *Config) {
			c.Storage, c.RocketMQ5.Endpoints, c.RocketMQ5.AccessKey = StorageRocketMQ5, "p:8081", "me"
		}, []string{"rocketmq5.access-key: ", "rocketmq5.secret-file"}},
		{"rocketmq5 secret without a key", func(c *Config) {
			c.Storage, c.RocketMQ5.Endpoints, c.RocketMQ5.SecretFile = StorageRocketMQ5, "p:8081", "/secret"
		}, []string{"rocketmq5.access-key: "}},
		{"kafka without brokers", func(c *Config) { c.Storage = StorageKafka }, []string{"kafka.brokers: it is empty"}},
		{"kafka", func(c *Config) { c.Storage, c.Kafka.Brokers = StorageKafka, "b1:9092,b2:9092" }, nil},
		{"kafka login without a password", func(c *Config) {
			c.Storage, c.Kafka.Brokers, c.Kafka.SASL.Mechanism, c.Kafka.SASL.User = StorageKafka, "b:9092", "PLAIN", "me"
		}, []string{"kafka.sasl.password"}},
		{"no data directory", func(c *Config) { c.Data = "" }, []string{"data: "}},
		{"instance id with NUL", func(c *Config) { c.InstanceID = "a\x00" }, []string{"instance-id: "}},
		{"instance id too long", func(c *Config) { c.InstanceID = strings.Repeat("a", 256) }, []string{"instance-id: ", "255"}},
		{"instance id with separators", func(c *Config) { c.InstanceID = "a#b/c:d" }, nil},
		{"no partitions", func(c *Config) { c.Topics.Partitions = 0 }, []string{"topics.partitions: 0", "1 to 1024"}},
		{"small log", func(c *Config) { c.Retention.Size = KiB }, []string{"retention.size: 1KiB", "1MiB or more"}},
		{"negative age", func(c *Config) { c.Retention.Age = -time.Second }, []string{"retention.age: -1s"}},
		{"kept for ever", func(c *Config) { c.Retention.Age = 0 }, nil},
		{"no checkpoints", func(c *Config) { c.Checkpoint.Interval = -1 }, nil},
		{"default above max", func(c *Config) { c.AckTimeout.Default = 13 * time.Hour }, []string{"ack-timeout.default: 13h", "12h"}},
		{"min above max", func(c *Config) { c.AckTimeout.Min = 13 * time.Hour }, []string{"ack-timeout.min: 13h0m0s is more than ack-timeout.max"}},
		{"no waits", func(c *Config) { c.Delivery.Backoff = nil }, []string{"delivery.backoff: ", "1 to 100"}},
		{"negative wait", func(c *Config) { c.Delivery.Backoff = []time.Duration{-1} }, []string{"delivery.backoff: -1ns"}},
		{"jitter", func(c *Config) { c.Delivery.Jitter = 1.5 }, []string{"delivery.jitter: 1.5", "0 to 1"}},
		{"window above its max", func(c *Config) { c.Window.MaxInFlight.Default = 200_000 }, []string{"window.max-in-flight.default: 200000", "1 to 100000"}},
		{"bytes above their max", func(c *Config) { c.Window.MaxInFlightBytes.Default = 2 * GiB }, []string{"window.max-in-flight-bytes.default: 2GiB", "1KiB to 1GiB"}},
		{"memory", func(c *Config) { c.Memory.Limit = MiB }, []string{"memory.limit: 1MiB", "16MiB or more"}},
		{"margin", func(c *Config) { c.Disk.Margin = -1 }, []string{"disk.margin: -1"}},
		{"level", func(c *Config) { c.Log.Level = "loud" }, []string{"log.level: ", "debug, info, warn, error"}},
		{"format", func(c *Config) { c.Log.Format = "xml" }, []string{"log.format: ", "text, json"}},
		{"several", func(c *Config) { c.Data = ""; c.Log.Level = "" }, []string{"data: ", "\nlog.level: "}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := Defaults()
			tt.change(&c)
			checkMessage(t, c.Validate(), tt.want)
		})
	}
}

// checkMessage wants err to have all parts, or to be nil where there are none.
func checkMessage(t *testing.T, err error, parts []string) {
	t.Helper()
	if len(parts) == 0 {
		if err != nil {
			t.Fatalf("unexpected error: %v", err)
		}
		return
	}
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Fatalf("error %v\nlacks %q", err, part)
		}
	}
}

func TestBytesText(t *testing.T) {
	for text, want := range map[string]Bytes{
		"0": 0, "512": 512, "512B": 512, "16MiB": 16 * MiB, "1 GiB": GiB, " 2TiB ": 2 * TiB, "1536KiB": 1536 * KiB,
	} {
		var b Bytes
		if err := b.UnmarshalText([]byte(text)); err != nil || b != want {
			t.Errorf("%q is %d, %v; want %d", text, b, err, want)
		}
	}
	for _, text := range []string{"", "B", "-1", "1.5GiB", "16MB", "0x10", "9223372036854775807KiB", "9223372036854775808"} {
		var b Bytes
		if err := b.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read as %d", text, b)
		}
	}
}

func TestBytesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Bytes(rapid.Int64Min(0).Draw(t, "bytes"))
		var got Bytes
		if err := got.UnmarshalText([]byte(want.String())); err != nil || got != want {
			t.Fatalf("%d became %q became %d, %v", want, want, got, err)
		}
	})
}

func TestSecretIsMasked(t *testing.T) {
	type holder struct{ S Secret }
	h := holder{S: "hunter2"}
	j, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	for _, printed := range []string{
		string(j), fmt.Sprint(h), fmt.Sprintf("%v %+v %#v %s %q", h, h, h, h.S, h.S), fmt.Sprint(&h),
	} {
		if strings.Contains(printed, "hunter2") || !strings.Contains(printed, masked) {
			t.Errorf("printed as %s", printed)
		}
	}
	if s := Secret("").String(); s != "" {
		t.Errorf("an unset secret prints as %q", s)
	}
}

func TestMemoryLimit(t *testing.T) {
	c := Defaults()
	if got := c.MemoryLimit(); got < 16*MiB {
		t.Errorf("worked out as %v", got)
	}
	c.Memory.Limit = 123 * MiB
	if got := c.MemoryLimit(); got != 123*MiB {
		t.Errorf("set to 123MiB, is %v", got)
	}
}

func TestParseMemTotal(t *testing.T) {
	if n, ok := parseMemTotal([]byte("A: 1 kB\nMemTotal:       24612345 kB\nB: 2 kB\n")); !ok || n != 24612345*KiB {
		t.Errorf("read %d, %v", n, ok)
	}
	for _, text := range []string{"", "MemTotal: x kB", "MemTotal: 0 kB", "MemFree: 5 kB"} {
		if n, ok := parseMemTotal([]byte(text)); ok {
			t.Errorf("%q was read as %d", text, n)
		}
	}
}

package server

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/test/certs"
)

// onKafka is a configuration that Validate takes, changed.
func onKafka(change func(*KafkaConfig)) Config {
	c := Defaults()
	c.Storage, c.Kafka.Brokers = StorageKafka, "b1:9092, b2:9092"
	change(&c.Kafka)
	return c
}

func TestKafkaValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*KafkaConfig)
		want   string // in the error; empty: none
	}{
		"plain":               {func(*KafkaConfig) {}, ""},
		"no client id":        {func(k *KafkaConfig) { k.ClientID = "" }, "kafka.client-id: "},
		"format":              {func(k *KafkaConfig) { k.Format = "avro" }, `kafka.format: "avro" is unknown`},
		"compression":         {func(k *KafkaConfig) { k.Compression = "brotli" }, "choose one of none, gzip, snappy, lz4, zstd"},
		"zstd":                {func(k *KafkaConfig) { k.Compression = "zstd" }, ""},
		"replicas":            {func(k *KafkaConfig) { k.Replicas = -1 }, "kafka.replicas: "},
		"small record":        {func(k *KafkaConfig) { k.MaxRecord = 10 }, "kafka.max-record: 10B is out of range: 1KiB to 64MiB"},
		"large fetch":         {func(k *KafkaConfig) { k.FetchBytes = GiB }, "kafka.fetch-bytes: "},
		"small queue":         {func(k *KafkaConfig) { k.QueueBytes = 1 }, "kafka.queue-bytes: "},
		"no timeout":          {func(k *KafkaConfig) { k.RequestTimeout = 0 }, "kafka.request-timeout: "},
		"mechanism":           {func(k *KafkaConfig) { k.SASL.Mechanism = "GSSAPI" }, "kafka.sasl.mechanism: "},
		"login":               {func(k *KafkaConfig) { k.SASL = KafkaSASL{Mechanism: "PLAIN", User: "u", Password: "p"} }, ""},
		"without password":    {func(k *KafkaConfig) { k.SASL = KafkaSASL{Mechanism: "SCRAM-SHA-512", User: "u"} }, "kafka.sasl.password"},
		"without mechanism":   {func(k *KafkaConfig) { k.SASL.User = "u" }, "nobody is logged in"},
		"without token":       {func(k *KafkaConfig) { k.SASL.Mechanism = "OAUTHBEARER" }, "kafka.sasl.token-file"},
		"ca without tls":      {func(k *KafkaConfig) { k.CA = "f" }, "kafka.ca: "},
		"name without tls":    {func(k *KafkaConfig) { k.ServerName = "n" }, "kafka.server-name: "},
		"cert without key":    {func(k *KafkaConfig) { k.TLS, k.Cert = true, "f" }, "kafka.cert: it goes with kafka.key"},
		"everything with tls": {func(k *KafkaConfig) { k.TLS, k.CA, k.Cert, k.Key, k.ServerName = true, "a", "b", "c", "d" }, ""},
	} {
		err := onKafka(c.change).Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if c := Defaults(); c.Kafka.RequestTimeout != 10*time.Second {
		t.Errorf("the default timeout is %v", c.Kafka.RequestTimeout)
	}
}

// TestKafkaTokenFile: the file is read for each login, and one that cannot be
// used is told at the start.
func TestKafkaTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	s := KafkaSASL{Mechanism: "OAUTHBEARER", TokenFile: path}
	if _, err := s.login(); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "kafka.sasl.token-file") {
		t.Errorf("without a file: %v", err)
	}
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(" \n")
	if _, err := s.login(); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("with an empty file: %v", err)
	}
	write("first\n")
	login, err := s.login()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"first", "second"} {
		write(want + "\n")
		if got, _, err := login.Token(t.Context()); err != nil || got != want {
			t.Errorf("the token is %q, %v; want %q", got, err, want)
		}
	}
}

// TestKafkaTLS: the certificate that is shown is the one that lies there when a
// connection is made.
func TestKafkaTLS(t *testing.T) {
	dir := t.TempDir()
	k := KafkaConfig{}
	if c, err := k.tls(); c != nil || err != nil {
		t.Errorf("without kafka.tls: %v, %v", c, err)
	}
	k = KafkaConfig{TLS: true, ServerName: "broker", CA: filepath.Join(dir, "none")}
	if _, err := k.tls(); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "kafka.ca") {
		t.Errorf("without the authority's file: %v", err)
	}
	k.CA, k.Cert, k.Key = "", filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	if _, err := k.tls(); err == nil || !strings.Contains(err.Error(), "kafka.cert") {
		t.Errorf("without the certificate: %v", err)
	}
	put := func(name string) {
		cert, _ := certs.New(t, name)
		certs.Save(t, cert, k.Cert, k.Key)
	}
	shown := func(c *tls.Config) string {
		cert, err := c.GetClientCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return cert.Leaf.Subject.CommonName
	}
	put("one")
	c, err := k.tls()
	if err != nil || c.ServerName != "broker" || shown(c) != "one" {
		t.Fatalf("%+v, %v", c, err)
	}
	put("two")
	if got := shown(c); got != "two" {
		t.Errorf("shown is %q after the files were replaced", got)
	}
}

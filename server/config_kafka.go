package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/kafka"
)

// KafkaConfig says how to reach Kafka, and how records are written and read
// there.
type KafkaConfig struct {
	// Brokers are some brokers, host:port, with commas between them; the
	// others are learnt. Needed with storage=kafka.
	Brokers string `key:"brokers"`
	// ClientID is how the brokers know the instance in their logs and quotas.
	// Default ackmesh.
	ClientID string `key:"client-id"`
	// Replicas of topics that are made. Default 0: the brokers' own default.
	Replicas int `key:"replicas"`
	// Format is how records are written: frame (default) or cloudevents, the
	// binary mode of the CloudEvents Kafka binding. All forms are read.
	Format string `key:"format"`
	// Compression of what is written: none (default), gzip, snappy, lz4 or
	// zstd. All are read.
	Compression string `key:"compression"`
	// ReadCommitted leaves out records of transactions that are open or were
	// aborted. Default false.
	ReadCommitted bool `key:"read-committed"`
	// MaxRecord is the largest event written, as a frame with its key, and the
	// largest batch: 1 KiB to 64 MiB. The brokers' message.max.bytes must be 4
	// KiB more. Default 0: 1,000,000 bytes, which fits theirs.
	MaxRecord Bytes `key:"max-record"`
	// FetchBytes is how much one read of a partition asks for that is behind its
	// end, while less than 64 MiB are read ahead in all: 4 KiB to 64 MiB. Else it
	// is 1 MiB at most. Default 0: 4 MiB.
	FetchBytes Bytes `key:"fetch-bytes"`
	// QueueBytes bounds the events that are published and not yet confirmed by
	// the brokers; beyond it publishing waits. Default 0: 64 MiB.
	QueueBytes Bytes `key:"queue-bytes"`
	// RequestTimeout is how long a broker may take for an answer: 100 ms to 5
	// min. Default 10 s.
	RequestTimeout time.Duration `key:"request-timeout"`
	// SASL is how to log in.
	SASL KafkaSASL `key:"sasl"`
	// TLS is whether connections are TLS. Default false.
	TLS bool `key:"tls"`
	// CA is a PEM file of authorities that are trusted beside the machine's.
	// Default empty.
	CA string `key:"ca"`
	// Cert and Key are PEM files of the certificate that is shown to brokers
	// that want one, read for each connection. Default empty: none is shown.
	Cert string `key:"cert"`
	Key  string `key:"key"`
	// ServerName is the name that the brokers' certificates must have. Default
	// empty: that of the address.
	ServerName string `key:"server-name"`
}

// KafkaSASL is how to log in to Kafka.
type KafkaSASL struct {
	// Mechanism is PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER. Default
	// empty: no login.
	Mechanism string `key:"mechanism"`
	// User and Password log in with PLAIN and SCRAM.
	User     string `key:"user"`
	Password Secret `key:"password"`
	// TokenFile holds the bearer token of OAUTHBEARER. It is read for each
	// login, so it may be replaced at any time.
	TokenFile string `key:"token-file"`
}

func defaultKafka() KafkaConfig {
	return KafkaConfig{ClientID: "ackmesh", Format: string(kafka.FormatFrame), Compression: string(kafka.CompressionNone), RequestTimeout: 10 * time.Second}
}

func (c Config) checkKafka(p *problems) {
	k := c.Kafka
	if strings.Trim(k.Brokers, ", ") == "" {
		p.add("kafka.brokers", "it is empty: give host:port of a broker")
	}
	if k.ClientID == "" {
		p.add("kafka.client-id", "it is empty: give a name")
	}
	oneOf(p, "kafka.format", k.Format, string(kafka.FormatFrame), string(kafka.FormatCloudEvents))
	oneOf(p, "kafka.compression", k.Compression, string(kafka.CompressionNone), string(kafka.CompressionGzip),
		string(kafka.CompressionSnappy), string(kafka.CompressionLZ4), string(kafka.CompressionZSTD))
	if k.Replicas < 0 {
		p.add("kafka.replicas", "%d is negative: give a number, or 0 for the brokers' own", k.Replicas)
	}
	orZero(p, "kafka.max-record", k.MaxRecord, KiB, 64*MiB)
	orZero(p, "kafka.fetch-bytes", k.FetchBytes, 4*KiB, 64*MiB)
	orZero(p, "kafka.queue-bytes", k.QueueBytes, MiB, TiB)
	within(p, "kafka.request-timeout", k.RequestTimeout, 100*time.Millisecond, 5*time.Minute)
	k.SASL.check(p)
	k.checkTLS(p)
}

// orZero checks that v is from low to high, or 0, which stands for the default.
func orZero(p *problems, key string, v, low, high Bytes) {
	if v != 0 && (v < low || v > high) {
		p.add(key, "%v is out of range: %v to %v, or 0 for the default", v, low, high)
	}
}

func (s KafkaSASL) check(p *problems) {
	oneOf(p, "kafka.sasl.mechanism", s.Mechanism, string(kafka.MechanismNone), string(kafka.MechanismPlain),
		string(kafka.MechanismSCRAM256), string(kafka.MechanismSCRAM512), string(kafka.MechanismOAuth))
	switch {
	case s.Mechanism == string(kafka.MechanismOAuth) && s.TokenFile == "":
		p.add("kafka.sasl", "%s needs kafka.sasl.token-file", s.Mechanism)
	case s.Mechanism != "" && s.Mechanism != string(kafka.MechanismOAuth) && (s.User == "" || s.Password == ""):
		p.add("kafka.sasl", "%s needs kafka.sasl.user and kafka.sasl.password", s.Mechanism)
	case s.Mechanism == "" && (s.User != "" || s.Password != "" || s.TokenFile != ""):
		p.add("kafka.sasl.mechanism", "it is empty, so nobody is logged in: choose one")
	}
}

func (k KafkaConfig) checkTLS(p *problems) {
	for _, f := range []struct{ key, value string }{
		{"kafka.ca", k.CA}, {"kafka.cert", k.Cert}, {"kafka.key", k.Key}, {"kafka.server-name", k.ServerName},
	} {
		if f.value != "" && !k.TLS {
			p.add(f.key, "it is given without kafka.tls=true")
		}
	}
	if (k.Cert == "") != (k.Key == "") {
		p.add("kafka.cert", "it goes with kafka.key: give both or neither")
	}
}

// openKafka connects to Kafka; the pull offsets are kept beside the ack offsets.
func (s *Server) openKafka(ctx context.Context) (storage.Backend, error) {
	k := s.cfg.Kafka
	o := kafka.Options{
		Brokers: addresses(k.Brokers), Dir: filepath.Join(s.cfg.Data, logDir), ClientID: k.ClientID,
		AutoCreate: s.cfg.Topics.AutoCreate, Partitions: s.cfg.Topics.Partitions, Replicas: k.Replicas,
		Format: kafka.Format(k.Format), Compression: kafka.Compression(k.Compression),
		MaxRecordBytes: int(k.MaxRecord), QueueBytes: int64(k.QueueBytes),
		ReadCommitted: k.ReadCommitted, FetchBytes: int(k.FetchBytes), RequestTimeout: k.RequestTimeout,
		CheckpointInterval: orNever(s.cfg.Checkpoint.Interval), Logger: s.log, Observe: s.meters.ofBroker(),
	}
	var err error
	if o.SASL, err = k.SASL.login(); err != nil {
		return nil, err
	}
	if o.TLS, err = k.tls(); err != nil {
		return nil, err
	}
	b, err := kafka.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// login is how the log is to log in. A token file that cannot be used now is an
// error now.
func (s KafkaSASL) login() (kafka.SASL, error) {
	out := kafka.SASL{Mechanism: kafka.Mechanism(s.Mechanism), User: s.User, Password: string(s.Password)}
	if s.Mechanism != string(kafka.MechanismOAuth) {
		return out, nil
	}
	out.Token = func(context.Context) (string, map[string]string, error) {
		token, err := readToken(s.TokenFile)
		return token, nil, err
	}
	_, err := readToken(s.TokenFile)
	return out, err
}

func readToken(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("kafka.sasl.token-file: %w", err)
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return "", fmt.Errorf("kafka.sasl.token-file: %s is empty: write the bearer token into it", path)
	}
	return string(raw), nil
}

// tls is how connections are secured; nil: not at all.
func (k KafkaConfig) tls() (*tls.Config, error) {
	if !k.TLS {
		return nil, nil
	}
	c, err := brokerTLS("kafka.ca", k.CA)
	if err != nil {
		return nil, err
	}
	c.ServerName = k.ServerName
	if k.Cert == "" {
		return c, nil
	}
	show := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		cert, err := tls.LoadX509KeyPair(k.Cert, k.Key)
		if err != nil {
			return nil, fmt.Errorf("kafka.cert and kafka.key: %w", err)
		}
		return &cert, nil
	}
	c.GetClientCertificate = show
	_, err = show(nil)
	return c, err
}

package kafka

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/IBM/sarama"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/observe"
)

// Format is the form in which records are written. Every form is read,
// whatever this says.
type Format string

// The forms.
const (
	// FormatFrame writes the binary EventMesh frame as the value. It keeps
	// everything, costs no conversion, and Apache EventMesh reads it.
	FormatFrame Format = "frame"
	// FormatCloudEvents writes the binary mode of the CloudEvents Kafka
	// binding 1.0.2: data is the value, attributes are headers with ce_, so
	// that any consumer of CloudEvents reads it. A frame that this form would
	// change (not of type EVENT, with flags or a sequence number, with an
	// attribute without a name, with data that would be read as something
	// else) is written as a frame all the same. The specversion 1.0 is not an
	// attribute of what is read back.
	FormatCloudEvents Format = "cloudevents"
)

// Compression of what is written.
type Compression string

// The compressions. Every one is read, whatever is set.
const (
	CompressionNone   Compression = "none"
	CompressionGzip   Compression = "gzip"
	CompressionSnappy Compression = "snappy"
	CompressionLZ4    Compression = "lz4"
	CompressionZSTD   Compression = "zstd"
)

var codecs = map[Compression]sarama.CompressionCodec{
	CompressionNone: sarama.CompressionNone, CompressionGzip: sarama.CompressionGZIP, CompressionSnappy: sarama.CompressionSnappy,
	CompressionLZ4: sarama.CompressionLZ4, CompressionZSTD: sarama.CompressionZSTD,
}

// Mechanism is a way to log in.
type Mechanism string

// The mechanisms. The password ones belong on TLS.
const (
	MechanismNone     Mechanism = ""
	MechanismPlain    Mechanism = "PLAIN"
	MechanismSCRAM256 Mechanism = "SCRAM-SHA-256"
	MechanismSCRAM512 Mechanism = "SCRAM-SHA-512"
	MechanismOAuth    Mechanism = "OAUTHBEARER"
)

// SASL is how to log in.
type SASL struct {
	// Mechanism; empty: no login.
	Mechanism Mechanism
	// User and Password of PLAIN and SCRAM.
	User, Password string
	// Token gives a bearer token for OAUTHBEARER, with extensions or without.
	// It is called for every connection and whenever the broker wants a new
	// login, from several goroutines; ctx ends with the connection.
	Token func(ctx context.Context) (token string, extensions map[string]string, err error)
}

// Options of a log. Brokers and Dir are needed; the zero value of everything
// else is ready for production.
type Options struct {
	// Brokers are addresses, host:port, of some brokers; the others are
	// learnt.
	Brokers []string
	// Dir is where the pull offsets are kept: a directory of its own, which
	// is made where it is missing and locked while the log is open.
	Dir string
	// ClientID is how the brokers know us in their logs and quotas. Default
	// "ackmesh".
	ClientID string
	// SASL is how to log in. Default: not at all.
	SASL SASL
	// TLS, where not nil, is used for every connection.
	TLS *tls.Config

	// AutoCreate makes topics on first use. Default: unknown topics are an
	// error that says what to create. The broker's own auto.create.topics
	// is never triggered.
	AutoCreate bool
	// Partitions of a topic that is made without a number: 1 to 1,024.
	// Default: the broker's num.partitions.
	Partitions int
	// Replicas of a topic that is made. Default: the broker's
	// default.replication.factor.
	Replicas int

	// Format is the form in which records are written. Default FormatFrame.
	Format Format
	// Compression of what is written. Default CompressionNone.
	Compression Compression
	// MaxRecordBytes bounds an event, as a frame with its key, and a batch.
	// message.max.bytes of the brokers, and max.message.bytes of topics, must
	// be 4 KiB more at least. Default 1,000,000, which fits their default.
	MaxRecordBytes int
	// QueueBytes bounds what is appended and not yet answered; beyond it
	// Append waits. Default 64 MiB.
	QueueBytes int64

	// ReadCommitted leaves out records of transactions that are open or were
	// aborted. Default: everything is read.
	ReadCommitted bool
	// FetchBytes is how much one fetch at a pull offset asks for, where more
	// records are known to be there and less than 64 MiB are fetched ahead in
	// all partitions together; else it is 1 MiB at most. Default 4 MiB.
	FetchBytes int

	// RequestTimeout is how long a broker may take for one answer, beside
	// what it is asked to wait. Default 10 s.
	RequestTimeout time.Duration
	// CheckpointInterval is how often changed pull offsets are saved. Default
	// 5 s; negative: only by Checkpoint and Close.
	CheckpointInterval time.Duration

	// Logger takes warnings. Default slog.Default().
	Logger *slog.Logger
	// Observe takes figures.
	Observe observe.Broker

	scram     func() sarama.SCRAMClient
	lookAgain time.Duration // how old the number of partitions may be for Append
}

const (
	maxPartitions     = 1024
	defaultMaxRecord  = 1_000_000
	defaultQueueBytes = 64 << 20
	defaultFetchBytes = 4 << 20
	defaultTimeout    = 10 * time.Second
)

func or[T ~int | ~int64 | ~string](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// withDefaults fills in what is absent.
func (o Options) withDefaults() Options {
	o.ClientID = or(o.ClientID, "ackmesh")
	o.Format = or(o.Format, FormatFrame)
	o.Compression = or(o.Compression, CompressionNone)
	o.MaxRecordBytes = or(o.MaxRecordBytes, defaultMaxRecord)
	o.QueueBytes = or(o.QueueBytes, defaultQueueBytes)
	o.FetchBytes = or(o.FetchBytes, defaultFetchBytes)
	o.RequestTimeout = or(o.RequestTimeout, defaultTimeout)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Observe = o.Observe.WithDefaults()
	o.scram = o.SASL.scramSource()
	o.lookAgain = or(o.lookAgain, 10*time.Second)
	return o
}

func (o Options) validate() error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("kafka: "+format+": %w", append(args, storage.ErrInvalid)...)
	}
	switch {
	case len(o.Brokers) == 0:
		return invalid("no brokers: give some as host:port")
	case o.Dir == "":
		return invalid("no directory for pull offsets")
	case o.Partitions < 0 || o.Partitions > maxPartitions:
		return invalid("Partitions is %d, give 1 to %d, or 0 for the broker's default", o.Partitions, maxPartitions)
	case o.Replicas < 0 || o.Replicas > 32767:
		return invalid("Replicas is %d, give 1 or more, or 0 for the broker's default", o.Replicas)
	case o.Format != FormatFrame && o.Format != FormatCloudEvents:
		return invalid("Format is %q, give %s or %s", o.Format, FormatFrame, FormatCloudEvents)
	case o.MaxRecordBytes < 1024 || o.MaxRecordBytes > 64<<20:
		return invalid("MaxRecordBytes is %d, give 1024 to %d", o.MaxRecordBytes, 64<<20)
	case o.QueueBytes < 1:
		return invalid("QueueBytes is %d, give 1 or more", o.QueueBytes)
	case o.FetchBytes < 4096 || o.FetchBytes > 64<<20:
		return invalid("FetchBytes is %d, give 4096 to %d", o.FetchBytes, 64<<20)
	case o.RequestTimeout < 0:
		return invalid("RequestTimeout is %v, give more than 0", o.RequestTimeout)
	}
	if _, ok := codecs[o.Compression]; !ok {
		return invalid("Compression is %q, give none, gzip, snappy, lz4 or zstd", o.Compression)
	}
	return o.SASL.validate()
}

func (s SASL) validate() error {
	switch s.Mechanism {
	case MechanismNone:
		return nil
	case MechanismPlain, MechanismSCRAM256, MechanismSCRAM512:
		if s.User == "" || s.Password == "" {
			return fmt.Errorf("kafka: SASL %s needs a user and a password: %w", s.Mechanism, storage.ErrInvalid)
		}
		return nil
	case MechanismOAuth:
		if s.Token == nil {
			return fmt.Errorf("kafka: SASL %s needs a source of tokens: %w", s.Mechanism, storage.ErrInvalid)
		}
		return nil
	}
	return fmt.Errorf("kafka: SASL mechanism %q, give %s, %s, %s or %s: %w", s.Mechanism,
		MechanismPlain, MechanismSCRAM256, MechanismSCRAM512, MechanismOAuth, storage.ErrInvalid)
}

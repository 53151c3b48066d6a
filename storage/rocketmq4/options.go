package rocketmq4

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// Options of a Log. NameServers and Dir are needed; the rest has defaults.
type Options struct {
	// NameServers are addresses as host:port, one at least. Brokers are learnt.
	NameServers []string
	// Dir is where pull offsets and identities of topics are kept. It is made if
	// missing; one log at a time may use it.
	Dir string

	// Credentials are for brokers with access control lists; nil: none.
	Credentials *remoting.Credentials
	// TLS secures the connections; nil: plain TCP.
	TLS *tls.Config

	// AutoCreate makes topics on first use. Default: they must be there.
	AutoCreate bool
	// Partitions is how many queues a topic gets that is made without a number
	// of its own, over all brokers together: 1 to 1,024. Default 4.
	Partitions int
	// Cluster is where topics are made. Empty: at all brokers.
	Cluster string

	// MaxRecordBytes bounds an event, as a frame with its key. maxMessageSize
	// of the brokers must be 4 KiB more at least. Default 4,000,000, which fits
	// their default.
	MaxRecordBytes int
	// BatchBytes bounds what is sent at once. Default 256 KiB.
	BatchBytes int
	// QueueBytes bounds what is appended and not yet answered; beyond it
	// Append waits. Default 64 MiB.
	QueueBytes int64

	// RequestTimeout is how long a broker may take for one answer, beside
	// what it is asked to wait. Default 10 s.
	RequestTimeout time.Duration
	// CheckpointInterval is how often changed pull offsets are saved. Default
	// 5 s; negative: only by Checkpoint and Close.
	CheckpointInterval time.Duration

	// Logger takes warnings. Default slog.Default().
	Logger *slog.Logger
	// Observe takes figures.
	Observe Observe

	dial        func(ctx context.Context, network, addr string) (net.Conn, error) // nil: TCP
	lookAgain   time.Duration                                                     // how old the number of queues may be for Append
	unknownWait time.Duration                                                     // how long a broker is asked again that tells a maximum of 0 that cannot be
}

// Observe is where figures go. Nil funcs are left out. They are called from
// the log's goroutines and must not block.
type Observe struct {
	// Foreign counts messages that were no frames: what form they had (see
	// frame.Form), how many attributes and bytes of data found no place.
	Foreign func(form string, attributesLeftOut, bytesLeftOut int)
	// OutOfRange tells that a position was outside what a queue holds.
	OutOfRange func(topic, partition string, offset, minimum, maximum int64)
	// TopicChanged tells that a topic was deleted and made again.
	TopicChanged func(topic, oldID, newID string)
	// BrokerFailed tells of a request that got no answer, or an error for one.
	BrokerFailed func(broker string, err error)
	// CursorsDamaged tells that a file of pull offsets could not be read;
	// usedBackup whether its backup could.
	CursorsDamaged func(usedBackup bool)
	// CheckpointFailed tells that pull offsets could not be saved.
	CheckpointFailed func(err error)
}

const (
	maxPartitions     = 1024
	defaultPartitions = 4
	defaultMaxRecord  = 4_000_000
	defaultBatchBytes = 256 << 10
	defaultQueueBytes = 64 << 20
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
	o.Partitions = or(o.Partitions, defaultPartitions)
	o.MaxRecordBytes = or(o.MaxRecordBytes, defaultMaxRecord)
	o.BatchBytes = or(o.BatchBytes, defaultBatchBytes)
	o.QueueBytes = or(o.QueueBytes, defaultQueueBytes)
	o.RequestTimeout = or(o.RequestTimeout, defaultTimeout)
	o.CheckpointInterval = or(o.CheckpointInterval, 5*time.Second)
	o.lookAgain = or(o.lookAgain, 10*time.Second)
	o.unknownWait = or(o.unknownWait, time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Observe = o.Observe.withDefaults()
	return o
}

func (o Observe) withDefaults() Observe {
	if o.Foreign == nil {
		o.Foreign = func(string, int, int) {}
	}
	if o.OutOfRange == nil {
		o.OutOfRange = func(string, string, int64, int64, int64) {}
	}
	if o.TopicChanged == nil {
		o.TopicChanged = func(string, string, string) {}
	}
	if o.BrokerFailed == nil {
		o.BrokerFailed = func(string, error) {}
	}
	return o
}

func (o Options) validate() error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("rocketmq4: "+format+": %w", append(args, storage.ErrInvalid)...)
	}
	switch {
	case len(o.NameServers) == 0:
		return invalid("no name servers: give some as host:port")
	case o.Dir == "":
		return invalid("no directory for pull offsets")
	case o.Partitions < 0 || o.Partitions > maxPartitions:
		return invalid("Partitions is %d, give 1 to %d, or 0 for %d", o.Partitions, maxPartitions, defaultPartitions)
	case o.MaxRecordBytes < 1024 || o.MaxRecordBytes > 32<<20:
		return invalid("MaxRecordBytes is %d, give 1024 to %d", o.MaxRecordBytes, 32<<20)
	case o.BatchBytes < 1024 || o.BatchBytes > 32<<20:
		return invalid("BatchBytes is %d, give 1024 to %d", o.BatchBytes, 32<<20)
	case o.QueueBytes < 1:
		return invalid("QueueBytes is %d, give 1 or more", o.QueueBytes)
	case o.RequestTimeout < 0:
		return invalid("RequestTimeout is %v, give more than 0", o.RequestTimeout)
	case o.Credentials != nil && (o.Credentials.AccessKey == "" || o.Credentials.SecretKey == ""):
		return invalid("credentials need an access key and a secret key")
	}
	return nil
}

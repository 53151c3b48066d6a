package rocketmq4

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/observe"
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
	Observe observe.Broker

	dial        func(ctx context.Context, network, addr string) (net.Conn, error) // nil: TCP
	lookAgain   time.Duration                                                     // how old the number of queues may be for Append
	unknownWait time.Duration                                                     // how long a broker is asked again that tells a maximum of 0 that cannot be
}

const (
	maxPartitions     = 1024
	defaultPartitions = 4
	defaultMaxRecord  = 4_000_000
	defaultBatchBytes = 256 << 10
	defaultQueueBytes = 64 << 20
	defaultTimeout    = 10 * time.Second
)

// withDefaults fills in what is absent.
func (o Options) withDefaults() Options {
	o.Partitions = cmp.Or(o.Partitions, defaultPartitions)
	o.MaxRecordBytes = cmp.Or(o.MaxRecordBytes, defaultMaxRecord)
	o.BatchBytes = cmp.Or(o.BatchBytes, defaultBatchBytes)
	o.QueueBytes = cmp.Or(o.QueueBytes, defaultQueueBytes)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, defaultTimeout)
	o.CheckpointInterval = cmp.Or(o.CheckpointInterval, 5*time.Second)
	o.lookAgain = cmp.Or(o.lookAgain, 10*time.Second)
	o.unknownWait = cmp.Or(o.unknownWait, time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Observe = o.Observe.WithDefaults()
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

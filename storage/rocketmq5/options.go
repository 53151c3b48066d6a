package rocketmq5

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/ackmesh/ackmesh/storage"
)

// Bounds of the invisible time, as proxies have them by default.
const (
	MinInvisible = 10 * time.Second
	MaxInvisible = 12 * time.Hour
)

// Options of a log. Endpoints is needed; the zero value of everything else is
// ready for production.
type Options struct {
	// Endpoints are the gRPC addresses, host:port, of some proxies.
	Endpoints []string
	// NameServers are remoting addresses, host:port, of name servers, or of
	// proxies' remoting ports where the brokers cannot be reached. Without
	// them groups cannot be placed or moved and nothing be read by position.
	NameServers []string
	// AccessKey and SecretKey sign every request. Default: unsigned.
	AccessKey, SecretKey string
	// TLS, where not nil, is used for every connection.
	TLS *tls.Config
	// Namespace of topics and groups. Default: none.
	Namespace string

	// MaxRecordBytes bounds an event as a frame. Default 4 MiB, which is what
	// proxies and brokers take by default (maxMessageSize).
	MaxRecordBytes int
	// QueueBytes bounds what is appended and not yet answered; beyond it
	// Append waits. Default 64 MiB.
	QueueBytes int64
	// RequestTimeout is how long a proxy or broker may take for one answer,
	// beside what it is asked to wait. Default 5 s.
	RequestTimeout time.Duration
	// WriteTimeout is for how long an event is tried to be sent. Default 30 s.
	WriteTimeout time.Duration

	// Dir is where the pull offsets of lite topics are kept, made where it is
	// missing. Empty: in memory only.
	Dir string
	// CheckpointInterval is how often they are saved. 0: 5 s; negative: only by
	// Checkpoint and Close.
	CheckpointInterval time.Duration

	// Logger takes warnings. Default slog.Default().
	Logger *slog.Logger
	// Observe takes figures.
	Observe Observe

	dial func(ctx context.Context, addr string) (net.Conn, error) // for tests
}

// Observe is where figures go. Nil funcs are left out. They are called from the
// log's goroutines and must not block.
type Observe struct {
	// Foreign counts records that were no frames: what form they had (see
	// frame.Form), how many attributes and bytes of data found no place.
	Foreign func(form string, attributesLeftOut, bytesLeftOut int)
}

const (
	defaultMaxRecord    = 4 << 20
	defaultQueueBytes   = 64 << 20
	defaultTimeout      = 5 * time.Second
	defaultWriteTimeout = 30 * time.Second
)

// withDefaults fills in what is absent.
func (o Options) withDefaults() Options {
	o.MaxRecordBytes = cmp.Or(o.MaxRecordBytes, defaultMaxRecord)
	o.QueueBytes = cmp.Or(o.QueueBytes, defaultQueueBytes)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, defaultTimeout)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, defaultWriteTimeout)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Observe.Foreign == nil {
		o.Observe.Foreign = func(string, int, int) {}
	}
	return o
}

func (o Options) validate() error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("rocketmq5: "+format+": %w", append(args, storage.ErrInvalid)...)
	}
	switch {
	case len(o.Endpoints) == 0:
		return invalid("no endpoints: give proxies as host:port")
	case (o.AccessKey == "") != (o.SecretKey == ""):
		return invalid("one of AccessKey and SecretKey is given: give both, or none")
	case o.MaxRecordBytes < 1024 || o.MaxRecordBytes > 64<<20:
		return invalid("MaxRecordBytes is %d, give 1024 to %d", o.MaxRecordBytes, 64<<20)
	case o.QueueBytes < 1:
		return invalid("QueueBytes is %d, give 1 or more", o.QueueBytes)
	case o.RequestTimeout < 0 || o.WriteTimeout < 0:
		return invalid("RequestTimeout %v, WriteTimeout %v: give more than 0", o.RequestTimeout, o.WriteTimeout)
	}
	return nil
}

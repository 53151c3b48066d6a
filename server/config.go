// Package server runs an Ackmesh instance: it puts the log, the offset store,
// the delivery loops and the listeners together.
package server

import (
	"time"
)

// Storage kinds: the values of Config.Storage.
const (
	StorageEmbedded  = "embedded"
	StorageMemory    = "memory"
	StorageKafka     = "kafka"
	StorageRocketMQ4 = "rocketmq4"
	StorageRocketMQ5 = "rocketmq5"
)

// Config is everything that an instance can be told. Begin with Defaults and
// change what differs; New refuses a Config that Validate refuses. The key
// tags, joined by dots, are the names of the settings: ack-timeout.default.
type Config struct {
	// Listen is the host:port of the gRPC listener for applications. Default
	// 127.0.0.1:7460. Port 0 takes a free one.
	Listen string `key:"listen"`

	// HTTPListen is the host:port of the HTTP listener: /session/recommend,
	// /healthz, /readyz, /metrics. Default 127.0.0.1:7461.
	HTTPListen string `key:"http-listen"`

	// AdminListen is the host:port of the gRPC listener for operators. Default
	// 127.0.0.1:7462.
	AdminListen string `key:"admin-listen"`

	// Advertise is the host:port that Recommend gives to clients. Default
	// empty: the address of the gRPC listener. It is required where Listen
	// names no particular host.
	Advertise string `key:"advertise"`

	// Data is the directory of everything that the instance keeps. It is made
	// if missing; one instance at a time may use it. Default ./data.
	Data string `key:"data"`

	// Storage is the log that holds the events: embedded, memory, kafka or
	// rocketmq4 or rocketmq5. Default embedded.
	Storage string `key:"storage"`

	// Sync says whether a publish and an ack are on the disk before they are
	// answered. Default true. With false they have been written, but not
	// synced: a crash of the process loses nothing, a power loss or a crash of
	// the machine loses the last moments.
	Sync bool `key:"sync"`

	// InstanceID names the instance to clients and operators: at most 255
	// bytes of UTF-8 without control characters. Default empty: one is made at
	// the first start and kept in the data directory.
	InstanceID string `key:"instance-id"`

	// Insecure allows listeners that other machines reach without TLS, and
	// without tokens for what is not the operators'. Default false.
	Insecure bool `key:"insecure"`

	// Kafka says how to reach Kafka; for storage=kafka.
	Kafka KafkaConfig `key:"kafka"`
	// RocketMQ4 says how to reach RocketMQ; for storage=rocketmq4.
	RocketMQ4 RocketMQ4Config `key:"rocketmq4"`
	// RocketMQ5 says how to reach RocketMQ 5; for storage=rocketmq5.
	RocketMQ5 RocketMQ5Config `key:"rocketmq5"`
	// TLS secures the listeners.
	TLS TLSConfig `key:"tls"`
	// Auth says who may do what.
	Auth AuthConfig `key:"auth"`

	// Topics is about topics and their partitions.
	Topics TopicsConfig `key:"topics"`
	// Retention is how much of the log is kept.
	Retention RetentionConfig `key:"retention"`
	// Checkpoint is about the pull offsets.
	Checkpoint CheckpointConfig `key:"checkpoint"`
	// AckTimeout is how long an ack is awaited.
	AckTimeout AckTimeoutConfig `key:"ack-timeout"`
	// Delivery is about retries and their bounds.
	Delivery DeliveryConfig `key:"delivery"`
	// Window bounds what may be in flight.
	Window WindowConfig `key:"window"`
	// Memory bounds the frames in memory.
	Memory MemoryConfig `key:"memory"`
	// Drain is about the orderly end of streams.
	Drain DrainConfig `key:"drain"`
	// Shutdown is about the end of the instance.
	Shutdown ShutdownConfig `key:"shutdown"`
	// Subscriber is about who has gone for good.
	Subscriber SubscriberConfig `key:"subscriber"`
	// Disk is about running out of space.
	Disk DiskConfig `key:"disk"`
	// Limits bounds what clients may ask for.
	Limits LimitsConfig `key:"limits"`
	// Log is about the instance's own messages.
	Log LogConfig `key:"log"`
	// Keepalive finds connections that died silently.
	Keepalive KeepaliveConfig `key:"keepalive"`
}

// TopicsConfig is about topics and their partitions.
type TopicsConfig struct {
	// AutoCreate makes a topic on first use, where the backend allows. Default
	// true. With false, unknown topics are NOT_FOUND.
	AutoCreate bool `key:"auto-create"`
	// Partitions is how many a topic gets unless it is created with a number
	// of its own: 1 to 1,024. Default 4.
	Partitions int `key:"partitions"`
	// Refresh is how often the log is asked for new topics and partitions: 100
	// ms to 1 h. Default 5 s.
	Refresh time.Duration `key:"refresh"`
}

// RetentionConfig is how much of the log is kept; the oldest goes first. It
// holds for the embedded log, not for brokers, which have settings of their own.
type RetentionConfig struct {
	// Age is how long records are kept: 1 s or more. Default 168 h (7 days).
	// 0: however long.
	Age time.Duration `key:"age"`
	// Size is how many bytes all topics may take together: 1 MiB or more.
	// Default 0: half of the disk that holds the data directory.
	Size Bytes `key:"size"`
}

// CheckpointConfig is about the pull offsets: how far the log has been read.
type CheckpointConfig struct {
	// Interval is how often they are saved. Default 5 s. 0 or less: only at
	// shutdown.
	Interval time.Duration `key:"interval"`
}

// AckTimeoutConfig is how long after its hand-over to the transport the ack of
// a delivery is awaited.
type AckTimeoutConfig struct {
	// Default is for streams that ask for none. Default 30 s.
	Default time.Duration `key:"default"`
	// Min is the least that a stream may have; less is raised to it. At least
	// 1 ms. Default 1 s.
	Min time.Duration `key:"min"`
	// Max is the most that a stream may have; more is lowered to it. At most
	// 24 h. Default 12 h.
	Max time.Duration `key:"max"`
}

// DeliveryConfig is about retries and their bounds, for each subscriber and
// partition.
type DeliveryConfig struct {
	// MaxAttempts is how often a record is delivered in all before it is given
	// up: 1 to 1,000. Default 6.
	MaxAttempts int `key:"max-attempts"`
	// Backoff are the waits after the first, second, … nack: 1 to 100 values
	// of 0 to 24 h; the last one repeats. Default 1, 2, 4, 8, 16 s.
	Backoff []time.Duration `key:"backoff"`
	// Jitter spreads each wait evenly over ±Jitter of it: 0 (none) to 1.
	// Default 0.2.
	Jitter float64 `key:"jitter"`
	// MaxWaiting bounds the records that wait for a retry; at the bound
	// nothing new is delivered: 1 to 1,000,000. Default 1,000.
	MaxWaiting int `key:"max-waiting"`
	// MaxAhead bounds how far above the lowest unfinished offset new
	// deliveries go: 1 to 10,000,000 offsets. Default 100,000.
	MaxAhead int64 `key:"max-ahead"`
	// LookAhead bounds the records that an ordered subscriber holds back for
	// their key's turn: 1 to 1,000,000. Default 10,000.
	LookAhead int `key:"look-ahead"`
}

// WindowConfig bounds what may be in flight: delivered and not yet answered.
type WindowConfig struct {
	// MaxInFlight counts records, for each subscription.
	MaxInFlight RecordWindow `key:"max-in-flight"`
	// MaxInFlightBytes counts bytes of frames, for each stream.
	MaxInFlightBytes ByteWindow `key:"max-in-flight-bytes"`
}

// RecordWindow is a window in records.
type RecordWindow struct {
	// Default is for clients that ask for none. Default 1,000.
	Default int `key:"default"`
	// Max is the most that a client may ask for; more is INVALID_ARGUMENT.
	// Default 100,000.
	Max int `key:"max"`
}

// ByteWindow is a window in bytes.
type ByteWindow struct {
	// Default is for clients that ask for none. Default 16 MiB.
	Default Bytes `key:"default"`
	// Max is the most that a client may ask for; more is INVALID_ARGUMENT.
	// Default 1 GiB.
	Max Bytes `key:"max"`
}

// MemoryConfig bounds the frames in memory.
type MemoryConfig struct {
	// Limit bounds the bytes of frames that are buffered for all streams
	// together: 16 MiB or more. Default 0: a quarter of the memory that the
	// process may use (see Config.MemoryLimit).
	Limit Bytes `key:"limit"`
}

// DrainConfig is about the orderly end of streams.
type DrainConfig struct {
	// Grace is how long after a DRAINING notice acks are still taken: 0 to 10
	// min. Default 10 s.
	Grace time.Duration `key:"grace"`
}

// ShutdownConfig is about the end of the instance.
type ShutdownConfig struct {
	// Grace is how long, after the drain, calls under way and the stores may
	// take to end before they are cut off: 0 to 10 min. Default 5 s.
	Grace time.Duration `key:"grace"`
}

// SubscriberConfig is about who has gone for good.
type SubscriberConfig struct {
	// Expiry is how long a subscriber without a stream keeps its progress: 1 s
	// or more. Default 336 h (14 days). 0: for ever.
	Expiry time.Duration `key:"expiry"`
}

// DiskConfig is about running out of space.
type DiskConfig struct {
	// Margin is the free space below which writes are refused until there is
	// more again. Default 0: as much as the stores need to stay safe.
	Margin Bytes `key:"margin"`
}

// LimitsConfig bounds what clients may ask for. What is above is refused with
// RESOURCE_EXHAUSTED (Streams) or INVALID_ARGUMENT.
type LimitsConfig struct {
	// Streams is how many Subscribe streams the instance serves: 1 to
	// 1,000,000. Default 20,000.
	Streams int `key:"streams"`
	// SubscriptionsPerStream is how many one stream may have: 1 to 100,000.
	// Default 1,000.
	SubscriptionsPerStream int `key:"subscriptions-per-stream"`
	// LiteTopicsPerStream is how many lite topics one stream may have: 1 to
	// 100,000. Default 10,000.
	LiteTopicsPerStream int `key:"lite-topics-per-stream"`
	// PublishBytes is how large a publish request may be: 1 KiB to 1 GiB.
	// Default 64 MiB. Publishers are told, and make smaller ones; a larger event
	// cannot be published.
	PublishBytes Bytes `key:"publish-bytes"`
	// PublishEvents is how many events a publish request may have: 1 to
	// 1,000,000. Default 10,000.
	PublishEvents int `key:"publish-events"`
	// CallsPerSecond is how many calls and streams all clients together may
	// begin in a second, with a burst of twice as many, and as many again all
	// operators; health checks are not counted. More are RESOURCE_EXHAUSTED.
	// Default 0: no bound.
	CallsPerSecond float64 `key:"calls-per-second"`
	// ResetsPerSecond is how many resets of positions are done in a second,
	// with a burst of twice as many. More are RESOURCE_EXHAUSTED. Default 100. 0:
	// no bound.
	ResetsPerSecond float64 `key:"resets-per-second"`
}

// LogConfig is about the instance's own messages, which go to standard error.
type LogConfig struct {
	// Level is the lowest one written: debug, info, warn or error. Default
	// info.
	Level string `key:"level"`
	// Format is text or json. Default text.
	Format string `key:"format"`
}

// KeepaliveConfig finds connections that died silently.
type KeepaliveConfig struct {
	// Time is how long a connection may be quiet before it is asked for a sign
	// of life: 1 s to 24 h. Default 20 s.
	Time time.Duration `key:"time"`
	// Timeout is how long the sign of life is awaited before the connection is
	// closed: 100 ms to 1 h. Default 10 s.
	Timeout time.Duration `key:"timeout"`
}

// Defaults returns the settings of an instance that was told nothing. Each call
// returns a Config of its own.
func Defaults() Config {
	return Config{
		Listen:      "127.0.0.1:7460",
		HTTPListen:  "127.0.0.1:7461",
		AdminListen: "127.0.0.1:7462",
		Data:        "./data",
		Storage:     StorageEmbedded,
		Sync:        true,
		Topics:      TopicsConfig{AutoCreate: true, Partitions: 4, Refresh: 5 * time.Second},
		Retention:   RetentionConfig{Age: 7 * 24 * time.Hour},
		Checkpoint:  CheckpointConfig{Interval: 5 * time.Second},
		AckTimeout:  AckTimeoutConfig{Default: 30 * time.Second, Min: time.Second, Max: 12 * time.Hour},
		Delivery:    defaultDelivery(),
		Window: WindowConfig{
			MaxInFlight:      RecordWindow{Default: 1000, Max: 100_000},
			MaxInFlightBytes: ByteWindow{Default: 16 * MiB, Max: GiB},
		},
		Kafka:      defaultKafka(),
		RocketMQ5:  RocketMQ5Config{Invisible: 30 * time.Second},
		Drain:      DrainConfig{Grace: 10 * time.Second},
		Shutdown:   ShutdownConfig{Grace: 5 * time.Second},
		Subscriber: SubscriberConfig{Expiry: 14 * 24 * time.Hour},
		Limits: LimitsConfig{
			Streams: 20_000, SubscriptionsPerStream: 1000, LiteTopicsPerStream: 10_000,
			PublishBytes: 64 * MiB, PublishEvents: 10_000, ResetsPerSecond: 100,
		},
		Log:       LogConfig{Level: "info", Format: "text"},
		Keepalive: KeepaliveConfig{Time: 20 * time.Second, Timeout: 10 * time.Second},
	}
}

func defaultDelivery() DeliveryConfig {
	return DeliveryConfig{
		MaxAttempts: 6,
		Backoff: []time.Duration{
			time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second,
		},
		Jitter:     0.2,
		MaxWaiting: 1000,
		MaxAhead:   100_000,
		LookAhead:  10_000,
	}
}

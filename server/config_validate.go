package server

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Validate reports everything that is wrong with c, one line each: the setting,
// what it is, and what it may be.
func (c Config) Validate() error {
	var p problems
	c.checkListeners(&p)
	c.checkSecurity(&p)
	c.checkStorage(&p)
	c.checkTimes(&p)
	c.checkDelivery(&p)
	c.checkBounds(&p)
	return errors.Join(p...)
}

// problems collects what is wrong.
type problems []error

func (p *problems) add(key, format string, args ...any) {
	*p = append(*p, fmt.Errorf(key+": "+format, args...))
}

// within checks that v is from low to high, both included.
func within[T cmp.Ordered](p *problems, key string, v, low, high T) {
	if v < low || v > high {
		p.add(key, "%v is out of range: %v to %v", v, low, high)
	}
}

// oneOf checks that v is one of the choices.
func oneOf(p *problems, key, v string, choices ...string) {
	if !slices.Contains(choices, v) {
		p.add(key, "%q is unknown: choose one of %s", v, strings.Join(choices, ", "))
	}
}

func (c Config) checkListeners(p *problems) {
	for _, l := range []struct{ key, addr string }{
		{"listen", c.Listen}, {"http-listen", c.HTTPListen}, {"admin-listen", c.AdminListen},
	} {
		if _, err := splitAddress(l.addr); err != nil {
			p.add(l.key, "%w", err)
		}
	}
	c.checkAdvertise(p)
}

func (c Config) checkAdvertise(p *problems) {
	if c.Advertise == "" {
		if host, err := splitAddress(c.Listen); err == nil && isWildcard(host) {
			p.add("advertise", "it is required because listen (%s) names no particular host: give the host:port by which clients reach this instance", c.Listen)
		}
		return
	}
	host, err := splitAddress(c.Advertise)
	switch {
	case err != nil:
		p.add("advertise", "%w", err)
	case isWildcard(host):
		p.add("advertise", "%s names no particular host: give the host:port by which clients reach this instance", c.Advertise)
	}
}

// splitAddress returns the host of a host:port.
func splitAddress(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("%q is no host:port: %w", addr, err)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("%q is no host:port: the port must be a number from 0 to 65535", addr)
	}
	return host, nil
}

// isLoopback says whether only this machine reaches host. Names other than
// localhost are not looked up: what they mean may change.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// isWildcard says whether host stands for all addresses of the machine.
func isWildcard(host string) bool {
	if host == "" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsUnspecified()
}

func (c Config) checkStorage(p *problems) {
	oneOf(p, "storage", c.Storage, StorageEmbedded, StorageMemory, StorageKafka, StorageRocketMQ4, StorageRocketMQ5)
	switch c.Storage {
	case StorageKafka:
		c.checkKafka(p)
	case StorageRocketMQ4:
		c.checkRocketMQ4(p)
	case StorageRocketMQ5:
		c.checkRocketMQ5(p)
	}
	if c.Data == "" {
		p.add("data", "it is empty: name a directory")
	}
	if len(c.InstanceID) > 255 || !utf8.ValidString(c.InstanceID) || strings.ContainsFunc(c.InstanceID, unicode.IsControl) {
		p.add("instance-id", "%q is no name: at most 255 bytes of UTF-8 without control characters", c.InstanceID)
	}
	within(p, "topics.partitions", c.Topics.Partitions, 1, 1024)
	atLeast(p, "retention.size", c.Retention.Size, MiB, "half of the disk")
	atLeast(p, "retention.age", c.Retention.Age, time.Second, "however long")
	if c.Disk.Margin < 0 {
		p.add("disk.margin", "%d is negative: give a size, or 0 for as much as the stores need", int64(c.Disk.Margin))
	}
}

// atLeast checks that v is low or more, or 0, which means what zero says.
func atLeast[T Bytes | time.Duration](p *problems, key string, v, low T, zero string) {
	if v != 0 && v < low {
		p.add(key, "%v is too little: %v or more, or 0 for %s", v, low, zero)
	}
}

func (c Config) checkTimes(p *problems) {
	within(p, "topics.refresh", c.Topics.Refresh, 100*time.Millisecond, time.Hour)
	c.AckTimeout.check(p)
	within(p, "drain.grace", c.Drain.Grace, 0, 10*time.Minute)
	within(p, "shutdown.grace", c.Shutdown.Grace, 0, 10*time.Minute)
	atLeast(p, "subscriber.expiry", c.Subscriber.Expiry, time.Second, "for ever")
	within(p, "keepalive.time", c.Keepalive.Time, time.Second, 24*time.Hour)
	within(p, "keepalive.timeout", c.Keepalive.Timeout, 100*time.Millisecond, time.Hour)
}

func (a AckTimeoutConfig) check(p *problems) {
	within(p, "ack-timeout.min", a.Min, time.Millisecond, 24*time.Hour)
	within(p, "ack-timeout.max", a.Max, time.Millisecond, 24*time.Hour)
	if a.Min > a.Max {
		p.add("ack-timeout.min", "%v is more than ack-timeout.max, which is %v", a.Min, a.Max)
	} else {
		within(p, "ack-timeout.default", a.Default, a.Min, a.Max)
	}
}

func (c Config) checkDelivery(p *problems) {
	d := c.Delivery
	within(p, "delivery.max-attempts", d.MaxAttempts, 1, 1000)
	if len(d.Backoff) < 1 || len(d.Backoff) > 100 {
		p.add("delivery.backoff", "it has %d values: give 1 to 100", len(d.Backoff))
	}
	for _, wait := range d.Backoff {
		within(p, "delivery.backoff", wait, 0, 24*time.Hour)
	}
	if !(d.Jitter >= 0 && d.Jitter <= 1) { // also refuses NaN
		p.add("delivery.jitter", "%v is out of range: 0 to 1", d.Jitter)
	}
	within(p, "delivery.max-waiting", d.MaxWaiting, 1, 1_000_000)
	within(p, "delivery.max-ahead", d.MaxAhead, 1, 10_000_000)
	within(p, "delivery.look-ahead", d.LookAhead, 1, 1_000_000)
}

func (c Config) checkBounds(p *problems) {
	w := c.Window
	window(p, "window.max-in-flight", w.MaxInFlight.Default, w.MaxInFlight.Max, 1, 1_000_000)
	window(p, "window.max-in-flight-bytes", w.MaxInFlightBytes.Default, w.MaxInFlightBytes.Max, KiB, TiB)
	atLeast(p, "memory.limit", c.Memory.Limit, 16*MiB, "a quarter of the memory")
	within(p, "limits.streams", c.Limits.Streams, 1, 1_000_000)
	within(p, "limits.subscriptions-per-stream", c.Limits.SubscriptionsPerStream, 1, 100_000)
	within(p, "limits.lite-topics-per-stream", c.Limits.LiteTopicsPerStream, 1, 100_000)
	within(p, "limits.publish-bytes", c.Limits.PublishBytes, KiB, GiB)
	within(p, "limits.publish-events", c.Limits.PublishEvents, 1, 1_000_000)
	rateOf(p, "limits.calls-per-second", c.Limits.CallsPerSecond)
	rateOf(p, "limits.resets-per-second", c.Limits.ResetsPerSecond)
	oneOf(p, "log.level", c.Log.Level, "debug", "info", "warn", "error")
	oneOf(p, "log.format", c.Log.Format, "text", "json")
}

// rateOf checks a number of things a second; 0 is no bound.
func rateOf(p *problems, key string, v float64) {
	if v != 0 && !(v >= 0.001 && v <= 1e9) { // also refuses NaN
		p.add(key, "%v is out of range: 0.001 to 1e+09, or 0 for no bound", v)
	}
}

// window checks that a window's maximum is from low to high, and its default
// from low to the maximum.
func window[T cmp.Ordered](p *problems, key string, def, maximum, low, high T) {
	within(p, key+".max", maximum, low, high)
	if maximum >= low {
		within(p, key+".default", def, low, maximum)
	}
}

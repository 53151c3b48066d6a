package ackmesh

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc"
)

// Defaults of Config.
const (
	DefaultConnectTimeout  = 5 * time.Second
	DefaultOpenTimeout     = 30 * time.Second
	DefaultKeepalive       = 30 * time.Second
	DefaultBackoffMin      = 100 * time.Millisecond
	DefaultBackoffMax      = 10 * time.Second
	DefaultMaxMessageBytes = 4 << 20
	DefaultCloseTimeout    = 30 * time.Second
)

const maxNameBytes = 255

// Config says how a Client reaches the mesh. The zero value of a field means its
// default. New copies it; later changes have no effect.
type Config struct {
	// Addresses are host:port of gRPC listeners, at least one. Any of them is
	// asked which instance to use; they are tried in turn, from a random one.
	Addresses []string
	// ClientID names this process of the application: 1 to 255 bytes of UTF-8
	// without control characters. Progress of BROADCAST and MULTICAST
	// subscriptions is kept under it, so it must be the same after a restart and
	// differ between processes that run at once. Required to subscribe.
	ClientID string
	// Direct makes the client use Addresses as they are, without asking any of
	// them for a recommendation. For servers whose advertised address cannot be
	// reached from here.
	Direct bool

	// Token is sent as a bearer token with every call. TokenSource, if set, is
	// asked for one instead whenever a call or stream begins; it must be quick. Its
	// errors are retried like UNAVAILABLE, unless they have a gRPC status that says
	// otherwise.
	Token       string
	TokenSource func(context.Context) (string, error)
	// TLS secures the connections; nil: plain text.
	TLS *tls.Config
	// AllowPlaintextToken allows sending the token without TLS to an address that
	// is not a loopback one. Whoever is on the way can read and use it.
	AllowPlaintextToken bool

	// Source is the CloudEvents attribute `source` of published events that have
	// none. Default: /clients/ and the escaped ClientID; with no ClientID either,
	// a random one of this Client.
	Source string
	// Publish tunes publishing.
	Publish PublishConfig

	// ConnectTimeout bounds one attempt to connect to one address.
	ConnectTimeout time.Duration
	// OpenTimeout bounds the time from opening a stream to its first answer.
	OpenTimeout time.Duration
	// BackoffMin and BackoffMax bound the pauses between attempts. The n-th is
	// half to all, by chance, of BackoffMin × 2ⁿ, at most BackoffMax.
	BackoffMin, BackoffMax time.Duration
	// Keepalive is how long a connection with open streams may be silent before
	// it is probed. Unanswered for 20 s, it is broken. Negative: never.
	Keepalive time.Duration
	// CloseTimeout bounds Close.
	CloseTimeout time.Duration
	// MaxMessageBytes is the largest event, encoded, that this client takes: up to
	// 16 MiB and what the mesh adds. The server makes a dead letter of a larger one.
	MaxMessageBytes int

	// Logger is told what the client does by itself: reconnects, moves, panics of
	// handlers. nil: nothing is logged.
	Logger *slog.Logger
	// DialOptions are appended to the client's own.
	DialOptions []grpc.DialOption
}

// withDefaults returns a copy with every default filled in.
func (c Config) withDefaults() Config {
	c.Addresses = append([]string(nil), c.Addresses...)
	c.DialOptions = append([]grpc.DialOption(nil), c.DialOptions...)
	def(&c.ConnectTimeout, DefaultConnectTimeout)
	def(&c.OpenTimeout, DefaultOpenTimeout)
	def(&c.BackoffMin, DefaultBackoffMin)
	def(&c.BackoffMax, max(DefaultBackoffMax, c.BackoffMin))
	def(&c.Keepalive, DefaultKeepalive)
	def(&c.CloseTimeout, DefaultCloseTimeout)
	def(&c.MaxMessageBytes, DefaultMaxMessageBytes)
	def(&c.Source, defaultSource(c.ClientID))
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Publish = c.Publish.withDefaults()
	return c
}

// def sets *v to d if it is the zero value.
func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

func defaultSource(clientID string) string {
	if clientID == "" {
		clientID = newIDs().prefix
	}
	return "/clients/" + url.PathEscape(clientID)
}

// validate checks a Config with its defaults filled in.
func (c *Config) validate() error {
	switch {
	case len(c.Addresses) == 0:
		return errors.New("ackmesh: Config.Addresses is empty: give host:port of at least one instance")
	case c.BackoffMin < 0 || c.BackoffMax < c.BackoffMin:
		return fmt.Errorf("ackmesh: Config.BackoffMax %v is below BackoffMin %v", c.BackoffMax, c.BackoffMin)
	case c.MaxMessageBytes < 0 || c.MaxMessageBytes > maxMessageLimit:
		return fmt.Errorf("ackmesh: Config.MaxMessageBytes %d: give 1 to %d", c.MaxMessageBytes, maxMessageLimit)
	case c.ConnectTimeout < 0 || c.OpenTimeout < 0 || c.CloseTimeout < 0:
		return errors.New("ackmesh: Config: a timeout is negative")
	}
	if c.ClientID != "" {
		if err := checkName("Config.ClientID", c.ClientID); err != nil {
			return err
		}
	}
	for _, a := range c.Addresses {
		if err := c.checkToken(a); err != nil {
			return err
		}
	}
	return c.Publish.validate()
}

// maxMessageLimit is the largest frame and room for what the mesh adds.
const maxMessageLimit = 17 << 20

// hasToken reports whether calls carry a token.
func (c *Config) hasToken() bool { return c.Token != "" || c.TokenSource != nil }

// checkToken refuses to send a token where it can be read on the way.
func (c *Config) checkToken(address string) error {
	if !c.hasToken() || c.TLS != nil || c.AllowPlaintextToken || isLocal(address) {
		return nil
	}
	return fmt.Errorf("ackmesh: a token would be sent to %s in plain text: set Config.TLS, or AllowPlaintextToken", address)
}

// isLocal reports whether a gRPC target is on this machine.
func isLocal(address string) bool {
	scheme, _, _ := strings.Cut(address, ":")
	if scheme == "unix" || scheme == "unix-abstract" {
		return true
	}
	if _, rest, ok := strings.Cut(address, ":///"); ok {
		address = rest
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// checkName applies the rule for names of topics, clients and shares.
func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("ackmesh: %s is empty: give 1 to %d bytes", what, maxNameBytes)
	case len(name) > maxNameBytes:
		return fmt.Errorf("ackmesh: %s has %d bytes, at most %d", what, len(name), maxNameBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("ackmesh: %s %q is not UTF-8", what, name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("ackmesh: %s %q has a control character", what, name)
	}
	return nil
}

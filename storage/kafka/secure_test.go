package kafka_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/kafka"
	"github.com/ackmesh/ackmesh/test/certs"
)

// Reading and writing with a password, over TLS and without.
func TestLoginAndTLS(t *testing.T) {
	cert, pool := certs.New(t, "broker")
	for _, mechanism := range []kafka.Mechanism{kafka.MechanismPlain, kafka.MechanismSCRAM256, kafka.MechanismSCRAM512} {
		for _, secure := range []bool{false, true} {
			name := string(mechanism)
			opts := []kfake.Opt{kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser(name, "user", "secret")}
			o := kafka.Options{SASL: kafka.SASL{Mechanism: mechanism, User: "user", Password: "secret"}, AutoCreate: true, Partitions: 1, RequestTimeout: 5 * time.Second}
			if secure {
				name += " over TLS"
				opts = append(opts, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}))
				o.TLS = &tls.Config{RootCAs: pool}
			}
			t.Run(name, func(t *testing.T) {
				o.Brokers = cluster(t, opts...).ListenAddrs()
				l := open(t, o)
				write(t, l, "t", 0, 10)
				if b := mustPoll(t, l, storage.PollRequest{Topic: "t", Partition: "0", Start: storage.Cursor, Wait: patience}); len(b.Records) == 0 {
					t.Error("nothing is read")
				}
				o.Dir = t.TempDir()
				o.SASL.Password = "wrong"
				if _, err := kafka.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "kafka.sasl") {
					t.Errorf("with a wrong password: %v", err)
				}
			})
		}
	}
}

// A broker whose certificate nobody vouches for is not used.
func TestTLSIsChecked(t *testing.T) {
	cert, _ := certs.New(t, "broker")
	c := cluster(t, kfake.NumBrokers(1), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}))
	_, err := kafka.Open(t.Context(), kafka.Options{Brokers: c.ListenAddrs(), Dir: t.TempDir(), TLS: &tls.Config{}})
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) {
		t.Errorf("%v, want that the authority is unknown", err)
	}
}

// The token is sent as RFC 7628 says, with its extensions, and asked for on
// each connection. The fake cluster knows no tokens, so a listener stands in
// that reads what is sent.
func TestOAuthBearer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan string, 10)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			sent <- loginOf(c)
			c.Close()
		}
	}()
	asked := 0
	_, err = kafka.Open(t.Context(), kafka.Options{Brokers: []string{l.Addr().String()}, Dir: t.TempDir(), RequestTimeout: 2 * time.Second, SASL: kafka.SASL{
		Mechanism: kafka.MechanismOAuth,
		Token: func(context.Context) (string, map[string]string, error) {
			asked++
			return "the-token", map[string]string{"tenant": "blue"}, nil
		},
	}})
	if err == nil {
		t.Error("a broker that hangs up is used")
	}
	l.Close()
	<-stopped
	if got, want := <-sent, "n,,\x01auth=Bearer the-token\x01tenant=blue\x01\x01"; got != want {
		t.Errorf("sent is %q, want %q", got, want)
	}
	if asked == 0 {
		t.Error("no token was asked for")
	}
}

// loginOf answers the requests before the login and returns what the login
// says.
func loginOf(c net.Conn) string {
	for {
		var size int32
		if err := binary.Read(c, binary.BigEndian, &size); err != nil {
			return err.Error()
		}
		req := make([]byte, size)
		if _, err := io.ReadFull(c, req); err != nil {
			return err.Error()
		}
		key, id := binary.BigEndian.Uint16(req), req[4:8]
		var res []byte
		switch key {
		case 18: // ApiVersions: none known, so that the old form is used
			res = []byte{0, 35, 0, 0, 0, 0}
		case 17: // SaslHandshake
			mechanism := "OAUTHBEARER"
			res = append([]byte{0, 0, 0, 0, 0, 1, 0, byte(len(mechanism))}, mechanism...)
		default: // SaslAuthenticate
			i := strings.Index(string(req), "n,,")
			if i < 0 {
				return "no login: " + string(req)
			}
			return strings.TrimRight(string(req[i:]), "\x00")
		}
		head := binary.BigEndian.AppendUint32(nil, uint32(4+len(res)))
		if _, err := c.Write(append(append(head, id...), res...)); err != nil {
			return err.Error()
		}
	}
}

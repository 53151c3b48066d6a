package session

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // what the protocol signs with
	"encoding/hex"
	"fmt"
	"time"

	"google.golang.org/grpc/metadata"
)

// protocolVersion is the version of the client protocol that is spoken. Proxies
// decide by it which answers a client knows.
const protocolVersion = "5.1.4"

// signed adds what every call must carry: who calls, in which version, and the
// signature of the time.
func (s *Session) signed(ctx context.Context, clientID string) context.Context {
	now := time.Now().UTC().Format("20060102T150405Z")
	pairs := []string{
		"x-mq-language", "GO", "x-mq-protocol", "v2", "x-mq-client-version", protocolVersion,
		"x-mq-request-id", rand.Text(), "x-mq-client-id", clientID, "x-mq-date-time", now,
	}
	if s.o.Namespace != "" {
		pairs = append(pairs, "x-mq-namespace", s.o.Namespace)
	}
	if s.o.AccessKey != "" {
		pairs = append(pairs, "authorization", authorization(s.o.AccessKey, s.o.SecretKey, now))
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}

// authorization is the signature of a time: the header of MQv2-HMAC-SHA1.
func authorization(accessKey, secretKey, now string) string {
	mac := hmac.New(sha1.New, []byte(secretKey))
	mac.Write([]byte(now))
	return fmt.Sprintf("MQv2-HMAC-SHA1 Credential=%s//Rocketmq, SignedHeaders=x-mq-date-time, Signature=%s",
		accessKey, hex.EncodeToString(mac.Sum(nil)))
}

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq5"
)

// RocketMQ5Config says how to reach RocketMQ 5 by its proxies.
type RocketMQ5Config struct {
	// Endpoints are the gRPC addresses of the proxies, host:port, with commas
	// between them. Needed with storage=rocketmq5.
	Endpoints string `key:"endpoints"`
	// NameServers are the name servers, host:port, with commas between them,
	// or the remoting ports of the proxies. Default empty: subscribers start
	// where the broker likes, cannot be reset, and dead letters cannot be shown.
	NameServers string `key:"nameservers"`
	// Invisible is for how long the broker hands out a message to nobody else:
	// 10 s to 12 h. It is renewed while the message is here. Default 30 s.
	Invisible time.Duration `key:"invisible"`
	// MaxRecord is the largest event written; maxMessageSize of proxies and
	// brokers must be as much. Default 0: 4 MiB, which fits theirs.
	MaxRecord Bytes `key:"max-record"`
	// Namespace of topics and groups. Default empty: none.
	Namespace string `key:"namespace"`
	// AccessKey and SecretKey sign every request; SecretFile is a file that
	// holds the secret key instead. Default empty: requests are not signed.
	AccessKey  string `key:"access-key"`
	SecretKey  Secret `key:"secret-key"`
	SecretFile string `key:"secret-file"`
	// TLS is whether connections are TLS, and CA the file of the authorities
	// that are trusted beside the machine's. Default false and empty.
	TLS bool   `key:"tls"`
	CA  string `key:"ca"`
}

func (c Config) checkRocketMQ5(p *problems) {
	r := c.RocketMQ5
	if strings.Trim(r.Endpoints, ", ") == "" {
		p.add("rocketmq5.endpoints", "it is empty: give host:port of a proxy")
	}
	within(p, "rocketmq5.invisible", r.Invisible, rocketmq5.MinInvisible, rocketmq5.MaxInvisible)
	if r.SecretKey != "" && r.SecretFile != "" {
		p.add("rocketmq5.secret-file", "it is given beside rocketmq5.secret-key: give one of them")
	}
	if (r.AccessKey == "") != (r.SecretKey == "" && r.SecretFile == "") {
		p.add("rocketmq5.access-key", "it goes with rocketmq5.secret-key or rocketmq5.secret-file: give both or neither")
	}
	if r.CA != "" && !r.TLS {
		p.add("rocketmq5.ca", "it is given without rocketmq5.tls=true")
	}
	if r.MaxRecord != 0 {
		within(p, "rocketmq5.max-record", r.MaxRecord, KiB, 64*MiB)
	}
}

// openRocketMQ5 opens the log on RocketMQ 5. It connects when it is used.
func (s *Server) openRocketMQ5() (storage.Backend, error) {
	r := s.cfg.RocketMQ5
	o := rocketmq5.Options{
		Endpoints: addresses(r.Endpoints), NameServers: addresses(r.NameServers), Namespace: r.Namespace,
		AccessKey: r.AccessKey, SecretKey: string(r.SecretKey), MaxRecordBytes: int(r.MaxRecord), Logger: s.log,
		Dir: filepath.Join(s.cfg.Data, logDir), CheckpointInterval: orNever(s.cfg.Checkpoint.Interval),
	}
	if r.SecretFile != "" {
		b, err := os.ReadFile(r.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("rocketmq5.secret-file: %w", err)
		}
		if o.SecretKey = strings.TrimSpace(string(b)); o.SecretKey == "" {
			return nil, fmt.Errorf("rocketmq5.secret-file: %s is empty", r.SecretFile)
		}
	}
	if r.TLS {
		var err error
		if o.TLS, err = brokerTLS("rocketmq5.ca", r.CA); err != nil {
			return nil, err
		}
	}
	return rocketmq5.Open(o)
}

package server

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq4"
	"github.com/ackmesh/ackmesh/storage/rocketmq4/remoting"
)

// RocketMQ4Config says how to reach RocketMQ 4, or 5 by its remoting port.
type RocketMQ4Config struct {
	// NameServers are the name servers, host:port, with commas between them.
	// Needed with storage=rocketmq4.
	NameServers string `key:"nameservers"`
	// Cluster is where topics are made. Default empty: at all brokers.
	Cluster string `key:"cluster"`
	// MaxRecord is the largest event written; the brokers' maxMessageSize must
	// be 4 KiB more. Default 0: 4,000,000 bytes, which fits theirs.
	MaxRecord Bytes `key:"max-record"`
	// AccessKey and SecretKey are for brokers with access control lists.
	// Default empty: requests are not signed.
	AccessKey string `key:"access-key"`
	SecretKey Secret `key:"secret-key"`
	// TLS is whether connections are TLS, and CA the file of the authorities
	// that are trusted beside the machine's. Default false and empty.
	TLS bool   `key:"tls"`
	CA  string `key:"ca"`
}

func (c Config) checkRocketMQ4(p *problems) {
	r := c.RocketMQ4
	if strings.Trim(r.NameServers, ", ") == "" {
		p.add("rocketmq4.nameservers", "it is empty: give host:port of a name server")
	}
	if (r.AccessKey == "") != (r.SecretKey == "") {
		p.add("rocketmq4.access-key", "it goes with rocketmq4.secret-key: give both or neither")
	}
	if r.CA != "" && !r.TLS {
		p.add("rocketmq4.ca", "it is given without rocketmq4.tls=true")
	}
}

// openRocketMQ4 connects to RocketMQ; the pull offsets are kept beside the ack
// offsets.
func (s *Server) openRocketMQ4(ctx context.Context) (storage.Backend, error) {
	r := s.cfg.RocketMQ4
	o := rocketmq4.Options{
		NameServers: addresses(r.NameServers), Dir: filepath.Join(s.cfg.Data, logDir), Cluster: r.Cluster,
		AutoCreate: s.cfg.Topics.AutoCreate, Partitions: s.cfg.Topics.Partitions, MaxRecordBytes: int(r.MaxRecord),
		CheckpointInterval: orNever(s.cfg.Checkpoint.Interval), Logger: s.log,
		Observe: s.meters.ofBroker(),
	}
	if r.AccessKey != "" {
		o.Credentials = &remoting.Credentials{AccessKey: r.AccessKey, SecretKey: string(r.SecretKey)}
	}
	if r.TLS {
		var err error
		if o.TLS, err = brokerTLS("rocketmq4.ca", r.CA); err != nil {
			return nil, err
		}
	}
	b, err := rocketmq4.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return b, nil
}

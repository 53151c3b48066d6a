package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/offsetstore/badger"
	memstore "github.com/ackmesh/ackmesh/offsetstore/memory"
	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/embedded"
	"github.com/ackmesh/ackmesh/storage/kafka"
	"github.com/ackmesh/ackmesh/storage/memory"
)

// Folders of the data directory.
const (
	logDir     = "log"
	offsetsDir = "offsets"
)

// openBackend opens the log that the settings name. This is the one place that
// knows every backend.
func (s *Server) openBackend(ctx context.Context) (storage.Backend, error) {
	if s.parts.Backend != nil {
		return s.parts.Backend()
	}
	switch s.cfg.Storage {
	case StorageMemory:
		return memory.New(memory.Options{Partitions: s.cfg.Topics.Partitions, NoAutoCreate: !s.cfg.Topics.AutoCreate}), nil
	case StorageEmbedded:
		b, err := embedded.Open(filepath.Join(s.cfg.Data, logDir), embedded.Options{
			Partitions: s.cfg.Topics.Partitions, NoAutoCreate: !s.cfg.Topics.AutoCreate,
			Retention: orNever(s.cfg.Retention.Age), MaxBytes: int64(s.cfg.Retention.Size),
			CheckpointInterval: orNever(s.cfg.Checkpoint.Interval), NoSync: !s.cfg.Sync,
			Writable: s.core.guard.check, Logger: s.log, Observe: s.meters.ofLog(),
		})
		if err != nil {
			return nil, err
		}
		return b, nil
	}
	if s.cfg.Storage == StorageKafka {
		return s.openKafka(ctx)
	}
	return nil, fmt.Errorf("storage %q is not built yet: choose %s or %s", s.cfg.Storage, StorageEmbedded, StorageMemory)
}

// openKafka connects to Kafka; the pull offsets are kept beside the ack offsets.
func (s *Server) openKafka(ctx context.Context) (storage.Backend, error) {
	k := s.cfg.Kafka
	o := kafka.Options{
		Dir: filepath.Join(s.cfg.Data, logDir), ClientID: "ackmesh",
		AutoCreate: s.cfg.Topics.AutoCreate, Partitions: s.cfg.Topics.Partitions, Replicas: k.Replicas,
		MaxRecordBytes: int(k.MaxRecord), ReadCommitted: k.ReadCommitted,
		CheckpointInterval: orNever(s.cfg.Checkpoint.Interval), Logger: s.log,
	}
	for b := range strings.SplitSeq(k.Brokers, ",") {
		if b = strings.TrimSpace(b); b != "" {
			o.Brokers = append(o.Brokers, b)
		}
	}
	if k.Format == "cloudevents" {
		o.Format = kafka.FormatCloudEvents
	}
	o.SASL = kafka.SASL{Mechanism: kafka.Mechanism(k.SASL.Mechanism), User: k.SASL.User, Password: string(k.SASL.Password)}
	if k.TLS {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		if k.CA != "" {
			pem, err := os.ReadFile(k.CA)
			if err != nil {
				return nil, fmt.Errorf("kafka.ca: %w", err)
			}
			if o.TLS.RootCAs, err = x509.SystemCertPool(); err != nil {
				o.TLS.RootCAs = x509.NewCertPool()
			}
			if !o.TLS.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("kafka.ca: %s holds no certificate", k.CA)
			}
		}
	}
	b, err := kafka.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// openStore opens the offset store: in memory beside a log in memory, else in
// the data directory.
func (s *Server) openStore() (offsetstore.Store, error) {
	if s.parts.Store != nil {
		return s.parts.Store()
	}
	if s.cfg.Storage == StorageMemory {
		return memstore.New(), nil
	}
	st, err := badger.Open(filepath.Join(s.cfg.Data, offsetsDir), badger.Options{
		NoSync: !s.cfg.Sync, Writable: s.core.guard.check, Room: s.core.guard.room, Logger: s.log,
		Observe: s.meters.ofOffsets(),
	})
	if err != nil {
		return nil, err
	}
	return st, nil
}

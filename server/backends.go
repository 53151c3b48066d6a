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
	case StorageKafka:
		return s.openKafka(ctx)
	case StorageRocketMQ4:
		return s.openRocketMQ4(ctx)
	case StorageRocketMQ5:
		return s.openRocketMQ5()
	}
	return nil, fmt.Errorf("storage %q is unknown", s.cfg.Storage)
}

// addresses takes a list with commas apart.
func addresses(list string) (addrs []string) {
	for a := range strings.SplitSeq(list, ",") {
		if a = strings.TrimSpace(a); a != "" {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// brokerTLS is TLS to brokers that trusts the authorities of a file beside the
// machine's, where there is one; setting names it in errors.
func brokerTLS(setting, ca string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca == "" {
		return c, nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	if c.RootCAs, err = x509.SystemCertPool(); err != nil {
		c.RootCAs = x509.NewCertPool()
	}
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: %s holds no certificate", setting, ca)
	}
	return c, nil
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

package server

import (
	"fmt"
	"path/filepath"

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
func (s *Server) openBackend() (storage.Backend, error) {
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
	return nil, fmt.Errorf("storage %q is not built yet: choose %s or %s", s.cfg.Storage, StorageEmbedded, StorageMemory)
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

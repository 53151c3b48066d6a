package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/ackmesh/ackmesh/offsetstore"
	"github.com/ackmesh/ackmesh/storage"
)

const metaSpace, instanceRecord = "meta", "instance-id"

// orNever turns "0 or less: never" into what the backends call never.
func orNever(d time.Duration) time.Duration {
	if d <= 0 {
		return -1
	}
	return d
}

// instanceID is the configured id, or one that is made at first start and kept
// with the offsets.
func (s *Server) instanceID() (string, error) {
	if s.cfg.InstanceID != "" {
		return s.cfg.InstanceID, storage.CheckName("instance-id", s.cfg.InstanceID)
	}
	raw, ok, err := s.core.store.GetRecord(metaSpace, instanceRecord)
	if err != nil {
		return "", fmt.Errorf("read the instance id: %w", err)
	}
	if ok {
		return string(raw), nil
	}
	id := uuid.NewString()
	txn := &offsetstore.Txn{Sets: []offsetstore.Record{{Space: metaSpace, Key: instanceRecord, Value: []byte(id)}}}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := offsetstore.Commit(ctx, s.core.store, txn); err != nil {
		return "", fmt.Errorf("keep the instance id: %w", err)
	}
	return id, nil
}

// makeDataDir makes the data directory and checks that it can be written.
func makeDataDir(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("data directory %s: %w (choose another with --data)", dir, err)
	}
	probe := filepath.Join(dir, ".writable")
	if err := os.WriteFile(probe, nil, 0o600); err != nil {
		return fmt.Errorf("data directory %s cannot be written: %w (choose another with --data, or give this user the right)", dir, err)
	}
	return os.Remove(probe)
}

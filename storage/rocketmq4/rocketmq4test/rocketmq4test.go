// Package rocketmq4test runs the suite of package storagetest on RocketMQ, real
// or fake.
package rocketmq4test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/rocketmq4"
	"github.com/ackmesh/ackmesh/storage/storagetest"
)

// recordOverhead is what an event is taken to need besides key and frame.
const recordOverhead = 256

// Open opens a log, with a quiet logger where o has none and a directory of
// its own where o has none. Whoever calls it closes the log.
func Open(t storagetest.T, o rocketmq4.Options) *rocketmq4.Log {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	l, err := rocketmq4.Open(ctx, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return l
}

// Harness runs the suite on the brokers of o. The directory is chosen here.
func Harness(t *testing.T, o rocketmq4.Options) storagetest.Harness {
	d := storagetest.NewDirectories(t, func(t storagetest.T, dir string) storage.Backend {
		o := o
		o.Dir = dir
		return Open(t, o)
	})
	maxRecord := o.MaxRecordBytes
	if maxRecord == 0 {
		maxRecord = 4_000_000
	}
	return storagetest.Harness{
		Has: storagetest.Capabilities{
			Bounder: true, TopicAdmin: true, Fingerprinter: true, Checkpointer: true, TopicID: true, AutoCreate: o.AutoCreate,
		},
		Patience:    20 * time.Second,
		Settle:      60 * time.Millisecond,
		MaxFrame:    maxRecord - recordOverhead,
		Open:        d.Open,
		Reopen:      d.Reopen,
		CrashReopen: d.CrashReopen,
	}
}

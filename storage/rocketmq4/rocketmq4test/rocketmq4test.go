// Package rocketmq4test runs the suite of package storagetest on RocketMQ, real
// or fake.
package rocketmq4test

import (
	"context"
	"log/slog"
	"os"
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
	d := &directories{opts: o, base: t.TempDir()}
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
		Open:        func(t storagetest.T) storage.Backend { d.next(t); return d.open(t) },
		Reopen:      d.reopen,
		CrashReopen: d.crash,
	}
}

// directories gives each case a directory for its pull offsets.
type directories struct {
	opts rocketmq4.Options
	base string
	dir  string
}

func (d *directories) next(t storagetest.T) {
	dir, err := os.MkdirTemp(d.base, "")
	if err != nil {
		t.Fatalf("directory: %v", err)
	}
	d.dir = dir
}

func (d *directories) open(t storagetest.T) storage.Backend {
	o := d.opts
	o.Dir = d.dir
	return Open(t, o)
}

func (d *directories) reopen(t storagetest.T, b storage.Backend) storage.Backend {
	if err := b.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	return d.open(t)
}

// crash goes on with the directory as a killed process leaves it; what the old
// log writes to it later is not seen.
func (d *directories) crash(t storagetest.T, b storage.Backend) storage.Backend {
	was := d.dir
	d.next(t)
	if err := os.CopyFS(d.dir, os.DirFS(was)); err != nil {
		t.Fatalf("copy: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close of the crashed log: %v", err)
		}
	})
	return d.open(t)
}

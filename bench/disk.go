package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// syncTimes is how long a synced write of 4 KiB takes in a directory: the
// median and the 99th percentile of many.
func syncTimes(dir string) (p50, p99 time.Duration, err error) {
	const writes = 400
	f, err := os.Create(filepath.Join(dir, "sync-probe"))
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = errors.Join(f.Close(), os.Remove(f.Name())) }() // nothing in it is worth keeping
	took := make([]time.Duration, 0, writes)
	block := make([]byte, 4<<10)
	// Allocated first, as a log does: what is measured is the data's way.
	if err := allocate(f, writes*int64(len(block))); err != nil {
		return 0, 0, err
	}
	for i := range writes {
		began := time.Now()
		if _, err := f.WriteAt(block, int64(i*len(block))); err != nil {
			return 0, 0, err
		}
		if err := syncData(f); err != nil {
			return 0, 0, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[writes/2], took[writes*99/100], nil
}

package server

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackmesh/ackmesh/server/diskguard"
)

// TestDiskHealsMeanwhile: a disk that gets room while its being full is told is not
// taken for full afterwards, and a change is told once.
func TestDiskHealsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Int64
		g, err := diskguard.New(diskguard.Options{Dir: t.TempDir(), Margin: 100, Usage: func(string) (diskguard.Usage, error) {
			return diskguard.Usage{Free: free.Load(), Inodes: -1}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		d := watchDisk(g)
		var full atomic.Bool
		var times atomic.Int32
		d.onChange(func(err error) {
			if times.Add(1) == 1 {
				free.Store(1000)
				<-time.After(time.Minute)
			}
			full.Store(err != nil)
		})
		<-time.After(time.Minute)
		if full.Load() || times.Load() != 2 {
			t.Errorf("with room on the disk it is taken for full: %v, told %d times", full.Load(), times.Load())
		}
		free.Store(0)
		<-time.After(time.Minute)
		d.onChange(nil)
		free.Store(1000)
		<-time.After(time.Minute)
		if !full.Load() || times.Load() != 3 {
			t.Errorf("after the last change that was to be told: full %v, told %d times", full.Load(), times.Load())
		}
		if err := d.close(); err != nil {
			t.Fatal(err)
		}
	})
}

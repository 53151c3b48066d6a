package badger

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// disk is an ext4 filesystem in a file, whose power can be cut: what was not
// synced is gone then.
type disk struct {
	t          *testing.T
	image, dir string
}

// newDisk makes and mounts a disk.
func newDisk(t *testing.T) *disk {
	t.Helper()
	d := &disk{t: t, image: filepath.Join(t.TempDir(), "image"), dir: filepath.Join(t.TempDir(), "mnt")}
	f, err := os.Create(d.image)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(128*mib), f.Close(), os.Mkdir(d.dir, 0o750)); err != nil {
		t.Fatal(err)
	}
	d.run("mkfs.ext4", "-q", "-F", d.image)
	d.mount()
	t.Cleanup(d.unmount)
	return d
}

func (d *disk) run(name string, args ...string) {
	d.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		d.t.Fatalf("%s %v: %v: %s; run this test as root with e2fsprogs and loop devices, in a container with --privileged",
			name, args, err, out)
	}
}

func (d *disk) mount()   { d.t.Helper(); d.run("mount", "-o", "loop", d.image, d.dir) }
func (d *disk) unmount() { d.t.Helper(); d.run("umount", d.dir) }

// cut drops everything that is not on the device, and the filesystem with it.
func (d *disk) cut() {
	d.t.Helper()
	const shutdown, noLogFlush = 0x8004587d, 2 // EXT4_IOC_SHUTDOWN, EXT4_GOING_FLAGS_NOLOGFLUSH
	f, err := os.Open(d.dir)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	flags := uint32(noLogFlush)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), shutdown, uintptr(unsafe.Pointer(&flags))); errno != 0 {
		d.t.Fatalf("cut the power of %s: %v", d.dir, errno)
	}
}

// again brings the disk back as it was on the device.
func (d *disk) again() {
	d.t.Helper()
	d.unmount()
	d.mount()
}

// powerLosses cuts the power of a child's disk at random acks and returns in
// how many rounds something confirmed was lost.
func powerLosses(t *testing.T, rounds int, env ...string) (lost int) {
	r := rand.New(rand.NewPCG(5, 5))
	d := newDisk(t)
	dir := filepath.Join(d.dir, "offsets")
	for range rounds {
		c := startChild(t, dir, env...)
		last := c.ackedTo(1 + r.IntN(300))
		d.cut()
		confirmed := c.kill(last)
		d.again()
		if !checkPower(t, dir, last, confirmed, slices.Contains(env, childNoSync+"=1")) {
			lost++
		}
	}
	return lost
}

// checkPower tells whether the acks up to last, which was confirmed before the
// cut, are there. The child went on until it noticed, so up to confirmed and
// one more may be there.
func checkPower(t *testing.T, dir string, last, confirmed int64, mayFail bool) bool {
	t.Helper()
	s, err := Open(dir, Options{Sizes: small, Logger: testLogger(t)})
	if err != nil {
		if !mayFail {
			t.Fatalf("open after a loss of power: %v", err)
		}
		t.Logf("open: %v", err)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		return false
	}
	defer mustClose(t, s)
	v, _, err := s.Get(benchKey(1))
	if err != nil {
		t.Fatal(err)
	}
	if v.Position < last {
		t.Logf("position is %d, confirmed was %d", v.Position, last)
		return false
	}
	if v.Position > confirmed+1 {
		t.Errorf("position is %d, the last ack was %d", v.Position, confirmed)
	}
	holdsAcks(t, s, v.Position)
	return true
}

// TestPowerLossLosesNothingConfirmed has 20 losses of power.
func TestPowerLossLosesNothingConfirmed(t *testing.T) {
	if lost := powerLosses(t, 20); lost > 0 {
		t.Errorf("%d of 20 losses of power lost what was confirmed", lost)
	}
}

// TestPowerLossWithoutSync shows that the test above can fail.
func TestPowerLossWithoutSync(t *testing.T) {
	if lost := powerLosses(t, 5, childNoSync+"=1"); lost == 0 {
		t.Error("5 losses of power lost nothing, although nothing was synced")
	}
}

// TestPowerLossOverRotations has logs that fill and tables that are flushed
// between the losses.
func TestPowerLossOverRotations(t *testing.T) {
	if lost := powerLosses(t, 5, childBig+"=1"); lost > 0 {
		t.Errorf("%d of 5 losses of power lost what was confirmed", lost)
	}
}

//go:build linux

package powerloss

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// inode names a file or directory over renames.
type inode uint64

// disk is what is durable.
type disk struct {
	root  string
	dirs  map[inode]map[string]node
	files map[inode][]byte
	top   inode
	// through are files that were opened such that every write is synced
	// (O_DSYNC): what is in them is durable.
	through map[inode]bool
	// recent are changes that were applied while others were under way.
	recent []*change
}

// node is what a name stands for.
type node struct {
	ino inode
	dir bool
}

// newDisk takes in a directory: all that is there is durable.
func newDisk(root string) (*disk, error) {
	info, err := os.Stat(root)
	if err != nil {
		return nil, err
	}
	d := empty(root, inodeOf(info))
	return d, d.takeIn(root, d.top)
}

func inodeOf(info fs.FileInfo) inode {
	return inode(info.Sys().(*syscall.Stat_t).Ino) // so on Linux
}

// empty is a disk with nothing on it.
func empty(root string, top inode) *disk {
	return &disk{root: root, top: top, dirs: map[inode]map[string]node{}, files: map[inode][]byte{}, through: map[inode]bool{}}
}

// takeIn takes in a directory with all below it.
func (d *disk) takeIn(path string, ino inode) error {
	names, err := list(path)
	if err != nil {
		return err
	}
	d.dirs[ino] = names
	for name, n := range names {
		sub := filepath.Join(path, name)
		if n.dir {
			err = d.takeIn(sub, n.ino)
		} else {
			d.files[n.ino], err = os.ReadFile(sub)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// list reads the names of a directory. What goes while it is read is left out.
func list(path string) (map[string]node, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	names := map[string]node{}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		names[e.Name()] = node{inodeOf(info), e.IsDir()}
	}
	return names, nil
}

// change is what a sync makes durable, once it has succeeded.
type change struct {
	seq    uint64 // rises with the beginnings of syncs
	opened bool   // that a file is written through, else
	ino    inode
	names  map[string]node // of a directory, else
	size   int64           // of the file
	off    int64
	data   []byte
}

// applyInOrder applies a change. Others that began later may have been applied
// before: they win. oldest is the first seq that may still come.
func (d *disk) applyInOrder(c *change, oldest uint64) {
	d.recent = slices.DeleteFunc(d.recent, func(r *change) bool { return r.seq < oldest })
	at, _ := slices.BinarySearchFunc(d.recent, c, func(a, b *change) int { return cmp.Compare(a.seq, b.seq) })
	d.recent = slices.Insert(d.recent, at, c)
	for _, r := range d.recent[at:] {
		if r.ino == c.ino {
			d.apply(r)
		}
	}
}

func (d *disk) apply(c *change) {
	if c.names != nil {
		d.dirs[c.ino] = c.names
		return
	}
	old := d.files[c.ino]
	if int64(len(old)) != c.size {
		b := make([]byte, c.size)
		copy(b, old)
		old = b
	}
	copy(old[c.off:], c.data)
	d.files[c.ino] = old
}

// reset puts the directory back to what is durable.
func (d *disk) reset(o order) error {
	now := empty(d.root, d.top)
	if err := now.takeIn(d.root, d.top); err != nil {
		return err
	}
	for ino, data := range now.files {
		if d.through[ino] {
			d.files[ino] = data
		}
	}
	if o.torn {
		d.tear(now, rand.New(rand.NewPCG(o.seed, 0)))
	}
	entries, err := os.ReadDir(d.root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(d.root, e.Name())); err != nil {
			return err
		}
	}
	return d.write(d.root, d.top)
}

// tear adds to what is durable some of what is there now: the names, or not,
// and any of the pages.
func (d *disk) tear(now *disk, rnd *rand.Rand) {
	if rnd.IntN(2) == 0 {
		d.dirs = now.dirs
	}
	const page = 4096
	for ino, data := range now.files {
		old := d.files[ino]
		if len(old) > len(data) {
			continue
		}
		merged := make([]byte, len(data))
		copy(merged, old)
		for off := 0; off < len(data); off += page {
			if rnd.IntN(2) == 0 {
				copy(merged[off:], data[off:min(off+page, len(data))])
			}
		}
		d.files[ino] = merged
	}
}

// write makes what is durable of a directory, with all below it.
func (d *disk) write(path string, ino inode) error {
	for name, n := range d.dirs[ino] {
		sub := filepath.Join(path, name)
		if !n.dir {
			if err := writeSparse(sub, d.files[n.ino]); err != nil {
				return err
			}
			continue
		}
		if err := os.Mkdir(sub, 0o750); err != nil {
			return err
		}
		if err := d.write(sub, n.ino); err != nil {
			return err
		}
	}
	return nil
}

// writeSparse writes a file without what is zero in it.
func writeSparse(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	const chunk = 64 << 10
	for off := 0; off < len(data) && err == nil; off += chunk {
		if b := data[off:min(off+chunk, len(data))]; !zero(b) {
			_, err = f.WriteAt(b, int64(off))
		}
	}
	if err == nil {
		err = f.Truncate(int64(len(data)))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

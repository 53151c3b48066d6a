package cursorfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"

	"github.com/ackmesh/ackmesh/storage"
	"github.com/ackmesh/ackmesh/storage/embedded/vfs"
)

const (
	fileKind    = "ackmesh-cursors"
	fileVersion = 1
)

// content is the JSON of the file.
type content struct {
	Topics []topicContent `json:"topics"`
}

type topicContent struct {
	Name string `json:"name"`
	// ID keeps the cursors of a deleted topic from its successor.
	ID string `json:"id"`
	// Next is the pull offset of the partitions "0", "1", …; -1: not set.
	Next []int64 `json:"next,omitempty"`
	// Named is that of partitions with other names.
	Named map[string]int64 `json:"named,omitempty"`
}

// maxIndex bounds the array of pull offsets; partitions with higher numbers
// are kept by name.
const maxIndex = 1 << 12

// index is the place of a partition in topicContent.Next.
func index(partition string) (int, bool) {
	n, err := strconv.Atoi(partition)
	if err != nil || n < 0 || n >= maxIndex || strconv.Itoa(n) != partition {
		return 0, false
	}
	return n, true
}

// collect lists the cursors that are set; the lock is held.
func (f *File) collect() (c content) {
	for _, name := range slices.Sorted(maps.Keys(f.topics)) {
		t := f.topics[name]
		tc := topicContent{Name: name, ID: t.id}
		for part, cur := range t.parts {
			if cur.next != storage.Cursor {
				tc.put(part, cur.next)
			}
		}
		if len(tc.Next)+len(tc.Named) > 0 {
			c.Topics = append(c.Topics, tc)
		}
	}
	return c
}

func (tc *topicContent) put(partition string, next int64) {
	i, ok := index(partition)
	if !ok {
		if tc.Named == nil {
			tc.Named = map[string]int64{}
		}
		tc.Named[partition] = next
		return
	}
	for len(tc.Next) <= i {
		tc.Next = append(tc.Next, storage.Cursor)
	}
	tc.Next[i] = next
}

// use takes over what was read from a file.
func (f *File) use(c content) {
	for _, tc := range c.Topics {
		for i, next := range tc.Next {
			if next >= 0 {
				f.cursor(tc.Name, tc.ID, strconv.Itoa(i)).next = next
			}
		}
		for part, next := range tc.Named {
			if next >= 0 {
				f.cursor(tc.Name, tc.ID, part).next = next
			}
		}
	}
	f.dirty = false
}

// save writes the file if something changed. The caller holds saving.
func (f *File) save() error {
	f.mu.Lock()
	if !f.dirty || f.lock == nil {
		f.mu.Unlock()
		return nil
	}
	c := f.collect()
	f.dirty = false
	f.mu.Unlock()
	b, err := json.Marshal(c)
	if err == nil {
		err = f.replace(b)
	}
	if err != nil {
		f.mu.Lock()
		f.dirty = true
		f.mu.Unlock()
		f.opts.Failed(err)
		return fmt.Errorf("pull offsets not saved: %w", err)
	}
	return nil
}

// replace keeps the present file as backup if it is whole.
func (f *File) replace(b []byte) error {
	if f.sound {
		if err := f.opts.FS.Rename(f.name, f.name+".bak"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f.sound = false
	}
	if err := vfs.WriteState(f.opts.FS, f.name, fileKind, fileVersion, b); err != nil {
		return err
	}
	f.sound = true
	return nil
}

// load reads the file or its backup. What is damaged is left out with a
// warning: the cursors are then not set.
func (f *File) load() error {
	c, err := f.read(f.name)
	if err == nil {
		f.sound = true
		f.use(c)
		return nil
	}
	if errors.Is(err, vfs.ErrVersion) {
		return fmt.Errorf("pull offsets: %w: %w", storage.ErrNewerFormat, err)
	}
	bak, bakErr := f.read(f.name + ".bak")
	if errors.Is(err, fs.ErrNotExist) && errors.Is(bakErr, fs.ErrNotExist) {
		return nil // a new directory, or nothing was ever polled
	}
	if bakErr == nil {
		f.use(bak)
	}
	f.opts.Logger.Warn("pull offsets could not be read", "error", err, "backup_used", bakErr == nil, "backup_error", bakErr)
	f.opts.Damaged(bakErr == nil)
	return nil
}

func (f *File) read(name string) (c content, err error) {
	_, b, err := vfs.ReadState(f.opts.FS, name, fileKind, fileVersion)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return content{}, fmt.Errorf("%s: %w: %w", name, vfs.ErrDamaged, err)
	}
	return c, nil
}

//go:build linux && long

package powerloss

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// script is the environment variable that makes the test binary a program that
// does what a script says.
const script = "ACKMESH_POWERLOSS_SCRIPT"

func TestMain(m *testing.M) {
	Main()
	if text := os.Getenv(script); text != "" {
		os.Exit(report(play(text)))
	}
	os.Exit(m.Run())
}

// play does what a script says, a step in each line, and then waits for ever.
//
//	write FILE TEXT     creates it or appends to it
//	through FILE TEXT   the same with O_DSYNC
//	map FILE TEXT       writes into a mapping of it, which it must be long enough for
//	sync FILE|DIR       fsync
//	msync FILE          of the mapping
//	mkdir DIR, rename FROM TO, remove FILE
func play(text string) error {
	maps := map[string][]byte{}
	for _, line := range strings.Split(text, "\n") {
		f := append(strings.Fields(line), "", "", "")
		var err error
		switch f[0] {
		case "write":
			err = appendTo(f[1], f[2], 0)
		case "through":
			err = appendTo(f[1], f[2], unix.O_DSYNC)
		case "map":
			if maps[f[1]] == nil {
				maps[f[1]], err = mapFile(f[1])
			}
			copy(maps[f[1]], f[2])
		case "msync":
			err = unix.Msync(maps[f[1]], unix.MS_SYNC)
		case "sync":
			err = syncPath(f[1])
		case "mkdir":
			err = os.Mkdir(f[1], 0o750)
		case "rename":
			err = os.Rename(f[1], f[2])
		case "remove":
			err = os.Remove(f[1])
		}
		if err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
	}
	if _, err := os.Stdout.WriteString("played\n"); err != nil {
		return err
	}
	select {}
}

func appendTo(path, text string, flags int) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND|flags, 0o640)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func mapFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// lose plays a script on a machine and cuts its power.
func lose(t *testing.T, text string, torn bool) (data string) {
	t.Helper()
	m := &Machine{Data: t.TempDir()}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd, err := m.Command(self)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Dir = m.Data
	cmd.Env = append(cmd.Env, script+"="+text, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "played\n" {
		t.Fatalf("the script was not played: %q, %v", line, err)
	}
	if err := m.Off(torn, 1); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return m.Data
}

// TestEndedByItself: a program that is not there any more when the power is cut
// is told, not waited for.
func TestEndedByItself(t *testing.T) {
	m := &Machine{Data: t.TempDir()}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd, err := m.Command(self)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, script+"=remove "+filepath.Join(m.Data, "none"), "GORACE=atexit_sleep_ms=0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(out); err != nil || len(said) > 0 {
		t.Fatalf("it says %q, %v", said, err)
	}
	if err := m.Off(false, 1); err == nil {
		t.Error("a program that had ended is said to have lost its power")
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the machine ended well")
	}
}

// TestOverlap: of two syncs of one file or directory that overlap the one that
// began later wins, whichever ends first.
func TestOverlap(t *testing.T) {
	const dir, file = 1, 2
	name := func(names ...string) map[string]node {
		m := map[string]node{}
		for i, n := range names {
			m[n] = node{ino: inode(10 + i)}
		}
		return m
	}
	old := []*change{
		{seq: 1, ino: dir, names: name("a")},
		{seq: 2, ino: file, size: 8, data: []byte("oldoldol")},
	}
	late := []*change{
		{seq: 3, ino: dir, names: name("a", "b")},
		{seq: 4, ino: file, size: 8, off: 4, data: []byte("new")},
	}
	for _, order := range [][]*change{slices.Concat(old, late), slices.Concat(late, old), {late[1], old[0], old[1], late[0]}} {
		d := empty(t.TempDir(), 0)
		for i, c := range order {
			oldest := c.seq
			for _, rest := range order[i:] {
				oldest = min(oldest, rest.seq)
			}
			d.applyInOrder(c, oldest)
		}
		if len(d.dirs[dir]) != 2 || string(d.files[file]) != "oldonewl" {
			t.Errorf("durable are %v and %q", d.dirs[dir], d.files[file])
		}
		d.applyInOrder(&change{seq: 9, ino: file, size: 1, data: []byte("x")}, 9)
		if len(d.recent) != 1 || string(d.files[file]) != "x" {
			t.Errorf("%d changes are remembered, durable is %q", len(d.recent), d.files[file])
		}
	}
}

// content lists a directory: path=content.
func content(t *testing.T, dir string) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || e.IsDir() {
			out = append(out, name+"/")
			return err
		}
		b, err := os.ReadFile(path)
		out = append(out, name+"="+strings.TrimRight(string(b), "\x00"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}

// TestLost: what was synced is there, and nothing else.
func TestLost(t *testing.T) {
	zeros := strings.Repeat("0", 4096)
	for name, c := range map[string]struct{ script, want string }{
		"nothing synced":       {"write a x", ""},
		"file without name":    {"write a x\nsync a", ""},
		"name without file":    {"write a x\nsync .", "a="},
		"both":                 {"write a x\nsync a\nsync .", "a=x"},
		"more after the sync":  {"write a x\nsync a\nsync .\nwrite a y", "a=x"},
		"rename":               {"write a x\nsync a\nsync .\nrename a b", "a=x"},
		"rename, synced":       {"write a x\nsync a\nsync .\nrename a b\nsync .", "b=x"},
		"replaced":             {"write a x\nsync a\nsync .\nwrite b y\nsync b\nrename b a", "a=x"},
		"replaced, synced":     {"write a x\nsync a\nsync .\nwrite b y\nsync b\nrename b a\nsync .", "a=y"},
		"removed":              {"write a x\nsync a\nsync .\nremove a", "a=x"},
		"removed, synced":      {"write a x\nsync a\nsync .\nremove a\nsync .", ""},
		"directory":            {"mkdir d\nwrite d/a x\nsync d/a\nsync d", ""},
		"directory, synced":    {"mkdir d\nwrite d/a x\nsync d/a\nsync d\nsync .", "d/ d/a=x"},
		"directory, not below": {"mkdir d\nwrite d/a x\nsync d/a\nsync .", "d/"},
		"written through":      {"through a x\nsync .\nthrough a y", "a=xy"},
		"through, not named":   {"through a x", ""},
		"mapped":               {"write a " + zeros + "\nsync a\nsync .\nmap a x", "a=" + zeros},
		"mapped, synced":       {"write a " + zeros + "\nsync .\nmap a x\nmsync a\nmap a y", "a=x" + zeros[1:]},
	} {
		t.Run(name, func(t *testing.T) {
			if got := content(t, lose(t, c.script, false)); got != c.want {
				t.Errorf("after the loss there is %.80q, not %.80q", got, c.want)
			}
		})
	}
}

// TestTorn: some pages that were not synced are there, some are not; what was
// synced is.
func TestTorn(t *testing.T) {
	pages := strings.Repeat("x", 30*4096) // an argument holds 128 KiB
	b, err := os.ReadFile(filepath.Join(lose(t, "write a synced\nsync a\nsync .\nwrite a "+pages, true), "a"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), "x"); !strings.HasPrefix(string(b), "synced") || n == 0 || n == len(pages) {
		t.Errorf("%d of %d bytes that were not synced are there: %.10q", n, len(pages), b)
	}
}

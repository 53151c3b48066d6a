package auth

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAdminToken(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadAdminToken(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before: %v", err)
	}
	token, made, err := EnsureAdminToken(dir)
	if err != nil || !made {
		t.Fatalf("made %v, %v", made, err)
	}
	path := filepath.Join(dir, AdminTokenFile)
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	again, made, err := EnsureAdminToken(dir)
	if err != nil || made || again != token {
		t.Errorf("a second start: made %v, %v", made, err)
	}
	if read, err := ReadAdminToken(dir); err != nil || read != token {
		t.Errorf("read: %v", err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("left behind: %v, %v", files, err)
	}
	if err := os.WriteFile(path, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := EnsureAdminToken(dir); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("an empty file: %v", err)
	}
}

func TestAdminTokenNotWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing")
	if _, _, err := EnsureAdminToken(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("no directory: %v", err)
	}
}

func TestNewToken(t *testing.T) {
	a, b := NewToken(), NewToken()
	if a == b || len(a) != len("ackmesh_")+43 {
		t.Errorf("tokens %q, %q", a, b)
	}
	if err := CheckToken(a); err != nil {
		t.Error(err)
	}
	if h, err := ParseHash(HashOf(a).String()); err != nil || h != HashOf(a) {
		t.Errorf("hash read back: %v, %v", h, err)
	}
	for _, bad := range []string{"", "short", strings.Repeat("x", 4097), "has a space within the token", "ümlaute sind kein token"} {
		if CheckToken(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

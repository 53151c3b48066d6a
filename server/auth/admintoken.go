package auth

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// AdminTokenFile is the file of a data directory that holds the admin token.
const AdminTokenFile = "admin.token"

// ReadAdminToken reads the admin token of a data directory. That there is none
// is an error that wraps fs.ErrNotExist.
func ReadAdminToken(dataDir string) (string, error) {
	path := filepath.Join(dataDir, AdminTokenFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("admin token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if err := CheckToken(token); err != nil {
		return "", fmt.Errorf("admin token %s: %w; remove the file and a new token is made at the next start", path, err)
	}
	return token, nil
}

// EnsureAdminToken reads the admin token of a data directory, or makes one that
// only the server's user can read. made tells which. The caller must be the only
// one at work in the directory.
func EnsureAdminToken(dataDir string) (token string, made bool, err error) {
	token, err = ReadAdminToken(dataDir)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, false, err
	}
	token = NewToken()
	path := filepath.Join(dataDir, AdminTokenFile)
	if err := writePrivate(path, token+"\n"); err != nil {
		return "", false, fmt.Errorf("admin token %s could not be written: %w", path, err)
	}
	return token, true, nil
}

// writePrivate writes a file of mode 0600 in one step: after a crash it is there
// with all of its content, or not at all.
func writePrivate(path, text string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // it is of no use
		}
	}()
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

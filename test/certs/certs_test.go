package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"testing"

	"github.com/ackmesh/ackmesh/test/certs"
)

// What is saved is the same certificate, with its key, and good for its name.
func TestSaved(t *testing.T) {
	cert, pool := certs.New(t, "broker.example")
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "crt"), filepath.Join(dir, "key")
	certs.Save(t, cert, certFile, keyFile)
	saved, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, good := range map[string]bool{"broker.example": true, "127.0.0.1": true, "other.example": false} {
		if _, err := saved.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: pool}); (err == nil) != good {
			t.Errorf("for %s: %v", name, err)
		}
	}
}

package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/ackmesh/ackmesh/server/auth"
)

// certificates are those of one listener, read from files again when asked to.
type certificates struct {
	key       string // of the setting, for errors
	files     TLSFiles
	protocols []string
	current   atomic.Pointer[tls.Config]
}

// loadCertificates reads a listener's files; nil: it has none. protocols are what
// ALPN offers.
func loadCertificates(key string, f TLSFiles, protocols ...string) (*certificates, error) {
	if f.Cert == "" {
		return nil, nil
	}
	c := &certificates{key: key, files: f, protocols: protocols}
	return c, c.reload()
}

// reload reads the files again. On an error what was read before stays.
func (c *certificates) reload() error {
	pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		return fmt.Errorf("%s.cert %s and %s.key %s: %w", c.key, c.files.Cert, c.key, c.files.Key, err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: c.protocols}
	if c.files.ClientCA != "" {
		if cfg.ClientCAs, err = readRoots(c.files.ClientCA); err != nil {
			return fmt.Errorf("%s.client-ca: %w", c.key, err)
		}
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
		// A resumed session would outlive the root that it was let in by.
		cfg.SessionTicketsDisabled = true
	}
	c.current.Store(cfg)
	return nil
}

func readRoots(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no PEM certificate", path)
	}
	return pool, nil
}

// config is for a listener: each handshake uses what was read last.
func (c *certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: c.protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load(), nil },
	}
}

// security is the certificates of all listeners; nil: that one has no TLS.
type security struct{ data, http, admin *certificates }

func (s *Server) loadSecurity() (sec security, err error) {
	var errs [3]error
	sec.data, errs[0] = loadCertificates("tls", s.cfg.TLS.data(), "h2")
	sec.http, errs[1] = loadCertificates("tls.http", s.cfg.TLS.http(), "h2", "http/1.1")
	sec.admin, errs[2] = loadCertificates("tls.admin", s.cfg.TLS.admin(), "h2")
	return sec, errors.Join(errs[:]...)
}

// readSecurity reads certificates, and looks at the tokens file, before anything
// else is begun: what is wrong with them is told at once.
func (s *Server) readSecurity() error {
	sec, err := s.loadSecurity()
	if err != nil {
		return err
	}
	if s.security = sec; sec != (security{}) {
		s.onReload("certificates", sec.reload)
	}
	if path := s.cfg.Auth.TokensFile; path != "" {
		if _, err := auth.ReadFile(path); err != nil {
			return fmt.Errorf("auth.tokens-file: %w", err)
		}
	}
	return nil
}

func (sec security) reload() error {
	var errs []error
	for _, c := range []*certificates{sec.data, sec.http, sec.admin} {
		if c != nil {
			errs = append(errs, c.reload())
		}
	}
	return errors.Join(errs...)
}

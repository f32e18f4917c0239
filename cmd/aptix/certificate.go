package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/aptixhq/aptix/internal/config"
)

// certificate is the server's, which can be read anew while it serves.
type certificate struct {
	files config.TLS
	log   *slog.Logger
	now   atomic.Pointer[tls.Certificate]
}

// readCertificate reads the files, nil when none are configured.
func readCertificate(files config.TLS, log *slog.Logger) (*certificate, error) {
	if !files.Configured() {
		return nil, nil
	}
	c := &certificate{files: files, log: log}
	return c, c.read()
}

func (c *certificate) read() error {
	pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	c.now.Store(&pair)
	return nil
}

// reload reads the files anew. Connections that are open keep the certificate that they
// began with, and all keep the old one when the new one cannot be read.
func (c *certificate) reload() {
	if err := c.read(); err != nil {
		c.log.Error("the certificate stays as it was", "error", err)
		return
	}
	c.log.Info("certificate read", "file", c.files.Cert)
}

// config returns how the server speaks TLS.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.now.Load(), nil },
	}
}

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/config"
)

// writeCertificate makes a certificate with this number for 127.0.0.1.
func writeCertificate(t *testing.T, files config.TLS, number int64) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	made := &x509.Certificate{SerialNumber: big.NewInt(number), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, made, made, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{files.Cert: {Type: "CERTIFICATE", Bytes: der}, files.Key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

func TestCertificate_IsReadAnew(t *testing.T) {
	dir := t.TempDir()
	files := config.TLS{Cert: filepath.Join(dir, "c.pem"), Key: filepath.Join(dir, "k.pem")}
	if _, err := readCertificate(files, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("files that are not there were read")
	}
	roots := x509.NewCertPool()
	roots.AddCert(writeCertificate(t, files, 1))
	c, err := readCertificate(files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: http.NotFoundHandler(), TLSConfig: c.config(), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- web.ServeTLS(listener, "", "") }()
	defer func() {
		_ = web.Close()
		<-served
	}()
	number := func() int64 {
		t.Helper()
		conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{RootCAs: roots})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if got := number(); got != 1 {
		t.Errorf("got certificate %d, want 1", got)
	}
	roots.AddCert(writeCertificate(t, files, 2))
	c.reload()
	if got := number(); got != 2 {
		t.Errorf("got certificate %d after it was read anew, want 2", got)
	}
	if err := os.WriteFile(files.Key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.reload()
	if got := number(); got != 2 {
		t.Errorf("got certificate %d after a bad one, want 2 still", got)
	}
}

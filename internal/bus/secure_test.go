package bus

import (
	"crypto/tls"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/aptixhq/aptix/internal/natstest"
)

func TestOpen_WithAPassword(t *testing.T) {
	s := natstest.Start(t, func(o *server.Options) { o.Username, o.Password = "aptix", "secret" })
	host := strings.TrimPrefix(s.URL(), "nats://")
	n := start(t, "nats://aptix:secret@"+host)
	connected(t, n)
	stranger := start(t, "nats://aptix:wrong@"+host)
	if stranger.Connected() {
		t.Error("connected with a wrong password")
	}
}

// The rights of a user that may use our subjects and nothing else are enough.
func TestOpen_WithNoMoreRightsThanItNeeds(t *testing.T) {
	ours := &server.SubjectPermission{Allow: []string{"aptix.>"}}
	url := natstest.Start(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "aptix", Password: "secret", Permissions: &server.Permissions{Publish: ours, Subscribe: ours}}}
	}).URL()
	url = strings.Replace(url, "nats://", "nats://aptix:secret@", 1)
	owner, reader := start(t, url), start(t, url)
	connected(t, owner, reader)
	u := begin(owner, key, 1)
	u.show()
	log := must(t, reader, key, 0)
	u.end()
	same(t, all(t, log, 0), u.events)
	if n := owner.troubles.total() + reader.troubles.total(); n != 0 {
		t.Errorf("%d troubles with NATS", n)
	}
}

func TestOpen_WithCertificates(t *testing.T) {
	// Whoever can make a web server for tests has a certificate for 127.0.0.1.
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	s := natstest.Start(t, func(o *server.Options) {
		o.TLSConfig = &tls.Config{Certificates: web.TLS.Certificates}
		o.TLS, o.TLSTimeout = true, 10
	})
	url := strings.Replace(s.URL(), "nats://", "tls://", 1)
	n := start(t, url, func(c *Config) { c.Files.RootCAs = ca })
	connected(t, n)
	stranger := start(t, url)
	if stranger.Connected() {
		t.Error("connected to a server that nobody vouches for")
	}
}

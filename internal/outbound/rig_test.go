package outbound

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// tripwire is a server that must not be reached. It counts connections, not requests.
type tripwire struct {
	*httptest.Server
	connects atomic.Int64
}

func newTripwire(t *testing.T) *tripwire {
	t.Helper()
	w := &tripwire{Server: httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("here")) }))}
	w.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			w.connects.Add(1)
		}
	}
	w.Start()
	t.Cleanup(w.Close)
	return w
}

func (w *tripwire) port() string {
	_, port, _ := net.SplitHostPort(w.Listener.Addr().String())
	return port
}

// nameServer answers questions for addresses, over UDP on the loopback, with what answer
// says of a name. It returns the resolver that asks it.
func nameServer(t *testing.T, answer func(name string) []netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = conn.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 2048)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if out, err := respond(buf[:n], answer); err == nil {
				_, _ = conn.WriteTo(out, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func respond(query []byte, answer func(name string) []netip.Addr) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	q := m.Questions[0]
	m.Header = dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true, RecursionAvailable: true}
	m.Additionals = nil
	if q.Type == dnsmessage.TypeA || q.Type == dnsmessage.TypeAAAA {
		for _, ip := range answer(strings.TrimSuffix(q.Name.String(), ".")) {
			h := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: dnsmessage.ClassINET}
			switch {
			case ip.Is4() && q.Type == dnsmessage.TypeA:
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: ip.As4()}})
			case ip.Is6() && q.Type == dnsmessage.TypeAAAA:
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: ip.As16()}})
			}
		}
	}
	return m.Pack()
}

// get asks for a URL with a client that follows redirects, which ours does not.
func get(t *testing.T, by http.RoundTripper, url string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Transport: by}).Do(req)
	if err == nil {
		t.Cleanup(func() { _ = res.Body.Close() })
	}
	return res, err
}

// allow is an Allowlist of entries that are right.
func allow(t *testing.T, entries ...string) Allowlist {
	t.Helper()
	l, err := ParseAllowlist(entries)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

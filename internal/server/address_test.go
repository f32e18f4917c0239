package server

import (
	"net/http"
	"net/netip"
	"testing"
)

func TestClientAddr(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for name, tt := range map[string]struct {
		peer      string
		forwarded []string
		want      string
	}{
		"no proxy":                   {"192.0.2.1:99", nil, "192.0.2.1:99"},
		"no proxy, but it claims":    {"192.0.2.1:99", []string{"198.51.100.1"}, "192.0.2.1:99"},
		"a proxy":                    {"10.0.0.1:99", []string{"198.51.100.1"}, "198.51.100.1:0"},
		"a proxy that says nothing":  {"10.0.0.1:99", nil, "10.0.0.1:0"},
		"two proxies":                {"10.0.0.1:99", []string{"198.51.100.1, 10.9.9.9"}, "198.51.100.1:0"},
		"two headers":                {"10.0.0.1:99", []string{"203.0.113.5", "198.51.100.1"}, "198.51.100.1:0"},
		"the client writes one too":  {"10.0.0.1:99", []string{"127.0.0.1, 10.0.0.2, 198.51.100.1"}, "198.51.100.1:0"},
		"all are proxies":            {"10.0.0.1:99", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3:0"},
		"nonsense":                   {"10.0.0.1:99", []string{"198.51.100.1, what"}, "10.0.0.1:0"},
		"nonsense behind a proxy":    {"10.0.0.1:99", []string{"what, 10.0.0.2"}, "10.0.0.2:0"},
		"with a port":                {"10.0.0.1:99", []string{"198.51.100.1:1234"}, "198.51.100.1:0"},
		"IPv6":                       {"[fd00::1]:99", []string{"2001:db8::1"}, "[2001:db8::1]:0"},
		"IPv6 with a port":           {"[fd00::1]:99", []string{"[2001:db8::1]:5"}, "[2001:db8::1]:0"},
		"a proxy as a mapped one":    {"[::ffff:10.0.0.1]:99", []string{"198.51.100.1"}, "198.51.100.1:0"},
		"a hop as a mapped one":      {"10.0.0.1:99", []string{"198.51.100.1, ::ffff:10.0.0.2"}, "198.51.100.1:0"},
		"a peer that cannot be read": {"@", []string{"198.51.100.1"}, "@"},
	} {
		s := &Server{proxies: proxies}
		r := &http.Request{RemoteAddr: tt.peer, Header: http.Header{"X-Forwarded-For": tt.forwarded, "X-Forwarded-Host": {"evil.com"}, "X-Real-Ip": {"1.2.3.4"}}}
		if got := s.clientAddr(r); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
		s.proxies = nil
		if got := s.clientAddr(r); got != tt.peer {
			t.Errorf("%s, without proxies: got %s", name, got)
		}
	}
}

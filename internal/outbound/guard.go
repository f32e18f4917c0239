package outbound

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
)

// RefusedError is a connection that the policy does not let come about. Its text holds
// nothing that a name was found to mean, so that it may be shown to whoever gave the URL.
type RefusedError struct {
	// Host is the host of the URL, as it was written.
	Host string
	// Addr is the address that it has, for the operator; the zero one when no name was
	// looked up.
	Addr netip.Addr
	// Why says what is wrong, for people.
	Why string
}

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("no connection to %q: %s", e.Host, e.Why)
}

const (
	whyPrivate  = "it has an address that is not public; the operator can name it in outbound.allow"
	whyMetadata = "it has the address of a metadata service"
	whyPlain    = "only https is spoken to it; the operator can name it in outbound.allow"
	whySpelling = "an address has to be written in its usual form"
)

// guard judges URLs and addresses by a policy.
type guard struct {
	configured map[string]bool // host:port, and true where http may be spoken
	allow      Allowlist
	// own are the addresses of this machine; net.InterfaceAddrs, but for tests.
	own func() ([]net.Addr, error)
}

func newGuard(p Policy) guard {
	g := guard{configured: map[string]bool{}, allow: p.Allow, own: net.InterfaceAddrs}
	for _, raw := range p.Configured {
		if u, err := url.Parse(raw); err == nil && u.Hostname() != "" {
			at := hostPort(u)
			g.configured[at] = g.configured[at] || u.Scheme == "http"
		}
	}
	return g
}

// hostPort is where a URL leads, in one form.
func hostPort(u *url.URL) string {
	port := u.Port()
	switch {
	case port == "" && u.Scheme == "http":
		port = "80"
	case port == "":
		port = "443"
	}
	return net.JoinHostPort(canonicalHost(u.Hostname()), port)
}

// isConfigured reports whether host:port, as it is dialled, is that of a configured URL.
func (g guard) isConfigured(hostPort string) bool {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return false
	}
	_, ok := g.configured[net.JoinHostPort(canonicalHost(host), port)]
	return ok
}

// CheckURL returns what is wrong with a URL that somebody gives, as far as it can be told
// without looking up its name: a *RefusedError, or another error when it is no such URL at
// all. That it returns nil does not mean that a connection will come about.
func (p Policy) CheckURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.Opaque != "" {
		return errors.New("want a whole URL, such as https://example.com/hook")
	}
	if u.User != nil || u.Fragment != "" {
		return errors.New("want a URL without a user and without a fragment")
	}
	return newGuard(p).checkURL(u)
}

// checkURL judges a URL before its name is looked up.
func (g guard) checkURL(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("want an https:// URL")
	}
	host := u.Hostname()
	plain, configured := g.configured[hostPort(u)]
	if ip, err := netip.ParseAddr(host); err == nil {
		if err := g.judge(host, ip, configured); err != nil {
			return err
		}
	} else if !configured && endsInNumber(canonicalHost(host)) {
		return &RefusedError{Host: host, Why: whySpelling}
	}
	if u.Scheme == "http" && !plain && !g.allow.NamesHost(host) {
		return &RefusedError{Host: host, Why: whyPlain}
	}
	return nil
}

// namedByOperator reports whether the operator named the host of a URL, here or there.
func (g guard) namedByOperator(u *url.URL) bool {
	_, configured := g.configured[hostPort(u)]
	return configured || g.allow.NamesHost(u.Hostname())
}

// judge returns what is wrong with connecting to an address of a host. Trusted are hosts
// that the operator configured, and his proxy.
func (g guard) judge(host string, ip netip.Addr, trusted bool) error {
	ip = plainForm(ip)
	switch {
	case isMetadata(ip):
		return &RefusedError{Host: host, Addr: ip, Why: whyMetadata}
	case trusted, g.allow.NamesHost(host), g.allow.hasAddr(ip), isPublic(ip) && !g.isOwn(ip):
		return nil
	}
	return &RefusedError{Host: host, Addr: ip, Why: whyPrivate}
}

// isOwn reports whether an address is this machine's, public though it may be: what listens
// there may count on a firewall that connections from within do not pass.
func (g guard) isOwn(ip netip.Addr) bool {
	addrs, err := g.own()
	return err != nil || slices.ContainsFunc(addrs, func(a net.Addr) bool {
		own, err := netip.ParsePrefix(a.String())
		return err == nil && own.Addr().Unmap().WithZone("") == ip
	})
}

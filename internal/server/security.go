package server

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// Authenticator names the caller of a request from its credential. A missing or a
// wrong credential is an *agent.Error of agent.KindUnauthenticated.
type Authenticator interface {
	Authenticate(r *http.Request) (agent.Caller, error)
}

// CheckListen refuses to serve an address that other machines can reach when nobody
// has to authenticate.
func CheckListen(addr string, authenticated bool) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("listen address %q: %w; write it as host:port, such as 127.0.0.1:8080", addr, err)
	}
	if authenticated || loopbackName(host) {
		return nil
	}
	return fmt.Errorf("refusing to listen on %q: without authentication the server is for this machine only. "+
		"Use 127.0.0.1:%s, or make the first key with 'aptix keys create --org ORG --user USER --role admin', or configure auth.oidc", addr, port)
}

// loopbackHost reports whether a Host header names this machine. A page that a
// rebound DNS name brought to our port still sends that name, so a name that merely
// resolves to the loopback address is not enough.
func loopbackHost(hostport string) bool {
	host := hostport
	if h, port, err := net.SplitHostPort(hostport); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return false
		}
		host = h
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	return loopbackName(host)
}

// loopbackName accepts localhost, 127.0.0.0/8 in dotted form and ::1, and none of
// the spellings that resolvers also understand: decimal, octal or short addresses,
// mapped IPv6, zones, a trailing dot.
func loopbackName(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Is4In6() || ip.Zone() != "" {
		return false
	}
	return ip.IsLoopback()
}

// answersTo reports whether the server has the name in a Host header. Loopback names are
// always its own: no page of another origin can send them.
func (s *Server) answersTo(hostport string) bool {
	if loopbackHost(hostport) {
		return true
	}
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	return s.lists(host) || len(s.hosts) == 0 && !s.loopback && !s.open()
}

// lists reports whether a name, without port, is in the setting hosts.
func (s *Server) lists(host string) bool {
	bare := func(name string) string { return strings.Trim(name, "[]") } // of an IPv6 address
	for _, own := range s.hosts {
		if strings.EqualFold(bare(host), bare(own)) {
			return true
		}
	}
	return false
}

// fromHere reports whether a connection came in on an address that only this machine can
// reach. A request without a connection was made by the program itself.
func fromHere(r *http.Request) bool {
	tcp, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// guard refuses what only a web page of another origin can send: requests under a
// foreign Host name, and cross-origin ones always. There
// are no CORS headers anywhere, so such a page could not read an answer either. While nobody
// has to authenticate it refuses other machines, whoever listens for the server.
func (s *Server) guard(r *http.Request) error {
	if s.open() && !fromHere(r) {
		return agent.Errorf(agent.KindForbidden, "While nobody has to authenticate, this server answers to this machine only.")
	}
	if !s.answersTo(r.Host) {
		return agent.Errorf(agent.KindForbidden,
			"This server does not answer to this host name, but to loopback names such as localhost and 127.0.0.1, and to those in its setting hosts.")
	}
	if err := s.origins.Check(r); err != nil {
		return agent.Errorf(agent.KindForbidden, "Requests from pages of another origin are refused.").Because(err)
	}
	if foreignRead(r) {
		return agent.Errorf(agent.KindForbidden, "Requests from pages of another origin are refused.")
	}
	return nil
}

// foreignRead tells the reads that a page of another origin makes: fetches, event
// streams, preflights. A plain link from elsewhere to our pages is a navigation and
// is let through. http.CrossOriginProtection looks at writes only.
func foreignRead(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return false
	case "cross-site", "same-site":
		return r.Method == http.MethodOptions || r.Header.Get("Sec-Fetch-Mode") != "navigate"
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host != r.Host
}

// identify names the caller of a route, by its class.
func (s *Server) identify(c class, r *http.Request) (agent.Caller, error) {
	if c == public {
		return agent.Caller{}, nil
	}
	who := agent.Local()
	if s.auth != nil {
		var err error
		if who, err = s.auth.Authenticate(r); err != nil {
			return agent.Caller{}, err
		}
	}
	if least := c.role(); !who.Role.Includes(least) {
		return agent.Caller{}, agent.Errorf(agent.KindForbidden, "This needs a credential of role %s.", least)
	}
	return who, nil
}

// still makes sure that the credential of a request is as good as when it came, unless
// that was found out just now. A long answer asks again and again: what is revoked ends
// streams too. That nobody can say at the moment ends none. A stream has the exchange and
// the time at hand, and asks with every event.
func (s *Server) still(x *exchange, r *http.Request, now time.Time, every time.Duration) error {
	if s.auth == nil || x.class == public || now.Sub(x.identified) < every {
		return nil
	}
	who, err := s.identify(x.class, r)
	switch {
	case agent.KindOf(err) == agent.KindUnavailable:
		return nil
	case err != nil:
		return err
	case who != x.caller:
		return agent.Errorf(agent.KindUnauthenticated, "The credential means something else by now. Send the request again.")
	}
	x.identified = time.Now()
	return nil
}

// Package outbound makes every HTTP connection of the server: to the model provider, the
// embeddings API, MCP servers, webhooks and OpenID providers. It refuses addresses that are
// not public (private, loopback, link-local, metadata services and so on) unless somebody
// who may do so named them.
//
// What counts is the address that is really dialled: it is judged between the lookup of a
// name and the connection, so that neither a redirect, nor a name that means another
// address the next moment, nor an unusual spelling of an address gets past it.
package outbound

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

// Policy says where the connections of one use may go. The zero Policy is the strictest
// one: public addresses, over https, and without a proxy.
type Policy struct {
	// Configured are the URLs that the operator wrote himself. Exactly their hosts, at
	// exactly their ports, may have any address but that of a metadata service, and may be
	// spoken to over http, if the URL says so. Never put a URL here that came over the API.
	Configured []string
	// Allow is the operator's list of exceptions for URLs that others give.
	Allow Allowlist
}

// The bounds of a connection. Those of a whole exchange are the users' own.
const (
	dialTimeout    = 10 * time.Second
	maxHeaderBytes = 64 << 10
	idleTimeout    = 90 * time.Second
	idlePerHost    = 128
)

// NewClient returns a client that keeps to a policy. It follows no redirect: the answer
// that names another place is the answer.
func NewClient(p Policy) *http.Client {
	return &http.Client{Transport: NewTransport(p), CheckRedirect: Stay}
}

// Stay is the CheckRedirect of clients that follow no redirect: it would carry bodies and
// credentials to a place that nobody named.
func Stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Transport carries requests where its policy lets them. It is safe for concurrent use, and
// keeps connections for the next request.
type Transport struct {
	guard guard
	base  *http.Transport
	plain plain // for what needs no more
	// dialer and environment, the proxy that the environment names for a request, have
	// their defaults, but for tests.
	dialer      net.Dialer
	environment func(*http.Request) (*url.URL, error)
}

// NewTransport returns a transport that keeps to a policy. A Configured URL that cannot be
// read permits nothing.
func NewTransport(p Policy) *Transport {
	t := &Transport{guard: newGuard(p), dialer: net.Dialer{Timeout: dialTimeout}, environment: http.ProxyFromEnvironment}
	t.plain.dial = t.dial
	t.base = &http.Transport{
		Proxy:                  chosenProxy,
		DialContext:            t.dial,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           idlePerHost,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleTimeout,
		TLSHandshakeTimeout:    dialTimeout,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxHeaderBytes,
		// A compressed stream arrives in lumps, and its size says nothing.
		DisableCompression: true,
		// Every running turn holds a connection, and what is large passes by these
		// buffers anyway. A turn that continues from a response is small: it and its
		// header are one write.
		WriteBufferSize: 4 << 10,
		ReadBufferSize:  1 << 10,
	}
	return t
}

// RoundTrip implements http.RoundTripper. What the policy refuses is a *RefusedError.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	proxy, err := t.admit(req)
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	if proxy == nil && t.plain.carries(req) {
		return t.plain.roundTrip(req)
	}
	if proxy != nil {
		req = req.WithContext(context.WithValue(req.Context(), proxyKey{}, proxy))
	}
	return t.base.RoundTrip(req)
}

// admit judges where a request goes, and returns the proxy that it goes through, if any.
// Only what the operator named goes through his proxy: behind one, nobody here can see
// where a connection leads.
func (t *Transport) admit(req *http.Request) (*url.URL, error) {
	if err := t.guard.checkURL(req.URL); err != nil {
		return nil, err
	}
	if !t.guard.namedByOperator(req.URL) {
		return nil, nil
	}
	return t.environment(req)
}

// CloseIdleConnections closes the connections that no request uses.
func (t *Transport) CloseIdleConnections() {
	t.base.CloseIdleConnections()
	t.plain.closeIdle()
}

// proxyKey is the key under which a request's context has its proxy, for the dialer, too:
// what it is told to dial may be either end.
type proxyKey struct{}

func chosenProxy(req *http.Request) (*url.URL, error) {
	proxy, _ := req.Context().Value(proxyKey{}).(*url.URL)
	return proxy, nil
}

// dial connects to host:port. Each address that it has is judged before it is connected
// to, when the resolver has done its work.
func (t *Transport) dial(ctx context.Context, network, hostPort string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, err
	}
	trusted := ctx.Value(proxyKey{}) != nil || t.guard.isConfigured(hostPort)
	d := t.dialer
	d.Control = func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return t.guard.judge(host, at.Addr(), trusted)
	}
	return d.DialContext(ctx, network, hostPort)
}

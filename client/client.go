package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// DefaultURL is where a server listens when nothing else is configured.
const DefaultURL = "http://127.0.0.1:8080"

// ErrUnreachable tells that nothing answers at the configured address: no connection
// could be made at all, so nothing was sent.
var ErrUnreachable = errors.New("the Aptix server cannot be reached")

// ErrConnectionLost tells that the connection broke and stayed broken for all
// attempts. The turn may well go on: ask for it with Turn, or follow it with Events.
var ErrConnectionLost = errors.New("the connection to the Aptix server was lost")

// Config says where the server is and how patient to be. Zero fields mean the
// documented default.
type Config struct {
	// URL is the address of the server, DefaultURL when empty. A path is kept as a
	// prefix.
	URL string
	// APIKey is sent as a bearer token when it is not empty.
	APIKey string
	// HTTPClient sends the requests. The default one has no overall timeout, since a
	// turn may take minutes, and gives up connecting after 10 s.
	HTTPClient *http.Client
	// Attempts is how often a call that loses its connection is sent, the first time
	// included: 8, which outlasts a quick restart of the server. In a stream it counts
	// from the last event that came through.
	Attempts int
	// Backoff is how long to wait before attempt n+1, n counting from 1. The default
	// doubles from 100 ms up to 5 s.
	Backoff func(n int) time.Duration
	// Timeout bounds a call that does not run a turn: 30 s.
	Timeout time.Duration
	// TurnTimeout bounds Execute and Continue over all attempts: 15 min, which is
	// longer than a server lets a turn run.
	TurnTimeout time.Duration
	// IdleTimeout is how long a stream may say nothing, not even a comment, before
	// its connection counts as broken: 3 min.
	IdleTimeout time.Duration
	// MaxBytes bounds one answer and one event: 64 MiB.
	MaxBytes int64
	// UserAgent names the program: "aptix-go".
	UserAgent string
}

// Client is a connection to one server. It is safe for use by several goroutines.
type Client struct {
	base *url.URL
	cfg  Config
}

// New returns a client. It makes no connection; Ready tells whether the server is up.
func New(cfg Config) (*Client, error) {
	if cfg.URL == "" {
		cfg.URL = DefaultURL
	}
	base, err := url.Parse(strings.TrimRight(cfg.URL, "/"))
	if err != nil {
		return nil, fmt.Errorf("server address: %w", err)
	}
	if (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return nil, fmt.Errorf("server address %q: want http://HOST:PORT or https://HOST", cfg.URL)
	}
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = &http.Client{Transport: transport()}
	}
	if cfg.Attempts <= 0 {
		cfg.Attempts = 8
	}
	if cfg.Backoff == nil {
		cfg.Backoff = func(n int) time.Duration { return min(100*time.Millisecond<<min(n-1, 10), 5*time.Second) }
	}
	setDefault(&cfg.Timeout, 30*time.Second)
	setDefault(&cfg.TurnTimeout, 15*time.Minute)
	setDefault(&cfg.IdleTimeout, 3*time.Minute)
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = 64 << 20
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "aptix-go"
	}
	return &Client{base: base, cfg: cfg}, nil
}

// URL returns the address of the server.
func (c *Client) URL() string { return c.base.String() }

// Ready returns nil when the server can take turns.
func (c *Client) Ready(ctx context.Context) error {
	return c.call(ctx, request{method: http.MethodGet, path: "/readyz"}, nil)
}

func setDefault(d *time.Duration, to time.Duration) {
	if *d <= 0 {
		*d = to
	}
}

func transport() http.RoundTripper {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     90 * time.Second,
	}
}

// request is one call before it is sent.
type request struct {
	method string
	path   string // joined with at, so its variable segments are escaped
	query  url.Values
	body   any // marshalled unless nil
	stream bool
	// lastEvent is the sequence after which a stream is taken up again; 0 is the start.
	lastEvent int64
	// repeat tells that sending the call twice does no more than sending it once.
	repeat bool
	// timeout bounds all attempts together; 0 means Config.Timeout.
	timeout time.Duration
}

// at joins path segments, each escaped.
func at(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}

// call sends a request, again when that is safe and the connection was lost, and
// decodes the answer into out unless that is nil.
func (c *Client) call(ctx context.Context, r request, out any) error {
	timeout := r.timeout
	if timeout == 0 {
		timeout = c.cfg.Timeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout,
		fmt.Errorf("%s %s: no answer within %s: %w", r.method, r.path, timeout, context.DeadlineExceeded))
	defer cancel()

	attempts := 1
	if r.repeat {
		attempts = c.cfg.Attempts
	}
	for n := 1; ; n++ {
		err := c.once(ctx, r, out)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case n == 1 && errors.Is(err, ErrUnreachable), !lost(err):
			return err
		case n >= attempts:
			return fmt.Errorf("%s %s: %w", r.method, r.path, err)
		}
		if err := pause(ctx, max(c.cfg.Backoff(n), retryAfter(err))); err != nil {
			return err
		}
	}
}

// once sends a request once and decodes the answer.
func (c *Client) once(ctx context.Context, r request, out any) error {
	res, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	return c.decode(res, out)
}

// send sends a request and returns the answer if it is a good one. Otherwise the error
// is a *Problem, or one of a broken connection.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	var body io.Reader
	if r.body != nil {
		b, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", r.method, r.path, err)
		}
		body = bytes.NewReader(b)
	}
	u := c.base.String() + r.path
	if len(r.query) > 0 {
		u += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u, body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.method, r.path, err)
	}
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	req.Header.Set("Accept", "application/json")
	if r.stream {
		req.Header.Set("Accept", "text/event-stream, application/json;q=0.9")
	}
	if r.lastEvent > 0 {
		req.Header.Set("Last-Event-ID", fmt.Sprint(r.lastEvent))
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.cfg.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.APIKey)
	}
	res, err := c.cfg.HTTPClient.Do(req)
	if err != nil {
		if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" {
			return nil, fmt.Errorf("%w at %s: %w", ErrUnreachable, c.base.Host, err)
		}
		return nil, fmt.Errorf("%w: %w", ErrConnectionLost, err)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		defer func() { _ = res.Body.Close() }()
		return nil, problemOf(res)
	}
	return res, nil
}

// decode reads the whole answer into out.
func (c *Client) decode(res *http.Response, out any) error {
	b, err := io.ReadAll(io.LimitReader(res.Body, c.cfg.MaxBytes+1))
	if err != nil {
		return fmt.Errorf("%w while it answered: %w", ErrConnectionLost, err)
	}
	if int64(len(b)) > c.cfg.MaxBytes {
		return fmt.Errorf("the server's answer has more than %d bytes", c.cfg.MaxBytes)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("%s is not an Aptix server, or not one of this version: %w", c.base, err)
	}
	return nil
}

// lost reports whether err says that the same call may succeed when it is sent again:
// the connection broke, or the server, or something in front of it, is going down.
func lost(err error) bool {
	if errors.Is(err, ErrConnectionLost) || errors.Is(err, ErrUnreachable) {
		return true
	}
	p := (*Problem)(nil)
	if !errors.As(err, &p) {
		return false
	}
	// A gateway's answer has no code of ours; provider_failed has one, and its turn is
	// over.
	gateway := p.Code == "" && (p.Status == http.StatusBadGateway ||
		p.Status == http.StatusServiceUnavailable || p.Status == http.StatusGatewayTimeout)
	return gateway || p.Code == CodeDraining
}

// retryAfter is how long the server asked to wait, within reason.
func retryAfter(err error) time.Duration {
	if p := (*Problem)(nil); errors.As(err, &p) {
		return min(p.RetryAfter, 10*time.Second)
	}
	return 0
}

// pause waits for d, or for less when ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

package llm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// Config says where the model is and how far to trust it. Zero fields mean the
// default.
type Config struct {
	// BaseURL is the API's root, such as https://api.openai.com/v1, the default.
	BaseURL string
	// APIKey is sent as the bearer token; without one no token is sent.
	APIKey       string
	Organization string
	Project      string
	// Transport carries the requests, by default one with pooled connections. A
	// model within the process stands here too.
	Transport http.RoundTripper
	// IdleTimeout is how long the provider may be silent: until a stream begins,
	// and between two reads. 60 seconds.
	IdleTimeout time.Duration
	// Timeout is how long a whole answer may take. 10 minutes.
	Timeout time.Duration
	// MaxBytes is how long an answer may be. 32 MiB.
	MaxBytes int64
}

// Client asks the model. It is safe for use by many turns at once.
type Client struct {
	endpoint string
	header   http.Header
	http     *http.Client
	idle     time.Duration
	total    time.Duration
	maxBytes int64
	// secrets are what no text of ours may show: the key and the host.
	secrets []string
}

// maxEvent bounds one event of a stream; the last one repeats the whole answer.
const maxEvent = 16 << 20

// New returns a client of the provider that cfg describes.
func New(cfg Config) *Client {
	base := strings.TrimRight(cmp.Or(cfg.BaseURL, "https://api.openai.com/v1"), "/")
	c := &Client{
		endpoint: base + "/responses",
		header:   http.Header{"Content-Type": {typeJSON}, "User-Agent": {"aptix"}},
		idle:     cmp.Or(cfg.IdleTimeout, 60*time.Second),
		total:    cmp.Or(cfg.Timeout, 10*time.Minute),
		maxBytes: cmp.Or(cfg.MaxBytes, 32<<20),
	}
	if cfg.APIKey != "" {
		c.header.Set("Authorization", "Bearer "+cfg.APIKey)
		c.secrets = append(c.secrets, cfg.APIKey)
	}
	if cfg.Organization != "" {
		c.header.Set("OpenAI-Organization", cfg.Organization)
	}
	if cfg.Project != "" {
		c.header.Set("OpenAI-Project", cfg.Project)
	}
	if u, err := url.Parse(base); err == nil && u.Hostname() != "" {
		c.secrets = append(c.secrets, u.Host, u.Hostname())
	}
	transport := cfg.Transport
	if transport == nil {
		transport = pooled()
	}
	c.http = &http.Client{
		Transport: transport,
		// A redirect would carry the prompt to a place that nobody configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// pooled keeps connections open for the next call: all turns call the same host.
func pooled() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          128,
		MaxIdleConnsPerHost:   128,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		// A compressed stream arrives in lumps, and its size says nothing.
		DisableCompression: true,
	}
}

// Close closes the connections that no call uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Ask posts a request body, once, when the iteration starts, and yields the answer:
// deltas, then one Response as the last value. The answer is read as what it calls
// itself, a stream or one document; a document that was asked for as a stream yields
// its text as one delta.
//
// Every fault of the provider is an *agent.Error of kind provider_failed or
// provider_timeout, and the last thing yielded; an answer that the provider itself
// calls failed or incomplete stands beside it. The end of ctx is not a fault: its
// error comes back as it is, wrapped. Leaving the iteration closes the connection.
func (c *Client) Ask(ctx context.Context, body []byte, stream bool) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		w := newWatch(ctx, c.total, c.idle, c.maxBytes)
		defer w.close()
		if !stream {
			// One document may be silent until it is whole.
			w.silence.Stop()
		}
		resp, err := c.post(w.ctx, body, stream)
		if err != nil {
			yield(Event{}, c.broken(ctx, w, unreachable, err))
			return
		}
		w.over(resp.Body)
		if resp.StatusCode < 200 || resp.StatusCode > 299 {
			err := c.refused(resp, w)
			if ctx.Err() != nil {
				err = c.broken(ctx, w, cut, err)
			}
			w.finished = true
			yield(Event{}, err)
			return
		}
		switch mediaType(resp) {
		case typeStream:
			c.readStream(ctx, w, yield)
		case typeJSON:
			c.readDocument(ctx, w, stream, yield)
		default:
			yield(Event{}, agent.Errorf(agent.KindProviderFailed,
				"The provider answered with something that is neither JSON nor an event stream; check the base URL."))
		}
	}
}

const (
	typeJSON   = "application/json"
	typeStream = "text/event-stream"
)

func (c *Client) post(ctx context.Context, body []byte, stream bool) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = c.header.Clone()
	req.Header.Set("Accept", typeJSON)
	if stream {
		req.Header.Set("Accept", typeStream)
	}
	return c.http.Do(req)
}

func mediaType(resp *http.Response) string {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

func (c *Client) readDocument(ctx context.Context, w *watch, stream bool, yield func(Event, error) bool) {
	data, err := io.ReadAll(w)
	if err != nil {
		yield(Event{}, c.broken(ctx, w, cut, err))
		return
	}
	w.finished = true
	ev, err := c.settle(validJSON(data), nil, "")
	if err != nil {
		yield(ev, c.unreadable(err))
		return
	}
	if text := ev.Response.Text() + ev.Response.Refusal(); stream && text != "" {
		if !yield(Event{Delta: text}, nil) {
			return
		}
	}
	yield(ev, nil)
}

func (c *Client) readStream(ctx context.Context, w *watch, yield func(Event, error) bool) {
	events := newSSEReader(w, int(min(c.maxBytes, maxEvent)))
	r := reducer{c: c}
	for {
		e, err := events.next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			yield(Event{}, c.broken(ctx, w, cut, err))
			return
		}
		ev, terminal, err := r.apply(e)
		w.finished = terminal
		switch {
		case err != nil:
			yield(ev, c.unreadable(err))
			return
		case terminal:
			yield(ev, nil)
			return
		case ev.Delta == "":
		case !yield(ev, nil):
			return
		}
	}
}

// unreadable makes a fault of an answer that cannot be read; a fault stays one.
func (c *Client) unreadable(err error) error {
	if !errors.Is(err, errMalformed) {
		return err
	}
	return agent.Errorf(agent.KindProviderFailed, "%s", malformed).Because(fmt.Errorf("read the answer: %w", err))
}

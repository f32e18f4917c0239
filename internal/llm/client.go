package llm

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/outbound"
	"github.com/aptixhq/aptix/internal/secret"
)

// Config says where the model is and how far to trust it. Zero fields mean the
// default.
type Config struct {
	// BaseURL is the API's root, such as https://api.openai.com/v1, the default.
	BaseURL string
	// APIKey is sent as the bearer token; without one no token is sent.
	APIKey       secret.Text
	Organization string
	Project      string
	// Transport carries the requests, by default one that goes to BaseURL and nowhere
	// else. A model within the process stands here too.
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
	// request is what each one is a copy of; badURL is why there is none.
	request  *http.Request
	badURL   error
	header   http.Header
	http     *http.Client
	idle     time.Duration
	total    time.Duration
	maxBytes int64
	// key is what no text of ours may show; neither may they show hosts, the address's host
	// with its port and without.
	key   secret.Text
	hosts []string
}

// maxEvent bounds one event of a stream; the last one repeats the whole answer.
const maxEvent = 16 << 20

// New returns a client of the provider that cfg describes.
func New(cfg Config) *Client {
	base := strings.TrimRight(cmp.Or(cfg.BaseURL, "https://api.openai.com/v1"), "/")
	c := &Client{
		key:      cfg.APIKey,
		header:   http.Header{"Content-Type": {typeJSON}, "User-Agent": {"aptix"}},
		idle:     cmp.Or(cfg.IdleTimeout, 60*time.Second),
		total:    cmp.Or(cfg.Timeout, 10*time.Minute),
		maxBytes: cmp.Or(cfg.MaxBytes, 32<<20),
	}
	c.request, c.badURL = http.NewRequest(http.MethodPost, base+"/responses", http.NoBody)
	if cfg.Organization != "" {
		c.header.Set("OpenAI-Organization", cfg.Organization)
	}
	if cfg.Project != "" {
		c.header.Set("OpenAI-Project", cfg.Project)
	}
	if u, err := url.Parse(base); err == nil && u.Hostname() != "" {
		c.hosts = []string{u.Host, u.Hostname()}
	}
	transport := cfg.Transport
	if transport == nil {
		transport = outbound.NewTransport(outbound.Policy{Configured: []string{base}})
	}
	c.http = &http.Client{Transport: transport, CheckRedirect: outbound.Stay}
	return c
}

// Close closes the connections that no call uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Ask posts a request, once, when the iteration starts, and yields the answer:
// deltas, then one Response as the last value. The answer is read as what it calls
// itself, a stream or one document; a document that was asked for as a stream yields
// its text as one delta.
//
// Every fault of the provider is an *agent.Error of kind provider_failed or
// provider_timeout, and the last thing yielded; an answer that the provider itself
// calls failed or incomplete stands beside it. The end of ctx is not a fault: its
// error comes back as it is, wrapped. Leaving the iteration closes the connection.
func (c *Client) Ask(ctx context.Context, request *Wire, stream bool) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		x, err := c.open(ctx, request, stream, c.total)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer x.close()
		x.read(yield)
	}
}

const (
	typeJSON   = "application/json"
	typeStream = "text/event-stream"
)

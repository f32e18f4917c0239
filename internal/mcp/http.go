package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aptixhq/aptix/internal/outbound"
	"github.com/aptixhq/aptix/internal/secret"
	"github.com/aptixhq/aptix/internal/telemetry"
)

const (
	// streamMessages is how many messages of the largest size a stream may have: the SDK
	// bounds each of them, and not their number.
	streamMessages = 2
	// streamRetries is how often the SDK takes up a stream that broke off.
	streamRetries = 2
)

var (
	errTooLarge = errors.New("the server's answer is larger than what is taken")
	errRedirect = errors.New("the server sends us elsewhere, which is not followed; configure the address that it names if you trust it")
)

// remoteTransport returns the way to a remote server, and what lets go of it.
func remoteTransport(c ServerConfig) (sdk.Transport, func()) {
	base := outbound.NewTransport(outbound.Policy{Configured: []string{c.URL}})
	return &sdk.StreamableClientTransport{
		Endpoint: c.URL,
		HTTPClient: &http.Client{
			Transport: &bounded{base: base, headers: c.Headers, most: int64(c.MaxBytes)},
			// It would carry the headers to a place that nobody configured.
			CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
		},
		MaxRetries:   streamRetries,
		MaxEventSize: c.MaxBytes,
		// The list is asked for often enough; a stream that is always open is not needed.
		DisableStandaloneSSE: true,
	}, base.CloseIdleConnections
}

// bounded adds the configured headers to requests and bounds what comes back, which the
// SDK reads as it comes unless it is an event.
type bounded struct {
	base    http.RoundTripper
	headers map[string]secret.Text
	most    int64
}

// RoundTrip sends a request, and notes for its exchange how far it got.
func (t *bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	x, ok := req.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		x = &exchange{}
	}
	req = req.Clone(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		WroteHeaders: func() { x.sent.Store(true) },
	}))
	for name, value := range t.headers {
		req.Header.Set(name, value.Reveal())
	}
	telemetry.Inject(req.Context(), req.Header)
	res, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if req.Method == http.MethodPost {
		x.status.CompareAndSwap(0, int64(res.StatusCode))
	}
	most := t.most
	if kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err == nil && kind == "text/event-stream" {
		most *= streamMessages
	}
	if res.ContentLength > most {
		return nil, errors.Join(fmt.Errorf("%w: %d bytes", errTooLarge, res.ContentLength), res.Body.Close())
	}
	res.Body = &boundedBody{res.Body, most}
	return res, nil
}

// boundedBody is a body that fails when it is longer than it may be.
type boundedBody struct {
	io.ReadCloser
	left int64
}

// Read reads what may still be read.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		// Perhaps it ends right here.
		if n, err := b.ReadCloser.Read(make([]byte, 1)); n == 0 {
			return 0, err
		}
		return 0, errTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// exchange is how far a call got on its way to a remote server.
type exchange struct {
	sent   atomic.Bool
	status atomic.Int64 // of the first answer to a POST
}

type exchangeKey struct{}

// withExchange returns a context whose requests are noted.
func withExchange(ctx context.Context) (context.Context, *exchange) {
	x := &exchange{}
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// refused reports whether the server certainly did nothing: it never got the request, or
// refused it in so many words.
func (x *exchange) refused() bool {
	status := x.status.Load()
	return !x.sent.Load() || status >= 300 && status < 500 && status != http.StatusRequestTimeout
}

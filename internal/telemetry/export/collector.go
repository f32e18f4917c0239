package export

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/aptixhq/aptix/internal/outbound"
)

// collector is who takes the spans. It is otlptrace's own idea of a client over HTTP; the
// library's brings gRPC along, and connects past internal/outbound.
type collector struct {
	Config
	http  *http.Client
	retry failsafe.Executor[any]
}

// The attempts of an export, and the wait after the first of them, which doubles.
const (
	attempts = 4
	backoff  = 500 * time.Millisecond
)

func newCollector(c Config) *collector {
	return &collector{Config: c, http: outbound.NewClient(outbound.Policy{Configured: []string{c.URL}}),
		retry: failsafe.With(retrypolicy.NewBuilder[any]().
			HandleIf(func(_ any, err error) bool { return err != nil && !errors.Is(err, errRefused) }).
			WithBackoff(backoff, c.Timeout/2+backoff+1).WithMaxAttempts(attempts).ReturnLastFailure().Build())}
}

// errRefused is what the same spans would meet again.
var errRefused = errors.New("the collector refuses the spans")

// maxAnswer is how much of an answer is read, so that its connection can be used again.
const maxAnswer = 64 << 10

// Start implements otlptrace.Client.
func (c *collector) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *collector) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. TracesData is on the wire what the request of
// the collector's service is.
func (c *collector) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	if c.Gzip {
		body = compress(body)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	return c.retry.WithContext(ctx).Run(func() error { return c.post(ctx, body) })
}

func (c *collector) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "aptix")
	if c.Gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	for name, value := range c.Headers {
		req.Header.Set(name, value.Reveal())
	}
	res, err := c.http.Do(req)
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err // the URL may hold what no log should
	}
	if err != nil {
		return err
	}
	_, _ = io.CopyN(io.Discard, res.Body, maxAnswer) // whatever comes of it, the status is there
	_ = res.Body.Close()
	switch s := res.StatusCode; {
	case s >= 200 && s < 300:
		return nil
	case s == http.StatusTooManyRequests || s >= 502 && s <= 504:
		return fmt.Errorf("the collector answered %d", s)
	default:
		return fmt.Errorf("%w: it answered %d", errRefused, s)
	}
}

func compress(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b) // a buffer takes everything
	_ = z.Close()
	return out.Bytes()
}

// Package export sends the spans of turns to a collector, by OTLP over HTTP. It is only
// built where a collector is configured. Turns never wait for it: spans wait in a bounded
// queue, and those that find it full are dropped and counted.
package export

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/aptixhq/aptix/internal/secret"
)

// Config says where spans go. URL is required; zero fields mean the default.
type Config struct {
	// URL is where spans are posted, /v1/traces included. It is the operator's word, so any
	// address will do.
	URL string
	// Headers go with each request.
	Headers map[string]secret.Text
	// Gzip compresses the requests.
	Gzip bool
	// Timeout bounds an export with all its attempts; default 10 s.
	Timeout time.Duration
	// Queue is how many spans may wait; default 2048.
	Queue int
	// Every is how often what waits is sent, if there is not a batch of it before; default
	// 5 s.
	Every time.Duration
	// Version is that of the build.
	Version string
	// Complain is told why spans could not be sent, at the first failure after a success.
	Complain func(error)
}

// batch is how many spans are sent at once at most.
const batch = 512

// Exporter makes spans and sends them.
type Exporter struct {
	provider *sdk.TracerProvider
	counts   counts
}

// counts are of spans, since the start.
type counts struct {
	waiting, exported, failed, dropped atomic.Int64
}

// New returns an exporter that runs until Close. The environment may name the service and
// its resource (OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES) and which traces are kept
// (OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG); by default all are whose caller says
// nothing else. The collector need not be there.
func New(c Config) (*Exporter, error) {
	if u, err := url.Parse(c.URL); err != nil || u.Host == "" {
		return nil, errors.New("export: want the URL of a collector")
	}
	if c.Timeout <= 0 {
		c.Timeout = 10 * time.Second
	}
	if c.Queue <= 0 {
		c.Queue = 2048
	}
	if c.Every <= 0 {
		c.Every = 5 * time.Second
	}
	about, err := resource.Merge(resource.NewSchemaless(
		attribute.String("service.name", "aptix"), attribute.String("service.version", c.Version)), resource.Environment())
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	x := &Exporter{}
	sending := &sender{SpanExporter: otlptrace.NewUnstarted(newCollector(c)), counts: &x.counts, complain: c.Complain}
	// Also what a library finds wrong with itself goes to our log, and not to standard error.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if c.Complain != nil {
			c.Complain(err)
		}
	}))
	x.provider = sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithSpanProcessor(&gate{
		SpanProcessor: sdk.NewBatchSpanProcessor(sending, sdk.WithMaxQueueSize(c.Queue), sdk.WithMaxExportBatchSize(min(batch, c.Queue)),
			sdk.WithBatchTimeout(c.Every), sdk.WithExportTimeout(c.Timeout)),
		counts: &x.counts, most: int64(c.Queue),
	}))
	return x, nil
}

// Tracer makes spans that are exported.
func (x *Exporter) Tracer() trace.Tracer { return x.provider.Tracer("github.com/aptixhq/aptix") }

// Counts are the spans that were sent, that could not be, and that were dropped because too
// many waited. A nil Exporter has none.
func (x *Exporter) Counts() (exported, failed, dropped int64) {
	if x == nil {
		return 0, 0, 0
	}
	return x.counts.exported.Load(), x.counts.failed.Load(), x.counts.dropped.Load()
}

// Flush sends what waits.
func (x *Exporter) Flush(ctx context.Context) error { return x.provider.ForceFlush(ctx) }

// Close sends what waits and ends. A nil Exporter does nothing.
func (x *Exporter) Close(ctx context.Context) error {
	if x == nil {
		return nil
	}
	return x.provider.Shutdown(ctx)
}

// gate lets no more spans to the queue than it has room for, so that what is dropped is
// dropped here, where it is counted.
type gate struct {
	sdk.SpanProcessor
	*counts
	most int64
}

// OnEnd implements sdk.SpanProcessor. It never waits.
func (g *gate) OnEnd(s sdk.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if g.waiting.Add(1) > g.most {
		g.waiting.Add(-1)
		g.dropped.Add(1)
		return
	}
	g.SpanProcessor.OnEnd(s)
}

// sender counts what becomes of the spans that leave the queue.
type sender struct {
	sdk.SpanExporter
	*counts
	complain func(error)
	failing  atomic.Bool
}

// ExportSpans implements sdk.SpanExporter.
func (s *sender) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	n := int64(len(spans))
	defer s.waiting.Add(-n)
	err := s.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		s.exported.Add(n)
		s.failing.Store(false)
		return nil
	}
	s.failed.Add(n)
	if !s.failing.Swap(true) && s.complain != nil {
		s.complain(err)
	}
	return nil
}

// TracesURL returns where spans are posted at a collector whose root is named.
func TracesURL(root string) string { return strings.TrimRight(root, "/") + "/v1/traces" }

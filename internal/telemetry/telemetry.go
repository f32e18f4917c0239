// Package telemetry measures and traces what turns do. A turn has a Run for as long as it
// runs in this process, on which its pipeline and its reasoner call what they begin and
// end; everything that becomes a metric, a span or an attribute of a log line is decided
// here. Package export sends the spans away.
//
// Metrics are always counted. Spans are only made where somebody has them exported; else a
// Run allocates nothing for them. Nothing here blocks, fails a turn, or knows what people
// and models wrote, unless Config.Content says so (S-27).
package telemetry

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/aptixhq/aptix/internal/agent"
)

// Config says what is measured. The zero value counts, and traces nothing.
type Config struct {
	// Tracer makes the spans; nil makes none.
	Tracer trace.Tracer
	// Content lets spans hold what people, models and tools wrote.
	Content bool
	// Provider names who answers model requests, as the conventions do: openai, for one.
	Provider string
	// Version is that of the build.
	Version string
}

// Telemetry is where a server notes what it does. Its methods may be called from many
// goroutines, and a nil Telemetry notes nothing.
type Telemetry struct {
	Config
	metrics  metrics
	registry *prometheus.Registry
	names    names
	process  sync.Once // registers what is known of the process
}

// New returns a Telemetry with all its metrics at zero.
func New(c Config) *Telemetry {
	t := &Telemetry{Config: c, metrics: newMetrics(), registry: prometheus.NewRegistry()}
	t.register()
	return t
}

// span begins a span where spans are made; else it returns the context as it is, and nil.
func (t *Telemetry) span(ctx context.Context, name string, kind trace.SpanKind, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	return t.Tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
}

// Delivery is an attempt to deliver a message to a webhook, in a trace of its own: it may
// come days after its turn.
type Delivery struct {
	t    *Telemetry
	span trace.Span
}

// StartDelivery begins one. Its context has the trace that the receiver is told of.
func (t *Telemetry) StartDelivery(ctx context.Context) (context.Context, Delivery) {
	if t == nil || t.Tracer == nil {
		return ctx, Delivery{t: t}
	}
	ctx, span := t.span(ctx, opDelivery, trace.SpanKindClient, attrOperation.String(opDelivery))
	return ctx, Delivery{t, span}
}

// End says what came of the attempt.
func (d Delivery) End(outcome agent.DeliveryOutcome) {
	if d.t == nil {
		return
	}
	d.t.metrics.deliveries.WithLabelValues(string(outcome)).Inc()
	if d.span != nil {
		if outcome != agent.DeliveryDelivered {
			fail(d.span, string(outcome))
		}
		d.span.End()
	}
}

package telemetry

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// w3c reads and writes traceparent and tracestate, and nothing else: no baggage is read,
// kept or passed on, since whoever sends it is not who configures us (S-10).
var w3c = propagation.TraceContext{}

const headerParent = "Traceparent"

// Extract returns a context that goes on with the trace of a request, if it has one.
func Extract(ctx context.Context, h http.Header) context.Context {
	if len(h[headerParent]) != 1 {
		return ctx
	}
	return w3c.Extract(ctx, propagation.HeaderCarrier(h))
}

// Inject tells the receiver of a request which trace it is part of, if there is one. What
// the client's own system keeps beside it (tracestate) is not for providers and tools.
func Inject(ctx context.Context, h http.Header) {
	if at := Kept(ctx); at != "" {
		h.Set(headerParent, at)
	}
}

// Kept returns the trace of a context in the form in which a journal keeps it.
func Kept(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	h := propagation.MapCarrier{}
	w3c.Inject(ctx, h)
	return h.Get("traceparent")
}

// restore is Kept, backwards.
func restore(ctx context.Context, kept string) context.Context {
	if kept == "" {
		return ctx
	}
	return w3c.Extract(ctx, propagation.MapCarrier{"traceparent": kept})
}

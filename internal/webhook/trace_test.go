package webhook

import (
	"strings"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/aptixhq/aptix/internal/telemetry"
)

// The receiver is told the trace of the attempt, which is counted.
func TestDeliverer_TellsTheTrace(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	watched := telemetry.New(telemetry.Config{Tracer: sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("test")})
	r := newRig(t)
	stop := r.deliver(func(c *Config) { c.Telemetry = watched })
	r.completes("s1")
	r.outcome("delivered", delivered)
	stop()
	ended := spans.Ended()
	if len(ended) != 1 {
		t.Fatalf("%d spans, want one of the attempt", len(ended))
	}
	at := ended[0].SpanContext()
	if got, want := r.arrived()[0].header.Get("Traceparent"), "00-"+at.TraceID().String()+"-"+at.SpanID().String()+"-01"; got != want {
		t.Errorf("the receiver was told %q, want %q", got, want)
	}
	var text strings.Builder
	if err := watched.WriteMetrics(&text); err != nil {
		t.Fatal(err)
	}
	if want := `aptix_webhook_attempts_total{outcome="delivered"} 1`; !strings.Contains(text.String(), want) {
		t.Errorf("no %s in the metrics", want)
	}
}

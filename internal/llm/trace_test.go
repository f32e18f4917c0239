package llm_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/secret"
	"github.com/aptixhq/aptix/internal/telemetry"
)

// TestAsk_TellsTheTrace: the provider is told which trace a request is part of, and nothing
// else of what a client's own system sent along.
// It holds row S-10 of docs/security.md.
func TestAsk_TellsTheTrace(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	got := make(chan http.Header, 1)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got <- r.Header
		w.WriteHeader(http.StatusBadRequest)
	}))
	t.Cleanup(provider.Close)
	client := llm.New(llm.Config{BaseURL: provider.URL, APIKey: secret.New("k")})
	t.Cleanup(client.Close)
	ask := func(ctx context.Context) http.Header {
		for range client.Ask(ctx, &llm.Wire{Head: "{}"}, false) {
		}
		return <-got
	}
	h := ask(telemetry.Extract(t.Context(), http.Header{"Traceparent": {parent}, "Tracestate": {"a=b"}, "Baggage": {"c=d"}}))
	if h.Get("Traceparent") != parent || h.Get("Tracestate") != "" || h.Get("Baggage") != "" {
		t.Errorf("the provider was told %v", h)
	}
	if h := ask(t.Context()); h.Get("Traceparent") != "" {
		t.Errorf("the provider was told of a trace that there is not: %v", h)
	}
	for _, bad := range []string{"", "00-1-2-3", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-00000000000000000000000000000000-b7ad6b7169203331-01"} {
		if h := ask(telemetry.Extract(t.Context(), http.Header{"Traceparent": {bad}})); h.Get("Traceparent") != "" {
			t.Errorf("%q went on as %q", bad, h.Get("Traceparent"))
		}
	}
}

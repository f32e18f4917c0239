// Package otlptest is a collector of traces for tests: it takes OTLP over HTTP as the real
// ones do, and shows what it got as trees.
package otlptest

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector keeps the spans that it was sent.
type Collector struct {
	// URL is its root.
	URL string

	mu    sync.Mutex // guards what follows
	spans []*tracepb.Span
	head  []http.Header
	raw   []byte
	// refusal is what it answers instead; 0 takes everything.
	refusal int
	asked   int

	held sync.RWMutex // locked while nobody is answered
}

// Start starts a collector on this machine, until the test ends.
func Start(t testing.TB) *Collector {
	c := &Collector{}
	s := httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(s.Close)
	c.URL = s.URL
	return c
}

// Refuse has the collector answer with a status; 0 takes everything again.
func (c *Collector) Refuse(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refusal = status
}

// Hold has whoever asks wait for LetGo.
func (c *Collector) Hold() { c.held.Lock() }

// LetGo ends Hold.
func (c *Collector) LetGo() { c.held.Unlock() }

// Asked is how many requests came.
func (c *Collector) Asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func (c *Collector) serve(w http.ResponseWriter, r *http.Request) {
	c.held.RLock()
	defer c.held.RUnlock()
	if r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "not OTLP over HTTP", http.StatusBadRequest)
		return
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = z
	}
	b, err := io.ReadAll(body)
	var data tracepb.TracesData
	if err == nil {
		err = proto.Unmarshal(b, &data)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.refusal != 0 {
		w.WriteHeader(c.refusal)
		return
	}
	c.head, c.raw = append(c.head, r.Header.Clone()), append(c.raw, b...)
	for _, rs := range data.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
}

// Spans returns what came so far.
func (c *Collector) Spans() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Headers returns those of all requests.
func (c *Collector) Headers() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.head)
}

// Bytes returns all that came, as it came, but uncompressed.
func (c *Collector) Bytes() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.raw)
}

// Await waits until a number of spans has come.
func (c *Collector) Await(ctx context.Context, n int) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		got := len(c.Spans())
		if got >= n {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d spans have come, want %d: %w", got, n, ctx.Err())
		}
	}
}

// volatile are attributes whose values no two runs have in common.
var volatile = []string{"gen_ai.response.time_to_first_chunk"}

// Tree renders the spans of a trace, each under its parent in the order in which they
// began: name, kind, attributes and events, without ids and times.
func (c *Collector) Tree() string {
	spans := c.Spans()
	slices.SortStableFunc(spans, func(a, b *tracepb.Span) int { return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano)) })
	known := map[string]bool{}
	for _, s := range spans {
		known[string(s.SpanId)] = true
	}
	var b strings.Builder
	var write func(parent string, depth int)
	write = func(parent string, depth int) {
		for _, s := range spans {
			under := string(s.ParentSpanId)
			if !known[under] {
				under = "" // of somebody else
			}
			if under == parent {
				writeSpan(&b, s, strings.Repeat("  ", depth))
				write(string(s.SpanId), depth+1)
			}
		}
	}
	write("", 0)
	return b.String()
}

func writeSpan(b *strings.Builder, s *tracepb.Span, indent string) {
	kind := strings.ToLower(strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_"))
	fmt.Fprintf(b, "%s%s (%s)", indent, s.Name, kind)
	if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		fmt.Fprintf(b, " ERROR %s", s.Status.Message)
	}
	b.WriteByte('\n')
	writeAttributes(b, s.Attributes, indent+"    ")
	for _, l := range s.Links {
		fmt.Fprintf(b, "%s  → linked to trace %s\n", indent, hex.EncodeToString(l.TraceId))
	}
	for _, e := range s.Events {
		fmt.Fprintf(b, "%s  • %s\n", indent, e.Name)
		writeAttributes(b, e.Attributes, indent+"      ")
	}
}

func writeAttributes(b *strings.Builder, attrs []*commonpb.KeyValue, indent string) {
	for _, a := range attrs {
		value := "…"
		if !slices.Contains(volatile, a.Key) {
			value = valueOf(a.Value)
		}
		fmt.Fprintf(b, "%s%s = %s\n", indent, a.Key, value)
	}
}

func valueOf(v *commonpb.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	case *commonpb.AnyValue_BoolValue:
		return fmt.Sprint(v.BoolValue)
	case *commonpb.AnyValue_DoubleValue:
		return fmt.Sprint(v.DoubleValue)
	}
	return fmt.Sprint(v)
}

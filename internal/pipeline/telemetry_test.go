package pipeline_test

import (
	"context"
	"encoding/hex"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/telemetry"
	"github.com/aptixhq/aptix/internal/telemetry/export"
	"github.com/aptixhq/aptix/internal/telemetry/otlptest"
)

// traced has what the rig does exported to a collector, spans first to last in one batch.
func traced(t *testing.T, c telemetry.Config, to export.Config) (*telemetry.Telemetry, *export.Exporter) {
	t.Helper()
	exporter, err := export.New(to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = exporter.Close(context.Background()) })
	c.Tracer, c.Provider = exporter.Tracer(), "openai"
	return telemetry.New(c), exporter
}

// The trace that the client of these tests is part of.
const (
	clientTrace  = "0af7651916cd43dd8448eb211c80319c"
	clientParent = "00-" + clientTrace + "-b7ad6b7169203331-01"
)

// fromClient is a request's context of a client that traces.
func fromClient(ctx context.Context, request string) context.Context {
	ctx = telemetry.Extract(ctx, http.Header{"Traceparent": {clientParent}, "Baggage": {"canary=baggage"}})
	return agent.WithOrigin(ctx, agent.Origin{Request: request})
}

// toolsAndModeChange is a turn that retrieves, runs two server tools of which one changes
// the mode, hands a tool to its client, and ends.
func toolsAndModeChange() []llmtest.Reply {
	used := agent.Usage{InputTokens: 100, OutputTokens: 20, TotalTokens: 120, CachedTokens: 40, ReasoningTokens: 5}
	return []llmtest.Reply{
		{Usage: used, Calls: []llmtest.Call{
			{ID: "c1", Name: "agent_list_modes", Arguments: "{}"},
			{ID: "c2", Name: "agent_change_mode", Arguments: `{"mode":"ddr_authoring","branch":false,"reason":"canary-reason"}`},
		}},
		{Usage: used, Calls: []llmtest.Call{{ID: "c3", Name: "read_file", Arguments: `{"path":"canary-path"}`}}},
		{Usage: used, Text: "canary-answer"},
	}
}

// runTraced runs that turn, with a request for each half.
func runTraced(t *testing.T, r *rig) agent.Turn {
	t.Helper()
	r.createWithTools("s1")
	stream := true
	turn := contract.UserTurn{SessionID: "s1", TurnID: "t1", Instruction: "canary-instruction: the harbour?", Stream: &stream}
	key, _, err := r.pipeline.Submit(fromClient(t.Context(), "req-1"), caller, turn)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.await(key); got.State != agent.TurnWaiting {
		t.Fatalf("the turn is %s: %+v", got.State, got.Fault)
	}
	result := `{"text":"canary-result"}`
	_, _, _, err = r.pipeline.Proceed(fromClient(t.Context(), "req-2"), caller, pipeline.Continuation{ToolContinuation: contract.ToolContinuation{
		SessionID: "s1", TurnID: "t1", ToolResults: []contract.ToolResult{{ToolCallID: "c3", ResultJSON: &result}}}})
	if err != nil {
		t.Fatal(err)
	}
	return r.await(key)
}

// TestTrace_OfATurn: a turn with retrieval, tools, a change of the mode and a wait is one
// trace, the client's, as a collector gets it.
func TestTrace_OfATurn(t *testing.T) {
	collector := otlptest.Start(t)
	watched, exporter := traced(t, telemetry.Config{}, export.Config{URL: export.TracesURL(collector.URL)})
	r := newRig(t, func(r *rig) { r.watched = watched }, withDocuments(caller.Org, harbour("The harbour is old.")), withModel(t, toolsAndModeChange()...))
	if got := runTraced(t, r); got.State != agent.TurnCompleted {
		t.Fatalf("the turn is %s: %+v", got.State, got.Fault)
	}
	r.stop() // its goroutines have ended their spans
	if err := exporter.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range collector.Spans() {
		if got := hexOf(s.TraceId); got != clientTrace {
			t.Errorf("span %s is in trace %s, want the client's", s.Name, got)
		}
	}
	golden(t, "testdata/trace.golden", collector.Tree())
	t.Logf("\n%s", collector.Tree())
	if strings.Contains(collector.Bytes(), "canary") {
		t.Error("the spans hold what was written, or the client's baggage")
	}
}

// TestTrace_Content: with the flag, and only then, spans hold what was written.
// It holds row S-27 of docs/security.md.
func TestTrace_Content(t *testing.T) {
	for _, content := range []bool{false, true} {
		collector := otlptest.Start(t)
		watched, exporter := traced(t, telemetry.Config{Content: content}, export.Config{URL: export.TracesURL(collector.URL), Gzip: true})
		r := newRig(t, func(r *rig) { r.watched = watched }, withModel(t, toolsAndModeChange()...))
		runTraced(t, r)
		r.stop()
		if err := exporter.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		sent := collector.Bytes()
		for _, canary := range []string{"canary-instruction", "canary-reason", "canary-result", "canary-answer"} {
			if got := strings.Contains(sent, canary); got != content {
				t.Errorf("content %v: %s is in the spans: %v", content, canary, got)
			}
		}
		if strings.Contains(sent, "baggage") {
			t.Error("the client's baggage went on")
		}
	}
}

// TestTrace_GoesOnAfterARestart: a turn that was broken off goes on in its trace, also when
// its client traces nothing.
func TestTrace_GoesOnAfterARestart(t *testing.T) {
	collector := otlptest.Start(t)
	watched, exporter := traced(t, telemetry.Config{}, export.Config{URL: export.TracesURL(collector.URL)})
	never := make(chan struct{})
	defer close(never)
	r := newRig(t, func(r *rig) { r.watched = watched }, withModel(t, llmtest.Reply{Text: "Cut.", Block: never}, llmtest.Reply{Text: "Whole."}))
	k := r.submit(userTurn("s1", "t1", "Hello"))
	r.asked(1)
	r.drainAtOnce()
	r.stop()
	r.start()
	if got := r.await(k); got.State != agent.TurnCompleted {
		t.Fatalf("the turn is %s: %+v", got.State, got.Fault)
	}
	r.stop()
	if err := exporter.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	traces := map[string]bool{}
	for _, s := range collector.Spans() {
		traces[hexOf(s.TraceId)] = true
	}
	if len(traces) != 1 || !strings.Contains(collector.Tree(), "agent.turn.resumed = true") {
		t.Errorf("%d traces, want one with a resumed run:\n%s", len(traces), collector.Tree())
	}
}

// TestTrace_CollectorIsDown: a collector that is not there, or takes nothing, neither slows
// nor fails a turn; what is lost is counted.
func TestTrace_CollectorIsDown(t *testing.T) {
	watched, exporter := traced(t, telemetry.Config{}, export.Config{URL: "http://127.0.0.1:1/v1/traces", Queue: 8, Every: time.Hour, Timeout: 50 * time.Millisecond})
	r := newRig(t, func(r *rig) { r.watched = watched }, withModel(t, toolsAndModeChange()...))
	if got := runTraced(t, r); got.State != agent.TurnCompleted {
		t.Fatalf("the turn is %s: %+v", got.State, got.Fault)
	}
	r.stop()
	if err := exporter.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	exported, failed, dropped := exporter.Counts()
	if exported != 0 || failed == 0 || failed+dropped < 9 {
		t.Errorf("exported %d, failed %d, dropped %d", exported, failed, dropped)
	}
}

// TestLogs_IDsOfATurn: what is said of a turn while it runs names its request, the turn and
// its trace.
func TestLogs_IDsOfATurn(t *testing.T) {
	collector := otlptest.Start(t)
	watched, _ := traced(t, telemetry.Config{}, export.Config{URL: export.TracesURL(collector.URL)})
	var out lockedBuffer
	log := slog.New(telemetry.Logs(slog.NewTextHandler(&out, nil)))
	r := newRig(t, func(r *rig) { r.watched, r.log = watched, log },
		withModel(t, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "nowhere", Arguments: "{}"}}}, llmtest.Reply{Status: http.StatusBadRequest}))
	k, _, err := r.pipeline.Submit(fromClient(t.Context(), "req-1"), caller, userTurn("s1", "t1", "Hello"))
	if err != nil {
		t.Fatal(err)
	}
	r.await(k)
	r.stop()
	lines := 0
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "schema migrated") {
			continue
		}
		lines++
		for _, want := range []string{"requestId=req-1", "turn=acme/s1/t1", "traceId=" + clientTrace} {
			if strings.Count(line, want) != 1 {
				t.Errorf("want one %s in %s", want, line)
			}
		}
	}
	if lines < 2 {
		t.Errorf("%d lines, want one of the unknown tool and one of the fault:\n%s", lines, out.String())
	}
}

// TestMetrics_OfATurn: what a turn did is counted, without a word of who had it run.
func TestMetrics_OfATurn(t *testing.T) {
	watched := telemetry.New(telemetry.Config{Provider: "openai"})
	r := newRig(t, func(r *rig) { r.watched = watched }, withModel(t, toolsAndModeChange()...))
	runTraced(t, r)
	r.stop()
	var text strings.Builder
	if err := watched.WriteMetrics(&text); err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for name, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetValue())
			}
			if c := m.GetCounter(); c != nil && strings.HasPrefix(name, "aptix_") && c.GetValue() > 0 {
				got[name+"{"+strings.Join(labels, ",")+"}"] = c.GetValue()
			}
			if h := m.GetHistogram(); h != nil && strings.HasPrefix(name, "aptix_") && h.GetSampleCount() > 0 {
				got[name+"{"+strings.Join(labels, ",")+"}"] = float64(h.GetSampleCount())
			}
		}
	}
	want := map[string]float64{
		"aptix_turns_total{general,waiting}":                 1,
		"aptix_turns_total{general,completed}":               1,
		"aptix_turn_added_seconds{}":                         2,
		"aptix_model_call_seconds{test-model,ok,openai}":     3,
		"aptix_model_first_delta_seconds{test-model,openai}": 1,
		"aptix_tool_calls_total{ok,agent_list_modes}":        1,
		"aptix_tool_calls_total{ok,agent_change_mode}":       1,
		"aptix_tokens_total{input,test-model}":               300, "aptix_tokens_total{output,test-model}": 60,
		"aptix_tokens_total{cached,test-model}": 120, "aptix_tokens_total{reasoning,test-model}": 15,
		"aptix_tool_calls_total{ok,other}": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for _, canary := range []string{"canary", "acme", "alice", "s1", clientTrace} {
		if strings.Contains(text.String(), canary) {
			t.Errorf("the metrics hold %q", canary)
		}
	}
}

func hexOf(id []byte) string { return hex.EncodeToString(id) }

// golden compares a text with a file; -update writes it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: -want +got\n%s", file, diff)
	}
}

// lockedBuffer is a buffer that several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

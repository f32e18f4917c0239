package telemetry

import (
	"context"
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/aptixhq/aptix/internal/agent"
)

// aTurn notes all that is noted of a turn with a streamed model call and a tool.
func aTurn(t *Telemetry, r *Run) {
	ctx := context.Background()
	*r = t.Begin(ctx, Turn{Key: agent.TurnKey{Org: "o", Session: "s", Turn: "t"}, Mode: "general", Model: "m", Request: "req"})
	_ = r.Kept()
	r.Started()
	ctx = r.Within(ctx)
	asking, call := r.StartModel(ctx, &asked)
	_ = asking
	call.Delta()
	call.Delta()
	call.Answered("resp", agent.Usage{InputTokens: 1, OutputTokens: 1, TotalTokens: 2}, nil)
	call.End()
	_, tool := r.StartTool(ctx, agent.ToolCall{ID: "c", Name: "look"})
	tool.End(agent.ToolResult{Code: agent.OutcomeOK})
	r.Tool("look", agent.OutcomeOK)
	_, settle := r.StartSettle(ctx)
	settle.End()
	r.End(steps)
	t.Committed(1, 1)
}

var (
	asked = agent.Asked{Call: 1, Mode: "general"}
	steps = []agent.Step{{Kind: agent.StepSettled, Settled: &agent.Settled{State: agent.TurnCompleted}}}
)

// TestRun_CostsNothingWhenNobodyTraces: without traces a turn allocates nothing for them. What
// is left is the context by which its log lines know it.
func TestRun_CostsNothingWhenNobodyTraces(t *testing.T) {
	var r Run
	for name, tt := range map[string]struct {
		telemetry *Telemetry
		most      float64
	}{"nothing": {nil, 0}, "metrics": {New(Config{}), 1}} {
		aTurn(tt.telemetry, &r) // its labels are new
		if got := testing.AllocsPerRun(100, func() { aTurn(tt.telemetry, &r) }); got > tt.most {
			t.Errorf("%s: %g allocations a turn, want %g", name, got, tt.most)
		}
	}
}

// BenchmarkRun is what noting a turn costs.
func BenchmarkRun(b *testing.B) {
	for _, bb := range []struct {
		name      string
		telemetry *Telemetry
	}{
		{"nothing", nil}, {"metrics", New(Config{})},
		{"traces", New(Config{Tracer: trace.NewTracerProvider().Tracer("t")})},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			var r Run
			for b.Loop() {
				aTurn(bb.telemetry, &r)
			}
		})
	}
}

func TestNames_AreBounded(t *testing.T) {
	var n names
	for i := range maxNames {
		if name := fmt.Sprint("mode-", i); n.label(name) != name {
			t.Fatalf("%s is no label", name)
		}
	}
	if got := n.label("one more"); got != other {
		t.Errorf("got %q, want %q", got, other)
	}
	if got := n.label("mode-7"); got != "mode-7" {
		t.Errorf("got %q for a name that is known", got)
	}
	if got := n.label(""); got != other {
		t.Errorf("got %q for no name", got)
	}
}

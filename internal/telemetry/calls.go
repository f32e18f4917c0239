package telemetry

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/aptixhq/aptix/internal/agent"
)

// maxContent bounds each text of people, models and tools in a span, in bytes.
const maxContent = 16 << 10

// ModelCall is a model call of a run. A nil one notes nothing.
type ModelCall struct {
	run   *Run
	span  trace.Span
	began time.Time
	ended time.Time
	first time.Duration // until the first piece of text
	fault agent.Kind    // "" while there is none
}

// StartModel begins a model call. Its context has the trace that the provider is told of.
func (r *Run) StartModel(ctx context.Context, asked *agent.Asked) (context.Context, *ModelCall) {
	if r.t == nil {
		return ctx, nil
	}
	r.call = ModelCall{run: r, began: time.Now()}
	c := &r.call // a run makes one at a time, and need not allocate each
	if r.span == nil {
		return ctx, c
	}
	ctx, c.span = r.t.span(ctx, opModel+" "+r.turn.Model, trace.SpanKindClient,
		attrOperation.String(opModel), attrProvider.String(r.t.Provider), attrRequestModel.String(r.turn.Model),
		attrConversation.String(string(r.turn.Key.Session)), attrTurn.String(string(r.turn.Key.Turn)), attrModelCall.Int(asked.Call),
		attrMode.String(string(asked.Mode)))
	if r.t.Content {
		c.span.SetAttributes(attrInput.String(items(asked.NewItems)))
	}
	return ctx, c
}

// Delta notes a piece of text.
func (c *ModelCall) Delta() {
	if c != nil && c.first == 0 {
		c.first = time.Since(c.began)
	}
}

// Answered notes the end of the answer, what it used, and what it is.
func (c *ModelCall) Answered(id string, used agent.Usage, output []json.RawMessage) {
	if c == nil {
		return
	}
	c.ended = time.Now()
	model := c.run.t.names.label(c.run.turn.Model)
	for _, n := range []struct {
		direction string
		tokens    int64
	}{{"input", used.InputTokens}, {"output", used.OutputTokens}, {"cached", used.CachedTokens}, {"reasoning", used.ReasoningTokens}} {
		if n.tokens > 0 {
			c.run.t.metrics.tokens.WithLabelValues(n.direction, model).Add(float64(n.tokens))
		}
	}
	if c.span == nil {
		return
	}
	c.span.SetAttributes(attrResponseID.String(id), attrInputTokens.Int64(used.InputTokens), attrOutputTokens.Int64(used.OutputTokens),
		attrCachedTokens.Int64(used.CachedTokens), attrReasonedTokens.Int64(used.ReasoningTokens))
	if c.run.t.Content {
		c.span.SetAttributes(attrOutput.String(items(output)))
	}
}

// Failed notes that the call ends with a fault.
func (c *ModelCall) Failed(fault agent.Kind) {
	if c != nil {
		c.ended, c.fault = time.Now(), fault
	}
}

// End ends the call. One of which nothing was heard to the end was broken off.
func (c *ModelCall) End() {
	if c == nil {
		return
	}
	outcome := "ok"
	switch {
	case c.fault != "":
		outcome = string(c.fault)
	case c.ended.IsZero():
		outcome, c.ended = "broken_off", time.Now()
	}
	took := c.ended.Sub(c.began)
	c.run.elsewhere += took
	m, model := &c.run.t.metrics, c.run.t.names.label(c.run.turn.Model)
	m.calls.WithLabelValues(c.run.t.Provider, model, outcome).Observe(took.Seconds())
	if c.first > 0 {
		m.firstDelta.WithLabelValues(c.run.t.Provider, model).Observe(c.first.Seconds())
	}
	if c.span == nil {
		return
	}
	if c.first > 0 {
		c.span.SetAttributes(attrFirstDelta.Float64(c.first.Seconds()))
	}
	if outcome != "ok" {
		fail(c.span, outcome)
	}
	c.span.End(trace.WithTimestamp(c.ended))
}

// ToolCall is the run of a server tool.
type ToolCall struct {
	run   *Run
	span  trace.Span
	began time.Time
}

// StartTool begins the run of a tool. Its context has the trace that the tool is told of.
func (r *Run) StartTool(ctx context.Context, call agent.ToolCall) (context.Context, ToolCall) {
	if r.t == nil {
		return ctx, ToolCall{}
	}
	c := ToolCall{run: r, began: time.Now()}
	if r.span == nil {
		return ctx, c
	}
	ctx, c.span = r.t.span(ctx, opTool+" "+call.Name, trace.SpanKindInternal,
		attrOperation.String(opTool), attrToolName.String(call.Name), attrToolCall.String(string(call.ID)), attrTurn.String(string(r.turn.Key.Turn)))
	if r.t.Content {
		c.span.SetAttributes(attrArguments.String(cut(call.Arguments)))
	}
	return ctx, c
}

// End ends it.
func (c *ToolCall) End(res agent.ToolResult) {
	if c.run == nil {
		return
	}
	c.run.elsewhere += time.Since(c.began)
	if c.span == nil {
		return
	}
	c.span.SetAttributes(attrToolOutcome.String(string(res.Code)))
	if c.run.t.Content {
		c.span.SetAttributes(attrResult.String(cut(res.Result + res.Err)))
	}
	if res.Code != agent.OutcomeOK {
		fail(c.span, string(res.Code))
	}
	c.span.End()
}

// Tool counts the result of a call of the model, also of one that ran nothing. name is ""
// for a tool that the turn does not have: then it is the model's word.
func (r *Run) Tool(name string, outcome agent.ToolOutcome) {
	if r.t != nil {
		r.t.metrics.tools.WithLabelValues(r.t.names.label(name), string(outcome)).Inc()
	}
}

// Span is a part of a turn that has a beginning and an end, and nothing else.
type Span struct{ span trace.Span }

// StartRetrieval begins to look for what the model is shown.
func (r *Run) StartRetrieval(ctx context.Context) (context.Context, Span) {
	return r.part(ctx, opRetrieval)
}

// StartSettle begins to write where the turn rests.
func (r *Run) StartSettle(ctx context.Context) (context.Context, Span) { return r.part(ctx, opSettle) }

func (r *Run) part(ctx context.Context, name string) (context.Context, Span) {
	if !r.traced() {
		return ctx, Span{}
	}
	ctx, span := r.t.span(trace.ContextWithSpan(ctx, r.span), name, trace.SpanKindInternal, attrOperation.String(name), attrTurn.String(string(r.turn.Key.Turn)))
	return ctx, Span{span}
}

// Found notes how many passages retrieval gave.
func (s Span) Found(passages int) {
	if s.span != nil {
		s.span.SetAttributes(attrPassages.Int(passages))
	}
}

// End ends it.
func (s Span) End() {
	if s.span != nil {
		s.span.End()
	}
}

// items renders items of a conversation for a span.
func items(raw []json.RawMessage) string {
	var b strings.Builder
	b.WriteByte('[')
	for i, item := range raw {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(item)
		if b.Len() > maxContent {
			break
		}
	}
	b.WriteByte(']')
	return cut(b.String())
}

// cut shortens a text of a span.
func cut(s string) string {
	if len(s) <= maxContent {
		return s
	}
	return strings.ToValidUTF8(s[:maxContent], "") + "…"
}

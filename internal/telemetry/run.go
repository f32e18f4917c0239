package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/aptixhq/aptix/internal/agent"
)

// Turn is what is known of a turn when it begins to run.
type Turn struct {
	Key   agent.TurnKey
	Mode  agent.ModeKey
	Model string
	// Request is the id of the request that has it run.
	Request string
}

// Run is a turn while it runs in this process: from its beginning, its continuation or its
// resumption to where it rests. One goroutine uses it at a time. The zero Run, and a nil
// one, note nothing.
type Run struct {
	t     *Telemetry
	turn  Turn
	began time.Time
	// elsewhere is how long the provider and tools took.
	elsewhere time.Duration
	counted   bool
	// at is the trace that the run is part of, its own span if it has one; empty when nobody
	// traces and its client did not either.
	at   trace.SpanContext
	kept string
	span trace.Span // nil when there is none
	// call is the model call under way, or the last one.
	call ModelCall
}

type runKey struct{}

// Begin begins the run of a turn that its client sends: the trace in the context goes on.
func (t *Telemetry) Begin(ctx context.Context, turn Turn) Run { return t.begin(ctx, turn, "", false) }

// GoOn begins the run of a turn that goes on: in the trace that Run.Kept returned when it
// began. What the context has of a trace is that of the request which has it go on, and is
// linked.
func (t *Telemetry) GoOn(ctx context.Context, turn Turn, kept string, resumed bool) Run {
	return t.begin(ctx, turn, kept, resumed)
}

func (t *Telemetry) begin(ctx context.Context, turn Turn, kept string, resumed bool) Run {
	if t == nil {
		return Run{}
	}
	r := Run{t: t, turn: turn, began: time.Now(), kept: kept}
	caller := trace.SpanContextFromContext(ctx)
	ctx = restore(ctx, kept)
	if resumed {
		t.metrics.resumed.Inc()
	}
	if t.Tracer != nil {
		r.trace(ctx, caller, resumed)
	}
	r.at = trace.SpanContextFromContext(ctx)
	if r.span != nil {
		r.at = r.span.SpanContext()
	}
	return r
}

// trace begins the span of a run.
func (r *Run) trace(ctx context.Context, caller trace.SpanContext, resumed bool) {
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attrOperation.String(opTurn), attrProvider.String(r.t.Provider), attrConversation.String(string(r.turn.Key.Session)),
		attrTurn.String(string(r.turn.Key.Turn)), attrMode.String(string(r.turn.Mode)), attrRequestModel.String(r.turn.Model))}
	if resumed {
		options = append(options, trace.WithAttributes(attrResumed.Bool(true)))
	}
	if at := trace.SpanContextFromContext(ctx); caller.IsValid() && caller.TraceID() != at.TraceID() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: caller}))
	}
	_, r.span = r.t.Tracer.Start(ctx, opTurn+" "+string(r.turn.Mode), options...)
}

// Kept is the trace of the run as the turn's journal keeps it, so that the turn goes on in
// it after a wait, a crash, or on another node; empty when there is none.
func (r *Run) Kept() string {
	if r.kept == "" && r.at.IsValid() {
		r.kept = Kept(trace.ContextWithSpanContext(context.Background(), r.at))
	}
	return r.kept
}

// Within returns the context in which the turn runs. Its log lines and its requests have
// the ids of the turn.
func (r *Run) Within(ctx context.Context) context.Context {
	if r.t == nil {
		return ctx
	}
	ctx = context.WithValue(ctx, runKey{}, r)
	switch {
	case r.span != nil:
		return trace.ContextWithSpan(ctx, r.span)
	case r.at.IsValid():
		return trace.ContextWithSpanContext(ctx, r.at)
	}
	return ctx
}

// Started counts the turn as a running one, until End.
func (r *Run) Started() {
	if r.t != nil {
		r.counted = true
		r.t.metrics.running.Inc()
	}
}

// event notes a moment of the turn.
func (r *Run) event(name string, attrs ...attribute.KeyValue) {
	r.span.AddEvent(name, trace.WithAttributes(attrs...))
}

// ModeChanged notes that the model has changed the mode.
func (r *Run) ModeChanged(to agent.ModeSwitch) {
	if r.traced() {
		r.event(eventModeChanged, attrModeFrom.String(string(to.PreviousMode)), attrModeTo.String(string(to.Mode)))
	}
}

// WentOn notes with what the turn goes on: decisions of its user, or results of its client.
func (r *Run) WentOn(steps []agent.Step) {
	if r.t == nil {
		return
	}
	for _, s := range steps {
		if d := s.Decided; d != nil && r.traced() {
			r.event(eventDecided, attrToolCall.String(string(d.Call)), attrDecision.String(string(d.Decision)))
		}
		if s.Continued == nil {
			continue
		}
		for _, res := range s.Continued.Results {
			r.t.metrics.tools.WithLabelValues(other, string(res.Code)).Inc()
		}
	}
}

func (r *Run) traced() bool { return r != nil && r.span != nil }

// End ends the run. The last of the turn's steps says where it rests; a run that was broken
// off and goes on elsewhere or later rests nowhere.
func (r *Run) End(steps []agent.Step) {
	if r.t == nil {
		return
	}
	if r.counted {
		r.t.metrics.running.Dec()
	}
	state, fault := restsIn(steps)
	if state != "" {
		r.t.metrics.added.Observe(max(0, time.Since(r.began)-r.elsewhere).Seconds())
		r.t.Rests(state, r.turn.Mode)
	}
	if r.span == nil {
		return
	}
	if state == agent.TurnWaiting {
		r.waits(steps)
	}
	if state != "" {
		r.span.SetAttributes(attrState.String(string(state)))
	}
	if fault != nil {
		fail(r.span, string(fault.Kind))
	}
	r.span.End()
}

// waits notes what the turn waits for.
func (r *Run) waits(steps []agent.Step) {
	last := len(steps) - 1
	for i := last - 1; i >= 0 && steps[i].AskedUser != nil; i-- {
		a := steps[i].AskedUser
		r.event(eventAsked, attrApproval.String(string(a.ID)), attrToolName.String(a.Name), attrToolCall.String(string(a.Call)))
	}
	r.event(eventWaiting, attrCalls.Int(len(steps[last].Waiting.Calls)))
}

// restsIn returns the state in which a turn with these steps rests, and why it failed.
func restsIn(steps []agent.Step) (agent.TurnState, *agent.Fault) {
	if len(steps) == 0 {
		return "", nil
	}
	switch last := steps[len(steps)-1]; {
	case last.Settled != nil:
		return last.Settled.State, last.Settled.Fault
	case last.Waiting != nil:
		return agent.TurnWaiting, nil
	}
	return "", nil
}

// Rests counts a turn that came to rest.
func (t *Telemetry) Rests(state agent.TurnState, mode agent.ModeKey) {
	if t != nil {
		t.metrics.turns.WithLabelValues(string(state), t.names.label(string(mode))).Inc()
	}
}

// fail marks a span as failed, with a word from a closed set: what an error says may be
// anybody's words.
func fail(s trace.Span, kind string) {
	s.SetAttributes(attrErrorType.String(kind))
	s.SetStatus(codes.Error, kind)
}

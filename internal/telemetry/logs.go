package telemetry

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/aptixhq/aptix/internal/agent"
)

// Logs returns a handler that gives each line the ids of what it is about, as its context
// knows them: requestId, turn and traceId. A line that has one of them already keeps it.
func Logs(next slog.Handler) slog.Handler { return logs{next} }

type logs struct{ slog.Handler }

// Handle implements slog.Handler.
func (l logs) Handle(ctx context.Context, r slog.Record) error {
	var requested, turned bool
	r.Attrs(func(a slog.Attr) bool {
		requested = requested || a.Key == "requestId"
		turned = turned || a.Key == "turn"
		return true
	})
	run, _ := ctx.Value(runKey{}).(*Run)
	if id := requestOf(ctx, run); id != "" && !requested {
		r.AddAttrs(slog.String("requestId", id))
	}
	if run != nil && !turned {
		r.AddAttrs(slog.String("turn", run.turn.Key.String()))
	}
	if at := trace.SpanContextFromContext(ctx); at.IsValid() {
		r.AddAttrs(slog.String("traceId", at.TraceID().String()))
	}
	return l.Handler.Handle(ctx, r)
}

func requestOf(ctx context.Context, run *Run) string {
	if run != nil && run.turn.Request != "" {
		return run.turn.Request
	}
	return agent.OriginOf(ctx).Request
}

// WithAttrs implements slog.Handler.
func (l logs) WithAttrs(attrs []slog.Attr) slog.Handler { return logs{l.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (l logs) WithGroup(name string) slog.Handler { return logs{l.Handler.WithGroup(name)} }

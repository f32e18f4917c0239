package pipeline

import (
	"context"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/reasoner"
	"github.com/aptixhq/aptix/internal/telemetry"
)

// noted is what telemetry knows of a turn that runs on somebody's word.
func noted(ctx context.Context, t *reasoner.Turn) telemetry.Turn {
	return telemetry.Turn{Key: t.Key, Mode: t.Request.Mode, Model: t.Context.Model, Request: agent.OriginOf(ctx).Request}
}

// traceOf returns the trace in which a turn began.
func traceOf(steps []agent.Step) (kept string) {
	for _, s := range steps {
		switch {
		case s.Accepted != nil:
			return s.Accepted.Trace
		case s.Queued != nil:
			kept = s.Queued.Trace
		}
	}
	return kept
}

// Leases returns how many leases this node holds; 0 where it is alone.
func (p *Pipeline) Leases() int {
	if p.node == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.running)
}

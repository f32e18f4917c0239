package access

import (
	"context"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/store"
)

// Turns is a pipeline as callers have it.
type Turns struct {
	all   *pipeline.Pipeline
	guard guard
}

// NewTurns returns the turns of a pipeline, whose sessions the reader knows.
func NewTurns(p *pipeline.Pipeline, sessions Reader) *Turns {
	return &Turns{all: p, guard: guard{sessions}}
}

// Submit accepts a user turn. The pipeline looks whose session it is.
func (t *Turns) Submit(ctx context.Context, by agent.Caller, u contract.UserTurn) (key agent.TurnKey, after int64, err error) {
	return t.all.Submit(ctx, by, u)
}

// Execute accepts a user turn of an edge. The pipeline looks whose session it is.
func (t *Turns) Execute(ctx context.Context, by agent.Caller, x pipeline.Execution) (key agent.TurnKey, after int64, err error) {
	return t.all.Execute(ctx, by, x)
}

// Continue accepts tool results.
func (t *Turns) Continue(ctx context.Context, by agent.Caller, c contract.ToolContinuation) (key agent.TurnKey, after int64, stream bool, err error) {
	if err := t.guard.turn(ctx, agent.TurnKey{Org: by.Org, Session: c.SessionID, Turn: c.TurnID}); err != nil {
		return agent.TurnKey{}, 0, false, err
	}
	return t.all.Continue(ctx, by, c)
}

// Proceed accepts the tool results of an edge.
func (t *Turns) Proceed(ctx context.Context, by agent.Caller, c pipeline.Continuation) (key agent.TurnKey, after int64, stream bool, err error) {
	if err := t.guard.turn(ctx, agent.TurnKey{Org: by.Org, Session: c.SessionID, Turn: c.TurnID}); err != nil {
		return agent.TurnKey{}, 0, false, err
	}
	return t.all.Proceed(ctx, by, c)
}

// Await returns the turn once it is at rest.
func (t *Turns) Await(ctx context.Context, key agent.TurnKey) (agent.Turn, error) {
	if err := t.guard.turn(ctx, key); err != nil {
		return agent.Turn{}, err
	}
	return t.all.Await(ctx, key)
}

// Reader reads the events of a turn's delivery.
func (t *Turns) Reader(key agent.TurnKey, after int64) events.Reader[agent.Event] {
	return &reader{from: t.all.Reader(key, after), key: key, guard: t.guard}
}

// ReaderThrough reads the events of a turn.
func (t *Turns) ReaderThrough(key agent.TurnKey, after int64) events.Reader[agent.Event] {
	return &reader{from: t.all.ReaderThrough(key, after), key: key, guard: t.guard}
}

// reader looks once, before the first event, whether the turn is there for its reader.
type reader struct {
	from  events.Reader[agent.Event]
	key   agent.TurnKey
	guard guard
	may   bool
}

// Next returns what there is, or what to wait for.
func (r *reader) Next(ctx context.Context) (ready []agent.Event, again <-chan struct{}, err error) {
	if !r.may {
		if err := r.guard.turn(ctx, r.key); err != nil {
			return nil, nil, err
		}
		r.may = true
	}
	return r.from.Next(ctx)
}

// Close implements events.Reader.
func (r *reader) Close() { r.from.Close() }

// Approvals returns the calls of the turn that wait for its user.
func (t *Turns) Approvals(ctx context.Context, key agent.TurnKey) ([]agent.Approval, error) {
	if err := t.guard.turn(ctx, key); err != nil {
		return nil, err
	}
	return t.all.Approvals(ctx, key)
}

// Decide takes a user's decision on one of them.
func (t *Turns) Decide(ctx context.Context, by agent.Caller, key agent.TurnKey, id agent.ApprovalID, v agent.Verdict) (pipeline.Approval, error) {
	if err := t.guard.turn(ctx, key); err != nil {
		return pipeline.Approval{}, err
	}
	return t.all.Decide(ctx, by, key, id, v)
}

// Cancel asks for the turn's end.
func (t *Turns) Cancel(ctx context.Context, key agent.TurnKey) error {
	if err := t.guard.turn(ctx, key); err != nil {
		return err
	}
	return t.all.Cancel(ctx, key)
}

// Erase erases a session.
func (t *Turns) Erase(ctx context.Context, by agent.Caller, id agent.SessionID) error {
	if err := t.guard.session(ctx, by.Org, id); err != nil {
		return err
	}
	return t.all.Erase(ctx, by, id)
}

// Preview shows the request that a turn would send.
func (t *Turns) Preview(ctx context.Context, by agent.Caller, u contract.UserTurn) (pipeline.Preview, error) {
	return t.all.Preview(ctx, by, u)
}

// PreviewMode shows the first request of a session that would begin in a mode. It is no
// session of anybody.
func (t *Turns) PreviewMode(ctx context.Context, by agent.Caller, m agent.ModeKey, instruction string) (pipeline.Preview, error) {
	return t.all.PreviewMode(ctx, by, m, instruction)
}

// Requests returns the turn's model calls.
func (t *Turns) Requests(ctx context.Context, key agent.TurnKey) ([]pipeline.ModelCall, error) {
	if err := t.guard.turn(ctx, key); err != nil {
		return nil, err
	}
	return t.all.Requests(ctx, key)
}

// Turn reads a turn.
func (t *Turns) Turn(ctx context.Context, key agent.TurnKey) (agent.Turn, error) {
	if err := t.guard.turn(ctx, key); err != nil {
		return agent.Turn{}, err
	}
	return t.all.Turn(ctx, key)
}

// Turns pages through a session's turns.
func (t *Turns) Turns(ctx context.Context, by agent.Caller, id agent.SessionID, p store.Page) ([]agent.Turn, string, error) {
	if err := t.guard.session(ctx, by.Org, id); err != nil {
		return nil, "", err
	}
	return t.all.Turns(ctx, by, id, p)
}

// Steps reads the journal of a turn.
func (t *Turns) Steps(ctx context.Context, key agent.TurnKey) ([]agent.Step, error) {
	if err := t.guard.turn(ctx, key); err != nil {
		return nil, err
	}
	return t.all.Steps(ctx, key)
}

package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/store"
)

// journal numbers a turn's steps and events, commits them and then shows them. One
// goroutine uses it: the turn's.
type journal struct {
	store Store
	now   func() time.Time
	key   agent.TurnKey
	live  *events.Log // nil when nobody can follow live

	nextStep  int
	nextEvent int64
	held      []agent.Step
	// all is the whole journal of the turn, held steps included.
	all []agent.Step
	// unjournalled are the text pieces shown since the last answer, from event
	// sequence shownFrom on.
	unjournalled []string
	shownFrom    int64
}

func newJournal(p *Pipeline, key agent.TurnKey, steps []agent.Step, live *events.Log) *journal {
	j := &journal{store: p.Store, now: p.Now, key: key, live: live, nextStep: 1, nextEvent: 1, all: steps}
	if n := len(steps); n > 0 {
		last := steps[n-1]
		j.nextStep = last.N + 1
		j.nextEvent = last.FirstEvent + int64(len(last.Events(key)))
	}
	return j
}

// Delta implements reasoner.Journal.
func (j *journal) Delta(text string) {
	if len(j.unjournalled) == 0 {
		j.shownFrom = j.nextEvent
	}
	j.unjournalled = append(j.unjournalled, text)
	if j.live != nil {
		j.live.Append(agent.Event{Type: agent.EventTextDelta, Sequence: j.nextEvent,
			SessionID: j.key.Session, TurnID: j.key.Turn, Text: text})
	}
	j.nextEvent++
}

// Hold implements reasoner.Journal.
func (j *journal) Hold(s agent.Step) { j.held = append(j.held, j.number(s)) }

// number gives a step its place. The pieces of text that were shown already belong
// to the next answer, or to the end of the turn when no answer came of them.
func (j *journal) number(s agent.Step) agent.Step {
	s.N, s.At = j.nextStep, j.now().UTC().Truncate(time.Microsecond)
	s.FirstEvent = j.nextEvent
	j.nextStep++
	if s.Kind == agent.StepAnswered || s.Kind == agent.StepSettled {
		if len(j.unjournalled) > 0 {
			s.FirstEvent = j.shownFrom
			if s.Kind == agent.StepSettled {
				s.Settled.Partial = j.unjournalled
			}
			j.unjournalled = nil
		}
	}
	j.nextEvent = s.FirstEvent + int64(len(s.Events(j.key)))
	j.all = append(j.all, s)
	return s
}

// Append implements reasoner.Journal.
func (j *journal) Append(ctx context.Context, steps ...agent.Step) error {
	return j.commit(ctx, store.Append{State: agent.TurnRunning, From: []agent.TurnState{agent.TurnAccepted, agent.TurnRunning}}, steps...)
}

// commit writes the held steps and these with a change of the turn's row, in one
// transaction, and shows them afterwards. When that fails these steps have not
// happened, and the turn can go another way; what was held before is held still.
func (j *journal) commit(ctx context.Context, a store.Append, steps ...agent.Step) error {
	before := *j
	for _, s := range steps {
		j.Hold(s)
	}
	a.Key, a.Steps = j.key, j.held
	if err := j.store.AppendSteps(ctx, a); err != nil {
		*j = before
		return fmt.Errorf("journal turn %s: %w", j.key, err)
	}
	j.show(j.held)
	j.held = nil
	return nil
}

// show publishes the events of committed steps, but for the pieces of text that
// Delta has shown.
func (j *journal) show(steps []agent.Step) {
	if j.live == nil {
		return
	}
	for _, s := range steps {
		for _, e := range s.Events(j.key) {
			if e.Type != agent.EventTextDelta {
				j.live.Append(e)
			}
		}
	}
}

// settle ends the turn: answer or fault, state, and the session's last response id
// in one commit. Only a completed turn moves the session's last response id on: the
// next turn continues from the last answer that the user saw. from are the states
// in which the turn may be.
func (j *journal) settle(ctx context.Context, s agent.Settled, lastResponse string, from ...agent.TurnState) error {
	a := store.Append{State: s.State, From: from, Response: s.Response, Fault: s.Fault}
	if s.State == agent.TurnCompleted {
		a.LastResponseID = &lastResponse
	}
	return j.commit(ctx, a, agent.Step{Kind: agent.StepSettled, Settled: &s})
}

// wait hands the turn over to the client.
func (j *journal) wait(ctx context.Context, response json.RawMessage, calls []agent.ToolCall, until time.Time) error {
	return j.commit(ctx, store.Append{
		State: agent.TurnWaiting, From: []agent.TurnState{agent.TurnAccepted, agent.TurnRunning}, Response: response, Deadline: until,
	}, agent.Step{Kind: agent.StepWaiting, Waiting: &agent.Delivery{Response: response, Calls: calls}})
}

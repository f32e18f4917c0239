package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/reasoner"
	"github.com/aptixhq/aptix/internal/store"
)

// start runs the turn in a goroutine of its own, which ends with the turn, with its
// deadline or with Drain. The caller holds the session's lock. It returns nil when
// nothing runs, because the server stops.
func (p *Pipeline) start(t *reasoner.Turn, steps []agent.Step, j *journal, deadline time.Time) *running {
	var claim store.Claim
	if p.node != nil {
		claim = j.claim()
		t.Epoch = claim.Epoch
	}
	p.mu.Lock()
	if p.draining {
		p.mu.Unlock()
		// Drain counts on no turn starting behind its back. The turn is journalled
		// and goes on after the restart, or elsewhere.
		j.live.Close()
		p.release(context.Background(), claim)
		return nil
	}
	defer p.mu.Unlock()
	t.Run.Started()
	ctx, cancel := context.WithCancelCause(t.Run.Within(context.Background()))
	ctx, stopTimer := context.WithTimeoutCause(ctx, deadline.Sub(p.Now()), errDeadline)
	r := &running{journal: j, claim: claim, cancel: cancel, done: make(chan struct{}), queues: t.Queues}
	p.running[t.Key] = r
	p.work.Add(1)
	p.turnsOf.Add(t.Key.Org)
	p.runners.run(p, &turnRun{ctx, stopTimer, r, t, steps, j})
	return r
}

// goOn is what the goroutine of a turn does.
func (p *Pipeline) goOn(next *turnRun) {
	r, t, j := next.running, next.turn, next.journal
	defer p.work.Done()
	defer next.stopTimer()
	defer r.cancel(nil)
	r.err = p.run(next)
	p.over(r, t, j)
}

// over tells of a turn that does not run any more.
func (p *Pipeline) over(r *running, t *reasoner.Turn, j *journal) {
	t.Run.End(j.journalled())
	p.turnsOf.Leave(t.Key.Org)
	// The journal has everything by now: a follower that finds the live log
	// closed reads on there.
	j.close()
	p.leave(t.Key, r, j.stillborn() == nil)
	close(r.done)
	if p.node != nil {
		p.tell(t.Key)
	}
}

// leave takes the turn off the running ones. A cancel that came too late to break it
// off, while it was handed to its client or drained, has been promised all the same
// and is carried out now. Of a turn that was never born nobody knows, and whoever
// waits for its birth has the session's lock.
func (p *Pipeline) leave(key agent.TurnKey, r *running, born bool) {
	if born {
		unlock := p.sessionLocks.lock(key.Org, key.Session)
		defer unlock()
	}
	p.mu.Lock()
	// Its client may have been so quick with its tools that it runs again already.
	if p.running[key] == r {
		delete(p.running, key)
	}
	cancelled := r.cancelled
	p.mu.Unlock()
	if end := r.journal.ending; born && !cancelled && end != nil && end.completed {
		p.remember(key, end)
	}
	if !born || !cancelled && !r.queues {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.Limits.SettleTime)
	defer cancel()
	if cancelled {
		if err := p.cancelLocked(ctx, key); err != nil && agent.KindOf(err) != agent.KindNotFound {
			p.Log.Error("cancel turn", "turn", key.String(), "error", err)
		}
	}
	p.startNext(ctx, key.Org, key.Session)
}

// run reasons and settles. Settling has its own time: it must happen also when the
// turn's is used up. The error says that it did not happen.
func (p *Pipeline) run(next *turnRun) error {
	// Its frame stands under a model call for as long as that takes: end has what is
	// needed afterwards.
	out, err := p.reason(next)
	return p.end(next.turn, out, err, next.journal)
}

// end settles a turn that ran.
func (p *Pipeline) end(t *reasoner.Turn, out *reasoner.Outcome, err error, j *journal) error {
	settling, cancel := context.WithTimeout(context.Background(), p.Limits.SettleTime)
	defer cancel()
	settling, span := t.Run.StartSettle(settling)
	defer span.End()
	if err == nil {
		err = p.deliver(settling, t, out, j)
		if err == nil {
			return nil
		}
	}
	settling = t.Run.Within(settling)
	switch {
	case j.stillborn() != nil:
		return nil // whoever bore it says why
	case j.lost.Load():
		p.Telemetry.LeaseLost()
		p.Log.WarnContext(settling, "let go of a turn: it goes on elsewhere", "turn", t.Key.String(), "error", err)
		return nil
	case errors.Is(err, errDrained):
		// Nothing is settled: the turn goes on from its journal after the restart, or
		// on another node.
		if err := j.Append(settling); err != nil {
			p.Log.ErrorContext(settling, "keep the last steps of a drained turn", "turn", t.Key.String(), "error", err)
		}
		p.release(settling, j.claim())
		return nil
	}
	end := agent.Settled{State: agent.TurnFailed, Abandoned: reasoner.Abandon(j.journalled())}
	switch fault := agent.FaultOf(err); {
	case errors.Is(err, errCancelled):
		end.State = agent.TurnCancelled
	case errors.Is(err, errDeadline):
		end.Fault = &agent.Errorf(agent.KindLimitReached, "The turn did not finish within %s.", p.Limits.TurnTime).Fault
	default:
		end.Fault = &fault
		p.Log.ErrorContext(settling, "turn failed", "turn", t.Key.String(), "code", fault.Kind, "error", err)
	}
	if err := j.settle(settling, end, "", agent.TurnAccepted, agent.TurnRunning); err != nil {
		if agent.KindOf(err) == agent.KindNotFound {
			return err // its session was erased
		}
		if j.lost.Load() {
			return nil
		}
		// The store is out of reach. The turn stays running in the journal and the
		// sweep takes it up again.
		p.Log.ErrorContext(settling, "settle turn", "turn", t.Key.String(), "state", end.State, "error", err)
		return fmt.Errorf("settle: %w", err)
	}
	return nil
}

// reason runs the loop. A panic in it fails this turn; the others run on, and the
// next start does not meet it again.
func (p *Pipeline) reason(next *turnRun) (out *reasoner.Outcome, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("reason on turn %s: panic: %v\n%s", next.turn.Key, v, debug.Stack())
		}
	}()
	return p.Reasoner.Run(next.ctx, next.turn, next.takeSteps(), next.journal)
}

// deliver journals the answer of a run, its client tool calls, or its questions to the
// user, and shows it.
func (p *Pipeline) deliver(ctx context.Context, t *reasoner.Turn, out *reasoner.Outcome, j *journal) error {
	s, unborn := j.opening()
	if !unborn {
		// The session's mode is the authority (AGN-011 §3.4): it is read once more, in
		// case the user switched by hand while the turn ran.
		var err error
		if s, err = p.Store.Session(ctx, t.Key.Org, t.Key.Session); err != nil {
			return fmt.Errorf("read session %s to settle: %w", t.Key.Session, err)
		}
	}
	answer := contract.ClientToolContinuation{
		SessionID: t.Key.Session, TurnID: t.Key.Turn,
		Mode: s.Mode, ModeDisplayName: displayName(t.Catalog, s.Mode), ToolCalls: out.Waiting, ModeChange: out.ModeSwitch,
		WelcomeMessage: welcomeOf(j.journalled()),
	}
	switch {
	case len(out.Asked) > 0:
		return p.askUser(ctx, answer, out.Asked, j)
	case len(out.Waiting) > 0:
		response, err := encode(answer)
		if err != nil {
			return err
		}
		return j.wait(ctx, agent.Delivery{Response: response, Calls: out.Waiting}, p.Now().Add(p.Limits.WaitTime))
	}
	var warnings []string
	var sources []agent.Source
	leftOut := 0
	for _, step := range j.journalled() {
		if step.Accepted != nil {
			warnings = append(warnings, step.Accepted.Warnings...)
			sources = step.Accepted.Sources
		}
		if step.Entered != nil && !step.Entered.Ready {
			warnings = append(warnings, notReady(*step.Entered))
		}
		if step.Asked != nil {
			leftOut = max(leftOut, step.Asked.LeftOut)
		}
	}
	if leftOut > 0 {
		warnings = append(warnings, fmt.Sprintf("The conversation no longer fits the model: the %d oldest turns were left out, but for a line on what was asked in each. Start a new session, or repeat what matters.", leftOut))
	}
	response, err := encode(contract.Final{
		SessionID: t.Key.Session, TurnID: t.Key.Turn,
		Mode: s.Mode, ModeDisplayName: answer.ModeDisplayName, PrimaryOutputText: out.Text, Usage: out.Usage, ModeChange: out.ModeSwitch, WelcomeMessage: answer.WelcomeMessage,
		Sources: sources, ToolResults: contract.ServerToolResults(out.ServerResults), UserWarnings: warnings,
	})
	if err != nil {
		return err
	}
	if err := j.settle(ctx, agent.Settled{State: agent.TurnCompleted, Response: response}, out.ResponseID, agent.TurnAccepted, agent.TurnRunning); err != nil {
		return err
	}
	j.completed(out.Items)
	return nil
}

// displayName returns the mode's name for people, and its key when the catalogue has lost
// it (decision 12).
func displayName(c *mode.Catalog, key agent.ModeKey) string {
	if m, ok := c.Get(key); ok {
		return m.DisplayName
	}
	return string(key)
}

// encode renders an answer; text stays readable (no HTML escapes).
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

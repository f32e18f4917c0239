package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/telemetry"
)

// queuedExecution is an Execution as it waits in the journal, for its session or for the
// entry into its mode.
type queuedExecution struct {
	Turn         contract.UserTurn `json:"turn"`
	Mode         agent.ModeKey     `json:"mode,omitempty"`
	ToolChoice   string            `json:"toolChoice,omitempty"`
	SystemPrompt *string           `json:"systemPrompt,omitempty"`
	ClientTools  json.RawMessage   `json:"clientTools,omitempty"`
	Door         json.RawMessage   `json:"door,omitempty"`
}

// kept is the execution as the journal has it.
func (x Execution) kept() (json.RawMessage, error) {
	return encode(queuedExecution{Turn: x.UserTurn, Mode: x.Mode, ToolChoice: x.ToolChoiceName,
		SystemPrompt: x.SystemPrompt, ClientTools: x.ClientTools, Door: x.Door})
}

// enqueue accepts a turn that runs when those before it have ended. What it runs with,
// mode, tools and transcript, is found when it starts. The caller holds the session's
// lock.
func (p *Pipeline) enqueue(ctx context.Context, by agent.Caller, x Execution, o opened, ahead int) error {
	if ahead >= p.Limits.QueueLength {
		return agent.Errorf(agent.KindTurnInProgress,
			"%d turns of this session are waiting already. Send the turn again when some have ended.", ahead)
	}
	waiting, err := x.kept()
	if err != nil {
		return err
	}
	request, blobs := x.Stored()
	now := p.Now()
	return p.Store.OpenTurn(ctx, store.NewTurn{
		Session: &o.session, SessionVersion: o.readVersion, SolutionContext: x.SolutionContextText, Blobs: blobs, By: agent.OriginOf(ctx),
		Turn: agent.Turn{
			Key: o.turn.Key, User: by.User, Queued: true, Request: request, BodySHA256: x.SHA256(), Mode: o.turn.Request.Mode,
			Tools: o.turn.Tools.JSON, Stream: x.Stream, Deadline: now.Add(p.Limits.QueueTime), CreatedAt: now.UTC(),
		},
		Steps: []agent.Step{{N: 1, Kind: agent.StepQueued, FirstEvent: 1, At: now.UTC().Truncate(time.Microsecond),
			Queued: &agent.Queued{Execution: waiting, Trace: telemetry.Kept(ctx)}}},
	})
}

// startNext starts the turn that has waited longest, when the session is free for it.
// Whatever keeps it from doing so is tried again by the sweep. The caller holds the
// session's lock.
func (p *Pipeline) startNext(ctx context.Context, org agent.OrgID, id agent.SessionID) {
	for range maxOvertaken {
		t, err := p.Store.NextQueued(ctx, org, id)
		if err == nil {
			err = p.startQueued(ctx, t)
		}
		switch {
		case err == nil, agent.KindOf(err) == agent.KindNotFound, errors.Is(err, errSessionBusy), p.isDraining():
			return
		case errors.Is(err, store.ErrVersion), p.node.overtaken(err):
			continue // its mode or its tools were changed just now, or another node has moved it
		case errors.Is(err, errUnbuildable), agent.KindOf(err) == agent.KindTurnExpired:
			fault := agent.FaultOf(err)
			p.Log.Error("queued turn cannot start", "turn", t.Key.String(), "error", err)
			if err := p.endAtRest(ctx, t, agent.TurnFailed, &fault); err != nil && !p.node.overtaken(err) {
				p.Log.Error("end a queued turn", "turn", t.Key.String(), "error", err)
				return
			}
		default:
			p.Log.Error("start a queued turn", "turn", t.Key.String(), "error", err)
			return
		}
	}
}

var (
	errSessionBusy = errors.New("another turn of the session is active")
	errUnbuildable = errors.New("the turn cannot be built")
)

// startQueued starts a queued turn as Execute would have, were it sent now.
func (p *Pipeline) startQueued(ctx context.Context, t agent.Turn) error {
	if p.isDraining() {
		return errDraining()
	}
	at, err := p.Store.Standing(ctx, t.Key)
	if err != nil {
		return err
	}
	if at.Session == nil || at.Active != "" {
		return errSessionBusy
	}
	if !t.Deadline.After(p.Now()) {
		return errExpired(t) // the turn before it may have ended late, or in an outage
	}
	steps, err := p.Store.Steps(ctx, t.Key)
	if err != nil {
		return err
	}
	x, err := executionOf(steps)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnbuildable, err)
	}
	o, err := p.open(ctx, agent.Caller{Org: t.Key.Org, User: t.User}, x, at.Session)
	if err != nil {
		if agent.KindOf(err) == agent.KindInternal {
			return err // the store's
		}
		return fmt.Errorf("%w: %w", errUnbuildable, err)
	}
	// Whoever ended the turn before it is not who sent this one.
	o.turn.Run = p.Telemetry.GoOn(context.Background(), noted(context.Background(), o.turn), traceOf(steps), false)
	if err := p.ready(o.turn.Run.Within(ctx), x, &o); err != nil {
		return err
	}
	first, err := o.steps(x, true)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnbuildable, err)
	}
	j := newJournal(p, store.Claim{Key: t.Key, Epoch: t.Epoch}, steps)
	j.live = p.Hub.Open(t.Key, j.nextEvent)
	deadline := p.Now().Add(p.Limits.TurnTime)
	err = j.begins(ctx, store.Start{SessionVersion: o.readVersion, Mode: o.turn.Request.Mode, Tools: o.turn.Tools.JSON}, deadline, first...)
	if err != nil {
		j.close()
		return err
	}
	p.start(o.turn, j.journalled(), j, deadline)
	p.tell(t.Key)
	return nil
}

// executionOf reads what a turn was asked for that was queued, or enters its mode.
func executionOf(steps []agent.Step) (Execution, error) {
	var kept json.RawMessage
	for _, s := range steps {
		switch {
		case s.Queued != nil:
			kept = s.Queued.Execution
		case s.Entering != nil && s.Entering.Execution != nil:
			kept = s.Entering.Execution
		}
	}
	if kept == nil {
		return Execution{}, errors.New("its journal does not say what was asked")
	}
	var q queuedExecution
	if err := json.Unmarshal(kept, &q); err != nil {
		return Execution{}, fmt.Errorf("read what was asked: %w", err)
	}
	return Execution{UserTurn: q.Turn, Mode: q.Mode, ToolChoiceName: q.ToolChoice,
		SystemPrompt: q.SystemPrompt, ClientTools: q.ClientTools, Door: q.Door}, nil
}

// displace ends the active turn of a session and returns when it has ended. The caller
// holds the session's lock, which is given up meanwhile; the new unlock is returned.
func (p *Pipeline) displace(ctx context.Context, active agent.TurnKey, unlock func()) (func(), error) {
	r := p.runningTurn(active)
	if err := p.cancelLocked(ctx, active); err != nil && agent.KindOf(err) != agent.KindNotFound || r == nil {
		return unlock, err
	}
	unlock, err := p.ended(ctx, r, unlock)
	if err != nil {
		return unlock, errBusy(active.Turn)
	}
	return unlock, r.err
}

// ended waits until a turn that was broken off here has ended. The caller holds the
// session's lock, which is given up meanwhile; the new unlock is returned.
func (p *Pipeline) ended(ctx context.Context, r *running, unlock func()) (func(), error) {
	unlock()
	ctx, cancel := context.WithTimeout(ctx, p.Limits.SettleTime)
	defer cancel()
	var err error
	select {
	case <-r.done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return p.sessionLocks.lock(r.journal.key.Org, r.journal.key.Session), err
}

// waits waits for a turn that does not run here to move. A server that stops sends those
// who wait away: it starts nothing any more, and another one may know more.
func (p *Pipeline) waits(ctx context.Context, moved <-chan struct{}) error {
	if p.isDraining() {
		return p.errNotHere()
	}
	select {
	case <-moved:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

package reasoner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/budget"
	"github.com/aptixhq/aptix/internal/failpoint"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/telemetry"
	"github.com/aptixhq/aptix/internal/tool"
)

// Model is the provider behind the wire.
type Model interface {
	Ask(ctx context.Context, request *llm.Wire, stream bool) iter.Seq2[llm.Event, error]
}

// Sessions reads the persisted session; the loop verifies a mode change with it.
type Sessions interface {
	Session(ctx context.Context, org agent.OrgID, id agent.SessionID) (agent.Session, error)
	// ModeChangeOf returns the history's entry of a call, if it has one.
	ModeChangeOf(ctx context.Context, k agent.TurnKey, call agent.CallID) (agent.ModeChange, bool, error)
}

// Journal is where a turn's steps go before they are acted on or shown.
type Journal interface {
	// Append writes the held steps and these in one commit, then shows their events.
	Append(ctx context.Context, steps ...agent.Step) error
	// Hold keeps a step back until the next commit, for steps that nothing depends
	// on yet: one commit then serves both.
	Hold(step agent.Step)
	// Soon holds steps for the next commit, or for one of their own when none comes
	// within a few milliseconds. Until then nothing behind them is shown.
	Soon(steps ...agent.Step)
	// Delta shows a piece of text at once. It keeps the pieces for the answer that they
	// belong to: that step comes without its Deltas and is journalled with them.
	Delta(text string)
}

// Config holds the parts of a Reasoner; all but Budgets, Limits and Now are required.
type Config struct {
	Model    Model
	Sessions Sessions
	Registry *tool.Registry
	Log      *slog.Logger
	// Budgets bound what turns may spend; nil bounds nothing.
	Budgets *budget.Keeper
	Limits  Limits
	Now     func() time.Time
}

// Reasoner runs the model/tool loop of turns. It is safe for concurrent use.
type Reasoner struct {
	model    Model
	sessions Sessions
	registry *tool.Registry
	log      *slog.Logger
	budgets  *budget.Keeper
	limits   Limits
	now      func() time.Time
}

// New returns a Reasoner, or an error when a part is missing.
func New(c Config) (*Reasoner, error) {
	if c.Model == nil || c.Sessions == nil || c.Registry == nil || c.Log == nil {
		return nil, errors.New("reasoner: Model, Sessions, Registry and Log are all required")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Reasoner{model: c.Model, sessions: c.Sessions, registry: c.Registry,
		log: c.Log, budgets: c.Budgets, limits: c.Limits.withDefaults(), now: c.Now}, nil
}

// Run takes the turn, which is its own from now on, from where its journal stands to an answer or to client tool
// calls. Errors end the turn: provider and limit faults are *agent.Error, a
// cancelled or expired context is returned as its cause. The step that holds the
// last model response may still be held in j: the caller appends it with its own.
func (r *Reasoner) Run(ctx context.Context, t *Turn, steps []agent.Step, j Journal) (*Outcome, error) {
	run := r.start(t, steps, j)
	defer run.account.Release(ctx)
	out, err := run.loop(mode.Within(ctx, t.Catalog))
	if err != nil && ctx.Err() != nil {
		// Whatever gave up first, the model, a tool or the store, did so because the
		// turn was broken off. The cause says how the turn ends; their errors do not.
		return nil, context.Cause(ctx)
	}
	return out, err
}

// start takes up where the journal stands. What stands on the stack below a model call
// does so for as long as that takes, in thousands of turns, so here and below what needs
// room has a function of its own.
func (r *Reasoner) start(t *Turn, steps []agent.Step, j Journal) *run {
	run := &run{Reasoner: r, turn: t, journal: j, state: newState(t.Request.Mode)}
	resumed := false
	for _, s := range steps {
		run.apply(s)
		resumed = resumed || s.Kind == agent.StepResumed
	}
	run.account = r.budgets.Open(budget.Run{Key: t.Key, Model: t.Context.Model, Chained: t.Chain, Resumed: resumed})
	if run.asked != nil {
		// They are in its items now; the turn may be long, and they are large.
		t.Request.Artifacts, t.Request.Images = nil, nil
	}
	return run
}

func (r *run) loop(ctx context.Context) (*Outcome, error) {
	for {
		if r.answered() {
			return r.outcome(nil, nil), nil // also when time is up: the answer is there
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		switch open := r.open(); {
		case r.enters():
			if err := r.enter(ctx); err != nil {
				return nil, err
			}
		case r.asked != nil:
			if err := r.ask(ctx); err != nil {
				return nil, err
			}
		case len(open) > 0:
			asked, client, err := r.dispatch(ctx, open)
			if err != nil {
				return nil, err
			}
			if len(asked)+len(client) > 0 {
				return r.outcome(asked, client), nil
			}
		default:
			if err := r.build(ctx); err != nil {
				return nil, err
			}
		}
	}
}

// run is one Run: the journal's state and where new steps go.
type run struct {
	*Reasoner
	*state
	turn    *Turn
	journal Journal
	account *budget.Account // nil where nothing is limited
}

// record applies a step and journals it, with what was held before.
func (r *run) record(ctx context.Context, steps ...agent.Step) error {
	for _, s := range steps {
		r.apply(s)
	}
	return r.journal.Append(ctx, steps...)
}

// hold applies a step whose commit can wait for the next one.
func (r *run) hold(s agent.Step) {
	r.apply(s)
	r.journal.Hold(s)
}

// soon applies a step that is committed while the turn goes on.
func (r *run) soon(s agent.Step) {
	r.apply(s)
	r.journal.Soon(s)
}

// build makes the next request. Asking the model shows nothing and changes nothing, so
// it need not wait for the commit of what is asked, nor of the results in it: whoever
// loses them in a crash asks again.
func (r *run) build(ctx context.Context) error {
	if r.answers >= r.limits.ModelCalls {
		return agent.Errorf(agent.KindLimitReached,
			"The turn used its budget of %d model calls without reaching an answer. Ask for less at once, or raise limits.modelCalls.", r.limits.ModelCalls)
	}
	if err := r.learns(); err != nil {
		return err
	}
	q := r.request(r.turn, r.state)
	// Before it is journalled: what a budget refuses was never asked.
	if err := r.account.Reserve(ctx, q.Wire.Size()); err != nil {
		return err
	}
	r.soon(q.Asked(r.modelCalls+1, r.mode))
	// They are in its items now.
	r.turn.Request.Artifacts, r.turn.Request.Images = nil, nil
	return nil
}

// ask sends the journalled request and takes the response in.
func (r *run) ask(ctx context.Context) error {
	request, err := r.affordable(ctx)
	if err != nil {
		return err
	}
	a := &asking{run: r, sent: r.asked}
	defer a.end(ctx)
	failpoint.Hit(failpoint.BeforeAsk)
	for ev, err := range r.model.Ask(a.begin(ctx), request, r.turn.Stream != nil && *r.turn.Stream) {
		if over, err := a.take(ctx, &ev, err); over {
			return err
		}
	}
	return agent.Errorf(agent.KindProviderFailed, "The model's answer broke off before it was complete. Send the turn again with a new turnId.")
}

// affordable returns the request that the journal names, once what it may cost is reserved:
// the first one of a turn is journalled with its acceptance.
func (r *run) affordable(ctx context.Context) (*llm.Wire, error) {
	request, err := r.posted(ctx)
	if err != nil {
		return nil, err
	}
	return request, r.account.Reserve(ctx, request.Size())
}

// posted returns the request that the journal names, also when another process journalled
// it, or none.
func (r *run) posted(ctx context.Context) (*llm.Wire, error) {
	sent, last := r.asked, r.turn.made
	r.turn.made = made{}
	if last.sha256 != "" && last.sha256 == sent.WireSHA256 {
		return &last.wire, nil
	}
	request := &llm.Wire{Head: sent.WireHead, New: sent.NewItems, Tail: sent.WireTail}
	if sent.Replayed > 0 {
		var err error
		if request.History, err = r.history(ctx, sent); err != nil {
			return nil, err
		}
	}
	if request.SHA256() != sent.WireSHA256 {
		// Such as a transcript that this process, configured otherwise, did not read.
		return nil, fmt.Errorf("model call %d of turn %s: the request cannot be put together as it was journalled", sent.Call, r.turn.Key)
	}
	return request, nil
}

// asking is one model call under way.
type asking struct {
	*run
	sent  *agent.Asked // until it answers
	call  *telemetry.ModelCall
	shown int // bytes of its text
}

func (a *asking) begin(ctx context.Context) context.Context {
	ctx, a.call = a.turn.Run.StartModel(ctx, a.sent)
	return ctx
}

func (a *asking) end(ctx context.Context) {
	a.call.End()
	a.account.BrokenOff(ctx, a.shown)
}

// take takes a part of the answer in, and reports whether that was the end of it.
func (a *asking) take(ctx context.Context, ev *llm.Event, err error) (over bool, _ error) {
	note(a.call, *ev, err)
	if err != nil {
		return true, a.failed(ctx, ev.Response, err)
	}
	if ev.Delta != "" {
		if a.shown == 0 {
			// It answers. The request is not sent again, and the answer may be long.
			a.sent, a.asked = nil, a.asked.Brief()
		}
		if a.shown += len(ev.Delta); a.producedBytes+a.shown > a.limits.OutputBytes {
			return true, a.tooMuchOutput()
		}
		failpoint.Hit(failpoint.BeforeDelta)
		a.journal.Delta(ev.Delta)
		failpoint.Hit(failpoint.AfterDelta)
	}
	if ev.Response == nil {
		return false, nil
	}
	failpoint.Hit(failpoint.AfterAsk)
	return true, a.accept(ctx, *ev.Response, a.shown > 0)
}

// failed ends a model call that failed, with what there is of its answer; or has it made
// again, in another way.
func (a *asking) failed(ctx context.Context, broken *llm.Response, err error) error {
	if broken != nil && broken.Usage != (agent.Usage{}) {
		if err := a.account.Charge(ctx, broken.Usage, 0); err != nil { // its tools do not run
			a.log.ErrorContext(ctx, "charge a model call that failed", "turn", a.turn.Key.String(), "error", err)
		}
	}
	if broken != nil && a.shown == 0 {
		// What an answer that broke off says is worth as much in one piece as in many.
		if text := llm.Read(broken.Items).Answer(); text != "" && len(text) <= a.limits.OutputBytes {
			a.journal.Delta(text)
		}
	}
	if a.shown == 0 {
		if again, failed := a.again(ctx, a.sent, err); again || failed != nil {
			return failed
		}
	}
	return err
}

// accept takes a complete response in. Its commit waits for the next step, which
// follows at once: a dispatch, a hand-over to the client, or the end of the turn.
func (r *run) accept(ctx context.Context, resp llm.Response, shown bool) error {
	said := llm.Read(resp.Items)
	calls, text := said.Calls, said.Answer()
	// Whatever becomes of the response. An error says that its tools must not run.
	unaffordable := r.account.Charge(ctx, resp.Usage, len(calls))
	if len(calls) == 0 && text == "" {
		return agent.Errorf(agent.KindProviderFailed, "The model answered with nothing: no text and no tool call. Send the turn again with a new turnId.")
	}
	if err := r.few(calls); err != nil {
		return err
	}
	for i, c := range calls {
		repeated := slices.ContainsFunc(calls[:i], func(d agent.ToolCall) bool { return d.ID == c.ID })
		if c.ID == "" || len(c.ID) > 128 || repeated || r.seen[c.ID] {
			return agent.Errorf(agent.KindProviderFailed, "The model's answer has a tool call with a missing, repeated or overlong id (%q), so its result could not be told apart.", c.ID)
		}
	}
	if !shown && text != "" {
		r.journal.Delta(text)
	}
	failpoint.Hit(failpoint.BeforeAnswer)
	defer failpoint.Hit(failpoint.AfterAnswer)
	r.hold(agent.Step{Kind: agent.StepAnswered, Answered: &agent.Answered{
		Call: r.modelCalls, ResponseID: resp.ID, Items: resp.Items, Usage: resp.Usage,
	}})
	if r.producedBytes > r.limits.OutputBytes {
		return r.tooMuchOutput()
	}
	return unaffordable
}

func (r *run) tooMuchOutput() error {
	return agent.Errorf(agent.KindLimitReached, "The model produced more than the %d bytes that a turn may hold.", r.limits.OutputBytes)
}

func (r *run) outcome(asked []agent.Approval, waiting []agent.ToolCall) *Outcome {
	return &Outcome{Asked: asked, Waiting: waiting, Text: r.text, Mode: r.mode, ModeSwitch: r.modeSwitch,
		ServerResults: r.ledger, Usage: r.usage, Items: r.items, ResponseID: r.responseID}
}

package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/prompt"
	"github.com/aptixhq/aptix/internal/rag"
	"github.com/aptixhq/aptix/internal/reasoner"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/tool"
)

// Execution is a user turn with what only a trusted edge may add to it: a public
// execute request never carries these (decisions, "L1").
type Execution struct {
	contract.UserTurn
	// Mode is what the client believes the mode to be. It is overwritten with the
	// session's (AGN-011 §3.3); for a session that does not exist yet it is the
	// initial mode (AGN-011 §3.1).
	Mode agent.ModeKey
	// ToolChoiceName forces a tool on the first model call (AGN-003 §6.2).
	ToolChoiceName string
	// SystemPrompt is added to the session's own for this turn (AGN-003 §4.2); nil
	// adds nothing.
	SystemPrompt *string
	// ClientTools are the client's tools of this turn, as tool.ParseClient returned
	// them, instead of the session's; nil leaves those.
	ClientTools json.RawMessage
	// Follows is the last answer that the client knows, as the provider's id of its
	// response. A session that has moved on refuses the turn. Empty asks for nothing.
	Follows string
	// Door is kept with the turn for the edge that took it.
	Door json.RawMessage
}

// SHA256 is the hash of all that the turn is asked for; of a turn without additions it
// is that of the public request.
func (x Execution) SHA256() string {
	turn := x.UserTurn.SHA256()
	if x.Mode == "" && x.ToolChoiceName == "" && x.SystemPrompt == nil && x.ClientTools == nil {
		return turn
	}
	added, err := encode(struct {
		Turn, Mode, ToolChoice string
		SystemPrompt           *string
		ClientTools            json.RawMessage
	}{turn, string(x.Mode), x.ToolChoiceName, x.SystemPrompt, x.ClientTools})
	if err != nil {
		return turn // cannot happen: tools that tool.ParseClient returned are JSON
	}
	return prompt.SHA256(added)
}

// Submit accepts a user turn durably and starts it. Follow it from event `after`,
// or Await it. The same turn again is the same turn, wherever it stands; the same id
// with another body is agent.KindTurnConflict (decision 3).
func (p *Pipeline) Submit(ctx context.Context, by agent.Caller, u contract.UserTurn) (key agent.TurnKey, after int64, err error) {
	return p.Execute(ctx, by, Execution{UserTurn: u})
}

// Execute is Submit for an edge that speaks for the client.
func (p *Pipeline) Execute(ctx context.Context, by agent.Caller, x Execution) (key agent.TurnKey, after int64, err error) {
	key = agent.TurnKey{Org: by.Org, Session: x.SessionID, Turn: x.TurnID}
	unlock := p.sessionLocks.lock(key.Org, key.Session)
	defer func() { unlock() }()

	// A mode or tool change may slip between reading the session and writing the
	// turn. The store notices; the turn is then built again from what holds now.
	for range maxOvertaken {
		var at store.Standing
		if at, err = p.standing(ctx, by, key); err != nil {
			break
		}
		if at.Known {
			return key, 0, p.same(ctx, key, x)
		}
		if p.isDraining() {
			return key, 0, errDraining()
		}
		if old := p.runningTurn(key); old != nil { // of an erased session of this name
			p.interrupt(key)
			if unlock, err = p.ended(ctx, old, unlock); err != nil {
				return key, 0, errStopping(key.Turn)
			}
			err = errStopping(key.Turn) // of those that were begun and erased meanwhile there may be more
			continue
		}
		if err := p.Store.Room(); err != nil { // the model is not asked for what cannot be kept
			return key, 0, err
		}
		if err := p.Budgets.Admit(ctx, key); err != nil {
			return key, 0, err
		}
		var o opened
		if o, err = p.open(ctx, by, x, at.Session); err != nil {
			break
		}
		switch busy := at.Active != "" || at.Queued > 0; {
		case !busy:
			err = p.begin(ctx, by, x, o)
		case o.session.Concurrency == agent.ConcurrencyQueue && x.Follows == "":
			err = p.enqueue(ctx, by, x, o, at.Queued)
			if err == nil && p.node != nil {
				// The turn before it may have ended on another node since, and have found
				// nobody in the queue.
				p.startNext(ctx, key.Org, key.Session)
			}
		case o.session.Concurrency == agent.ConcurrencyInterrupt && at.Active != "":
			active := agent.TurnKey{Org: key.Org, Session: key.Session, Turn: at.Active}
			p.Log.InfoContext(ctx, "turn interrupted by the next one", "turn", active.String(), "by", key.Turn)
			if unlock, err = p.displace(ctx, active, unlock); err == nil {
				continue
			}
		default:
			// The store refuses it too, but only after the model was asked.
			return key, 0, errBusy(at.Active)
		}
		if !errors.Is(err, store.ErrVersion) && !p.node.overtaken(err) {
			break
		}
	}
	if active := (*store.ActiveError)(nil); errors.As(err, &active) {
		return key, 0, errBusy(active.Turn)
	}
	if err != nil {
		return key, 0, fmt.Errorf("open turn %s: %w", key, err)
	}
	return key, 0, nil
}

// standing returns what a turn of the caller meets. A session that is not there for it is
// one that it cannot have a turn in.
func (p *Pipeline) standing(ctx context.Context, by agent.Caller, key agent.TurnKey) (store.Standing, error) {
	at, err := p.Store.Standing(ctx, key)
	if err == nil && at.Session != nil && !by.Sees(*at.Session) {
		return store.Standing{}, agent.NoSession(key.Session)
	}
	return at, err
}

// begin lets a turn begin for which its session is free, within the quotas of its
// organisation.
func (p *Pipeline) begin(ctx context.Context, by agent.Caller, x Execution, o opened) error {
	if most := p.Quotas.Of(by.Org).Turns; most > 0 {
		// Until the turn counts by itself.
		if !p.turnsOf.Enter(by.Org, most) {
			return errManyTurns(most)
		}
		defer p.turnsOf.Leave(by.Org)
	}
	if o.readVersion == 0 {
		made, err := p.Sessions.Room(ctx, by.Org)
		if err != nil {
			return err
		}
		defer made()
	}
	o.turn.Run = p.Telemetry.Begin(ctx, noted(ctx, o.turn))
	if err := p.ready(o.turn.Run.Within(ctx), x, &o); err != nil {
		return err
	}
	return p.bear(ctx, by, x, o)
}

// errManyTurns asks for the shortest wait there is: when one of the turns ends nobody knows.
func errManyTurns(most int) error {
	e := agent.Errorf(agent.KindRateLimited, "%d turns of the organisation are running, as many as may run at a time. Send the turn again in a moment.", most)
	e.RetryAfter = time.Second
	return e
}

// bear starts a turn and returns when it is durable, or has never been. Meanwhile the
// model is asked already: nothing of the turn is shown or acted on before its commit,
// so whoever loses it has lost nothing (decision 63). The caller holds the session's
// lock.
func (p *Pipeline) bear(ctx context.Context, by agent.Caller, x Execution, o opened) error {
	key := o.turn.Key
	request, blobs := x.Stored()
	steps, err := o.steps(x, false)
	if err != nil {
		return err
	}
	now := p.Now()
	deadline := now.Add(p.Limits.TurnTime)
	j := begin(p, store.NewTurn{
		Session: &o.session, SessionVersion: o.readVersion, SolutionContext: x.SolutionContextText, Blobs: blobs, By: agent.OriginOf(ctx),
		Turn: agent.Turn{
			Key: key, User: by.User, Request: request, BodySHA256: x.SHA256(), Mode: o.turn.Request.Mode,
			Tools: o.turn.Tools.JSON, Stream: x.Stream, Deadline: deadline, CreatedAt: now.UTC(),
		},
	}, p.Hub.Open(key, 1), steps...)
	// The session was free when its turns were counted, and all of them are over.
	o.earlier.through = max(o.session.Turns, o.earlier.through)
	j.ending = p.ending(o.earlier, true)
	if err := j.stillborn(); err != nil {
		j.close() // refused already: the model is not asked
		return err
	}
	r := p.start(o.turn, j.journalled(), j, deadline)
	<-j.born
	err = j.stillborn()
	if err != nil && r != nil {
		r.cancel(errStillborn)
		<-r.done
	}
	return err
}

// errStopping refuses a turn whose id one of an erased session has, which does not let go.
func errStopping(id agent.TurnID) error {
	return agent.Errorf(agent.KindTurnInProgress,
		"A turn %q of an erased session of this name is still stopping. Send the request again in a moment, or choose a fresh turnId.", id)
}

func errBusy(active agent.TurnID) error {
	return agent.Errorf(agent.KindTurnInProgress,
		"Turn %q of this session is still active. Wait for its answer, send its tool results, or cancel it.", active)
}

// same refuses a turn that is there already with another body.
func (p *Pipeline) same(ctx context.Context, key agent.TurnKey, x Execution) error {
	t, err := p.Store.Turn(ctx, key)
	if err != nil || t.BodySHA256 == x.SHA256() {
		return err
	}
	request, _ := x.Stored()
	differing := contract.Differing(t.Request, request)
	if len(differing) == 0 {
		differing = []string{"what goes with the turn: tools, tool choice, instructions or mode"}
	}
	return agent.Errorf(agent.KindTurnConflict,
		"Turn %q exists already with another body; they differ in: %s. Choose a fresh turnId for a new turn.",
		key.Turn, strings.Join(differing, ", "))
}

// opened is a turn that is ready to be journalled.
type opened struct {
	session agent.Session
	// readVersion is the version of the session that was read, 0 when none was there.
	readVersion int64
	turn        *reasoner.Turn
	// earlier is the transcript that the turn replays.
	earlier  transcript
	warnings []string
	// welcome is the mode's message, of a session that begins with this turn.
	welcome string
	// entering are the bootstrap tools of the mode, when this turn is to run them.
	entering []agent.ToolCall
	// What follows is set by ready.
	first   reasoner.Request
	sources []agent.Source
}

// accepted is what the journal says of the opening.
func (o opened) accepted(x Execution) *agent.Accepted {
	return &agent.Accepted{Warnings: o.warnings, Sources: o.sources, Instructions: o.turn.Instructions,
		ServerTools: o.turn.Tools.ServerNames(), Catalog: o.turn.Catalog.Hash(), Welcome: o.welcome, Door: x.Door, Trace: o.turn.Run.Kept()}
}

// open does what precedes the first model call, in the order of decision 10, and writes
// nothing: the session that is known or a new one, normalise the mode, freeze the tools,
// latch the solution context. What is left, retrieval and the request, waits for ready: a
// turn that is queued or refused needs neither.
func (p *Pipeline) open(ctx context.Context, by agent.Caller, x Execution, known *agent.Session) (opened, error) {
	var s agent.Session
	var readVersion int64
	var err error
	if known == nil {
		s, err = p.Sessions.Prepare(by, contract.CreateSession{SessionID: x.SessionID, Mode: x.Mode,
			AgentContextID: x.AgentContextID, ConversationContextID: x.ConversationContextID})
	} else {
		s, readVersion = *known, known.Version
		err = pinned(s, x.UserTurn)
	}
	if err != nil {
		return opened{}, err
	}
	if x.Follows != "" && x.Follows != s.LastResponseID {
		return opened{}, agent.Errorf(agent.KindTurnConflict, "The session has gone on since that answer. Continue from its latest one.")
	}
	if x.SolutionContextText != nil {
		s.SolutionContext = *x.SolutionContextText
	}
	current := p.Sessions.NormaliseMode(ctx, s, x.Mode)
	clientTools := s.ClientTools
	if x.ClientTools != nil {
		clientTools = x.ClientTools
	}
	catalog := p.Catalog.Current()
	tools, warnings := p.freezeTools(ctx, s.ID, clientTools, catalog, current)
	warnings = append(modeWarnings(x.Mode, current), warnings...)
	t, earlier, err := p.turn(ctx, by, s, agent.Turn{
		Key: agent.TurnKey{Org: by.Org, Session: x.SessionID, Turn: x.TurnID}, Mode: current, Stream: x.Stream,
	}, tools, catalog)
	if err != nil {
		return opened{}, err
	}
	if err := fits(t.Context, x.UserTurn); err != nil {
		return opened{}, err
	}
	x.into(t, s)
	o := opened{session: s, readVersion: readVersion, turn: t, earlier: earlier, warnings: warnings}
	if m, ok := catalog.Get(current); ok {
		o.enter(m, known == nil)
	}
	return o, nil
}

// into puts what the turn is asked for into its first request.
func (x Execution) into(t *reasoner.Turn, s agent.Session) {
	t.Request.Instruction = x.Instruction
	t.Request.Artifacts, t.Request.Images = x.InputArtifacts, x.ClipboardImages
	t.Request.ToolChoiceName = x.ToolChoiceName
	switch {
	case x.SystemPrompt == nil:
	case s.LastResponseID == "":
		t.Request.SystemPrompt = joinPrompts(s.SystemPrompt, *x.SystemPrompt)
	default:
		// A continuation has no system message (AGN-003 §4.2), so the turn's own
		// instructions travel where the mode layer does.
		t.Instructions = *x.SystemPrompt
	}
}

// ready retrieves the context of an opened turn and builds its first request. It fails
// only with ctx.
func (p *Pipeline) ready(ctx context.Context, x Execution, o *opened) error {
	if p.Retriever != nil {
		looking, span := o.turn.Run.StartRetrieval(ctx)
		found := p.Retriever.Retrieve(looking, rag.Question{Org: o.turn.Key.Org, Text: x.Instruction, Scope: x.RAGScope, Hints: hints(o.turn)})
		span.Found(len(found.Chunks))
		span.End()
		if ctx.Err() != nil {
			return context.Cause(ctx) // whoever asked has gone; nothing was found out
		}
		o.turn.RAGContextBlock = rag.Block(found.Chunks)
		o.sources = found.Sources()
		o.warnings = append(o.warnings, found.Warnings...)
	}
	o.first = p.Reasoner.First(o.turn)
	return nil
}

// hints are what the mode of a turn says about retrieval.
func hints(t *reasoner.Turn) rag.Hints {
	m, ok := t.Catalog.Get(t.Request.Mode)
	if !ok {
		m = t.Catalog.Default()
	}
	return rag.Hints{Prefer: m.RAG.Prefer, Exclude: m.RAG.Exclude}
}

// modeWarnings tells the client that the mode which it claims is not the session's
// (AGN-011 §3.3).
func modeWarnings(claimed, current agent.ModeKey) []string {
	if claimed == "" || claimed == current {
		return nil
	}
	return []string{fmt.Sprintf("The request claims mode %q; the session is in %q, which was used.", claimed, current)}
}

// joinPrompts puts the prompt of a turn after the session's.
func joinPrompts(session, turn string) string {
	if strings.TrimSpace(session) == "" {
		return turn
	}
	return session + "\n\n" + turn
}

// freezeTools merges the client's tools with the mode's server tools, once
// for the turn (AGN-011 §4.3, §4.4). A mode that left the catalogue is served with
// the default mode's tools, so that no session is ever stuck (decision 12).
func (p *Pipeline) freezeTools(ctx context.Context, id agent.SessionID, clientTools json.RawMessage, catalog *mode.Catalog, key agent.ModeKey) (tool.Set, []string) {
	var warnings []string
	m, ok := catalog.Get(key)
	if !ok {
		m = catalog.Default()
		warnings = append(warnings, fmt.Sprintf("The session's mode %q is no longer in the catalogue; the tools of %q are used. Switch to another mode.", key, m.Key))
	}
	tools := p.sets.merge(clientTools, catalog.Hash(), m, p.Registry)
	warnings = append(warnings, tools.Warnings...)
	for _, w := range warnings {
		p.Log.WarnContext(ctx, "tools of the turn: "+w, "session", id)
	}
	return tools, warnings
}

// turn assembles what the reasoner needs from the session and the turn's row; it is
// the same for a fresh, a continued and a resumed turn. With it comes the transcript of the
// turns before it, where it is replayed.
func (p *Pipeline) turn(ctx context.Context, by agent.Caller, s agent.Session, t agent.Turn, tools tool.Set, catalog *mode.Catalog) (*reasoner.Turn, transcript, error) {
	c, ok := p.Contexts.Conversation(s.AgentContext, s.ConversationContext)
	if !ok {
		return nil, transcript{}, agent.Errorf(agent.KindUnknownContext,
			"The session is pinned to the conversation context %q of %q, which is no longer configured. Restore it, or start a new session.", s.ConversationContext, s.AgentContext)
	}
	recall := func(ctx context.Context) (transcript, error) {
		if s.LastResponseID == "" { // none has completed
			return transcript{created: s.CreatedAt, through: max(0, t.Ordinal-1)}, nil
		}
		return p.transcript(ctx, s, t.Ordinal)
	}
	var earlier transcript
	if !p.Chain {
		var err error
		if earlier, err = recall(ctx); err != nil {
			return nil, transcript{}, err
		}
	}
	approvals, err := p.approvals(ctx, s, t, catalog)
	if err != nil {
		return nil, transcript{}, err
	}
	var attached []json.RawMessage
	if shared, ok := catalog.Shared(t.Mode); ok && c.AllowedTools && !c.OmitToolChoice {
		attached, _ = tools.Among(shared, p.Registry)
	}
	return &reasoner.Turn{
		Key: t.Key, Caller: by, Attached: attached,
		Request: prompt.Request{
			Mode: t.Mode, SystemPrompt: s.SystemPrompt, ResponseContinuationID: s.LastResponseID, ToolsJSON: tools.JSON,
		},
		Context: c, Catalog: catalog, Tools: tools, Approvals: approvals, SolutionContext: s.SolutionContext, Stream: t.Stream,
		Queues: s.Concurrency == agent.ConcurrencyQueue,
		Chain:  p.Chain, Transcript: earlier.replayed(),
		Recall: func(ctx context.Context) (reasoner.Transcript, error) {
			all, err := recall(ctx)
			return all.replayed(), err
		},
	}, earlier, nil
}

// pinned refuses another context than the one the session was created with
// (decision 4).
func pinned(s agent.Session, u contract.UserTurn) error {
	for _, c := range []struct{ name, asked, pinned string }{
		{"agentContextId", u.AgentContextID, s.AgentContext},
		{"conversationContextId", u.ConversationContextID, s.ConversationContext},
	} {
		if c.asked != "" && c.asked != c.pinned {
			return agent.Errorf(agent.KindContextPinned, "The session's %s is pinned to %q; leave the member out, or start a new session for %q.", c.name, c.pinned, c.asked)
		}
	}
	return nil
}

// Continue takes a client's tool results for a waiting turn. Results that do not
// match the calls in identity and order are refused as a whole and the turn goes on
// waiting; the same submission again follows the same outcome (decision 9). stream
// is the preference that the turn was sent with.
func (p *Pipeline) Continue(ctx context.Context, by agent.Caller, c contract.ToolContinuation) (key agent.TurnKey, after int64, stream bool, err error) {
	return p.Proceed(ctx, by, Continuation{ToolContinuation: c})
}

// Continuation is a tool continuation with what only a trusted edge may add to it.
type Continuation struct {
	contract.ToolContinuation
	// Mode is what the client believes the mode to be; the session's is used.
	Mode agent.ModeKey
	// Door is kept with the results for the edge that took them.
	Door json.RawMessage
}

// Proceed is Continue for an edge that speaks for the client.
func (p *Pipeline) Proceed(ctx context.Context, by agent.Caller, c Continuation) (key agent.TurnKey, after int64, stream bool, err error) {
	key = agent.TurnKey{Org: by.Org, Session: c.SessionID, Turn: c.TurnID}
	unlock := p.sessionLocks.lock(key.Org, key.Session)
	defer unlock()
	for range maxOvertaken {
		if after, stream, err = p.proceed(ctx, by, key, c); !p.node.overtaken(err) {
			break // else another node was sent them too, or has ended the turn
		}
	}
	return key, after, stream, err
}

// proceed goes on with a turn as it stands. The caller holds the session's lock.
func (p *Pipeline) proceed(ctx context.Context, by agent.Caller, key agent.TurnKey, c Continuation) (after int64, stream bool, err error) {
	t, err := p.Store.Turn(ctx, key)
	if err != nil {
		return 0, false, err
	}
	stream = t.Stream != nil && *t.Stream
	steps, err := p.Store.Steps(ctx, key)
	if err != nil {
		return 0, stream, fmt.Errorf("read journal of turn %s: %w", key, err)
	}
	sha := c.SHA256()
	var calls []agent.ToolCall
	var conflict error
	for _, s := range steps {
		switch s.Kind {
		case agent.StepWaiting:
			calls = s.Waiting.Calls
		case agent.StepContinued:
			if s.Continued.SHA256 == sha {
				return s.FirstEvent - 1, stream, nil
			}
			if where, same := contract.DifferingResults(s.Continued.Results, c.ToolContinuation); same {
				conflict = agent.Errorf(agent.KindTurnConflict,
					"Turn %q has taken other results for these calls already; they differ in: %s. Follow the turn, or send a new one.", key.Turn, strings.Join(where, ", "))
			}
		}
	}
	if conflict != nil {
		return 0, stream, conflict
	}
	if t.State == agent.TurnWaiting && asksUser(steps) {
		return 0, stream, agent.Errorf(agent.KindTurnNotWaiting,
			"Turn %q waits for decisions of its user, not for tool results. Send them to …/turns/%s/approvals/{approvalId}.", key.Turn, key.Turn)
	}
	if t.State != agent.TurnWaiting {
		return 0, stream, agent.Errorf(agent.KindTurnNotWaiting, "Turn %q is %s and waits for no tool results.", key.Turn, t.State)
	}
	results, err := contract.MatchResults(calls, c.ToolContinuation)
	if err != nil {
		return 0, stream, err
	}
	if p.isDraining() {
		return 0, stream, errDraining()
	}
	s, err := p.Store.Session(ctx, key.Org, key.Session)
	if err != nil {
		return 0, stream, err
	}
	warnings := modeWarnings(c.Mode, p.Sessions.NormaliseMode(ctx, s, c.Mode))
	after, err = p.wake(ctx, by, s, t, steps, func(j *journal, deadline time.Time) error {
		return j.proceed(ctx, agent.Continued{Results: results, SHA256: sha, Warnings: warnings, Door: c.Door}, deadline)
	})
	return after, stream, err
}

// wake starts a turn that has waited, once commit has journalled why, and returns the
// sequence after which it goes on. The caller holds the session's lock.
func (p *Pipeline) wake(ctx context.Context, by agent.Caller, s agent.Session, t agent.Turn, steps []agent.Step, commit func(j *journal, deadline time.Time) error) (after int64, err error) {
	rt, end, err := p.restored(ctx, by, s, t, steps)
	if err != nil {
		return 0, err
	}
	rt.Run = p.Telemetry.GoOn(ctx, noted(ctx, rt), traceOf(steps), false)
	j := newJournal(p, store.Claim{Key: t.Key, Epoch: t.Epoch}, steps)
	j.ending = end
	after = j.nextEvent - 1
	j.live = p.Hub.Open(t.Key, j.nextEvent)
	deadline := p.Now().Add(p.Limits.TurnTime)
	if err := commit(j, deadline); err != nil {
		j.close()
		return 0, err
	}
	rt.Run.WentOn(j.journalled()[len(steps):])
	p.start(rt, j.journalled(), j, deadline)
	p.tell(t.Key)
	return after, nil
}

// restored is turn for one that goes on from its journal.
func (p *Pipeline) restored(ctx context.Context, by agent.Caller, s agent.Session, t agent.Turn, steps []agent.Step) (*reasoner.Turn, *ending, error) {
	var began agent.Accepted
	for _, s := range steps {
		if s.Accepted != nil {
			began = *s.Accepted
			break
		}
	}
	rt, earlier, err := p.turn(ctx, by, s, t, tool.ParseSet(t.Tools, began.ServerTools, p.Registry), p.began(ctx, t.Key, began))
	if err != nil {
		return nil, nil, err
	}
	rt.Instructions = began.Instructions
	return rt, p.ending(earlier, false), nil
}

// began returns the catalogue that a turn began with. When it is not remembered, such as
// after a restart over other mode files, the turn goes on with the one in force; its tools
// stay frozen all the same.
func (p *Pipeline) began(ctx context.Context, key agent.TurnKey, accepted agent.Accepted) *mode.Catalog {
	if c, ok := p.Catalog.Recall(accepted.Catalog); ok {
		return c
	}
	current := p.Catalog.Current()
	if accepted.Catalog != "" {
		p.Log.WarnContext(ctx, "the turn goes on with other modes than it began with", "turn", key.String(), "began", accepted.Catalog, "current", current.Hash())
	}
	return current
}

func errDraining() error {
	e := agent.Errorf(agent.KindDraining, "The server is stopping and takes no new turns. Send the request again in a moment.")
	e.RetryAfter = 2 * time.Second
	return e
}

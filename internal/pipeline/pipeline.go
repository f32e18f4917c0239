package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/budget"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/quota"
	"github.com/aptixhq/aptix/internal/rag"
	"github.com/aptixhq/aptix/internal/reasoner"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/telemetry"
	"github.com/aptixhq/aptix/internal/tool"
)

// Store is the journal as the pipeline uses it.
type Store interface {
	Session(ctx context.Context, org agent.OrgID, id agent.SessionID) (agent.Session, error)
	Standing(ctx context.Context, k agent.TurnKey) (store.Standing, error)
	OpenTurn(ctx context.Context, n store.NewTurn) error
	AppendSteps(ctx context.Context, a store.Append) error
	Turn(ctx context.Context, k agent.TurnKey) (agent.Turn, error)
	Turns(ctx context.Context, org agent.OrgID, id agent.SessionID, p store.Page) ([]agent.Turn, string, error)
	Steps(ctx context.Context, k agent.TurnKey) ([]agent.Step, error)
	Transcript(ctx context.Context, org agent.OrgID, id agent.SessionID, after, before int64) ([]store.TurnItems, error)
	Unfinished(ctx context.Context) ([]agent.TurnKey, error)
	Expired(ctx context.Context, now time.Time) ([]agent.TurnKey, error)
	NextQueued(ctx context.Context, org agent.OrgID, id agent.SessionID) (agent.Turn, error)
	IdleQueues(ctx context.Context) ([]agent.TurnKey, error)
	// Room returns nil, or why nothing new can be written.
	Room() error
	DeleteSession(ctx context.Context, org agent.OrgID, id agent.SessionID) error
	EraseIdle(ctx context.Context, since time.Time, after store.SessionKey, most int) (erased int, last store.SessionKey, err error)
	TrimAudit(ctx context.Context, before time.Time, after agent.OrgID, most int) (trimmed int, org agent.OrgID, err error)
	Erasures
}

// Sessions prepares the sessions that a first turn creates and normalises modes.
type Sessions interface {
	Prepare(by agent.Caller, c contract.CreateSession) (agent.Session, error)
	NormaliseMode(ctx context.Context, s agent.Session, claimed agent.ModeKey) agent.ModeKey
	Room(ctx context.Context, org agent.OrgID) (made func(), err error)
}

// Contexts finds a session's pinned conversation context again. ok is false when
// configuration has lost it.
type Contexts interface {
	Conversation(agentContext, conversationContext string) (c agent.ConversationContext, ok bool)
}

// Catalogs has the catalogue in force and, by its hash, one that a turn began with.
type Catalogs interface {
	Current() *mode.Catalog
	Recall(hash string) (c *mode.Catalog, ok bool)
}

// Retriever finds what of the indexed documents the model of a turn is shown.
type Retriever interface {
	Retrieve(ctx context.Context, q rag.Question) rag.Context
}

// Config holds the parts of a Pipeline. Retriever, Bus, Limits, Chain, ApprovalRules,
// Exposure, Consent, Budgets, Quotas, Retention, AuditRetention, Indexes, Telemetry and Now may be left out.
// When the Store is a store.Leasing, other nodes
// may use it at the same time.
type Config struct {
	Store    Store
	Sessions Sessions
	Catalog  Catalogs
	Registry *tool.Registry
	Contexts Contexts
	Reasoner *reasoner.Reasoner
	Hub      *events.Hub
	Log      *slog.Logger
	// Retriever is nil where nothing is retrieved.
	Retriever Retriever
	// Bus is the way to the other nodes that use the store; nil is none, and what they do
	// is then seen in the store alone.
	Bus Bus
	// Chain tells that the provider remembers earlier responses, so that only what
	// is new is sent; otherwise the transcript is replayed (decision 29).
	Chain bool
	// ApprovalRules say which calls wait for the user where the mode does not, and Consent
	// that the model changes no mode without him.
	ApprovalRules agent.ApprovalRules
	// Exposure says which tools wait for the user when others came before them.
	Exposure agent.Exposure
	Consent  bool
	Limits   Limits
	// Budgets bound what turns may spend, nil nothing; Quotas how many may run at a time.
	Budgets *budget.Keeper
	Quotas  quota.Plans
	// Retention is how long a session is kept after the last thing that happened in it;
	// 0 is for ever.
	Retention time.Duration
	// AuditRetention is how long the audit log keeps its entries; 0 is for ever.
	AuditRetention time.Duration
	// Indexes go with an organisation that is erased; nil where there are none.
	Indexes Indexes
	// Telemetry is told what turns do; nil is nobody.
	Telemetry *telemetry.Telemetry
	Now       func() time.Time
}

// Limits bound how long a turn may take. Zero fields mean the default.
type Limits struct {
	// TurnTime bounds the running of a turn, from acceptance or from a
	// continuation to the next answer; default 10 min.
	TurnTime time.Duration
	// WaitTime bounds how long a turn waits for client tools; default 24 h.
	WaitTime time.Duration
	// ApprovalTime bounds how long a call waits for a decision of the user; default 1 h.
	ApprovalTime time.Duration
	// QueueTime bounds how long a turn waits for its session; default 1 h.
	QueueTime time.Duration
	// QueueLength is how many turns may wait for one session; default 16.
	QueueLength int
	// SettleTime bounds the commit that ends a turn; default 30 s. With other nodes it
	// bounds every write of a running turn, and is by default the minute in which a
	// database has found another primary.
	SettleTime time.Duration
	// CancelTime bounds how long a cancel waits for the turn's end; default 2 s.
	CancelTime time.Duration
	// Gather is how long a step that nobody has seen may wait for a commit that comes
	// anyway; default 2 ms, negative is not at all. A model that takes longer finds the
	// step committed while it was thinking; one that answers at once has its answer in
	// the same commit (decision 63).
	Gather time.Duration
	// SweepEvery is how often abandoned and expired turns are looked for; default 5 s.
	SweepEvery time.Duration
	// Lease is how long a turn belongs to a node that says nothing; default 15 s.
	Lease time.Duration
	// Poll is how often a node looks how far turns have come that others run and that
	// somebody waits for here; default 500 ms.
	Poll time.Duration
}

func (l Limits) withDefaults(alone bool) Limits {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&l.TurnTime, 10*time.Minute)
	def(&l.WaitTime, 24*time.Hour)
	def(&l.ApprovalTime, time.Hour)
	def(&l.QueueTime, time.Hour)
	if !alone {
		def(&l.SettleTime, time.Minute)
	}
	def(&l.SettleTime, 30*time.Second)
	def(&l.CancelTime, 2*time.Second)
	if l.QueueLength <= 0 {
		l.QueueLength = 16
	}
	def(&l.SweepEvery, 5*time.Second)
	def(&l.Lease, 15*time.Second)
	def(&l.Poll, 500*time.Millisecond)
	if l.Gather == 0 {
		l.Gather = 2 * time.Millisecond
	}
	return l
}

// Pipeline runs turns. Start it with Recover, stop it with Drain.
type Pipeline struct {
	Config
	node         *node // nil when nobody else uses the store
	sessionLocks keyedMutex
	sets         toolSets
	reads        sharedReads
	transcripts  transcripts
	moves        moves
	turnsOf      quota.Counter[agent.OrgID]
	runners      runners
	work         sync.WaitGroup
	stop         context.CancelFunc
	// leasing ends behind the last turn, by stopLeasing.
	leasing     sync.WaitGroup
	stopLeasing context.CancelFunc
	// retained is how far the sweeps have looked for idle sessions; they alone use it.
	retained store.SessionKey
	// trimmed is the organisation up to which they have trimmed the audit log.
	trimmed agent.OrgID

	// mu guards running, draining and sweeping.
	mu       sync.Mutex
	running  map[agent.TurnKey]*running
	draining bool
	sweeping bool
}

// running is a turn that runs in this process.
type running struct {
	cancel    context.CancelCauseFunc
	journal   *journal
	claim     store.Claim   // under which it runs
	cancelled bool          // by Cancel; guarded by Pipeline.mu
	queues    bool          // turns may wait for it
	done      chan struct{} // closed when the turn is at rest, or broken off
	err       error         // why the turn's end could not be written; set before done is closed
}

// The causes for which a running turn is broken off.
var (
	errCancelled = errors.New("cancelled")
	errDeadline  = errors.New("turn deadline")
	errDrained   = errors.New("drained")
)

// New returns a pipeline, or an error when a part is missing.
func New(c Config) (*Pipeline, error) {
	if c.Store == nil || c.Sessions == nil || c.Catalog == nil || c.Registry == nil || c.Contexts == nil ||
		c.Reasoner == nil || c.Hub == nil || c.Log == nil {
		return nil, errors.New("pipeline: every part but Retriever, Bus, Limits, Chain, ApprovalRules, Exposure, Consent, Budgets, Quotas, Retention, AuditRetention, Indexes, Telemetry and Now is required")
	}
	_, shared := c.Store.(store.Leasing)
	c.Limits = c.Limits.withDefaults(!shared)
	if c.Now == nil {
		c.Now = time.Now
	}
	p := &Pipeline{Config: c, running: map[agent.TurnKey]*running{}}
	if shared {
		p.node, p.moves.others = newNode(c.Store.(store.Leasing), c.Limits.Lease), true
	}
	if c.Bus != nil && shared {
		c.Bus.OnMoved(p.heard)
	}
	return p, nil
}

// Turn reads a turn of the caller's organisation.
func (p *Pipeline) Turn(ctx context.Context, key agent.TurnKey) (agent.Turn, error) {
	return p.Store.Turn(ctx, key)
}

// Steps reads the journal of a turn, for reading only: those who ask at the same time
// share it.
func (p *Pipeline) Steps(ctx context.Context, key agent.TurnKey) ([]agent.Step, error) {
	shown, err := p.journalled(ctx, key)
	if err != nil {
		return nil, err
	}
	return shown.steps, nil
}

// Turns pages through a session's turns, newest last.
func (p *Pipeline) Turns(ctx context.Context, by agent.Caller, id agent.SessionID, page store.Page) ([]agent.Turn, string, error) {
	if _, err := p.Store.Session(ctx, by.Org, id); err != nil {
		return nil, "", err
	}
	return p.Store.Turns(ctx, by.Org, id, page)
}

// Await returns the turn as soon as it is at rest: terminal, or waiting for its
// client. It ends with ctx; the turn itself goes on.
func (p *Pipeline) Await(ctx context.Context, key agent.TurnKey) (agent.Turn, error) {
	var unwritten error
	for {
		r, t, moved, err := p.find(ctx, key)
		switch {
		case err != nil || r == nil && atRest(t.State):
			return t, err
		case moved != nil:
			if err := p.waits(ctx, moved); err != nil {
				return agent.Turn{}, err
			}
			continue
		case r == nil && unwritten != nil:
			return agent.Turn{}, unwritten
		case r == nil:
			return agent.Turn{}, p.errNotHere()
		}
		select {
		case <-r.done:
			unwritten = r.err
		case <-ctx.Done():
			return agent.Turn{}, context.Cause(ctx)
		}
	}
}

// find returns the turn where it runs, or else its row. With the session locked
// nothing starts, so that a row which is not at rest then is of a turn that runs
// nowhere. Of a turn that waits for its session it returns what is closed when it moves.
func (p *Pipeline) find(ctx context.Context, key agent.TurnKey) (*running, agent.Turn, <-chan struct{}, error) {
	if p.node != nil {
		return p.findAnywhere(ctx, key)
	}
	unlock := p.sessionLocks.lock(key.Org, key.Session)
	defer unlock()
	if r := p.runningTurn(key); r != nil {
		return r, agent.Turn{}, nil, nil
	}
	t, err := p.Store.Turn(ctx, key)
	if err == nil && t.Queued {
		return nil, t, p.moves.when(key), nil
	}
	return nil, t, nil, err
}

// findAnywhere is find where there are other nodes. A turn that does not run here and is
// not at rest runs on one of them, or will: it returns what is closed when it moves.
func (p *Pipeline) findAnywhere(ctx context.Context, key agent.TurnKey) (*running, agent.Turn, <-chan struct{}, error) {
	if r := p.runningTurn(key); r != nil {
		return r, agent.Turn{}, nil, nil
	}
	ctx, cancel := p.patient(ctx)
	defer cancel()
	t, err := p.Store.Turn(ctx, key)
	if err != nil || atRest(t.State) {
		return nil, t, nil, err
	}
	// It may move at any moment, also between a look and the asking for it.
	moved := p.moves.when(key)
	if t, err = p.Store.Turn(ctx, key); err != nil || atRest(t.State) {
		return nil, t, nil, err
	}
	return nil, t, moved, nil
}

func (p *Pipeline) runningTurn(key agent.TurnKey) *running {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running[key]
}

// runningIn returns the session's turns that run here: one, or a second one that has
// ended and is about to leave.
func (p *Pipeline) runningIn(org agent.OrgID, id agent.SessionID) (keys []agent.TurnKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.running {
		if k.Org == org && k.Session == id {
			keys = append(keys, k)
		}
	}
	return keys
}

func atRest(s agent.TurnState) bool { return s.Terminal() || s == agent.TurnWaiting }

// errNotHere tells a client that its turn does not run and is not at rest. It is not
// lost: the next start, or the next sweep, takes it up.
func (p *Pipeline) errNotHere() error {
	if p.isDraining() {
		return agent.Errorf(agent.KindDraining, "The server is stopping; the turn is kept and goes on after the restart. Send the same request again.")
	}
	e := agent.Errorf(agent.KindDraining, "The turn was broken off; it is kept and goes on by itself. Send the same request again in a moment.")
	e.RetryAfter = p.Limits.SweepEvery
	return e
}

// Cancel ends a turn in whatever state it is and returns when its end is durable: a
// process that dies then does not take it back. A tool that does not let go is waited
// for no longer than Limits.CancelTime (decision D45). A turn that is over stays as it is.
func (p *Pipeline) Cancel(ctx context.Context, key agent.TurnKey) error {
	r, err := p.cancel(ctx, key)
	if err != nil || r == nil {
		return err
	}
	limit := time.NewTimer(p.Limits.CancelTime)
	defer limit.Stop()
	select {
	case <-r.done:
		if p.node != nil && (r.err != nil || r.journal.lost.Load()) {
			_, err := p.cancel(ctx, key) // wherever it is now
			return err
		}
		return r.err
	case <-limit.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// cancel breaks off a turn that runs here, and returns it, or ends any other.
func (p *Pipeline) cancel(ctx context.Context, key agent.TurnKey) (*running, error) {
	unlock := p.sessionLocks.lock(key.Org, key.Session)
	defer unlock()
	r := p.runningTurn(key)
	return r, p.cancelLocked(ctx, key)
}

func (p *Pipeline) cancelLocked(ctx context.Context, key agent.TurnKey) error {
	var err error
	for range maxOvertaken {
		if p.interrupt(key) {
			return nil
		}
		var t agent.Turn
		if t, err = p.Store.Turn(ctx, key); err != nil || t.State.Terminal() {
			return err
		}
		if err = p.endAtRest(ctx, t, agent.TurnCancelled, nil); err == nil {
			p.startNext(ctx, key.Org, key.Session)
			return nil
		}
		if !p.node.overtaken(err) {
			break // else it has moved on just now, on the node that runs it
		}
	}
	return err
}

// interrupt breaks off a turn that runs here. The turn may slip away from it, to its
// client or into a drain: leave looks after that.
func (p *Pipeline) interrupt(key agent.TurnKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.running[key]
	if r == nil {
		return false
	}
	r.cancelled = true
	r.cancel(errCancelled)
	return true
}

// endAtRest settles a turn that does not run here: one that waits, was broken off, or runs
// on another node, which can write nothing about it from then on.
func (p *Pipeline) endAtRest(ctx context.Context, t agent.Turn, state agent.TurnState, fault *agent.Fault) error {
	steps, err := p.Store.Steps(ctx, t.Key)
	if err != nil {
		return fmt.Errorf("read journal of turn %s: %w", t.Key, err)
	}
	j := newJournal(p, store.Claim{Key: t.Key, Epoch: t.Epoch}, steps)
	if p.node != nil && asking(steps) {
		// Its owner may have shown text that is in no journal.
		j.Hold(agent.Step{Kind: agent.StepResumed, Resumed: &agent.Resumed{ReplaceFrom: j.nextEvent}})
	}
	if err := j.settle(ctx, agent.Settled{State: state, Fault: fault, Abandoned: reasoner.Abandon(steps)}, "", t.State); err != nil {
		return err
	}
	p.Telemetry.Rests(state, t.Mode)
	if asking(steps) {
		p.Budgets.Drop(ctx, t.Key) // the one that asks may have died over it
	}
	// The log of the delivery at which the turn rested may still be found, and knows
	// nothing of this end.
	p.Hub.Forget(t.Key)
	p.tell(t.Key)
	return nil
}

// asksUser reports whether a journal ends with the turn waiting for decisions of its user.
// A damaged one may have no end at all.
func asksUser(steps []agent.Step) bool {
	return len(steps) > 0 && steps[len(steps)-1].AsksUser()
}

// asking reports whether a model call is open in a journal.
func asking(steps []agent.Step) bool {
	for _, s := range slices.Backward(steps) {
		switch s.Kind {
		case agent.StepAsked:
			return true
		case agent.StepResumed: // over the call or not
		default:
			return false
		}
	}
	return false
}

// keyedMutex serialises the short decisions on one session: is the turn new, may it
// start, is it over. It is never held while a model or a tool runs.
type keyedMutex struct {
	mu    sync.Mutex // guards locks
	locks map[agent.TurnKey]*countedMutex
}

type countedMutex struct {
	sync.Mutex
	users int
}

func (k *keyedMutex) lock(org agent.OrgID, id agent.SessionID) (unlock func()) {
	key := agent.TurnKey{Org: org, Session: id}
	k.mu.Lock()
	if k.locks == nil {
		k.locks = map[agent.TurnKey]*countedMutex{}
	}
	m := k.locks[key]
	if m == nil {
		m = &countedMutex{}
		k.locks[key] = m
	}
	m.users++
	k.mu.Unlock()
	m.Lock()
	return func() {
		m.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if m.users--; m.users == 0 {
			delete(k.locks, key)
		}
	}
}

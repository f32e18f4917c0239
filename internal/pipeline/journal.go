package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/failpoint"
	"github.com/aptixhq/aptix/internal/store"
)

// errStillborn ends the run of a turn that could not be made durable. Nobody has seen
// anything of it.
var errStillborn = errors.New("the turn was not accepted")

// journal numbers a turn's steps and events, commits them and then shows them. The
// turn's goroutine uses it; the commits of Soon come from a timer.
type journal struct {
	store Store
	now   func() time.Time
	times Limits
	key   agent.TurnKey
	live  *events.Log // nil when nobody can follow live
	node  *node       // nil where there are no others
	// lost tells that the turn is another node's: nothing is written any more.
	lost atomic.Bool
	// born is closed when the turn is durable, or will never be.
	born chan struct{}
	// ending is what the turn leaves when it completes; nil when that is nothing. It
	// belongs to the turn's goroutine.
	ending *ending

	mu sync.Mutex // guards what follows
	// epoch is that of the claim under which the turn runs here, if it does; else the one
	// at which it was read.
	epoch int64
	owned bool
	position
	// first makes the turn durable, together with the steps of the first commit. Nil
	// once that is done, or failed with bornErr.
	first   *store.NewTurn
	bornErr error
	timer   *time.Timer // commits what is held; nil when that is not due
}

// position is how far a journal has come; a commit that fails goes back to it.
type position struct {
	nextStep  int
	nextEvent int64
	held      []agent.Step
	// all is the whole journal of the turn, held steps included. Of requests that are
	// committed and answered it has what is still asked for: see agent.Asked.Brief.
	all []agent.Step
	// unjournalled are the text pieces since the last answer, from event sequence
	// shownFrom on. The last hidden of them came while a step before them was held.
	unjournalled events.Pieces
	shownFrom    int64
	hidden       int
}

// newJournal goes on with the journal of a turn that is durable, and was read at its
// present epoch.
func newJournal(p *Pipeline, at store.Claim, steps []agent.Step) *journal {
	j := &journal{store: p.Store, now: p.Now, times: p.Limits, node: p.node, key: at.Key, epoch: at.Epoch,
		position: position{nextStep: 1, nextEvent: 1, all: steps}}
	if n := len(steps); n > 0 {
		last := steps[n-1]
		j.nextStep = last.N + 1
		j.nextEvent = last.FirstEvent + int64(last.EventCount())
	}
	return j
}

// begin begins the journal of a turn that its first commit makes durable: the next
// one, or one of its own if that does not come soon. Where there are other nodes it is
// done at once.
func begin(p *Pipeline, n store.NewTurn, live *events.Log, steps ...agent.Step) *journal {
	n.Lease = p.node.claim()
	j := newJournal(p, store.Claim{Key: n.Turn.Key}, nil)
	j.live, j.first, j.born = live, &n, make(chan struct{})
	j.Soon(steps...)
	return j
}

// opening returns the session that an unborn turn was built from. Its mode is the
// session's when the turn is born: the store refuses it otherwise.
func (j *journal) opening() (agent.Session, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.first == nil {
		return agent.Session{}, false
	}
	return *j.first.Session, true
}

// journalled returns the whole journal, held steps included, as all has it.
func (j *journal) journalled() []agent.Step {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.all
}

// decidedAt returns when the last decision was taken in.
func (j *journal) decidedAt() (at time.Time) {
	for _, s := range j.journalled() {
		if s.Kind == agent.StepDecided {
			at = s.At
		}
	}
	return at
}

// close gives up what is held and not committed.
func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.timer != nil {
		j.timer.Stop()
		j.timer = nil
	}
	if j.live != nil {
		j.live.Close()
	}
}

// stillborn returns why the turn could not be made durable. It does not wait for the
// commit that may be under way by then.
func (j *journal) stillborn() error {
	select {
	case <-j.born:
		return j.bornErr // written before born was closed, and never again
	default:
		return nil
	}
}

// Delta implements reasoner.Journal.
func (j *journal) Delta(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.unjournalled.Len() == 0 {
		j.shownFrom = j.nextEvent
		j.shorten()
	}
	j.unjournalled.Add(text)
	j.nextEvent++
	switch {
	case len(j.held) > 0:
		j.hidden++
	case j.live != nil:
		j.live.Append(agent.Event{Type: agent.EventTextDelta, Sequence: j.nextEvent - 1, SessionID: j.key.Session, TurnID: j.key.Turn, Text: text})
	}
}

// piece returns the event of the n-th last piece of text.
func (j *journal) piece(n int) agent.Event {
	return agent.Event{Type: agent.EventTextDelta, Sequence: j.nextEvent - int64(n),
		SessionID: j.key.Session, TurnID: j.key.Turn, Text: j.unjournalled.At(j.unjournalled.Len() - n)}
}

// Hold implements reasoner.Journal.
func (j *journal) Hold(s agent.Step) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.hold(s)
}

func (j *journal) hold(s agent.Step) { j.held = append(j.held, j.number(s)) }

// Soon implements reasoner.Journal.
func (j *journal) Soon(steps ...agent.Step) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range steps {
		j.hold(s)
	}
	switch {
	// Another node may be sent the same turn at the same time, and one of them only must
	// ask the model.
	case j.times.Gather < 0, j.first != nil && j.node != nil:
		j.flush()
	case j.timer == nil:
		j.timer = time.AfterFunc(j.times.Gather, j.due)
	}
}

// due is called by the timer.
func (j *journal) due() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.timer != nil { // else another commit was quicker
		j.flush()
	}
}

// flush commits what is held. When that fails it is held still, and the next commit
// tells the turn.
func (j *journal) flush() {
	within := j.times.SettleTime
	if j.first != nil && j.node != nil {
		within = min(within, openTime)
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if j.first != nil {
		_ = j.commit(ctx, store.Append{State: agent.TurnAccepted}) // stillborn has its error
		return
	}
	_ = j.commit(ctx, goesOn())
}

// goesOn is the transition of a turn that goes on.
func goesOn() store.Append {
	return store.Append{State: agent.TurnRunning, From: []agent.TurnState{agent.TurnAccepted, agent.TurnRunning}}
}

// number gives a step its place. The pieces of text that were shown already belong
// to the next answer, or to the end of the turn when no answer came of them.
func (j *journal) number(s agent.Step) agent.Step {
	s.N, s.At = j.nextStep, j.now().UTC().Truncate(time.Microsecond)
	s.FirstEvent = j.nextEvent
	j.nextStep++
	if closes := s.Kind == agent.StepAnswered || s.Kind == agent.StepSettled; closes && j.unjournalled.Len() > 0 {
		s.FirstEvent = j.shownFrom
		if s.Kind == agent.StepAnswered {
			s.Answered.Deltas = j.unjournalled.Strings()
		} else {
			s.Settled.Partial = j.unjournalled.Strings()
		}
		j.unjournalled, j.hidden = events.Pieces{}, 0
	}
	j.nextEvent = s.FirstEvent + int64(s.EventCount())
	j.all = append(j.all, s)
	return s
}

// Append implements reasoner.Journal.
func (j *journal) Append(ctx context.Context, steps ...agent.Step) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.commit(ctx, goesOn(), steps...)
}

// commit writes the held steps and these with a change of the turn's row, in one
// transaction, and shows them afterwards. When that fails these steps have not
// happened, and the turn can go another way; what was held before is held still.
func (j *journal) commit(ctx context.Context, a store.Append, steps ...agent.Step) error {
	switch {
	case j.bornErr != nil:
		return errStillborn
	case j.lost.Load():
		return errLost
	}
	before := j.position
	for _, s := range steps {
		j.hold(s)
	}
	a.Key, a.Steps = j.key, j.held
	if entry := entryOf(j.all); entry != entryOf(j.all[:len(j.all)-len(j.held)]) {
		a.ModeEntry = entry
	}
	if err := j.write(ctx, a); err != nil {
		j.position = before
		if j.owned && j.node.loses(err) {
			j.lose()
		}
		return fmt.Errorf("journal turn %s: %w", j.key, err)
	}
	if j.timer != nil {
		j.timer.Stop()
		j.timer = nil
	}
	j.held = nil
	if j.unjournalled.Len() > 0 {
		j.shorten()
	}
	j.show(a.Steps)
	return nil
}

// shorten forgets the requests that are committed, once the model answers them: they are
// not sent again by this process, and the answer may be long. What journalled returned
// before stays as it is.
func (j *journal) shorten() {
	cloned := false
	for i := range len(j.all) - len(j.held) {
		a := j.all[i].Asked
		if a == nil || a.WireHead == "" {
			continue
		}
		if !cloned {
			j.all, cloned = slices.Clone(j.all), true
		}
		j.all[i].Asked = a.Brief()
	}
}

// write writes a transition. The first one brings the turn with it; a turn that
// cannot be opened has never been.
func (j *journal) write(ctx context.Context, a store.Append) error {
	if j.first == nil {
		failpoint.Hit(failpoint.BeforeCommit)
		err := j.transition(ctx, a)
		failpoint.Hit(failpoint.AfterCommit)
		return err
	}
	n := j.first
	n.Steps, n.LastResponseID, n.ModeEntry = a.Steps, a.LastResponseID, a.ModeEntry
	n.Turn.State, n.Turn.Response, n.Turn.Fault = a.State, a.Response, a.Fault
	n.Turn.UpdatedAt = a.Steps[len(a.Steps)-1].At
	if !a.Deadline.IsZero() {
		n.Turn.Deadline = a.Deadline
	}
	j.first = nil
	failpoint.Hit(failpoint.BeforeAccept)
	j.bornErr = j.store.OpenTurn(ctx, *n)
	failpoint.Hit(failpoint.AfterAccept)
	if j.node != nil && j.bornErr == nil {
		j.epoch, j.owned = 1, true
	}
	close(j.born)
	return j.bornErr
}

// transition writes a transition of a turn that is there.
func (j *journal) transition(ctx context.Context, a store.Append) error {
	if j.node == nil {
		return j.store.AppendSteps(ctx, a)
	}
	// As long as the primary may take to change, and no longer: others wait for the turn.
	within := j.times.SettleTime
	a.Epoch = j.epoch
	if j.owned {
		a.Owner = j.node.owner
	} else {
		within = min(within, openTime)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := j.store.AppendSteps(ctx, a)
	if err == nil && a.Lease.Owner != "" {
		j.epoch, j.owned = j.epoch+1, true
	}
	return err
}

// claim returns the claim under which the turn runs here.
func (j *journal) claim() store.Claim {
	j.mu.Lock()
	defer j.mu.Unlock()
	return store.Claim{Key: j.key, Epoch: j.epoch}
}

// lose gives the turn up, to another node.
func (j *journal) lose() {
	j.lost.Store(true)
	if j.live != nil {
		j.live.Close()
	}
}

// show publishes the events of committed steps, and the text that waited behind them.
func (j *journal) show(steps []agent.Step) {
	hidden := j.hidden
	j.hidden = 0
	if j.live == nil {
		return
	}
	// What was shown piece by piece is not made into events again: a long answer has
	// thousands, and turns end all the time.
	next := j.live.Next()
	unseen := func(s agent.Step) bool {
		return s.Kind != agent.StepAnswered || s.FirstEvent+int64(s.EventCount()) > next
	}
	n := hidden
	for _, s := range steps {
		if unseen(s) {
			n += s.EventCount()
		}
	}
	out := make([]agent.Event, 0, n)
	for _, s := range steps {
		if unseen(s) {
			out = s.AppendEvents(out, j.key) // the log drops what it has already
		}
	}
	for n := hidden; n > 0; n-- {
		out = append(out, j.piece(n))
	}
	j.live.Append(out...)
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
	failpoint.Hit(failpoint.BeforeSettle)
	defer failpoint.Hit(failpoint.AfterSettle)
	j.mu.Lock()
	defer j.mu.Unlock()
	// Whoever ends the turn in the place of its owner lets the owner write nothing more.
	a.Fence = !j.owned
	return j.commit(ctx, a, agent.Step{Kind: agent.StepSettled, Settled: &s})
}

// completed notes what the turn leaves.
func (j *journal) completed(items []json.RawMessage) {
	if j.ending != nil {
		j.ending.completed, j.ending.items = true, items
	}
}

// wait hands the turn over to the client, or to its user with what he is asked.
func (j *journal) wait(ctx context.Context, d agent.Delivery, until time.Time, asked ...agent.Step) error {
	failpoint.Hit(failpoint.BeforeHandover)
	defer failpoint.Hit(failpoint.AfterHandover)
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.commit(ctx, store.Append{
		State: agent.TurnWaiting, From: []agent.TurnState{agent.TurnAccepted, agent.TurnRunning}, Response: d.Response, Deadline: until,
	}, append(asked, agent.Step{Kind: agent.StepWaiting, Waiting: &d})...)
}

// begins makes a queued turn the active one.
func (j *journal) begins(ctx context.Context, start store.Start, deadline time.Time, steps ...agent.Step) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.commit(ctx, store.Append{
		State: agent.TurnAccepted, From: []agent.TurnState{agent.TurnAccepted}, Start: &start, Deadline: deadline, Lease: j.node.claim(),
	}, steps...)
}

// waitOn takes a decision in after which others are still to come; d is what is left to
// decide. approved, when set, are the tools that are approved for the session now.
func (j *journal) waitOn(ctx context.Context, decided agent.Step, d agent.Delivery, approved []string) error {
	failpoint.Hit(failpoint.BeforeDecide)
	defer failpoint.Hit(failpoint.AfterDecide)
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.commit(ctx, store.Append{
		State: agent.TurnWaiting, From: []agent.TurnState{agent.TurnWaiting}, Response: d.Response, Approved: approved,
	}, decided, agent.Step{Kind: agent.StepWaiting, Waiting: &d})
}

// decide takes the last decisions in, after which the turn goes on.
func (j *journal) decide(ctx context.Context, deadline time.Time, approved []string, decided ...agent.Step) error {
	failpoint.Hit(failpoint.BeforeDecide)
	defer failpoint.Hit(failpoint.AfterDecide)
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.commit(ctx, store.Append{
		State: agent.TurnRunning, From: []agent.TurnState{agent.TurnWaiting}, Deadline: deadline, Approved: approved, Lease: j.node.claim(),
	}, decided...)
}

// proceed takes the client's results in.
func (j *journal) proceed(ctx context.Context, c agent.Continued, deadline time.Time) error {
	failpoint.Hit(failpoint.BeforeContinue)
	defer failpoint.Hit(failpoint.AfterContinue)
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.commit(ctx, store.Append{
		State: agent.TurnRunning, From: []agent.TurnState{agent.TurnWaiting}, ContinuationSHA256: c.SHA256, Deadline: deadline, Lease: j.node.claim(),
	}, agent.Step{Kind: agent.StepContinued, Continued: &c})
}

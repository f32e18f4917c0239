package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/sqlite/db"
)

// AppendSteps writes one transition of a turn, in one transaction. It returns
// store.ErrState when the turn is not in one of the states it may come from, or
// when the steps do not follow the newest one: then somebody else has moved it.
func (s *Store) AppendSteps(ctx context.Context, a store.Append) error {
	k := a.Key
	doing := "append to turn " + k.String()
	contents, err := s.contents(ctx, a)
	if err != nil {
		return explain(doing, err)
	}
	steps, err := encodeSteps(a.Steps, contents)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	fault, err := encodeFault(a.Fault)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	write := s.write
	if a.State == agent.TurnRunning && slices.Contains(a.From, agent.TurnWaiting) {
		write = s.begin // a turn that has waited can wait on
	}
	key := sessionOf(k)
	var known remembered
	return write(ctx, doing, func(ctx context.Context, q *db.Queries) error {
		known = s.memory.begin(key)
		at, err := q.Position(ctx, db.PositionParams{Org: k.Org, SessionID: k.Session, TurnID: k.Turn})
		if errors.Is(err, sql.ErrNoRows) {
			return noTurn(k)
		}
		if err != nil {
			return err
		}
		if err := mayStart(ctx, q, a); err != nil {
			return err
		}
		updated := s.updated(steps.rows)
		if err := moveTurn(ctx, q, a, at.State, fault, updated); err != nil {
			return err
		}
		if err := insertSteps(ctx, q, &known, key, at.Number, at.NewestStep, steps.rows); err != nil {
			return err
		}
		known.standing = known.standing.appended(a, updated)
		if err := s.report(ctx, q, a); err != nil || !a.MovesSession() {
			return err
		}
		return q.MoveSession(ctx, db.MoveSessionParams{Org: k.Org, SessionID: k.Session, UpdatedAt: updated,
			LastResponseID: a.LastResponseID, ModeEntry: string(a.ModeEntry), ApprovedTools: store.EncodeApproved(a.Approved)})
	}, func() { s.memory.learn(key, known) }, steps.Release)
}

// report tells the audit log and the webhooks of what a transition means to them.
func (s *Store) report(ctx context.Context, q *db.Queries, a store.Append) error {
	for _, e := range store.DecidedEntries(a, agent.OriginOf(ctx)) {
		if err := s.record(ctx, q, e); err != nil {
			return err
		}
	}
	if !s.hooked.Has(a.Key.Org) {
		return nil
	}
	if m, ok := store.MessageOf(a); ok {
		return s.tell(ctx, q, m)
	}
	return nil
}

// mayStart refuses to start a turn that was built from another version of its session.
// That no other turn is active the index sees to.
func mayStart(ctx context.Context, q *db.Queries, a store.Append) error {
	if a.Start == nil {
		return nil
	}
	sess, err := findSession(ctx, q, a.Key.Org, a.Key.Session)
	if err == nil && sess.Version != a.Start.SessionVersion {
		err = fmt.Errorf("%w: it is at version %d, not %d", store.ErrVersion, sess.Version, a.Start.SessionVersion)
	}
	return err
}

// moveTurn updates the turn's row, provided that it is still in a state from which
// that is allowed.
func moveTurn(ctx context.Context, q *db.Queries, a store.Append, state agent.TurnState, fault []byte, updated int64) error {
	from := a.From
	if len(from) == 0 {
		from = store.Active()
	}
	if !slices.Contains(from, state) {
		return fmt.Errorf("%w: it is %s, not one of %v", store.ErrState, state, from)
	}
	move := db.MoveTurnParams{
		Org:       a.Key.Org,
		SessionID: a.Key.Session,
		TurnID:    a.Key.Turn,
		FromState: state,
		State:     a.State,
		Response:  a.Response,
		Fault:     fault,
		UpdatedAt: updated,
	}
	if a.State == "" {
		move.State = state
	}
	if a.Start != nil {
		move.Mode, move.Tools = string(a.Start.Mode), a.Start.Tools
	}
	if a.ContinuationSHA256 != "" {
		move.ContinuationSHA256 = &a.ContinuationSHA256
	}
	if !a.Deadline.IsZero() {
		deadline := micros(a.Deadline)
		move.Deadline = &deadline
	}
	n, err := q.MoveTurn(ctx, move)
	if err == nil && n == 0 {
		return store.ErrState
	}
	return err
}

// Steps returns the journal of a turn.
func (s *Store) Steps(ctx context.Context, k agent.TurnKey) ([]agent.Step, error) {
	doing := "read the journal of turn " + k.String()
	rows, err := s.read.Steps(ctx, db.StepsParams{Org: k.Org, SessionID: k.Session, TurnID: k.Turn})
	if err != nil {
		return nil, explain(doing, err)
	}
	if len(rows) == 0 {
		if _, err := s.Turn(ctx, k); err != nil {
			return nil, err
		}
	}
	steps := make([]agent.Step, 0, len(rows))
	mend := s.mender(ctx, k.Org)
	for _, r := range rows {
		step := agent.Step{N: int(r.N), Kind: r.Kind, FirstEvent: r.FirstEvent, At: instant(r.At)}
		data, items, err := mend.Step(r.Data, r.Items, r.Cuts)
		if err != nil {
			return nil, explain(doing, err)
		}
		if step, err = store.DecodeStep(step, data, items); err == nil {
			err = putHead(&step, r)
		}
		if err != nil {
			return nil, explain(doing, err)
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// Transcript returns what the model has seen and said in the completed turns of a
// session, raw and in order, of the turns with an ordinal above after and below before;
// 0 is no bound.
func (s *Store) Transcript(ctx context.Context, org agent.OrgID, id agent.SessionID, after, before int64) ([]store.TurnItems, error) {
	doing := fmt.Sprintf("read the transcript of session %s/%s", org, id)
	if before == 0 {
		before = math.MaxInt64
	}
	rows, err := s.read.Transcript(ctx, db.TranscriptParams{Org: org, SessionID: id, After: after, Before: before})
	if err != nil {
		return nil, explain(doing, err)
	}
	var t store.Transcript
	mend := s.mender(ctx, org)
	for _, r := range rows {
		items, err := mend.Items(r.Items, r.Cuts)
		if err != nil {
			return nil, explain(doing, err)
		}
		if err := t.Add(r.Ordinal, r.Kind, items); err != nil {
			return nil, explain(doing, err)
		}
	}
	return t.Turns(), nil
}

// encoded are steps in their stored form, in memory that is released when they are written.
type encoded struct {
	rows []db.InsertStepParams
	*store.StepEncoder
}

// encodeSteps brings the steps into their stored form, without the contents that the
// turn's blobs hold, before the writer is asked, so that it has nothing to do but write. Their
// ids are the steps' own numbers, to which insertSteps adds the turn's, and those with a head
// have its hash beside it, of which insertSteps writes one.
func encodeSteps(steps []agent.Step, contents []agent.Blob) (encoded, error) {
	out := encoded{make([]db.InsertStepParams, 0, len(steps)), store.NewStepEncoder()}
	for _, step := range steps {
		step, head := takeHead(step)
		data, items, err := out.Encode(step)
		if err != nil {
			return encoded{}, err
		}
		data, items, cuts, err := store.CutStep(data, items, contents)
		if err != nil {
			return encoded{}, err
		}
		row := db.InsertStepParams{
			ID:         int64(step.N),
			Kind:       step.Kind,
			FirstEvent: step.FirstEvent,
			At:         micros(step.At),
			Data:       data,
			Items:      items,
			Cuts:       cuts,
		}
		if head.text != nil {
			row.Head, row.HeadSHA256 = head.text, &head.sha256
		}
		out.rows = append(out.rows, row)
	}
	return out, nil
}

// takeHead returns the step without the head of its request, and the head. The caller's step
// stays as it is.
func takeHead(s agent.Step) (agent.Step, hashed) {
	if s.Asked == nil || s.Asked.WireHead == "" {
		return s, hashed{}
	}
	bare := *s.Asked
	bare.WireHead = ""
	head := heads.Of(s.Asked.WireHead, newHashed)
	s.Asked = &bare
	return s, head
}

// putHead puts the head back where takeHead took it. Rows are input like any other.
func putHead(s *agent.Step, r db.StepsRow) error {
	head, err := placed(r.Head, r.HeadSHA256, r.Text)
	switch {
	case err != nil:
		return fmt.Errorf("the request of step %d: %w", s.N, err)
	case head == nil:
		return nil // there is none, or its data has it
	case s.Asked == nil:
		return fmt.Errorf("step %d is no request and has the head of one", s.N)
	}
	s.Asked.WireHead = string(head)
	return nil
}

// stepBits is how many bits of a step's id are its own number; the turn's number is above
// them. It stands in the queries and in the schema, too.
const stepBits = 20

// insertSteps appends to the journal of the turn with this number, whose newest step is
// given. Steps that do not follow on come from a writer that has missed something.
func insertSteps(ctx context.Context, q *db.Queries, known *remembered, session store.SessionKey, turn, newest int64, steps []db.InsertStepParams) error {
	for _, step := range steps { // copies: the unit may be run twice
		newest++
		if step.ID != newest {
			return fmt.Errorf("%w: its next step is %d, not %d", store.ErrState, newest, step.ID)
		}
		if newest >= 1<<stepBits {
			return fmt.Errorf("the journal is full: it has %d steps", newest-1)
		}
		step.ID |= turn << stepBits
		if step.Head != nil {
			var err error
			if step.Head, step.HeadSHA256, err = known.place(ctx, q, session, step.Head, *step.HeadSHA256); err != nil {
				return fmt.Errorf("step %d: %w", newest, err)
			}
		}
		if err := q.InsertStep(ctx, step); err != nil {
			return fmt.Errorf("step %d: %w", newest, err)
		}
	}
	return nil
}

// updated is when a transition happened: the time of its last step.
func (s *Store) updated(steps []db.InsertStepParams) int64 {
	if len(steps) > 0 && steps[len(steps)-1].At != 0 {
		return steps[len(steps)-1].At
	}
	return micros(s.now())
}

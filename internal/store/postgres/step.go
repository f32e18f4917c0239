package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/postgres/db"
)

// AppendSteps writes one transition of a turn, in one transaction. It returns
// store.ErrState when the turn is not in one of the states it may come from, or
// when the steps do not follow the newest one: then somebody else has moved it. A turn
// at another epoch or of another owner, and a claim on one that another owner runs, are
// store.ErrFenced.
func (s *Store) AppendSteps(ctx context.Context, a store.Append) error {
	k := a.Key
	doing := fmt.Sprintf("append to turn %s", k)
	contents, err := s.contents(ctx, doing, a)
	if err != nil {
		return err
	}
	steps, err := encodeSteps(a.Steps, contents)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	row, err := s.appendSteps(a, steps)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	message, _ := store.MessageOf(a)
	decided := convert(store.DecidedEntries(a, agent.OriginOf(ctx)), s.auditRow)
	write := s.write
	if a.State == agent.TurnRunning && slices.Contains(a.From, agent.TurnWaiting) {
		write = s.begin // a turn that has waited can wait on
	}
	return write(ctx, unit{
		doing: doing,
		run: func(ctx context.Context, c *pgxpool.Conn) error {
			if !steps.follow(row.NewestStep) {
				return whyNotAppended(ctx, db.New(c), a, row, steps)
			}
			err := s.telling(ctx, c, message, func(q *db.Queries) error {
				if a.Start != nil || a.MovesSession() {
					// What is read or written of the session goes with the turn; and everybody locks
					// the session first.
					if err := q.LockSession(ctx, db.LockSessionParams{Org: k.Org, SessionID: k.Session}); err != nil {
						return err
					}
				}
				n, err := q.AppendSteps(ctx, row)
				if err == nil && n == 0 {
					err = errUnmoved
				}
				return err
			}, decided...)
			if errors.Is(err, errUnmoved) || isTaken(err, constraintActive) || isMissing(err) {
				err = whyNotAppended(ctx, db.New(c), a, row, steps)
			}
			return err
		},
		landed: func(ctx context.Context, q *db.Queries) (bool, error) {
			if len(steps.numbers) > 0 {
				return steps.are(ctx, q, k)
			}
			// Without a step there is the moment, which is of this process.
			got, err := q.Turn(ctx, db.TurnParams{Org: k.Org, SessionID: k.Session, TurnID: k.Turn})
			if isMissing(err) {
				return false, nil
			}
			return err == nil && got.UpdatedAt == row.UpdatedAt && (a.State == "" || got.State == a.State), err
		},
	})
}

// errUnmoved is a transition that found its turn elsewhere.
var errUnmoved = errors.New("the turn was not moved")

// telling sends a transition in one round trip, unless the audit log or webhooks are told
// of it: then it is a transaction with what they are told.
func (s *Store) telling(ctx context.Context, c *pgxpool.Conn, m store.Message, send func(*db.Queries) error, entries ...db.InsertAuditParams) error {
	tells := m.ID != "" && s.hooked.Has(m.Org)
	if !tells && len(entries) == 0 {
		return send(batched(ctx, c))
	}
	return transact(ctx, c, func(q *db.Queries) error {
		if err := send(q); err != nil {
			return err
		}
		for _, e := range entries {
			if err := q.InsertAudit(ctx, e); err != nil {
				return err
			}
		}
		if !tells {
			return nil
		}
		return tell(ctx, q, m)
	})
}

// appendSteps is what is to be written, and on which conditions.
func (s *Store) appendSteps(a store.Append, steps stepRows) (db.AppendStepsParams, error) {
	fault, err := encodeFault(a.Fault)
	if err != nil {
		return db.AppendStepsParams{}, err
	}
	row := db.AppendStepsParams{
		Org:            string(a.Key.Org),
		SessionID:      string(a.Key.Session),
		TurnID:         string(a.Key.Turn),
		FromStates:     convert(from(a), func(state agent.TurnState) string { return string(state) }),
		Response:       a.Response,
		Fault:          fault,
		LastResponseID: optionalText(a.LastResponseID),
		ModeEntry:      string(a.ModeEntry),
		ApprovedTools:  store.EncodeApproved(a.Approved),
		MovesSession:   a.MovesSession(),
		UpdatedAt:      s.updated(steps),
		Epoch:          a.Epoch,
		Writer:         a.Owner,
		Numbers:        steps.numbers,
		Kinds:          steps.kinds,
		FirstEvents:    steps.firstEvents,
		Times:          steps.times,
		Data:           steps.data,
		Items:          steps.items,
		Cuts:           steps.cuts,
	}
	if len(steps.numbers) > 0 {
		row.NewestStep = steps.numbers[0] - 1
	}
	if a.State != "" {
		row.State = (*string)(&a.State)
		row.Rests = a.State == agent.TurnWaiting || a.State.Terminal()
		row.Fences = a.Fence && row.Rests
	}
	if a.Lease.Owner != "" && !row.Rests {
		row.Claims, row.Owner, row.Lease = true, a.Lease.Owner, a.Lease.For.Microseconds()
	}
	if a.Start != nil {
		row.Version, row.Tools = &a.Start.SessionVersion, a.Start.Tools
		if a.Start.Mode != "" {
			row.Mode = (*string)(&a.Start.Mode)
		}
	}
	if a.ContinuationSHA256 != "" {
		row.ContinuationSHA256 = &a.ContinuationSHA256
	}
	if !a.Deadline.IsZero() {
		deadline := micros(a.Deadline)
		row.Deadline = &deadline
	}
	return row, nil
}

// from are the states that the transition may come from.
func from(a store.Append) []agent.TurnState {
	if len(a.From) == 0 {
		return store.Active()
	}
	return a.From
}

// whyNotAppended says why a transition was refused. When nothing is in its way any more
// it is to be tried again.
func whyNotAppended(ctx context.Context, q *db.Queries, a store.Append, row db.AppendStepsParams, steps stepRows) error {
	at, err := q.Position(ctx, db.PositionParams{Org: a.Key.Org, SessionID: a.Key.Session, TurnID: a.Key.Turn})
	switch {
	case isMissing(err):
		return noTurn(a.Key)
	case err != nil:
		return err
	case at.Epoch != a.Epoch:
		// Before all else: whoever is not the owner has no business with the rest.
		return fmt.Errorf("%w: it is at epoch %d, not %d", store.ErrFenced, at.Epoch, a.Epoch)
	case row.Writer != "" && at.Owner != row.Writer:
		return fmt.Errorf("%w: it is %q, not %q", store.ErrFenced, at.Owner, row.Writer)
	case row.Claims && at.Leased && at.Owner != row.Owner:
		return fmt.Errorf("%w: the lease of %s holds", store.ErrFenced, at.Owner)
	case a.Start != nil && at.Version != a.Start.SessionVersion:
		return fmt.Errorf("%w: it is at version %d, not %d", store.ErrVersion, at.Version, a.Start.SessionVersion)
	case !slices.Contains(from(a), at.State):
		return fmt.Errorf("%w: it is %s, not one of %v", store.ErrState, at.State, from(a))
	case len(steps.numbers) > 0 && (at.Steps != row.NewestStep || !steps.follow(at.Steps)):
		return steps.refusal(at.Steps)
	case a.Start != nil && at.Active != "":
		return &store.ActiveError{Turn: agent.TurnID(at.Active)}
	}
	return errAgain
}

// Steps returns the journal of a turn.
func (s *Store) Steps(ctx context.Context, k agent.TurnKey) ([]agent.Step, error) {
	doing := fmt.Sprintf("read the journal of turn %s", k)
	var rows []db.StepsRow
	err := s.repeat(ctx, doing, func(ctx context.Context, q *db.Queries) (err error) {
		rows, err = q.Steps(ctx, db.StepsParams{Org: k.Org, SessionID: k.Session, TurnID: k.Turn})
		if isMissing(err) {
			return noTurn(k)
		}
		return err
	})
	if err != nil {
		return nil, err
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
		if step, err = store.DecodeStep(step, data, items); err != nil {
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
	var rows []db.TranscriptRow
	err := s.repeat(ctx, doing, func(ctx context.Context, q *db.Queries) (err error) {
		rows, err = q.Transcript(ctx, db.TranscriptParams{Org: org, SessionID: id, After: after, Before: before})
		return err
	})
	if err != nil {
		return nil, err
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

// stepRows are steps as they are stored, column by column.
type stepRows struct {
	numbers, firstEvents, times []int64
	kinds                       []string
	data, items, cuts           [][]byte
}

// encodeSteps brings the steps into their stored form, without the contents that the
// turn's blobs hold.
func encodeSteps(steps []agent.Step, contents []agent.Blob) (rows stepRows, err error) {
	rows.numbers = []int64{} // an empty array has a length in SQL, NULL has none
	for _, step := range steps {
		data, items, err := store.EncodeStep(step)
		if err != nil {
			return stepRows{}, err
		}
		data, items, cuts, err := store.CutStep(data, items, contents)
		if err != nil {
			return stepRows{}, err
		}
		rows.numbers = append(rows.numbers, int64(step.N))
		rows.kinds = append(rows.kinds, string(step.Kind))
		rows.firstEvents = append(rows.firstEvents, step.FirstEvent)
		rows.times = append(rows.times, micros(step.At))
		rows.data = append(rows.data, data)
		rows.items = append(rows.items, items)
		rows.cuts = append(rows.cuts, cuts)
	}
	return rows, nil
}

// follow reports whether the steps go on from the newest one, without a gap.
func (r stepRows) follow(newest int64) bool {
	for i, n := range r.numbers {
		if n != newest+int64(i)+1 {
			return false
		}
	}
	return true
}

// refusal is what steps that do not follow get. They come from a writer that has missed
// something.
func (r stepRows) refusal(newest int64) error {
	for _, n := range r.numbers {
		if newest++; n != newest {
			return fmt.Errorf("%w: its next step is %d, not %d", store.ErrState, newest, n)
		}
	}
	return fmt.Errorf("%w: its newest step is another one", store.ErrState)
}

// are reports whether the turn has these very steps: a step of another writer may have
// the number, but not the words and the moment.
func (r stepRows) are(ctx context.Context, q *db.Queries, k agent.TurnKey) (bool, error) {
	if len(r.numbers) == 0 {
		return true, nil
	}
	got, err := q.StepsBetween(ctx, db.StepsBetweenParams{Org: k.Org, SessionID: k.Session, TurnID: k.Turn,
		FirstN: r.numbers[0], LastN: r.numbers[len(r.numbers)-1]})
	if err != nil || len(got) != len(r.numbers) {
		return false, err
	}
	for i, g := range got {
		if g.N != r.numbers[i] || string(g.Kind) != r.kinds[i] || g.FirstEvent != r.firstEvents[i] || g.At != r.times[i] ||
			!bytes.Equal(g.Data, r.data[i]) || !bytes.Equal(g.Items, r.items[i]) || !bytes.Equal(g.Cuts, r.cuts[i]) {
			return false, nil
		}
	}
	return true, nil
}

// updated is when a transition happened: the time of its last step.
func (s *Store) updated(steps stepRows) int64 {
	if n := len(steps.times); n > 0 && steps.times[n-1] != 0 {
		return steps.times[n-1]
	}
	return micros(s.now())
}

package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/sqlite/db"
)

// Standing returns what a turn with this key meets when it is opened.
func (s *Store) Standing(ctx context.Context, k agent.TurnKey) (store.Standing, error) {
	if at, known := s.memory.standing(k); known {
		return at, nil
	}
	// It is short, and a context that can end would cost more than it does.
	ctx = context.WithoutCancel(ctx)
	where := standingParams(k)
	var at store.Standing
	var err error
	if !s.writer.read(func(q *db.Queries) {
		if at, err = standingOf(ctx, q, where); err == nil {
			s.memory.met(k, at)
		}
	}) {
		at, err = standingOf(ctx, s.read, where)
	}
	return at, explain("read what turn "+k.String()+" meets", err)
}

func standingParams(k agent.TurnKey) db.StandingParams {
	return db.StandingParams{Org: k.Org, SessionID: k.Session, TurnID: k.Turn}
}

func standingOf(ctx context.Context, q *db.Queries, where db.StandingParams) (store.Standing, error) {
	row, err := q.Standing(ctx, where)
	if errors.Is(err, sql.ErrNoRows) {
		return store.Standing{}, nil
	}
	if err != nil {
		return store.Standing{}, err
	}
	sess := fromRow(row.Session)
	return store.Standing{Session: &sess, Known: row.Known, Active: agent.TurnID(row.Active), Queued: int(row.Queued)}, nil
}

// OpenTurn makes a user turn durable, in one transaction with its session when
// that is new, the latched solution context (AGN-034 §4.5), the contents that it
// names and its first steps.
//
// In this order it refuses with store.ErrExists a turn that is there already, with
// *store.ActiveError a turn of a busy session that is not Queued, and with store.ErrVersion one that
// was prepared from another version of the session. A session that is not there
// and not given is agent.KindNotFound.
func (s *Store) OpenTurn(ctx context.Context, n store.NewTurn) error {
	k := n.Turn.Key
	doing := "open turn " + k.String()
	if n.Session != nil && (n.Session.Org != k.Org || n.Session.ID != k.Session) {
		return fmt.Errorf("%s: the new session is %s/%s", doing, n.Session.Org, n.Session.ID)
	}
	steps, err := encodeSteps(n.Steps, n.Blobs)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	fault, err := encodeFault(n.Turn.Fault)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if n.Session != nil && n.Session.CreatedAt.IsZero() {
		sess := *n.Session
		sess.CreatedAt = s.now()
		n.Session = &sess
	}
	key, tools := sessionOf(k), hashOf(n.Turn.Tools)
	var known remembered
	return s.begin(ctx, doing, func(ctx context.Context, q *db.Queries) error {
		known = s.memory.begin(key)
		created := s.stamp(n.Turn.CreatedAt)
		updated := created
		if !n.Turn.UpdatedAt.IsZero() {
			updated = micros(n.Turn.UpdatedAt)
		}
		if err := s.admit(ctx, q, n, updated); err != nil {
			return err
		}
		row := insertTurn(n.Turn, fault, created, updated)
		var err error
		if row.Tools, row.ToolsSHA256, err = known.place(ctx, q, key, n.Turn.Tools, tools); err != nil {
			return err
		}
		number, err := addTurn(ctx, q, row)
		if err != nil {
			return err
		}
		if err := insertBlobs(ctx, q, k, n.Blobs, created); err != nil {
			return err
		}
		if err := insertSteps(ctx, q, &known, key, number, 0, steps.rows); err != nil {
			return err
		}
		known.standing = s.memory.opened(known.standing, n, updated)
		if !s.hooked.Has(k.Org) {
			return nil
		}
		if m, ok := store.OpenedMessage(n); ok {
			return s.tell(ctx, q, m)
		}
		return nil
	}, func() { s.memory.learn(key, known) }, steps.Release)
}

// addTurn writes the row of a turn and returns its number.
func addTurn(ctx context.Context, q *db.Queries, row db.InsertTurnParams) (int64, error) {
	added, err := q.InsertTurn(ctx, row)
	if err != nil {
		return 0, err
	}
	n, err := added.RowsAffected()
	if err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, store.ErrExists
	}
	return added.LastInsertId()
}

// admit makes sure that the session is there, free, and as the turn expects it, and
// counts the turn in it.
func (s *Store) admit(ctx context.Context, q *db.Queries, n store.NewTurn, updated int64) error {
	k := n.Turn.Key
	version := n.SessionVersion
	if version == 0 {
		// A new session; what is in the way of it is found below.
		if n.Session == nil {
			return s.refusal(ctx, q, n)
		}
		if err := s.insertSession(ctx, q, *n.Session, n.By); errors.Is(err, store.ErrExists) {
			return s.refusal(ctx, q, n)
		} else if err != nil {
			return err
		}
		version = 1
	}
	queues := int64(0)
	if n.Turn.Queued {
		queues = 1
	}
	admitted, err := q.Admit(ctx, db.AdmitParams{Org: k.Org, SessionID: k.Session, Version: version, Queues: queues,
		SolutionContext: n.SolutionContext, LastResponseID: n.LastResponseID, ModeEntry: string(n.ModeEntry), UpdatedAt: updated})
	if err == nil && admitted == 0 {
		err = s.refusal(ctx, q, n)
	}
	return err
}

// refusal says why a turn is not admitted.
func (s *Store) refusal(ctx context.Context, q *db.Queries, n store.NewTurn) error {
	k := n.Turn.Key
	at, err := q.Admission(ctx, db.AdmissionParams{Org: k.Org, SessionID: k.Session, TurnID: k.Turn})
	switch {
	case errors.Is(err, sql.ErrNoRows) && n.SessionVersion != 0:
		return fmt.Errorf("%w: it was erased", store.ErrVersion)
	case errors.Is(err, sql.ErrNoRows):
		return noSession(k.Session)
	case err != nil:
		return err
	case at.Known:
		// A repeated turn is told first: to it, the active turn may be itself.
		return store.ErrExists
	case !n.Turn.Queued && (at.Active != "" || at.Awaited):
		return &store.ActiveError{Turn: agent.TurnID(at.Active)}
	}
	return fmt.Errorf("%w: it is at version %d, not %d", store.ErrVersion, at.Version, n.SessionVersion)
}

// Turn returns a turn.
func (s *Store) Turn(ctx context.Context, k agent.TurnKey) (agent.Turn, error) {
	doing := "read turn " + k.String()
	row, err := s.read.Turn(ctx, db.TurnParams{Org: k.Org, SessionID: k.Session, TurnID: k.Turn})
	if errors.Is(err, sql.ErrNoRows) {
		err = noTurn(k)
	}
	if err != nil {
		return agent.Turn{}, explain(doing, err)
	}
	turn, err := fromTurnRow(row.Turn, row.Text)
	return turn, explain(doing, err)
}

// Turns returns a page of the session's turns, oldest first, and the cursor of the
// next page, which is empty on the last one.
func (s *Store) Turns(ctx context.Context, org agent.OrgID, id agent.SessionID, page store.Page) ([]agent.Turn, string, error) {
	after, err := afterNumber(page, store.TurnList)
	if err != nil {
		return nil, "", err
	}
	doing := fmt.Sprintf("list the turns of session %s/%s", org, id)
	if _, err := findSession(ctx, s.read, org, id); err != nil {
		return nil, "", explain(doing, err)
	}
	rows, err := s.read.Turns(ctx, db.TurnsParams{Org: org, SessionID: id, Ordinal: after, Size: int64(page.Size()) + 1})
	if err != nil {
		return nil, "", explain(doing, err)
	}
	rows, next := cut(rows, page, func(r db.TurnsRow) string {
		return store.AfterTurn(r.Turn.Ordinal)
	})
	turns := make([]agent.Turn, 0, len(rows))
	for _, r := range rows {
		turn, err := fromTurnRow(r.Turn, r.Text)
		if err != nil {
			return nil, "", explain(doing, err)
		}
		turns = append(turns, turn)
	}
	return turns, next, nil
}

// Unfinished returns the turns that were begun and neither wait nor have ended, of every session:
// when nothing runs yet, those that the process before left behind.
func (s *Store) Unfinished(ctx context.Context) ([]agent.TurnKey, error) {
	rows, err := s.read.Unfinished(ctx)
	if err != nil {
		return nil, explain("list the unfinished turns", err)
	}
	return convert(rows, func(r db.UnfinishedRow) agent.TurnKey {
		return agent.TurnKey{Org: r.Org, Session: r.SessionID, Turn: r.TurnID}
	}), nil
}

// maxExpired bounds a sweep; the next one finds the rest.
const maxExpired = 1000

// Expired returns turns that wait, for their client or for their session, and whose
// deadline is over; of each kind the longest overdue first.
func (s *Store) Expired(ctx context.Context, now time.Time) ([]agent.TurnKey, error) {
	rows, err := s.read.Expired(ctx, db.ExpiredParams{Now: micros(now), Size: maxExpired})
	if err != nil {
		return nil, explain("list the expired turns", err)
	}
	queued, err := s.read.ExpiredQueued(ctx, db.ExpiredQueuedParams{Now: micros(now), Size: maxExpired})
	if err != nil {
		return nil, explain("list the expired turns", err)
	}
	return append(convert(rows, func(r db.ExpiredRow) agent.TurnKey {
		return agent.TurnKey{Org: r.Org, Session: r.SessionID, Turn: r.TurnID}
	}), convert(queued, func(r db.ExpiredQueuedRow) agent.TurnKey {
		return agent.TurnKey{Org: r.Org, Session: r.SessionID, Turn: r.TurnID}
	})...), nil
}

// NextQueued returns the turn that has waited longest for the session, a
// agent.KindNotFound when none waits.
func (s *Store) NextQueued(ctx context.Context, org agent.OrgID, id agent.SessionID) (agent.Turn, error) {
	doing := fmt.Sprintf("read the queue of session %s/%s", org, id)
	row, err := s.read.NextQueued(ctx, db.NextQueuedParams{Org: org, SessionID: id})
	if errors.Is(err, sql.ErrNoRows) {
		return agent.Turn{}, agent.Errorf(agent.KindNotFound, "No turn waits for session %q.", id)
	}
	if err != nil {
		return agent.Turn{}, explain(doing, err)
	}
	turn, err := fromTurnRow(row.Turn, row.Text)
	return turn, explain(doing, err)
}

// IdleQueues returns sessions in which turns wait and none is active, as keys without
// a turn.
func (s *Store) IdleQueues(ctx context.Context) ([]agent.TurnKey, error) {
	rows, err := s.read.IdleQueues(ctx, maxExpired)
	if err != nil {
		return nil, explain("list the queues that stand still", err)
	}
	return convert(rows, func(r db.IdleQueuesRow) agent.TurnKey {
		return agent.TurnKey{Org: r.Org, Session: r.SessionID}
	}), nil
}

// Queued returns how many turns wait for their session.
func (s *Store) Queued(ctx context.Context) (int64, error) {
	n, err := s.read.CountQueued(ctx)
	return n, explain("count the turns that are queued", err)
}

func insertTurn(t agent.Turn, fault []byte, created, updated int64) db.InsertTurnParams {
	state := t.State
	if state == "" {
		state = agent.TurnAccepted
	}
	return db.InsertTurnParams{
		Org:                t.Key.Org,
		SessionID:          t.Key.Session,
		TurnID:             t.Key.Turn,
		UserID:             t.User,
		State:              state,
		Request:            t.Request,
		BodySHA256:         t.BodySHA256,
		Mode:               t.Mode,
		Stream:             t.Stream,
		Response:           t.Response,
		Fault:              fault,
		ContinuationSHA256: t.ContinuationSHA256,
		Deadline:           micros(t.Deadline),
		CreatedAt:          created,
		UpdatedAt:          updated,
		Queued:             t.Queued,
	}
}

// fromTurnRow returns the turn of a row; text is the one that its tools are, if they are one
// of the session's.
func fromTurnRow(r db.Turn, text []byte) (agent.Turn, error) {
	tools, err := placed(r.Tools, r.ToolsSHA256, text)
	if err != nil {
		return agent.Turn{}, fmt.Errorf("the tools of turn %s/%s/%s: %w", r.Org, r.SessionID, r.TurnID, err)
	}
	t := agent.Turn{
		Key:                agent.TurnKey{Org: r.Org, Session: r.SessionID, Turn: r.TurnID},
		User:               r.UserID,
		Ordinal:            r.Ordinal,
		State:              r.State,
		Queued:             r.Queued,
		Request:            r.Request,
		BodySHA256:         r.BodySHA256,
		Mode:               r.Mode,
		Tools:              tools,
		Stream:             r.Stream,
		Response:           r.Response,
		ContinuationSHA256: r.ContinuationSHA256,
		Deadline:           instant(r.Deadline),
		CreatedAt:          instant(r.CreatedAt),
		UpdatedAt:          instant(r.UpdatedAt),
	}
	if len(r.Fault) > 0 {
		if err := json.Unmarshal(r.Fault, &t.Fault); err != nil {
			return agent.Turn{}, fmt.Errorf("decode the fault of turn %s: %w", t.Key, err)
		}
	}
	return t, nil
}

func encodeFault(f *agent.Fault) ([]byte, error) {
	if f == nil {
		return nil, nil
	}
	data, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encode the fault: %w", err)
	}
	return data, nil
}

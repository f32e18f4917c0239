package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/postgres/db"
)

// Standing returns what a turn with this key meets when it is opened.
func (s *Store) Standing(ctx context.Context, k agent.TurnKey) (store.Standing, error) {
	var row db.StandingRow
	found := true
	err := s.repeat(ctx, fmt.Sprintf("read what turn %s meets", k), func(ctx context.Context, q *db.Queries) (err error) {
		row, err = q.Standing(ctx, db.StandingParams{Org: k.Org, SessionID: k.Session, TurnID: k.Turn})
		if isMissing(err) {
			found, err = false, nil
		}
		return err
	})
	if err != nil || !found {
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
	doing := fmt.Sprintf("open turn %s", k)
	if n.Session != nil && (n.Session.Org != k.Org || n.Session.ID != k.Session) {
		return fmt.Errorf("%s: the new session is %s/%s", doing, n.Session.Org, n.Session.ID)
	}
	steps, err := encodeSteps(n.Steps, n.Blobs)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	message, _ := store.OpenedMessage(n)
	row, err := s.openTurn(n, steps)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return s.begin(ctx, unit{
		doing: doing,
		run: func(ctx context.Context, c *pgxpool.Conn) error {
			if row.Creates && n.Session == nil || !steps.follow(0) {
				return whyNotOpened(ctx, db.New(c), n, steps)
			}
			err := s.telling(ctx, c, message, func(q *db.Queries) error {
				if !row.Creates {
					if err := q.LockSession(ctx, db.LockSessionParams{Org: k.Org, SessionID: k.Session}); err != nil {
						return err
					}
				}
				_, err := q.OpenTurn(ctx, row)
				return err
			})
			if errors.Is(err, pgx.ErrNoRows) || isTaken(err, constraintTurn) || isTaken(err, constraintActive) {
				err = whyNotOpened(ctx, db.New(c), n, steps)
			}
			return err
		},
		landed: func(ctx context.Context, q *db.Queries) (bool, error) {
			got, err := q.Turn(ctx, db.TurnParams{Org: k.Org, SessionID: k.Session, TurnID: k.Turn})
			if isMissing(err) {
				return false, nil
			}
			// Another node may have been sent the same turn. Its moment is another one, and so
			// is its owner.
			if err != nil || got.BodySHA256 != row.BodySHA256 || got.CreatedAt != row.CreatedAt ||
				row.Owner != "" && got.Owner != "" && got.Owner != row.Owner {
				return false, err
			}
			return steps.are(ctx, q, k)
		},
	})
}

// openTurn is what is to be written.
func (s *Store) openTurn(n store.NewTurn, steps stepRows) (db.OpenTurnParams, error) {
	t, contents := n.Turn, contentsOf(n.Blobs)
	fault, err := encodeFault(t.Fault)
	if err != nil {
		return db.OpenTurnParams{}, err
	}
	state := t.State
	if state == "" {
		state = agent.TurnAccepted
	}
	created := s.stamp(t.CreatedAt)
	updated := created
	if !t.UpdatedAt.IsZero() {
		updated = micros(t.UpdatedAt)
	}
	row := db.OpenTurnParams{
		Org:                string(t.Key.Org),
		SessionID:          string(t.Key.Session),
		TurnID:             string(t.Key.Turn),
		Version:            n.SessionVersion,
		SolutionContext:    optionalText(n.SolutionContext),
		LastResponseID:     optionalText(n.LastResponseID),
		ModeEntry:          string(n.ModeEntry),
		UserID:             string(t.User),
		State:              string(state),
		Queued:             t.Queued,
		Request:            t.Request,
		BodySHA256:         t.BodySHA256,
		Mode:               string(t.Mode),
		Tools:              t.Tools,
		Stream:             t.Stream,
		Response:           t.Response,
		Fault:              fault,
		ContinuationSHA256: t.ContinuationSHA256,
		Deadline:           micros(t.Deadline),
		CreatedAt:          created,
		UpdatedAt:          updated,
		Numbers:            steps.numbers,
		Kinds:              steps.kinds,
		FirstEvents:        steps.firstEvents,
		Times:              steps.times,
		Data:               steps.data,
		Items:              steps.items,
		Cuts:               steps.cuts,
		BlobHashes:         contents.hashes,
		BlobTypes:          contents.types,
		BlobData:           contents.data,
		// Never NULL, though they count for a new session only.
		SystemPrompt:       []byte{},
		NewSolutionContext: []byte{},
		NewLastResponseID:  []byte{},
		Creates:            n.SessionVersion == 0,
	}
	if !t.Queued && (state == agent.TurnAccepted || state == agent.TurnRunning) {
		row.Owner, row.Lease = n.Lease.Owner, n.Lease.For.Microseconds()
	}
	if sess := n.Session; sess != nil && row.Creates {
		row.CreatedBy, row.SessionMode = string(sess.CreatedBy), string(sess.Mode)
		row.SystemPrompt, row.ClientTools = text(sess.SystemPrompt), sess.ClientTools
		row.AgentContext, row.ConversationContext = sess.AgentContext, sess.ConversationContext
		row.Concurrency, row.SessionCreatedAt = string(sess.Concurrency), s.stamp(sess.CreatedAt)
		e := s.auditRow(store.CreatedEntry(*sess, n.By))
		row.EntryID, row.AuditUser, row.Role, row.Credential = e.EntryID, string(e.UserID), string(e.Role), e.Credential
		row.RequestID, row.Address, row.AuditDetails = e.RequestID, e.Address, e.Details
		if row.NewSolutionContext = row.SolutionContext; row.NewSolutionContext == nil {
			row.NewSolutionContext = text(sess.SolutionContext)
		}
		if row.NewLastResponseID = row.LastResponseID; row.NewLastResponseID == nil {
			row.NewLastResponseID = text(sess.LastResponseID)
		}
	}
	return row, nil
}

// whyNotOpened says why a turn was not admitted. When nothing is in its way any more it
// is to be tried again.
func whyNotOpened(ctx context.Context, q *db.Queries, n store.NewTurn, steps stepRows) error {
	k := n.Turn.Key
	at, err := q.Admission(ctx, db.AdmissionParams{Org: k.Org, SessionID: k.Session, TurnID: k.Turn})
	none := isMissing(err)
	switch {
	case none && n.SessionVersion != 0:
		return fmt.Errorf("%w: it was erased", store.ErrVersion)
	case none && n.Session == nil:
		return noSession(k.Session)
	case err != nil && !none:
		return err
	case at.Known:
		// A repeated turn is told first: to it, the active turn may be itself.
		return store.ErrExists
	case !n.Turn.Queued && (at.Active != "" || at.Awaited):
		return &store.ActiveError{Turn: agent.TurnID(at.Active)}
	case !none && at.Version != n.SessionVersion:
		return fmt.Errorf("%w: it is at version %d, not %d", store.ErrVersion, at.Version, n.SessionVersion)
	case !steps.follow(0):
		return steps.refusal(0)
	}
	return errAgain
}

// Turn returns a turn.
func (s *Store) Turn(ctx context.Context, k agent.TurnKey) (agent.Turn, error) {
	var turn agent.Turn
	err := s.repeat(ctx, fmt.Sprintf("read turn %s", k), func(ctx context.Context, q *db.Queries) error {
		row, err := q.Turn(ctx, db.TurnParams{Org: k.Org, SessionID: k.Session, TurnID: k.Turn})
		if isMissing(err) {
			return noTurn(k)
		}
		if err != nil {
			return err
		}
		turn, err = fromTurnRow(row)
		return err
	})
	return turn, err
}

// Turns returns a page of the session's turns, oldest first, and the cursor of the
// next page, which is empty on the last one.
func (s *Store) Turns(ctx context.Context, org agent.OrgID, id agent.SessionID, page store.Page) ([]agent.Turn, string, error) {
	after, err := afterNumber(page, store.TurnList)
	if err != nil {
		return nil, "", err
	}
	doing := fmt.Sprintf("list the turns of session %s/%s", org, id)
	var rows []db.Turn
	err = s.repeat(ctx, doing, func(ctx context.Context, q *db.Queries) (err error) {
		if _, err := findSession(ctx, q, org, id); err != nil {
			return err
		}
		rows, err = q.Turns(ctx, db.TurnsParams{Org: org, SessionID: id, Ordinal: after, Size: int32(page.Size()) + 1})
		return err
	})
	if err != nil {
		return nil, "", err
	}
	rows, next := cut(rows, page, func(r db.Turn) string {
		return store.AfterTurn(r.Ordinal)
	})
	turns := make([]agent.Turn, 0, len(rows))
	for _, r := range rows {
		turn, err := fromTurnRow(r)
		if err != nil {
			return nil, "", explain(doing, err)
		}
		turns = append(turns, turn)
	}
	return turns, next, nil
}

// Unfinished returns the turns that were begun and neither wait nor have ended, of every
// session and whoever runs them. Takeover returns those that nobody runs.
func (s *Store) Unfinished(ctx context.Context) ([]agent.TurnKey, error) {
	var rows []db.UnfinishedRow
	err := s.repeat(ctx, "list the unfinished turns", func(ctx context.Context, q *db.Queries) (err error) {
		rows, err = q.Unfinished(ctx)
		return err
	})
	if err != nil {
		return nil, err
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
	var rows []db.ExpiredRow
	var queued []db.ExpiredQueuedRow
	err := s.repeat(ctx, "list the expired turns", func(ctx context.Context, q *db.Queries) (err error) {
		if rows, err = q.Expired(ctx, db.ExpiredParams{Now: micros(now), Size: maxExpired}); err != nil {
			return err
		}
		queued, err = q.ExpiredQueued(ctx, db.ExpiredQueuedParams{Now: micros(now), Size: maxExpired})
		return err
	})
	if err != nil {
		return nil, err
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
	var turn agent.Turn
	err := s.repeat(ctx, fmt.Sprintf("read the queue of session %s/%s", org, id), func(ctx context.Context, q *db.Queries) error {
		row, err := q.NextQueued(ctx, db.NextQueuedParams{Org: org, SessionID: id})
		if isMissing(err) {
			return agent.Errorf(agent.KindNotFound, "No turn waits for session %q.", id)
		}
		if err != nil {
			return err
		}
		turn, err = fromTurnRow(row)
		return err
	})
	return turn, err
}

// IdleQueues returns sessions in which turns wait and none is active, as keys without
// a turn.
func (s *Store) IdleQueues(ctx context.Context) ([]agent.TurnKey, error) {
	var rows []db.IdleQueuesRow
	err := s.repeat(ctx, "list the queues that stand still", func(ctx context.Context, q *db.Queries) (err error) {
		rows, err = q.IdleQueues(ctx, maxExpired)
		return err
	})
	if err != nil {
		return nil, err
	}
	return convert(rows, func(r db.IdleQueuesRow) agent.TurnKey {
		return agent.TurnKey{Org: r.Org, Session: r.SessionID}
	}), nil
}

// Queued returns how many turns wait for their session.
func (s *Store) Queued(ctx context.Context) (n int64, err error) {
	err = s.repeat(ctx, "count the turns that are queued", func(ctx context.Context, q *db.Queries) (err error) {
		n, err = q.CountQueued(ctx)
		return err
	})
	return n, err
}

func fromTurnRow(r db.Turn) (agent.Turn, error) {
	t := agent.Turn{
		Key:                agent.TurnKey{Org: r.Org, Session: r.SessionID, Turn: r.TurnID},
		User:               r.UserID,
		Ordinal:            r.Ordinal,
		State:              r.State,
		Queued:             r.Queued,
		Request:            r.Request,
		BodySHA256:         r.BodySHA256,
		Mode:               r.Mode,
		Tools:              r.Tools,
		Stream:             r.Stream,
		Response:           r.Response,
		ContinuationSHA256: r.ContinuationSHA256,
		Deadline:           instant(r.Deadline),
		Epoch:              r.Epoch,
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

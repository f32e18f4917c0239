package postgres

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/postgres/db"
)

// ChangeMode changes the session's mode: the mode, its history row and the
// session's version move in one transaction, so the newest row always names the
// session's mode (AGN-011 §3.2, §5.7; decision 11). It returns the session as it is
// afterwards, the change, and whether that change stands in the history.
//
// The mode that the session already has makes no row: false (decision 12). A call
// that is in the history already is answered with its row, true, and nothing is
// written, whatever has happened since. A change of a turn at another epoch is
// store.ErrFenced; while the session enters its mode every change is store.ErrEntering.
func (s *Store) ChangeMode(ctx context.Context, ch agent.ModeChange) (agent.Session, agent.ModeChange, bool, error) {
	at := s.stamp(ch.At)
	var (
		sess     db.Session
		recorded agent.ModeChange
		stands   bool
	)
	err := s.write(ctx, unit{
		doing: fmt.Sprintf("change the mode of session %s/%s", ch.Org, ch.Session),
		run: func(ctx context.Context, c *pgxpool.Conn) error {
			return transact(ctx, c, func(q *db.Queries) (err error) {
				sess, recorded, stands, err = s.changeMode(ctx, q, ch, at)
				return err
			})
		},
		landed: func(ctx context.Context, q *db.Queries) (bool, error) {
			row, found, err := changeAt(ctx, q, ch, at)
			if err != nil || !found {
				return false, err
			}
			recorded, stands = modeChange(row), true
			sess, err = findSession(ctx, q, ch.Org, ch.Session)
			return err == nil, err
		},
	})
	if err != nil {
		return agent.Session{}, agent.ModeChange{}, false, err
	}
	return fromRow(sess), recorded, stands, nil
}

func (s *Store) changeMode(ctx context.Context, q *db.Queries, ch agent.ModeChange, at int64) (db.Session, agent.ModeChange, bool, error) {
	// Locked, so that no turn is opened and no other change made until this one is whole.
	sess, err := q.LockedSession(ctx, db.LockedSessionParams{Org: ch.Org, SessionID: ch.Session})
	if isMissing(err) {
		return sess, ch, false, noSession(ch.Session)
	}
	if err != nil {
		return sess, ch, false, err
	}
	if err := stillRuns(ctx, q, ch); err != nil {
		return sess, ch, false, err
	}
	if ch.Call != "" {
		row, err := q.ModeChangeByCall(ctx, db.ModeChangeByCallParams{
			Org: ch.Org, SessionID: ch.Session, TurnID: ch.Turn, CallID: text(string(ch.Call))})
		if err == nil {
			return sess, modeChange(row), true, nil
		}
		if !isMissing(err) {
			return sess, ch, false, err
		}
	}
	// It may be this very change, made by a run that nobody was told of, and others may have
	// followed it.
	if row, found, err := changeAt(ctx, q, ch, at); err != nil || found {
		return sess, modeChange(row), found, err
	}
	ch.Previous, ch.At = sess.Mode, instant(at)
	if ch.Mode == sess.Mode {
		return sess, ch, false, nil
	}
	if sess.ModeEntry == agent.EntryRunning {
		return sess, ch, false, store.ErrEntering
	}
	row, err := q.InsertModeChange(ctx, db.InsertModeChangeParams{
		Org:        ch.Org,
		SessionID:  ch.Session,
		Previous:   ch.Previous,
		Mode:       ch.Mode,
		Reason:     text(ch.Reason),
		At:         at,
		UserID:     ch.User,
		Actor:      ch.Actor,
		TurnID:     ch.Turn,
		CallID:     text(string(ch.Call)),
		Branch:     ch.Branch,
		ApprovalID: ch.Approval,
	})
	if err != nil {
		return sess, ch, false, err
	}
	sess, err = q.SetMode(ctx, db.SetModeParams{Org: ch.Org, SessionID: ch.Session, Mode: ch.Mode, UpdatedAt: at})
	if err != nil {
		return sess, ch, false, err
	}
	changed := modeChange(row)
	if err := q.InsertAudit(ctx, s.auditRow(store.ChangedEntry(changed, agent.OriginOf(ctx)))); err != nil {
		return sess, ch, false, err
	}
	if s.hooked.Has(ch.Org) {
		err = tell(ctx, q, store.ChangedMessage(changed))
	}
	return sess, changed, true, err
}

// stillRuns refuses a change by the model of an owner that has its turn no more. The turn
// stays where it is until the change is whole.
func stillRuns(ctx context.Context, q *db.Queries, ch agent.ModeChange) error {
	if ch.Epoch == 0 {
		return nil
	}
	at, err := q.HeldEpoch(ctx, db.HeldEpochParams{Org: ch.Org, SessionID: ch.Session, TurnID: ch.Turn})
	switch {
	case isMissing(err):
		return noTurn(agent.TurnKey{Org: ch.Org, Session: ch.Session, Turn: ch.Turn})
	case err == nil && at != ch.Epoch:
		return fmt.Errorf("%w: it is at epoch %d, not %d", store.ErrFenced, at, ch.Epoch)
	}
	return err
}

// changeAt finds a change in the history by its moment and its words, which are all that
// one by a user has, and returns whether it is there.
func changeAt(ctx context.Context, q *db.Queries, ch agent.ModeChange, at int64) (db.ModeChange, bool, error) {
	rows, err := q.ModeChangesAt(ctx, db.ModeChangesAtParams{Org: ch.Org, SessionID: ch.Session, At: at})
	for _, r := range rows {
		if r.Mode == ch.Mode && r.UserID == ch.User && r.Actor == ch.Actor && r.TurnID == ch.Turn &&
			string(r.CallID) == string(ch.Call) && string(r.Reason) == ch.Reason && r.Branch == ch.Branch {
			return r, true, nil
		}
	}
	return db.ModeChange{}, false, err
}

// ModeChangeOf returns the change that a tool call of a turn made, and whether there
// is one: a call for the mode that the session had already has made none.
func (s *Store) ModeChangeOf(ctx context.Context, k agent.TurnKey, call agent.CallID) (agent.ModeChange, bool, error) {
	var row db.ModeChange
	found := true
	err := s.repeat(ctx, fmt.Sprintf("read the mode change of call %s of turn %s", call, k), func(ctx context.Context, q *db.Queries) (err error) {
		row, err = q.ModeChangeByCall(ctx, db.ModeChangeByCallParams{Org: k.Org, SessionID: k.Session, TurnID: k.Turn, CallID: text(string(call))})
		if isMissing(err) {
			found, err = false, nil
		}
		return err
	})
	if err != nil || !found {
		return agent.ModeChange{}, false, err
	}
	return modeChange(row), true, nil
}

const modeList = "mode-history"

// ModeHistory returns a page of the session's mode changes, oldest first, and the
// cursor of the next page, which is empty on the last one (AGN-011 §3.2).
func (s *Store) ModeHistory(ctx context.Context, org agent.OrgID, id agent.SessionID, page store.Page) ([]agent.ModeChange, string, error) {
	after, err := afterNumber(page, modeList)
	if err != nil {
		return nil, "", err
	}
	var rows []db.ModeChange
	err = s.repeat(ctx, fmt.Sprintf("list the mode changes of session %s/%s", org, id), func(ctx context.Context, q *db.Queries) (err error) {
		if _, err := findSession(ctx, q, org, id); err != nil {
			return err
		}
		rows, err = q.ModeChanges(ctx, db.ModeChangesParams{Org: org, SessionID: id, Sequence: after, Size: int32(page.Size()) + 1})
		return err
	})
	if err != nil {
		return nil, "", err
	}
	rows, next := cut(rows, page, func(r db.ModeChange) string {
		return store.Cursor(modeList, strconv.FormatInt(r.Sequence, 10))
	})
	return convert(rows, modeChange), next, nil
}

func modeChange(r db.ModeChange) agent.ModeChange {
	return agent.ModeChange{
		Org:      r.Org,
		Session:  r.SessionID,
		Sequence: r.Sequence,
		Previous: r.Previous,
		Mode:     r.Mode,
		Reason:   string(r.Reason),
		At:       instant(r.At),
		User:     r.UserID,
		Actor:    r.Actor,
		Turn:     r.TurnID,
		Call:     agent.CallID(r.CallID),
		Branch:   r.Branch,
		Approval: r.ApprovalID,
	}
}

// afterNumber returns the number in the cursor of a list that is kept in the order
// of a number, 0 when there is no cursor.
func afterNumber(page store.Page, list string) (int64, error) {
	after, err := page.After(list, 1)
	if err != nil || after == nil {
		return 0, err
	}
	n, err := strconv.ParseInt(after[0], 10, 64)
	if err != nil {
		return 0, store.BadCursor(err)
	}
	return n, nil
}

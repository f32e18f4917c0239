package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/sqlite/db"
)

// ChangeMode changes the session's mode: the mode, its history row and the
// session's version move in one transaction, so the newest row always names the
// session's mode (AGN-011 §3.2, §5.7; decision 11). It returns the session as it is
// afterwards, the change, and whether that change stands in the history.
//
// The mode that the session already has makes no row: false (decision 12). A call
// that is in the history already is answered with its row, true, and nothing is
// written, whatever has happened since. While the session enters its mode the change is
// refused with store.ErrEntering.
func (s *Store) ChangeMode(ctx context.Context, ch agent.ModeChange) (agent.Session, agent.ModeChange, bool, error) {
	var (
		sess     db.Session
		recorded agent.ModeChange
		stands   bool
	)
	moved := s.moves(ch.Org, ch.Session)
	err := s.write(ctx, fmt.Sprintf("change the mode of session %s/%s", ch.Org, ch.Session),
		func(ctx context.Context, q *db.Queries) (err error) {
			moved()
			sess, recorded, stands, err = s.changeMode(ctx, q, ch)
			return err
		}, moved)
	if err != nil {
		return agent.Session{}, agent.ModeChange{}, false, err
	}
	return fromRow(sess), recorded, stands, nil
}

func (s *Store) changeMode(ctx context.Context, q *db.Queries, ch agent.ModeChange) (db.Session, agent.ModeChange, bool, error) {
	sess, err := findSession(ctx, q, ch.Org, ch.Session)
	if err != nil {
		return sess, ch, false, err
	}
	if ch.Call != "" {
		row, err := q.ModeChangeByCall(ctx, db.ModeChangeByCallParams{Org: ch.Org, SessionID: ch.Session, TurnID: ch.Turn, CallID: ch.Call})
		if err == nil {
			return sess, modeChange(row), true, nil
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return sess, ch, false, err
		}
	}
	at := s.stamp(ch.At)
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
		Reason:     ch.Reason,
		At:         at,
		UserID:     ch.User,
		Actor:      ch.Actor,
		TurnID:     ch.Turn,
		CallID:     ch.Call,
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
	if err := s.record(ctx, q, store.ChangedEntry(changed, agent.OriginOf(ctx))); err != nil {
		return sess, ch, false, err
	}
	if s.hooked.Has(ch.Org) {
		err = s.tell(ctx, q, store.ChangedMessage(changed))
	}
	return sess, changed, true, err
}

// ModeChangeOf returns the change that a tool call of a turn made, and whether there
// is one: a call for the mode that the session had already has made none.
func (s *Store) ModeChangeOf(ctx context.Context, k agent.TurnKey, call agent.CallID) (agent.ModeChange, bool, error) {
	row, err := s.read.ModeChangeByCall(ctx, db.ModeChangeByCallParams{Org: k.Org, SessionID: k.Session, TurnID: k.Turn, CallID: call})
	if errors.Is(err, sql.ErrNoRows) {
		return agent.ModeChange{}, false, nil
	}
	if err != nil {
		return agent.ModeChange{}, false, explain(fmt.Sprintf("read the mode change of call %s of turn %s", call, k), err)
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
	doing := fmt.Sprintf("list the mode changes of session %s/%s", org, id)
	if _, err := findSession(ctx, s.read, org, id); err != nil {
		return nil, "", explain(doing, err)
	}
	rows, err := s.read.ModeChanges(ctx, db.ModeChangesParams{Org: org, SessionID: id, Sequence: after, Size: int64(page.Size()) + 1})
	if err != nil {
		return nil, "", explain(doing, err)
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
		Reason:   r.Reason,
		At:       instant(r.At),
		User:     r.UserID,
		Actor:    r.Actor,
		Turn:     r.TurnID,
		Call:     r.CallID,
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

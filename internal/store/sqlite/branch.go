package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/sqlite/db"
)

// BranchSession makes a session with copies of its parent's turns. It returns
// store.ErrExists when the organisation has a session with its id, and
// agent.KindNotFound when the parent, or its turn, is there no more.
func (s *Store) BranchSession(ctx context.Context, b store.Branch) error {
	child, parent := b.Session, b.Session.Parent
	return s.begin(ctx, fmt.Sprintf("branch session %s/%s off %s", child.Org, child.ID, parent.Session), func(ctx context.Context, q *db.Queries) error {
		if _, err := findSession(ctx, q, child.Org, parent.Session); err != nil {
			return err
		}
		child.Turns = b.Ordinal
		if err := s.insertSession(ctx, q, child, agent.OriginOf(ctx)); err != nil {
			return err
		}
		if b.Ordinal == 0 {
			return nil
		}
		n, err := q.CopyTurns(ctx, db.CopyTurnsParams{Org: child.Org, SessionID: child.ID, ParentSession: parent.Session, Ordinal: b.Ordinal})
		if err == nil && n == 0 {
			err = noSession(parent.Session)
		}
		if err != nil {
			return err
		}
		if err := q.CopyTexts(ctx, db.CopyTextsParams{Org: child.Org, SessionID: child.ID, ParentSession: parent.Session}); err != nil {
			return err
		}
		if err := q.CopySteps(ctx, db.CopyStepsParams{Org: child.Org, SessionID: child.ID, ParentSession: parent.Session}); err != nil {
			return err
		}
		return q.CopyBlobRefs(ctx, db.CopyBlobRefsParams{Org: child.Org, SessionID: child.ID, ParentSession: parent.Session})
	})
}

// LastCompleted returns the newest completed turn of a session, agent.KindNotFound when
// there is none.
func (s *Store) LastCompleted(ctx context.Context, org agent.OrgID, id agent.SessionID) (agent.Turn, error) {
	doing := fmt.Sprintf("read the last completed turn of session %s/%s", org, id)
	row, err := s.read.LastCompleted(ctx, db.LastCompletedParams{Org: org, SessionID: id})
	if errors.Is(err, sql.ErrNoRows) {
		return agent.Turn{}, agent.Errorf(agent.KindNotFound, "Session %q has no completed turn.", id)
	}
	if err != nil {
		return agent.Turn{}, explain(doing, err)
	}
	turn, err := fromTurnRow(row.Turn, row.Text)
	return turn, explain(doing, err)
}

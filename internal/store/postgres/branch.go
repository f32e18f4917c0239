package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/postgres/db"
)

// BranchSession makes a session with copies of its parent's turns. It returns
// store.ErrExists when the organisation has a session with its id, and
// agent.KindNotFound when the parent, or its turn, is there no more.
func (s *Store) BranchSession(ctx context.Context, b store.Branch) error {
	child, parent := b.Session, b.Session.Parent
	row := s.newSession(child)
	row.Turns = b.Ordinal
	entry := s.auditRow(store.CreatedEntry(child, agent.OriginOf(ctx)))
	return s.begin(ctx, unit{
		doing: fmt.Sprintf("branch session %s/%s off %s", child.Org, child.ID, parent.Session),
		run: func(ctx context.Context, c *pgxpool.Conn) error {
			return transact(ctx, c, func(q *db.Queries) error {
				if err := branch(ctx, q, b, row); err != nil {
					return err
				}
				return q.InsertAudit(ctx, entry)
			})
		},
		landed: func(ctx context.Context, q *db.Queries) (bool, error) { return isSession(ctx, q, row) },
	})
}

func branch(ctx context.Context, q *db.Queries, b store.Branch, row db.InsertSessionParams) error {
	child, parent := b.Session, b.Session.Parent
	// Locked, so that it is not erased between one copy and the next.
	if _, err := q.LockedSession(ctx, db.LockedSessionParams{Org: child.Org, SessionID: parent.Session}); isMissing(err) {
		return noSession(parent.Session)
	} else if err != nil {
		return err
	}
	n, err := q.InsertSession(ctx, row)
	if err == nil && n == 0 {
		err = store.ErrExists
	}
	if err != nil || b.Ordinal == 0 {
		return err
	}
	n, err = q.CopyTurns(ctx, db.CopyTurnsParams{Org: child.Org, SessionID: child.ID, ParentSession: parent.Session, Ordinal: b.Ordinal})
	if err == nil && n == 0 {
		err = noSession(parent.Session)
	}
	if err != nil {
		return err
	}
	if err := q.CopySteps(ctx, db.CopyStepsParams{Org: child.Org, SessionID: child.ID, ParentSession: parent.Session}); err != nil {
		return err
	}
	return q.CopyBlobRefs(ctx, db.CopyBlobRefsParams{Org: child.Org, SessionID: child.ID, ParentSession: parent.Session})
}

// LastCompleted returns the newest completed turn of a session, agent.KindNotFound when
// there is none.
func (s *Store) LastCompleted(ctx context.Context, org agent.OrgID, id agent.SessionID) (agent.Turn, error) {
	var turn agent.Turn
	err := s.repeat(ctx, fmt.Sprintf("read the last completed turn of session %s/%s", org, id), func(ctx context.Context, q *db.Queries) error {
		row, err := q.LastCompleted(ctx, db.LastCompletedParams{Org: org, SessionID: id})
		if isMissing(err) {
			return agent.Errorf(agent.KindNotFound, "Session %q has no completed turn.", id)
		}
		if err != nil {
			return err
		}
		turn, err = fromTurnRow(row)
		return err
	})
	return turn, err
}

package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/postgres/db"
)

// AcceptErasure records that a user, or an organisation, is to be erased, and revokes the keys.
// From then on it is found by ClaimErasure until it is finished.
func (s *Store) AcceptErasure(ctx context.Context, e store.Erasure) error {
	created := s.stamp(e.CreatedAt)
	return s.write(ctx, s.audited(fmt.Sprintf("accept erasure %s", e.ID), e.Entry(agent.OriginOf(ctx)), func(ctx context.Context, q *db.Queries) error {
		err := q.InsertErasure(ctx, db.InsertErasureParams{Org: e.Org, ErasureID: e.ID, UserID: e.User, CreatedAt: created})
		if err != nil {
			return err
		}
		return s.revokeKeysOf(ctx, q, e.Org, e.User)
	}))
}

// Erasure returns how far an erasure has come.
func (s *Store) Erasure(ctx context.Context, org agent.OrgID, id string) (e store.Erasure, err error) {
	err = s.repeat(ctx, fmt.Sprintf("read erasure %s", id), func(ctx context.Context, q *db.Queries) error {
		row, err := q.Erasure(ctx, db.ErasureParams{Org: org, ErasureID: id})
		if isMissing(err) {
			return store.ErrNoErasure(id)
		}
		e = fromErasureRow(row)
		return err
	})
	return e, err
}

// ClaimErasure returns an erasure that is to be worked on, and on which nobody else works
// until the lease is over; false when there is none.
func (s *Store) ClaimErasure(ctx context.Context, lease time.Duration) (e store.Erasure, found bool, err error) {
	err = s.repeat(ctx, "look for erasures", func(ctx context.Context, q *db.Queries) error {
		row, err := q.ClaimErasure(ctx, lease.Microseconds())
		if isMissing(err) {
			return nil
		}
		e, found = fromErasureRow(row), err == nil
		return err
	})
	return e, found, err
}

// MoveErasure records how far an erasure has come: up to After, with so many sessions more.
// The lease begins anew.
func (s *Store) MoveErasure(ctx context.Context, e store.Erasure, erased int, lease time.Duration) error {
	// A repeat may count twice; the audit log has each session once.
	return s.repeat(ctx, fmt.Sprintf("move erasure %s", e.ID), func(ctx context.Context, q *db.Queries) error {
		return q.MoveErasure(ctx, db.MoveErasureParams{Org: e.Org, ErasureID: e.ID, AfterSession: e.After, Erased: int64(erased), Lease: lease.Microseconds()})
	})
}

// FinishErasure erases what is left besides the sessions, and records that the erasure is
// done.
func (s *Store) FinishErasure(ctx context.Context, e store.Erasure) error {
	finished := micros(s.now())
	err := s.write(ctx, unit{
		doing: fmt.Sprintf("finish erasure %s", e.ID),
		run: func(ctx context.Context, c *pgxpool.Conn) error {
			return transact(ctx, c, func(q *db.Queries) error {
				row, err := q.FinishErasure(ctx, db.FinishErasureParams{Org: e.Org, ErasureID: e.ID, FinishedAt: finished})
				if isMissing(err) {
					return nil // somebody else has
				}
				if err != nil {
					return err
				}
				if err := eraseRest(ctx, q, e.Org, e.User); err != nil {
					return err
				}
				return q.InsertAudit(ctx, s.auditRow(fromErasureRow(row).Entry(agent.OriginOf(ctx))))
			})
		},
		landed: func(ctx context.Context, q *db.Queries) (bool, error) {
			row, err := q.Erasure(ctx, db.ErasureParams{Org: e.Org, ErasureID: e.ID})
			return err == nil && row.FinishedAt != 0, err
		},
	})
	if err != nil {
		return err
	}
	return s.LookForWebhooks(ctx)
}

// eraseRest erases what an organisation has besides its sessions, or takes a user's name
// out of it.
func eraseRest(ctx context.Context, q *db.Queries, org agent.OrgID, user agent.UserID) error {
	// The keys are revoked; those that were made meanwhile are somebody's.
	err := q.ForgetKeys(ctx, db.ForgetKeysParams{Org: org, UserID: string(user), Anonymous: string(agent.ErasedUser)})
	if err != nil {
		return err
	}
	err = q.ForgetKeyMakers(ctx, db.ForgetKeyMakersParams{Org: org, UserID: string(user), Anonymous: string(agent.ErasedUser)})
	if err != nil {
		return err
	}
	if user == "" {
		return eraseOrgRest(ctx, q, org)
	}
	return q.ForgetWebhooks(ctx, db.ForgetWebhooksParams{Org: org, UserID: string(user), Anonymous: string(agent.ErasedUser)})
}

// eraseOrgRest erases the webhooks of an organisation, and what it has spent.
func eraseOrgRest(ctx context.Context, q *db.Queries, org agent.OrgID) error {
	if err := q.EraseHolds(ctx, org); err != nil {
		return err
	}
	if err := q.EraseSpent(ctx, org); err != nil {
		return err
	}
	return q.DeleteWebhooksOf(ctx, org)
}

// SweepErasures forgets erasures that were finished before a time.
func (s *Store) SweepErasures(ctx context.Context, before time.Time) error {
	return s.repeat(ctx, "forget finished erasures", func(ctx context.Context, q *db.Queries) error {
		return q.SweepErasures(ctx, micros(before))
	})
}

// SessionsAfter returns sessions of an organisation that follow the given one in the order
// of their ids.
func (s *Store) SessionsAfter(ctx context.Context, org agent.OrgID, after agent.SessionID, most int) ([]store.Owned, error) {
	var rows []db.SessionsOfAfterRow
	err := s.repeat(ctx, fmt.Sprintf("list the sessions of %s", org), func(ctx context.Context, q *db.Queries) (err error) {
		rows, err = q.SessionsOfAfter(ctx, db.SessionsOfAfterParams{Org: org, SessionID: string(after), Size: int32(most)})
		return err
	})
	return convert(rows, func(r db.SessionsOfAfterRow) store.Owned {
		return store.Owned{Session: r.SessionID, User: r.CreatedBy}
	}), err
}

// ForgetUser takes a user's name out of a session that somebody else created.
func (s *Store) ForgetUser(ctx context.Context, org agent.OrgID, id agent.SessionID, user agent.UserID) error {
	return s.repeat(ctx, fmt.Sprintf("forget a user in session %s/%s", org, id), func(ctx context.Context, q *db.Queries) error {
		// Each of them may be done again, so they need no transaction.
		err := q.ForgetTurns(ctx, db.ForgetTurnsParams{Org: org, SessionID: id, UserID: string(user), Anonymous: string(agent.ErasedUser)})
		if err != nil {
			return err
		}
		err = q.ForgetModeChanges(ctx, db.ForgetModeChangesParams{Org: org, SessionID: id, UserID: string(user), Anonymous: string(agent.ErasedUser)})
		if err != nil {
			return err
		}
		return q.ForgetDecisions(ctx, db.ForgetDecisionsParams{Org: org, SessionID: id,
			Member: store.DecidedBy(user), Replacement: store.DecidedBy(agent.ErasedUser)})
	})
}

func fromErasureRow(r db.Erasure) store.Erasure {
	return store.Erasure{Org: r.Org, ID: r.ErasureID, User: r.UserID, After: r.AfterSession, Sessions: r.Sessions,
		CreatedAt: instant(r.CreatedAt), FinishedAt: instant(r.FinishedAt)}
}

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/sqlite/db"
)

// AcceptErasure records that a user, or an organisation, is to be erased, and revokes the keys.
// From then on it is found by ClaimErasure until it is finished.
func (s *Store) AcceptErasure(ctx context.Context, e store.Erasure) error {
	return s.write(ctx, fmt.Sprintf("accept erasure %s", e.ID), func(ctx context.Context, q *db.Queries) error {
		err := q.InsertErasure(ctx, db.InsertErasureParams{Org: e.Org, ErasureID: e.ID, UserID: e.User, CreatedAt: s.stamp(e.CreatedAt)})
		if err != nil {
			return err
		}
		if err := s.record(ctx, q, e.Entry(agent.OriginOf(ctx))); err != nil {
			return err
		}
		return s.revokeKeysOf(ctx, q, e.Org, e.User)
	})
}

// Erasure returns how far an erasure has come.
func (s *Store) Erasure(ctx context.Context, org agent.OrgID, id string) (store.Erasure, error) {
	row, err := s.read.Erasure(ctx, db.ErasureParams{Org: org, ErasureID: id})
	if errors.Is(err, sql.ErrNoRows) {
		err = store.ErrNoErasure(id)
	}
	return fromErasureRow(row), explain(fmt.Sprintf("read erasure %s", id), err)
}

// ClaimErasure returns the erasure that is to be worked on, false when there is none. The
// lease is for keepers with many processes.
func (s *Store) ClaimErasure(ctx context.Context, _ time.Duration) (store.Erasure, bool, error) {
	row, err := s.read.OpenErasure(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return store.Erasure{}, false, nil
	}
	return fromErasureRow(row), err == nil, explain("look for erasures", err)
}

// MoveErasure records how far an erasure has come: up to After, with so many sessions more.
func (s *Store) MoveErasure(ctx context.Context, e store.Erasure, erased int, _ time.Duration) error {
	return s.write(ctx, fmt.Sprintf("move erasure %s", e.ID), func(ctx context.Context, q *db.Queries) error {
		return q.MoveErasure(ctx, db.MoveErasureParams{Org: e.Org, ErasureID: e.ID, AfterSession: e.After, Erased: int64(erased)})
	})
}

// FinishErasure erases what is left besides the sessions, and records that the erasure is
// done.
func (s *Store) FinishErasure(ctx context.Context, e store.Erasure) error {
	err := s.write(ctx, fmt.Sprintf("finish erasure %s", e.ID), func(ctx context.Context, q *db.Queries) error {
		row, err := q.FinishErasure(ctx, db.FinishErasureParams{Org: e.Org, ErasureID: e.ID, FinishedAt: micros(s.now())})
		if errors.Is(err, sql.ErrNoRows) {
			return nil // somebody else has
		}
		if err != nil {
			return err
		}
		if err := eraseRest(ctx, q, e.Org, e.User); err != nil {
			return err
		}
		return s.record(ctx, q, fromErasureRow(row).Entry(agent.OriginOf(ctx)))
	})
	if err != nil {
		return err
	}
	if err := s.LookForWebhooks(ctx); err != nil {
		return err
	}
	return s.upkeep.finish(ctx)
}

// eraseRest erases what an organisation has besides its sessions, or takes a user's name
// out of it.
func eraseRest(ctx context.Context, q *db.Queries, org agent.OrgID, user agent.UserID) error {
	// The keys are revoked; those that were made meanwhile are somebody's.
	if err := q.ForgetKeys(ctx, db.ForgetKeysParams{Org: org, UserID: string(user), Anonymous: agent.ErasedUser}); err != nil {
		return err
	}
	if err := q.ForgetKeyMakers(ctx, db.ForgetKeyMakersParams{Org: org, UserID: user, Anonymous: agent.ErasedUser}); err != nil {
		return err
	}
	if user == "" {
		return eraseOrgRest(ctx, q, org)
	}
	return q.ForgetWebhooks(ctx, db.ForgetWebhooksParams{Org: org, UserID: user, Anonymous: agent.ErasedUser})
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
	return s.write(ctx, "forget finished erasures", func(ctx context.Context, q *db.Queries) error {
		return q.SweepErasures(ctx, micros(before))
	})
}

// SessionsAfter returns sessions of an organisation that follow the given one in the order
// of their ids.
func (s *Store) SessionsAfter(ctx context.Context, org agent.OrgID, after agent.SessionID, most int) ([]store.Owned, error) {
	rows, err := s.read.SessionsOfAfter(ctx, db.SessionsOfAfterParams{Org: org, SessionID: after, Size: int64(most)})
	return convert(rows, func(r db.SessionsOfAfterRow) store.Owned {
		return store.Owned{Session: r.SessionID, User: r.CreatedBy}
	}), explain(fmt.Sprintf("list the sessions of %s", org), err)
}

// ForgetUser takes a user's name out of a session that somebody else created.
func (s *Store) ForgetUser(ctx context.Context, org agent.OrgID, id agent.SessionID, user agent.UserID) error {
	return s.write(ctx, fmt.Sprintf("forget a user in session %s/%s", org, id), func(ctx context.Context, q *db.Queries) error {
		if err := q.ForgetTurns(ctx, db.ForgetTurnsParams{Org: org, SessionID: id, UserID: user, Anonymous: agent.ErasedUser}); err != nil {
			return err
		}
		if err := q.ForgetModeChanges(ctx, db.ForgetModeChangesParams{Org: org, SessionID: id, UserID: user, Anonymous: agent.ErasedUser}); err != nil {
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

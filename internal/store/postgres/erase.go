package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/postgres/db"
)

// DeleteSession erases a session and everything under it: turns, journal, mode
// history, and the contents that no other session uses. The database gives their space
// free when it vacuums; until then, and in its log, it still has the bytes.
func (s *Store) DeleteSession(ctx context.Context, org agent.OrgID, id agent.SessionID) error {
	erase := s.eraseRow(org, id, agent.OriginOf(ctx), "")
	return s.write(ctx, unit{
		doing: fmt.Sprintf("erase session %s/%s", org, id),
		run: func(ctx context.Context, c *pgxpool.Conn) error {
			q := batched(ctx, c)
			if err := q.LockSession(ctx, db.LockSessionParams{Org: org, SessionID: id}); err != nil {
				return err
			}
			if err := q.EraseSessionSpent(ctx, db.EraseSessionSpentParams{Org: org, SessionID: id}); err != nil {
				return err
			}
			n, err := q.EraseSession(ctx, erase)
			if err == nil && n == 0 || isMissing(err) {
				return noSession(id)
			}
			return err
		},
		landed: gone(org, id),
	})
}

// eraseRow is the erasing of a session with its entry in the audit log.
func (s *Store) eraseRow(org agent.OrgID, id agent.SessionID, by agent.Origin, why string) db.EraseSessionParams {
	e := s.auditRow(store.ErasedEntry(org, id, by, why))
	return db.EraseSessionParams{Org: org, SessionID: id, EntryID: e.EntryID, At: e.At, UserID: string(e.UserID), Role: string(e.Role),
		Credential: e.Credential, RequestID: e.RequestID, Address: e.Address, Details: e.Details}
}

// gone tells that there is no such session, which is all that erasing is about.
func gone(org agent.OrgID, id agent.SessionID) func(context.Context, *db.Queries) (bool, error) {
	return func(ctx context.Context, q *db.Queries) (bool, error) {
		_, err := q.Session(ctx, db.SessionParams{Org: org, SessionID: id})
		if isMissing(err) {
			return true, nil
		}
		return false, err
	}
}

// EraseOrg revokes the keys of an organisation, erases every session of it, one after the
// other, and returns how many there were, and its webhooks and its books then. When it is broken off those
// that are left stay whole; call it again.
func (s *Store) EraseOrg(ctx context.Context, org agent.OrgID) (int, error) {
	const batch = 100
	err := s.write(ctx, unit{
		doing: fmt.Sprintf("revoke the keys of %s", org),
		run: func(ctx context.Context, c *pgxpool.Conn) error {
			return transact(ctx, c, func(q *db.Queries) error { return s.revokeKeysOf(ctx, q, org, "") })
		},
		landed: func(context.Context, *db.Queries) (bool, error) { return false, nil }, // it may be done again
	})
	if err != nil {
		return 0, err
	}
	erased := 0
	for {
		var ids []agent.SessionID
		err := s.repeat(ctx, fmt.Sprintf("erase organisation %s", org), func(ctx context.Context, q *db.Queries) (err error) {
			ids, err = q.SessionsOf(ctx, db.SessionsOfParams{Org: org, Size: batch})
			return err
		})
		if err != nil {
			return erased, err
		}
		if len(ids) == 0 {
			entry := store.ErasedOrgEntry(org, erased, agent.OriginOf(ctx))
			err := s.write(ctx, s.audited(fmt.Sprintf("erase organisation %s", org), entry, func(ctx context.Context, q *db.Queries) error {
				return eraseRest(ctx, q, org, "")
			}))
			if err != nil {
				return erased, err
			}
			return erased, s.LookForWebhooks(ctx)
		}
		for _, id := range ids {
			// Another node may erase it at the same time.
			if err := s.DeleteSession(ctx, org, id); agent.KindOf(err) == agent.KindNotFound {
				continue
			} else if err != nil {
				return erased, err
			}
			erased++
		}
	}
}

// EraseIdle looks at so many sessions at most that follow the given one in the order
// of their keys, and erases those in which nothing has happened since the given time,
// each in a transaction of its own. A session with an active turn is not idle. It
// returns how many it erased and the last one that it looked at: the zero key when
// there are no more.
func (s *Store) EraseIdle(ctx context.Context, since time.Time, after store.SessionKey, most int) (erased int, last store.SessionKey, err error) {
	var rows []db.SessionsAfterRow
	err = s.repeat(ctx, "look for idle sessions", func(ctx context.Context, q *db.Queries) (err error) {
		rows, err = q.SessionsAfter(ctx, db.SessionsAfterParams{Org: string(after.Org), SessionID: string(after.Session), Size: int32(most)})
		return err
	})
	if err != nil {
		return 0, after, err
	}
	for _, r := range rows {
		if r.UpdatedAt < micros(since) {
			gone, err := s.eraseIdle(ctx, r.Org, r.SessionID, micros(since))
			if err != nil {
				return erased, after, err
			}
			if gone {
				erased++
			}
		}
		after = store.SessionKey{Org: r.Org, Session: r.SessionID}
	}
	if len(rows) < most {
		after = store.SessionKey{}
	}
	return erased, after, nil
}

var errStirred = errors.New("the session is not idle")

func (s *Store) eraseIdle(ctx context.Context, org agent.OrgID, id agent.SessionID, since int64) (bool, error) {
	erase := s.eraseRow(org, id, agent.OriginOf(ctx), store.ErasedByRetention)
	err := s.write(ctx, unit{
		doing: fmt.Sprintf("erase idle session %s/%s", org, id),
		run: func(ctx context.Context, c *pgxpool.Conn) error {
			return transact(ctx, c, func(q *db.Queries) error {
				if err := q.LockSession(ctx, db.LockSessionParams{Org: org, SessionID: id}); err != nil {
					return err
				}
				// Looked at once more: it may have stirred since it was listed.
				stirred, err := q.Stirred(ctx, db.StirredParams{Org: org, SessionID: id, Before: since})
				if err != nil {
					return err
				}
				if stirred > 0 {
					return errStirred
				}
				if err := q.EraseSessionSpent(ctx, db.EraseSessionSpentParams{Org: org, SessionID: id}); err != nil {
					return err
				}
				n, err := q.EraseSession(ctx, erase)
				if err == nil && n == 0 {
					return noSession(id)
				}
				return err
			})
		},
		landed: gone(org, id),
	})
	switch {
	case errors.Is(err, errStirred), agent.KindOf(err) == agent.KindNotFound:
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}

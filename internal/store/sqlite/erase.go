package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/sqlite/db"
)

// DeleteSession erases a session and everything under it: turns, journal, mode
// history, and the contents that no other session uses. Its bytes are overwritten;
// shortly after, the file is as much smaller.
func (s *Store) DeleteSession(ctx context.Context, org agent.OrgID, id agent.SessionID) error {
	err := s.write(ctx, fmt.Sprintf("erase session %s/%s", org, id), func(ctx context.Context, q *db.Queries) error {
		return s.eraseSession(ctx, q, store.ErasedEntry(org, id, agent.OriginOf(ctx), ""))
	}, s.forgets(org, id))
	if err == nil {
		s.upkeep.erased()
	}
	return err
}

// eraseSession erases the session that an entry of the audit log says is erased.
func (s *Store) eraseSession(ctx context.Context, q *db.Queries, e agent.AuditEntry) error {
	org, id := e.Org, e.Session
	s.forgets(org, id)()
	// Contents first: once the turns are gone, nothing says whose they were.
	if err := q.DeleteOwnBlobs(ctx, db.DeleteOwnBlobsParams{Org: org, SessionID: id}); err != nil {
		return err
	}
	if err := q.EraseSessionSpent(ctx, db.EraseSessionSpentParams{Org: org, SessionID: id}); err != nil {
		return err
	}
	n, err := q.DeleteSession(ctx, db.DeleteSessionParams{Org: org, SessionID: id})
	if err == nil && n == 0 {
		return noSession(id)
	}
	if err != nil {
		return err
	}
	return s.record(ctx, q, e)
}

// forgets returns what forgets a session. It is done while the session is erased and once more
// when it is: what came before in the same transaction is learned only then.
func (s *Store) forgets(org agent.OrgID, id agent.SessionID) func() {
	return func() { s.memory.forget(store.SessionKey{Org: org, Session: id}) }
}

// EraseOrg revokes the keys of an organisation, erases every session of it, one after the
// other, and returns how many there were, and its webhooks and its books then. When it has returned without
// an error nothing of them is in the files. When it is broken off those that are left
// stay whole; call it again.
func (s *Store) EraseOrg(ctx context.Context, org agent.OrgID) (int, error) {
	const batch = 100
	err := s.write(ctx, fmt.Sprintf("revoke the keys of %s", org), func(ctx context.Context, q *db.Queries) error {
		return s.revokeKeysOf(ctx, q, org, "")
	})
	if err != nil {
		return 0, err
	}
	erased := 0
	for {
		ids, err := s.read.SessionsOf(ctx, db.SessionsOfParams{Org: org, Size: batch})
		if err != nil {
			return erased, explain(fmt.Sprintf("erase organisation %s", org), err)
		}
		if len(ids) == 0 {
			return erased, s.erasedOrg(ctx, org, erased)
		}
		for _, id := range ids {
			if err := s.DeleteSession(ctx, org, id); err != nil {
				return erased, err
			}
			erased++
		}
	}
}

// erasedOrg erases what is left of an organisation without sessions.
func (s *Store) erasedOrg(ctx context.Context, org agent.OrgID, sessions int) error {
	err := s.write(ctx, fmt.Sprintf("erase organisation %s", org), func(ctx context.Context, q *db.Queries) error {
		if err := eraseRest(ctx, q, org, ""); err != nil {
			return err
		}
		return s.record(ctx, q, store.ErasedOrgEntry(org, sessions, agent.OriginOf(ctx)))
	})
	if err != nil {
		return err
	}
	if err := s.LookForWebhooks(ctx); err != nil {
		return err
	}
	return s.upkeep.finish(ctx)
}

// EraseIdle looks at so many sessions at most that follow the given one in the order
// of their keys, and erases those in which nothing has happened since the given time,
// each in a transaction of its own. A session with an active turn is not idle. It
// returns how many it erased and the last one that it looked at: the zero key when
// there are no more.
func (s *Store) EraseIdle(ctx context.Context, since time.Time, after store.SessionKey, most int) (erased int, last store.SessionKey, err error) {
	rows, err := s.read.SessionsAfter(ctx, db.SessionsAfterParams{
		Org:       after.Org,
		SessionID: agent.OrgID(after.Session), // sqlc gives all members of a row the first one's type
		Size:      int64(most),
	})
	if err != nil {
		return 0, after, explain("look for idle sessions", err)
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
	err := s.write(ctx, fmt.Sprintf("erase idle session %s/%s", org, id), func(ctx context.Context, q *db.Queries) error {
		// Looked at once more: it may have stirred since it was listed.
		stirred, err := q.Stirred(ctx, db.StirredParams{Org: org, SessionID: id, Before: since})
		if err != nil {
			return err
		}
		if stirred > 0 {
			return errStirred
		}
		return s.eraseSession(ctx, q, store.ErasedEntry(org, id, agent.OriginOf(ctx), store.ErasedByRetention))
	}, s.forgets(org, id))
	switch {
	case errors.Is(err, errStirred), agent.KindOf(err) == agent.KindNotFound:
		return false, nil
	case err != nil:
		return false, err
	}
	s.upkeep.erased()
	return true, nil
}

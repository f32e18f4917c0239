package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/sqlite/db"
)

// CreateSession stores a new session with the mode it starts in (AGN-011 §3.1). It
// begins at version 1 and without turns, whatever the argument says. It returns
// store.ErrExists when the organisation has a session with this id.
func (s *Store) CreateSession(ctx context.Context, sess agent.Session) error {
	return s.begin(ctx, fmt.Sprintf("create session %s/%s", sess.Org, sess.ID), func(ctx context.Context, q *db.Queries) error {
		sess.Turns = 0
		return s.insertSession(ctx, q, sess, agent.OriginOf(ctx))
	})
}

// Session returns a session: the authoritative store of the current mode
// (AGN-011 §3.2).
func (s *Store) Session(ctx context.Context, org agent.OrgID, id agent.SessionID) (agent.Session, error) {
	if sess, known := s.memory.session(store.SessionKey{Org: org, Session: id}); known {
		return sess, nil
	}
	row, err := findSession(ctx, s.read, org, id)
	if err != nil {
		return agent.Session{}, explain(fmt.Sprintf("read session %s/%s", org, id), err)
	}
	return fromRow(row), nil
}

const sessionList = "sessions"

// Sessions returns a page of the organisation's sessions, newest first, and the
// cursor of the next page, which is empty on the last one.
func (s *Store) Sessions(ctx context.Context, org agent.OrgID, page store.Page) ([]agent.Session, string, error) {
	return sessionPage(page, org, func(at int64, id agent.SessionID, size int) ([]db.Session, error) {
		return s.read.Sessions(ctx, db.SessionsParams{Org: org, CreatedAt: at, SessionID: id, Size: int64(size)})
	})
}

// SessionsOfUser is Sessions for those that one user has created.
func (s *Store) SessionsOfUser(ctx context.Context, org agent.OrgID, user agent.UserID, page store.Page) ([]agent.Session, string, error) {
	return sessionPage(page, org, func(at int64, id agent.SessionID, size int) ([]db.Session, error) {
		return s.read.SessionsOfUser(ctx, db.SessionsOfUserParams{Org: org, CreatedBy: user, CreatedAt: at, SessionID: id, Size: int64(size)})
	})
}

// sessionPage reads a page of sessions that come after a moment and an id.
func sessionPage(page store.Page, org agent.OrgID, read func(at int64, id agent.SessionID, size int) ([]db.Session, error)) ([]agent.Session, string, error) {
	at, id := int64(math.MaxInt64), agent.SessionID("")
	after, err := page.After(sessionList, 2)
	if err != nil {
		return nil, "", err
	}
	if after != nil {
		if at, err = strconv.ParseInt(after[0], 10, 64); err != nil {
			return nil, "", store.BadCursor(err)
		}
		id = agent.SessionID(after[1])
	}
	rows, err := read(at, id, page.Size()+1)
	if err != nil {
		return nil, "", explain(fmt.Sprintf("list the sessions of %s", org), err)
	}
	rows, next := cut(rows, page, func(r db.Session) string {
		return store.Cursor(sessionList, strconv.FormatInt(r.CreatedAt, 10), string(r.SessionID))
	})
	return convert(rows, fromRow), next, nil
}

// CountSessions returns how many sessions an organisation has, and no more than so many.
func (s *Store) CountSessions(ctx context.Context, org agent.OrgID, most int) (int, error) {
	n, err := s.read.CountSessions(ctx, db.CountSessionsParams{Org: org, Most: int64(most)})
	return int(n), explain(fmt.Sprintf("count the sessions of %s", org), err)
}

// SetTools replaces the client tools of a session and moves its version
// (decision 5).
func (s *Store) SetTools(ctx context.Context, org agent.OrgID, id agent.SessionID, tools json.RawMessage) error {
	moved := s.moves(org, id)
	return s.begin(ctx, fmt.Sprintf("set the tools of session %s/%s", org, id), func(ctx context.Context, q *db.Queries) error {
		moved()
		n, err := q.SetTools(ctx, db.SetToolsParams{Org: org, SessionID: id, ClientTools: tools, UpdatedAt: micros(s.now())})
		if err == nil && n == 0 {
			return noSession(id)
		}
		if err != nil {
			return err
		}
		return s.record(ctx, q, agent.AuditEntry{Org: org, Action: agent.AuditToolsReplaced, Session: id, By: agent.OriginOf(ctx)})
	}, moved)
}

// insertSession stores a new session, and on whose word in the audit log.
func (s *Store) insertSession(ctx context.Context, q *db.Queries, sess agent.Session, by agent.Origin) error {
	created := s.stamp(sess.CreatedAt)
	n, err := q.InsertSession(ctx, db.InsertSessionParams{
		Org:                 sess.Org,
		SessionID:           sess.ID,
		CreatedBy:           sess.CreatedBy,
		Mode:                sess.Mode,
		SystemPrompt:        sess.SystemPrompt,
		ClientTools:         sess.ClientTools,
		AgentContext:        sess.AgentContext,
		ConversationContext: sess.ConversationContext,
		SolutionContext:     sess.SolutionContext,
		Concurrency:         sess.Concurrency,
		LastResponseID:      sess.LastResponseID,
		Turns:               sess.Turns,
		CreatedAt:           created,
		UpdatedAt:           created,
		ParentSession:       sess.Parent.Session,
		ParentTurn:          sess.Parent.Turn,
	})
	if err == nil && n == 0 {
		return store.ErrExists
	}
	if err != nil {
		return err
	}
	return s.record(ctx, q, store.CreatedEntry(sess, by))
}

// findSession returns the row, or the fault that says it is not there.
func findSession(ctx context.Context, q *db.Queries, org agent.OrgID, id agent.SessionID) (db.Session, error) {
	row, err := q.Session(ctx, db.SessionParams{Org: org, SessionID: id})
	if errors.Is(err, sql.ErrNoRows) {
		return row, noSession(id)
	}
	return row, err
}

func fromRow(r db.Session) agent.Session {
	return agent.Session{
		Org:                 r.Org,
		ID:                  r.SessionID,
		CreatedBy:           r.CreatedBy,
		Mode:                r.Mode,
		Version:             r.Version,
		SystemPrompt:        r.SystemPrompt,
		ClientTools:         r.ClientTools,
		AgentContext:        r.AgentContext,
		ConversationContext: r.ConversationContext,
		SolutionContext:     r.SolutionContext,
		Concurrency:         r.Concurrency,
		LastResponseID:      r.LastResponseID,
		Turns:               r.Turns,
		Approved:            store.DecodeApproved(r.ApprovedTools),
		Parent:              agent.Lineage{Session: r.ParentSession, Turn: r.ParentTurn},
		Entry:               r.ModeEntry,
		CreatedAt:           instant(r.CreatedAt),
		UpdatedAt:           instant(r.UpdatedAt),
	}
}

// cut takes the rows of a page, of which one more was read than it holds, and
// returns those that belong to it with the cursor of the next page.
func cut[R any](rows []R, page store.Page, cursor func(R) string) ([]R, string) {
	if len(rows) <= page.Size() {
		return rows, ""
	}
	rows = rows[:page.Size()]
	return rows, cursor(rows[len(rows)-1])
}

func convert[R, T any](rows []R, one func(R) T) []T {
	out := make([]T, 0, len(rows))
	for _, r := range rows {
		out = append(out, one(r))
	}
	return out
}

package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/postgres/db"
)

// CreateSession stores a new session with the mode it starts in (AGN-011 §3.1). It
// begins at version 1 and without turns, whatever the argument says. It returns
// store.ErrExists when the organisation has a session with this id.
func (s *Store) CreateSession(ctx context.Context, sess agent.Session) error {
	row, entry := s.newSession(sess), s.auditRow(store.CreatedEntry(sess, agent.OriginOf(ctx)))
	return s.begin(ctx, unit{
		doing: fmt.Sprintf("create session %s/%s", sess.Org, sess.ID),
		run: func(ctx context.Context, c *pgxpool.Conn) error {
			return transact(ctx, c, func(q *db.Queries) error {
				n, err := q.InsertSession(ctx, row)
				if err == nil && n == 0 {
					return store.ErrExists
				}
				if err != nil {
					return err
				}
				return q.InsertAudit(ctx, entry)
			})
		},
		landed: func(ctx context.Context, q *db.Queries) (bool, error) { return isSession(ctx, q, row) },
	})
}

// isSession reports whether the session that is there is this one.
func isSession(ctx context.Context, q *db.Queries, row db.InsertSessionParams) (bool, error) {
	got, err := q.Session(ctx, db.SessionParams{Org: row.Org, SessionID: row.SessionID})
	if isMissing(err) {
		return false, nil
	}
	// What never changes in a session, its moment above all.
	return err == nil && got.CreatedAt == row.CreatedAt && got.CreatedBy == row.CreatedBy &&
		bytes.Equal(got.SystemPrompt, row.SystemPrompt), err
}

// newSession is the row of a session without turns.
func (s *Store) newSession(sess agent.Session) db.InsertSessionParams {
	return db.InsertSessionParams{
		Org:                 sess.Org,
		SessionID:           sess.ID,
		CreatedBy:           sess.CreatedBy,
		Mode:                sess.Mode,
		SystemPrompt:        text(sess.SystemPrompt),
		ClientTools:         sess.ClientTools,
		AgentContext:        sess.AgentContext,
		ConversationContext: sess.ConversationContext,
		SolutionContext:     text(sess.SolutionContext),
		Concurrency:         sess.Concurrency,
		LastResponseID:      text(sess.LastResponseID),
		CreatedAt:           s.stamp(sess.CreatedAt),
		ParentSession:       sess.Parent.Session,
		ParentTurn:          sess.Parent.Turn,
	}
}

// Session returns a session: the authoritative store of the current mode
// (AGN-011 §3.2).
func (s *Store) Session(ctx context.Context, org agent.OrgID, id agent.SessionID) (agent.Session, error) {
	var row db.Session
	err := s.repeat(ctx, fmt.Sprintf("read session %s/%s", org, id), func(ctx context.Context, q *db.Queries) (err error) {
		row, err = findSession(ctx, q, org, id)
		return err
	})
	if err != nil {
		return agent.Session{}, err
	}
	return fromRow(row), nil
}

const sessionList = "sessions"

// Sessions returns a page of the organisation's sessions, newest first, and the
// cursor of the next page, which is empty on the last one.
func (s *Store) Sessions(ctx context.Context, org agent.OrgID, page store.Page) ([]agent.Session, string, error) {
	return s.sessionPage(ctx, page, org, func(ctx context.Context, q *db.Queries, at int64, id agent.SessionID, size int) ([]db.Session, error) {
		return q.Sessions(ctx, db.SessionsParams{Org: org, CreatedAt: at, SessionID: id, Size: int32(size)})
	})
}

// SessionsOfUser is Sessions for those that one user has created.
func (s *Store) SessionsOfUser(ctx context.Context, org agent.OrgID, user agent.UserID, page store.Page) ([]agent.Session, string, error) {
	return s.sessionPage(ctx, page, org, func(ctx context.Context, q *db.Queries, at int64, id agent.SessionID, size int) ([]db.Session, error) {
		return q.SessionsOfUser(ctx, db.SessionsOfUserParams{Org: org, CreatedBy: user, CreatedAt: at, SessionID: id, Size: int32(size)})
	})
}

// sessionPage reads a page of sessions that come after a moment and an id.
func (s *Store) sessionPage(ctx context.Context, page store.Page, org agent.OrgID,
	read func(ctx context.Context, q *db.Queries, at int64, id agent.SessionID, size int) ([]db.Session, error),
) ([]agent.Session, string, error) {
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
	var rows []db.Session
	err = s.repeat(ctx, fmt.Sprintf("list the sessions of %s", org), func(ctx context.Context, q *db.Queries) (err error) {
		rows, err = read(ctx, q, at, id, page.Size()+1)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	rows, next := cut(rows, page, func(r db.Session) string {
		return store.Cursor(sessionList, strconv.FormatInt(r.CreatedAt, 10), string(r.SessionID))
	})
	return convert(rows, fromRow), next, nil
}

// CountSessions returns how many sessions an organisation has, and no more than so many.
func (s *Store) CountSessions(ctx context.Context, org agent.OrgID, most int) (int, error) {
	var n int64
	err := s.repeat(ctx, fmt.Sprintf("count the sessions of %s", org), func(ctx context.Context, q *db.Queries) (err error) {
		n, err = q.CountSessions(ctx, db.CountSessionsParams{Org: org, Most: int32(most)})
		return err
	})
	return int(n), err
}

// SetTools replaces the client tools of a session and moves its version
// (decision 5).
func (s *Store) SetTools(ctx context.Context, org agent.OrgID, id agent.SessionID, tools json.RawMessage) error {
	set := db.SetToolsParams{Org: org, SessionID: id, ClientTools: tools, UpdatedAt: micros(s.now())}
	entry := agent.AuditEntry{Org: org, Action: agent.AuditToolsReplaced, Session: id, By: agent.OriginOf(ctx)}
	return s.begin(ctx, s.audited(fmt.Sprintf("set the tools of session %s/%s", org, id), entry, func(ctx context.Context, q *db.Queries) error {
		n, err := q.SetTools(ctx, set)
		if err == nil && n == 0 {
			return noSession(id)
		}
		return err
	}))
}

// findSession returns the row, or the fault that says it is not there.
func findSession(ctx context.Context, q *db.Queries, org agent.OrgID, id agent.SessionID) (db.Session, error) {
	row, err := q.Session(ctx, db.SessionParams{Org: org, SessionID: id})
	if isMissing(err) {
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
		SystemPrompt:        string(r.SystemPrompt),
		ClientTools:         r.ClientTools,
		AgentContext:        r.AgentContext,
		ConversationContext: r.ConversationContext,
		SolutionContext:     string(r.SolutionContext),
		Concurrency:         r.Concurrency,
		LastResponseID:      string(r.LastResponseID),
		Turns:               r.Turns,
		Approved:            store.DecodeApproved(r.ApprovedTools),
		Parent:              agent.Lineage{Session: r.ParentSession, Turn: r.ParentTurn},
		Entry:               r.ModeEntry,
		CreatedAt:           instant(r.CreatedAt),
		UpdatedAt:           instant(r.UpdatedAt),
	}
}

// text is how the database keeps a text that may hold any byte; never NULL.
func text(s string) []byte { return append([]byte{}, s...) }

// optionalText is text, and NULL for none.
func optionalText(s *string) []byte {
	if s == nil {
		return nil
	}
	return text(*s)
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

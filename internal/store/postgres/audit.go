package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/postgres/db"
)

// WriteAudit writes an entry about something that is not in the store. What is there has
// its entry from the transaction that writes it.
func (s *Store) WriteAudit(ctx context.Context, e agent.AuditEntry) error {
	row := s.auditRow(e)
	return s.write(ctx, unit{
		doing: fmt.Sprintf("record %s in the audit log of %s", e.Action, e.Org),
		run: func(ctx context.Context, c *pgxpool.Conn) error {
			return db.New(c).InsertAudit(ctx, row)
		},
		landed: recorded(row),
	})
}

// recorded tells whether an entry is in the log. It has an id that nobody else gives, so it
// also tells whether the transaction has happened that wrote it.
func recorded(row db.InsertAuditParams) func(context.Context, *db.Queries) (bool, error) {
	return func(ctx context.Context, q *db.Queries) (bool, error) {
		return q.HasAudit(ctx, db.HasAuditParams{Org: row.Org, EntryID: row.EntryID})
	}
}

// auditRow is an entry as it is written, the same at every try.
func (s *Store) auditRow(e agent.AuditEntry) db.InsertAuditParams {
	at := s.stamp(e.At)
	return db.InsertAuditParams{
		Org:        e.Org,
		EntryID:    store.NewAuditID(instant(at)),
		At:         at,
		Action:     e.Action,
		UserID:     e.By.User,
		Role:       e.By.Role,
		Credential: e.By.Credential,
		SessionID:  e.Session,
		TurnID:     e.Turn,
		Subject:    e.Subject,
		RequestID:  e.By.Request,
		Address:    e.By.Address,
		Details:    store.EncodeDetails(e.Details),
	}
}

// audited is a unit of writing that is one transaction with its entry.
func (s *Store) audited(doing string, e agent.AuditEntry, run func(ctx context.Context, q *db.Queries) error) unit {
	row := s.auditRow(e)
	return unit{
		doing: doing,
		run: func(ctx context.Context, c *pgxpool.Conn) error {
			return transact(ctx, c, func(q *db.Queries) error {
				if err := run(ctx, q); err != nil {
					return err
				}
				return q.InsertAudit(ctx, row)
			})
		},
		landed: recorded(row),
	}
}

// Audit returns a page of the organisation's audit log, newest first, and the cursor of
// the next page, which is empty on the last one.
func (s *Store) Audit(ctx context.Context, org agent.OrgID, f store.AuditFilter, page store.Page) ([]agent.AuditEntry, string, error) {
	since, before, err := f.Bounds(page)
	if err != nil {
		return nil, "", err
	}
	var rows []db.Audit
	err = s.repeat(ctx, fmt.Sprintf("read the audit log of %s", org), func(ctx context.Context, q *db.Queries) (err error) {
		rows, err = q.Audit(ctx, db.AuditParams{Org: org, Since: since, Before: before, SessionID: string(f.Session),
			UserID: string(f.User), Action: string(f.Action), Size: int32(page.Size()) + 1})
		return err
	})
	if err != nil {
		return nil, "", err
	}
	rows, next := cut(rows, page, func(r db.Audit) string { return store.AuditCursor(r.EntryID) })
	return convert(rows, auditEntry), next, nil
}

func auditEntry(r db.Audit) agent.AuditEntry {
	return agent.AuditEntry{
		Org: r.Org, ID: r.EntryID, At: instant(r.At), Action: r.Action,
		By:      agent.Origin{User: r.UserID, Role: r.Role, Credential: r.Credential, Request: r.RequestID, Address: r.Address},
		Session: r.SessionID, Turn: r.TurnID, Subject: r.Subject, Details: store.DecodeDetails(r.Details),
	}
}

// TrimAudit takes out of the audit log what is older than the given time, of the next
// organisation that follows the given one and no more than so many entries: its retention
// and the only way in which entries go. It returns how many went and whose they were: ""
// when no organisation follows.
func (s *Store) TrimAudit(ctx context.Context, before time.Time, after agent.OrgID, most int) (trimmed int, org agent.OrgID, err error) {
	doing := "trim the audit log"
	err = s.repeat(ctx, doing, func(ctx context.Context, q *db.Queries) (err error) {
		org, err = q.NextAuditOrg(ctx, string(after))
		if isMissing(err) {
			org, err = "", nil
		}
		return err
	})
	if err != nil || org == "" {
		return 0, org, err
	}
	// Trimmed again by a repeat: then more have gone, and each time it is recorded.
	err = s.repeat(ctx, doing, func(ctx context.Context, q *db.Queries) error { return q.MoveAuditHorizon(ctx, micros(before)) })
	if err != nil {
		return 0, org, err
	}
	err = s.write(ctx, unit{
		doing: doing,
		run: func(ctx context.Context, c *pgxpool.Conn) error {
			return transact(ctx, c, func(q *db.Queries) error {
				n, err := q.TrimAudit(ctx, db.TrimAuditParams{Org: org, Before: store.AuditBefore(before), Size: int32(most)})
				trimmed = int(n)
				if err != nil || n == 0 {
					return err
				}
				return q.InsertAudit(ctx, s.auditRow(agent.AuditEntry{Org: org, Action: agent.AuditTrimmed, By: agent.Origin{}.Or(""),
					Details: map[string]string{"entries": strconv.Itoa(trimmed), "before": before.UTC().Format(time.RFC3339)}}))
			})
		},
		landed: func(context.Context, *db.Queries) (bool, error) { return false, nil },
	})
	return trimmed, org, err
}

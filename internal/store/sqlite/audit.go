package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/sqlite/db"
)

// WriteAudit writes an entry about something that is not in the store. What is there has
// its entry from the transaction that writes it.
func (s *Store) WriteAudit(ctx context.Context, e agent.AuditEntry) error {
	return s.write(ctx, fmt.Sprintf("record %s in the audit log of %s", e.Action, e.Org), func(ctx context.Context, q *db.Queries) error {
		return s.record(ctx, q, e)
	})
}

// record writes an entry in the transaction of what it is about.
func (s *Store) record(ctx context.Context, q *db.Queries, e agent.AuditEntry) error {
	at := s.stamp(e.At)
	return q.InsertAudit(ctx, db.InsertAuditParams{
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
	})
}

// Audit returns a page of the organisation's audit log, newest first, and the cursor of
// the next page, which is empty on the last one.
func (s *Store) Audit(ctx context.Context, org agent.OrgID, f store.AuditFilter, page store.Page) ([]agent.AuditEntry, string, error) {
	since, before, err := f.Bounds(page)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.read.Audit(ctx, db.AuditParams{Org: org, Since: since, Before: before, SessionID: string(f.Session),
		UserID: string(f.User), Action: string(f.Action), Size: int64(page.Size()) + 1})
	if err != nil {
		return nil, "", explain(fmt.Sprintf("read the audit log of %s", org), err)
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
	org, err = s.read.NextAuditOrg(ctx, after)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, "", nil
	}
	if err != nil {
		return 0, after, explain(doing, err)
	}
	err = s.write(ctx, doing, func(ctx context.Context, q *db.Queries) error {
		if err := q.MoveAuditHorizon(ctx, micros(before)); err != nil {
			return err
		}
		n, err := q.TrimAudit(ctx, db.TrimAuditParams{Org: org, Before: store.AuditBefore(before), Size: int64(most)})
		trimmed = int(n)
		if err != nil || n == 0 {
			return err
		}
		return s.record(ctx, q, agent.AuditEntry{Org: org, Action: agent.AuditTrimmed, By: agent.Origin{}.Or(""),
			Details: map[string]string{"entries": strconv.Itoa(trimmed), "before": before.UTC().Format(time.RFC3339)}})
	})
	return trimmed, org, err
}

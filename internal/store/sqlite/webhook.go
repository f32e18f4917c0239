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

// CreateWebhook stores a webhook. An organisation that has store.MaxWebhooks gets
// agent.KindLimitReached.
func (s *Store) CreateWebhook(ctx context.Context, w agent.Webhook) error {
	err := s.begin(ctx, fmt.Sprintf("create webhook %s", w.ID), func(ctx context.Context, q *db.Queries) error {
		n, err := q.CountWebhooks(ctx, w.Org)
		if err != nil {
			return err
		}
		if n >= store.MaxWebhooks {
			return store.ErrTooManyWebhooks()
		}
		created := s.stamp(w.CreatedAt)
		if err := q.InsertWebhook(ctx, db.InsertWebhookParams{
			Org: w.Org, WebhookID: w.ID, URL: w.URL, Description: w.Description, Events: store.EncodeEvents(w.Events),
			Secret: w.Secret, CreatedBy: w.CreatedBy, CreatedAt: created,
		}); err != nil {
			return err
		}
		return s.record(ctx, q, store.WebhookEntry(agent.AuditWebhookCreated, w.Org, w.ID, agent.OriginOf(ctx)))
	})
	if err != nil {
		return err
	}
	return s.LookForWebhooks(ctx)
}

// Webhook returns a webhook with its secrets.
func (s *Store) Webhook(ctx context.Context, k store.WebhookKey) (agent.Webhook, error) {
	row, err := findWebhook(ctx, s.read, k)
	return fromWebhookRow(row), explain(fmt.Sprintf("read webhook %s", k.Webhook), err)
}

// Webhooks returns the webhooks of an organisation, in the order of their ids; there are
// no more than store.MaxWebhooks.
func (s *Store) Webhooks(ctx context.Context, org agent.OrgID) ([]agent.Webhook, error) {
	rows, err := s.read.Webhooks(ctx, db.WebhooksParams{Org: org, Size: store.MaxWebhooks})
	return convert(rows, fromWebhookRow), explain(fmt.Sprintf("list the webhooks of %s", org), err)
}

// DeleteWebhook erases a webhook with its deliveries.
func (s *Store) DeleteWebhook(ctx context.Context, k store.WebhookKey) error {
	err := s.write(ctx, fmt.Sprintf("delete webhook %s", k.Webhook), func(ctx context.Context, q *db.Queries) error {
		n, err := q.DeleteWebhook(ctx, db.DeleteWebhookParams{Org: k.Org, WebhookID: k.Webhook})
		if err == nil && n == 0 {
			return store.ErrNoWebhook(k.Webhook)
		}
		if err != nil {
			return err
		}
		return s.record(ctx, q, store.WebhookEntry(agent.AuditWebhookDeleted, k.Org, k.Webhook, agent.OriginOf(ctx)))
	})
	if err != nil {
		return err
	}
	return s.LookForWebhooks(ctx)
}

// RotateWebhook gives a webhook another secret. The one that it had is good until a time.
func (s *Store) RotateWebhook(ctx context.Context, k store.WebhookKey, secret agent.WebhookSecret, until time.Time) (w agent.Webhook, err error) {
	err = s.write(ctx, fmt.Sprintf("rotate the secret of webhook %s", k.Webhook), func(ctx context.Context, q *db.Queries) error {
		row, err := q.RotateWebhook(ctx, db.RotateWebhookParams{Org: k.Org, WebhookID: k.Webhook, Secret: secret, PreviousUntil: micros(until)})
		if errors.Is(err, sql.ErrNoRows) {
			return store.ErrNoWebhook(k.Webhook)
		}
		if err != nil {
			return err
		}
		w = fromWebhookRow(row)
		return s.record(ctx, q, store.WebhookEntry(agent.AuditWebhookRotated, k.Org, k.Webhook, agent.OriginOf(ctx)))
	})
	return w, err
}

// DisableWebhook gives a webhook up, with what was still to be sent to it.
func (s *Store) DisableWebhook(ctx context.Context, k store.WebhookKey) error {
	err := s.write(ctx, fmt.Sprintf("disable webhook %s", k.Webhook), func(ctx context.Context, q *db.Queries) error {
		n, err := q.DisableWebhook(ctx, db.DisableWebhookParams{Org: k.Org, WebhookID: k.Webhook, DisabledAt: micros(s.now())})
		if err != nil || n == 0 {
			return err
		}
		if err := q.GiveUpDeliveries(ctx, db.GiveUpDeliveriesParams{Org: k.Org, WebhookID: k.Webhook}); err != nil {
			return err
		}
		return s.record(ctx, q, store.WebhookEntry(agent.AuditWebhookDisabled, k.Org, k.Webhook, agent.OriginOf(ctx)))
	})
	if err != nil {
		return err
	}
	return s.LookForWebhooks(ctx)
}

// LookForWebhooks finds out which organisations have webhooks. Only their turns leave
// deliveries.
func (s *Store) LookForWebhooks(ctx context.Context) error {
	orgs, err := s.read.WebhookOrgs(ctx)
	if err == nil {
		s.hooked.Set(orgs)
	}
	return explain("look for webhooks", err)
}

// tell writes what webhooks are told of, in the transaction of what causes it.
func (s *Store) tell(ctx context.Context, q *db.Queries, m store.Message) error {
	return q.InsertDeliveries(ctx, db.InsertDeliveriesParams{
		Org: m.Org, MessageID: m.ID, Event: m.Event, At: micros(m.At), SessionID: m.Session, TurnID: m.Turn,
		Previous: m.PreviousMode, Actor: m.Actor, State: m.State, Code: m.Code, DueAt: micros(s.now()), Pattern: m.Pattern(),
	})
}

// TestWebhook has a message sent to one webhook.
func (s *Store) TestWebhook(ctx context.Context, k store.WebhookKey) (agent.WebhookDelivery, error) {
	now := instant(micros(s.now()))
	d := agent.WebhookDelivery{Webhook: k.Webhook, Message: store.NewMessageID(now), Event: agent.WebhookTest, At: now, Outcome: agent.DeliveryPending, Due: now}
	err := s.begin(ctx, fmt.Sprintf("test webhook %s", k.Webhook), func(ctx context.Context, q *db.Queries) error {
		n, err := q.InsertTestDelivery(ctx, db.InsertTestDeliveryParams{Org: k.Org, WebhookID: k.Webhook,
			MessageID: d.Message, Event: d.Event, At: micros(now), DueAt: micros(now)})
		if err != nil || n > 0 {
			return err
		}
		if _, err := findWebhook(ctx, q, k); err != nil {
			return err
		}
		return store.ErrDisabledWebhook(k.Webhook)
	})
	return d, err
}

// Deliveries returns a page of what was or is to be sent to a webhook, newest first, and
// the cursor of the next page, which is empty on the last one.
func (s *Store) Deliveries(ctx context.Context, k store.WebhookKey, page store.Page) ([]agent.WebhookDelivery, string, error) {
	before, err := store.DeliveriesBefore(page)
	if err != nil {
		return nil, "", err
	}
	doing := fmt.Sprintf("list the deliveries of webhook %s", k.Webhook)
	if _, err := findWebhook(ctx, s.read, k); err != nil {
		return nil, "", explain(doing, err)
	}
	rows, err := s.read.Deliveries(ctx, db.DeliveriesParams{Org: k.Org, WebhookID: k.Webhook, Before: before, Size: int64(page.Size()) + 1})
	if err != nil {
		return nil, "", explain(doing, err)
	}
	rows, next := cut(rows, page, func(r db.Delivery) string { return store.DeliveryCursor(r.MessageID) })
	return convert(rows, fromDeliveryRow), next, nil
}

// DueWebhooks returns the webhooks to which something is to be sent.
func (s *Store) DueWebhooks(ctx context.Context) ([]store.WebhookKey, error) {
	rows, err := s.read.DueWebhooks(ctx, micros(s.now()))
	return convert(rows, func(r db.DueWebhooksRow) store.WebhookKey { return store.WebhookKey{Org: r.Org, Webhook: r.WebhookID} }),
		explain("look for due deliveries", err)
}

// ClaimDeliveries claims deliveries of a webhook that are due, the longest overdue first
// and no more than so many: until the lease is over nobody else gets them.
func (s *Store) ClaimDeliveries(ctx context.Context, k store.WebhookKey, lease time.Duration, most int) (w agent.Webhook, claimed []agent.WebhookDelivery, err error) {
	err = s.write(ctx, fmt.Sprintf("claim deliveries of webhook %s", k.Webhook), func(ctx context.Context, q *db.Queries) error {
		row, err := findWebhook(ctx, q, k)
		if err != nil {
			return err
		}
		now := s.now()
		rows, err := q.ClaimDeliveries(ctx, db.ClaimDeliveriesParams{Org: k.Org, WebhookID: k.Webhook,
			Now: micros(now), Until: micros(now.Add(lease)), Size: int64(most)})
		w, claimed = fromWebhookRow(row), convert(rows, fromDeliveryRow)
		return err
	})
	return w, claimed, err
}

// SettleDelivery records what came of an attempt, unless the delivery was claimed again
// since, or went.
func (s *Store) SettleDelivery(ctx context.Context, a store.Attempt) error {
	return s.write(ctx, fmt.Sprintf("settle delivery %s", a.Message), func(ctx context.Context, q *db.Queries) error {
		return q.SettleDelivery(ctx, db.SettleDeliveryParams{Org: a.Key.Org, WebhookID: a.Key.Webhook, MessageID: a.Message, Attempts: a.Number,
			Outcome: a.Outcome, DueAt: micros(s.now().Add(a.Wait)), LastAt: micros(a.At), LastStatus: a.Status, Problem: a.Problem})
	})
}

// EveryWebhook returns the webhooks of everybody.
func (s *Store) EveryWebhook(ctx context.Context) ([]store.WebhookKey, error) {
	rows, err := s.read.EveryWebhook(ctx)
	return convert(rows, func(r db.EveryWebhookRow) store.WebhookKey { return store.WebhookKey{Org: r.Org, Webhook: r.WebhookID} }),
		explain("list all webhooks", err)
}

// SweepDeliveries erases deliveries of a webhook that are over and older than a time, no
// more than so many, and returns how many.
func (s *Store) SweepDeliveries(ctx context.Context, k store.WebhookKey, before time.Time, most int) (int, error) {
	var swept int64
	err := s.write(ctx, fmt.Sprintf("sweep the deliveries of webhook %s", k.Webhook), func(ctx context.Context, q *db.Queries) (err error) {
		swept, err = q.SweepDeliveries(ctx, db.SweepDeliveriesParams{Org: k.Org, WebhookID: k.Webhook, Before: store.MessagesBefore(before), Size: int64(most)})
		return err
	})
	return int(swept), err
}

// findWebhook returns the row, or the fault that says it is not there.
func findWebhook(ctx context.Context, q *db.Queries, k store.WebhookKey) (db.Webhook, error) {
	row, err := q.Webhook(ctx, db.WebhookParams{Org: k.Org, WebhookID: k.Webhook})
	if errors.Is(err, sql.ErrNoRows) {
		return row, store.ErrNoWebhook(k.Webhook)
	}
	return row, err
}

func fromWebhookRow(r db.Webhook) agent.Webhook {
	return agent.Webhook{
		Org: r.Org, ID: r.WebhookID, URL: r.URL, Description: r.Description, Events: store.DecodeEvents(r.Events),
		Secret: r.Secret, Previous: r.PreviousSecret, PreviousUntil: instant(r.PreviousUntil),
		CreatedBy: r.CreatedBy, CreatedAt: instant(r.CreatedAt), DisabledAt: instant(r.DisabledAt),
	}
}

func fromDeliveryRow(r db.Delivery) agent.WebhookDelivery {
	d := agent.WebhookDelivery{
		Webhook: r.WebhookID, Message: r.MessageID, Event: r.Event, At: instant(r.At), Turn: r.TurnID,
		Mode: r.Mode, PreviousMode: r.Previous, Actor: r.Actor, State: r.State, Code: r.Code,
		Outcome: r.Outcome, Attempts: r.Attempts, Due: instant(r.DueAt),
		LastAt: instant(r.LastAt), Status: r.LastStatus, Problem: r.Problem,
	}
	if r.SessionID != nil {
		d.Session = *r.SessionID
	}
	return d
}

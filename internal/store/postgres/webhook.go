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

// CreateWebhook stores a webhook. An organisation that has store.MaxWebhooks gets
// agent.KindLimitReached.
func (s *Store) CreateWebhook(ctx context.Context, w agent.Webhook) error {
	entry := store.WebhookEntry(agent.AuditWebhookCreated, w.Org, w.ID, agent.OriginOf(ctx))
	created := s.stamp(w.CreatedAt)
	err := s.begin(ctx, s.audited(fmt.Sprintf("create webhook %s", w.ID), entry, func(ctx context.Context, q *db.Queries) error {
		n, err := q.CountWebhooks(ctx, w.Org)
		if err != nil {
			return err
		}
		if n >= store.MaxWebhooks {
			return store.ErrTooManyWebhooks()
		}
		return q.InsertWebhook(ctx, db.InsertWebhookParams{
			Org: w.Org, WebhookID: w.ID, URL: w.URL, Description: text(w.Description), Events: store.EncodeEvents(w.Events),
			Secret: w.Secret, CreatedBy: w.CreatedBy, CreatedAt: created,
		})
	}))
	if err != nil {
		return err
	}
	return s.LookForWebhooks(ctx)
}

// Webhook returns a webhook with its secrets.
func (s *Store) Webhook(ctx context.Context, k store.WebhookKey) (w agent.Webhook, err error) {
	err = s.repeat(ctx, fmt.Sprintf("read webhook %s", k.Webhook), func(ctx context.Context, q *db.Queries) error {
		row, err := findWebhook(ctx, q, k)
		w = fromWebhookRow(row)
		return err
	})
	return w, err
}

// Webhooks returns the webhooks of an organisation, in the order of their ids; there are
// no more than store.MaxWebhooks.
func (s *Store) Webhooks(ctx context.Context, org agent.OrgID) ([]agent.Webhook, error) {
	var rows []db.Webhook
	err := s.repeat(ctx, fmt.Sprintf("list the webhooks of %s", org), func(ctx context.Context, q *db.Queries) (err error) {
		rows, err = q.Webhooks(ctx, db.WebhooksParams{Org: org, Size: store.MaxWebhooks})
		return err
	})
	return convert(rows, fromWebhookRow), err
}

// DeleteWebhook erases a webhook with its deliveries.
func (s *Store) DeleteWebhook(ctx context.Context, k store.WebhookKey) error {
	entry := store.WebhookEntry(agent.AuditWebhookDeleted, k.Org, k.Webhook, agent.OriginOf(ctx))
	err := s.write(ctx, s.audited(fmt.Sprintf("delete webhook %s", k.Webhook), entry, func(ctx context.Context, q *db.Queries) error {
		n, err := q.DeleteWebhook(ctx, db.DeleteWebhookParams{Org: k.Org, WebhookID: k.Webhook})
		if err == nil && n == 0 {
			return store.ErrNoWebhook(k.Webhook)
		}
		return err
	}))
	if err != nil {
		return err
	}
	return s.LookForWebhooks(ctx)
}

// RotateWebhook gives a webhook another secret. The one that it had is good until a time.
func (s *Store) RotateWebhook(ctx context.Context, k store.WebhookKey, secret agent.WebhookSecret, until time.Time) (agent.Webhook, error) {
	entry := store.WebhookEntry(agent.AuditWebhookRotated, k.Org, k.Webhook, agent.OriginOf(ctx))
	err := s.write(ctx, s.audited(fmt.Sprintf("rotate the secret of webhook %s", k.Webhook), entry, func(ctx context.Context, q *db.Queries) error {
		_, err := q.RotateWebhook(ctx, db.RotateWebhookParams{Org: k.Org, WebhookID: k.Webhook, Secret: secret, PreviousUntil: micros(until)})
		if isMissing(err) {
			return store.ErrNoWebhook(k.Webhook)
		}
		return err
	}))
	if err != nil {
		return agent.Webhook{}, err
	}
	return s.Webhook(ctx, k)
}

// DisableWebhook gives a webhook up, with what was still to be sent to it.
func (s *Store) DisableWebhook(ctx context.Context, k store.WebhookKey) error {
	entry := s.auditRow(store.WebhookEntry(agent.AuditWebhookDisabled, k.Org, k.Webhook, agent.OriginOf(ctx)))
	err := s.write(ctx, unit{
		doing: fmt.Sprintf("disable webhook %s", k.Webhook),
		run: func(ctx context.Context, c *pgxpool.Conn) error {
			return transact(ctx, c, func(q *db.Queries) error {
				n, err := q.DisableWebhook(ctx, db.DisableWebhookParams{Org: k.Org, WebhookID: k.Webhook, DisabledAt: entry.At})
				if err != nil || n == 0 {
					return err
				}
				if err := q.GiveUpDeliveries(ctx, db.GiveUpDeliveriesParams{Org: k.Org, WebhookID: k.Webhook}); err != nil {
					return err
				}
				return q.InsertAudit(ctx, entry)
			})
		},
		landed: recorded(entry),
	})
	if err != nil {
		return err
	}
	return s.LookForWebhooks(ctx)
}

// LookForWebhooks finds out which organisations have webhooks. Only their turns leave
// deliveries.
func (s *Store) LookForWebhooks(ctx context.Context) error {
	return s.repeat(ctx, "look for webhooks", func(ctx context.Context, q *db.Queries) error {
		orgs, err := q.WebhookOrgs(ctx)
		if err == nil {
			s.hooked.Set(orgs)
		}
		return err
	})
}

// tell writes what webhooks are told of, in the transaction of what causes it.
func tell(ctx context.Context, q *db.Queries, m store.Message) error {
	return q.InsertDeliveries(ctx, db.InsertDeliveriesParams{
		Org: m.Org, MessageID: string(m.ID), Event: string(m.Event), At: micros(m.At), SessionID: m.Session, TurnID: string(m.Turn),
		Previous: string(m.PreviousMode), Actor: string(m.Actor), State: string(m.State), Code: string(m.Code), Pattern: m.Pattern(),
	})
}

// TestWebhook has a message sent to one webhook.
func (s *Store) TestWebhook(ctx context.Context, k store.WebhookKey) (agent.WebhookDelivery, error) {
	now := instant(micros(s.now()))
	d := agent.WebhookDelivery{Webhook: k.Webhook, Message: store.NewMessageID(now), Event: agent.WebhookTest, At: now, Outcome: agent.DeliveryPending, Due: now}
	return d, s.begin(ctx, unit{
		doing: fmt.Sprintf("test webhook %s", k.Webhook),
		run: func(ctx context.Context, c *pgxpool.Conn) error {
			q := db.New(c)
			n, err := q.InsertTestDelivery(ctx, db.InsertTestDeliveryParams{Org: k.Org, WebhookID: k.Webhook,
				MessageID: string(d.Message), Event: string(d.Event), At: micros(now)})
			if err != nil || n > 0 {
				return err
			}
			if _, err := findWebhook(ctx, q, k); err != nil {
				return err
			}
			return store.ErrDisabledWebhook(k.Webhook)
		},
		landed: func(ctx context.Context, q *db.Queries) (bool, error) {
			return q.HasDelivery(ctx, db.HasDeliveryParams{Org: k.Org, WebhookID: k.Webhook, MessageID: d.Message})
		},
	})
}

// Deliveries returns a page of what was or is to be sent to a webhook, newest first, and
// the cursor of the next page, which is empty on the last one.
func (s *Store) Deliveries(ctx context.Context, k store.WebhookKey, page store.Page) ([]agent.WebhookDelivery, string, error) {
	before, err := store.DeliveriesBefore(page)
	if err != nil {
		return nil, "", err
	}
	var rows []db.Delivery
	err = s.repeat(ctx, fmt.Sprintf("list the deliveries of webhook %s", k.Webhook), func(ctx context.Context, q *db.Queries) error {
		if _, err := findWebhook(ctx, q, k); err != nil {
			return err
		}
		var err error
		rows, err = q.Deliveries(ctx, db.DeliveriesParams{Org: k.Org, WebhookID: k.Webhook, Before: string(before), Size: int32(page.Size()) + 1})
		return err
	})
	if err != nil {
		return nil, "", err
	}
	rows, next := cut(rows, page, func(r db.Delivery) string { return store.DeliveryCursor(r.MessageID) })
	return convert(rows, fromDeliveryRow), next, nil
}

// DueWebhooks returns the webhooks to which something is to be sent.
func (s *Store) DueWebhooks(ctx context.Context) ([]store.WebhookKey, error) {
	var rows []db.DueWebhooksRow
	err := s.repeat(ctx, "look for due deliveries", func(ctx context.Context, q *db.Queries) (err error) {
		rows, err = q.DueWebhooks(ctx)
		return err
	})
	return convert(rows, func(r db.DueWebhooksRow) store.WebhookKey { return store.WebhookKey{Org: r.Org, Webhook: r.WebhookID} }), err
}

// ClaimDeliveries claims deliveries of a webhook that are due, the longest overdue first
// and no more than so many: until the lease is over nobody else gets them.
func (s *Store) ClaimDeliveries(ctx context.Context, k store.WebhookKey, lease time.Duration, most int) (w agent.Webhook, claimed []agent.WebhookDelivery, err error) {
	// What a run has claimed that nobody was told of is due again when its lease is over.
	err = s.repeat(ctx, fmt.Sprintf("claim deliveries of webhook %s", k.Webhook), func(ctx context.Context, q *db.Queries) error {
		row, err := findWebhook(ctx, q, k)
		if err != nil {
			return err
		}
		rows, err := q.ClaimDeliveries(ctx, db.ClaimDeliveriesParams{Org: k.Org, WebhookID: k.Webhook, Lease: lease.Microseconds(), Size: int32(most)})
		w, claimed = fromWebhookRow(row), convert(rows, fromDeliveryRow)
		return err
	})
	return w, claimed, err
}

// SettleDelivery records what came of an attempt, unless the delivery was claimed again
// since, or went.
func (s *Store) SettleDelivery(ctx context.Context, a store.Attempt) error {
	return s.repeat(ctx, fmt.Sprintf("settle delivery %s", a.Message), func(ctx context.Context, q *db.Queries) error {
		return q.SettleDelivery(ctx, db.SettleDeliveryParams{Org: a.Key.Org, WebhookID: a.Key.Webhook, MessageID: a.Message, Attempts: a.Number,
			Outcome: a.Outcome, Wait: a.Wait.Microseconds(), LastAt: micros(a.At), LastStatus: a.Status, Problem: a.Problem})
	})
}

// EveryWebhook returns the webhooks of everybody.
func (s *Store) EveryWebhook(ctx context.Context) ([]store.WebhookKey, error) {
	var rows []db.EveryWebhookRow
	err := s.repeat(ctx, "list all webhooks", func(ctx context.Context, q *db.Queries) (err error) {
		rows, err = q.EveryWebhook(ctx)
		return err
	})
	return convert(rows, func(r db.EveryWebhookRow) store.WebhookKey { return store.WebhookKey{Org: r.Org, Webhook: r.WebhookID} }), err
}

// SweepDeliveries erases deliveries of a webhook that are over and older than a time, no
// more than so many, and returns how many.
func (s *Store) SweepDeliveries(ctx context.Context, k store.WebhookKey, before time.Time, most int) (swept int, err error) {
	err = s.repeat(ctx, fmt.Sprintf("sweep the deliveries of webhook %s", k.Webhook), func(ctx context.Context, q *db.Queries) error {
		n, err := q.SweepDeliveries(ctx, db.SweepDeliveriesParams{Org: k.Org, WebhookID: k.Webhook, Before: string(store.MessagesBefore(before)), Size: int32(most)})
		swept = int(n)
		return err
	})
	return swept, err
}

// findWebhook returns the row, or the fault that says it is not there.
func findWebhook(ctx context.Context, q *db.Queries, k store.WebhookKey) (db.Webhook, error) {
	row, err := q.Webhook(ctx, db.WebhookParams{Org: k.Org, WebhookID: k.Webhook})
	if isMissing(err) {
		return row, store.ErrNoWebhook(k.Webhook)
	}
	return row, err
}

func fromWebhookRow(r db.Webhook) agent.Webhook {
	return agent.Webhook{
		Org: r.Org, ID: r.WebhookID, URL: r.URL, Description: string(r.Description), Events: store.DecodeEvents(r.Events),
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

package server

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/store"
)

// Webhooks is what the edge needs of webhooks. A webhook of another organisation is
// agent.KindNotFound everywhere.
type Webhooks interface {
	// Create returns a webhook with its secret, which nothing else returns.
	Create(ctx context.Context, by agent.Caller, c contract.CreateWebhook) (w agent.Webhook, secret string, err error)
	Get(ctx context.Context, by agent.Caller, id agent.WebhookID) (agent.Webhook, error)
	List(ctx context.Context, by agent.Caller) ([]agent.Webhook, error)
	Delete(ctx context.Context, by agent.Caller, id agent.WebhookID) error
	Rotate(ctx context.Context, by agent.Caller, id agent.WebhookID) (w agent.Webhook, secret string, err error)
	Test(ctx context.Context, by agent.Caller, id agent.WebhookID) (agent.WebhookDelivery, error)
	// Deliveries pages through what was or is to be sent, newest first.
	Deliveries(ctx context.Context, by agent.Caller, id agent.WebhookID, p store.Page) ([]agent.WebhookDelivery, string, error)
}

// Webhook is an address that is told of what happens.
type Webhook struct {
	WebhookID   agent.WebhookID      `json:"webhookId"`
	URL         string               `json:"url"`
	Events      []agent.WebhookEvent `json:"events"`
	Description string               `json:"description,omitempty"`
	Secret      string               `json:"secret,omitempty" doc:"With which messages are signed; only in the answer that makes it."`
	CreatedAt   time.Time            `json:"createdAt"`
	CreatedBy   agent.UserID         `json:"createdBy"`
	DisabledAt  *time.Time           `json:"disabledAt,omitempty" doc:"When the receiver answered 410 Gone. Nothing is sent any more."`
}

func webhookView(w agent.Webhook) Webhook {
	v := Webhook{WebhookID: w.ID, URL: w.URL, Events: w.Events, Description: w.Description, CreatedAt: w.CreatedAt.UTC(), CreatedBy: w.CreatedBy}
	if !w.DisabledAt.IsZero() {
		at := w.DisabledAt.UTC()
		v.DisabledAt = &at
	}
	return v
}

// Delivery is a message to a webhook and what became of it.
type Delivery struct {
	MessageID   agent.MessageID       `json:"messageId" doc:"The webhook-id of every attempt."`
	Event       agent.WebhookEvent    `json:"event"`
	SessionID   agent.SessionID       `json:"sessionId,omitempty"`
	TurnID      agent.TurnID          `json:"turnId,omitempty"`
	At          time.Time             `json:"at" doc:"When it happened."`
	Outcome     agent.DeliveryOutcome `json:"outcome"`
	Attempts    int64                 `json:"attempts"`
	NextAttempt *time.Time            `json:"nextAttempt,omitempty"`
	LastAttempt *time.Time            `json:"lastAttempt,omitempty"`
	Status      int64                 `json:"status,omitempty" doc:"The HTTP status of the last answer."`
	Problem     string                `json:"problem,omitempty" doc:"What was wrong with the last attempt."`
}

func deliveryView(d agent.WebhookDelivery) Delivery {
	v := Delivery{MessageID: d.Message, Event: d.Event, SessionID: d.Session, TurnID: d.Turn, At: d.At.UTC(),
		Outcome: d.Outcome, Attempts: d.Attempts, Status: d.Status, Problem: d.Problem}
	if d.Outcome == agent.DeliveryPending {
		due := d.Due.UTC()
		v.NextAttempt = &due
	}
	if !d.LastAt.IsZero() {
		last := d.LastAt.UTC()
		v.LastAttempt = &last
	}
	return v
}

// webhookOf returns the webhooks and the id in the path, or says that there is none.
func (s *Server) webhookOf(r *http.Request) (Webhooks, agent.WebhookID, error) {
	id := r.PathValue("webhookId")
	switch {
	case s.webhooks == nil:
		return nil, "", errNoRoute()
	case !agent.ValidID(id):
		return nil, "", agent.Errorf(agent.KindNotFound, "There is no such webhook.")
	}
	return s.webhooks, agent.WebhookID(id), nil
}

func (s *Server) createWebhook(w http.ResponseWriter, r *http.Request) error {
	if s.webhooks == nil {
		return errNoRoute()
	}
	body, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	c, err := contract.DecodeCreateWebhook(body, s.limits)
	if err != nil {
		return err
	}
	hook, secret, err := s.webhooks.Create(r.Context(), callerOf(r), c)
	if err != nil {
		return err
	}
	v := webhookView(hook)
	v.Secret = secret
	w.Header().Set("Location", "/v1/webhooks/"+url.PathEscape(string(hook.ID)))
	return writeJSON(w, http.StatusCreated, v)
}

func (s *Server) listWebhooks(w http.ResponseWriter, r *http.Request) error {
	if s.webhooks == nil {
		return errNoRoute()
	}
	all, err := s.webhooks.List(r.Context(), callerOf(r))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, listOf(all, "", webhookView))
}

func (s *Server) getWebhook(w http.ResponseWriter, r *http.Request) error {
	hooks, id, err := s.webhookOf(r)
	if err != nil {
		return err
	}
	hook, err := hooks.Get(r.Context(), callerOf(r), id)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, webhookView(hook))
}

func (s *Server) deleteWebhook(w http.ResponseWriter, r *http.Request) error {
	hooks, id, err := s.webhookOf(r)
	if err != nil {
		return err
	}
	if err := hooks.Delete(r.Context(), callerOf(r), id); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) rotateWebhook(w http.ResponseWriter, r *http.Request) error {
	hooks, id, err := s.webhookOf(r)
	if err != nil {
		return err
	}
	hook, secret, err := hooks.Rotate(r.Context(), callerOf(r), id)
	if err != nil {
		return err
	}
	v := webhookView(hook)
	v.Secret = secret
	return writeJSON(w, http.StatusOK, v)
}

func (s *Server) testWebhook(w http.ResponseWriter, r *http.Request) error {
	hooks, id, err := s.webhookOf(r)
	if err != nil {
		return err
	}
	d, err := hooks.Test(r.Context(), callerOf(r), id)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusAccepted, deliveryView(d))
}

func (s *Server) listDeliveries(w http.ResponseWriter, r *http.Request) error {
	hooks, id, err := s.webhookOf(r)
	if err != nil {
		return err
	}
	page, err := pageOf(r)
	if err != nil {
		return err
	}
	all, next, err := hooks.Deliveries(r.Context(), callerOf(r), id, page)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, listOf(all, next, deliveryView))
}

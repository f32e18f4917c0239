package webhook

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/outbound"
	"github.com/aptixhq/aptix/internal/store"
)

// rotationTime is how long the secret before a rotation is good.
const rotationTime = 24 * time.Hour

// Registry is where webhooks are kept.
type Registry interface {
	CreateWebhook(ctx context.Context, w agent.Webhook) error
	Webhook(ctx context.Context, k store.WebhookKey) (agent.Webhook, error)
	Webhooks(ctx context.Context, org agent.OrgID) ([]agent.Webhook, error)
	DeleteWebhook(ctx context.Context, k store.WebhookKey) error
	RotateWebhook(ctx context.Context, k store.WebhookKey, secret agent.WebhookSecret, until time.Time) (agent.Webhook, error)
	TestWebhook(ctx context.Context, k store.WebhookKey) (agent.WebhookDelivery, error)
	Deliveries(ctx context.Context, k store.WebhookKey, p store.Page) ([]agent.WebhookDelivery, string, error)
}

// Webhooks are those of all organisations, as their callers see them. A webhook of another
// organisation is agent.KindNotFound everywhere.
type Webhooks struct {
	registry Registry
	policy   outbound.Policy
	now      func() time.Time
}

// New returns the webhooks of a registry. The policy says where they may lead.
func New(registry Registry, policy outbound.Policy) *Webhooks {
	return &Webhooks{registry: registry, policy: policy, now: time.Now}
}

// Create makes a webhook and returns it with its secret, which nobody is shown again.
func (w *Webhooks) Create(ctx context.Context, by agent.Caller, c contract.CreateWebhook) (agent.Webhook, string, error) {
	if err := w.policy.CheckURL(c.URL); err != nil {
		why := "it is no address of a web server"
		if refused := (*outbound.RefusedError)(nil); errors.As(err, &refused) {
			why = refused.Error()
		}
		return agent.Webhook{}, "", agent.Errorf(agent.KindInvalidRequest, "Nothing can be sent to this url: %s.", why).Because(err)
	}
	hook := agent.Webhook{
		Org: by.Org, ID: agent.WebhookID("wh_" + strings.ToLower(rand.Text())), URL: c.URL, Description: c.Description,
		Events: c.Events, Secret: newSecret(), CreatedBy: by.User, CreatedAt: w.now().UTC().Truncate(time.Microsecond),
	}
	return hook, shown(hook.Secret), w.registry.CreateWebhook(ctx, hook)
}

// Get reads a webhook.
func (w *Webhooks) Get(ctx context.Context, by agent.Caller, id agent.WebhookID) (agent.Webhook, error) {
	return w.registry.Webhook(ctx, store.WebhookKey{Org: by.Org, Webhook: id})
}

// List returns the webhooks of the caller's organisation.
func (w *Webhooks) List(ctx context.Context, by agent.Caller) ([]agent.Webhook, error) {
	return w.registry.Webhooks(ctx, by.Org)
}

// Delete erases a webhook with its deliveries.
func (w *Webhooks) Delete(ctx context.Context, by agent.Caller, id agent.WebhookID) error {
	return w.registry.DeleteWebhook(ctx, store.WebhookKey{Org: by.Org, Webhook: id})
}

// Rotate gives a webhook another secret, which nobody is shown again. For a day messages
// are signed with the one before as well.
func (w *Webhooks) Rotate(ctx context.Context, by agent.Caller, id agent.WebhookID) (agent.Webhook, string, error) {
	secret := newSecret()
	hook, err := w.registry.RotateWebhook(ctx, store.WebhookKey{Org: by.Org, Webhook: id}, secret, w.now().Add(rotationTime))
	return hook, shown(secret), err
}

// Test has a message sent to a webhook.
func (w *Webhooks) Test(ctx context.Context, by agent.Caller, id agent.WebhookID) (agent.WebhookDelivery, error) {
	return w.registry.TestWebhook(ctx, store.WebhookKey{Org: by.Org, Webhook: id})
}

// Deliveries pages through what was or is to be sent to a webhook, newest first.
func (w *Webhooks) Deliveries(ctx context.Context, by agent.Caller, id agent.WebhookID, p store.Page) ([]agent.WebhookDelivery, string, error) {
	return w.registry.Deliveries(ctx, store.WebhookKey{Org: by.Org, Webhook: id}, p)
}

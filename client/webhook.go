package client

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// NewWebhook describes an address that is to be told of what happens.
type NewWebhook struct {
	URL string `json:"url"`
	// Events are turn.completed, turn.waiting, turn.failed, turn.cancelled and
	// mode.changed; at least one of them.
	Events      []string `json:"events"`
	Description string   `json:"description,omitempty"`
}

// Webhook is an address that is told of what happens.
type Webhook struct {
	WebhookID   string   `json:"webhookId"`
	URL         string   `json:"url"`
	Events      []string `json:"events"`
	Description string   `json:"description,omitempty"`
	// Secret is what VerifyWebhook needs. Only the answer that makes it has it.
	Secret    string    `json:"secret,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	CreatedBy string    `json:"createdBy"`
	// DisabledAt is when the receiver answered 410 Gone, nil while it is told.
	DisabledAt *time.Time `json:"disabledAt,omitempty"`
}

// Delivery is a message to a webhook and what became of it.
type Delivery struct {
	MessageID string    `json:"messageId"`
	Event     string    `json:"event"`
	SessionID string    `json:"sessionId,omitempty"`
	TurnID    string    `json:"turnId,omitempty"`
	At        time.Time `json:"at"`
	// Outcome is pending, delivered or failed.
	Outcome     string     `json:"outcome"`
	Attempts    int64      `json:"attempts"`
	NextAttempt *time.Time `json:"nextAttempt,omitempty"`
	LastAttempt *time.Time `json:"lastAttempt,omitempty"`
	Status      int        `json:"status,omitempty"`
	Problem     string     `json:"problem,omitempty"`
}

// CreateWebhook makes a webhook. It is not repeated when the connection is lost.
func (c *Client) CreateWebhook(ctx context.Context, w NewWebhook) (*Webhook, error) {
	var out Webhook
	err := c.call(ctx, request{method: http.MethodPost, path: at("v1", "webhooks"), body: w}, &out)
	return orNil(&out, err)
}

// Webhooks lists the webhooks.
func (c *Client) Webhooks(ctx context.Context) ([]Webhook, error) {
	var out List[Webhook]
	err := c.call(ctx, request{method: http.MethodGet, path: at("v1", "webhooks"), repeat: true}, &out)
	return out.Data, err
}

// DeleteWebhook deletes a webhook with its deliveries.
func (c *Client) DeleteWebhook(ctx context.Context, webhookID string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: at("v1", "webhooks", webhookID)}, nil)
}

// RotateWebhook gives a webhook another secret. For a day the one before is good, too.
func (c *Client) RotateWebhook(ctx context.Context, webhookID string) (*Webhook, error) {
	var out Webhook
	err := c.call(ctx, request{method: http.MethodPost, path: at("v1", "webhooks", webhookID, "rotate")}, &out)
	return orNil(&out, err)
}

// TestWebhook has a message sent to a webhook.
func (c *Client) TestWebhook(ctx context.Context, webhookID string) (*Delivery, error) {
	var out Delivery
	err := c.call(ctx, request{method: http.MethodPost, path: at("v1", "webhooks", webhookID, "test")}, &out)
	return orNil(&out, err)
}

// Deliveries lists what was or is to be sent to a webhook, newest first.
func (c *Client) Deliveries(ctx context.Context, webhookID string, p Page) (List[Delivery], error) {
	var out List[Delivery]
	err := c.call(ctx, request{method: http.MethodGet, path: at("v1", "webhooks", webhookID, "deliveries"), query: p.query(), repeat: true}, &out)
	return out, err
}

// WebhookMessage is the body of a message to a webhook. Whatever else Data is, it has ids
// and no contents.
type WebhookMessage struct {
	Type      string          `json:"type"`
	Timestamp time.Time       `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
}

// webhookTolerance is how far the time of a message may be from ours.
const webhookTolerance = 5 * time.Minute

// ErrWebhookSignature says that a message is not to be trusted: it is not from the server
// that shares the secret, or not as that sent it, or too old.
var ErrWebhookSignature = errors.New("the webhook message cannot be trusted")

// VerifyWebhook returns nil when a message is from the server that shares the secret, and
// otherwise an error that is ErrWebhookSignature. The body is the request's, byte for
// byte. The same message may come again: its webhook-id is the same then.
func VerifyWebhook(secret string, header http.Header, body []byte) error {
	return verifyWebhook(secret, header, body, time.Now())
}

func verifyWebhook(secret string, header http.Header, body []byte, now time.Time) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) == 0 {
		return fmt.Errorf("%w: the secret is not one of a webhook", ErrWebhookSignature)
	}
	id, stamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	if id == "" {
		return fmt.Errorf("%w: it has no webhook-id", ErrWebhookSignature)
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || strconv.FormatInt(seconds, 10) != stamp {
		return fmt.Errorf("%w: its webhook-timestamp is not a time", ErrWebhookSignature)
	}
	if age := now.Unix() - seconds; age > int64(webhookTolerance.Seconds()) || age < -int64(webhookTolerance.Seconds()) {
		return fmt.Errorf("%w: its time is not ours", ErrWebhookSignature)
	}
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte(id + "." + stamp + "."))
	_, _ = mac.Write(body)
	want := mac.Sum(nil)
	for _, signature := range strings.Fields(header.Get("webhook-signature")) {
		text, ok := strings.CutPrefix(signature, "v1,")
		if !ok {
			continue // of another version
		}
		if got, err := base64.StdEncoding.DecodeString(text); err == nil && hmac.Equal(got, want) {
			return nil
		}
	}
	return fmt.Errorf("%w: no signature is right", ErrWebhookSignature)
}

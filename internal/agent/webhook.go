package agent

import "time"

// WebhookID names a webhook within its organisation.
type WebhookID string

// MessageID names a message to webhooks: the same at every attempt and at every webhook.
type MessageID string

// WebhookEvent is what a webhook is told of.
type WebhookEvent string

// The events of webhooks.
const (
	WebhookTurnCompleted WebhookEvent = "turn.completed"
	WebhookTurnWaiting   WebhookEvent = "turn.waiting"
	WebhookTurnFailed    WebhookEvent = "turn.failed"
	WebhookTurnCancelled WebhookEvent = "turn.cancelled"
	WebhookModeChanged   WebhookEvent = "mode.changed"
	// WebhookTest is sent on request only, and cannot be subscribed to.
	WebhookTest WebhookEvent = "webhook.test"
)

// WebhookEvents returns those that a webhook may ask for.
func WebhookEvents() []WebhookEvent {
	return []WebhookEvent{WebhookTurnCompleted, WebhookTurnWaiting, WebhookTurnFailed, WebhookTurnCancelled, WebhookModeChanged}
}

// WebhookSecret is the key with which messages are signed. It renders as ***.
type WebhookSecret []byte

// String hides the secret.
func (WebhookSecret) String() string { return "***" }

// GoString hides the secret.
func (WebhookSecret) GoString() string { return "***" }

// MarshalText hides the secret.
func (WebhookSecret) MarshalText() ([]byte, error) { return []byte("***"), nil }

// Webhook is an address that is told of what happens in an organisation.
type Webhook struct {
	Org         OrgID
	ID          WebhookID
	URL         string
	Description string
	Events      []WebhookEvent
	Secret      WebhookSecret
	// Previous is the secret before a rotation, good until PreviousUntil.
	Previous      WebhookSecret
	PreviousUntil time.Time
	CreatedBy     UserID
	CreatedAt     time.Time
	// DisabledAt is when the webhook was given up, zero while it is in use.
	DisabledAt time.Time
}

// DeliveryOutcome is what became of a delivery.
type DeliveryOutcome string

// The outcomes. The last two are final.
const (
	DeliveryPending   DeliveryOutcome = "pending"
	DeliveryDelivered DeliveryOutcome = "delivered"
	DeliveryFailed    DeliveryOutcome = "failed"
)

// WebhookDelivery is a message to one webhook, and what became of it so far. It has ids and no
// contents.
type WebhookDelivery struct {
	Webhook WebhookID
	Message MessageID
	Event   WebhookEvent
	// At is when it happened.
	At time.Time
	// Session is empty for a test.
	Session SessionID
	Turn    TurnID
	// Mode is the session's after the event, PreviousMode the one before a change.
	Mode         ModeKey
	PreviousMode ModeKey
	// Actor is on whose word the mode changed.
	Actor Actor
	// State is the turn's, Code why it failed.
	State TurnState
	Code  Kind

	Outcome  DeliveryOutcome
	Attempts int64
	// Due is when the next attempt is, of a pending one.
	Due time.Time
	// LastAt, Status and Problem are of the last attempt that ended: its HTTP status, 0
	// when there was no answer, and what was wrong.
	LastAt  time.Time
	Status  int64
	Problem string
}

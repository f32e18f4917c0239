package store

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// MaxWebhooks is how many an organisation may have.
const MaxWebhooks = 50

// WebhookKey names a webhook among those of every organisation.
type WebhookKey struct {
	Org     agent.OrgID
	Webhook agent.WebhookID
}

// Attempt is what came of an attempt to deliver a message.
type Attempt struct {
	Key     WebhookKey
	Message agent.MessageID
	// Number is the delivery's Attempts when it was claimed.
	Number  int64
	Outcome agent.DeliveryOutcome
	// Wait is how long until the next one, of a delivery that stays pending.
	Wait    time.Duration
	At      time.Time
	Status  int64
	Problem string
}

// Message is an event that webhooks may be told of, as it is written with what causes it.
type Message struct {
	ID           agent.MessageID
	Event        agent.WebhookEvent
	At           time.Time
	Org          agent.OrgID
	Session      agent.SessionID
	Turn         agent.TurnID
	PreviousMode agent.ModeKey
	Actor        agent.Actor
	State        agent.TurnState
	Code         agent.Kind
}

// MessageOf returns what a transition tells webhooks, false when it is nothing. A turn that
// goes on waiting has said so before.
func MessageOf(a Append) (Message, bool) {
	m := Message{Org: a.Key.Org, Session: a.Key.Session, Turn: a.Key.Turn, State: a.State}
	switch a.State {
	case agent.TurnCompleted:
		m.Event = agent.WebhookTurnCompleted
	case agent.TurnFailed:
		m.Event = agent.WebhookTurnFailed
	case agent.TurnCancelled:
		m.Event = agent.WebhookTurnCancelled
	case agent.TurnWaiting:
		if slices.Contains(a.From, agent.TurnWaiting) {
			return Message{}, false
		}
		m.Event = agent.WebhookTurnWaiting
	default:
		return Message{}, false
	}
	if a.Fault != nil {
		m.Code = a.Fault.Kind
	}
	if n := len(a.Steps); n > 0 {
		m.At = a.Steps[n-1].At
	}
	return m.named(), true
}

// OpenedMessage is MessageOf for a turn that is at rest when it is opened.
func OpenedMessage(n NewTurn) (Message, bool) {
	return MessageOf(Append{Key: n.Turn.Key, State: n.Turn.State, Fault: n.Turn.Fault, Steps: n.Steps})
}

// ChangedMessage is what webhooks are told of a change of the mode.
func ChangedMessage(c agent.ModeChange) Message {
	return Message{Org: c.Org, Session: c.Session, Turn: c.Turn, Event: agent.WebhookModeChanged, At: c.At,
		PreviousMode: c.Previous, Actor: c.Actor}.named()
}

// named gives the message its id.
func (m Message) named() Message {
	if m.At.IsZero() {
		m.At = time.Now()
	}
	m.ID = NewMessageID(m.At)
	return m
}

// Pattern is what the stored events of a webhook contain that asked for this one.
func (m Message) Pattern() string { return " " + string(m.Event) + " " }

// EncodeEvents returns the stored form of a webhook's events.
func EncodeEvents(events []agent.WebhookEvent) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString(" " + string(e))
	}
	return b.String() + " "
}

// DecodeEvents reads it again.
func DecodeEvents(stored string) []agent.WebhookEvent {
	var events []agent.WebhookEvent
	for _, e := range strings.Fields(stored) {
		events = append(events, agent.WebhookEvent(e))
	}
	return events
}

// Hooked are the organisations that have webhooks, as last looked for: all others pay
// nothing for there being webhooks. The zero value has none.
type Hooked struct {
	orgs atomic.Pointer[map[agent.OrgID]bool]
}

// Set replaces them.
func (h *Hooked) Set(orgs []agent.OrgID) {
	set := make(map[agent.OrgID]bool, len(orgs))
	for _, o := range orgs {
		set[o] = true
	}
	h.orgs.Store(&set)
}

// Has reports whether an organisation is among them.
func (h *Hooked) Has(org agent.OrgID) bool {
	set := h.orgs.Load()
	return set != nil && (*set)[org]
}

// WebhookEntry is what the audit log says of a webhook.
func WebhookEntry(action agent.AuditAction, org agent.OrgID, id agent.WebhookID, by agent.Origin) agent.AuditEntry {
	return agent.AuditEntry{Org: org, Action: action, Subject: string(id), By: by.Or("")}
}

// ErrTooManyWebhooks is the fault of an organisation that has all it may have.
func ErrTooManyWebhooks() error {
	return agent.Errorf(agent.KindLimitReached, "An organisation has %d webhooks at most. Delete one that is not needed any more.", MaxWebhooks)
}

// ErrNoWebhook is the fault of a webhook that there is not.
func ErrNoWebhook(id agent.WebhookID) error {
	return agent.Errorf(agent.KindNotFound, "There is no webhook %q. Check the id, or list the webhooks to see which there are.", id)
}

// ErrDisabledWebhook is the fault of one to which nothing is sent any more.
func ErrDisabledWebhook(id agent.WebhookID) error {
	return agent.Errorf(agent.KindInvalidRequest, "Webhook %q is disabled: its receiver answered 410 Gone. Create another one.", id)
}

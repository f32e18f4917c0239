package store

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// AuditFilter narrows the list of an audit log. What is empty says nothing.
type AuditFilter struct {
	Session agent.SessionID
	User    agent.UserID
	Action  agent.AuditAction
	// Since is the earliest time, Until the first that is too late.
	Since, Until time.Time
}

// The prefixes of ids that are ordered by time.
const (
	auditPrefix   = "aud_"
	messagePrefix = "msg_"
	erasurePrefix = "ers_"
)

// timeID returns an id of its own that stands among others by its time.
func timeID(prefix string, at time.Time) string {
	return timeBound(prefix, at) + strings.ToLower(rand.Text()[:12])
}

// timeBound is what no id of that time, or of a later one, stands before.
func timeBound(prefix string, at time.Time) string {
	return fmt.Sprintf("%s%014x", prefix, max(at.UnixMicro(), 0))
}

// lastBound is what every id stands before.
func lastBound(prefix string) string { return prefix + "~" }

// NewAuditID returns the id of an entry of that time.
func NewAuditID(at time.Time) string { return timeID(auditPrefix, at) }

// NewMessageID returns the id of a message to webhooks.
func NewMessageID(at time.Time) agent.MessageID { return agent.MessageID(timeID(messagePrefix, at)) }

// NewErasureID returns the id of an erasure.
func NewErasureID(at time.Time) string { return timeID(erasurePrefix, at) }

// AuditBefore is what no entry stands before that is of that time or later.
func AuditBefore(at time.Time) string { return timeBound(auditPrefix, at) }

// MessagesBefore is what no message stands before that is of that time or later.
func MessagesBefore(at time.Time) agent.MessageID {
	return agent.MessageID(timeBound(messagePrefix, at))
}

const auditList = "audit"

// Bounds returns the ids between which the entries of a page are: from since on and up to
// before, which is left out. The newest come first.
func (f AuditFilter) Bounds(p Page) (since, before string, err error) {
	since, before = auditPrefix, lastBound(auditPrefix)
	if !f.Since.IsZero() {
		since = timeBound(auditPrefix, f.Since)
	}
	if !f.Until.IsZero() {
		before = timeBound(auditPrefix, f.Until)
	}
	after, err := p.After(auditList, 1)
	if err == nil && after != nil {
		before = min(before, after[0])
	}
	return since, before, err
}

// AuditCursor is the cursor behind an entry.
func AuditCursor(id string) string { return Cursor(auditList, id) }

const deliveryList = "deliveries"

// DeliveriesBefore returns what the deliveries of a page stand before. The newest come
// first.
func DeliveriesBefore(p Page) (agent.MessageID, error) {
	after, err := p.After(deliveryList, 1)
	if err != nil || after == nil {
		return agent.MessageID(lastBound(messagePrefix)), err
	}
	return agent.MessageID(after[0]), nil
}

// DeliveryCursor is the cursor behind a delivery.
func DeliveryCursor(id agent.MessageID) string { return Cursor(deliveryList, string(id)) }

// EncodeDetails returns the stored form of an entry's details, nil for none.
func EncodeDetails(details map[string]string) []byte {
	if len(details) == 0 {
		return nil
	}
	b, err := json.Marshal(details)
	if err != nil { // cannot happen: strings only
		return nil
	}
	return b
}

// DecodeDetails reads it again. What cannot be read is left out.
func DecodeDetails(stored []byte) map[string]string {
	var details map[string]string
	if err := json.Unmarshal(stored, &details); err != nil {
		return nil
	}
	return details
}

// CreatedEntry is what the audit log says of a new session.
func CreatedEntry(s agent.Session, by agent.Origin) agent.AuditEntry {
	e := agent.AuditEntry{Org: s.Org, At: s.CreatedAt, Action: agent.AuditSessionCreated, Session: s.ID, By: by.Or(s.CreatedBy),
		Details: map[string]string{"mode": string(s.Mode)}}
	if s.Parent.Session != "" {
		e.Action = agent.AuditSessionBranched
		e.Details["parentSessionId"] = string(s.Parent.Session)
	}
	return e
}

// ErasedEntry is what it says of one that is erased; why is empty when somebody wanted it.
func ErasedEntry(org agent.OrgID, id agent.SessionID, by agent.Origin, why string) agent.AuditEntry {
	e := agent.AuditEntry{Org: org, Action: agent.AuditSessionErased, Session: id, By: by.Or("")}
	if why != "" {
		e.Details = map[string]string{"reason": why}
	}
	return e
}

// ErasedByRetention is the reason of an erasure that nobody asked for.
const ErasedByRetention = "retention"

// ChangedEntry is what it says of a change of the mode.
func ChangedEntry(c agent.ModeChange, by agent.Origin) agent.AuditEntry {
	e := agent.AuditEntry{Org: c.Org, At: c.At, Action: agent.AuditModeChanged, Session: c.Session, Turn: c.Turn,
		Subject: string(c.Approval), By: by.Or(c.User),
		Details: map[string]string{"previousMode": string(c.Previous), "mode": string(c.Mode), "actor": string(c.Actor)}}
	return e
}

// DecidedEntries are what it says of the decisions in a transition.
func DecidedEntries(a Append, by agent.Origin) []agent.AuditEntry {
	var entries []agent.AuditEntry
	for _, s := range a.Steps {
		d := s.Decided
		if d == nil {
			continue
		}
		e := agent.AuditEntry{Org: a.Key.Org, At: s.At, Action: agent.AuditApprovalDecided, Session: a.Key.Session, Turn: a.Key.Turn,
			Subject: string(d.ID), By: by.Or(d.User), Details: map[string]string{"decision": string(d.Decision)}}
		if d.User == "" {
			e.By = agent.Origin{}.Or("") // nobody decided in time
		}
		if d.Remember {
			e.Details["remember"] = "true"
		}
		entries = append(entries, e)
	}
	return entries
}

// KeyEntry is what the audit log says of an API key.
func KeyEntry(action agent.AuditAction, org agent.OrgID, id agent.KeyID, by agent.Origin) agent.AuditEntry {
	return agent.AuditEntry{Org: org, Action: action, Subject: string(id), By: by.Or("")}
}

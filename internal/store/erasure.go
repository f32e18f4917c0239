package store

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// Erasure is the erasing of a user, or of a whole organisation, in pieces. It is kept
// until it is done, whatever happens to the process that works on it.
type Erasure struct {
	Org agent.OrgID
	ID  string
	// User is empty when it is the organisation.
	User agent.UserID
	// After is the last session that was looked at, in the order of their ids.
	After agent.SessionID
	// Sessions is how many were erased. A crash may leave some out.
	Sessions  int64
	CreatedAt time.Time
	// FinishedAt is zero as long as there is something to do.
	FinishedAt time.Time
}

// Owned is a session and who created it.
type Owned struct {
	Session agent.SessionID
	User    agent.UserID
}

// Entry is what the audit log says of the erasure, when it is accepted or finished.
func (e Erasure) Entry(by agent.Origin) agent.AuditEntry {
	entry := agent.AuditEntry{Org: e.Org, At: e.CreatedAt, Action: agent.AuditUserErasing, Subject: string(e.User), By: by.Or(""),
		Details: map[string]string{"erasureId": e.ID}}
	finished := !e.FinishedAt.IsZero()
	switch {
	case e.User == "" && finished:
		entry.Action = agent.AuditOrganisationErased
	case e.User == "":
		entry.Action = agent.AuditOrganisationErasing
	case finished:
		entry.Action = agent.AuditUserErased
	}
	if finished {
		entry.At, entry.Details["sessions"] = e.FinishedAt, strconv.FormatInt(e.Sessions, 10)
	}
	return entry
}

// DecidedBy returns how the stored form of a decision names its user.
func DecidedBy(user agent.UserID) string {
	name, err := json.Marshal(user)
	if err != nil { // cannot happen: a string
		return ""
	}
	return `"decidedBy":` + string(name)
}

// ErasedOrgEntry is what the audit log says of an organisation that was erased at once.
func ErasedOrgEntry(org agent.OrgID, sessions int, by agent.Origin) agent.AuditEntry {
	return agent.AuditEntry{Org: org, Action: agent.AuditOrganisationErased, By: by.Or(""),
		Details: map[string]string{"sessions": strconv.Itoa(sessions)}}
}

// ErrNoErasure is the fault of an erasure that there is not.
func ErrNoErasure(id string) error {
	return agent.Errorf(agent.KindNotFound, "There is no erasure %q. Those that are finished are kept for a week.", id)
}

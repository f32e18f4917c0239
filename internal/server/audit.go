package server

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

// AuditLog is what the edge needs of the audit log.
type AuditLog interface {
	// Audit pages through an organisation's entries, newest first.
	Audit(ctx context.Context, org agent.OrgID, f store.AuditFilter, p store.Page) ([]agent.AuditEntry, string, error)
}

// AuditEntry is one line of the audit log. It has ids and never contents.
type AuditEntry struct {
	ID           string            `json:"id" doc:"Ordered by time."`
	At           time.Time         `json:"at"`
	Action       agent.AuditAction `json:"action"`
	User         agent.UserID      `json:"user,omitempty"`
	Role         agent.Role        `json:"role" doc:"The caller's, or server for what the server did by itself."`
	CredentialID string            `json:"credentialId,omitempty"`
	SessionID    agent.SessionID   `json:"sessionId,omitempty" doc:"It may have been erased since."`
	TurnID       agent.TurnID      `json:"turnId,omitempty"`
	Subject      string            `json:"subject,omitempty" doc:"The id of what else it was done to, such as an approval, a key, a webhook or a user."`
	RequestID    string            `json:"requestId,omitempty"`
	Address      string            `json:"address,omitempty" doc:"The client's."`
	Details      map[string]string `json:"details,omitempty" doc:"Names, hashes and counts."`
}

func auditView(e agent.AuditEntry) AuditEntry {
	return AuditEntry{
		ID: e.ID, At: e.At.UTC(), Action: e.Action, User: e.By.User, Role: e.By.Role, CredentialID: e.By.Credential,
		SessionID: e.Session, TurnID: e.Turn, Subject: e.Subject, RequestID: e.By.Request, Address: e.By.Address, Details: e.Details,
	}
}

func (s *Server) listAudit(w http.ResponseWriter, r *http.Request) error {
	if s.audit == nil {
		return errNoRoute()
	}
	page, err := pageOf(r)
	if err != nil {
		return err
	}
	filter, err := auditFilter(r.URL.Query())
	if err != nil {
		return err
	}
	entries, next, err := s.audit.Audit(r.Context(), callerOf(r).Org, filter, page)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, listOf(entries, next, auditView))
}

// auditFilter reads what is asked of the log. A member that there is not is refused: who
// misspells one must not take everything for what was asked.
func auditFilter(q url.Values) (store.AuditFilter, error) {
	known := []string{"session", "user", "action", "since", "until", "limit", "cursor"}
	for name := range q {
		if !slices.Contains(known, name) {
			return store.AuditFilter{}, agent.Errorf(agent.KindInvalidRequest, "%q is not a filter of the audit log; there are session, user, action, since and until.", name)
		}
	}
	f := store.AuditFilter{Session: agent.SessionID(q.Get("session")), User: agent.UserID(q.Get("user")), Action: agent.AuditAction(q.Get("action"))}
	if f.Action != "" && !slices.Contains(agent.AuditActions(), f.Action) {
		return f, agent.Errorf(agent.KindInvalidRequest, "There is no action %q in the audit log.", f.Action)
	}
	var err error
	if f.Since, err = timeOf(q, "since"); err != nil {
		return f, err
	}
	f.Until, err = timeOf(q, "until")
	return f, err
}

// timeOf reads a time of a query, zero when it has none.
func timeOf(q url.Values, name string) (time.Time, error) {
	if q.Get(name) == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, q.Get(name))
	if err != nil {
		return t, agent.Errorf(agent.KindInvalidRequest, "%s must be a time such as 2026-01-02T15:04:05Z.", name)
	}
	return t, nil
}

// originOf is on whose word a request does what it does, for the audit log.
func originOf(r *http.Request, x *exchange) agent.Origin {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr // as a proxy names it
	}
	return agent.Origin{User: x.caller.User, Role: x.caller.Role, Credential: string(x.caller.Key), Request: x.id, Address: address}
}

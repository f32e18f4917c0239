package session_test

import (
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/session"
	"github.com/aptixhq/aptix/internal/store"
)

// Where consent is required the write path itself lets no change of the model's through
// that names no approval, whatever has called it.
func TestSetSessionMode_ConsentRequired(t *testing.T) {
	caller := agent.Caller{Org: "acme", User: "ann"}
	guarded := newOffice(t, func(c *session.Config) { c.Consent = true })
	if _, err := guarded.Create(t.Context(), caller, contract.CreateSession{SessionID: "s1"}); err != nil {
		t.Fatal(err)
	}
	by := func(actor agent.Actor, to agent.ModeKey, approval agent.ApprovalID) agent.ModeChange {
		return agent.ModeChange{Org: caller.Org, Session: "s1", Mode: to, Reason: "r", User: "bob", Actor: actor, Approval: approval}
	}
	if _, err := guarded.SetSessionMode(t.Context(), by(agent.ActorModel, "ddr_authoring", "")); agent.KindOf(err) != agent.KindForbidden {
		t.Errorf("without an approval: %v", err)
	}
	if s, err := guarded.SetSessionMode(t.Context(), by(agent.ActorModel, "general", "")); err != nil || s.Version != 1 {
		t.Errorf("the mode that the session is in: version %d, %v", s.Version, err)
	}
	if s, err := guarded.SetSessionMode(t.Context(), by(agent.ActorModel, "ddr_authoring", "apr_1")); err != nil || s.Mode != "ddr_authoring" {
		t.Errorf("with an approval: %s, %v", s.Mode, err)
	}
	if s, err := guarded.SetSessionMode(t.Context(), by(agent.ActorUser, "general", "")); err != nil || s.Mode != "general" {
		t.Errorf("by the user: %s, %v", s.Mode, err)
	}
	history, _, err := guarded.ModeHistory(t.Context(), caller, "s1", store.Page{})
	if err != nil || len(history) != 2 || history[0].Approval != "apr_1" || history[0].User != "bob" || history[1].Approval != "" {
		t.Errorf("the history is %+v, %v", history, err)
	}
}

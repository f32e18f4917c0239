package server

import (
	"net/http"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
)

// Decided is an approval with its decision.
type Decided struct {
	agent.Approval
	Decision  agent.Decision `json:"decision"`
	Remember  bool           `json:"remember,omitempty" doc:"The tool is approved for the rest of the session."`
	DecidedBy agent.UserID   `json:"decidedBy"`
	DecidedAt time.Time      `json:"decidedAt"`
}

func (s *Server) listApprovals(w http.ResponseWriter, r *http.Request) error {
	key, err := turnKey(r)
	if err != nil {
		return err
	}
	pending, err := s.turns.Approvals(r.Context(), key)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, listOf(pending, "", func(a agent.Approval) agent.Approval { return a }))
}

// decide is the one place at which a call that waits for its user is decided. Whose word it
// is the credential says, nothing in the body.
func (s *Server) decide(w http.ResponseWriter, r *http.Request) error {
	key, err := turnKey(r)
	if err != nil {
		return err
	}
	body, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	verdict, err := contract.DecodeVerdict(body, s.limits)
	if err != nil {
		return err
	}
	a, err := s.turns.Decide(r.Context(), callerOf(r), key, agent.ApprovalID(r.PathValue("approvalId")), verdict)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, Decided{
		Approval: a.Approval, Decision: a.Decided.Decision, Remember: a.Decided.Remember, DecidedBy: a.Decided.User, DecidedAt: a.At.UTC(),
	})
}

package server

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/store"
)

// Sessions is what the edge needs of the session manager. A session of another
// organisation is agent.KindNotFound everywhere.
type Sessions interface {
	Create(ctx context.Context, by agent.Caller, c contract.CreateSession) (agent.Session, error)
	Get(ctx context.Context, by agent.Caller, id agent.SessionID) (agent.Session, error)
	// List pages through the sessions, newest first.
	List(ctx context.Context, by agent.Caller, p store.Page) ([]agent.Session, string, error)
	SetTools(ctx context.Context, by agent.Caller, id agent.SessionID, tools json.RawMessage) (agent.Session, error)
	// ModeHistory pages through the mode changes, newest last.
	ModeHistory(ctx context.Context, by agent.Caller, id agent.SessionID, p store.Page) ([]agent.ModeChange, string, error)
	// Branch makes a session that remembers what this one does.
	Branch(ctx context.Context, by agent.Caller, id agent.SessionID, b contract.BranchSession) (agent.Session, error)
	// SetSessionMode is the single write path of a mode (decision 11).
	SetSessionMode(ctx context.Context, c agent.ModeChange) (agent.Session, error)
}

// Session is a session as clients see it: never the provider's ids.
type Session struct {
	SessionID             agent.SessionID   `json:"sessionId"`
	Mode                  agent.ModeKey     `json:"mode"`
	ModeDisplayName       string            `json:"modeDisplayName"`
	ModeReady             bool              `json:"modeReady" doc:"Whether the mode's bootstrap tools have run; the first turn in the mode runs them, and the next one again when one failed."`
	WelcomeMessage        string            `json:"welcomeMessage,omitempty" doc:"The mode's message to the user, in the answer with which the session enters it."`
	SystemPrompt          string            `json:"systemPrompt,omitempty"`
	Tools                 json.RawMessage   `json:"tools,omitempty" doc:"The client's tools, in the Responses form."`
	AgentContextID        string            `json:"agentContextId"`
	ConversationContextID string            `json:"conversationContextId"`
	SolutionContextText   string            `json:"solutionContextText,omitempty" doc:"The last solution context that a turn brought."`
	Concurrency           agent.Concurrency `json:"concurrency"`
	Version               int64             `json:"version" doc:"Moves with every change of the mode."`
	Turns                 int64             `json:"turns" doc:"How many turns were accepted so far."`
	CreatedAt             time.Time         `json:"createdAt"`
	UpdatedAt             time.Time         `json:"updatedAt"`
	CreatedBy             agent.UserID      `json:"createdBy"`
	Parent                *Parent           `json:"parent,omitempty" doc:"Where the session was branched off; it may have been erased since."`
	ApprovedTools         []string          `json:"approvedTools,omitempty" doc:"Tools that the user approved for the rest of the session."`
}

// Parent names the session that another one was branched off.
type Parent struct {
	SessionID agent.SessionID `json:"sessionId"`
	TurnID    agent.TurnID    `json:"turnId,omitempty" doc:"The last turn that the branch remembers; absent when it remembers nothing."`
}

func (s *Server) sessionView(v agent.Session) Session {
	view := Session{
		SessionID: v.ID, Mode: v.Mode, ModeDisplayName: s.displayName(v.Mode),
		SystemPrompt: v.SystemPrompt, Tools: v.ClientTools,
		AgentContextID: v.AgentContext, ConversationContextID: v.ConversationContext,
		SolutionContextText: v.SolutionContext, Concurrency: v.Concurrency,
		Version: v.Version, Turns: v.Turns,
		CreatedAt: v.CreatedAt.UTC(), UpdatedAt: v.UpdatedAt.UTC(), CreatedBy: v.CreatedBy,
		ModeReady: s.modeReady(v), ApprovedTools: v.Approved,
	}
	if v.Parent.Session != "" {
		view.Parent = &Parent{v.Parent.Session, v.Parent.Turn}
	}
	return view
}

// enteredView is the session for the answer with which it enters its mode.
func (s *Server) enteredView(v agent.Session) Session {
	view := s.sessionView(v)
	if m, ok := s.catalog.Current().Get(v.Mode); ok {
		view.WelcomeMessage = m.WelcomeMessage
	}
	return view
}

// modeReady reports whether nothing is left to do to enter the session's mode.
func (s *Server) modeReady(v agent.Session) bool {
	m, ok := s.catalog.Current().Get(v.Mode)
	return v.Entry == agent.EntryReady || !ok || len(m.BootstrapTools) == 0
}

// displayName returns the mode's name for people, and its key when the catalogue has
// lost it (decision 12).
func (s *Server) displayName(key agent.ModeKey) string {
	if m, ok := s.catalog.Current().Get(key); ok {
		return m.DisplayName
	}
	return string(key)
}

// ModeChange is one entry of a session's ModeHistory (AGN-011 §3.2).
type ModeChange struct {
	PreviousMode agent.ModeKey `json:"previousMode"`
	Mode         agent.ModeKey `json:"mode"`
	Reason       string        `json:"reason"`
	TurnID       agent.TurnID  `json:"turnId,omitempty" doc:"The turn in which the model changed the mode."`
	At           time.Time     `json:"at"`
	Actor        agent.Actor   `json:"actor"`
	Org          agent.OrgID   `json:"org"`
	User         agent.UserID  `json:"user"`
	Branch       bool          `json:"branch" doc:"Whether new work is meant to go on in a new session."`
	// ApprovalID is the consent of User.
	ApprovalID agent.ApprovalID `json:"approvalId,omitempty" doc:"The approval in that turn by which the user agreed to the change."`
}

func modeChangeView(c agent.ModeChange) ModeChange {
	return ModeChange{
		PreviousMode: c.Previous, Mode: c.Mode, Reason: c.Reason, TurnID: c.Turn, At: c.At.UTC(),
		Actor: c.Actor, Org: c.Org, User: c.User, Branch: c.Branch, ApprovalID: c.Approval,
	}
}

// createSession is where a caller may state the initial mode (decision 4).
func (s *Server) createSession(w http.ResponseWriter, r *http.Request) error {
	body, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	c, err := contract.DecodeCreateSession(body, s.limits)
	if err != nil {
		return err
	}
	v, err := s.sessions.Create(r.Context(), callerOf(r), c)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/sessions/"+url.PathEscape(string(v.ID)))
	return writeJSON(w, http.StatusCreated, s.enteredView(v))
}

func (s *Server) listSessions(w http.ResponseWriter, r *http.Request) error {
	page, err := pageOf(r)
	if err != nil {
		return err
	}
	all, next, err := s.sessions.List(r.Context(), callerOf(r), page)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, listOf(all, next, s.sessionView))
}

func (s *Server) getSession(w http.ResponseWriter, r *http.Request) error {
	id, err := sessionID(r)
	if err != nil {
		return err
	}
	v, err := s.sessions.Get(r.Context(), callerOf(r), id)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, s.sessionView(v))
}

func (s *Server) deleteSession(w http.ResponseWriter, r *http.Request) error {
	id, err := sessionID(r)
	if err != nil {
		return err
	}
	if err := s.turns.Erase(r.Context(), callerOf(r), id); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// branchSession makes the new session that a client means which acts on branch: true
// (AGN-011 §5.6).
func (s *Server) branchSession(w http.ResponseWriter, r *http.Request) error {
	id, err := sessionID(r)
	if err != nil {
		return err
	}
	body, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	b, err := contract.DecodeBranchSession(body, s.limits)
	if err != nil {
		return err
	}
	v, err := s.sessions.Branch(r.Context(), callerOf(r), id, b)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/sessions/"+url.PathEscape(string(v.ID)))
	return writeJSON(w, http.StatusCreated, s.enteredView(v))
}

func (s *Server) modeHistory(w http.ResponseWriter, r *http.Request) error {
	id, err := sessionID(r)
	if err != nil {
		return err
	}
	page, err := pageOf(r)
	if err != nil {
		return err
	}
	changes, next, err := s.sessions.ModeHistory(r.Context(), callerOf(r), id, page)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, listOf(changes, next, modeChangeView))
}

// setMode is the user's own change of the mode. It takes the model's path, so it is
// in the history too; the tools follow with the next turn.
func (s *Server) setMode(w http.ResponseWriter, r *http.Request) error {
	id, err := sessionID(r)
	if err != nil {
		return err
	}
	body, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	set, err := contract.DecodeSetMode(body, s.limits)
	if err != nil {
		return err
	}
	by := callerOf(r)
	before, err := s.sessions.Get(r.Context(), by, id)
	if err != nil {
		return err
	}
	v, err := s.sessions.SetSessionMode(r.Context(), agent.ModeChange{
		Org: by.Org, Session: id, Mode: set.Mode, Reason: set.Reason, User: by.User, Actor: agent.ActorUser,
	})
	if err != nil {
		return err
	}
	if v.Mode != before.Mode {
		return writeJSON(w, http.StatusOK, s.enteredView(v))
	}
	return writeJSON(w, http.StatusOK, s.sessionView(v))
}

// setTools replaces the client's tools, from the next turn on (decision 5).
func (s *Server) setTools(w http.ResponseWriter, r *http.Request) error {
	id, err := sessionID(r)
	if err != nil {
		return err
	}
	body, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	set, err := contract.DecodeSetTools(body, s.limits)
	if err != nil {
		return err
	}
	v, err := s.sessions.SetTools(r.Context(), callerOf(r), id, set.Tools)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, s.sessionView(v))
}

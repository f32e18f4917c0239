package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// NewSession describes a session to be created. All members are optional.
type NewSession struct {
	SessionID string `json:"sessionId,omitempty"`
	// Mode is the initial mode, "general" when empty (AGN-011 §3.1).
	Mode         string `json:"mode,omitempty"`
	SystemPrompt string `json:"systemPrompt,omitempty"`
	// Tools are the tools that this client runs itself.
	Tools                 []Tool `json:"tools,omitempty"`
	AgentContextID        string `json:"agentContextId,omitempty"`
	ConversationContextID string `json:"conversationContextId,omitempty"`
	// Concurrency is what happens to a turn that arrives while another is active.
	Concurrency string `json:"concurrency,omitempty"`
}

// Tool is a tool that the client runs, as it is registered on a session.
type Tool struct {
	// Type is "function", also when empty.
	Type        string `json:"type,omitempty"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Parameters is the JSON Schema of the arguments.
	Parameters json.RawMessage `json:"parameters,omitempty"`
}

// Session is one conversation.
type Session struct {
	SessionID             string `json:"sessionId"`
	Mode                  string `json:"mode"`
	ModeDisplayName       string `json:"modeDisplayName,omitempty"`
	SystemPrompt          string `json:"systemPrompt,omitempty"`
	Tools                 []Tool `json:"tools,omitempty"`
	AgentContextID        string `json:"agentContextId,omitempty"`
	ConversationContextID string `json:"conversationContextId,omitempty"`
	// SolutionContextText is the last solution context that a turn brought.
	SolutionContextText string `json:"solutionContextText,omitempty"`
	Concurrency         string `json:"concurrency,omitempty"`
	// Version moves with every change of the mode.
	Version int64 `json:"version"`
	// Turns counts the turns accepted so far.
	Turns     int64     `json:"turns"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
	CreatedBy string    `json:"createdBy,omitempty"`
	// ModeReady tells that the mode's bootstrap tools have run, if it has any.
	ModeReady bool `json:"modeReady,omitempty"`
	// WelcomeMessage is the mode's, when the session enters it with this answer.
	WelcomeMessage string `json:"welcomeMessage,omitempty"`
	// Parent is where the session was branched off.
	Parent *Parent `json:"parent,omitempty"`
	// ApprovedTools are approved for the rest of the session.
	ApprovedTools []string `json:"approvedTools,omitempty"`
}

// Parent names the session that another one was branched off, and its last turn that the
// other one remembers.
type Parent struct {
	SessionID string `json:"sessionId"`
	TurnID    string `json:"turnId,omitempty"`
}

// NewBranch describes a session that remembers what another one does. All members are
// optional.
type NewBranch struct {
	// SessionID names the new session: the same request again makes no second one.
	SessionID string `json:"sessionId,omitempty"`
	// Mode is the new session's, its parent's when empty.
	Mode string `json:"mode,omitempty"`
	// AtTurnID is the last turn that it remembers, the last completed one when empty.
	AtTurnID string `json:"atTurnId,omitempty"`
}

// ModeChange is what an answer or an event says about a change of the mode.
type ModeChange struct {
	PreviousMode string `json:"previousMode"`
	Mode         string `json:"mode"`
	// Branch tells that the user wants the new work in a new session (AGN-011 §5.6).
	Branch bool   `json:"branch"`
	Reason string `json:"reason"`
	// WelcomeMessage is the new mode's message to the user.
	WelcomeMessage string `json:"welcomeMessage,omitempty"`
}

// ModeHistoryEntry is one change of a session's mode (AGN-011 §3.2).
type ModeHistoryEntry struct {
	PreviousMode string    `json:"previousMode"`
	Mode         string    `json:"mode"`
	Reason       string    `json:"reason"`
	TurnID       string    `json:"turnId,omitempty"`
	At           time.Time `json:"at"`
	// Actor is who asked for the change: "model" or "user".
	Actor  string `json:"actor"`
	Org    string `json:"org"`
	User   string `json:"user"`
	Branch bool   `json:"branch"`
	// ApprovalID is the user's consent in that turn, where it was asked for.
	ApprovalID string `json:"approvalId,omitempty"`
}

// Page asks for a part of a list. The zero value is the first part in the server's
// usual size.
type Page struct {
	Limit  int
	Cursor string
}

func (p Page) query() url.Values {
	q := url.Values{}
	if p.Limit > 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.Cursor != "" {
		q.Set("cursor", p.Cursor)
	}
	return q
}

// List is a part of a list. NextCursor asks for the part after it.
type List[T any] struct {
	Data       []T    `json:"data"`
	HasMore    bool   `json:"hasMore"`
	NextCursor string `json:"nextCursor,omitempty"`
}

// CreateSession opens a session. It is not repeated when the connection is lost: give
// it a SessionID and ask with Session whether it got through.
func (c *Client) CreateSession(ctx context.Context, s NewSession) (*Session, error) {
	s.Tools = typed(s.Tools)
	var out Session
	err := c.call(ctx, request{method: http.MethodPost, path: at("v1", "sessions"), body: s}, &out)
	return orNil(&out, err)
}

// Branch makes a session that remembers what this one does. With a SessionID it may be
// repeated.
func (c *Client) Branch(ctx context.Context, sessionID string, b NewBranch) (*Session, error) {
	var out Session
	err := c.call(ctx, request{method: http.MethodPost, path: at("v1", "sessions", sessionID, "branch"), body: b, repeat: b.SessionID != ""}, &out)
	return orNil(&out, err)
}

// Session returns a session.
func (c *Client) Session(ctx context.Context, sessionID string) (*Session, error) {
	var out Session
	err := c.call(ctx, request{method: http.MethodGet, path: at("v1", "sessions", sessionID), repeat: true}, &out)
	return orNil(&out, err)
}

// Sessions lists the sessions, newest first.
func (c *Client) Sessions(ctx context.Context, p Page) (List[Session], error) {
	var out List[Session]
	err := c.call(ctx, request{method: http.MethodGet, path: at("v1", "sessions"), query: p.query(), repeat: true}, &out)
	return out, err
}

// DeleteSession erases a session and everything under it.
func (c *Client) DeleteSession(ctx context.Context, sessionID string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: at("v1", "sessions", sessionID)}, nil)
}

// SetMode changes the mode on the user's own word. The tools of the new mode come with
// the next turn.
func (c *Client) SetMode(ctx context.Context, sessionID, mode, reason string) (*Session, error) {
	body := struct {
		Mode   string `json:"mode"`
		Reason string `json:"reason"`
	}{mode, reason}
	var out Session
	err := c.call(ctx, request{method: http.MethodPut, path: at("v1", "sessions", sessionID, "mode"), body: body, repeat: true}, &out)
	return orNil(&out, err)
}

// SetTools replaces the tools that this client runs itself.
func (c *Client) SetTools(ctx context.Context, sessionID string, tools []Tool) (*Session, error) {
	body := struct {
		Tools []Tool `json:"tools"`
	}{typed(tools)}
	var out Session
	err := c.call(ctx, request{method: http.MethodPut, path: at("v1", "sessions", sessionID, "tools"), body: body, repeat: true}, &out)
	return orNil(&out, err)
}

// ModeHistory lists the changes of a session's mode, newest last.
func (c *Client) ModeHistory(ctx context.Context, sessionID string, p Page) (List[ModeHistoryEntry], error) {
	var out List[ModeHistoryEntry]
	err := c.call(ctx, request{method: http.MethodGet, path: at("v1", "sessions", sessionID, "mode-history"), query: p.query(), repeat: true}, &out)
	return out, err
}

// typed fills in the type of the tools and makes an empty list [] instead of null.
func typed(tools []Tool) []Tool {
	out := make([]Tool, len(tools))
	for i, t := range tools {
		if t.Type == "" {
			t.Type = "function"
		}
		out[i] = t
	}
	return out
}

func orNil[T any](v *T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// UserTurn is what the user says (AGN-034 §2.1). It needs an Instruction, an artifact
// or an image.
type UserTurn struct {
	// SessionID names the session, which is created when it does not exist. A fresh
	// one is made up when it is empty.
	SessionID string `json:"sessionId"`
	// TurnID is the turn's idempotency key. A fresh one is made up when it is empty;
	// set it to be able to send the same turn again from another process.
	TurnID                string           `json:"turnId"`
	Instruction           string           `json:"instruction,omitempty"`
	InputArtifacts        []InputArtifact  `json:"inputArtifacts,omitempty"`
	ClipboardImages       []ClipboardImage `json:"clipboardImages,omitempty"`
	RAGScope              *RAGScope        `json:"ragScope,omitempty"`
	SolutionContextText   *string          `json:"solutionContextText,omitempty"`
	WorkspaceID           string           `json:"workspaceId,omitempty"`
	Repository            string           `json:"repository,omitempty"`
	Language              string           `json:"language,omitempty"`
	AgentContextID        string           `json:"agentContextId,omitempty"`
	ConversationContextID string           `json:"conversationContextId,omitempty"`
}

// InputArtifact is a file that goes with a user turn (AGN-034 §4.2).
type InputArtifact struct {
	RelativePath string `json:"relativePath"`
	FileName     string `json:"fileName"`
	Contents     string `json:"contents"`
	Origin       string `json:"origin"` // ide or user
	MimeType     string `json:"mimeType,omitempty"`
	Language     string `json:"language,omitempty"`
	Encoding     string `json:"encoding,omitempty"` // utf8 (also when empty) or base64
}

// ClipboardImage is a pasted picture (AGN-034 §4.3).
type ClipboardImage struct {
	ID         string `json:"id"`
	MimeType   string `json:"mimeType"`
	DataBase64 string `json:"dataBase64"`
}

// RAGScope narrows retrieval (AGN-034 §4.4).
type RAGScope struct {
	Conditions []RAGCondition `json:"conditions"`
}

// RAGCondition is one test; all of a scope's must hold.
type RAGCondition struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"` // == != contains does_not_contain
	Values   []string `json:"values"`
}

// ToolContinuation hands back the results of the tool calls that a turn waits for, in
// their order (AGN-034 §5).
type ToolContinuation struct {
	SessionID   string       `json:"sessionId"`
	TurnID      string       `json:"turnId"`
	ToolResults []ToolResult `json:"toolResults"`
}

// ToolResult is the outcome of one call: exactly one of ResultJSON and ErrorMessage.
type ToolResult struct {
	ToolCallID   string  `json:"toolCallId"`
	ExecutionMs  int64   `json:"executionMs"`
	ResultJSON   *string `json:"resultJson,omitempty"`
	ErrorMessage *string `json:"errorMessage,omitempty"`
}

// AnswerKind tells the two answers apart.
type AnswerKind string

// The two answers.
const (
	AnswerFinal                  AnswerKind = "final"
	AnswerClientToolContinuation AnswerKind = "client_tool_continuation"
)

// Answer is what a turn gives: a final answer with PrimaryOutputText, or ToolCalls that
// this client must run, or Approvals that its user must decide. The members of the other
// kind are empty.
type Answer struct {
	Kind      AnswerKind `json:"kind"`
	SessionID string     `json:"sessionId"`
	TurnID    string     `json:"turnId"`
	// Mode is the session's mode after this turn; it is authoritative.
	Mode              string             `json:"mode"`
	ModeDisplayName   string             `json:"modeDisplayName"`
	PrimaryOutputText string             `json:"primaryOutputText,omitempty"`
	Usage             *Usage             `json:"usage,omitempty"`
	ModeChange        *ModeChange        `json:"modeChange,omitempty"`
	Sources           []Source           `json:"sources,omitempty"`
	ToolResults       []ServerToolResult `json:"toolResults,omitempty"`
	UserWarnings      []string           `json:"userWarnings,omitempty"`
	ToolCalls         []ToolCall         `json:"toolCalls,omitempty"`
	Approvals         []Approval         `json:"approvals,omitempty"`
	// WelcomeMessage is the mode's, of a turn that began the session.
	WelcomeMessage string `json:"welcomeMessage,omitempty"`

	raw json.RawMessage
}

// UnmarshalJSON reads an answer and keeps it as it came.
func (a *Answer) UnmarshalJSON(b []byte) error {
	type plain Answer // without this method
	if err := json.Unmarshal(b, (*plain)(a)); err != nil {
		return err
	}
	a.raw = bytes.Clone(b)
	return nil
}

// JSON returns the answer as the server sent it.
func (a *Answer) JSON() json.RawMessage { return a.raw }

// Usage is what the turn cost, in tokens.
type Usage struct {
	InputTokens     int64 `json:"inputTokens"`
	OutputTokens    int64 `json:"outputTokens"`
	TotalTokens     int64 `json:"totalTokens"`
	CachedTokens    int64 `json:"cachedTokens,omitempty"`
	ReasoningTokens int64 `json:"reasoningTokens,omitempty"`
}

// Source is a passage of the indexed documents that the model was shown. The answer may
// cite it by its ID.
type Source struct {
	ID   string `json:"id"`
	Path string `json:"path"`
	// Lines are the first and the last, such as 40-85.
	Lines string `json:"lines,omitempty"`
}

// String renders the source for people: ctx_1 docs/storage.md:12-40.
func (s Source) String() string {
	if s.Lines == "" {
		return s.ID + " " + s.Path
	}
	return s.ID + " " + s.Path + ":" + s.Lines
}

// ToolCall is one call that the client must run.
type ToolCall struct {
	ToolCallID string `json:"toolCallId"`
	Name       string `json:"name"`
	// ArgumentsJSON is as the model wrote it; it may be malformed.
	ArgumentsJSON string `json:"argumentsJson"`
}

// ServerToolResult shows what a tool on the server did.
type ServerToolResult struct {
	ToolCallID   string `json:"toolCallId"`
	Name         string `json:"name"`
	ExecutionMs  int64  `json:"executionMs"`
	ResultJSON   string `json:"resultJson,omitempty"`
	ErrorMessage string `json:"errorMessage,omitempty"`
	ExecutedBy   string `json:"executedBy,omitempty"`
	Outcome      string `json:"outcome,omitempty"`
}

// TurnState is where a turn stands.
type TurnState string

// The states of a turn.
const (
	TurnAccepted  TurnState = "accepted"
	TurnRunning   TurnState = "running"
	TurnWaiting   TurnState = "waiting"
	TurnCompleted TurnState = "completed"
	TurnFailed    TurnState = "failed"
	TurnCancelled TurnState = "cancelled"
)

// Terminal reports whether a turn in this state is over.
func (s TurnState) Terminal() bool {
	return s == TurnCompleted || s == TurnFailed || s == TurnCancelled
}

// Turn is a turn's state and outcome.
type Turn struct {
	SessionID string    `json:"sessionId,omitempty"`
	TurnID    string    `json:"turnId"`
	State     TurnState `json:"state"`
	// Mode is the session's mode when the turn's tools were frozen.
	Mode string `json:"mode"`
	// Ordinal is the position in the session: 1, 2, 3 …
	Ordinal   int64     `json:"ordinal"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
	// Deadline is when the turn is given up, while it is not over.
	Deadline *time.Time `json:"deadline,omitempty"`
	// Response is the last answer, of a completed or a waiting turn.
	Response *Answer `json:"response,omitempty"`
	// Problem is why a failed turn failed.
	Problem *Problem `json:"problem,omitempty"`
}

// Preview is the request that a turn would send to the model. Canonical and Wire are
// the exact bytes whose SHA-256 stands beside them.
type Preview struct {
	Canonical       string          `json:"canonical"`
	CanonicalSHA256 string          `json:"canonicalSha256"`
	Wire            string          `json:"wire"`
	WireSHA256      string          `json:"wireSha256"`
	Mode            string          `json:"mode"`
	Tools           json.RawMessage `json:"tools,omitempty"`
}

// ModelCall is a request that a turn did send to the model.
type ModelCall struct {
	N               int       `json:"n"`
	Canonical       string    `json:"canonical"`
	CanonicalSHA256 string    `json:"canonicalSha256"`
	Wire            string    `json:"wire"`
	WireSHA256      string    `json:"wireSha256"`
	At              time.Time `json:"at"`
	Usage           *Usage    `json:"usage,omitempty"`
}

// named fills in the ids that the caller left to us.
func (u UserTurn) named() UserTurn {
	if u.SessionID == "" {
		u.SessionID = NewID()
	}
	if u.TurnID == "" {
		u.TurnID = NewID()
	}
	return u
}

// Execute runs a user turn and waits for its answer. A failed turn is a *Problem.
func (c *Client) Execute(ctx context.Context, u UserTurn) (*Answer, error) {
	return c.execute(ctx, u.named())
}

// Continue hands tool results back and waits for the answer.
func (c *Client) Continue(ctx context.Context, t ToolContinuation) (*Answer, error) {
	return c.execute(ctx, t)
}

func (c *Client) execute(ctx context.Context, body any) (*Answer, error) {
	var out Answer
	err := c.call(ctx, request{
		method: http.MethodPost, path: executePath(), body: body, repeat: true, timeout: c.cfg.TurnTimeout,
	}, &out)
	return orNil(&out, err)
}

func executePath() string { return at("v1", "agent", "execute") }

// Preview returns the request that a user turn would send. Nothing is stored and no
// model is called.
func (c *Client) Preview(ctx context.Context, u UserTurn) (*Preview, error) {
	var out Preview
	err := c.call(ctx, request{method: http.MethodPost, path: at("v1", "agent", "preview"), body: u.named(), repeat: true}, &out)
	return orNil(&out, err)
}

// Turns lists the turns of a session, newest last.
func (c *Client) Turns(ctx context.Context, sessionID string, p Page) (List[Turn], error) {
	var out List[Turn]
	err := c.call(ctx, request{method: http.MethodGet, path: at("v1", "sessions", sessionID, "turns"), query: p.query(), repeat: true}, &out)
	return out, err
}

// Turn returns one turn.
func (c *Client) Turn(ctx context.Context, sessionID, turnID string) (*Turn, error) {
	var out Turn
	err := c.call(ctx, request{method: http.MethodGet, path: at("v1", "sessions", sessionID, "turns", turnID), repeat: true}, &out)
	return orNil(&out, err)
}

// maxTurnPages bounds how many pages of turns ActiveTurn reads.
const maxTurnPages = 1000

// ActiveTurn returns the last turn of a session that is not over, nil when there is none.
func (c *Client) ActiveTurn(ctx context.Context, sessionID string) (*Turn, error) {
	page := Page{Limit: 200}
	var found *Turn
	for range maxTurnPages {
		l, err := c.Turns(ctx, sessionID, page)
		if err != nil {
			return nil, err
		}
		for _, t := range l.Data {
			if !t.State.Terminal() {
				found = &t
			}
		}
		if !l.HasMore {
			break
		}
		page.Cursor = l.NextCursor
	}
	return found, nil
}

// Requests returns every model call of a turn, in order.
func (c *Client) Requests(ctx context.Context, sessionID, turnID string) ([]ModelCall, error) {
	return all[ModelCall](ctx, c, at("v1", "sessions", sessionID, "turns", turnID, "requests"))
}

// Cancel asks the server to end a turn. The turn's stream, or Turn, tells when it has.
func (c *Client) Cancel(ctx context.Context, sessionID, turnID string) error {
	return c.call(ctx, request{method: http.MethodPost, path: at("v1", "sessions", sessionID, "turns", turnID, "cancel"), repeat: true}, nil)
}

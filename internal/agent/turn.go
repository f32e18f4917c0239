package agent

import (
	"encoding/json"
	"time"
)

// TurnState is where a turn stands:
//
//	accepted → running ⇄ waiting → completed | failed | cancelled
type TurnState string

// The states of a turn. The last three are terminal.
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

// Turn is one exchange as the journal holds it.
type Turn struct {
	Key TurnKey
	// User is who sent the turn.
	User UserID
	// Ordinal is the position in the session: 1, 2, 3 …
	Ordinal int64
	State   TurnState
	// Queued tells that an accepted turn waits for its session.
	Queued bool
	// Request is the user turn as accepted, contents of artifacts and images
	// replaced by their hashes; BodySHA256 is the hash of the whole, the key of
	// idempotency.
	Request    json.RawMessage
	BodySHA256 string
	// Mode is the tool mode: the session's mode when the turn's tools were frozen
	// (decision 13).
	Mode ModeKey
	// Tools is the frozen JSON array of the turn's tools (AGN-011 §4.4).
	Tools  json.RawMessage
	Stream *bool
	// Response is the answer exactly as it was or will be sent: of the last
	// delivery, so it is set for completed and for waiting turns.
	Response json.RawMessage
	// Fault is why a failed turn failed.
	Fault *Fault
	// Continuation is the hash of the last accepted tool results.
	ContinuationSHA256 string
	// Deadline is when a running or a waiting turn is given up.
	Deadline time.Time
	// Epoch counts the processes that have run the turn one after the other; 0 where there
	// is one process only, which needs no lease on its turns.
	Epoch     int64
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Usage is what the model calls of a turn cost, in tokens.
type Usage struct {
	InputTokens     int64 `json:"inputTokens"`
	OutputTokens    int64 `json:"outputTokens"`
	TotalTokens     int64 `json:"totalTokens"`
	CachedTokens    int64 `json:"cachedTokens,omitempty"`
	ReasoningTokens int64 `json:"reasoningTokens,omitempty"`
}

// Add returns the sum of both.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		InputTokens:     u.InputTokens + v.InputTokens,
		OutputTokens:    u.OutputTokens + v.OutputTokens,
		TotalTokens:     u.TotalTokens + v.TotalTokens,
		CachedTokens:    u.CachedTokens + v.CachedTokens,
		ReasoningTokens: u.ReasoningTokens + v.ReasoningTokens,
	}
}

// ToolCall is one call that the model asked for.
type ToolCall struct {
	ID   CallID `json:"toolCallId"`
	Name string `json:"name"`
	// Arguments is the JSON text as the model wrote it; it may be malformed.
	Arguments string `json:"argumentsJson"`
}

// ToolResult is the outcome of one call: exactly one of Result and Err is set
// unless the tool returned an empty string.
type ToolResult struct {
	CallID CallID `json:"toolCallId"`
	Name   string `json:"name"`
	Result string `json:"resultJson,omitempty"`
	Err    string `json:"errorMessage,omitempty"`
	// Images belong to Result, whose text names them.
	Images []Image     `json:"images,omitempty"`
	Ms     int64       `json:"executionMs"`
	By     Executor    `json:"executedBy,omitempty"`
	Code   ToolOutcome `json:"outcome"`
}

// Executor says which side ran a tool.
type Executor string

// The two sides.
const (
	ByServer Executor = "server"
	ByClient Executor = "client"
)

// ToolOutcome classifies a result for events, metrics and the answer.
type ToolOutcome string

// The outcomes of a tool call.
const (
	OutcomeOK        ToolOutcome = "ok"
	OutcomeError     ToolOutcome = "error"     // the tool said no, or failed
	OutcomeUnknown   ToolOutcome = "unknown"   // the process died while a tool ran that must not run twice
	OutcomeDenied    ToolOutcome = "denied"    // the user said no
	OutcomeExpired   ToolOutcome = "expired"   // nobody decided in time
	OutcomeCancelled ToolOutcome = "cancelled" // the turn ended first
)

// Artifact is a file that the client supplies with a user turn (AGN-034 §4.2).
type Artifact struct {
	RelativePath string `json:"relativePath"`
	FileName     string `json:"fileName"`
	// Contents is the text, or its base64 when Encoding says so.
	Contents string `json:"contents,omitempty"`
	Origin   string `json:"origin"` // ide or user
	MimeType string `json:"mimeType,omitempty"`
	Language string `json:"language,omitempty"`
	Encoding string `json:"encoding,omitempty"` // utf8 (also when empty) or base64
	// SHA256 stands for Contents in the stored request.
	SHA256 string `json:"sha256,omitempty"`
}

// Image is a picture pasted from the clipboard (AGN-034 §4.3).
type Image struct {
	ID         string `json:"id"`
	MimeType   string `json:"mimeType"`
	DataBase64 string `json:"dataBase64,omitempty"`
	// SHA256 stands for DataBase64 in the stored request.
	SHA256 string `json:"sha256,omitempty"`
}

// Blob is the contents of an artifact or an image, kept once per organisation under
// its hash.
type Blob struct {
	SHA256   string
	MimeType string
	Data     []byte
}

// RAGScope narrows retrieval; its conditions are ANDed (AGN-034 §4.4).
type RAGScope struct {
	Conditions []RAGCondition `json:"conditions"`
}

// RAGCondition is one test on a document's metadata.
type RAGCondition struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"` // one of the four below
	Values   []string `json:"values"`
}

// The operators of a RAGCondition, a closed set (AGN-034 §4.4).
const (
	RAGEquals         = "=="
	RAGNotEquals      = "!="
	RAGContains       = "contains"
	RAGDoesNotContain = "does_not_contain"
)

// Source is a retrieved passage that an answer may cite.
type Source struct {
	ID    string `json:"id"`
	Path  string `json:"path"`
	Lines string `json:"lines,omitempty"`
}

package client

// EventType names what happened.
type EventType string

// The events of a turn. The last four end a delivery. A newer server may send others;
// a program passes over what it does not know.
const (
	EventTurnQueued       EventType = "turn.queued"
	EventTurnStarted      EventType = "turn.started"
	EventModelRequest     EventType = "model.request"
	EventTextDelta        EventType = "text.delta"
	EventToolStarted      EventType = "tool.started"
	EventToolFinished     EventType = "tool.finished"
	EventModeChanged      EventType = "mode.changed"
	EventModeEntered      EventType = "mode.entered"
	EventApprovalRequired EventType = "approval.required"
	EventApprovalDecided  EventType = "approval.decided"
	EventTurnResumed      EventType = "turn.resumed"
	EventTurnCompleted    EventType = "turn.completed"
	EventTurnWaiting      EventType = "turn.waiting"
	EventTurnFailed       EventType = "turn.failed"
	EventTurnCancelled    EventType = "turn.cancelled"
)

// EndsTurn reports whether nothing can follow in this turn.
func (t EventType) EndsTurn() bool {
	return t == EventTurnCompleted || t == EventTurnFailed || t == EventTurnCancelled
}

// EndsDelivery reports whether this is the last event of Stream and StreamContinue.
func (t EventType) EndsDelivery() bool { return t == EventTurnWaiting || t.EndsTurn() }

// ModeEntry is how the entry into a mode ended.
type ModeEntry struct {
	Mode  string `json:"mode"`
	Ready bool   `json:"ready"`
	// Problem says which bootstrap tool failed and why.
	Problem string `json:"problem,omitempty"`
}

// Event is one message of a turn's stream. Members that do not belong to its type are
// empty.
type Event struct {
	Type EventType `json:"type"`
	// Sequence is 1, 2, 3 … without gaps within a turn.
	Sequence  int64  `json:"sequence"`
	SessionID string `json:"sessionId"`
	TurnID    string `json:"turnId"`

	// N counts the model calls of the turn (model.request).
	N               int    `json:"n,omitempty"`
	CanonicalSHA256 string `json:"canonicalSha256,omitempty"`
	WireSHA256      string `json:"wireSha256,omitempty"`
	// Text is a piece of the answer (text.delta).
	Text string `json:"text,omitempty"`
	// ToolCallID, Name, Outcome and Ms belong to tool.started and tool.finished.
	ToolCallID string `json:"toolCallId,omitempty"`
	Name       string `json:"name,omitempty"`
	Outcome    string `json:"outcome,omitempty"`
	Ms         int64  `json:"ms,omitempty"`
	// ModeChange is set for mode.changed; in JSON its members are the event's own.
	*ModeChange
	// WelcomeMessage is a mode's, of the turn.started or mode.changed that enters it.
	WelcomeMessage string `json:"welcomeMessage,omitempty"`
	// Entry is how the entry into a mode ended (mode.entered).
	Entry *ModeEntry `json:"entry,omitempty"`
	// Approval is a call that waits for the user (approval.required); of an
	// approval.decided there are ApprovalID, Decision and DecidedBy.
	Approval   *Approval `json:"approval,omitempty"`
	ApprovalID string    `json:"approvalId,omitempty"`
	Decision   Decision  `json:"decision,omitempty"`
	DecidedBy  string    `json:"decidedBy,omitempty"`
	// ReplaceFrom is the sequence from which on shown text is void (turn.resumed).
	ReplaceFrom int64 `json:"replaceFrom,omitempty"`
	// Response is the answer (turn.completed, turn.waiting).
	Response *Answer `json:"response,omitempty"`
	// Problem is why the turn failed (turn.failed).
	Problem *Problem `json:"problem,omitempty"`
}

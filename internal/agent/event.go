package agent

import "encoding/json"

// EventType names what happened.
type EventType string

// The events of a turn's stream. The last four end a delivery.
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

// EndsDelivery reports whether a reader of one delivery has seen its last event.
func (t EventType) EndsDelivery() bool {
	return t == EventTurnWaiting || t.EndsTurn()
}

// EndsTurn reports whether nothing can follow in this turn.
func (t EventType) EndsTurn() bool {
	return t == EventTurnCompleted || t == EventTurnFailed || t == EventTurnCancelled
}

// Event is one message of a turn's stream. Its JSON form is the event's data;
// members that do not belong to its type are absent.
type Event struct {
	Type EventType `json:"type"`
	// Sequence is 1, 2, 3 … without gaps within a turn.
	Sequence  int64     `json:"sequence"`
	SessionID SessionID `json:"sessionId"`
	TurnID    TurnID    `json:"turnId"`

	Call            int         `json:"n,omitempty"`
	CanonicalSHA256 string      `json:"canonicalSha256,omitempty"`
	WireSHA256      string      `json:"wireSha256,omitempty"`
	Text            string      `json:"text,omitempty"`
	ToolCallID      CallID      `json:"toolCallId,omitempty"`
	Name            string      `json:"name,omitempty"`
	Outcome         ToolOutcome `json:"outcome,omitempty"`
	Ms              *int64      `json:"ms,omitempty"`
	*ModeSwitch
	// Welcome is the message of a mode that is entered by the event.
	Welcome  string    `json:"welcomeMessage,omitempty"`
	Entry    *Entered  `json:"entry,omitempty"`
	Approval *Approval `json:"approval,omitempty"`
	*Decided
	ReplaceFrom int64           `json:"replaceFrom,omitempty"`
	Response    json.RawMessage `json:"response,omitempty"`
	// AsksUser tells that a turn.waiting waits for decisions, not for client tools.
	AsksUser bool `json:"-"`
	// Fault is turned into the problem member at the edge, where its status is known.
	Fault *Fault `json:"-"`
}

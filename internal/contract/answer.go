package contract

import "github.com/aptixhq/aptix/internal/agent"

// AnswerKind tells the two answers of a turn apart. The set is closed (decision 7).
type AnswerKind string

// The two kinds of answer.
const (
	AnswerFinal       AnswerKind = "final"
	AnswerClientTools AnswerKind = "client_tool_continuation"
)

// Final is the answer of a turn that is over. Members with nothing to say are absent,
// and no member of the other kind is ever there.
type Final struct {
	// Kind is always written as AnswerFinal.
	Kind      AnswerKind      `json:"kind"`
	SessionID agent.SessionID `json:"sessionId"`
	TurnID    agent.TurnID    `json:"turnId"`
	// Mode is the session's mode after the turn, authoritative (AGN-011 §3.4).
	Mode              agent.ModeKey `json:"mode"`
	ModeDisplayName   string        `json:"modeDisplayName"`
	PrimaryOutputText string        `json:"primaryOutputText"`
	Usage             agent.Usage   `json:"usage,omitzero"`
	// ModeChange is set when the mode changed in this turn.
	ModeChange *agent.ModeSwitch `json:"modeChange,omitempty"`
	// WelcomeMessage is the mode's, of a turn that began the session.
	WelcomeMessage string         `json:"welcomeMessage,omitempty"`
	Sources        []agent.Source `json:"sources,omitempty"`
	// ToolResults shows what the server's own tools did; see ServerToolResults.
	ToolResults  []ServerToolResult `json:"toolResults,omitempty"`
	UserWarnings []string           `json:"userWarnings,omitempty"`
}

// MarshalJSON writes the answer with its kind, which nobody else decides.
func (f Final) MarshalJSON() ([]byte, error) {
	type plain Final
	f.Kind = AnswerFinal
	return encode(plain(f))
}

// ClientToolContinuation is the answer of a turn that waits for the client to run
// tools, or for decisions of the user. It has no output text: the turn has not said
// anything yet.
type ClientToolContinuation struct {
	// Kind is always written as AnswerClientTools.
	Kind      AnswerKind      `json:"kind"`
	SessionID agent.SessionID `json:"sessionId"`
	TurnID    agent.TurnID    `json:"turnId"`
	// Mode is the session's mode by now, authoritative (AGN-011 §3.4).
	Mode            agent.ModeKey `json:"mode"`
	ModeDisplayName string        `json:"modeDisplayName"`
	// ToolCalls are in the model's order; the results must come back in it.
	ToolCalls []agent.ToolCall `json:"toolCalls"`
	// Approvals are calls of server tools that wait for the user; there are no ToolCalls
	// then.
	Approvals []agent.Approval `json:"approvals,omitempty"`
	// ModeChange is set when the mode changed in this turn.
	ModeChange *agent.ModeSwitch `json:"modeChange,omitempty"`
	// WelcomeMessage is the mode's, of a turn that began the session.
	WelcomeMessage string `json:"welcomeMessage,omitempty"`
}

// MarshalJSON writes the answer with its kind, and its calls as an array even when
// there are none.
func (c ClientToolContinuation) MarshalJSON() ([]byte, error) {
	type plain ClientToolContinuation
	c.Kind = AnswerClientTools
	if c.ToolCalls == nil {
		c.ToolCalls = []agent.ToolCall{}
	}
	return encode(plain(c))
}

// ServerToolResult shows a client what a server tool did.
type ServerToolResult struct {
	ToolCallID   agent.CallID      `json:"toolCallId"`
	Name         string            `json:"name"`
	Outcome      agent.ToolOutcome `json:"outcome"`
	ExecutionMs  int64             `json:"executionMs"`
	ResultJSON   string            `json:"resultJson,omitempty"`
	ErrorMessage string            `json:"errorMessage,omitempty"`
}

// ServerToolResults picks what the server's own tools gave out of the results of a
// turn, in their order; the client knows its own already.
func ServerToolResults(results []agent.ToolResult) []ServerToolResult {
	var out []ServerToolResult
	for _, r := range results {
		if r.By == agent.ByClient {
			continue
		}
		out = append(out, ServerToolResult{
			ToolCallID: r.CallID, Name: r.Name, Outcome: r.Code, ExecutionMs: r.Ms,
			ResultJSON: r.Result, ErrorMessage: r.Err,
		})
	}
	return out
}

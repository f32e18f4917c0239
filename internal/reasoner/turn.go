package reasoner

import (
	"context"
	"encoding/json"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/prompt"
	"github.com/aptixhq/aptix/internal/telemetry"
	"github.com/aptixhq/aptix/internal/tool"
)

// Turn is what the loop needs of a turn: the L1 request (decisions, "The frame")
// and what is fixed for the turn.
type Turn struct {
	Key    agent.TurnKey
	Caller agent.Caller
	// Epoch is that of this run, 0 where there is one process only.
	Epoch int64
	// Request is the execution request with the normalised mode and the session's
	// continuation id. Its ToolsJSON is the frozen, merged array.
	Request prompt.Request
	Context agent.ConversationContext
	// Catalog is the one that the turn began with; another that is loaded meanwhile is
	// for turns that begin later (D78).
	Catalog *mode.Catalog
	// Tools is frozen for the whole turn (AGN-011 §4.4).
	Tools tool.Set
	// Attached go with the requests when they are more than Tools, of which alone the model
	// is then allowed to call some; nil attaches Tools.
	Attached []json.RawMessage
	// Approvals say which calls wait for the user.
	Approvals       Approvals
	RAGContextBlock string
	SolutionContext string
	// Instructions are the turn's own, sent with every model call; empty when the
	// system message has them, or nobody gave any.
	Instructions string
	Stream       *bool
	// Queues tells that other turns may wait for this one to end.
	Queues bool
	// Chain continues from the provider's memory; otherwise Transcript is sent again
	// with every call (decision 29).
	Chain bool
	// Transcript is that of the session's earlier turns; unused when Chain.
	Transcript Transcript
	// Recall reads it when Chain and the provider has forgotten it after all.
	Recall func(context.Context) (Transcript, error)
	// Run is told what the turn does; the zero one notes nothing.
	Run telemetry.Run
	// made is the request that was built last, until it is sent.
	made made
}

// Transcript is what turns that are over have said.
type Transcript struct {
	Items []json.RawMessage
	// Whole is how many of the first Items are known to be whole; see llm.Whole.
	Whole int
}

// made is a request with the hash of its body.
type made struct {
	sha256 string
	wire   llm.Wire
}

// Outcome is where the loop stopped: with an answer, with client tool calls, or with
// questions to the user.
type Outcome struct {
	// Asked are the calls that wait for the user, in the model's order, without deadlines.
	Asked []agent.Approval
	// Waiting are the calls that the client must run. When there are none, and nothing is
	// asked, Text is the final answer.
	Waiting []agent.ToolCall
	Text    string
	// Mode is request.Mode after the last call (AGN-011 §5.4).
	Mode agent.ModeKey
	// ModeSwitch is the last successful mode change of the turn, nil without one.
	ModeSwitch *agent.ModeSwitch
	// ServerResults are the results of tools that ran here, in call order.
	ServerResults []agent.ToolResult
	Usage         agent.Usage
	// Items are what the turn adds to the session's transcript, when it completes.
	Items []json.RawMessage
	// ResponseID is the provider's id of the last response.
	ResponseID string
}

// Limits bound a turn. Zero fields mean the default.
type Limits struct {
	// ModelCalls is the step budget of a turn; default 32.
	ModelCalls int
	// ToolTime bounds one server tool call; default 60 s.
	ToolTime time.Duration
	// ToolGrace is how long a tool may go on when its time is up or its turn was broken
	// off; then it is left behind. Default 2 s.
	ToolGrace time.Duration
	// ToolResultBytes bounds one result as the model sees it; default 1 MiB.
	ToolResultBytes int
	// ToolCalls bounds what one response may call; default 128.
	ToolCalls int
	// OutputBytes bounds what the model may produce in a turn; default 32 MiB.
	OutputBytes int
}

func (l Limits) withDefaults() Limits {
	if l.ModelCalls <= 0 {
		l.ModelCalls = 32
	}
	if l.ToolTime <= 0 {
		l.ToolTime = time.Minute
	}
	if l.ToolGrace <= 0 {
		l.ToolGrace = 2 * time.Second
	}
	if l.ToolResultBytes <= 0 {
		l.ToolResultBytes = 1 << 20
	}
	if l.ToolCalls <= 0 {
		l.ToolCalls = 128
	}
	if l.OutputBytes <= 0 {
		l.OutputBytes = 32 << 20
	}
	return l
}

// Request is one model request in both forms, with the hashes that are stored.
type Request struct {
	Canonical       string
	CanonicalSHA256 string
	Wire            llm.Wire
	WireSHA256      string
	// Room is what bounds the replayed items, in bytes; 0 is no bound.
	Room int
}

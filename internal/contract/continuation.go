package contract

import (
	"encoding/json"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
)

// ToolContinuation brings the results of the client tools that a waiting turn asked
// for (AGN-034 §2.2). It is mechanical: there is no room in it for new intent.
type ToolContinuation struct {
	SessionID agent.SessionID `json:"sessionId"`
	// TurnID is the waiting turn.
	TurnID      agent.TurnID `json:"turnId"`
	ToolResults []ToolResult `json:"toolResults"`
}

// ToolResult is what one client tool gave: exactly one of ResultJSON and ErrorMessage
// is set (AGN-034 §5).
type ToolResult struct {
	ToolCallID agent.CallID `json:"toolCallId"`
	// ExecutionMs is how long the tool ran, in milliseconds.
	ExecutionMs int64 `json:"executionMs"`
	// ResultJSON is a JSON text, as the tool wrote it.
	ResultJSON   *string `json:"resultJson,omitempty"`
	ErrorMessage *string `json:"errorMessage,omitempty"`
}

func readContinuation(o *object) *ToolContinuation {
	c := &ToolContinuation{
		SessionID: agent.SessionID(o.need("sessionId", "AGN034-2.2-a").id("AGN034-2.2-a")),
		TurnID:    agent.TurnID(o.need("turnId", "AGN034-2.2-b").id("AGN034-2.2-b")),
	}
	for _, item := range o.need("toolResults", "AGN034-2.2-c").list("AGN034-2.2-c") {
		if r, ok := item.object("AGN034-2.2-c"); ok {
			c.ToolResults = append(c.ToolResults, readToolResult(r))
		}
	}
	const mechanical = "a tool continuation carries results only. Say it in a user turn."
	o.forbid("instruction", "AGN034-2.2-d", mechanical)
	for _, name := range []string{"inputArtifacts", "clipboardImages"} {
		o.forbidList(name, "AGN034-2.2-e", mechanical)
	}
	for _, name := range []string{"ragScope", "solutionContextText", "workspaceId", "repository", "language", "agentContextId", "conversationContextId"} {
		o.forbid(name, "AGN034-2.2-f", mechanical)
	}
	o.forbid("stream", "AGN034-2.2-g", "a continuation is delivered as its turn was asked for. Leave it out, also when it is false.")
	for _, f := range serverOwned {
		o.forbid(f.member, f.continuation, f.belongs)
	}
	o.done("a tool continuation")
	return c
}

func readToolResult(o *object) ToolResult {
	const oneOutcome = "AGN034-5-d"
	result, failure := o.get("resultJson"), o.get("errorMessage")
	r := ToolResult{
		ToolCallID:   agent.CallID(o.need("toolCallId", "AGN034-5-b").name("AGN034-5-b")),
		ExecutionMs:  o.need("executionMs", "AGN034-5-c").count("AGN034-5-c"),
		ResultJSON:   result.strPointer(oneOutcome),
		ErrorMessage: failure.strPointer(oneOutcome),
	}
	switch {
	case result.present && failure.present:
		o.faults.add(o.at, oneOutcome, "The result has both resultJson and errorMessage; send the one that the tool gave.")
	case !result.present && !failure.present:
		o.faults.add(o.at, oneOutcome, "The result has neither resultJson nor errorMessage; send the one that the tool gave.")
	}
	if r.ResultJSON != nil && !json.Valid([]byte(*r.ResultJSON)) {
		result.fault(oneOutcome, "does not hold JSON; write plain text as a JSON string: %s.", quote(`"text"`))
	}
	if r.ErrorMessage != nil && strings.TrimSpace(*r.ErrorMessage) == "" {
		failure.fault(oneOutcome, "is blank; say what went wrong, the model reads it.")
	}
	o.done("a tool result")
	return r
}

// Package prompt is the canonical request builder of AGN-003. For every model call
// the reasoner gives it the turn as it stands and gets back the canonical request,
// which is stored, hashed and shown; internal/llm then says the same thing in the
// words that the Responses API takes.
//
// Everything here is a pure function: the same inputs give the same bytes, on any
// machine, at any time. So nothing that differs between two runs of the same turn,
// such as a clock or a duration, may enter a text.
package prompt

import (
	"encoding/json"
	"strings"
)

// Canonical is the canonical model request (AGN-003 §3). The order of its members
// is the order of its bytes.
type Canonical struct {
	Model       string   `json:"model"`
	Temperature *float64 `json:"temperature,omitempty"`
	// Stream is absent when the caller left the choice to the client (AGN-003 §7).
	Stream *bool `json:"stream,omitempty"`
	// PreviousResponseID is set on continuations only (AGN-003 §4.4).
	PreviousResponseID string    `json:"previous_response_id,omitempty"`
	Input              []Message `json:"input"`
	// Tools are set on initial requests only (AGN-003 §6.1).
	Tools      []json.RawMessage `json:"tools,omitempty"`
	ToolChoice *ToolChoice       `json:"tool_choice,omitempty"`
}

// Message is one entry of the input (AGN-003 §4, §5).
type Message struct {
	Role    string    `json:"role"`
	Content []Content `json:"content"`
}

// Content is one item of a message; its Type is always text (AGN-003 §5).
type Content struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// ToolChoice forces a call of one tool (AGN-003 §6.2).
type ToolChoice struct {
	Type string `json:"type"`
	Name string `json:"name"`
}

// The roles of a message and the type of its content (AGN-003 §4, §5).
const (
	RoleSystem = "system"
	RoleUser   = "user"
	typeText   = "text"
	typeTool   = "tool"
)

// JSON returns the text of the request: one line, members in fixed order, text
// without HTML escapes. It returns "" for a request that Build cannot have made,
// with a tool that is no JSON or a temperature that is no number.
func (c Canonical) JSON() string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(c); err != nil {
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// HeaderOnly reports whether a user message says nothing beyond its mode: its
// instruction is empty and no block follows (decision 25).
func (m Message) HeaderOnly() bool {
	if m.Role != RoleUser || len(m.Content) != 1 {
		return false
	}
	_, instruction, ok := strings.Cut(m.Content[0].Text, instructionHeader)
	return ok && instruction == ""
}

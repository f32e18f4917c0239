package mode

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/aptixhq/aptix/internal/agent"
)

// Mode is one entry of the catalogue (decision 31). The jsonschema tags are what editors
// show to whoever writes a mode file.
type Mode struct {
	// ID is 32 hexadecimal characters: a GUID without hyphens (TUL-010 §2).
	ID string `json:"id" jsonschema:"Unique identifier: 32 hexadecimal characters, a GUID without hyphens."`
	// Key is the stable name that sessions and tools use, [a-z0-9_]+.
	Key agent.ModeKey `json:"key" jsonschema:"Stable name that sessions and tools use, such as code_review. Unique in the folder."`
	// DisplayName is for people.
	DisplayName string `json:"displayName" jsonschema:"Name for people, one line."`
	Description string `json:"description" jsonschema:"What the mode is, in a sentence or two. The model reads it while a session is in the mode."`
	// WhenToUse is the one line from which the model tells the modes apart.
	WhenToUse string `json:"whenToUse" jsonschema:"The one line from which the model tells the modes apart. It is part of every request, whatever the mode."`
	// SystemPromptSummary is one paragraph, may be empty (TUL-010 §2).
	SystemPromptSummary string `json:"systemPromptSummary" jsonschema:"One paragraph on how the model should work in this mode."`
	// IsDefault is true for exactly one mode of a catalogue.
	IsDefault bool   `json:"isDefault" jsonschema:"True in exactly one file. The default mode stands in for a session's mode that has left the folder."`
	Status    Status `json:"status" jsonschema:"How far the mode can be relied on. A deprecated mode still works, but the model is told not to propose it. Active when left out."`
	Version   string `json:"version" jsonschema:"Version of this file, for people. v1 when left out."`
	// Instructions are what the mode tells the model while a session is in it.
	Instructions []string `json:"instructions" jsonschema:"What the mode tells the model, point by point, on every model call."`
	// Tools are the names of the server tools that the mode brings, in the order
	// in which the model sees them. agent_change_mode need not be among them: it is
	// in every mode (decision 32).
	// An entry may be a pattern, such as github__*, or a group, such as group:reading.
	Tools []string `json:"tools" jsonschema:"Server tools that the mode brings, in the order in which the model sees them: names, patterns such as github__*, and groups of the configuration such as group:reading. agent_change_mode is in every mode and need not be listed."`
	// ToolChoice is empty or AllowedTools.
	ToolChoice string `json:"toolChoice,omitempty" jsonschema:"allowed_tools: the mode shares one list of attached tools with all modes that say so, and the model is allowed its own. For providers that cache requests."`
	// ClientTools narrows the client's own tools; nil leaves them as they are.
	ClientTools       *ClientTools `json:"clientTools,omitempty" jsonschema:"Narrows the tools that the client brings while a session is in the mode. Without it the model is offered all of them."`
	HumanRoleHints    []string     `json:"humanRoleHints" jsonschema:"Which people the mode is for."`
	ExampleUtterances []string     `json:"exampleUtterances" jsonschema:"What a user would say whose request belongs to this mode."`
	RAG               Hints        `json:"rag" jsonschema:"Hints for retrieval while a session is in the mode."`
	// WelcomeMessage is told to the user when a session enters the mode; may be empty.
	WelcomeMessage string `json:"welcomeMessage,omitempty" jsonschema:"Message to the user when a session enters the mode."`
	// BootstrapTools run in this order when a session's first turn in the mode begins.
	BootstrapTools []BootstrapTool `json:"bootstrapTools,omitempty" jsonschema:"Server tools of the mode that run, in this order, when a session's first turn in the mode begins. The model is told what they gave."`
	// Approvals say which calls wait for the user while a session is in the mode; nil says
	// nothing.
	Approvals agent.ApprovalRules `json:"approvals,omitempty" jsonschema:"Which calls of server tools wait for the user: the name of a tool, or a pattern, and never, ask or always-ask. It goes over what the configuration says."`
}

// BootstrapTool is a call of a server tool of the mode that nobody asks the model for. It
// is the operator's own, so it waits for no approval.
type BootstrapTool struct {
	Name string `json:"name" jsonschema:"Name of the tool, one of the mode's."`
	// Arguments is a JSON object.
	Arguments json.RawMessage `json:"arguments" jsonschema:"Its arguments, none when left out."`
}

// AllowedTools is the tool choice of modes that share one list of attached tools, of which
// each allows its own: the list, and what the provider remembers of it, stays the same
// when the mode changes. It has an effect only where the provider keeps the model to it.
const AllowedTools = "allowed_tools"

// Hints steer retrieval while a session is in a mode.
type Hints struct {
	// Prefer names what should be ranked first.
	Prefer []string `json:"prefer" jsonschema:"What should be ranked first."`
	// Exclude names what must not be retrieved.
	Exclude []string `json:"exclude" jsonschema:"What must not be retrieved."`
}

// Status says how far a mode can be relied on.
type Status string

// The statuses of a mode. A file that names none is active.
const (
	StatusActive       Status = "active"
	StatusExperimental Status = "experimental"
	StatusDeprecated   Status = "deprecated"
)

func (s Status) known() bool {
	return s == StatusActive || s == StatusExperimental || s == StatusDeprecated
}

// Summary is what the model and other readers are told of a mode: the
// AgentModeSummary of TUL-010 §2. Its JSON names are published and stay as they are
// (TUL-010 §3.3).
type Summary struct {
	ID                  string        `json:"id"`
	Key                 agent.ModeKey `json:"key"`
	DisplayName         string        `json:"displayName"`
	Description         string        `json:"description"`
	SystemPromptSummary string        `json:"systemPromptSummary"`
	IsDefault           bool          `json:"isDefault"`
	HumanRoleHints      []string      `json:"humanRoleHints"`
	ExampleUtterances   []string      `json:"exampleUtterances"`
}

// Summary returns the mode's summary.
func (m Mode) Summary() Summary {
	return Summary{
		ID:                  m.ID,
		Key:                 m.Key,
		DisplayName:         m.DisplayName,
		Description:         m.Description,
		SystemPromptSummary: m.SystemPromptSummary,
		IsDefault:           m.IsDefault,
		HumanRoleHints:      list(m.HumanRoleHints),
		ExampleUtterances:   list(m.ExampleUtterances),
	}
}

// clone lets a caller do what it likes with what the catalogue handed out.
func (m Mode) clone() Mode {
	m.Instructions = list(m.Instructions)
	m.Tools = list(m.Tools)
	m.ClientTools = m.ClientTools.clone()
	m.HumanRoleHints = list(m.HumanRoleHints)
	m.ExampleUtterances = list(m.ExampleUtterances)
	m.BootstrapTools = slices.Clone(m.BootstrapTools)
	m.Approvals = maps.Clone(m.Approvals)
	m.RAG = Hints{Prefer: list(m.RAG.Prefer), Exclude: list(m.RAG.Exclude)}
	return m
}

// list returns a copy that is never nil, so that its JSON is never null.
func list(s []string) []string {
	return append(make([]string, 0, len(s)), s...)
}

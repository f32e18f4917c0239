package mode

import (
	"github.com/aptixhq/aptix/internal/agent"
)

// Mode is one entry of the catalogue (decision 31).
type Mode struct {
	// ID is 32 hexadecimal characters: a GUID without hyphens (TUL-010 §2).
	ID string `json:"id"`
	// Key is the stable name that sessions and tools use, [a-z0-9_]+.
	Key agent.ModeKey `json:"key"`
	// DisplayName is for people.
	DisplayName string `json:"displayName"`
	Description string `json:"description"`
	// WhenToUse is the one line from which the model tells the modes apart.
	WhenToUse string `json:"whenToUse"`
	// SystemPromptSummary is one paragraph, may be empty (TUL-010 §2).
	SystemPromptSummary string `json:"systemPromptSummary"`
	// IsDefault is true for exactly one mode of a catalogue.
	IsDefault bool   `json:"isDefault"`
	Status    Status `json:"status"`
	Version   string `json:"version"`
	// Instructions are what the mode tells the model while a session is in it.
	Instructions []string `json:"instructions"`
	// Tools are the names of the server tools that the mode brings, in the order
	// in which the model sees them. agent_change_mode need not be among them: it is
	// in every mode (decision 32).
	Tools             []string `json:"tools"`
	HumanRoleHints    []string `json:"humanRoleHints"`
	ExampleUtterances []string `json:"exampleUtterances"`
	RAG               Hints    `json:"rag"`
}

// Hints steer retrieval while a session is in a mode.
type Hints struct {
	// Prefer names what should be ranked first.
	Prefer []string `json:"prefer"`
	// Exclude names what must not be retrieved.
	Exclude []string `json:"exclude"`
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
	m.HumanRoleHints = list(m.HumanRoleHints)
	m.ExampleUtterances = list(m.ExampleUtterances)
	m.RAG = Hints{Prefer: list(m.RAG.Prefer), Exclude: list(m.RAG.Exclude)}
	return m
}

// list returns a copy that is never nil, so that its JSON is never null.
func list(s []string) []string {
	return append(make([]string, 0, len(s)), s...)
}

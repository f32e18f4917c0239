package tool

import (
	"context"
	"encoding/json"
	"log/slog"
	"regexp"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/aptixhq/aptix/internal/agent"
)

// The names of the tools that the documents define.
const (
	// ChangeMode is in the tools of every turn, whatever its mode (TUL-007 §3.1).
	ChangeMode = "agent_change_mode"
	// ListModes shows the catalogue of modes (TUL-010 §3.1).
	ListModes = "agent_list_modes"
)

// nameForm is what the Responses API takes for the name of a function (TUL-010 §3.1).
const nameForm = `^[a-zA-Z0-9_-]{1,64}$`

// maxName is the length in it. It is checked apart: a pattern that counts is a large
// program.
const maxName = 64

var nameCharacters = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// validName reports whether a function may have this name.
func validName(s string) bool { return len(s) <= maxName && nameCharacters.MatchString(s) }

// Tool is a function that the model can call and that runs here, never at the
// client: the IAgentTool of TUL-007 §3.1 whose execution is fully on the server.
type Tool interface {
	// Definition is what the model reads. It never changes.
	Definition() Definition
	// Execute runs one call. The arguments are as the model wrote them and may be
	// anything; ec may be nil. The text of an error goes to the model word for word,
	// so it says what to do next and nothing of what lies behind, which is logged.
	Execute(ctx context.Context, ec *ExecutionContext, argumentsJSON string) (string, error)
}

// Content is what a call gave when it is more than text.
type Content struct {
	// Text stands for the whole; where images cannot be shown it is all that is.
	Text   string
	Images []agent.Image
}

// ContentTool is a Tool whose results may hold more than text.
type ContentTool interface {
	Tool
	// ExecuteContent is Execute with all that the call gave.
	ExecuteContent(ctx context.Context, ec *ExecutionContext, argumentsJSON string) (Content, error)
}

// UnknownOutcome is the error of a call that may have had its effect though no result of
// it came: whoever it was sent to died, or did not answer in time. Text goes to the model.
type UnknownOutcome struct{ Text string }

// Error returns the text for the model.
func (e *UnknownOutcome) Error() string { return e.Text }

// Definition is a server tool as the model reads it.
type Definition struct {
	Name string
	// Description is part of the tool's schema.
	Description string
	// Usage is the tool's ToolUsageMetadata: when and how to use it (AGN-003 §4.3).
	Usage string
	// Parameters is the JSON Schema of the arguments; its type is object.
	Parameters json.RawMessage
	// Strict asks the provider to hold the model to the schema. The schema must
	// allow it: every member required, no others permitted.
	Strict bool
	// Approval says whether a call waits for a decision of the user, unless the mode or
	// the configuration says otherwise. Empty is never, which is right for tools that are
	// part of the server; a source of foreign tools sets ApprovalAsk.
	Approval agent.ApprovalPolicy
	// Idempotent says that a call may run again after a crash left its outcome
	// unknown.
	Idempotent bool
}

// ExecutionContext says for whom and in which call a tool runs. It comes from the
// server, never from the arguments (TUL-007 §3.3).
type ExecutionContext struct {
	Caller  agent.Caller
	Session agent.SessionID
	Turn    agent.TurnID
	// Epoch is that of the turn's run (agent.Turn.Epoch): who writes for the turn names it.
	Epoch int64
	// Call is unique within the turn, the key that makes a repeated run harmless.
	Call agent.CallID
	// Consent is the decision of the user that lets the call run; nil when none was asked
	// for.
	Consent *agent.Decided
}

// LogValue shows the call in a log.
func (ec *ExecutionContext) LogValue() slog.Value {
	if ec == nil {
		return slog.GroupValue()
	}
	return slog.GroupValue(
		slog.String("org", string(ec.Caller.Org)),
		slog.String("user", string(ec.Caller.User)),
		slog.String("session", string(ec.Session)),
		slog.String("turn", string(ec.Turn)),
		slog.String("id", string(ec.Call)),
	)
}

// function is a tool in the flat form of the Responses API. The order of its members
// is the order in which they are written.
type function struct {
	Type        string         `json:"type"`
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters"`
	Strict      bool           `json:"strict"`
}

func (f function) json() (json.RawMessage, error) {
	f.Type = "function"
	b, err := jsonv2.Marshal(f)
	return b, err
}

// Schema returns the tool as the Responses API takes it (TUL-010 §3.1), byte-stable.
// The definition must be one that a Registry accepts; of any other it is nil.
func Schema(d Definition) json.RawMessage {
	f := function{Name: d.Name, Description: d.Description, Parameters: jsontext.Value(d.Parameters), Strict: d.Strict}
	b, err := f.json()
	if err != nil {
		return nil
	}
	return b
}

// normal writes a JSON value the one way in which this package does: no white space,
// members in their order, strings in their shortest form.
func normal(raw json.RawMessage) (json.RawMessage, error) {
	return jsonv2.Marshal(jsontext.Value(raw))
}

// fold maps the spellings of a name that a reader takes for the same to one.
func fold(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "-", "_")
}

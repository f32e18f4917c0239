package builtin

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/tool"
)

// SessionManager persists the mode of a session (TUL-007 §3.2).
type SessionManager interface {
	// SetSessionMode changes the mode of ch.Session and returns the session as it is
	// then. The same session, turn and call again change nothing more (decision 11).
	SetSessionMode(ctx context.Context, ch agent.ModeChange) (agent.Session, error)
}

//go:embed change_mode.md
var changeModeUsage string

// The failures of TUL-007 §3.4 and §3.6, word for word.
const (
	failNoArguments failure = "ModeChangeTool requires a non-empty arguments object."
	failNoContext   failure = "ModeChangeTool requires a valid execution context."
	failNoSession   failure = "ModeChangeTool cannot change mode because the session id is missing."
	failNoMode      failure = "ModeChangeTool requires a non-empty 'mode' string."
	failNoBranch    failure = "ModeChangeTool requires a 'branch' boolean flag."
	failNoReason    failure = "ModeChangeTool requires a non-empty 'reason' string explaining why the mode change is needed."
	failNotChanged  failure = "ModeChangeTool failed to change the session mode."
)

// Failures about which TUL-007 is silent.
const (
	failUnreadable failure = "ModeChangeTool requires its arguments to be one JSON object with exactly the members 'mode', 'branch' and 'reason', each of them once."
	failTooLong    failure = "ModeChangeTool does not take arguments of this length; give a shorter reason."
)

// The tags under which operators find what went wrong (TUL-007 §3.4, §3.6).
const (
	tagChangeModeNoSession = "[ModeChangeTool_Execute__MissingSession]"
	tagChangeModeFailed    = "[ModeChangeTool_Execute__Exception]"
)

// maxModeArguments bounds what is kept of a call: the reason goes into the history
// for good.
const maxModeArguments = 16 << 10

type changeMode struct {
	definition tool.Definition
	sessions   SessionManager
	log        *slog.Logger
}

// modeChangeArgs gives the tool its schema (TUL-007 §3.3).
type modeChangeArgs struct {
	Mode   string `json:"mode" jsonschema:"The key of the mode to change to."`
	Branch bool   `json:"branch" jsonschema:"false: change the mode and keep working in this session. true: change the mode, and the user wants the new work to start as a new session."`
	Reason string `json:"reason" jsonschema:"A short explanation of why this mode fits the current request."`
}

// modeChangeResult is what the model and the reasoner read (TUL-007 §3.6).
type modeChangeResult struct {
	Success bool          `json:"success"`
	Mode    agent.ModeKey `json:"mode"`
	Branch  bool          `json:"branch"`
	Reason  string        `json:"reason"`
}

// NewChangeMode returns agent_change_mode (TUL-007), the only way in which the model
// can change the mode of its session. Both dependencies are required (TUL-007 §3.2).
func NewChangeMode(m SessionManager, log *slog.Logger) (tool.Tool, error) {
	if m == nil || log == nil {
		return nil, errors.New("agent_change_mode needs a session manager and a logger")
	}
	args, err := tool.ArgumentsOf[modeChangeArgs]()
	if err != nil {
		return nil, fmt.Errorf("agent_change_mode: %w", err)
	}
	return &changeMode{
		definition: tool.Definition{
			Name: tool.ChangeMode,
			Description: "Changes the mode for the current agent session to the specified mode string. " +
				"Call only after the user confirms a mode change, and provide a short 'reason' describing why this mode fits the current request. " +
				"Set branch=true when the user wants the new work to start as a separate session.",
			Usage:      changeModeUsage,
			Parameters: args.Parameters,
			// The session manager knows a call that it has already carried out.
			Idempotent: true,
		},
		sessions: m,
		log:      log,
	}, nil
}

func (t *changeMode) Definition() tool.Definition { return t.definition }

// Execute validates in the order of TUL-007 §3.4 and then changes the mode with one
// call of the session manager. Whether the mode exists is for the manager to say
// (TUL-007 §3.3).
func (t *changeMode) Execute(ctx context.Context, ec *tool.ExecutionContext, argumentsJSON string) (string, error) {
	if strings.TrimSpace(argumentsJSON) == "" {
		return "", failNoArguments
	}
	if ec == nil {
		return "", failNoContext
	}
	if strings.TrimSpace(string(ec.Session)) == "" {
		t.log.ErrorContext(ctx, "agent_change_mode was called without a session id",
			slog.String("tag", tagChangeModeNoSession), slog.Any("call", ec))
		return "", failNoSession
	}
	args, err := parseModeChange(argumentsJSON)
	if err != nil {
		return "", err
	}
	change := agent.ModeChange{
		Org:     ec.Caller.Org,
		Session: ec.Session,
		Mode:    agent.ModeKey(args.Mode),
		Reason:  args.Reason,
		User:    ec.Caller.User,
		Actor:   agent.ActorModel,
		Turn:    ec.Turn,
		Call:    ec.Call,
		Epoch:   ec.Epoch,
		Branch:  args.Branch,
	}
	if c := ec.Consent; c != nil {
		change.User, change.Approval = c.User, c.ID
	}
	session, err := t.set(ctx, change)
	if err != nil {
		t.log.ErrorContext(ctx, "agent_change_mode could not change the mode",
			slog.String("tag", tagChangeModeFailed), slog.Any("call", ec), slog.String("mode", args.Mode), slog.Any("error", err))
		return "", failNotChanged
	}
	result, err := json.Marshal(modeChangeResult{Success: true, Mode: session.Mode, Branch: args.Branch, Reason: args.Reason})
	if err != nil {
		return "", fmt.Errorf("write the result of agent_change_mode: %w", err)
	}
	return string(result), nil
}

// set calls the session manager. Whatever goes wrong in there ends as an error.
func (t *changeMode) set(ctx context.Context, ch agent.ModeChange) (session agent.Session, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	session, err = t.sessions.SetSessionMode(ctx, ch)
	if err == nil && session.Mode == "" {
		err = errors.New("the session manager did not say which mode it wrote")
	}
	return session, err
}

// parseModeChange reads the arguments by hand: a decoder would not tell a missing
// branch from a false one, and would take session ids in silence (TUL-007 §3.3).
func parseModeChange(argumentsJSON string) (modeChangeArgs, error) {
	var args modeChangeArgs
	if len(argumentsJSON) > maxModeArguments {
		return args, failTooLong
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal([]byte(argumentsJSON), &members); err != nil || members == nil {
		return args, failUnreadable
	}
	if json.Unmarshal(members["mode"], &args.Mode) != nil || strings.TrimSpace(args.Mode) == "" {
		return args, failNoMode
	}
	if branch := members["branch"]; branch.Kind() == 'n' || json.Unmarshal(branch, &args.Branch) != nil {
		return args, failNoBranch
	}
	if json.Unmarshal(members["reason"], &args.Reason) != nil || strings.TrimSpace(args.Reason) == "" {
		return args, failNoReason
	}
	return args, refuseOthers(members)
}

// refuseOthers lets no member pass that the tool does not know, least of all one that
// names a session, an organisation or a user (TUL-007 §3.3).
func refuseOthers(members map[string]jsontext.Value) error {
	var others []string
	for name := range members {
		if name != "mode" && name != "branch" && name != "reason" {
			others = append(others, fmt.Sprintf("%.60q", name))
		}
	}
	if len(others) == 0 {
		return nil
	}
	slices.Sort(others)
	return failure(fmt.Sprintf("ModeChangeTool does not accept %s. Send only 'mode', 'branch' and 'reason'; session, organisation and user are taken from the execution context.",
		strings.Join(others[:min(len(others), 5)], ", ")))
}

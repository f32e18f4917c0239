package aptix

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/node"
	"github.com/aptixhq/aptix/internal/tool"
)

// ToolInfo is what the model reads of a tool, and how the server treats it.
type ToolInfo struct {
	// Name is what the model calls: letters, digits, _ and -, at most 64.
	Name string
	// Description says what the tool does.
	Description string
	// Usage says when and how to use it; Description when empty.
	Usage string
	// Modes are the keys of modes that have the tool beside those whose files list it. A mode
	// that has it in neither way cannot reach it.
	Modes []string
	// Idempotent says that a call may run again when the program ended before its result was
	// stored. The model is else told that the outcome is unknown.
	Idempotent bool
	// Ask has each call wait for the decision of the user, unless a mode or the configuration
	// says otherwise (docs/approvals.md).
	Ask bool
}

// Call says for whom and in which call a tool runs. It comes from the server, never from
// the model.
type Call struct {
	Org, User, Session, Turn string
	// ID is unique within the turn. A call that runs again has the same.
	ID string
}

// Tool is a function that models can call. Make it with NewTool.
type Tool struct {
	info  ToolInfo
	inner tool.Tool
	err   error
}

// NewTool makes a tool of a function. The JSON schema of its arguments is that of In, a
// struct: json tags name its members, those without omitempty are required, and jsonschema
// tags describe them. The function is called only with arguments that fit. What it returns
// goes to the model, and so does the text of an error, word for word: say in it what to do
// next.
//
// The context ends when the turn is cancelled and after limits.tool, 60 seconds by default.
// Calls of several turns run at the same time.
//
// What is wrong with the tool, New says.
func NewTool[In any](info ToolInfo, run func(ctx context.Context, call Call, in In) (string, error)) Tool {
	if run == nil {
		return Tool{info: info, err: errors.New("it has no function")}
	}
	d := tool.Definition{
		Name: info.Name, Description: info.Description, Usage: cmp.Or(info.Usage, info.Description), Idempotent: info.Idempotent,
	}
	if info.Ask {
		d.Approval = agent.ApprovalAsk
	}
	made, err := tool.New(d, func(ctx context.Context, ec *tool.ExecutionContext, in In) (string, error) {
		return run(ctx, callOf(ec), in)
	})
	return Tool{info: info, inner: made, err: err}
}

func callOf(ec *tool.ExecutionContext) Call {
	return Call{
		Org: string(ec.Caller.Org), User: string(ec.Caller.User),
		Session: string(ec.Session), Turn: string(ec.Turn), ID: string(ec.Call),
	}
}

// addTools puts tools into a node, and into the modes that they name.
func addTools(n *node.Config, tools []Tool) error {
	var problems []error
	for i, t := range tools {
		if t.err == nil && t.inner == nil {
			t.err = errors.New("make it with NewTool")
		}
		if t.err != nil {
			problems = append(problems, fmt.Errorf("tool %d, %q: %w", i+1, t.info.Name, t.err))
			continue
		}
		n.Tools = append(n.Tools, t.inner)
		for _, key := range t.info.Modes {
			n.ModeTools[agent.ModeKey(key)] = append(n.ModeTools[agent.ModeKey(key)], t.info.Name)
		}
	}
	return errors.Join(problems...)
}

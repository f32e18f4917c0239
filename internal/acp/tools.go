package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"time"

	acp "github.com/coder/acp-go-sdk"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/localtools"
)

var (
	errFailed = errors.New("the turn failed")
	// errDeclined is what the model is told when the user says no.
	errDeclined = errors.New("the user did not allow this call; ask what to do instead")
	// errDismissed ends the turn: the user has answered neither yes nor no.
	errDismissed = errors.New("the question was dismissed")
)

// kinds say what a tool does, for the editor's icons.
var kinds = map[string]acp.ToolKind{
	"list_files": acp.ToolKindSearch, "search_files": acp.ToolKindSearch, "read_file": acp.ToolKindRead,
	"write_file": acp.ToolKindEdit, "run_command": acp.ToolKindExecute, "agent_change_mode": acp.ToolKindSwitchMode,
}

func kind(tool string) acp.ToolKind { return cmp.Or(kinds[tool], acp.ToolKindOther) }

// runTools runs the calls one after the other and returns one result for each, in their
// order (AGN-034 §5). Its error means that there are no results.
func (d *delivery) runTools(ctx context.Context, calls []client.ToolCall) ([]client.ToolResult, error) {
	results := make([]client.ToolResult, 0, len(calls))
	for _, call := range calls {
		began := time.Now()
		text, err := d.runTool(ctx, call)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, errDismissed):
			return nil, err
		}
		r := client.ToolResult{ToolCallID: call.ToolCallID, ExecutionMs: time.Since(began).Milliseconds(), ResultJSON: &text}
		if err != nil {
			message := err.Error()
			r.ResultJSON, r.ErrorMessage = nil, &message
			text = message
		}
		d.finished(ctx, call.ToolCallID, err == nil, &text)
		results = append(results, r)
	}
	return results, nil
}

// runTool runs one call, after the user's consent where it needs that.
func (d *delivery) runTool(ctx context.Context, call client.ToolCall) (string, error) {
	action, err := d.tools.Prepare(call.Name, call.ArgumentsJSON)
	d.asked(ctx, call.ToolCallID, call.Name, call.ArgumentsJSON, action)
	if err != nil {
		return "", err
	}
	if action.Ask {
		chosen, err := d.permit(ctx, call.ToolCallID, action.Title, []acp.PermissionOption{
			{OptionId: "allow", Name: "Allow", Kind: acp.PermissionOptionKindAllowOnce},
			{OptionId: "deny", Name: "Deny", Kind: acp.PermissionOptionKindRejectOnce},
		})
		if err != nil {
			return "", err
		}
		if chosen != "allow" {
			return "", errDeclined
		}
	}
	d.update(ctx, acp.UpdateToolCall(acp.ToolCallId(call.ToolCallID), acp.WithUpdateStatus(acp.ToolCallStatusInProgress)))
	return action.Run(ctx)
}

// verdicts are the ways to decide an approval in an editor. A session cannot be branched
// from there, so that choice is not offered.
var verdicts = []struct {
	option  acp.PermissionOption
	verdict client.Verdict
}{
	{acp.PermissionOption{OptionId: "approve", Name: "Allow", Kind: acp.PermissionOptionKindAllowOnce}, client.Verdict{Decision: client.DecisionApprove}},
	{acp.PermissionOption{OptionId: "remember", Name: "Allow for this session", Kind: acp.PermissionOptionKindAllowAlways}, client.Verdict{Decision: client.DecisionApprove, Remember: true}},
	{acp.PermissionOption{OptionId: "deny", Name: "Deny", Kind: acp.PermissionOptionKindRejectOnce}, client.Verdict{Decision: client.DecisionDeny}},
	{acp.PermissionOption{OptionId: "switch", Name: "Switch the mode", Kind: acp.PermissionOptionKindAllowOnce}, client.Verdict{Decision: client.DecisionSwitch}},
	{acp.PermissionOption{OptionId: "stay", Name: "Stay in this mode", Kind: acp.PermissionOptionKindRejectOnce}, client.Verdict{Decision: client.DecisionStay}},
}

// decide asks the user about each call that waits for him and sends what he decides.
func (d *delivery) decide(ctx context.Context, approvals []client.Approval) error {
	for _, a := range approvals {
		verdict, err := d.verdict(ctx, a)
		if err != nil {
			return err
		}
		_, err = d.agent.Client.Decide(ctx, string(d.id), d.turnID, a.ApprovalID, verdict)
		switch client.CodeOf(err) {
		case client.CodeApprovalDecided, client.CodeTurnNotWaiting: // elsewhere, or too late
		default:
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *delivery) verdict(ctx context.Context, a client.Approval) (client.Verdict, error) {
	title := "Run " + a.Name
	if m := a.ModeChange; m != nil {
		title = "Change the mode from " + m.PreviousMode + " to " + m.Mode + ": " + m.Reason
	}
	d.asked(ctx, a.ToolCallID, a.Name, a.ArgumentsJSON, localtools.Action{Title: title})
	var options []acp.PermissionOption
	for _, v := range verdicts {
		if slices.Contains(a.Options, v.verdict.Decision) && (!v.verdict.Remember || a.MayRemember) {
			options = append(options, v.option)
		}
	}
	chosen, err := d.permit(ctx, a.ToolCallID, title, options)
	if err != nil {
		return client.Verdict{}, err
	}
	for _, v := range verdicts {
		if v.option.OptionId == chosen {
			return v.verdict, nil
		}
	}
	return client.Verdict{}, errors.New("the editor chose " + string(chosen) + ", which was not offered")
}

// permit asks the user. An editor that was told to cancel gives no answer, and the turn
// ends.
func (d *delivery) permit(ctx context.Context, call, title string, options []acp.PermissionOption) (acp.PermissionOptionId, error) {
	res, err := d.agent.editor.RequestPermission(ctx, acp.RequestPermissionRequest{
		SessionId: d.id, Options: options,
		ToolCall: acp.ToolCallUpdate{ToolCallId: acp.ToolCallId(call), Title: &title, Status: acp.Ptr(acp.ToolCallStatusPending)},
	})
	switch {
	case err != nil:
		return "", err
	case res.Outcome.Selected == nil:
		return "", errDismissed
	}
	return res.Outcome.Selected.OptionId, nil
}

// asked shows a call that the model has made.
func (d *delivery) asked(ctx context.Context, call, tool, arguments string, action localtools.Action) {
	d.shown[call] = true
	title, path := d.title(tool, arguments)
	options := []acp.ToolCallStartOpt{acp.WithStartKind(kind(tool)), acp.WithStartStatus(acp.ToolCallStatusPending)}
	if raw := json.RawMessage(arguments); json.Valid(raw) {
		options = append(options, acp.WithStartRawInput(raw))
	}
	if path != "" {
		options = append(options, func(c *acp.SessionUpdateToolCall) { c.Locations = []acp.ToolCallLocation{{Path: path}} })
	}
	if c := action.Change; c != nil {
		diff := acp.ToolDiffContent(filepath.Join(d.tools.Dir(), filepath.FromSlash(c.Path)), c.New)
		diff.Diff.OldText = c.Old
		options = append(options, acp.WithStartContent([]acp.ToolCallContent{diff}))
	}
	d.update(ctx, acp.StartToolCall(acp.ToolCallId(call), cmp.Or(action.Title, title), options...))
}

// began shows a call of a tool that the server runs.
func (d *delivery) began(ctx context.Context, call, tool string) {
	if d.shown[call] {
		d.update(ctx, acp.UpdateToolCall(acp.ToolCallId(call), acp.WithUpdateStatus(acp.ToolCallStatusInProgress)))
		return
	}
	d.shown[call] = true
	d.update(ctx, acp.StartToolCall(acp.ToolCallId(call), tool, acp.WithStartKind(kind(tool)), acp.WithStartStatus(acp.ToolCallStatusInProgress)))
}

// finished shows how a call ended, with its result when that is known here.
func (d *delivery) finished(ctx context.Context, call string, ok bool, result *string) {
	status := acp.ToolCallStatusCompleted
	if !ok {
		status = acp.ToolCallStatusFailed
	}
	options := []acp.ToolCallUpdateOpt{acp.WithUpdateStatus(status)}
	if result != nil {
		options = append(options, acp.WithUpdateRawOutput(*result))
	}
	d.update(ctx, acp.UpdateToolCall(acp.ToolCallId(call), options...))
}

// title says in a line what a call of a local tool is about, and which file it names.
func (d *delivery) title(tool, arguments string) (title, path string) {
	var a struct{ Path, Query, Pattern, Command string }
	if json.Unmarshal([]byte(arguments), &a) != nil {
		return tool, ""
	}
	about := cmp.Or(a.Command, a.Query, a.Pattern, a.Path)
	if about == "" {
		return tool, ""
	}
	if a.Path != "" && filepath.IsLocal(filepath.FromSlash(a.Path)) {
		path = filepath.Join(d.tools.Dir(), filepath.FromSlash(a.Path))
	}
	return tool + " " + about, path
}

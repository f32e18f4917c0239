package reasoner

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/tool"
)

// execute runs one tool within its deadline. A tool that does not heed it is left
// behind after a grace, so that it can hold up neither the turn's end nor the next turn
// of its session; its goroutine says in the log when it is gone.
func (r *run) execute(ctx context.Context, t tool.Tool, call agent.ToolCall) (res agent.ToolResult) {
	ctx, noted := r.turn.Run.StartTool(ctx, call)
	defer func() { noted.End(res) }()
	ctx, cancel := context.WithTimeout(ctx, r.limits.ToolTime)
	defer cancel()
	began := r.now()
	var left atomic.Bool
	done := make(chan agent.ToolResult, 1)
	go func() {
		done <- r.callTool(ctx, t, call)
		if left.Load() {
			r.log.WarnContext(ctx, "a tool that was left behind has ended", "tool", call.Name, "turn", r.turn.Key.String(), "after", r.now().Sub(began))
		}
	}()
	select {
	case res = <-done:
		return res
	case <-ctx.Done():
	}
	grace := time.NewTimer(r.limits.ToolGrace)
	defer grace.Stop()
	select {
	case res = <-done:
		return res
	case <-grace.C:
	}
	left.Store(true)
	r.log.ErrorContext(ctx, "a tool does not end when it is told to and is left behind", "tool", call.Name, "turn", r.turn.Key.String())
	return agent.ToolResult{Code: agent.OutcomeUnknown,
		Err: fmt.Sprintf("The tool %s did not finish within %s and may still be at work, so its outcome is unknown. Check before you repeat it.", call.Name, r.limits.ToolTime.Round(time.Millisecond))}
}

// callTool runs the tool. Whatever goes wrong in it, a panic too, becomes a result.
func (r *run) callTool(ctx context.Context, t tool.Tool, call agent.ToolCall) (res agent.ToolResult) {
	defer func() {
		if p := recover(); p != nil {
			r.log.ErrorContext(ctx, "tool panicked", "tool", call.Name, "turn", r.turn.Key.String(), "panic", p, "stack", string(debug.Stack()))
			res = agent.ToolResult{Code: agent.OutcomeError, Err: fmt.Sprintf("The tool %s failed inside.", call.Name)}
		}
	}()
	out, err := content(ctx, t, &tool.ExecutionContext{
		Caller: r.turn.Caller, Session: r.turn.Key.Session, Turn: r.turn.Key.Turn, Epoch: r.turn.Epoch, Call: call.ID, Consent: r.consent(call.ID),
	}, call.Arguments)
	unknown := (*tool.UnknownOutcome)(nil)
	switch {
	case errors.As(err, &unknown):
		return agent.ToolResult{Code: agent.OutcomeUnknown, Err: err.Error()}
	case err != nil && ctx.Err() == context.DeadlineExceeded:
		return agent.ToolResult{Code: agent.OutcomeError, Err: fmt.Sprintf("The tool %s did not finish within %s.", call.Name, r.limits.ToolTime.Round(time.Millisecond))}
	case err != nil:
		return agent.ToolResult{Code: agent.OutcomeError, Err: err.Error()}
	case len(out.Text) > r.limits.ToolResultBytes:
		return agent.ToolResult{Code: agent.OutcomeError, Err: fmt.Sprintf("The result of %s has %d bytes, more than the %d that fit. Ask for less.", call.Name, len(out.Text), r.limits.ToolResultBytes)}
	}
	return agent.ToolResult{Code: agent.OutcomeOK, Result: out.Text, Images: out.Images}
}

// content runs the tool and returns all that it gives.
func content(ctx context.Context, t tool.Tool, ec *tool.ExecutionContext, arguments string) (tool.Content, error) {
	if t, ok := t.(tool.ContentTool); ok {
		return t.ExecuteContent(ctx, ec, arguments)
	}
	text, err := t.Execute(ctx, ec, arguments)
	return tool.Content{Text: text}, err
}

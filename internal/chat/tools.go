package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/localtools"
	"github.com/aptixhq/aptix/internal/terminal"
)

// errDeclined is what the model is told when the user says no.
var errDeclined = errors.New("the user did not allow this call; ask what to do instead")

// runTools runs the calls one after the other and returns one result for each, in their
// order (AGN-034 §5). Its error means that there are no results.
func (c *chat) runTools(ctx context.Context, calls []client.ToolCall) ([]client.ToolResult, error) {
	results := make([]client.ToolResult, 0, len(calls))
	for _, call := range calls {
		c.out.note("· %s %s", call.Name, short(call.ArgumentsJSON))
		text, took, err := c.runTool(ctx, call)
		if errors.Is(err, ErrInterrupted) || ctx.Err() != nil {
			return nil, err
		}
		r := client.ToolResult{ToolCallID: call.ToolCallID, ExecutionMs: took.Milliseconds(), ResultJSON: &text}
		if err != nil {
			message := err.Error()
			r.ResultJSON, r.ErrorMessage = nil, &message
			c.out.note("  %s", message)
		}
		results = append(results, r)
	}
	return results, nil
}

// runTool runs one call, after the user's consent where it needs that.
func (c *chat) runTool(ctx context.Context, call client.ToolCall) (result string, took time.Duration, err error) {
	action, err := c.Tools.Prepare(call.Name, call.ArgumentsJSON)
	if err != nil {
		return "", 0, err
	}
	if action.Ask {
		if err := c.consent(ctx, action); err != nil {
			return "", 0, err
		}
	}
	start := time.Now()
	result, err = c.run(ctx, action)
	return result, time.Since(start), err
}

// consent shows exactly what is about to happen and returns nil when the user agrees.
func (c *chat) consent(ctx context.Context, action localtools.Action) error {
	c.out.line("The assistant wants to %s:", terminal.Visible(action.Title))
	c.out.quote(action.Detail)
	if action.Change != nil {
		c.out.change(*action.Change)
	}
	ok, err := c.ask(ctx, "Allow it?", false)
	switch {
	case errors.Is(err, io.EOF): // nobody is there to agree
		return errDeclined
	case err != nil:
		return err
	case !ok:
		return errDeclined
	}
	return nil
}

// run runs an action; Ctrl-C ends it.
func (c *chat) run(ctx context.Context, action localtools.Action) (string, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type outcome struct {
		result string
		err    error
	}
	done := make(chan outcome, 1)
	go func() { // every action is bounded in time, and ends early with ctx
		result, err := action.Run(ctx)
		done <- outcome{result, err}
	}()
	select {
	case o := <-done:
		return o.result, o.err
	case <-c.Interrupts:
		stop()
		<-done
		return "", ErrInterrupted
	}
}

// short renders a call's arguments on one line.
func short(arguments string) string {
	const most = 100
	s := []rune(strings.Join(strings.Fields(terminal.Visible(arguments)), " "))
	if len(s) > most {
		return fmt.Sprintf("%s… (%d bytes)", string(s[:most]), len(arguments))
	}
	return string(s)
}

package acp

import (
	"context"
	"errors"
	"iter"

	acp "github.com/coder/acp-go-sdk"

	"github.com/aptixhq/aptix/client"
)

// run sends a turn and shows what becomes of it, until it is over. A turn that fails is an
// error, which the editor shows.
func (s *session) run(ctx context.Context, u client.UserTurn) (acp.StopReason, error) {
	s.mu.Lock()
	s.active = u.TurnID
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.active = ""
		s.mu.Unlock()
	}()
	d := &delivery{session: s, turnID: u.TurnID, shown: map[string]bool{}}
	err := d.show(ctx, s.agent.Client.Stream(ctx, u))
	if client.CodeOf(err) == client.CodeTurnInProgress && s.unwedge(ctx) {
		err = d.show(ctx, s.agent.Client.Stream(ctx, u))
	}
	for err == nil && d.stop == "" {
		err = d.goOn(ctx)
	}
	if ctx.Err() != nil || errors.Is(err, errDismissed) {
		s.end(ctx, u.TurnID)
		return acp.StopReasonCancelled, nil
	}
	if err != nil {
		return "", told(err)
	}
	return d.stop, nil
}

// unwedge ends a turn that waits for an editor which is not there any more: a session has
// one prompt at a time, and this is its first one here.
func (s *session) unwedge(ctx context.Context) bool {
	t, err := s.agent.Client.ActiveTurn(ctx, string(s.id))
	if err != nil || t == nil || t.State != client.TurnWaiting {
		return false
	}
	s.say(ctx, "(A turn of this session was waiting for an editor that has gone; it was cancelled.)\n\n")
	s.end(ctx, t.TurnID)
	return true
}

// delivery is a turn as it is shown.
type delivery struct {
	*session
	turnID string
	shown  map[string]bool // the calls that the editor knows
	said   bool            // text of the answer was shown
	after  int64           // the sequence of the last event
	waits  *client.Answer  // what the turn waits for, nil when it does not
	stop   acp.StopReason  // why it is over, "" while it is not
}

// show shows a stream to its end.
func (d *delivery) show(ctx context.Context, events iter.Seq2[client.Event, error]) error {
	d.waits = nil
	for e, err := range events {
		if err != nil {
			return err
		}
		d.after = e.Sequence
		if err := d.event(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// event shows one event. Its error is why the turn failed.
func (d *delivery) event(ctx context.Context, e client.Event) error {
	switch e.Type {
	case client.EventTurnStarted:
		d.welcome(ctx, e.WelcomeMessage)
	case client.EventTextDelta:
		d.said = true
		d.say(ctx, e.Text)
	case client.EventTurnResumed:
		if d.said {
			d.say(ctx, "\n\n(The server was restarted and answers again.)\n\n")
		}
		d.said = false
	case client.EventToolStarted:
		d.began(ctx, e.ToolCallID, e.Name)
	case client.EventToolFinished:
		d.finished(ctx, e.ToolCallID, e.Outcome == "ok", nil)
	case client.EventModeChanged:
		if e.ModeChange != nil {
			d.moved(ctx, e.Mode)
			d.welcome(ctx, e.WelcomeMessage)
		}
	case client.EventModeEntered:
		if e.Entry != nil && !e.Entry.Ready {
			d.say(ctx, "\n\n(Mode "+e.Entry.Mode+" is not ready: "+e.Entry.Problem+")\n\n")
		}
	case client.EventTurnWaiting:
		d.waits = e.Response
		if e.Response != nil {
			d.moved(ctx, e.Response.Mode)
		}
	case client.EventTurnCompleted:
		d.stop = acp.StopReasonEndTurn
		if e.Response != nil {
			d.answer(ctx, *e.Response)
		}
	case client.EventTurnCancelled:
		d.stop = acp.StopReasonCancelled
	case client.EventTurnFailed:
		if e.Problem == nil {
			return errFailed
		}
		if e.Problem.Code == client.CodeLimitReached {
			d.say(ctx, "\n\n"+e.Problem.Error())
			d.stop = acp.StopReasonMaxTurnRequests
			return nil
		}
		return e.Problem
	}
	return nil
}

// answer takes over what an answer says.
func (d *delivery) answer(ctx context.Context, a client.Answer) {
	d.moved(ctx, a.Mode)
	if !d.said && a.PrimaryOutputText != "" {
		d.say(ctx, a.PrimaryOutputText)
	}
	for _, w := range a.UserWarnings {
		d.say(ctx, "\n\nWarning: "+w)
	}
	for i, source := range a.Sources {
		lead := "\n"
		if i == 0 {
			lead = "\n\nSources:\n"
		}
		d.say(ctx, lead+"- "+source.String())
	}
}

func (d *delivery) welcome(ctx context.Context, message string) {
	if message != "" {
		d.say(ctx, message+"\n\n")
	}
}

// goOn gives a turn what it waits for and shows what follows.
func (d *delivery) goOn(ctx context.Context) error {
	switch {
	case d.waits == nil: // the stream ended before the turn
		return d.show(ctx, d.agent.Client.Events(ctx, string(d.id), d.turnID, d.after))
	case len(d.waits.Approvals) > 0:
		if err := d.decide(ctx, d.waits.Approvals); err != nil {
			return err
		}
		return d.show(ctx, d.agent.Client.Events(ctx, string(d.id), d.turnID, d.after))
	}
	results, err := d.runTools(ctx, d.waits.ToolCalls)
	if err != nil {
		return err
	}
	return d.show(ctx, d.agent.Client.StreamContinue(ctx, client.ToolContinuation{SessionID: string(d.id), TurnID: d.turnID, ToolResults: results}))
}

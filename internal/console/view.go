package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/budget"
	"github.com/aptixhq/aptix/internal/contract"
)

// turnView is a turn as a conversation shows it, read from its journal.
type turnView struct {
	ID       agent.TurnID
	Session  agent.SessionID
	Ordinal  int64
	State    agent.TurnState
	Queued   bool
	ModeName string
	At       time.Time
	Updated  time.Time
	Took     time.Duration // of a turn that has ended
	Usage    agent.Usage
	Cost     budget.Cost // 0 where no price is known
	// Instruction and Brought are what the user sent: text, and the names of files and images.
	Instruction string
	Brought     []string
	Parts       []part
	Sources     []agent.Source
	Warnings    []string
	Fault       *agent.Fault
	// ClientTools are what the turn waits for and no browser can run.
	ClientTools []string
	// Branch tells that the change of the mode means a new session (AGN-011 §5.6).
	Branch bool
	// After is the sequence of the last event that the view shows.
	After int64

	price budget.Price // of the turn's model, once it was asked
}

// Live reports whether the turn goes on by itself.
func (v turnView) Live() bool { return live(v.State) }

func live(s agent.TurnState) bool { return s == agent.TurnAccepted || s == agent.TurnRunning }

// Open reports whether the turn can be cancelled.
func (v turnView) Open() bool { return !v.State.Terminal() }

// StateName is the state for people.
func (v turnView) StateName() string {
	if v.Queued {
		return "queued"
	}
	return stateNames[v.State]
}

// part is one thing that happened in a turn; exactly one member is set.
type part struct {
	Text     string // Markdown
	Note     string
	Tool     *toolCard
	Approval *approvalCard
	Mode     *modeNote
}

// toolCard is a tool call and what came of it.
type toolCard struct {
	ID        agent.CallID
	Name      string
	Arguments string
	Result    string
	Outcome   agent.ToolOutcome // empty while it runs
	Ms        int64
	AtClient  bool
}

// approvalCard is a question to the user.
type approvalCard struct {
	agent.Approval
	Arguments string
	From, To  string // names of the modes, of a change
	Decided   *agent.Decided
	Open      bool
}

// modeNote is a change of the mode.
type modeNote struct {
	From, To, Reason string
}

// viewOf reads a turn's journal.
func (c *Console) viewOf(ctx context.Context, t agent.Turn) (turnView, error) {
	t, steps, err := c.journalOf(ctx, t)
	if err != nil {
		return turnView{}, err
	}
	u := requestOf(t)
	v := turnView{
		ID: t.Key.Turn, Session: t.Key.Session, Ordinal: t.Ordinal, State: t.State, Queued: t.Queued,
		ModeName: c.modeName(t.Mode), At: t.CreatedAt, Updated: t.UpdatedAt, Instruction: u.Instruction, Fault: t.Fault,
	}
	for _, a := range u.InputArtifacts {
		v.Brought = append(v.Brought, a.RelativePath)
	}
	for range u.ClipboardImages {
		v.Brought = append(v.Brought, "an image")
	}
	for _, s := range steps {
		c.add(&v, s)
		if n := int64(s.EventCount()); n > 0 {
			v.After = s.FirstEvent + n - 1
		}
	}
	if t.State.Terminal() {
		v.Took = t.UpdatedAt.Sub(t.CreatedAt)
	}
	return v, nil
}

// maxMoves is how often a turn may move while it is read.
const maxMoves = 10

// journalOf reads a turn's journal, and the turn as it was then. A state older than the
// journal would have a reader of events wait for one that it counts as seen; a newer one
// would show a turn that has ended without its answer, which nobody follows any more.
func (c *Console) journalOf(ctx context.Context, t agent.Turn) (agent.Turn, []agent.Step, error) {
	for range maxMoves {
		steps, err := c.turns.Steps(ctx, t.Key)
		if err != nil || t.State.Terminal() {
			return t, steps, err
		}
		now, err := c.turns.Turn(ctx, t.Key)
		if err != nil || live(now.State) || now.State == t.State && now.UpdatedAt.Equal(t.UpdatedAt) {
			return now, steps, err
		}
		t = now
	}
	return t, nil, agent.Errorf(agent.KindUnavailable, "The turn moves faster than it can be read. Try again in a moment.")
}

// add adds what a step of the journal tells.
func (c *Console) add(v *turnView, s agent.Step) {
	switch s.Kind {
	case agent.StepAccepted:
		if s.Accepted != nil {
			v.Warnings, v.Sources = append(v.Warnings, s.Accepted.Warnings...), s.Accepted.Sources
			v.note(s.Accepted.Welcome)
		}
	case agent.StepEntered:
		if !s.Entered.Ready {
			v.note(fmt.Sprintf("The mode %s is not ready: %s", c.modeName(s.Entered.Mode), s.Entered.Problem))
		}
	case agent.StepAsked:
		c.priced(v, s.Asked)
	case agent.StepAnswered:
		v.Usage = v.Usage.Add(s.Answered.Usage)
		v.Cost += v.price.Cost(s.Answered.Usage)
		v.say(strings.Join(s.Answered.Deltas, ""))
	case agent.StepToolStarted:
		v.called(*s.ToolStarted, false)
	case agent.StepToolFinished:
		v.finished(s.ToolFinished.Result)
		if m := s.ToolFinished.ModeSwitch; m != nil {
			v.Parts = append(v.Parts, part{Mode: &modeNote{c.modeName(m.PreviousMode), c.modeName(m.Mode), m.Reason}})
			v.note(m.WelcomeMessage)
			v.Branch = m.Branch
		}
	case agent.StepAskedUser:
		v.Parts = append(v.Parts, part{Approval: c.approvalCard(*s.AskedUser, v.State == agent.TurnWaiting)})
	case agent.StepDecided:
		v.decided(s.Decided)
	case agent.StepWaiting:
		v.ClientTools = nil
		for _, call := range s.Waiting.Calls {
			v.called(call, true)
			v.ClientTools = append(v.ClientTools, call.Name)
		}
	case agent.StepContinued:
		v.ClientTools = nil
		v.Warnings = append(v.Warnings, s.Continued.Warnings...)
		for _, r := range s.Continued.Results {
			v.finished(r)
		}
	case agent.StepResumed:
		v.note("The server was started anew; the turn went on.")
	case agent.StepSettled:
		v.settled(s.Settled)
	}
}

func (c *Console) approvalCard(a agent.Approval, open bool) *approvalCard {
	card := &approvalCard{Approval: a, Arguments: arguments(a.Arguments), Open: open}
	if m := a.ModeChange; m != nil {
		card.From, card.To = c.modeName(m.PreviousMode), c.modeName(m.Mode)
	}
	return card
}

func (v *turnView) say(text string) {
	if strings.TrimSpace(text) != "" {
		v.Parts = append(v.Parts, part{Text: text})
	}
}

func (v *turnView) note(text string) {
	if text != "" {
		v.Parts = append(v.Parts, part{Note: text})
	}
}

func (v *turnView) called(call agent.ToolCall, atClient bool) {
	v.Parts = append(v.Parts, part{Tool: &toolCard{ID: call.ID, Name: call.Name, Arguments: arguments(call.Arguments), AtClient: atClient}})
}

// finished puts a result to its call. One that was refused was never started.
func (v *turnView) finished(r agent.ToolResult) {
	i := slices.IndexFunc(v.Parts, func(p part) bool { return p.Tool != nil && p.Tool.ID == r.CallID })
	if i < 0 {
		v.called(agent.ToolCall{ID: r.CallID, Name: r.Name}, r.By == agent.ByClient)
		i = len(v.Parts) - 1
	}
	card := v.Parts[i].Tool
	card.Outcome, card.Ms, card.Result = r.Code, r.Ms, pretty(r.Result+r.Err)
}

func (v *turnView) decided(d *agent.Decided) {
	for _, p := range v.Parts {
		if p.Approval != nil && p.Approval.ID == d.ID {
			p.Approval.Decided = d
		}
	}
}

func (v *turnView) settled(s *agent.Settled) {
	v.ClientTools = nil
	v.say(strings.Join(s.Partial, ""))
	for _, r := range s.Abandoned {
		v.finished(r)
	}
	if s.Fault != nil {
		v.Fault = s.Fault
	}
	var final contract.Final
	if s.State != agent.TurnCompleted || json.Unmarshal(s.Response, &final) != nil {
		return
	}
	for _, w := range final.UserWarnings {
		if !slices.Contains(v.Warnings, w) {
			v.Warnings = append(v.Warnings, w)
		}
	}
	if !slices.ContainsFunc(v.Parts, func(p part) bool { return p.Text != "" }) {
		v.say(final.PrimaryOutputText)
	}
}

// maxShown bounds what is shown of one argument or result, in bytes; the turn's requests
// have all of it.
const maxShown = 16 << 10

// arguments writes those of a call for reading; nothing, when there are none.
func arguments(text string) string {
	if text == "{}" {
		return ""
	}
	return pretty(text)
}

// pretty writes JSON for reading, and anything else as it is.
func pretty(text string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(text), "", "  ") == nil {
		text = b.String()
	}
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "\n… cut here"
	}
	return text
}

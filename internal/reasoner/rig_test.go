package reasoner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/prompt"
	"github.com/aptixhq/aptix/internal/reasoner"
	"github.com/aptixhq/aptix/internal/tool"
)

var (
	key    = agent.TurnKey{Org: "acme", Session: "s1", Turn: "t1"}
	caller = agent.Caller{Org: "acme", User: "alice"}
)

// reply is what the scripted model does with one request.
type reply struct {
	first  func() // called when the request has come in
	deltas []string
	items  []json.RawMessage
	err    error
	cut    bool // the stream ends without its response
}

func says(text string, calls ...json.RawMessage) reply {
	return reply{items: append([]json.RawMessage{message("output_text", "text", text)}, calls...)}
}

func calls(calls ...json.RawMessage) reply { return reply{items: calls} }

func message(kind, member, text string) json.RawMessage {
	return fmt.Appendf(nil, `{"type":"message","role":"assistant","content":[{"type":%q,%q:%q}]}`, kind, member, text)
}

func call(id, name, arguments string) json.RawMessage {
	return fmt.Appendf(nil, `{"type":"function_call","call_id":%q,"name":%q,"arguments":%q}`, id, name, arguments)
}

// model answers from a script. Each response costs 10 + 5 tokens.
type model struct {
	t       *testing.T
	journal *journal
	script  []reply
	asked   [][]byte
}

func (m *model) Ask(_ context.Context, request *llm.Wire, _ bool) iter.Seq2[llm.Event, error] {
	body := request.Bytes()
	return func(yield func(llm.Event, error) bool) {
		if n := len(m.journal.written); n > 0 && m.journal.written[n-1].Kind != agent.StepAsked {
			m.t.Errorf("the model is asked when the journal is at %s", m.journal.written[n-1].Kind)
		}
		m.asked = append(m.asked, body)
		n := len(m.asked)
		if n > len(m.script) {
			m.t.Errorf("request %d: the script has run out\n%s", n, body)
			yield(llm.Event{}, errors.New("the script has run out"))
			return
		}
		r := m.script[n-1]
		if r.first != nil {
			r.first()
		}
		for _, d := range r.deltas {
			if !yield(llm.Event{Delta: d}, nil) {
				return
			}
		}
		switch {
		case r.err != nil:
			yield(llm.Event{}, r.err)
		case !r.cut:
			yield(llm.Event{Response: &llm.Response{ID: fmt.Sprintf("resp_%d", n), Status: "completed", Items: r.items,
				Usage: agent.Usage{InputTokens: 10, OutputTokens: 5, TotalTokens: 15}}}, nil)
		}
	}
}

// journal keeps the steps in memory.
type journal struct {
	written, held []agent.Step
	deltas        []string
	refuse        func(agent.Step) error
	deaf          bool // to its context
}

func (j *journal) Append(ctx context.Context, steps ...agent.Step) error {
	if err := ctx.Err(); err != nil && !j.deaf {
		return err // as a store does, which knows nothing of causes
	}
	for _, s := range steps {
		if j.refuse == nil {
			break
		}
		if err := j.refuse(s); err != nil {
			return err
		}
	}
	j.written = append(append(j.written, j.held...), steps...)
	j.held = nil
	return nil
}

func (j *journal) Hold(s agent.Step) { j.held = append(j.held, s) }

// Soon has its commit at once here.
func (j *journal) Soon(steps ...agent.Step) {
	j.written = append(append(j.written, j.held...), steps...)
	j.held = nil
}

func (j *journal) Delta(text string) { j.deltas = append(j.deltas, text) }

// all returns every step, those that are held too.
func (j *journal) all() []agent.Step { return append(slices.Clone(j.written), j.held...) }

func (j *journal) kinds() (out []agent.StepKind) {
	for _, s := range j.all() {
		out = append(out, s.Kind)
	}
	return out
}

// sessions holds the one session; agent_change_mode writes it.
type sessions struct {
	mode   agent.ModeKey
	writes []agent.ModeKey
	fail   error
}

func (s *sessions) Session(ctx context.Context, org agent.OrgID, id agent.SessionID) (agent.Session, error) {
	if err := ctx.Err(); err != nil {
		return agent.Session{}, err
	}
	return agent.Session{Org: org, ID: id, Mode: s.mode}, s.fail
}

// ModeChangeOf finds nothing: here only the turn changes the mode, and what the history
// would say is what the loop knows.
func (s *sessions) ModeChangeOf(context.Context, agent.TurnKey, agent.CallID) (agent.ModeChange, bool, error) {
	return agent.ModeChange{}, false, nil
}

// scripted is a server tool that does what it is told.
type scripted struct {
	name       string
	idempotent bool
	ran        []tool.ExecutionContext
	arguments  []string
	run        func(ctx context.Context, arguments string) (string, error)
}

func (s *scripted) Definition() tool.Definition {
	return tool.Definition{Name: s.name, Description: "d", Usage: "Use " + s.name + ".", Parameters: json.RawMessage(`{"type":"object"}`), Idempotent: s.idempotent}
}

func (s *scripted) Execute(ctx context.Context, ec *tool.ExecutionContext, arguments string) (string, error) {
	s.ran = append(s.ran, *ec)
	s.arguments = append(s.arguments, arguments)
	if s.run == nil {
		return "ran " + string(ec.Call), nil
	}
	return s.run(ctx, arguments)
}

// rig is the loop with everything around it scripted. Its turn has the client tool
// read_file and the server tools look, write and agent_change_mode; the server has
// the tool hidden as well.
type rig struct {
	t           *testing.T
	model       *model
	journal     *journal
	sessions    *sessions
	look, write *scripted
	hidden      *scripted
	change      *scripted
	registry    *tool.Registry
	log         bytes.Buffer
	turn        reasoner.Turn
	limits      reasoner.Limits
	loop        *reasoner.Reasoner
}

func newRig(t *testing.T, script ...reply) *rig {
	t.Helper()
	r := &rig{t: t, journal: &journal{}, sessions: &sessions{mode: "general"},
		look: &scripted{name: "look", idempotent: true}, write: &scripted{name: "write"}, hidden: &scripted{name: "hidden"}}
	r.model = &model{t: t, journal: r.journal, script: script}
	r.change = &scripted{name: tool.ChangeMode, idempotent: true, run: r.changeMode}
	var err error
	if r.registry, err = tool.NewRegistry(r.look, r.write, r.hidden, r.change); err != nil {
		t.Fatal(err)
	}
	tools := tool.Merge(json.RawMessage(`[{"type":"function","name":"read_file","parameters":{"type":"object"}}]`), []string{"look", "write"}, r.registry)
	r.turn = reasoner.Turn{Key: key, Caller: caller, Catalog: mode.Builtin(), Tools: tools, Context: agent.ConversationContext{Model: "m", System: "You are Aptix."},
		Request: prompt.Request{Mode: "general", Instruction: "Do it", ToolsJSON: tools.JSON}}
	r.start()
	return r
}

// start builds the loop from what the rig holds.
func (r *rig) start() {
	r.t.Helper()
	var err error
	r.loop, err = reasoner.New(reasoner.Config{Model: r.model, Sessions: r.sessions, Registry: r.registry,
		Log: slog.New(slog.NewTextHandler(&r.log, nil)), Limits: r.limits})
	if err != nil {
		r.t.Fatal(err)
	}
}

// changeMode is agent_change_mode as the loop knows it: it writes, and says what.
func (r *rig) changeMode(_ context.Context, arguments string) (string, error) {
	var args struct {
		Mode           agent.ModeKey
		Branch         bool
		Reason, Refuse string
	}
	if err := json.Unmarshal([]byte(arguments), &args); err != nil {
		return "", err
	}
	if args.Refuse != "" {
		return "", errors.New(args.Refuse)
	}
	r.sessions.mode = args.Mode
	r.sessions.writes = append(r.sessions.writes, args.Mode)
	return fmt.Sprintf(`{"success":true,"mode":%q,"branch":%t,"reason":%q}`, args.Mode, args.Branch, args.Reason), nil
}

// run runs the turn from where its journal stands.
func (r *rig) run(ctx context.Context) (reasoner.Outcome, error) {
	steps := r.journal.all()
	turn := r.turn
	out, err := r.loop.Run(ctx, &turn, steps, r.journal)
	if out == nil {
		return reasoner.Outcome{}, err
	}
	return *out, err
}

// finish runs the turn, which must not fail.
func (r *rig) finish() reasoner.Outcome {
	r.t.Helper()
	out, err := r.run(r.t.Context())
	if err != nil {
		r.t.Fatalf("run: %v", err)
	}
	return out
}

// died gives the journal of a turn whose process died after these steps, the first
// request among them.
func (r *rig) died(steps ...agent.Step) {
	before := r.turn // whoever goes on knows nothing but the journal
	first := r.loop.First(&before)
	r.journal.written = append([]agent.Step{{Kind: agent.StepAccepted, Accepted: &agent.Accepted{}}, first.Asked(1, r.turn.Request.Mode)}, steps...)
}

func answered(items ...json.RawMessage) agent.Step {
	return agent.Step{Kind: agent.StepAnswered, Answered: &agent.Answered{Call: 1, ResponseID: "resp_0", Items: items,
		Usage: agent.Usage{InputTokens: 1, OutputTokens: 1, TotalTokens: 2}}}
}

func startedStep(id, name string) agent.Step {
	return agent.Step{Kind: agent.StepToolStarted, ToolStarted: &agent.ToolCall{ID: agent.CallID(id), Name: name, Arguments: "{}"}}
}

func finishedStep(id, name, result string) agent.Step {
	return agent.Step{Kind: agent.StepToolFinished, ToolFinished: &agent.ToolFinished{
		Result: agent.ToolResult{CallID: agent.CallID(id), Name: name, Result: result, By: agent.ByServer, Code: agent.OutcomeOK}}}
}

func continuedStep(results ...agent.ToolResult) agent.Step {
	return agent.Step{Kind: agent.StepContinued, Continued: &agent.Continued{Results: results, SHA256: "x"}}
}

// wire is what these tests look at of a request.
type wire struct {
	PreviousResponseID string `json:"previous_response_id"`
	Instructions       string
	Tools              []struct{ Name string }
	Input              []struct {
		Type, Role string
		CallID     string `json:"call_id"`
		Output     string
		Content    []struct{ Text string }
	}
}

func (r *rig) asked(n int) wire {
	r.t.Helper()
	if len(r.model.asked) < n {
		r.t.Fatalf("the model was asked %d times, want %d", len(r.model.asked), n)
	}
	var w wire
	if err := json.Unmarshal(r.model.asked[n-1], &w); err != nil {
		r.t.Fatal(err)
	}
	return w
}

// outputs are the results in a request, in its order.
func (w wire) outputs() (out []string) {
	for _, i := range w.Input {
		if i.Type == "function_call_output" {
			out = append(out, i.CallID+": "+i.Output)
		}
	}
	return out
}

func (w wire) tools() (out []string) {
	for _, t := range w.Tools {
		out = append(out, t.Name)
	}
	return out
}

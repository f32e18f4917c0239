package pipeline_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/mcp/mcptest"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/pgtest"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/prove"
	"github.com/aptixhq/aptix/internal/reasoner"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/postgres/postgrestest"
	"github.com/aptixhq/aptix/internal/tool"
)

// cluster has the databases of the tests that want one in PostgreSQL.
var cluster = pgtest.Cluster{Prepare: postgrestest.Migrate}

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(cluster.Around(m))
}

// logBuffer collects log lines of concurrent turns.
type logBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func withLog(b *logBuffer) func(*rig) {
	return func(r *rig) { r.log = slog.New(slog.NewTextHandler(b, nil)) }
}

func withModel(t *testing.T, replies ...llmtest.Reply) func(*rig) {
	provider := llmtest.New(t, replies...)
	return func(r *rig) { r.provider = provider }
}

func userTurn(session, turn, instruction string) contract.UserTurn {
	return contract.UserTurn{SessionID: agent.SessionID(session), TurnID: agent.TurnID(turn), Instruction: instruction}
}

// run submits a turn and waits for its rest.
func (r *rig) run(x pipeline.Execution) agent.Turn {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	key, _, err := r.pipeline.Execute(ctx, caller, x)
	if err != nil {
		r.t.Fatalf("execute %s: %v", x.TurnID, err)
	}
	turn, err := r.pipeline.Await(ctx, key)
	if err != nil {
		r.t.Fatalf("await %s: %v", x.TurnID, err)
	}
	return turn
}

// answer is the part of both kinds of answers that these tests look at.
type answer struct {
	Kind, Mode        string
	PrimaryOutputText string
	ModeChange        *agent.ModeSwitch
	UserWarnings      []string
	Sources           []agent.Source
	ToolCalls         []agent.ToolCall
}

func (r *rig) answer(t agent.Turn) answer {
	r.t.Helper()
	if t.Fault != nil {
		r.t.Fatalf("turn %s failed: %+v", t.Key, *t.Fault)
	}
	var a answer
	if err := json.Unmarshal(t.Response, &a); err != nil {
		r.t.Fatalf("turn %s (%s): answer %s: %v", t.Key, t.State, t.Response, err)
	}
	return a
}

func TestExecute_PersistedModeWinsOverTheClients(t *testing.T) {
	prove.Rule(t, "AGN011-3.3-e", "AGN011-3.3-f", "AGN011-3.3-g", "AGN011-3.3-i", "AGN011-3.2-a")
	var log logBuffer
	r := newRig(t, withLog(&log), withModel(t, llmtest.Reply{Text: "One."}, llmtest.Reply{Text: "Two."}, llmtest.Reply{Text: "Three."}))
	r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Hello")})
	if strings.Contains(log.String(), "level=WARN") {
		t.Errorf("a turn without a claimed mode warns:\n%s", log.String())
	}
	r.run(pipeline.Execution{UserTurn: userTurn("s1", "t2", "Hello"), Mode: "general"})
	if strings.Contains(log.String(), "level=WARN") {
		t.Errorf("a turn that claims the session's mode warns:\n%s", log.String())
	}
	turn := r.run(pipeline.Execution{UserTurn: userTurn("s1", "t3", "Hello"), Mode: "ddr_authoring"})
	if got := r.answer(turn).Mode; got != "general" {
		t.Errorf("mode %q, want the persisted general", got)
	}
	if turn.Mode != "general" {
		t.Errorf("tools were frozen for mode %q, want general", turn.Mode)
	}
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "claimed=ddr_authoring") {
		t.Errorf("no warning names the claimed mode:\n%s", log.String())
	}
}

func TestExecute_CallerSuppliesInitialMode(t *testing.T) {
	prove.Rule(t, "AGN011-3.1-a", "AGN011-3.3-c")
	r := newRig(t, withModel(t, llmtest.Reply{Text: "One."}))
	turn := r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Hello"), Mode: "ddr_authoring"})
	if got := r.answer(turn).Mode; got != "ddr_authoring" {
		t.Errorf("mode %q, want the supplied ddr_authoring", got)
	}
	s, err := r.store.Session(t.Context(), caller.Org, "s1")
	if err != nil || s.Mode != "ddr_authoring" {
		t.Errorf("stored session in mode %q (%v), want ddr_authoring", s.Mode, err)
	}
}

func TestExecute_WarningsReachTheUser(t *testing.T) {
	r := newRig(t, withModel(t, llmtest.Reply{Text: "One."}), func(r *rig) { r.catalog = toolCatalog(t, "agent_list_modes", "long_gone") })
	a := r.answer(r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Hello")}))
	if len(a.UserWarnings) != 1 || !strings.Contains(a.UserWarnings[0], "long_gone") {
		t.Errorf("warnings %q, want one of the tool that is not there", a.UserWarnings)
	}
}

func TestExecute_SystemPromptOfTheSession(t *testing.T) {
	r := newRig(t, withModel(t, llmtest.Reply{Text: "One."}))
	if _, err := r.sessions.Create(t.Context(), caller, contract.CreateSession{SessionID: "s1", SystemPrompt: "Speak like a pirate."}); err != nil {
		t.Fatal(err)
	}
	r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Hello")})
	if sent := string(r.provider.Requests()[0]); !strings.Contains(sent, `{"type":"input_text","text":"Speak like a pirate."}`) {
		t.Errorf("the session's prompt is not in the system message: %s", sent)
	}
}

func TestExecute_ToolChoiceOnFirstCallOnly(t *testing.T) {
	prove.Rule(t, "AGN003-6.2-a", "AGN003-6.2-b")
	r := newRig(t, withModel(t,
		llmtest.Reply{Calls: []llmtest.Call{{ID: "call_1", Name: "agent_list_modes", Arguments: "{}"}}}, llmtest.Reply{Text: "Listed."}))
	r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "List"), ToolChoiceName: "agent_list_modes"})
	sent := r.provider.Requests()
	if !strings.Contains(string(sent[0]), `"tool_choice":{"type":"function","name":"agent_list_modes"}`) {
		t.Errorf("first call has no tool_choice: %s", sent[0])
	}
	if strings.Contains(string(sent[1]), "tool_choice") {
		t.Errorf("second call still forces the tool: %s", sent[1])
	}
}

func TestSeveralModeChangesAreWarnedAbout(t *testing.T) {
	prove.Rule(t, "AGN011-5.1-c")
	args := func(m string) string { return fmt.Sprintf(`{"mode":%q,"branch":false,"reason":"r"}`, m) }
	for _, tt := range []struct {
		name  string
		calls []llmtest.Call
		warns bool
	}{
		{"one", []llmtest.Call{{ID: "c1", Name: tool.ChangeMode, Arguments: args("ddr_authoring")}}, false},
		{"two", []llmtest.Call{{ID: "c1", Name: tool.ChangeMode, Arguments: args("ddr_authoring")}, {ID: "c2", Name: tool.ChangeMode, Arguments: args("general")}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log logBuffer
			r := newRig(t, withLog(&log), withModel(t, llmtest.Reply{Calls: tt.calls}, llmtest.Reply{Text: "Done."}))
			r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Switch")})
			if got := strings.Contains(log.String(), "last successful change wins"); got != tt.warns {
				t.Errorf("warned: %t, want %t\n%s", got, tt.warns, log.String())
			}
		})
	}
}

func TestStreamingChangesDeliveryOnly(t *testing.T) {
	prove.Rule(t, "AGN034-4.7-a", "AGN034-4.7-d", "AGN003-7-a", "AGN003-7-b")
	script := func() []llmtest.Reply {
		cost := agent.Usage{InputTokens: 10, OutputTokens: 5, TotalTokens: 15}
		return []llmtest.Reply{
			{Usage: cost, Calls: []llmtest.Call{{ID: "c1", Name: tool.ChangeMode, Arguments: `{"mode":"ddr_authoring","branch":false,"reason":"r"}`}}},
			{Usage: cost, Deltas: []string{"The ", "same ", "answer."}},
		}
	}
	yes, no := true, false
	var answers []string
	for _, stream := range []*bool{nil, &no, &yes} {
		r := newRig(t, withModel(t, script()...))
		u := userTurn("s1", "t1", "Switch")
		u.Stream = stream
		answers = append(answers, indent(r.run(pipeline.Execution{UserTurn: u}).Response))
		sent := string(r.provider.Requests()[0])
		switch {
		case stream == nil && strings.Contains(sent, `"stream"`):
			t.Errorf("stream was not asked for and is on the wire: %s", sent)
		case stream != nil && !strings.Contains(sent, fmt.Sprintf(`"stream":%t`, *stream)):
			t.Errorf("stream %t is not on the wire: %s", *stream, sent)
		}
	}
	if answers[0] != answers[1] || answers[0] != answers[2] {
		t.Errorf("answers differ by delivery:\n%s", strings.Join(answers, "\n"))
	}
}

func TestVanishedModeNeverLeavesASessionStuck(t *testing.T) {
	prove.Rule(t, "AGN011-4.2-b", "AGN011-4.3-e", "TUL007-3.1-d")
	r := newRig(t, withModel(t, llmtest.Reply{Text: "One."}, llmtest.Reply{Text: "Two."},
		llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: tool.ChangeMode, Arguments: `{"mode":"general","branch":false,"reason":"r"}`}}}, llmtest.Reply{Text: "Out."}))
	if _, err := r.sessions.Create(t.Context(), caller, contract.CreateSession{SessionID: "s1", Mode: "workflow_authoring"}); err != nil {
		t.Fatal(err)
	}
	r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Hello")})
	r.stop()
	general, _ := mode.Builtin().Get("general")
	only, err := mode.Load(fstest.MapFS{"general.yaml": {Data: fmt.Appendf(nil,
		"id: %s\nkey: general\ndisplayName: General\ndescription: d\nwhenToUse: w\nisDefault: true\ntools: [agent_list_modes]\n", general.ID)}})
	if err != nil {
		t.Fatal(err)
	}
	r.catalog = only
	r.start()
	a := r.answer(r.run(pipeline.Execution{UserTurn: userTurn("s1", "t2", "Hello")}))
	if a.Mode != "workflow_authoring" || len(a.UserWarnings) != 1 || !strings.Contains(a.UserWarnings[0], "no longer in the catalogue") {
		t.Errorf("answer %+v, want the persisted mode and a warning", a)
	}
	sent := string(r.provider.Requests()[1])
	if !strings.Contains(sent, `"name":"agent_change_mode"`) || !strings.Contains(sent, `"name":"agent_list_modes"`) {
		t.Errorf("the default mode's tools and agent_change_mode are not attached: %s", sent)
	}
	if a := r.answer(r.run(pipeline.Execution{UserTurn: userTurn("s1", "t3", "Out")})); a.Mode != "general" {
		t.Errorf("mode %q after leaving the vanished one, want general", a.Mode)
	}
}

func TestDuplicatesRunOnce(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, withModel(t, llmtest.Reply{Text: "Once.", Block: release}))
	const n = 16
	answers := make([]string, n)
	var submitted, done sync.WaitGroup
	for i := range n {
		submitted.Add(1)
		done.Go(func() {
			key, _, err := r.pipeline.Submit(t.Context(), caller, userTurn("s1", "t1", "Hello"))
			submitted.Done()
			if err != nil {
				t.Error(err)
				return
			}
			turn, err := r.pipeline.Await(t.Context(), key)
			if err != nil {
				t.Error(err)
			}
			answers[i] = string(turn.Response)
		})
	}
	submitted.Wait()
	close(release)
	done.Wait()
	for _, a := range answers {
		if a != answers[0] || a == "" {
			t.Errorf("answer %q, want %q", a, answers[0])
		}
	}
	if got := len(r.provider.Requests()); got != 1 {
		t.Errorf("%d model calls for one turn", got)
	}
}

func TestRunningTurn_CancelledInTheModelCall(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	r := newRig(t, withModel(t, llmtest.Reply{Text: "Never.", Block: never}))
	key, _, err := r.pipeline.Submit(t.Context(), caller, userTurn("s1", "t1", "Hello"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.pipeline.Cancel(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	turn, err := r.pipeline.Await(t.Context(), key)
	if err != nil || turn.State != agent.TurnCancelled {
		t.Fatalf("state %s (%v), want cancelled", turn.State, err)
	}
	if err := r.pipeline.Cancel(t.Context(), key); err != nil {
		t.Errorf("cancelling a cancelled turn: %v", err)
	}
}

func TestTurnDeadline(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	r := newRig(t, withModel(t, llmtest.Reply{Text: "Never.", Block: never}), func(r *rig) { r.times.TurnTime = 50 * time.Millisecond })
	turn := r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Hello")})
	if turn.State != agent.TurnFailed || turn.Fault.Kind != agent.KindLimitReached {
		t.Errorf("turn %s with fault %+v, want failed with limit_reached", turn.State, turn.Fault)
	}
}

func TestWaitingTurnExpires(t *testing.T) {
	r := newRig(t, withModel(t, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "read_file", Arguments: "{}"}}}),
		func(r *rig) { r.times = pipeline.Limits{WaitTime: time.Millisecond, SweepEvery: 5 * time.Millisecond} })
	if _, err := r.sessions.Create(t.Context(), caller, contract.CreateSession{SessionID: "s1", Tools: json.RawMessage(`[{"type":"function","name":"read_file","parameters":{"type":"object"}}]`)}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	key, _, err := r.pipeline.Submit(ctx, caller, userTurn("s1", "t1", "Hello"))
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		turn, err := r.pipeline.Turn(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		if turn.State == agent.TurnFailed {
			if turn.Fault.Kind != agent.KindTurnExpired {
				t.Errorf("fault %+v, want turn_expired", turn.Fault)
			}
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("turn is still %s", turn.State)
		}
	}
}

func TestModelCallBudget(t *testing.T) {
	var replies []llmtest.Reply
	for i := range 3 {
		replies = append(replies, llmtest.Reply{Calls: []llmtest.Call{{ID: fmt.Sprintf("c%d", i), Name: tool.ListModes, Arguments: "{}"}}})
	}
	r := newRig(t, withModel(t, replies...), func(r *rig) { r.limits.ModelCalls = 3 })
	turn := r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Loop")})
	if turn.State != agent.TurnFailed || turn.Fault.Kind != agent.KindLimitReached {
		t.Errorf("turn %s with fault %+v, want failed with limit_reached", turn.State, turn.Fault)
	}
	if got := len(r.provider.Requests()); got != 3 {
		t.Errorf("%d model calls, want 3", got)
	}
}

func TestOutputBound(t *testing.T) {
	for _, stream := range []bool{false, true} {
		r := newRig(t, withModel(t, llmtest.Reply{Deltas: []string{strings.Repeat("x", 800), strings.Repeat("y", 800)}}), func(r *rig) { r.limits.OutputBytes = 1000 })
		u := userTurn("s1", "t1", "Talk")
		u.Stream = &stream
		turn := r.run(pipeline.Execution{UserTurn: u})
		if turn.State != agent.TurnFailed || turn.Fault.Kind != agent.KindLimitReached {
			t.Errorf("stream %t: turn %s with fault %+v, want failed with limit_reached", stream, turn.State, turn.Fault)
		}
	}
}

func TestToolThatHangsPanicsOrFloods(t *testing.T) {
	type none struct{}
	bad := func(name string, run func(context.Context) (string, error)) tool.Tool {
		x, err := tool.New(tool.Definition{Name: name, Description: "d", Usage: "u"}, func(ctx context.Context, _ *tool.ExecutionContext, _ none) (string, error) { return run(ctx) })
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	extra := []tool.Tool{
		bad("hangs", func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }),
		bad("panics", func(context.Context) (string, error) { panic("secret detail") }),
		bad("floods", func(context.Context) (string, error) { return strings.Repeat("x", 5000), nil }),
	}
	catalog := map[string][]byte{"general.yaml": []byte("id: 3F8E4F377F7A4C189C7F6A8B9F945C11\nkey: general\ndisplayName: General\ndescription: d\nwhenToUse: w\nisDefault: true\ntools: [hangs, panics, floods]\n")}
	r := newRig(t, withCatalog(catalog), withModel(t, llmtest.Reply{Calls: []llmtest.Call{
		{ID: "c1", Name: "hangs", Arguments: "{}"}, {ID: "c2", Name: "panics", Arguments: "{}"}, {ID: "c3", Name: "floods", Arguments: "{}"},
	}}, llmtest.Reply{Text: "All three failed."}), func(r *rig) {
		r.extra = extra
		r.limits = reasoner.Limits{ToolTime: 20 * time.Millisecond, ToolResultBytes: 1000}
	})
	turn := r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Try")})
	if got := r.answer(turn).PrimaryOutputText; got != "All three failed." {
		t.Errorf("answer %q", got)
	}
	sent := string(r.provider.Requests()[1])
	for _, want := range []string{"did not finish within", "failed inside", "more than the 1000 that fit"} {
		if !strings.Contains(sent, want) {
			t.Errorf("the model is not told %q: %s", want, sent)
		}
	}
	if strings.Contains(sent, "secret detail") {
		t.Error("a panic's value reaches the model")
	}
}

func TestDrain_TurnGoesOnAfterRestart(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	r := newRig(t, withModel(t,
		llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: tool.ListModes, Arguments: "{}"}}},
		llmtest.Reply{Text: "Never.", Block: never}, llmtest.Reply{Text: "After the restart."}))
	key, _, err := r.pipeline.Submit(t.Context(), caller, userTurn("s1", "t1", "Hello"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.provider.Await(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	hurry, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.pipeline.Drain(hurry); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.pipeline.Submit(t.Context(), caller, userTurn("s2", "t1", "Hello")); agent.KindOf(err) != agent.KindDraining {
		t.Errorf("a new turn while draining: %v, want draining", err)
	}
	if _, err := r.pipeline.Await(t.Context(), key); agent.KindOf(err) != agent.KindDraining {
		t.Errorf("await of a drained turn: %v, want draining", err)
	}
	r.stop()
	r.start()
	turn, err := r.pipeline.Await(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.answer(turn).PrimaryOutputText; got != "After the restart." {
		t.Errorf("answer %q", got)
	}
	steps, err := r.store.Steps(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	checkJournal(t, turn, steps)
	// The answered first call was not asked again: three requests in all.
	if got := len(r.provider.Requests()); got != 3 {
		t.Errorf("%d model calls, want 3", got)
	}
}

func TestConcurrentModeSwitchesAndTurns(t *testing.T) {
	prove.Rule(t, "AGN011-5.7-a", "AGN011-3.2-i")
	r := newRig(t, withModel(t))
	// A turn that a switch overtakes before it is durable is built and asked again.
	r.provider.Otherwise(func([]byte) llmtest.Reply { return llmtest.Reply{Text: "Done."} })
	if _, err := r.sessions.Create(t.Context(), caller, contract.CreateSession{SessionID: "s1"}); err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	for i := range 4 {
		work.Go(func() {
			for n := range 10 {
				m := r.catalog.Keys()[(i+n)%3]
				if _, err := r.sessions.SetSessionMode(t.Context(), agent.ModeChange{Org: caller.Org, Session: "s1", Mode: agent.ModeKey(m), Reason: "r", User: caller.User, Actor: agent.ActorUser}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 8 {
		r.run(pipeline.Execution{UserTurn: userTurn("s1", fmt.Sprintf("t%d", i), "Hello")})
	}
	work.Wait()
	s, err := r.store.Session(t.Context(), caller.Org, "s1")
	if err != nil {
		t.Fatal(err)
	}
	history, _, err := r.store.ModeHistory(t.Context(), caller.Org, "s1", store.Page{Limit: 200})
	if err != nil {
		t.Fatal(err)
	}
	previous := agent.ModeGeneral
	for _, c := range history {
		if c.Previous != previous || c.Mode == previous {
			t.Errorf("history row %d: %s -> %s after %s", c.Sequence, c.Previous, c.Mode, previous)
		}
		previous = c.Mode
	}
	if s.Mode != previous || s.Version != int64(len(history))+1 {
		t.Errorf("session in %s at version %d; history ends in %s after %d changes", s.Mode, s.Version, previous, len(history))
	}
}

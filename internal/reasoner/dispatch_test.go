package reasoner_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prove"
	"github.com/aptixhq/aptix/internal/tool"
)

func TestDispatch_JournalledBeforeTheToolRuns(t *testing.T) {
	r := newRig(t, calls(call("c1", "write", `{"n":1}`), call("c2", "look", `{}`)), says("Done."))
	check := func(id agent.CallID) func(context.Context, string) (string, error) {
		return func(context.Context, string) (string, error) {
			last := r.journal.written[len(r.journal.written)-1]
			if last.Kind != agent.StepToolStarted || last.ToolStarted.ID != id {
				t.Errorf("call %s runs when the journal is at %s", id, last.Kind)
			}
			return "ok", nil
		}
	}
	r.write.run, r.look.run = check("c1"), check("c2")
	out := r.finish()
	want := tool.ExecutionContext{Caller: caller, Session: "s1", Turn: "t1", Call: "c1"}
	if diff := cmp.Diff(r.write.ran, []tool.ExecutionContext{want}); diff != "" {
		t.Errorf("execution context: -got +want\n%s", diff)
	}
	if diff := cmp.Diff(r.write.arguments, []string{`{"n":1}`}); diff != "" {
		t.Errorf("arguments: -got +want\n%s", diff)
	}
	var ledger []string
	for _, res := range out.ServerResults {
		ledger = append(ledger, strings.Join([]string{string(res.CallID), res.Name, res.Result, string(res.Code), string(res.By)}, " "))
	}
	if diff := cmp.Diff(ledger, []string{"c1 write ok ok server", "c2 look ok ok server"}); diff != "" {
		t.Errorf("ledger: -got +want\n%s", diff)
	}
}

// A process died after a tool was started and before its result was written.
func TestDispatch_StartedWithoutResult(t *testing.T) {
	for _, tt := range []struct {
		name string
		tool string
		ran  int
		want string
		code agent.ToolOutcome
	}{
		{"not idempotent: it is not run again", "write", 0, `c1: {"error":"The outcome of this call is unknown: the server stopped while the tool ran. Check before you repeat it."}`, agent.OutcomeUnknown},
		{"idempotent: it is run again", "look", 1, "c1: ran c1", agent.OutcomeOK},
		{"not of this turn", "hidden", 0, `c1: {"error":"The outcome of this call is unknown: the server stopped while the tool ran. Check before you repeat it."}`, agent.OutcomeUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, says("Done."))
			r.died(answered(call("c1", tt.tool, "{}")), startedStep("c1", tt.tool))
			out := r.finish()
			if n := len(r.look.ran) + len(r.write.ran) + len(r.hidden.ran); n != tt.ran {
				t.Errorf("the tool ran %d times, want %d", n, tt.ran)
			}
			if diff := cmp.Diff(r.asked(1).outputs(), []string{tt.want}); diff != "" {
				t.Errorf("the model is told: -got +want\n%s", diff)
			}
			if len(out.ServerResults) != 1 || out.ServerResults[0].Code != tt.code {
				t.Errorf("ledger %+v, want one result: %s", out.ServerResults, tt.code)
			}
			started := 0
			for _, k := range r.journal.kinds() {
				if k == agent.StepToolStarted {
					started++
				}
			}
			if started != 1 {
				t.Errorf("%d dispatches in the journal, want 1", started)
			}
		})
	}
}

// The server that takes the turn up knows the tool no more, or with another schema.
// It reads like a client's tool then, and must not go to the client.
func TestDispatch_StartedToolThatTheServerLost(t *testing.T) {
	r := newRig(t, says("Done."))
	r.died(answered(call("c1", "write", "{}"), call("c2", "read_file", "{}")), startedStep("c1", "write"))
	registry, err := tool.NewRegistry(r.look, r.change)
	if err != nil {
		t.Fatal(err)
	}
	r.registry = registry
	r.turn.Tools = tool.ParseSet(r.turn.Tools.JSON, nil, registry)
	r.start()
	out := r.finish()
	if len(out.Waiting) != 1 || out.Waiting[0].ID != "c2" {
		t.Errorf("the client is to run %+v, want c2 alone", out.Waiting)
	}
	if len(out.ServerResults) != 1 || out.ServerResults[0].Code != agent.OutcomeUnknown {
		t.Errorf("ledger %+v, want an unknown outcome", out.ServerResults)
	}
}

// What the journal holds is not done twice.
func TestDispatch_GoesOnWhereItStood(t *testing.T) {
	r := newRig(t, says("Done."))
	r.died(answered(call("c1", "write", "{}"), call("c2", "write", "{}")), startedStep("c1", "write"), finishedStep("c1", "write", "first"))
	out := r.finish()
	if len(r.write.ran) != 1 || r.write.ran[0].Call != "c2" {
		t.Errorf("ran %+v, want c2 alone", r.write.ran)
	}
	if diff := cmp.Diff(r.asked(1).outputs(), []string{"c1: first", "c2: ran c2"}); diff != "" {
		t.Errorf("the model is told: -got +want\n%s", diff)
	}
	if out.Usage.TotalTokens != 2+15 {
		t.Errorf("usage %+v, want that of both calls", out.Usage)
	}
}

func TestDispatch_RequestThatWasNotAnswered(t *testing.T) {
	r := newRig(t, says("Done."))
	r.died()
	first := r.loop.First(&r.turn)
	r.finish()
	if string(first.Wire.Bytes()) != string(r.model.asked[0]) {
		t.Errorf("sent %s\nwant what the journal names: %s", r.model.asked[0], first.Wire.Bytes())
	}
	if diff := cmp.Diff(r.journal.kinds(), []agent.StepKind{agent.StepAccepted, agent.StepAsked, agent.StepAnswered}); diff != "" {
		t.Errorf("journal: -got +want\n%s", diff)
	}
}

// The bytes that are sent are those that the journal names, or none.
func TestDispatch_RequestThatCannotBePutTogether(t *testing.T) {
	r := newRig(t)
	r.turn.Transcript.Items = []json.RawMessage{message("output_text", "text", "Earlier.")}
	r.died()
	r.turn.Transcript.Items = nil
	if _, err := r.run(t.Context()); err == nil || agent.KindOf(err) != agent.KindInternal {
		t.Errorf("got %v, want an internal error", err)
	}
	if len(r.model.asked) != 0 {
		t.Errorf("sent %s", r.model.asked[0])
	}
}

func TestDispatch_MixedCallsInTheModelsOrder(t *testing.T) {
	prove.Rule(t, "AGN011-5.1-a")
	r := newRig(t, calls(call("c1", "read_file", "{}"), call("c2", "look", "{}"), call("c3", "read_file", "{}"), call("c4", "nonsense", "{}")), says("Done."))
	out := r.finish()
	var waiting []agent.CallID
	for _, c := range out.Waiting {
		waiting = append(waiting, c.ID)
	}
	if diff := cmp.Diff(waiting, []agent.CallID{"c1", "c3"}); diff != "" {
		t.Fatalf("the client is to run: -got +want\n%s", diff)
	}
	if out.Text != "" || len(r.model.asked) != 1 {
		t.Errorf("the loop goes on without the client: %q after %d requests", out.Text, len(r.model.asked))
	}
	r.journal.written = append(r.journal.all(), continuedStep(
		agent.ToolResult{CallID: "c1", Name: "read_file", Result: "one", By: agent.ByClient, Code: agent.OutcomeOK},
		agent.ToolResult{CallID: "c3", Name: "read_file", Err: "no such file", By: agent.ByClient, Code: agent.OutcomeError}))
	r.journal.held = nil
	out = r.finish()
	if diff := cmp.Diff(r.asked(2).outputs(), []string{"c1: one", "c2: ran c2", `c3: {"error":"no such file"}`,
		`c4: {"error":"There is no tool \"nonsense\" in this turn. Use one of: read_file, look, write, agent_change_mode."}`}); diff != "" {
		t.Errorf("the model is told: -got +want\n%s", diff)
	}
	if len(out.ServerResults) != 2 || out.ServerResults[0].CallID != "c2" || out.ServerResults[1].CallID != "c4" {
		t.Errorf("ledger %+v, want c2 and c4", out.ServerResults)
	}
}

// The frozen set decides what can be called, not what the server has.
func TestDispatch_ToolOutsideTheTurnsSet(t *testing.T) {
	prove.Rule(t, "AGN011-4.1-a", "AGN011-4.4-b")
	r := newRig(t, calls(call("c1", "hidden", "{}")), says("Done."))
	r.finish()
	if len(r.hidden.ran) != 0 {
		t.Error("a tool that the turn does not have was run")
	}
	if got := r.asked(2).outputs()[0]; !strings.Contains(got, `There is no tool \"hidden\"`) || strings.Contains(got, "Use one of: hidden") {
		t.Errorf("the model is told %s", got)
	}
}

func TestDispatch_ToolsThatFail(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  func(ctx context.Context, arguments string) (string, error)
		want string
	}{
		{"says no", func(context.Context, string) (string, error) { return "ignored", errors.New("say please") }, `c1: {"error":"say please"}`},
		{"hangs", func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", ctx.Err() }, `c1: {"error":"The tool look did not finish within 20ms."}`},
		{"panics", func(context.Context, string) (string, error) { panic("secret") }, `c1: {"error":"The tool look failed inside."}`},
		{"says as much as fits", func(context.Context, string) (string, error) { return strings.Repeat("x", 100), nil }, "c1: " + strings.Repeat("x", 100)},
		{"says more", func(context.Context, string) (string, error) { return strings.Repeat("x", 101), nil }, `c1: {"error":"The result of look has 101 bytes, more than the 100 that fit. Ask for less."}`},
		{"says nothing", func(context.Context, string) (string, error) { return "", nil }, "c1: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, calls(call("c1", "look", "{}")), says("Done."))
			r.limits.ToolResultBytes = 100
			if tt.name == "hangs" {
				r.limits.ToolTime = 20 * time.Millisecond
			}
			r.start()
			r.look.run = tt.run
			out := r.finish()
			if diff := cmp.Diff(r.asked(2).outputs(), []string{tt.want}); diff != "" {
				t.Errorf("the model is told: -got +want\n%s", diff)
			}
			if out.Text != "Done." {
				t.Errorf("answer %q", out.Text)
			}
		})
	}
}

// A tool that succeeds in spite of a cancel has its result; the next one does not run.
// It holds row S-24 of docs/security.md.
func TestDispatch_NothingStartsAfterACancel(t *testing.T) {
	stop := errors.New("cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	r := newRig(t, calls(call("c1", "write", "{}"), call("c2", "look", "{}")))
	r.journal.deaf = true
	r.write.run = func(context.Context, string) (string, error) { cancel(stop); return "written", nil }
	if _, err := r.run(ctx); err != stop {
		t.Errorf("got %v, want the cause", err)
	}
	if len(r.look.ran) != 0 {
		t.Error("another tool was run")
	}
	last := r.journal.all()[len(r.journal.all())-1]
	if last.Kind != agent.StepToolFinished || last.ToolFinished.Result.Result != "written" {
		t.Errorf("the journal ends with %+v, want the result of the first", last)
	}
}

func toMode(id, arguments string) json.RawMessage { return call(id, tool.ChangeMode, arguments) }

func TestModeChange(t *testing.T) {
	prove.Rule(t, "AGN011-5.1-a", "AGN011-5.1-b", "AGN011-5.1-c", "AGN011-5.2-b", "AGN011-5.3-a")
	const several = "the last successful change wins"
	for _, tt := range []struct {
		name  string
		calls []json.RawMessage
		mode  agent.ModeKey
		want  *agent.ModeSwitch
		warns bool
	}{
		{"one", []json.RawMessage{toMode("c1", `{"mode":"ddr_authoring","branch":true,"reason":"r1"}`)},
			"ddr_authoring", &agent.ModeSwitch{PreviousMode: "general", Mode: "ddr_authoring", Branch: true, Reason: "r1"}, false},
		{"the last of two", []json.RawMessage{toMode("c1", `{"mode":"ddr_authoring","reason":"r1"}`), toMode("c2", `{"mode":"workflow_authoring","reason":"r2"}`)},
			"workflow_authoring", &agent.ModeSwitch{PreviousMode: "ddr_authoring", Mode: "workflow_authoring", Reason: "r2"}, true},
		{"the last successful of two", []json.RawMessage{toMode("c1", `{"mode":"ddr_authoring","reason":"r1"}`), toMode("c2", `{"mode":"workflow_authoring","reason":"r2","refuse":"no"}`)},
			"ddr_authoring", &agent.ModeSwitch{PreviousMode: "general", Mode: "ddr_authoring", Reason: "r1"}, true},
		{"there and back", []json.RawMessage{toMode("c1", `{"mode":"ddr_authoring","reason":"r1"}`), toMode("c2", `{"mode":"general","reason":"r2"}`)},
			"general", &agent.ModeSwitch{PreviousMode: "ddr_authoring", Mode: "general", Reason: "r2"}, true},
		{"to where it is", []json.RawMessage{toMode("c1", `{"mode":"general","reason":"r1"}`)}, "general", nil, false},
		{"refused", []json.RawMessage{toMode("c1", `{"mode":"ddr_authoring","refuse":"no"}`)}, "general", nil, false},
		{"another tool that says the same", []json.RawMessage{call("c1", "look", `{"mode":"ddr_authoring"}`)}, "general", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, calls(tt.calls...), says("Done."))
			r.look.run = func(context.Context, string) (string, error) { return `{"success":true,"mode":"ddr_authoring"}`, nil }
			out := r.finish()
			if out.Mode != tt.mode {
				t.Errorf("mode %s, want %s", out.Mode, tt.mode)
			}
			if diff := cmp.Diff(out.ModeSwitch, tt.want); diff != "" {
				t.Errorf("mode change: -got +want\n%s", diff)
			}
			if got := strings.Contains(r.log.String(), several); got != tt.warns {
				t.Errorf("warned of several changes: %t, want %t\n%s", got, tt.warns, r.log.String())
			}
			if got := r.asked(2).Instructions; !strings.Contains(got, "Current mode: "+string(tt.mode)+"\n") {
				t.Errorf("the next request is not in mode %s:\n%s", tt.mode, got)
			}
		})
	}
}

// The tool writes; the loop looks at what is persisted and believes that.
func TestModeChange_IsVerified(t *testing.T) {
	prove.Rule(t, "AGN011-5.2-c", "AGN011-3.2-a")
	r := newRig(t, calls(toMode("c1", `{"mode":"ddr_authoring","reason":"r"}`)), says("Done."))
	r.change.run = func(context.Context, string) (string, error) {
		return `{"success":true,"mode":"ddr_authoring","branch":false,"reason":"r"}`, nil // and writes nothing
	}
	out := r.finish()
	if out.ModeSwitch != nil || out.Mode != "general" {
		t.Errorf("a change that is not persisted is announced: %+v, mode %s", out.ModeSwitch, out.Mode)
	}
	if log := r.log.String(); !strings.Contains(log, "level=WARN") || !strings.Contains(log, "reported=ddr_authoring") || !strings.Contains(log, "mode=general") {
		t.Errorf("no warning names both modes:\n%s", log)
	}
	if got := r.asked(2).Instructions; !strings.Contains(got, "Current mode: general\n") {
		t.Errorf("the next request is in another mode:\n%s", got)
	}
}

func TestModeChange_WrittenOnceByTheTool(t *testing.T) {
	prove.Rule(t, "AGN011-3.2-i", "AGN011-5.2-a", "AGN011-5.2-c")
	r := newRig(t, calls(toMode("c1", `{"mode":"ddr_authoring","reason":"r"}`)), says("Done."))
	r.finish()
	if diff := cmp.Diff(r.sessions.writes, []agent.ModeKey{"ddr_authoring"}); diff != "" {
		t.Errorf("writes: -got +want\n%s", diff)
	}
}

func TestModeChange_CannotBeVerified(t *testing.T) {
	full := agent.Errorf(agent.KindStorageFull, "The disk is full.")
	r := newRig(t, calls(toMode("c1", `{"mode":"ddr_authoring","reason":"r"}`)))
	r.sessions.fail = full
	if _, err := r.run(t.Context()); !errors.Is(err, full) {
		t.Errorf("got %v, want the store's error", err)
	}
	r = newRig(t, calls(toMode("c1", `{}`)))
	r.change.run = func(context.Context, string) (string, error) { return "switched!", nil }
	if _, err := r.run(t.Context()); err == nil || agent.KindOf(err) != agent.KindInternal {
		t.Errorf("a result that is not JSON: %v, want an internal error", err)
	}
}

// A change that happened is taken down, also when the turn is broken off in that very
// moment.
func TestModeChange_TurnBrokenOff(t *testing.T) {
	stop := errors.New("cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	r := newRig(t, calls(toMode("c1", `{"mode":"ddr_authoring","reason":"r"}`)))
	r.change.run = func(ctx context.Context, arguments string) (string, error) {
		defer cancel(stop)
		return r.changeMode(ctx, arguments)
	}
	if _, err := r.run(ctx); err != stop {
		t.Errorf("got %v, want the cause", err)
	}
	last := r.journal.all()[len(r.journal.all())-1]
	if last.Kind != agent.StepToolFinished || last.ToolFinished.ModeSwitch == nil || last.ToolFinished.ModeSwitch.Mode != "ddr_authoring" {
		t.Errorf("the journal ends with %+v, want the change", last)
	}
}

// The mode follows a change of before the restart.
func TestModeChange_BeforeTheRestart(t *testing.T) {
	prove.Rule(t, "AGN011-5.3-a")
	r := newRig(t, says("Done."))
	r.sessions.mode = "ddr_authoring"
	done := finishedStep("c1", tool.ChangeMode, `{"success":true,"mode":"ddr_authoring"}`)
	done.ToolFinished.ModeSwitch = &agent.ModeSwitch{PreviousMode: "general", Mode: "ddr_authoring", Reason: "r"}
	r.died(answered(toMode("c1", `{}`)), startedStep("c1", tool.ChangeMode), done)
	out := r.finish()
	if out.Mode != "ddr_authoring" || out.ModeSwitch == nil || out.ModeSwitch.Reason != "r" {
		t.Errorf("mode %s, change %+v", out.Mode, out.ModeSwitch)
	}
	if got := r.asked(1).Instructions; !strings.Contains(got, "Current mode: ddr_authoring\n") {
		t.Errorf("the next request is in another mode:\n%s", got)
	}
	if len(r.change.ran) != 0 {
		t.Error("the tool ran again")
	}
}

// It says of itself that it may run again: the session manager knows the call.
func TestModeChange_StartedBeforeTheRestart(t *testing.T) {
	r := newRig(t, says("Done."))
	r.died(answered(toMode("c1", `{"mode":"ddr_authoring","reason":"r"}`)), startedStep("c1", tool.ChangeMode))
	out := r.finish()
	if out.Mode != "ddr_authoring" || len(r.change.ran) != 1 || r.change.ran[0].Call != "c1" {
		t.Errorf("mode %s after %d runs", out.Mode, len(r.change.ran))
	}
	if strings.Contains(r.log.String(), "several times") {
		t.Errorf("one change counts as several:\n%s", r.log.String())
	}
}

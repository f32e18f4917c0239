package reasoner_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prove"
	"github.com/aptixhq/aptix/internal/reasoner"
	"github.com/aptixhq/aptix/internal/tool"
)

func TestNew_NamesWhatIsMissing(t *testing.T) {
	if _, err := reasoner.New(reasoner.Config{}); err == nil || !strings.Contains(err.Error(), "required") {
		t.Errorf("got %v, want an error that says what is required", err)
	}
}

func TestRun_Answers(t *testing.T) {
	r := newRig(t, says("Hello."))
	out := r.finish()
	want := reasoner.Outcome{Text: "Hello.", Mode: "general", ResponseID: "resp_1", Usage: agent.Usage{InputTokens: 10, OutputTokens: 5, TotalTokens: 15},
		Items: slices.Concat(r.loop.First(&r.turn).Wire.New, []json.RawMessage{message("output_text", "text", "Hello.")})}
	if diff := cmp.Diff(out, want); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
	if diff := cmp.Diff(r.journal.kinds(), []agent.StepKind{agent.StepAsked, agent.StepAnswered}); diff != "" {
		t.Errorf("journal: -got +want\n%s", diff)
	}
	if len(r.journal.held) != 1 {
		t.Errorf("%d steps are held, want the answer, which goes with the end of the turn", len(r.journal.held))
	}
}

func TestFirst_IsWhatRunSends(t *testing.T) {
	r := newRig(t, says("Hello."))
	first := r.loop.First(&r.turn)
	r.finish()
	if string(first.Wire.Bytes()) != string(r.model.asked[0]) {
		t.Errorf("First gives %s\nRun sends %s", first.Wire.Bytes(), r.model.asked[0])
	}
	if again := r.loop.First(&r.turn); again.CanonicalSHA256 != first.CanonicalSHA256 || again.WireSHA256 != first.WireSHA256 {
		t.Error("First gives other hashes the second time")
	}
}

func TestFirst_SaysWhatTheContextAsksFor(t *testing.T) {
	warm, yes := 0.5, true
	r := newRig(t)
	r.turn.Stream = &yes
	r.turn.Context.Temperature = &warm
	r.turn.SolutionContext = "A Go repository."
	plain := r.loop.First(&r.turn)
	r.turn.Context.OmitTemperature, r.turn.Context.EncryptedReasoning = true, true
	special := r.loop.First(&r.turn)
	for _, tt := range []struct {
		what, in, member string
		want             bool
	}{
		{"canonical", string(plain.Canonical), "\"stream\":true", true},
		{"canonical", string(plain.Canonical), "Use look.", true},
		{"wire", string(plain.Wire.Bytes()), "A Go repository.", true},
		{"wire", string(plain.Wire.Bytes()), "\"temperature\":0.5", true},
		{"wire", string(plain.Wire.Bytes()), "encrypted_content", false},
		{"canonical of a model that takes no temperature", string(special.Canonical), "\"temperature\":0.5", true},
		{"wire to a model that takes no temperature", string(special.Wire.Bytes()), "temperature", false},
		{"wire to a model that gives its reasoning", string(special.Wire.Bytes()), "encrypted_content", true},
	} {
		if got := strings.Contains(tt.in, tt.member); got != tt.want {
			t.Errorf("%s: %s is in it: %t, want %t\n%s", tt.what, tt.member, got, tt.want, tt.in)
		}
	}
}

// What is shown while the answer comes in is what its step holds, piece for piece.
func TestRun_ShowsTextInItsPieces(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reply reply
		want  []string
	}{
		{"in pieces", reply{deltas: []string{"Hel", "lo."}, items: says("Hello.").items}, []string{"Hel", "lo."}},
		{"at once", says("Hello."), []string{"Hello."}},
		{"a refusal", reply{items: []json.RawMessage{message("refusal", "refusal", "I will not.")}}, []string{"I will not."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, tt.reply)
			out := r.finish()
			if diff := cmp.Diff(r.journal.deltas, tt.want); diff != "" {
				t.Errorf("shown: -got +want\n%s", diff)
			}
			if out.Text != strings.Join(tt.want, "") {
				t.Errorf("answer %q", out.Text)
			}
		})
	}
}

func TestRun_TextBesideCallsIsNotTheAnswer(t *testing.T) {
	r := newRig(t, says("I will look.", call("c1", "look", "{}")), says("I have looked."))
	if out := r.finish(); out.Text != "I have looked." {
		t.Errorf("answer %q", out.Text)
	}
	if diff := cmp.Diff(r.journal.deltas, []string{"I will look.", "I have looked."}); diff != "" {
		t.Errorf("shown: -got +want\n%s", diff)
	}
}

func TestRun_ModelFaults(t *testing.T) {
	long := strings.Repeat("x", 129)
	busy := agent.Errorf(agent.KindProviderTimeout, "Too slow.")
	for _, tt := range []struct {
		name   string
		script []reply
		kind   agent.Kind
		says   string
		ran    int // tools
	}{
		{"says nothing", []reply{{}}, agent.KindProviderFailed, "nothing", 0},
		{"says an empty text", []reply{says("")}, agent.KindProviderFailed, "nothing", 0},
		{"only thinks", []reply{{items: []json.RawMessage{json.RawMessage(`{"type":"reasoning","summary":[]}`)}}}, agent.KindProviderFailed, "nothing", 0},
		{"breaks off", []reply{{cut: true}}, agent.KindProviderFailed, "broke off", 0},
		{"breaks off in its text", []reply{{deltas: []string{"Hel"}, cut: true}}, agent.KindProviderFailed, "broke off", 0},
		{"fails", []reply{{err: busy}}, agent.KindProviderTimeout, "Too slow.", 0},
		{"fails in its text", []reply{{deltas: []string{"Hel"}, err: busy}}, agent.KindProviderTimeout, "Too slow.", 0},
		{"calls without an id", []reply{calls(call("", "look", "{}"))}, agent.KindProviderFailed, "id", 0},
		{"calls twice with one id", []reply{calls(call("c1", "look", "{}"), call("c1", "look", "{}"))}, agent.KindProviderFailed, `"c1"`, 0},
		{"calls with an id of a call before", []reply{calls(call("c1", "look", "{}")), calls(call("c1", "look", "{}"))}, agent.KindProviderFailed, `"c1"`, 1},
		{"calls with an id that is too long", []reply{calls(call(long, "look", "{}"))}, agent.KindProviderFailed, "id", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, tt.script...)
			_, err := r.run(t.Context())
			if agent.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("got %v, want %s with %q", err, tt.kind, tt.says)
			}
			if len(r.look.ran) != tt.ran {
				t.Errorf("%d tools ran, want %d", len(r.look.ran), tt.ran)
			}
			if kinds := r.journal.kinds(); kinds[len(kinds)-1] != agent.StepAsked {
				t.Errorf("an answer that cannot be used is in the journal: %v", kinds)
			}
		})
	}
	r := newRig(t, calls(call(long[:128], "look", "{}")), says("Done."))
	if out := r.finish(); out.Text != "Done." {
		t.Errorf("an id of 128 characters: answer %q", out.Text)
	}
}

func TestRun_OutputBound(t *testing.T) {
	text := func(n int) string { return strings.Repeat("x", n) }
	frame := len(says("").items[0])
	for _, tt := range []struct {
		name   string
		limit  int
		script []reply
		fails  bool
		shown  int // pieces
	}{
		{"just enough", frame + 10, []reply{says(text(10))}, false, 1},
		{"one byte too many", frame + 10, []reply{says(text(11))}, true, 1},
		{"while it streams, before the piece is shown", 10, []reply{{deltas: []string{text(6), text(5)}, items: says(text(11)).items}}, true, 1},
		{"all calls of the turn together", 2*frame + 200, []reply{says(text(100), call("c1", "look", "{}")), says(text(100))}, true, 2},
		{"and what is streaming counts with what was before", 2*frame + 200, []reply{says(text(200), call("c1", "look", "{}")), {deltas: []string{text(100)}, cut: true}}, true, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, tt.script...)
			r.limits.OutputBytes = tt.limit
			r.start()
			_, err := r.run(t.Context())
			if failed := agent.KindOf(err) == agent.KindLimitReached; err != nil && !failed || failed != tt.fails {
				t.Errorf("got %v, want limit_reached: %t", err, tt.fails)
			}
			if len(r.journal.deltas) != tt.shown {
				t.Errorf("%d pieces were shown, want %d", len(r.journal.deltas), tt.shown)
			}
		})
	}
}

func TestRun_ModelCallBudget(t *testing.T) {
	r := newRig(t, calls(call("c1", "look", "{}")), calls(call("c2", "look", "{}")))
	r.limits.ModelCalls = 3
	r.start()
	r.died(answered(call("c0", "look", "{}"))) // the first of the three, before the restart
	_, err := r.run(t.Context())
	if agent.KindOf(err) != agent.KindLimitReached || !strings.Contains(err.Error(), "3 model calls") {
		t.Errorf("got %v, want limit_reached", err)
	}
	if len(r.model.asked) != 2 {
		t.Errorf("the model was asked %d times after the restart, want 2", len(r.model.asked))
	}
}

func TestRun_FollowUpCalls(t *testing.T) {
	prove.Rule(t, "AGN011-5.3-a", "AGN011-5.3-b", "AGN011-4.4-b", "AGN011-4.7-c")
	r := newRig(t, calls(call("c1", tool.ChangeMode, `{"mode":"ddr_authoring","reason":"r"}`)), says("Switched."))
	r.turn.Request.Artifacts = []agent.Artifact{{RelativePath: "a.go", FileName: "a.go", Contents: "package a", Origin: "ide"}}
	r.turn.RAGContextBlock = "[CONTEXT]\nthe docs\n"
	r.turn.Request.ToolChoiceName = "look"
	r.finish()
	var asked []*agent.Asked
	for _, s := range r.journal.all() {
		if s.Asked != nil {
			asked = append(asked, s.Asked)
		}
	}
	first, second := asked[0], asked[1]
	for _, s := range []string{"[MODE: general]", "Do it", "package a", "the docs"} {
		if !strings.Contains(first.Canonical, s) {
			t.Errorf("the first request lacks %q: %s", s, first.Canonical)
		}
		if strings.Contains(second.Canonical, s) {
			t.Errorf("the second request repeats %q: %s", s, second.Canonical)
		}
	}
	if !strings.Contains(second.Canonical, "[MODE: ddr_authoring]") || second.Mode != "ddr_authoring" || first.Mode != "general" {
		t.Errorf("request.Mode is %s, then %s; want it to follow the change: %s", first.Mode, second.Mode, second.Canonical)
	}
	if !strings.Contains(second.Canonical, `"previous_response_id":"resp_1"`) {
		t.Errorf("the second request does not continue the first: %s", second.Canonical)
	}
	one, two := r.asked(1), r.asked(2)
	if !strings.Contains(one.Instructions, "Current mode: general\n") || !strings.Contains(two.Instructions, "Current mode: ddr_authoring\n") {
		t.Errorf("the instructions do not follow the mode:\n%s\n%s", one.Instructions, two.Instructions)
	}
	if diff := cmp.Diff(one.tools(), two.tools()); diff != "" || len(one.tools()) != 4 {
		t.Errorf("the tools of the turn %v changed: -first +second\n%s", one.tools(), diff)
	}
	if body := string(r.model.asked[1]); strings.Contains(body, "tool_choice") {
		t.Errorf("the second call still forces a tool: %s", body)
	}
}

func TestRun_Continuity(t *testing.T) {
	earlier := []json.RawMessage{message("output_text", "text", "Earlier.")}
	for _, chain := range []bool{false, true} {
		r := newRig(t, calls(call("c1", "look", "{}")), says("Done."))
		r.turn.Chain, r.turn.Transcript.Items = chain, earlier
		r.turn.Request.ResponseContinuationID = "resp_before"
		if chain {
			r.turn.Transcript.Items = nil
		}
		r.finish()
		for n, previous := range map[int]string{1: "resp_before", 2: "resp_1"} {
			w := r.asked(n)
			if !chain {
				previous = ""
			}
			if w.PreviousResponseID != previous {
				t.Errorf("chain %t, request %d: previous_response_id %q, want %q", chain, n, w.PreviousResponseID, previous)
			}
			if got := strings.Contains(string(r.model.asked[n-1]), "Earlier."); got == chain {
				t.Errorf("chain %t, request %d: the transcript is sent: %t", chain, n, got)
			}
		}
		// The second request brings the call again only when nobody remembers it.
		if got := strings.Contains(string(r.model.asked[1]), `"function_call"`); got == chain {
			t.Errorf("chain %t: the call is sent again: %t", chain, got)
		}
	}
}

// The cause of a broken context says how a turn ends, whoever notices first.
func TestRun_BrokenOff(t *testing.T) {
	stop := errors.New("the server stops")
	for name, prepare := range map[string]func(*rig, context.CancelCauseFunc){
		"before it begins": func(_ *rig, cancel context.CancelCauseFunc) { cancel(stop) },
		"in the model call": func(r *rig, cancel context.CancelCauseFunc) {
			r.model.script[0] = reply{first: func() { cancel(stop) }, err: context.Canceled}
		},
		"in the store": func(r *rig, cancel context.CancelCauseFunc) {
			r.journal.refuse = func(s agent.Step) error {
				if s.Kind != agent.StepToolStarted {
					return nil
				}
				cancel(stop)
				return context.Canceled
			}
		},
		"in a tool": func(r *rig, cancel context.CancelCauseFunc) {
			r.look.run = func(ctx context.Context, _ string) (string, error) { cancel(stop); return "", ctx.Err() }
		},
		"in a tool that panics over it": func(r *rig, cancel context.CancelCauseFunc) {
			r.look.run = func(context.Context, string) (string, error) { cancel(stop); panic("stopped") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			r := newRig(t, calls(call("c1", "look", "{}")))
			prepare(r, cancel)
			if _, err := r.run(ctx); err != stop {
				t.Errorf("got %v, want the cause", err)
			}
			for _, s := range r.journal.all() {
				if s.Kind == agent.StepToolFinished {
					t.Errorf("the tool that was broken off has the result %+v", s.ToolFinished.Result)
				}
			}
		})
	}
}

// An answer that is there is given, also when time is up.
func TestRun_AnswerThatIsThereCounts(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("time is up"))
	r := newRig(t)
	r.died(answered(says("In time.").items...))
	out, err := r.run(ctx)
	if err != nil || out.Text != "In time." {
		t.Errorf("answer %q (%v)", out.Text, err)
	}
}

func TestAbandon(t *testing.T) {
	steps := []agent.Step{
		{Kind: agent.StepAsked, Asked: &agent.Asked{Call: 1}},
		answered(call("c1", "look", "{}"), call("c2", "read_file", "{}"), call("c3", "write", "{}"), call("c4", "read_file", "{}")),
		startedStep("c1", "look"), finishedStep("c1", "look", "ok"), startedStep("c3", "write"),
		continuedStep(agent.ToolResult{CallID: "c4", Code: agent.OutcomeOK}),
	}
	var got []string
	for _, r := range reasoner.Abandon(steps) {
		if r.Code != agent.OutcomeCancelled || r.Err == "" {
			t.Errorf("abandoned call %+v, want it cancelled, with a text", r)
		}
		got = append(got, string(r.CallID)+" "+r.Name)
	}
	if diff := cmp.Diff(got, []string{"c2 read_file", "c3 write"}); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
	if got := reasoner.Abandon(nil); got != nil {
		t.Errorf("abandoned %+v of an empty journal", got)
	}
}

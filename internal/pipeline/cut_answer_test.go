package pipeline_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/tool"
)

// A streamed answer with a server tool call is cut after each of its events: the turn
// fails, the tool never runs, the mode stays, the model is not asked a second time.
func TestAnswerCutAtEachEvent_RunsNoTool(t *testing.T) {
	change := llmtest.Call{ID: "c1", Name: tool.ChangeMode, Arguments: `{"mode":"ddr_authoring","branch":false,"reason":"The user agreed."}`}
	const cuts = 18 // the fake sends eighteen events; the last one ends the answer
	var replies []llmtest.Reply
	for n := range cuts {
		cut := n
		if n == 0 {
			cut = -1 // before the first byte
		}
		replies = append(replies, llmtest.Reply{Text: "One moment.", Calls: []llmtest.Call{change}, Cut: cut})
	}
	r := newRig(t, withModel(t, replies...))
	for n := range cuts {
		stream := true
		u := userTurn(fmt.Sprintf("s%d", n), "t1", "Switch")
		u.Stream = &stream
		turn := r.run(pipeline.Execution{UserTurn: u})
		if turn.State != agent.TurnFailed || turn.Fault.Kind != agent.KindProviderFailed {
			t.Errorf("cut after %d events: turn %s with fault %+v, want failed with provider_failed", n, turn.State, turn.Fault)
		}
		steps, err := r.store.Steps(t.Context(), turn.Key)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range steps {
			if s.Kind == agent.StepToolStarted || s.Kind == agent.StepAnswered {
				t.Errorf("cut after %d events: the journal has a step %s", n, s.Kind)
			}
		}
		s, err := r.store.Session(t.Context(), turn.Key.Org, turn.Key.Session)
		if err != nil {
			t.Fatal(err)
		}
		if s.Mode != agent.ModeGeneral {
			t.Errorf("cut after %d events: mode %s", n, s.Mode)
		}
		if got := len(r.provider.Requests()); got != n+1 {
			t.Errorf("cut after %d events: %d requests so far, want %d", n, got, n+1)
		}
	}
}

// Every end of an answer but a complete one is a state of its own, with its reason.
func TestAnswersThatAreNone_SayWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		reply llmtest.Reply
		want  string
	}{
		"cut short":       {llmtest.Reply{Text: "So far", Incomplete: "max_output_tokens"}, "max_output_tokens"},
		"filtered":        {llmtest.Reply{Incomplete: "content_filter"}, "content_filter"},
		"failed":          {llmtest.Reply{Failure: "Out of luck"}, "Out of luck"},
		"empty":           {llmtest.Reply{}, "answered with nothing"},
		"a call of no id": {llmtest.Reply{Raw: `{"id":"r","status":"completed","output":[{"type":"function_call","name":"f","arguments":"{}"}]}`}, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withModel(t, tc.reply))
			turn := r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Go")})
			kind := agent.KindProviderFailed
			if tc.reply.Incomplete != "" {
				kind = agent.KindAnswerIncomplete
			}
			if turn.State != agent.TurnFailed || turn.Fault.Kind != kind || !strings.Contains(turn.Fault.Message, tc.want) {
				t.Errorf("turn %s with fault %+v, want failed with %q", turn.State, turn.Fault, tc.want)
			}
		})
	}
	t.Run("a refusal is an answer", func(t *testing.T) {
		r := newRig(t, withModel(t, llmtest.Reply{Refusal: "I will not."}))
		if got := r.answer(r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Go")})).PrimaryOutputText; got != "I will not." {
			t.Errorf("answer %q", got)
		}
	})
}

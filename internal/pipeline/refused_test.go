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

// rounds are answers of a model, each with the calls of one round.
func rounds(calls ...[]llmtest.Call) []llmtest.Reply {
	var out []llmtest.Reply
	for n, round := range calls {
		for i := range round {
			round[i].ID = fmt.Sprintf("c%d_%d", n, i)
		}
		out = append(out, llmtest.Reply{Calls: round})
	}
	return out
}

func TestCallsThatCannotRun_FailTheTurnUnlessTheModelLearns(t *testing.T) {
	unknown := llmtest.Call{Name: "rm_rf", Arguments: `{}`}
	unfit := llmtest.Call{Name: tool.ListModes, Arguments: `{"includeExamples":"sometimes"}`}
	broken := llmtest.Call{Name: tool.ListModes, Arguments: `{"includeEx`}
	large := llmtest.Call{Name: tool.ListModes, Arguments: `{"x":"` + strings.Repeat("y", 1<<20) + `"}`}
	good := llmtest.Call{Name: tool.ListModes, Arguments: `{}`}
	one := func(c ...llmtest.Call) []llmtest.Call { return c }
	for name, tc := range map[string]struct {
		rounds [][]llmtest.Call
		fails  bool
	}{
		"three times":            {[][]llmtest.Call{one(unknown), one(unfit), one(broken)}, true},
		"several at once":        {[][]llmtest.Call{one(unknown, unfit), one(unknown, unknown), one(broken, unfit)}, true},
		"1 MB of arguments":      {[][]llmtest.Call{one(large)}, false},
		"two times":              {[][]llmtest.Call{one(unknown), one(unfit)}, false},
		"a good one among them":  {[][]llmtest.Call{one(unknown), one(unfit, good), one(broken), one(unknown)}, false},
		"a good one in between":  {[][]llmtest.Call{one(unknown), one(unfit), one(good), one(broken), one(unknown)}, false},
		"and again after a good": {[][]llmtest.Call{one(unknown), one(good), one(unknown), one(unfit), one(broken)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			replies := rounds(tc.rounds...)
			if !tc.fails {
				replies = append(replies, llmtest.Reply{Text: "Done."})
			}
			r := newRig(t, withModel(t, replies...))
			turn := r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Go")})
			if got := len(r.provider.Requests()); got != len(replies) {
				t.Errorf("%d model calls, want %d", got, len(replies))
			}
			if !tc.fails {
				if got := r.answer(turn).PrimaryOutputText; got != "Done." {
					t.Errorf("answer %q", got)
				}
				return
			}
			if turn.State != agent.TurnFailed || turn.Fault.Kind != agent.KindLimitReached || !strings.Contains(turn.Fault.Message, "3 times in a row") {
				t.Errorf("turn %s with fault %+v, want failed with limit_reached", turn.State, turn.Fault)
			}
		})
	}
}

func TestCallsOfOneAnswerAreBounded(t *testing.T) {
	many := func(n int) []llmtest.Call {
		out := make([]llmtest.Call, n)
		for i := range out {
			out[i] = llmtest.Call{Name: tool.ListModes, Arguments: `{}`}
		}
		return out
	}
	for n, fails := range map[int]bool{128: false, 129: true, 1000: true} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			replies := rounds(many(n))
			if !fails {
				replies = append(replies, llmtest.Reply{Text: "Done."})
			}
			r := newRig(t, withModel(t, replies...))
			turn := r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Go")})
			switch {
			case !fails:
				if got := r.answer(turn).PrimaryOutputText; got != "Done." {
					t.Errorf("answer %q", got)
				}
			case turn.State != agent.TurnFailed || turn.Fault.Kind != agent.KindLimitReached:
				t.Errorf("turn %s with fault %+v, want failed with limit_reached", turn.State, turn.Fault)
			}
			steps, err := r.store.Steps(t.Context(), turn.Key)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range steps {
				if fails && s.Kind == agent.StepToolStarted {
					t.Fatal("a tool ran")
				}
			}
		})
	}
}

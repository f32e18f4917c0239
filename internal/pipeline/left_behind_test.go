package pipeline_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/reasoner"
	"github.com/aptixhq/aptix/internal/tool"
)

// stubborn is a tool that does not end when it is told to.
func stubborn(t *testing.T, name string, started chan<- struct{}, release <-chan struct{}) tool.Tool {
	t.Helper()
	type none struct{}
	x, err := tool.New(tool.Definition{Name: name, Description: "d", Usage: "u"},
		func(context.Context, *tool.ExecutionContext, none) (string, error) {
			started <- struct{}{}
			<-release
			return "late", nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// A tool that does not heed its context holds up neither its turn nor the next one.
func TestToolLeftBehind_HoldsUpNothing(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cancel bool
		told   string
	}{
		{"its time is up", false, "may still be at work"},
		{"the turn is cancelled", true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &logBuffer{}
			started, release := make(chan struct{}, 1), make(chan struct{})
			r := newRig(t, withLog(b), withModel(t, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "stubborn", Arguments: "{}"}}}, llmtest.Reply{Text: "Over."}),
				func(r *rig) {
					r.extra, r.catalog = []tool.Tool{stubborn(t, "stubborn", started, release)}, toolCatalog(t, "stubborn")
					r.limits = reasoner.Limits{ToolTime: time.Minute, ToolGrace: 20 * time.Millisecond}
					if !tt.cancel {
						r.limits.ToolTime = 20 * time.Millisecond
					}
				})
			first := r.submit(userTurn("s1", "t1", "First"))
			<-started
			if tt.cancel {
				if err := r.pipeline.Cancel(t.Context(), first); err != nil {
					t.Fatal(err)
				}
				if turn := r.await(first); turn.State != agent.TurnCancelled {
					t.Errorf("the turn is %s", turn.State)
				}
				first = r.submit(userTurn("s1", "t2", "Second"))
			}
			turn := r.await(first)
			if got := r.answer(turn).PrimaryOutputText; got != "Over." {
				t.Errorf("answer %q", got)
			}
			if sent := string(r.provider.Requests()[1]); !strings.Contains(sent, tt.told) {
				t.Errorf("the model is not told %q: %s", tt.told, sent)
			}
			close(release)
			for !strings.Contains(b.String(), "a tool that was left behind has ended") {
				if t.Context().Err() != nil {
					t.Fatal("the log does not say that the tool has ended")
				}
				time.Sleep(time.Millisecond)
			}
			if !strings.Contains(b.String(), "is left behind") {
				t.Errorf("the log does not name the tool:\n%s", b.String())
			}
		})
	}
}

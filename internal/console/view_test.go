package console_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/console"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/tool"
)

// A turn that ends while its journal is read is shown with its answer: nobody follows one
// that has ended.
func TestCard_OfATurnThatEndsMeanwhile(t *testing.T) {
	c, err := console.New(console.Config{Turns: &endingTurns{}, Sessions: oneSession{}, Catalog: mode.Builtin(), Registry: &tool.Registry{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Pages() {
		if p.Pattern != "/sessions/{sessionId}/turns/{turnId}/card" {
			continue
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/sessions/s1/turns/t1/card", nil)
		r.SetPathValue("sessionId", "s1")
		r.SetPathValue("turnId", "t1")
		w := httptest.NewRecorder()
		if err := p.Serve(w, r, agent.Caller{Org: "acme"}); err != nil {
			t.Fatal(err)
		}
		if card := w.Body.String(); !strings.Contains(card, "completed") || !strings.Contains(card, "The answer.") {
			t.Errorf("card %s", card)
		}
		return
	}
	t.Fatal("there is no such page")
}

// endingTurns has one turn, which ends when its journal is read for the first time.
type endingTurns struct {
	turns
	ended bool
}

func (f *endingTurns) Turn(_ context.Context, k agent.TurnKey) (agent.Turn, error) {
	t := agent.Turn{Key: k, State: agent.TurnRunning, Request: json.RawMessage(`{"instruction":"Hi"}`)}
	if f.ended {
		t.State = agent.TurnCompleted
	}
	return t, nil
}

func (f *endingTurns) Steps(context.Context, agent.TurnKey) ([]agent.Step, error) {
	steps := []agent.Step{{N: 1, Kind: agent.StepAccepted, FirstEvent: 1}}
	if f.ended {
		steps = append(steps, agent.Step{N: 2, Kind: agent.StepSettled, FirstEvent: 2,
			Settled: &agent.Settled{State: agent.TurnCompleted, Response: json.RawMessage(`{"primaryOutputText":"The answer."}`)}})
	}
	f.ended = true
	return steps, nil
}

type oneSession struct{ console.Sessions }

func (oneSession) Get(_ context.Context, by agent.Caller, id agent.SessionID) (agent.Session, error) {
	return agent.Session{Org: by.Org, ID: id, Mode: agent.ModeGeneral}, nil
}

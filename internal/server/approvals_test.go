package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
)

// asking is a server whose model lists modes only with its user's approval.
func asking(p *parts) { p.rules = agent.ApprovalRules{"agent_list_modes": agent.ApprovalAsk} }

const askTwice = `{"sessionId":"s1","turnId":"t1","instruction":"call agent_list_modes {}"}`

func TestWhole_ApprovalIsGivenOverHTTP(t *testing.T) {
	r := newWhole(t, asking)
	a := r.do(t, "POST", "/v1/agent/execute", askTwice)
	a.wantStatus(t, 200)
	waiting := decode[contract.ClientToolContinuation](t, a)
	if waiting.Kind != contract.AnswerClientTools || len(waiting.ToolCalls) != 0 || len(waiting.Approvals) != 1 {
		t.Fatalf("got %s", a.Body)
	}
	pending := decode[List[agent.Approval]](t, r.do(t, "GET", "/v1/sessions/s1/turns/t1/approvals", "")).Data
	if len(pending) != 1 || pending[0].ID != waiting.Approvals[0].ID {
		t.Errorf("pending are %+v, the answer has %+v", pending, waiting.Approvals)
	}
	const path = "/v1/sessions/s1/turns/t1/approvals/apr_1"
	r.do(t, "POST", path, `{"decision":"maybe"}`).want(t, agent.KindInvalidRequest)
	r.do(t, "POST", path, `{"decision":"approve","user":"root"}`).want(t, agent.KindInvalidRequest)
	r.do(t, "POST", path, `{"decision":"approve"}`, "Origin", "https://evil.com").want(t, agent.KindForbidden)
	r.do(t, "POST", "/v1/sessions/s1/turns/t1/approvals/apr_9", `{"decision":"approve"}`).want(t, agent.KindNotFound)
	first := r.do(t, "POST", path, `{"decision":"approve","remember":true}`)
	first.wantStatus(t, 200)
	decided := decode[Decided](t, first)
	if decided.Decision != agent.DecisionApprove || decided.DecidedBy != "local" || decided.DecidedAt.IsZero() || !decided.Remember {
		t.Errorf("got %+v", decided)
	}
	final := r.do(t, "POST", "/v1/agent/execute", askTwice) // the same turn: its outcome
	if got := decode[contract.Final](t, final); got.Kind != contract.AnswerFinal || got.ToolResults[0].Outcome != agent.OutcomeOK {
		t.Errorf("got %s", final.Body)
	}
	if again := r.do(t, "POST", path, `{"decision":"approve","remember":true}`); again.Body.String() != first.Body.String() {
		t.Errorf("the same decision again: %s, at first %s", again.Body, first.Body)
	}
	r.do(t, "POST", path, `{"decision":"deny"}`).want(t, agent.KindApprovalDecided)
	if s := decode[Session](t, r.do(t, "GET", "/v1/sessions/s1", "")); !slices.Contains(s.ApprovedTools, "agent_list_modes") {
		t.Errorf("the session has approved %v", s.ApprovedTools)
	}
	if left := decode[List[agent.Approval]](t, r.do(t, "GET", "/v1/sessions/s1/turns/t1/approvals", "")).Data; len(left) != 0 {
		t.Errorf("still pending: %+v", left)
	}
	once := r.do(t, "POST", "/v1/agent/execute", `{"sessionId":"s1","turnId":"t2","instruction":"call agent_list_modes {}"}`)
	if decode[contract.Final](t, once).Kind != contract.AnswerFinal {
		t.Errorf("what is approved for the session is asked again: %s", once.Body)
	}
}

// Of decisions that come at the same time one counts, and all say the same of it.
func TestWhole_DecisionsAtTheSameTime(t *testing.T) {
	r := newWhole(t, asking)
	for n := range 10 {
		body := fmt.Sprintf(`{"sessionId":"s%d","turnId":"t1","instruction":"call agent_list_modes {}"}`, n)
		r.do(t, "POST", "/v1/agent/execute", body).wantStatus(t, 200)
		path := fmt.Sprintf("/v1/sessions/s%d/turns/t1/approvals/apr_1", n)
		var mu sync.Mutex // guards counted
		counted := map[string]int{}
		var work sync.WaitGroup
		for i := range 8 {
			decision := []string{"approve", "deny"}[i%2]
			work.Go(func() {
				a := r.do(t, "POST", path, `{"decision":"`+decision+`"}`)
				mu.Lock()
				defer mu.Unlock()
				counted[fmt.Sprint(decision, " ", a.Code)]++
			})
		}
		work.Wait()
		final := decode[contract.Final](t, r.do(t, "POST", "/v1/agent/execute", body))
		won, lost := "approve", "deny"
		if final.ToolResults[0].Outcome == agent.OutcomeDenied {
			won, lost = lost, won
		}
		if counted[won+" 200"] != 4 || counted[lost+" 409"] != 4 {
			t.Errorf("the call ended as %s; the decisions were answered %v", final.ToolResults[0].Outcome, counted)
		}
	}
}

func TestWhole_ConsentIsInTheHistory(t *testing.T) {
	r := newWhole(t, func(p *parts) { p.consent = true })
	const turn = `{"sessionId":"s1","turnId":"t1","instruction":"call agent_change_mode {\"mode\":\"ddr_authoring\",\"branch\":false,\"reason\":\"r\"}"}`
	r.do(t, "POST", "/v1/agent/execute", turn).wantStatus(t, 200)
	if s := decode[Session](t, r.do(t, "GET", "/v1/sessions/s1", "")); s.Mode != agent.ModeGeneral {
		t.Fatalf("without consent the session is in %s", s.Mode)
	}
	r.do(t, "POST", "/v1/sessions/s1/turns/t1/approvals/apr_1", `{"decision":"switch_and_branch"}`).wantStatus(t, 200)
	final := decode[contract.Final](t, r.do(t, "POST", "/v1/agent/execute", turn))
	if final.Mode != "ddr_authoring" || final.ModeChange == nil || !final.ModeChange.Branch {
		t.Errorf("got %+v", final)
	}
	history := decode[List[ModeChange]](t, r.do(t, "GET", "/v1/sessions/s1/mode-history", "")).Data
	if len(history) != 1 || history[0].ApprovalID != "apr_1" || history[0].User != "local" || history[0].Actor != agent.ActorModel || !history[0].Branch {
		t.Errorf("got %+v", history)
	}
}

func TestWhole_Branch(t *testing.T) {
	r := newWhole(t)
	r.do(t, "POST", "/v1/agent/execute", hello).wantStatus(t, 200)
	const path = "/v1/sessions/s1/branch"
	first := r.do(t, "POST", path, `{"sessionId":"s2","mode":"ddr_authoring"}`)
	first.wantStatus(t, 201)
	s := decode[Session](t, first)
	if s.SessionID != "s2" || s.Mode != "ddr_authoring" || s.Parent == nil || *s.Parent != (Parent{"s1", "t1"}) || s.Turns != 1 {
		t.Errorf("got %s", first.Body)
	}
	if got := first.Header().Get("Location"); got != "/v1/sessions/s2" {
		t.Errorf("Location is %s", got)
	}
	r.do(t, "POST", "/v1/agent/execute", `{"sessionId":"s1","turnId":"t2","instruction":"hello"}`).wantStatus(t, 200)
	r.do(t, "PUT", "/v1/sessions/s2/mode", `{"mode":"general","reason":"r"}`).wantStatus(t, 200)
	again := r.do(t, "POST", path, `{"sessionId":"s2","mode":"ddr_authoring"}`)
	again.wantStatus(t, 201)
	if s := decode[Session](t, again); s.Parent == nil || s.Parent.TurnID != "t1" || s.Mode != agent.ModeGeneral {
		t.Errorf("the same branch again: %s", again.Body)
	}
	for name, body := range map[string]string{
		"another mode": `{"sessionId":"s2","mode":"workflow_authoring"}`, "another turn": `{"sessionId":"s2","atTurnId":"t2"}`, "the parent itself": `{"sessionId":"s1"}`,
	} {
		if a := r.do(t, "POST", path, body); a.Code != 409 {
			t.Errorf("%s: got %d %s", name, a.Code, a.Body)
		}
	}
	r.do(t, "POST", path, `{"mode":"nowhere"}`).want(t, agent.KindUnknownMode)
	r.do(t, "POST", path, `{"atTurnId":"t9"}`).want(t, agent.KindNotFound)
	r.do(t, "POST", path, `{"atTurn":"t1"}`).want(t, agent.KindInvalidRequest)
	r.do(t, "POST", "/v1/sessions/none/branch", `{}`).want(t, agent.KindNotFound)

	turns := decode[List[Turn]](t, r.do(t, "GET", "/v1/sessions/s2/turns", "")).Data
	if len(turns) != 1 || turns[0].TurnID != "t1" || turns[0].SessionID != "s2" {
		t.Errorf("the branch has the turns %+v", turns)
	}
	r.do(t, "DELETE", "/v1/sessions/s1", "").wantStatus(t, 204)
	a := r.do(t, "POST", "/v1/agent/execute", `{"sessionId":"s2","turnId":"t2","instruction":"hello"}`)
	a.wantStatus(t, 200)
	calls := decode[List[ModelCall]](t, r.do(t, "GET", "/v1/sessions/s2/turns/t2/requests", "")).Data
	var wire struct{ Input []json.RawMessage }
	unmarshal(t, calls[0].Wire, &wire)
	if len(wire.Input) < 4 { // system, user and the answer of t1, and the new one
		t.Errorf("the model was sent %d items", len(wire.Input))
	}
}

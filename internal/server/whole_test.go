package server

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/prove"
)

func TestWhole_StreamedAndPlainTurnsEndAlike(t *testing.T) {
	prove.Rule(t, "AGN034-4.7-a", "AGN034-4.7-b", "AGN034-4.7-d")
	r := newWhole(t)
	const ask = `"turnId":"t1","instruction":"call agent_list_modes {}"`
	plain := r.do(t, "POST", "/v1/agent/execute", `{"sessionId":"s1",`+ask+`}`)
	plain.wantStatus(t, 200)
	streamed := parseSSE(t, r.do(t, "POST", "/v1/agent/execute", `{"sessionId":"s2",`+ask+`,"stream":true}`).Body.String())

	want := decode[contract.Final](t, plain)
	var last struct{ Response contract.Final }
	unmarshal(t, streamed[len(streamed)-1].data, &last)
	got := last.Response
	got.SessionID, got.Usage = want.SessionID, want.Usage // the demo model counts the bytes of the request, in which stream stands
	for i := range got.ToolResults {
		got.ToolResults[i].ExecutionMs = want.ToolResults[i].ExecutionMs
		got.ToolResults[i].ToolCallID = want.ToolResults[i].ToolCallID
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers of the plain and the streamed turn (-plain +streamed):\n%s", diff)
	}

	// The stream can be had again, from anywhere, of both.
	again := parseSSE(t, r.do(t, "GET", "/v1/sessions/s2/turns/t1/events", "").Body.String())
	if diff := cmp.Diff(streamed, again, cmp.AllowUnexported(sent{})); diff != "" {
		t.Errorf("the stream read again (-first +again):\n%s", diff)
	}
	rest := parseSSE(t, r.do(t, "GET", "/v1/sessions/s2/turns/t1/events", "", "Last-Event-ID", "2").Body.String())
	if diff := cmp.Diff(streamed[2:], rest, cmp.AllowUnexported(sent{})); diff != "" {
		t.Errorf("the rest of the stream (-first +resumed):\n%s", diff)
	}
	if replay := r.do(t, "POST", "/v1/agent/execute", `{"sessionId":"s1",`+ask+`}`); replay.Body.String() != plain.Body.String() {
		t.Errorf("the same turn again is answered with %s, want %s", replay.Body, plain.Body)
	}
}

func TestWhole_PreviewIsWhatIsSent(t *testing.T) {
	r := newWhole(t)
	p := decode[Preview](t, r.do(t, "POST", "/v1/agent/preview", hello))
	r.do(t, "GET", "/v1/sessions/s1", "").want(t, agent.KindNotFound)
	r.do(t, "POST", "/v1/agent/execute", hello).wantStatus(t, 200)
	calls := decode[List[ModelCall]](t, r.do(t, "GET", "/v1/sessions/s1/turns/t1/requests", "")).Data
	if len(calls) == 0 || calls[0].Wire != p.Wire || calls[0].WireSHA256 != p.WireSHA256 || calls[0].Canonical != p.Canonical || calls[0].CanonicalSHA256 != p.CanonicalSHA256 {
		t.Errorf("previewed %+v, sent %+v", p, calls)
	}
}

func TestWhole_ClientToolsAndWhatGoesWrongWithThem(t *testing.T) {
	r := newWhole(t)
	r.do(t, "POST", "/v1/sessions", `{"sessionId":"s1","tools":[{"type":"function","name":"read_file","description":"Reads.",`+
		`"parameters":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}]}`).wantStatus(t, 201)
	const turn = `{"sessionId":"s1","turnId":"t1","instruction":"call read_file {\"path\":\"a\"} call read_file {\"path\":\"b\"}"}`
	asked := decode[contract.ClientToolContinuation](t, r.do(t, "POST", "/v1/agent/execute", turn))
	if len(asked.ToolCalls) != 2 {
		t.Fatalf("got calls %+v", asked.ToolCalls)
	}
	results := func(first, second agent.CallID) string {
		one := func(id agent.CallID) string {
			return `{"toolCallId":"` + string(id) + `","executionMs":1,"resultJson":"{}"}`
		}
		return `{"sessionId":"s1","turnId":"t1","toolResults":[` + one(first) + `,` + one(second) + `]}`
	}
	a, b := asked.ToolCalls[0].ID, asked.ToolCalls[1].ID

	r.do(t, "POST", "/v1/agent/execute", strings.Replace(turn, "t1", "t2", 1)).want(t, agent.KindTurnInProgress)
	r.do(t, "POST", "/v1/agent/execute", strings.Replace(turn, "call", "use", 1)).want(t, agent.KindTurnConflict)
	if p := r.do(t, "POST", "/v1/agent/execute", results(b, a)).want(t, agent.KindToolResultsMismatch); len(p.Violations) == 0 {
		t.Errorf("got %+v, want every mismatch", p)
	}
	stream := r.do(t, "GET", "/v1/sessions/s1/turns/t1/events", "")
	if events := parseSSE(t, stream.Body.String()); events[len(events)-1].event != "turn.waiting" {
		t.Errorf("a waiting turn's stream ends with %+v", events[len(events)-1])
	}
	done := r.do(t, "POST", "/v1/agent/execute", results(a, b))
	done.wantStatus(t, 200)
	if again := r.do(t, "POST", "/v1/agent/execute", results(a, b)); again.Body.String() != done.Body.String() {
		t.Errorf("the same results again are answered with %s, want %s", again.Body, done.Body)
	}
	r.do(t, "POST", "/v1/agent/execute", results(a, a)).want(t, agent.KindTurnNotWaiting)
	r.do(t, "POST", "/v1/agent/execute", strings.Replace(results(a, b), "t1", "none", 1)).want(t, agent.KindNotFound)
	r.do(t, "POST", "/v1/agent/execute", strings.Replace(turn, `"turnId":"t1"`, `"turnId":"t3","agentContextId":"other"`, 1)).problem(t)
	if l := decode[List[Turn]](t, r.do(t, "GET", "/v1/sessions/s1/turns", "")); len(l.Data) != 1 || l.Data[0].State != agent.TurnCompleted {
		t.Errorf("got turns %+v", l.Data)
	}
}

func TestWhole_CancelAndErase(t *testing.T) {
	r := newWhole(t)
	r.do(t, "POST", "/v1/sessions", `{"sessionId":"s1","tools":[{"type":"function","name":"read_file","parameters":{"type":"object","properties":{}}}]}`).wantStatus(t, 201)
	const turn = `{"sessionId":"s1","turnId":"t1","instruction":"call read_file {}"}`
	r.do(t, "POST", "/v1/agent/execute", turn).wantStatus(t, 200)
	if got := decode[Turn](t, r.do(t, "POST", "/v1/sessions/s1/turns/t1/cancel", "")).State; got != agent.TurnCancelled {
		t.Errorf("got state %s", got)
	}
	r.do(t, "POST", "/v1/agent/execute", turn).want(t, agent.KindTurnCancelled)
	r.do(t, "DELETE", "/v1/sessions/s1", "").wantStatus(t, 204)
	r.do(t, "GET", "/v1/sessions/s1/turns/t1", "").want(t, agent.KindNotFound)
	r.do(t, "GET", "/v1/sessions/s1/turns", "").want(t, agent.KindNotFound)
}

func TestWhole_SessionsModesAndHistory(t *testing.T) {
	r := newWhole(t)
	r.do(t, "POST", "/v1/sessions", `{"mode":"no_such"}`).want(t, agent.KindUnknownMode)
	r.do(t, "POST", "/v1/sessions", `{"agentContextId":"no_such"}`).want(t, agent.KindUnknownContext)
	r.do(t, "POST", "/v1/sessions", `{"tools":[{"type":"function","name":"agent_change_mode"}]}`).want(t, agent.KindInvalidRequest)
	made := r.do(t, "POST", "/v1/sessions", `{"mode":"ddr_authoring","systemPrompt":"Be brief."}`)
	made.wantStatus(t, 201)
	id := string(decode[Session](t, made).SessionID)
	r.do(t, "POST", "/v1/sessions", `{"sessionId":"`+id+`"}`).want(t, agent.KindSessionExists)
	if l := decode[List[Session]](t, r.do(t, "GET", "/v1/sessions", "")); len(l.Data) != 1 {
		t.Errorf("got %+v; a refused creation left something", l)
	}
	r.do(t, "PUT", "/v1/sessions/"+id+"/mode", `{"mode":"no_such","reason":"r"}`).want(t, agent.KindUnknownMode)
	r.do(t, "PUT", "/v1/sessions/none/mode", `{"mode":"general","reason":"r"}`).want(t, agent.KindNotFound)
	if s := decode[Session](t, r.do(t, "PUT", "/v1/sessions/"+id+"/mode", `{"mode":"general","reason":"Done."}`)); s.Mode != "general" {
		t.Errorf("got %+v", s)
	}
	h := decode[List[ModeChange]](t, r.do(t, "GET", "/v1/sessions/"+id+"/mode-history", "")).Data
	if len(h) != 1 || h[0].PreviousMode != "ddr_authoring" || h[0].Mode != "general" || h[0].Reason != "Done." || h[0].Actor != agent.ActorUser || h[0].User != "local" || h[0].At.IsZero() {
		t.Errorf("got history %+v", h)
	}
	r.do(t, "PUT", "/v1/sessions/"+id+"/tools", `{"tools":[{"type":"function","name":"x","parameters":{"type":"object"}}]}`).wantStatus(t, 200)
	r.do(t, "PUT", "/v1/sessions/none/tools", `{"tools":[]}`).want(t, agent.KindNotFound)
	r.do(t, "GET", "/v1/sessions/none/mode-history", "").want(t, agent.KindNotFound)
	for _, path := range []string{"/v1/sessions", "/v1/sessions/" + id + "/mode-history", "/v1/sessions/" + id + "/turns"} {
		r.do(t, "GET", path+"?cursor=nonsense", "").want(t, agent.KindInvalidRequest)
	}
	r.do(t, "GET", "/v1/tools", "").wantStatus(t, 200)
	r.do(t, "GET", "/readyz", "").wantStatus(t, 200)
}

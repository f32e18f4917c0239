package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prove"
)

func TestExecute_AnswersWithTheStoredBytes(t *testing.T) {
	for _, tt := range []struct{ name, body string }{
		{"by default", hello},
		{"when stream is false", `{"sessionId":"s1","turnId":"t1","instruction":"hello","stream":false}`},
		{"in the documents' spelling", `{"SessionId":"s1","TurnId":"t1","Instruction":"hello"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			prove.Rule(t, "AGN034-4.7-a")
			r := newRig(t)
			r.turns.completed()
			a := r.do(t, "POST", "/v1/agent/execute", tt.body)
			a.wantStatus(t, 200)
			if got := a.Body.String(); got != final {
				t.Errorf("got %s, want %s", got, final)
			}
			if got := a.Header().Get("Content-Type"); got != "application/json" {
				t.Errorf("got Content-Type %q", got)
			}
			if len(r.turns.submitted) != 1 || r.turns.submitted[0].Instruction != "hello" {
				t.Errorf("the pipeline got %+v", r.turns.submitted)
			}
			if got := r.turns.callers[0]; got != agent.Local() {
				t.Errorf("the turn belongs to %+v", got)
			}
		})
	}
}

func TestExecute_StreamsWhenTheTurnAsksForIt(t *testing.T) {
	prove.Rule(t, "AGN034-4.7-b", "AGN034-4.7-d")
	r := newRig(t)
	r.turns.completed()
	a := r.do(t, "POST", "/v1/agent/execute", `{"sessionId":"s1","turnId":"t1","instruction":"hello","stream":true}`)
	a.wantStatus(t, 200)
	if got := a.Header().Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("got Content-Type %q", got)
	}
	events := parseSSE(t, a.Body.String())
	var names []string
	for _, e := range events {
		names = append(names, e.event)
	}
	if diff := cmp.Diff([]string{"turn.started", "model.request", "text.delta", "turn.completed"}, names); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	var last struct{ Response json.RawMessage }
	if err := json.Unmarshal([]byte(events[len(events)-1].data), &last); err != nil {
		t.Fatal(err)
	}
	if string(last.Response) != final {
		t.Errorf("the stream ends with %s, want the JSON answer %s", last.Response, final)
	}
}

func TestExecute_ContinuationIsDeliveredAsItsTurn(t *testing.T) {
	const body = `{"sessionId":"s1","turnId":"t1","toolResults":[{"toolCallId":"call_1","executionMs":3,"resultJson":"{}"}]}`
	for _, stream := range []*bool{nil, new(false), new(true)} {
		prove.Rule(t, "AGN034-4.7-a", "AGN034-4.7-b")
		r := newRig(t)
		r.turns.completed()
		r.turns.script.turn.Stream = stream
		a := r.do(t, "POST", "/v1/agent/execute", body)
		a.wantStatus(t, 200)
		wantStream := stream != nil && *stream
		if got := a.Header().Get("Content-Type") == "text/event-stream"; got != wantStream {
			t.Errorf("turn with stream %v: streamed %v, want %v", stream, got, wantStream)
		}
		if wantStream {
			if events := parseSSE(t, a.Body.String()); events[0].id != "2" {
				t.Errorf("the stream of a continuation begins at event %s, want 2", events[0].id)
			}
		}
		if len(r.turns.continued) != 1 || len(r.turns.submitted) != 0 {
			t.Errorf("continued %v, submitted %v", r.turns.continued, r.turns.submitted)
		}
	}
}

func TestExecute_WaitingTurnHandsToolCallsOut(t *testing.T) {
	r := newRig(t)
	r.turns.script.turn = agent.Turn{State: agent.TurnWaiting, Mode: agent.ModeGeneral, Response: json.RawMessage(clientTools)}
	r.turns.script.events = []agent.Event{{Type: agent.EventTurnStarted}, {Type: agent.EventTurnWaiting, Response: json.RawMessage(clientTools)}}
	if got := r.do(t, "POST", "/v1/agent/execute", hello).Body.String(); got != clientTools {
		t.Errorf("got %s, want %s", got, clientTools)
	}
	a := r.do(t, "POST", "/v1/agent/execute", `{"sessionId":"s1","turnId":"t2","instruction":"hello","stream":true}`)
	events := parseSSE(t, a.Body.String())
	if last := events[len(events)-1]; last.event != "turn.waiting" || a.aborted {
		t.Errorf("the delivery ends with %+v, cut: %v", last, a.aborted)
	}
}

func TestExecute_CancelledTurn(t *testing.T) {
	r := newRig(t)
	r.turns.script.turn = agent.Turn{State: agent.TurnCancelled}
	r.do(t, "POST", "/v1/agent/execute", hello).want(t, agent.KindTurnCancelled)
}

func TestExecute_RestingTurnWithoutResponseIsOurFault(t *testing.T) {
	r := newRig(t)
	r.turns.script.turn = agent.Turn{State: agent.TurnCompleted}
	r.do(t, "POST", "/v1/agent/execute", hello).want(t, agent.KindInternal)
}

func TestExecute_ClientThatHangsUpIsNotAnswered(t *testing.T) {
	r := newRig(t)
	r.turns.completed()
	ctx, hangUp := context.WithCancel(t.Context())
	r.turns.await = func(ctx context.Context) (agent.Turn, error) {
		hangUp()
		<-ctx.Done()
		return agent.Turn{}, context.Cause(ctx)
	}
	req := httptest.NewRequestWithContext(ctx, "POST", "/v1/agent/execute", strings.NewReader(hello))
	req.Header.Set("Content-Type", "application/json")
	req.Host = "localhost"
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	if w.Body.Len() > 0 {
		t.Errorf("got %s", w.Body)
	}
	if log := r.log.String(); !strings.Contains(log, "clientGone=true") || strings.Contains(log, "level=ERROR") {
		t.Errorf("log: %s", log)
	}
}

func TestExecute_ContractFaultsNameEveryViolation(t *testing.T) {
	r := newRig(t)
	p := r.do(t, "POST", "/v1/agent/execute", `{"sessionId":"s1","mode":"general","previousResponseId":"r"}`).want(t, agent.KindInvalidRequest)
	rules := map[string]bool{}
	for _, v := range p.Violations {
		rules[v.Rule] = true
	}
	for _, want := range []string{"AGN034-2.1-b", "AGN034-2.1-c", "AGN034-2.1-f", "AGN034-2.1-g"} {
		if !rules[want] {
			t.Errorf("no violation of %s in %+v", want, p.Violations)
		}
	}
	if len(r.turns.submitted) != 0 {
		t.Errorf("the pipeline got %v", r.turns.submitted)
	}
}

func TestPreview(t *testing.T) {
	r := newRig(t)
	got := decode[Preview](t, r.do(t, "POST", "/v1/agent/preview", hello))
	want := Preview{
		Canonical: `{"model":"m"}`, CanonicalSHA256: strings.Repeat("a", 64), Wire: `{"input":"<b>"}`, WireSHA256: strings.Repeat("b", 64),
		Mode: "general", Tools: json.RawMessage(`[{"type":"function","name":"agent_change_mode"}]`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("preview (-want +got):\n%s", diff)
	}
	if len(r.turns.submitted) != 0 {
		t.Error("a preview was submitted")
	}
	r.do(t, "POST", "/v1/agent/preview", `{"sessionId":"s1","turnId":"t1","toolResults":[]}`).want(t, agent.KindInvalidRequest)
	r.turns.script.err = agent.Errorf(agent.KindContextPinned, "The session has another context.")
	r.do(t, "POST", "/v1/agent/preview", hello).want(t, agent.KindContextPinned)
}

func TestExecute_PassesOnHowLongTheProviderAsksToWait(t *testing.T) {
	r := newRig(t)
	fail := func(at time.Time) string {
		r.turns.failed(agent.Fault{Kind: agent.KindProviderFailed, Message: "The provider answered 429 Too Many Requests.", RetryAfter: time.Hour})
		r.turns.script.turn.UpdatedAt = at
		a := r.do(t, "POST", "/v1/agent/execute", hello)
		a.want(t, agent.KindProviderFailed)
		return a.Header().Get("Retry-After")
	}
	// An hour from the fault on: at once, or when the same request comes once more.
	if got := fail(time.Now()); len(got) != 4 {
		t.Errorf("got Retry-After %q, want what is left of 3600", got)
	}
	if got := fail(time.Now().Add(-2 * time.Hour)); got != "" {
		t.Errorf("got Retry-After %q after the wait is over, want none", got)
	}
}

func TestDrain_RefusesTurnsAndGoesOnReading(t *testing.T) {
	r := newRig(t)
	r.turns.completed()
	r.do(t, "POST", "/v1/agent/execute", hello).wantStatus(t, 200)
	r.do(t, "GET", "/readyz", "").wantStatus(t, 200)

	r.Drain()
	if !r.Draining() {
		t.Error("not draining")
	}
	a := r.do(t, "POST", "/v1/agent/execute", hello)
	a.want(t, agent.KindDraining)
	if a.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	a = r.do(t, "GET", "/readyz", "")
	a.wantStatus(t, 503)
	if got := decode[Health](t, a).Status; got != "draining" {
		t.Errorf("got status %q", got)
	}
	r.do(t, "GET", "/livez", "").wantStatus(t, 200)
	r.do(t, "GET", "/v1/sessions/s1/turns/t1", "").wantStatus(t, 200)
	r.do(t, "GET", "/v1/sessions/s1/turns/t1/events", "").wantStatus(t, 200)
}

func TestReady_FollowsTheStore(t *testing.T) {
	var down error
	r := newRig(t, func(c *Config) { c.Ready = func(context.Context) error { return down } })
	r.do(t, "GET", "/readyz", "").wantStatus(t, 200)
	down = errors.New("database at /srv is gone")
	a := r.do(t, "GET", "/readyz", "")
	a.wantStatus(t, 503)
	if strings.Contains(a.Body.String(), "/srv") {
		t.Errorf("the answer shows the reason: %s", a.Body)
	}
}

package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/pipeline"
)

func keyOf(turn agent.TurnID) agent.TurnKey {
	return agent.TurnKey{Org: "local", Session: "s1", Turn: turn}
}

func TestGetTurn_ShowsWhatItsStateHas(t *testing.T) {
	deadline := noon.Add(time.Hour)
	base := agent.Turn{Mode: "general", Ordinal: 3, CreatedAt: noon, UpdatedAt: noon, Deadline: deadline, Response: json.RawMessage(final)}
	for state, want := range map[agent.TurnState][]string{
		agent.TurnAccepted:  {"deadline"},
		agent.TurnRunning:   {"deadline"},
		agent.TurnWaiting:   {"deadline", "response"},
		agent.TurnCompleted: {"response"},
		agent.TurnFailed:    {"problem"},
		agent.TurnCancelled: nil,
	} {
		t.Run(string(state), func(t *testing.T) {
			r := newRig(t)
			turn := base
			turn.Key, turn.State = keyOf("t1"), state
			turn.Fault = &agent.Fault{Kind: agent.KindProviderTimeout, Message: "Try again."}
			if state == agent.TurnWaiting {
				turn.Response = json.RawMessage(clientTools)
			}
			r.turns.put(turn)
			a := r.do(t, "GET", "/v1/sessions/s1/turns/t1", "")
			a.wantStatus(t, 200)
			members := decode[map[string]any](t, a)
			var got []string
			for _, name := range []string{"deadline", "problem", "response"} {
				if members[name] != nil {
					got = append(got, name)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("optional members (-want +got):\n%s", diff)
			}
			v := decode[Turn](t, a)
			if v.TurnID != "t1" || v.SessionID != "s1" || v.State != state || v.Mode != "general" || v.Ordinal != 3 {
				t.Errorf("got %+v", v)
			}
			if v.Problem != nil && (v.Problem.Status != 504 || v.Problem.RequestID == "") {
				t.Errorf("got problem %+v", v.Problem)
			}
		})
	}
}

func TestGetTurn_ResponseIsTheBytesThatWereSent(t *testing.T) {
	r := newRig(t)
	r.turns.completed()
	sent := r.do(t, "POST", "/v1/agent/execute", hello).Body.String()
	got := r.do(t, "GET", "/v1/sessions/s1/turns/t1", "").Body.String()
	if !strings.Contains(got, `"response":`+sent) {
		t.Errorf("got %s, want %s in it", got, sent)
	}
	r.do(t, "GET", "/v1/sessions/s1/turns/none", "").want(t, agent.KindNotFound)
}

func TestListTurns(t *testing.T) {
	r := newRig(t)
	for i := range 3 {
		r.turns.put(agent.Turn{Key: keyOf(agent.TurnID(fmt.Sprintf("t%d", i))), State: agent.TurnCancelled, Mode: "general", Ordinal: int64(i + 1), CreatedAt: noon, UpdatedAt: noon})
	}
	l := decode[List[Turn]](t, r.do(t, "GET", "/v1/sessions/s1/turns?limit=2", ""))
	if len(l.Data) != 2 || l.Data[0].TurnID != "t0" || !l.HasMore {
		t.Errorf("got %+v", l)
	}
	l = decode[List[Turn]](t, r.do(t, "GET", "/v1/sessions/s1/turns?cursor="+l.NextCursor, ""))
	if len(l.Data) != 1 || l.Data[0].TurnID != "t2" || l.HasMore {
		t.Errorf("got %+v", l)
	}
	r.do(t, "GET", "/v1/sessions/none/turns", "").want(t, agent.KindNotFound)
}

func TestListRequests_AreByteExactStrings(t *testing.T) {
	r := newRig(t)
	r.turns.put(agent.Turn{Key: keyOf("t1"), State: agent.TurnRunning})
	r.turns.calls = map[agent.TurnKey][]pipeline.ModelCall{keyOf("t1"): {
		{N: 1, Canonical: `{"a":"<&>\u2028"}`, CanonicalSHA256: strings.Repeat("a", 64), Wire: `{"b":1}`, WireSHA256: strings.Repeat("b", 64), At: noon,
			Usage: &agent.Usage{InputTokens: 1, OutputTokens: 2, TotalTokens: 3}},
		{N: 2, Canonical: `{}`, CanonicalSHA256: strings.Repeat("c", 64), Wire: `{}`, WireSHA256: strings.Repeat("d", 64), At: noon},
	}}
	got := decode[List[ModelCall]](t, r.do(t, "GET", "/v1/sessions/s1/turns/t1/requests", ""))
	if len(got.Data) != 2 || got.Data[0].Canonical != `{"a":"<&>\u2028"}` || got.Data[0].Usage.TotalTokens != 3 || got.Data[1].Usage != nil {
		t.Errorf("got %+v", got)
	}
	r.do(t, "GET", "/v1/sessions/s1/turns/none/requests", "").want(t, agent.KindNotFound)
}

func TestCancelTurn(t *testing.T) {
	r := newRig(t)
	r.turns.put(agent.Turn{Key: keyOf("t1"), State: agent.TurnWaiting, Mode: "general", Ordinal: 1})
	a := r.do(t, "POST", "/v1/sessions/s1/turns/t1/cancel", "")
	a.wantStatus(t, 202)
	if got := decode[Turn](t, a).State; got != agent.TurnCancelled {
		t.Errorf("got state %s", got)
	}
	r.do(t, "POST", "/v1/sessions/s1/turns/none/cancel", "").want(t, agent.KindNotFound)
}

func TestFollowTurn_Resumes(t *testing.T) {
	for _, tt := range []struct {
		name, query, lastEventID string
		want                     []string
	}{
		{"from the start", "", "", []string{"1", "2", "3", "4"}},
		{"after nothing", "?after=0", "", []string{"1", "2", "3", "4"}},
		{"after a sequence", "?after=2", "", []string{"3", "4"}},
		{"after the last seen event", "", "3", []string{"4"}},
		{"Last-Event-ID is stronger", "?after=1", "3", []string{"4"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.turns.completed()
			r.do(t, "POST", "/v1/agent/execute", hello)
			a := r.do(t, "GET", "/v1/sessions/s1/turns/t1/events"+tt.query, "", "Last-Event-ID", tt.lastEventID)
			a.wantStatus(t, 200)
			var got []string
			for _, e := range parseSSE(t, a.Body.String()) {
				got = append(got, e.id)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("sequences (-want +got):\n%s", diff)
			}
			for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"} {
				if a.Header().Get(name) != want {
					t.Errorf("%s is %q, want %q", name, a.Header().Get(name), want)
				}
			}
		})
	}
}

func TestFollowTurn_NothingLeft(t *testing.T) {
	r := newRig(t)
	r.turns.completed()
	r.do(t, "POST", "/v1/agent/execute", hello)
	a := r.do(t, "GET", "/v1/sessions/s1/turns/t1/events?after=4", "")
	a.wantStatus(t, 204)
}

func TestFollowTurn_WrongInput(t *testing.T) {
	r := newRig(t)
	r.turns.completed()
	r.do(t, "POST", "/v1/agent/execute", hello)
	for _, bad := range []string{"x", "-1", "1.5", "0x1", "1e3", "99999999999999999999"} {
		r.do(t, "GET", "/v1/sessions/s1/turns/t1/events?after="+bad, "").want(t, agent.KindInvalidRequest)
		r.do(t, "GET", "/v1/sessions/s1/turns/t1/events?after=1", "", "Last-Event-ID", bad).want(t, agent.KindInvalidRequest)
	}
	r.do(t, "GET", "/v1/sessions/s1/turns/none/events", "").want(t, agent.KindNotFound)
	r.do(t, "GET", "/v1/sessions/s1/turns/t1/events", "", "Origin", "https://evil.com").want(t, agent.KindForbidden)
}

func TestFollowTurn_PassesByOldDeliveriesAndEndsAtTheOpenOne(t *testing.T) {
	r := newRig(t)
	r.turns.put(agent.Turn{Key: keyOf("t1"), State: agent.TurnWaiting},
		agent.Event{Type: agent.EventTurnStarted},
		agent.Event{Type: agent.EventTurnWaiting, Response: json.RawMessage(clientTools)},
		agent.Event{Type: agent.EventTurnResumed, ReplaceFrom: 2},
		agent.Event{Type: agent.EventTurnWaiting, Response: json.RawMessage(clientTools)})
	a := r.do(t, "GET", "/v1/sessions/s1/turns/t1/events", "")
	if events := parseSSE(t, a.Body.String()); len(events) != 4 || a.aborted {
		t.Errorf("got %+v, cut %v", events, a.aborted)
	}
	r.do(t, "GET", "/v1/sessions/s1/turns/t1/events?after=4", "").wantStatus(t, 204)
}

func TestFollowTurn_ErrorBeforeTheFirstEventIsAStatus(t *testing.T) {
	r := newRig(t)
	r.turns.put(agent.Turn{Key: keyOf("t1"), State: agent.TurnCompleted})
	r.turns.unreadable = errors.New("disk")
	r.do(t, "GET", "/v1/sessions/s1/turns/t1/events", "").want(t, agent.KindInternal)
}

func TestFollowTurn_NothingComesAfterTheEndOfTheTurn(t *testing.T) {
	r := newRig(t)
	r.turns.put(agent.Turn{Key: keyOf("t1"), State: agent.TurnRunning},
		agent.Event{Type: agent.EventTurnStarted}, agent.Event{Type: agent.EventTurnCancelled}, agent.Event{Type: agent.EventTextDelta, Text: "late"})
	events := parseSSE(t, r.do(t, "GET", "/v1/sessions/s1/turns/t1/events", "").Body.String())
	if last := events[len(events)-1]; last.event != "turn.cancelled" {
		t.Errorf("the stream ends with %+v", last)
	}
}

// Every event is shown as the document says, whatever it holds.
func TestFollowTurn_EveryKindOfEvent(t *testing.T) {
	ms := int64(0)
	all := []agent.Event{
		{Type: agent.EventTurnQueued},
		{Type: agent.EventTurnStarted, Welcome: "Hello."},
		{Type: agent.EventModelRequest, Call: 1, CanonicalSHA256: strings.Repeat("a", 64), WireSHA256: strings.Repeat("b", 64)},
		{Type: agent.EventTextDelta, Text: "a\nb\r\n\ndata: c\u2028<>&\x00"},
		{Type: agent.EventToolStarted, ToolCallID: "call_1", Name: "agent_change_mode"},
		{Type: agent.EventToolFinished, ToolCallID: "call_1", Name: "agent_change_mode", Outcome: agent.OutcomeOK, Ms: &ms},
		{Type: agent.EventModeChanged, ModeSwitch: &agent.ModeSwitch{PreviousMode: "general", Mode: "ddr_authoring", Reason: "r"}},
		{Type: agent.EventApprovalRequired, Approval: &agent.Approval{ID: "apr_1", Call: "call_2", Name: "f", Arguments: "{",
			Options: []agent.Decision{agent.DecisionApprove, agent.DecisionDeny}, Deadline: noon}},
		{Type: agent.EventApprovalDecided, ToolCallID: "call_2", Decided: &agent.Decided{ID: "apr_1", Call: "call_2",
			Verdict: agent.Verdict{Decision: agent.DecisionApprove, Remember: true}, User: "local"}},
		{Type: agent.EventModeEntered, Entry: &agent.Entered{Mode: "general", Problem: "look: no"}},
		{Type: agent.EventTurnResumed, ReplaceFrom: 3},
		{Type: agent.EventTurnWaiting, Response: json.RawMessage(clientTools)},
	}
	ends := []agent.Event{
		{Type: agent.EventTurnCompleted, Response: json.RawMessage(final)},
		{Type: agent.EventTurnFailed, Fault: &agent.Fault{Kind: agent.KindLimitReached, Message: "m"}},
		{Type: agent.EventTurnFailed},
		{Type: agent.EventTurnCancelled},
	}
	seen := map[string]bool{}
	for _, end := range ends {
		r := newRig(t)
		r.turns.put(agent.Turn{Key: keyOf("t1"), State: agent.TurnRunning}, append(append([]agent.Event{}, all...), end)...)
		events := parseSSE(t, r.do(t, "GET", "/v1/sessions/s1/turns/t1/events", "").Body.String())
		if len(events) != len(all)+1 {
			t.Fatalf("got %d events, want %d", len(events), len(all)+1)
		}
		for _, e := range events {
			seen[e.event] = true
		}
	}
	for name, value := range constants(t, "event.go", "EventType") {
		if !seen[value] {
			t.Errorf("agent.%s is not in this test or not in the document", name)
		}
	}
}

// A burst is written in few pieces, and completely.
func TestFollowTurn_Burst(t *testing.T) {
	r := newRig(t)
	var all []agent.Event
	for range 1000 {
		all = append(all, agent.Event{Type: agent.EventTextDelta, Text: "x"})
	}
	r.turns.put(agent.Turn{Key: keyOf("t1"), State: agent.TurnRunning}, append(all, agent.Event{Type: agent.EventTurnCancelled})...)
	events := parseSSE(t, r.do(t, "GET", "/v1/sessions/s1/turns/t1/events", "").Body.String())
	for i, e := range events {
		if e.id != fmt.Sprint(i+1) {
			t.Fatalf("event %d has id %s", i+1, e.id)
		}
	}
	if len(events) != 1001 {
		t.Errorf("got %d events, want 1001", len(events))
	}
}

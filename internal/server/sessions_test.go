package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prove"
)

func TestCreateSession(t *testing.T) {
	r := newRig(t)
	a := r.do(t, "POST", "/v1/sessions", `{"sessionId":"s1","systemPrompt":"Be brief.","tools":[{"type":"function","name":"read_file"}]}`)
	a.wantStatus(t, 201)
	if got := a.Header().Get("Location"); got != "/v1/sessions/s1" {
		t.Errorf("got Location %q", got)
	}
	want := Session{
		SessionID: "s1", Mode: "general", ModeDisplayName: "General", ModeReady: true, SystemPrompt: "Be brief.", Tools: json.RawMessage(`[{"type":"function","name":"read_file"}]`),
		AgentContextID: "default", ConversationContextID: "default", Concurrency: "reject", Version: 1,
		CreatedAt: noon.UTC(), UpdatedAt: noon.UTC(), CreatedBy: "local",
	}
	if diff := cmp.Diff(want, decode[Session](t, a)); diff != "" {
		t.Errorf("session (-want +got):\n%s", diff)
	}
	if !strings.Contains(a.Body.String(), `"createdAt":"2026-01-02T11:00:00Z"`) {
		t.Errorf("times are not UTC: %s", a.Body)
	}
	if got := r.do(t, "GET", "/v1/sessions/s1", "").Body.String(); got != a.Body.String() {
		t.Errorf("read back %s, want %s", got, a.Body)
	}
	if strings.Contains(a.Body.String(), "resp_secret") {
		t.Errorf("the answer shows the provider's id: %s", a.Body)
	}
}

func TestCreateSession_WithoutABody(t *testing.T) {
	for _, body := range []string{"", "{}"} {
		a := newRig(t).do(t, "POST", "/v1/sessions", body)
		a.wantStatus(t, 201)
		if s := decode[Session](t, a); s.Mode != "general" || s.SessionID == "" {
			t.Errorf("body %q: got %+v", body, s)
		}
	}
}

func TestListSessions_Pages(t *testing.T) {
	r := newRig(t)
	if got := r.do(t, "GET", "/v1/sessions", "").Body.String(); got != `{"data":[],"hasMore":false}` {
		t.Errorf("an empty list is %s", got)
	}
	for i := range 5 {
		r.do(t, "POST", "/v1/sessions", fmt.Sprintf(`{"sessionId":"s%d"}`, i)).wantStatus(t, 201)
	}
	var got []string
	target := "/v1/sessions?limit=2"
	for range 3 {
		l := decode[List[Session]](t, r.do(t, "GET", target, ""))
		for _, s := range l.Data {
			got = append(got, string(s.SessionID))
		}
		if l.HasMore != (l.NextCursor != "") {
			t.Errorf("hasMore %v with cursor %q", l.HasMore, l.NextCursor)
		}
		target = "/v1/sessions?limit=2&cursor=" + l.NextCursor
	}
	if diff := cmp.Diff([]string{"s4", "s3", "s2", "s1", "s0"}, got); diff != "" {
		t.Errorf("sessions (-want +got):\n%s", diff)
	}
}

func TestDeleteSession(t *testing.T) {
	r := newRig(t)
	r.do(t, "POST", "/v1/sessions", `{"sessionId":"s1"}`)
	a := r.do(t, "DELETE", "/v1/sessions/s1", "")
	a.wantStatus(t, 204)
	if a.Body.Len() > 0 {
		t.Errorf("got body %s", a.Body)
	}
	r.do(t, "GET", "/v1/sessions/s1", "").want(t, agent.KindNotFound)
	r.do(t, "DELETE", "/v1/sessions/s1", "").want(t, agent.KindNotFound)
}

func TestSetMode_TakesTheSingleWritePath(t *testing.T) {
	prove.Rule(t, "AGN011-3.2-i")
	r := newRig(t)
	r.do(t, "POST", "/v1/sessions", `{"sessionId":"s1"}`)
	s := decode[Session](t, r.do(t, "PUT", "/v1/sessions/s1/mode", `{"mode":"ddr_authoring","reason":"Writing a DDR."}`))
	if s.Mode != "ddr_authoring" || s.Version != 2 || s.ModeDisplayName == "" {
		t.Errorf("got %+v", s)
	}
	want := []agent.ModeChange{{Org: "local", Session: "s1", Previous: "general", Mode: "ddr_authoring", Reason: "Writing a DDR.", At: noon, User: "local", Actor: agent.ActorUser}}
	if diff := cmp.Diff(want, r.sessions.history["s1"]); diff != "" {
		t.Errorf("changes given to the session manager (-want +got):\n%s", diff)
	}
}

func TestModeHistory(t *testing.T) {
	prove.Rule(t, "AGN011-3.2-d", "AGN011-3.2-e", "AGN011-3.2-f", "AGN011-3.2-g", "AGN011-3.2-h")
	r := newRig(t)
	r.do(t, "POST", "/v1/sessions", `{"sessionId":"s1"}`)
	r.do(t, "PUT", "/v1/sessions/s1/mode", `{"mode":"ddr_authoring","reason":"Writing a DDR."}`)
	r.sessions.history["s1"] = append(r.sessions.history["s1"], agent.ModeChange{
		Org: "local", Session: "s1", Previous: "ddr_authoring", Mode: "general", Reason: "Done.", At: noon, User: "local",
		Actor: agent.ActorModel, Turn: "t1", Call: "call_1", Branch: true,
	})
	got := decode[List[map[string]any]](t, r.do(t, "GET", "/v1/sessions/s1/mode-history", ""))
	at := noon.UTC().Format(time.RFC3339)
	want := []map[string]any{
		{"previousMode": "general", "mode": "ddr_authoring", "reason": "Writing a DDR.", "at": at, "actor": "user", "org": "local", "user": "local", "branch": false},
		{"previousMode": "ddr_authoring", "mode": "general", "reason": "Done.", "turnId": "t1", "at": at, "actor": "model", "org": "local", "user": "local", "branch": true},
	}
	if diff := cmp.Diff(want, got.Data); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	r.do(t, "GET", "/v1/sessions/none/mode-history", "").want(t, agent.KindNotFound)
}

func TestSetTools(t *testing.T) {
	r := newRig(t)
	r.do(t, "POST", "/v1/sessions", `{"sessionId":"s1"}`)
	const tools = `[{"type":"function","name":"read_file","parameters":{"type":"object"}}]`
	s := decode[Session](t, r.do(t, "PUT", "/v1/sessions/s1/tools", `{"tools":`+tools+`}`))
	if string(s.Tools) != tools {
		t.Errorf("got tools %s, want %s", s.Tools, tools)
	}
	r.do(t, "PUT", "/v1/sessions/none/tools", `{"tools":[]}`).want(t, agent.KindNotFound)
}

func TestSession_InAModeThatTheCatalogueLost(t *testing.T) {
	r := newRig(t)
	r.do(t, "POST", "/v1/sessions", `{"sessionId":"s1","mode":"gone"}`)
	if s := decode[Session](t, r.do(t, "GET", "/v1/sessions/s1", "")); s.ModeDisplayName != "gone" {
		t.Errorf("got %+v", s)
	}
}

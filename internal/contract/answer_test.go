package contract

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
)

var change = &agent.ModeSwitch{PreviousMode: "general", Mode: "ddr_authoring", Reason: "writing"}

func TestFinal_MembersInTheirOrder(t *testing.T) {
	full := Final{
		SessionID: "s1", TurnID: "t1", Mode: "ddr_authoring", ModeDisplayName: "DDR authoring", PrimaryOutputText: "<done>",
		Usage: agent.Usage{InputTokens: 1, OutputTokens: 2, TotalTokens: 3}, ModeChange: change,
		Sources: []agent.Source{{ID: "ctx_1", Path: "a.go", Lines: "1-2"}},
		ToolResults: ServerToolResults([]agent.ToolResult{
			{CallID: "c1", Name: "agent_list_modes", Result: "[]", Ms: 4, By: agent.ByServer, Code: agent.OutcomeOK},
			{CallID: "c2", Name: "read_file", Result: "1", By: agent.ByClient, Code: agent.OutcomeOK},
			{CallID: "c3", Name: "nope", Err: "no such tool", By: agent.ByServer, Code: agent.OutcomeError},
		}),
		UserWarnings: []string{"careful"},
	}
	checkJSON(t, full, `{"kind":"final","sessionId":"s1","turnId":"t1","mode":"ddr_authoring","modeDisplayName":"DDR authoring","primaryOutputText":"<done>",`+
		`"usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3},"modeChange":{"previousMode":"general","mode":"ddr_authoring","branch":false,"reason":"writing"},`+
		`"sources":[{"id":"ctx_1","path":"a.go","lines":"1-2"}],"toolResults":[`+
		`{"toolCallId":"c1","name":"agent_list_modes","outcome":"ok","executionMs":4,"resultJson":"[]"},`+
		`{"toolCallId":"c3","name":"nope","outcome":"error","executionMs":0,"errorMessage":"no such tool"}],"userWarnings":["careful"]}`)
	checkJSON(t, Final{SessionID: "s1", TurnID: "t1", Mode: "general", ModeDisplayName: "General"},
		`{"kind":"final","sessionId":"s1","turnId":"t1","mode":"general","modeDisplayName":"General","primaryOutputText":""}`)
	checkJSON(t, Final{Kind: AnswerClientTools, Sources: []agent.Source{}, ToolResults: []ServerToolResult{}, UserWarnings: []string{}},
		`{"kind":"final","sessionId":"","turnId":"","mode":"","modeDisplayName":"","primaryOutputText":""}`)
}

func TestClientToolContinuation_MembersInTheirOrder(t *testing.T) {
	checkJSON(t, ClientToolContinuation{
		SessionID: "s1", TurnID: "t1", Mode: "general", ModeDisplayName: "General", ModeChange: change,
		ToolCalls: []agent.ToolCall{{ID: "c1", Name: "read_file", Arguments: `{"path":"a.go"}`}},
	}, `{"kind":"client_tool_continuation","sessionId":"s1","turnId":"t1","mode":"general","modeDisplayName":"General",`+
		`"toolCalls":[{"toolCallId":"c1","name":"read_file","argumentsJson":"{\"path\":\"a.go\"}"}],`+
		`"modeChange":{"previousMode":"general","mode":"ddr_authoring","branch":false,"reason":"writing"}}`)
	checkJSON(t, ClientToolContinuation{Kind: AnswerFinal},
		`{"kind":"client_tool_continuation","sessionId":"","turnId":"","mode":"","modeDisplayName":"","toolCalls":[]}`)
}

// The kinds share the members that both must have, and nothing else: no bucket of the
// other kind, not even an empty one.
func TestAnswers_NoBucketOfTheOtherKind(t *testing.T) {
	final := membersOf(t, Final{
		Usage: agent.Usage{TotalTokens: 1}, ModeChange: change, Sources: []agent.Source{{}},
		ToolResults: []ServerToolResult{{}}, UserWarnings: []string{""},
	})
	tools := membersOf(t, ClientToolContinuation{ModeChange: change})
	shared := map[string]bool{}
	for name := range final {
		if _, both := tools[name]; both {
			shared[name] = true
		}
	}
	want := map[string]bool{"kind": true, "sessionId": true, "turnId": true, "mode": true, "modeDisplayName": true, "modeChange": true}
	if diff := cmp.Diff(want, shared); diff != "" {
		t.Errorf("shared members (-want +got):\n%s", diff)
	}
	if len(final) != 11 || len(tools) != 7 {
		t.Errorf("%d and %d members, want the 11 and 7 of the closed sets", len(final), len(tools))
	}
}

func membersOf(t *testing.T, answer any) map[string]json.RawMessage {
	t.Helper()
	data, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func checkJSON(t *testing.T, answer json.Marshaler, want string) {
	t.Helper()
	got, err := answer.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

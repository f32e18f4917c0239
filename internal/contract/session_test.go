package contract

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
)

func TestDecodeCreateSession(t *testing.T) {
	for _, tc := range []struct {
		body string
		want CreateSession
	}{
		{"", CreateSession{Concurrency: agent.ConcurrencyReject}},
		{" \n", CreateSession{Concurrency: agent.ConcurrencyReject}},
		{"{}", CreateSession{Concurrency: agent.ConcurrencyReject}},
		{`{"sessionId":null,"mode":null,"tools":null,"concurrency":null,"agentContextId":null}`, CreateSession{Concurrency: agent.ConcurrencyReject}},
		{`{"mode":"","systemPrompt":""}`, CreateSession{Concurrency: agent.ConcurrencyReject}},
		{`{ "sessionId": "s1", "mode": "ddr_authoring", "systemPrompt": "Answer briefly.",
			"tools": [ {"type": "function", "name": "read_file", "parameters": {"Type": 1e2, "type": null}} ],
			"agentContextId": "a", "ConversationContextId": "c", "concurrency": "reject" }`, CreateSession{
			SessionID: "s1", Mode: "ddr_authoring", SystemPrompt: "Answer briefly.",
			Tools:          []byte(`[ {"type": "function", "name": "read_file", "parameters": {"Type": 1e2, "type": null}} ]`),
			AgentContextID: "a", ConversationContextID: "c", Concurrency: agent.ConcurrencyReject}},
	} {
		got, err := DecodeCreateSession([]byte(tc.body), Limits{})
		if err != nil {
			t.Errorf("%s: %v", tc.body, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.body, diff)
		}
	}
}

func TestDecodeCreateSession_ListsEveryFault(t *testing.T) {
	_, err := DecodeCreateSession([]byte(`{"sessionId":"a/b","mode":1,"systemPrompt":[],"tools":{},"agentContextId":"","conversationContextId":2,"concurrency":"parallel","x":1,"Mode":2}`), Limits{})
	checkFaults(t, err, "/sessionId APTIX-ids", "/Mode APTIX-json", "/mode APTIX-type", "/systemPrompt APTIX-type", "/tools APTIX-type",
		"/agentContextId APTIX-ids", "/conversationContextId APTIX-ids", "/concurrency APTIX-concurrency", "/x APTIX-unknown-member")
	for _, policy := range []string{"parallel", "Reject", ""} {
		_, err := DecodeCreateSession([]byte(`{"concurrency":"`+policy+`"}`), Limits{})
		checkFaults(t, err, "/concurrency APTIX-concurrency")
	}
	for _, policy := range []agent.Concurrency{agent.ConcurrencyReject, agent.ConcurrencyQueue, agent.ConcurrencyInterrupt} {
		got, err := DecodeCreateSession([]byte(`{"concurrency":"`+string(policy)+`"}`), Limits{})
		if err != nil || got.Concurrency != policy {
			t.Errorf("got %q (%v), want %s", got.Concurrency, err, policy)
		}
	}
	_, err = DecodeCreateSession([]byte(`{"tools":[{"a":1,"a":2,"b":1e999,"c":"\u0000"}]}`), Limits{})
	checkFaults(t, err, "/tools/0/a APTIX-json", "/tools/0/b APTIX-json", "/tools/0/c APTIX-json")
	_, err = DecodeCreateSession([]byte(`[]`), Limits{})
	checkFaults(t, err, " APTIX-type")
	_, err = DecodeCreateSession([]byte(`{} {}`), Limits{})
	checkFaults(t, err, " APTIX-json")
}

func TestDecodeSetMode(t *testing.T) {
	got, err := DecodeSetMode([]byte(`{"mode":"ddr_authoring","Reason":"writing a DDR"}`), Limits{})
	if want := (SetMode{Mode: "ddr_authoring", Reason: "writing a DDR"}); err != nil || got != want {
		t.Errorf("DecodeSetMode = %+v, %v, want %+v", got, err, want)
	}
	for body, want := range map[string][]string{
		`{}`:                               {"/mode APTIX-required", "/reason AGN011-3.2-g"},
		`{"mode":"","reason":" "}`:         {"/mode APTIX-required", "/reason APTIX-required"},
		`{"mode":1,"reason":2}`:            {"/mode APTIX-type", "/reason APTIX-type"},
		`{"mode":"m","reason":"r","at":1}`: {"/at APTIX-unknown-member"},
		``:                                 {" APTIX-json"},
	} {
		_, err := DecodeSetMode([]byte(body), Limits{})
		checkFaults(t, err, want...)
	}
}

func TestDecodeSetTools(t *testing.T) {
	for body, want := range map[string]string{`{"tools":[]}`: `[]`, `{"Tools": [ 1 ]}`: `[ 1 ]`} {
		got, err := DecodeSetTools([]byte(body), Limits{})
		if err != nil || string(got.Tools) != want {
			t.Errorf("DecodeSetTools(%s) = %s, %v, want %s", body, got.Tools, err, want)
		}
	}
	for body, want := range map[string]string{
		`{}`: "/tools APTIX-required", `{"tools":null}`: "/tools APTIX-required", `{"tools":"[]"}`: "/tools APTIX-type", `{"tools":[],"x":1}`: "/x APTIX-unknown-member",
	} {
		_, err := DecodeSetTools([]byte(body), Limits{})
		checkFaults(t, err, want)
	}
}

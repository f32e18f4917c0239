package llmtest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
)

func TestParseScript_ReadsEveryKey(t *testing.T) {
	got, err := llmtest.ParseScript(`
- text: "Hello"
- deltas: ["Hel", "lo"]
- calls: [{id: call_1, name: agent_change_mode, arguments: '{"mode":"m","branch":false,"reason":"r"}'}, {name: f}]
  text: "first this"
- items: [{type: reasoning, id: rs_1, summary: []}]
  refusal: "no"
  usage: {inputTokens: 10, outputTokens: 5, totalTokens: 15, cachedTokens: 1, reasoningTokens: 2}
- text: cut
  incomplete: max_output_tokens
- failure: overloaded
- status: 500
  body: '{"error":{"message":"boom"}}'
  headers: {Retry-After: "7"}
- raw: "<html>"
- text: broken off
  cut: 4
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []llmtest.Reply{
		{Text: "Hello"},
		{Deltas: []string{"Hel", "lo"}},
		{Text: "first this", Calls: []llmtest.Call{{ID: "call_1", Name: "agent_change_mode", Arguments: `{"mode":"m","branch":false,"reason":"r"}`}, {Name: "f"}}},
		{Items: []json.RawMessage{json.RawMessage(`{"id":"rs_1","summary":[],"type":"reasoning"}`)}, Refusal: "no", Usage: agent.Usage{InputTokens: 10, OutputTokens: 5, TotalTokens: 15, CachedTokens: 1, ReasoningTokens: 2}},
		{Text: "cut", Incomplete: "max_output_tokens"},
		{Failure: "overloaded"},
		{Status: 500, Body: `{"error":{"message":"boom"}}`, Headers: map[string]string{"Retry-After": "7"}},
		{Raw: "<html>"},
		{Text: "broken off", Cut: 4},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("script (-want +got):\n%s", diff)
	}
}

func TestParseScript_EmptyIsNoReply(t *testing.T) {
	if got, err := llmtest.ParseScript("\n"); err != nil || len(got) != 0 {
		t.Errorf("ParseScript = %v, %v", got, err)
	}
}

func TestParseScript_RefusesWhatItCannotPlay(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		want   []string
	}{
		"unknown key":          {"- txt: a", []string{"line 1", "txt"}},
		"unknown key in call":  {"- calls: [{name: f, args: '{}'}]", []string{"args"}},
		"key twice":            {"- text: a\n  text: b", []string{"already defined"}},
		"not a list":           {"text: a", []string{"line 1"}},
		"two documents":        {"- text: a\n---\n- text: b", []string{"one YAML document"}},
		"text and deltas":      {"- text: a\n  deltas: [b]", []string{"reply 1", "use one"}},
		"all are listed":       {"- calls: [{id: c}]\n- incomplete: bored\n- status: 42", []string{"reply 1", "no name", "reply 2", "max_output_tokens", "reply 3", "status 42"}},
		"body without status":  {"- body: x", []string{"use raw"}},
		"status beside a text": {"- status: 500\n  text: a", []string{"stand alone"}},
		"item that is no JSON": {"- items: [{1: {2: .nan}}]", []string{"items[0] is not JSON"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := llmtest.ParseScript(tt.script)
			if err == nil {
				t.Fatalf("ParseScript = %+v, want an error", got)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q:\n%v", want, err)
				}
			}
		})
	}
}

func ExampleParseScript() {
	script, err := llmtest.ParseScript(`
- calls: [{name: agent_list_modes}]
- text: "There are three modes."
- status: 500
`)
	fmt.Println(len(script), script[0].Calls[0].Name, err)

	_, err = llmtest.ParseScript(`
- calls: [{id: call_1}]
- text: "a"
  deltas: ["a"]
`)
	fmt.Println(err)
	// Output:
	// 3 agent_list_modes <nil>
	// reply 1 of the script: calls[0] has no name
	// reply 2 of the script: text and deltas are two ways to say the same: use one
}

package contract

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prove"
)

func results(list string) string {
	return `{"sessionId":"s1","turnId":"t1","toolResults":[` + list + `]}`
}

func TestContinuation_Members(t *testing.T) {
	prove.Rule(t, "AGN034-2.2-c", "AGN034-5-b", "AGN034-5-c", "AGN034-5-d")
	got := acceptContinuation(t, results(`{"toolCallId":"call_1","executionMs":12,"resultJson":"{\"ok\":true}"},
		{"toolCallId":"call|2","executionMs":0,"errorMessage":"file not found","resultJson":null},
		{"ToolCallId":"3","ExecutionMs":9223372036854775807,"ResultJson":" \"text\" ","ErrorMessage":null}`))
	want := ToolContinuation{SessionID: "s1", TurnID: "t1", ToolResults: []ToolResult{
		{ToolCallID: "call_1", ExecutionMs: 12, ResultJSON: pointer(`{"ok":true}`)},
		{ToolCallID: "call|2", ErrorMessage: pointer("file not found")},
		{ToolCallID: "3", ExecutionMs: 1<<63 - 1, ResultJSON: pointer(` "text" `)},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("continuation (-want +got):\n%s", diff)
	}
}

func TestContinuation_ToolResultFaults(t *testing.T) {
	prove.Rule(t, "AGN034-2.2-c", "AGN034-5-b", "AGN034-5-c", "AGN034-5-d")
	const at = "/toolResults/0"
	for _, tc := range []struct {
		result string
		want   []string
	}{
		{`{}`, []string{at + "/toolCallId AGN034-5-b", at + "/executionMs AGN034-5-c", at + " AGN034-5-d"}},
		{`{"toolCallId":"","executionMs":null,"resultJson":null,"errorMessage":null}`,
			[]string{at + "/toolCallId AGN034-5-b", at + "/executionMs AGN034-5-c", at + " AGN034-5-d"}},
		{`{"toolCallId":7,"executionMs":"7","resultJson":{"ok":true}}`,
			[]string{at + "/toolCallId AGN034-5-b", at + "/executionMs AGN034-5-c", at + "/resultJson AGN034-5-d"}},
		{`{"toolCallId":"c","executionMs":1,"resultJson":"1","errorMessage":"no"}`, []string{at + " AGN034-5-d"}},
		{`{"toolCallId":"c","executionMs":1,"errorMessage":" \n"}`, []string{at + "/errorMessage AGN034-5-d"}},
		{`{"toolCallId":"c","executionMs":1,"errorMessage":[]}`, []string{at + "/errorMessage AGN034-5-d"}},
		{`{"toolCallId":"` + strings.Repeat("c", 129) + `","executionMs":1,"resultJson":"1"}`, []string{at + "/toolCallId APTIX-ids"}},
		{`null`, []string{at + " AGN034-2.2-c"}},
		{`"x"`, []string{at + " AGN034-2.2-c"}},
	} {
		refuse(t, results(tc.result), tc.want...)
	}
	for _, ms := range []string{"-1", "1.5", "1e3", "9223372036854775808", "true"} {
		refuse(t, results(`{"toolCallId":"c","executionMs":`+ms+`,"resultJson":"1"}`), at+"/executionMs AGN034-5-c")
	}
	for _, text := range []string{"", " ", "plain text", "{", "{}{}", "NaN", "'a'"} {
		refuse(t, results(`{"toolCallId":"c","executionMs":1,"resultJson":"`+text+`"}`), at+"/resultJson AGN034-5-d")
	}
	refuse(t, `{"sessionId":"s1","turnId":"t1","toolResults":"x"}`, "/toolResults AGN034-2.2-c")
	refuse(t, `{"sessionId":"s1","turnId":"t1","ToolResults":{}}`, "/ToolResults AGN034-2.2-c")
	// Every result is looked at.
	refuse(t, results(`{"toolCallId":"a","executionMs":1},{"toolCallId":"b","executionMs":1,"resultJson":"1"},{"executionMs":1,"resultJson":"1"}`),
		"/toolResults/0 AGN034-5-d", "/toolResults/2/toolCallId AGN034-5-b")
}

func TestContinuation_IsMechanical(t *testing.T) {
	prove.Rule(t, "AGN034-2.1-e", "AGN034-2.2-d", "AGN034-2.2-e", "AGN034-2.2-f", "AGN034-2.2-g", "AGN034-2.2-h", "AGN034-4.2-g", "AGN034-5-a")
	for _, tc := range []struct{ member, value, rule string }{
		{"instruction", `"go on"`, "AGN034-2.2-d"},
		{"instruction", `""`, "AGN034-2.2-d"},
		{"inputArtifacts", `[{}]`, "AGN034-2.2-e"},
		{"inputArtifacts", `"x"`, "AGN034-2.2-e"},
		{"clipboardImages", `[{}]`, "AGN034-2.2-e"},
		{"ragScope", `{}`, "AGN034-2.2-f"},
		{"solutionContextText", `""`, "AGN034-2.2-f"},
		{"workspaceId", `"w"`, "AGN034-2.2-f"},
		{"repository", `"r"`, "AGN034-2.2-f"},
		{"language", `"go"`, "AGN034-2.2-f"},
		{"agentContextId", `"a"`, "AGN034-2.2-f"},
		{"conversationContextId", `"c"`, "AGN034-2.2-f"},
		{"stream", `true`, "AGN034-2.2-g"},
		{"stream", `false`, "AGN034-2.2-g"},
		{"stream", `"x"`, "AGN034-2.2-g"},
	} {
		for _, name := range []string{tc.member, strings.ToUpper(tc.member[:1]) + tc.member[1:]} {
			refuse(t, continuation(`"`+name+`":`+tc.value), "/"+name+" "+tc.rule)
			acceptContinuation(t, continuation(`"`+name+`":null`))
		}
	}
}

func TestContinuation_MixedWithAUserTurnListsEveryMember(t *testing.T) {
	prove.Rule(t, "AGN034-2-a", "AGN034-2.1-e", "AGN034-5-a")
	refuse(t, continuation(`"instruction":"hi","inputArtifacts":[{}],"ClipboardImages":[{}],"ragScope":{},"solutionContextText":"x",
		"workspaceId":"w","stream":false,"mode":"general","x":1`),
		"/instruction AGN034-2.2-d", "/inputArtifacts AGN034-2.2-e", "/ClipboardImages AGN034-2.2-e", "/ragScope AGN034-2.2-f",
		"/solutionContextText AGN034-2.2-f", "/workspaceId AGN034-2.2-f", "/stream AGN034-2.2-g", "/mode AGN034-3-c", "/x APTIX-unknown-member")
}

func call(id agent.CallID) agent.ToolCall { return agent.ToolCall{ID: id, Name: "read_" + string(id)} }

func answered(ids ...agent.CallID) ToolContinuation {
	c := ToolContinuation{SessionID: "s1", TurnID: "t1"}
	for _, id := range ids {
		c.ToolResults = append(c.ToolResults, ToolResult{ToolCallID: id, ExecutionMs: 1, ResultJSON: pointer("1")})
	}
	return c
}

func TestMatchResults_InTheOrderOfTheCalls(t *testing.T) {
	prove.Rule(t, "AGN034-5-e")
	c := answered("a", "b")
	c.ToolResults[1] = ToolResult{ToolCallID: "b", ExecutionMs: 7, ErrorMessage: pointer("file not found")}
	got, err := MatchResults([]agent.ToolCall{call("a"), call("b")}, c)
	if err != nil {
		t.Fatal(err)
	}
	want := []agent.ToolResult{
		{CallID: "a", Name: "read_a", Result: "1", Ms: 1, By: agent.ByClient, Code: agent.OutcomeOK},
		{CallID: "b", Name: "read_b", Err: "file not found", Ms: 7, By: agent.ByClient, Code: agent.OutcomeError},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

// TestMatchResults_EveryMismatchRefusesTheWhole holds row S-19 of docs/security.md.
func TestMatchResults_EveryMismatchRefusesTheWhole(t *testing.T) {
	prove.Rule(t, "AGN034-5-e")
	abc := []agent.ToolCall{call("a"), call("b"), call("c")}
	for name, tc := range map[string]struct {
		sent ToolContinuation
		want []string // pointer and the words that tell the case
	}{
		"order": {answered("b", "a", "c"), []string{
			"/toolResults/0/toolCallId out of order; its result belongs at /toolResults/1",
			"/toolResults/1/toolCallId out of order; its result belongs at /toolResults/0"}},
		"one missing": {answered("a", "c"), []string{
			"/toolResults 3 results, and 2 came",
			"/toolResults/1/toolCallId belongs at /toolResults/2",
			`/toolResults No result came for "b" (read_b)`}},
		"one too many": {answered("a", "b", "c", "d"), []string{
			"/toolResults 3 results, and 4 came",
			`/toolResults/3/toolCallId "d" is not a call that this turn waits for`}},
		"unknown": {answered("a", "x", "c"), []string{
			`/toolResults/1/toolCallId "x" is not a call`,
			`/toolResults No result came for "b"`}},
		"another case": {answered("A", "b", "c"), []string{
			`/toolResults/0/toolCallId "A" is not a call`,
			`/toolResults No result came for "a"`}},
		"twice": {answered("a", "a", "c"), []string{
			`/toolResults/1/toolCallId "a" was answered by /toolResults/0 already`,
			`/toolResults No result came for "b"`}},
		"twice, the second in place": {answered("b", "b", "c"), []string{
			`/toolResults/0/toolCallId "b" is out of order`,
			`/toolResults/1/toolCallId "b" was answered by /toolResults/0 already`,
			`/toolResults No result came for "a"`}},
		"twice and whole": {answered("a", "b", "c", "c"), []string{
			"/toolResults 3 results, and 4 came",
			`/toolResults/3/toolCallId "c" was answered by /toolResults/2 already`}},
		"none": {answered(), []string{
			"/toolResults 3 results, and 0 came",
			`/toolResults No result came for "a"`, `/toolResults No result came for "b"`, `/toolResults No result came for "c"`}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := MatchResults(abc, tc.sent)
			if got != nil || agent.KindOf(err) != agent.KindToolResultsMismatch {
				t.Fatalf("MatchResults = %v, %v; want nothing and %s", got, err, agent.KindToolResultsMismatch)
			}
			violations := violationsOf(err)
			if len(violations) != len(tc.want) {
				t.Fatalf("violations = %+v, want %d", violations, len(tc.want))
			}
			for i, v := range violations {
				pointer, words, _ := strings.Cut(tc.want[i], " ")
				if v.Pointer != pointer || v.Rule != "AGN034-5-e" || !strings.Contains(v.Message, words) {
					t.Errorf("violation %d = %+v, want %s", i, v, tc.want[i])
				}
			}
		})
	}
}

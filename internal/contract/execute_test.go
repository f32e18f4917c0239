package contract

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prove"
)

func TestDecodeExecute_FieldsTellTheScenarios(t *testing.T) {
	prove.Rule(t, "AGN034-2-a", "AGN034-3-b")
	for body, wantContinuation := range map[string]bool{
		userTurn(`"instruction":"hi"`):                                                  false,
		userTurn(`"instruction":"hi","toolResults":null`):                               false,
		userTurn(`"instruction":"hi","toolResults":[]`):                                 false,
		continuation(`"instruction":null`):                                              true,
		continuation(`"inputArtifacts":[]`):                                             true,
		continuation(`"InputArtifacts":[],"ragScope":null`):                             true,
		strings.Replace(continuation(`"stream":null`), "toolResults", "ToolResults", 1): true,
	} {
		r, err := DecodeExecute([]byte(body), Limits{})
		if err != nil {
			t.Errorf("DecodeExecute(%s): %v", body, err)
		}
		if got := r.Continuation != nil; got != wantContinuation || (r.User != nil) == got {
			t.Errorf("DecodeExecute(%s) = %+v, want continuation %v", body, r, wantContinuation)
		}
	}
}

func TestDecodeExecute_NothingBesidesTheTwoScenarios(t *testing.T) {
	prove.Rule(t, "AGN034-2-a")
	for _, body := range []string{`[]`, `"hi"`, `1`, `true`, `null`} {
		refuse(t, body, " AGN034-2-a")
	}
	refuse(t, `{}`, "/sessionId AGN034-2.1-a", "/turnId AGN034-2.1-b", " AGN034-2.1-c")
}

func TestDecodeExecute_NoDiscriminator(t *testing.T) {
	prove.Rule(t, "AGN034-3-b")
	for _, name := range []string{"kind", "type", "requestType", "scenario"} {
		refuse(t, userTurn(`"instruction":"hi","`+name+`":"user_turn"`), "/"+name+" APTIX-unknown-member")
		refuse(t, continuation(`"`+name+`":"tool_continuation"`), "/"+name+" APTIX-unknown-member")
	}
}

func TestDecodeExecute_RequiredEnvelope(t *testing.T) {
	prove.Rule(t, "AGN034-2.1-a", "AGN034-2.1-b", "AGN034-2.2-a", "AGN034-2.2-b", "AGN034-3-a")
	const results = `"toolResults":[{"toolCallId":"c1","executionMs":1,"resultJson":"1"}]`
	for _, tc := range []struct {
		body string
		want []string
	}{
		{`{"turnId":"t1","instruction":"hi"}`, []string{"/sessionId AGN034-2.1-a"}},
		{`{"sessionId":"s1","instruction":"hi"}`, []string{"/turnId AGN034-2.1-b"}},
		{`{"sessionId":null,"turnId":"","instruction":"hi"}`, []string{"/sessionId AGN034-2.1-a", "/turnId AGN034-2.1-b"}},
		{`{"SessionId":7,"turnId":{},"instruction":"hi"}`, []string{"/SessionId AGN034-2.1-a", "/turnId AGN034-2.1-b"}},
		{`{"turnId":"t1",` + results + `}`, []string{"/sessionId AGN034-2.2-a"}},
		{`{"sessionId":"s1",` + results + `}`, []string{"/turnId AGN034-2.2-b"}},
		{`{"sessionId":false,` + results + `}`, []string{"/sessionId AGN034-2.2-a", "/turnId AGN034-2.2-b"}},
	} {
		refuse(t, tc.body, tc.want...)
	}
}

func TestDecodeExecute_IDs(t *testing.T) {
	for _, id := range []string{"s", "S-1_2.3", strings.Repeat("x", 128), "...", "018f3c1e-7d3a-7c1b-9b1a-2f4e5d6c7b8a"} {
		u := accept(t, `{"sessionId":"`+id+`","turnId":"`+id+`","instruction":"hi"}`)
		if string(u.SessionID) != id || string(u.TurnID) != id {
			t.Errorf("ids = %q, %q, want %q", u.SessionID, u.TurnID, id)
		}
	}
	for _, id := range []string{".", "..", "a/b", "a b", "é", `a\n`, "a%2e", `\u202ea`, strings.Repeat("x", 129)} {
		refuse(t, `{"sessionId":"`+id+`","turnId":"`+id+`","instruction":"hi"}`, "/sessionId APTIX-ids", "/turnId APTIX-ids")
	}
}

func TestDecodeExecute_ServerOwnedMembersAreRefused(t *testing.T) {
	prove.Rule(t, "AGN034-1-b", "AGN034-2.1-f", "AGN034-2.1-g", "AGN034-3-c", "AGN034-3-d", "AGN034-3-e", "AGN034-3-f", "AGN034-5-a")
	for _, tc := range []struct{ member, user, continuation string }{
		{"mode", "AGN034-2.1-f", "AGN034-3-c"},
		{"conversationId", "AGN034-2.1-g", "AGN034-3-f"},
		{"responseContinuationId", "AGN034-2.1-g", "AGN034-3-f"},
		{"previousResponseId", "AGN034-2.1-g", "AGN034-3-f"},
		{"correlationId", "AGN034-3-e", "AGN034-3-e"},
		{"diagnostics", "AGN034-3-d", "AGN034-3-d"},
		{"tools", "AGN034-1-b", "AGN034-1-b"},
		{"toolsJson", "AGN034-1-b", "AGN034-1-b"},
		{"toolResultsJson", "AGN034-5-a", "AGN034-5-a"},
		{"systemPrompt", "AGN034-1-b", "AGN034-2.2-d"},
		{"toolChoiceName", "AGN034-1-b", "AGN034-1-b"},
	} {
		for _, name := range []string{tc.member, strings.ToUpper(tc.member[:1]) + tc.member[1:]} {
			for _, value := range []string{`"x"`, `""`, `[]`, `{}`, `false`, `0`} {
				refuse(t, userTurn(`"instruction":"hi","`+name+`":`+value), "/"+name+" "+tc.user)
				refuse(t, continuation(`"`+name+`":`+value), "/"+name+" "+tc.continuation)
			}
			accept(t, userTurn(`"instruction":"hi","`+name+`":null`))
			acceptContinuation(t, continuation(`"`+name+`":null`))
		}
	}
}

func TestDecodeExecute_SaysWhereTheModeBelongs(t *testing.T) {
	_, err := DecodeExecute([]byte(userTurn(`"instruction":"hi","mode":"general"`)), Limits{})
	for _, want := range []string{"POST /v1/sessions", "PUT /v1/sessions/{sessionId}/mode"} {
		if got := violationsOf(err)[0].Message; !strings.Contains(got, want) {
			t.Errorf("message = %q, want it to name %q", got, want)
		}
	}
}

func TestDecodeExecute_ModelAgnostic(t *testing.T) {
	prove.Rule(t, "AGN034-1-a", "AGN034-1-b")
	for _, name := range []string{"model", "provider", "temperature", "maxOutputTokens", "previous_response_id", "input", "messages"} {
		refuse(t, userTurn(`"instruction":"hi","`+name+`":"x"`), "/"+name+" APTIX-unknown-member")
	}
}

func TestDecodeExecute_SameMeaningSameHash(t *testing.T) {
	prove.Rule(t, "AGN034-1-a")
	camel := `{"sessionId":"s1","turnId":"t1","instruction":"hi <b>",
		"inputArtifacts":[{"relativePath":"a.go","fileName":"a.go","contents":"x","origin":"ide","encoding":"utf8"}],
		"clipboardImages":[{"id":"i1","mimeType":"image/png","dataBase64":"AAAA"}],
		"ragScope":{"conditions":[{"key":"repo","operator":"==","values":["aptix"]}]},
		"solutionContextText":"Go","workspaceId":"w","repository":"r","language":"go","stream":true,
		"agentContextId":"a","conversationContextId":"c"}`
	pascal := `{"ConversationContextId":"c","AgentContextId":"a","Stream":true,"Language":"go","Repository":"r","WorkspaceId":"w",
		"SolutionContextText":"Go","RagScope":{"Conditions":[{"Values":["aptix"],"Operator":"==","Key":"repo"}]},
		"ClipboardImages":[{"DataBase64":"AAAA","MimeType":"image/png","Id":"i1"}],
		"InputArtifacts":[{"Origin":"ide","Contents":"x","FileName":"a.go","RelativePath":"a.go","MimeType":null}],
		"ToolResults":[],"Instruction":"hi <\u0062>","TurnId":"t1","SessionId":"s1"}`
	first, again, other := accept(t, camel), accept(t, camel), accept(t, pascal)
	if diff := cmp.Diff(first, other); diff != "" {
		t.Errorf("the spellings differ:\n%s", diff)
	}
	if first.SHA256() != again.SHA256() || first.SHA256() != other.SHA256() {
		t.Errorf("hashes = %s, %s, %s, want one", first.SHA256(), again.SHA256(), other.SHA256())
	}
	for _, change := range []struct{ was, is string }{
		{`"hi <b>"`, `"hi <c>"`}, {`"x"`, `"y"`}, {"AAAA", "AAAB"}, {`"stream":true`, `"stream":false`}, {`"Go"`, `""`},
	} {
		if accept(t, strings.Replace(camel, change.was, change.is, 1)).SHA256() == first.SHA256() {
			t.Errorf("%s for %s keeps the hash", change.is, change.was)
		}
	}

	c := acceptContinuation(t, `{"sessionId":"s1","turnId":"t1","toolResults":[{"toolCallId":"c1","executionMs":1,"resultJson":"1"},{"toolCallId":"c2","executionMs":2,"errorMessage":"no"}]}`)
	p := acceptContinuation(t, `{"ToolResults":[{"ResultJson":"1","ErrorMessage":null,"ExecutionMs":1,"ToolCallId":"c1"},{"ErrorMessage":"no","ToolCallId":"c2","ExecutionMs":2}],"TurnId":"t1","SessionId":"s1"}`)
	if diff := cmp.Diff(c, p); diff != "" || c.SHA256() != p.SHA256() {
		t.Errorf("the spellings of a continuation differ:\n%s", diff)
	}
}

func TestDecodeExecute_SameFaultsInTheSameOrder(t *testing.T) {
	prove.Rule(t, "AGN034-1-a")
	body := []byte(`{"mode":"x","b":1,"a":2,"sessionId":"..","inputArtifacts":[{"origin":"web"}]}`)
	_, first := DecodeExecute(body, Limits{})
	_, second := DecodeExecute(body, Limits{})
	if diff := cmp.Diff(violationsOf(first), violationsOf(second)); diff != "" {
		t.Errorf("two readings differ:\n%s", diff)
	}
	want := []string{
		"/sessionId APTIX-ids", "/turnId AGN034-2.1-b",
		"/inputArtifacts/0/relativePath AGN034-4.2-a", "/inputArtifacts/0/fileName AGN034-4.2-b",
		"/inputArtifacts/0/origin AGN034-4.2-d", "/inputArtifacts/0/contents AGN034-4.2-c",
		"/mode AGN034-2.1-f", "/b APTIX-unknown-member", "/a APTIX-unknown-member",
	}
	if diff := cmp.Diff(want, lines(first)); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}

func TestDecodePreview_IsAlwaysAUserTurn(t *testing.T) {
	prove.Rule(t, "AGN034-2.1-e", "AGN034-5-a")
	u, err := DecodePreview([]byte(userTurn(`"instruction":"hi"`)), Limits{})
	if err != nil || u.Instruction != "hi" {
		t.Fatalf("DecodePreview = %+v, %v", u, err)
	}
	for _, results := range []string{`[{"toolCallId":"c1","executionMs":1,"resultJson":"1"}]`, `{}`, `"x"`} {
		_, err = DecodePreview([]byte(userTurn(`"instruction":"hi","toolResults":`+results)), Limits{})
		checkFaults(t, err, "/toolResults AGN034-2.1-e")
	}
	_, err = DecodePreview([]byte(`{"instruction":"hi"}`), Limits{})
	checkFaults(t, err, "/sessionId AGN034-2.1-a", "/turnId AGN034-2.1-b")
}

func TestDecodeExecute_BodyOverItsLimit(t *testing.T) {
	body := userTurn(`"instruction":"hi"`)
	if _, err := DecodeExecute([]byte(body), Limits{Body: int64(len(body))}); err != nil {
		t.Errorf("a body of the limit's size: %v", err)
	}
	for name, decode := range map[string]func([]byte, Limits) error{
		"execute": func(b []byte, l Limits) error { _, err := DecodeExecute(b, l); return err },
		"preview": func(b []byte, l Limits) error { _, err := DecodePreview(b, l); return err },
		"session": func(b []byte, l Limits) error { _, err := DecodeCreateSession(b, l); return err },
		"mode":    func(b []byte, l Limits) error { _, err := DecodeSetMode(b, l); return err },
		"tools":   func(b []byte, l Limits) error { _, err := DecodeSetTools(b, l); return err },
	} {
		for _, b := range []string{body, strings.Repeat(" ", len(body))} {
			if got := agent.KindOf(decode([]byte(b), Limits{Body: int64(len(body)) - 1})); got != agent.KindPayloadTooLarge {
				t.Errorf("%s: kind = %s, want %s", name, got, agent.KindPayloadTooLarge)
			}
		}
	}
}

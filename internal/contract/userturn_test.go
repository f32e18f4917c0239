package contract

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prove"
)

func pointer[T any](v T) *T { return &v }

func TestUserTurn_EveryMember(t *testing.T) {
	prove.Rule(t, "AGN034-2.1-d", "AGN034-4.2-e", "AGN034-4.5-a", "AGN034-4.6-a", "AGN034-4.7-a")
	got := accept(t, `{ "sessionId": "s1", "turnId": "t1", "instruction": "What can you do?", "stream": false,
		"inputArtifacts": [{"relativePath": "src/a.go", "fileName": "a.go", "contents": "package a\n", "origin": "ide", "mimeType": "text/x-go", "language": "go", "encoding": "utf8"}],
		"clipboardImages": [{"id": "i1", "mimeType": "image/png", "dataBase64": "iVBORw=="}],
		"ragScope": {"conditions": [{"key": "repo", "operator": "==", "values": ["aptix"]}]},
		"solutionContextText": "has agent.aptix", "workspaceId": "w", "repository": "r", "language": "en",
		"agentContextId": "a", "conversationContextId": "c" }`)
	want := UserTurn{
		SessionID: "s1", TurnID: "t1", Instruction: "What can you do?", Stream: pointer(false),
		InputArtifacts:      []agent.Artifact{{RelativePath: "src/a.go", FileName: "a.go", Contents: "package a\n", Origin: "ide", MimeType: "text/x-go", Language: "go", Encoding: "utf8"}},
		ClipboardImages:     []agent.Image{{ID: "i1", MimeType: "image/png", DataBase64: "iVBORw=="}},
		RAGScope:            &agent.RAGScope{Conditions: []agent.RAGCondition{{Key: "repo", Operator: "==", Values: []string{"aptix"}}}},
		SolutionContextText: pointer("has agent.aptix"), WorkspaceID: "w", Repository: "r", Language: "en",
		AgentContextID: "a", ConversationContextID: "c",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("user turn (-want +got):\n%s", diff)
	}
}

func TestUserTurn_EveryOptionalMemberMayBeMissingOrNull(t *testing.T) {
	prove.Rule(t, "AGN034-2.1-d", "AGN034-4.1-a", "AGN034-4.5-a", "AGN034-4.6-a", "AGN034-4.7-a")
	want := UserTurn{SessionID: "s1", TurnID: "t1", Instruction: "hi"}
	for _, body := range []string{
		userTurn(`"instruction":"hi"`),
		userTurn(`"instruction":"hi","inputArtifacts":null,"clipboardImages":null,"ragScope":null,"solutionContextText":null,"workspaceId":null,
			"repository":null,"language":null,"stream":null,"agentContextId":null,"conversationContextId":null,"toolResults":null`),
		userTurn(`"instruction":"hi","inputArtifacts":[],"clipboardImages":[],"ragScope":{"conditions":[]},"workspaceId":"","repository":"","language":""`),
	} {
		if diff := cmp.Diff(want, accept(t, body)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
}

func TestUserTurn_NeedsOneInput(t *testing.T) {
	prove.Rule(t, "AGN034-2.1-c", "AGN034-4.1-a")
	for _, members := range []string{
		`"instruction":"hi"`,
		`"inputArtifacts":[{"relativePath":"a","fileName":"a","contents":"","origin":"user"}]`,
		`"clipboardImages":[{"id":"i","mimeType":"image/png","dataBase64":"AAAA"}],"instruction":" \n"`,
	} {
		accept(t, userTurn(members))
	}
	for _, members := range []string{
		`"stream":true`,
		`"instruction":null`, `"instruction":""`, `"instruction":" \t\r\n\u00a0\u2003"`,
		`"inputArtifacts":[],"clipboardImages":[],"toolResults":[]`,
		`"solutionContextText":"x","workspaceId":"w","ragScope":{"conditions":[]}`,
	} {
		refuse(t, userTurn(members), " AGN034-2.1-c")
	}
	// A wrong input is one fault, and not a missing one too.
	refuse(t, userTurn(`"instruction":7`), "/instruction AGN034-4.1-a")
	refuse(t, userTurn(`"inputArtifacts":{}`), "/inputArtifacts AGN034-2.1-c")
	refuse(t, userTurn(`"clipboardImages":["x",null]`), "/clipboardImages/0 AGN034-2.1-c", "/clipboardImages/1 AGN034-2.1-c")
}

func TestUserTurn_InstructionIsCarriedAsWritten(t *testing.T) {
	prove.Rule(t, "AGN034-4.1-a")
	const markdown = "# Title\n\n* a <b> & \"c\" \u2028 🙂 \\n ```go\n```\n"
	u := accept(t, userTurn(`"instruction":"# Title\n\n* a <b> & \"c\" \u2028 \ud83d\ude42 \\n `+"```go\\n```"+`\n"`))
	if u.Instruction != markdown {
		t.Errorf("instruction = %q, want %q", u.Instruction, markdown)
	}
	if u := accept(t, artifactWith(`"instruction":"  \n"`)); u.Instruction != "" {
		t.Errorf("blank instruction = %q, want none", u.Instruction)
	}
}

func artifactWith(members string) string {
	return userTurn(`"inputArtifacts":[{"relativePath":"a","fileName":"a","contents":"x","origin":"ide"}],` + members)
}

func TestUserTurn_SolutionContextKeepsAbsentAndEmptyApart(t *testing.T) {
	prove.Rule(t, "AGN034-4.5-a")
	for members, want := range map[string]*string{
		`"instruction":"hi"`:                              nil,
		`"instruction":"hi","solutionContextText":null`:   nil,
		`"instruction":"hi","solutionContextText":""`:     pointer(""),
		`"instruction":"hi","SolutionContextText":"a\nb"`: pointer("a\nb"),
	} {
		if diff := cmp.Diff(want, accept(t, userTurn(members)).SolutionContextText); diff != "" {
			t.Errorf("%s (-want +got):\n%s", members, diff)
		}
	}
}

func TestUserTurn_WrongTypes(t *testing.T) {
	prove.Rule(t, "AGN034-2.1-d", "AGN034-4.5-a", "AGN034-4.7-a")
	refuse(t, userTurn(`"instruction":"hi","ragScope":[1],"solutionContextText":{},"workspaceId":1,"repository":[],"language":true,
		"stream":"yes","agentContextId":5,"conversationContextId":""`),
		"/ragScope AGN034-4.4-a", "/solutionContextText AGN034-4.5-a", "/workspaceId AGN034-4.6-a", "/repository AGN034-4.6-a",
		"/language AGN034-4.6-a", "/stream AGN034-4.7-a", "/agentContextId AGN034-2.1-d", "/conversationContextId AGN034-2.1-d")
	for _, stream := range []string{`0`, `1`, `"true"`, `[]`} {
		refuse(t, userTurn(`"instruction":"hi","stream":`+stream), "/stream AGN034-4.7-a")
	}
	refuse(t, userTurn(`"instruction":"hi","agentContextId":"`+strings.Repeat("é", 129)+`","conversationContextId":"a\nb"`),
		"/agentContextId APTIX-ids", "/conversationContextId APTIX-ids")
	accept(t, userTurn(`"instruction":"hi","agentContextId":"`+strings.Repeat("é", 128)+`"`))
}

// Hints and the scope of a search never decide whether a turn is taken, and touch
// nothing else in it.
func TestUserTurn_HintsAreAdvisory(t *testing.T) {
	prove.Rule(t, "AGN034-4.4-d", "AGN034-4.6-b")
	plain := accept(t, userTurn(`"instruction":"hi"`))
	for _, hints := range []string{
		`"workspaceId":"no such workspace","repository":"../../etc","language":"klingon"`,
		`"workspaceId":"` + strings.Repeat("w", 100_000) + `","repository":"https://example.org/?a=b","language":"\n"`,
		`"ragScope":{"conditions":[{"key":"no.such_key","operator":"contains","values":["nothing has it"]},{"key":"no.such_key","operator":"does_not_contain","values":["nothing has it"]}]}`,
	} {
		u := accept(t, userTurn(`"instruction":"hi",`+hints))
		u.WorkspaceID, u.Repository, u.Language, u.RAGScope = "", "", "", nil
		if diff := cmp.Diff(plain, u); diff != "" {
			t.Errorf("%s changes more than itself (-want +got):\n%s", hints, diff)
		}
	}
}

package pipeline_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/pipeline"
)

func TestExecute_RefusesWhatTheModelWouldNotSee(t *testing.T) {
	picture := agent.Image{ID: "i1", MimeType: "image/png", DataBase64: "iVBORw0KGgo="}
	text := agent.Artifact{RelativePath: "a.go", FileName: "a.go", Contents: "package a\n", Origin: "ide"}
	encoded := agent.Artifact{RelativePath: "b.txt", FileName: "b.txt", Contents: "aGVsbG8=", Origin: "user", Encoding: "base64"}
	binary := agent.Artifact{RelativePath: "c.bin", FileName: "c.bin", Contents: "AAEC/w==", Origin: "user", Encoding: "base64"}
	for name, tc := range map[string]struct {
		context   string
		artifacts []agent.Artifact
		images    []agent.Image
		want      []string // pointers; none means that the turn runs
	}{
		"an image":                    {"blind", nil, []agent.Image{picture}, []string{"/clipboardImages/0"}},
		"a binary file":               {"blind", []agent.Artifact{text, binary}, nil, []string{"/inputArtifacts/1"}},
		"everything is pointed at":    {"blind", []agent.Artifact{binary, binary}, []agent.Image{picture}, []string{"/inputArtifacts/0", "/inputArtifacts/1", "/clipboardImages/0"}},
		"text goes as text":           {"blind", []agent.Artifact{text, encoded}, nil, nil},
		"images where they are taken": {"unlettered", []agent.Artifact{text}, []agent.Image{picture}, nil},
		"all where it is taken":       {"default", []agent.Artifact{binary}, []agent.Image{picture}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var replies []llmtest.Reply
			if len(tc.want) == 0 {
				replies = append(replies, llmtest.Reply{Text: "Seen."})
			}
			r := newRig(t, withModel(t, replies...))
			x := pipeline.Execution{UserTurn: contract.UserTurn{SessionID: "s1", TurnID: "t1", Instruction: "Look",
				ConversationContextID: tc.context, InputArtifacts: tc.artifacts, ClipboardImages: tc.images}}
			if len(tc.want) == 0 {
				if got := r.answer(r.run(x)).PrimaryOutputText; got != "Seen." {
					t.Errorf("answer %q", got)
				}
				return
			}
			_, _, err := r.pipeline.Execute(t.Context(), caller, x)
			var e *agent.Error
			if !errors.As(err, &e) || e.Kind != agent.KindInvalidRequest {
				t.Fatalf("got %v", err)
			}
			var got []string
			for _, v := range e.Violations {
				got = append(got, v.Pointer)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("points at %v, want %v", got, tc.want)
			}
			if _, err := r.pipeline.Preview(t.Context(), caller, x.UserTurn); agent.KindOf(err) != agent.KindInvalidRequest {
				t.Errorf("preview: %v", err)
			}
			if n := len(r.provider.Requests()); n != 0 {
				t.Errorf("%d requests were sent", n)
			}
			if _, err := r.store.Session(t.Context(), caller.Org, "s1"); agent.KindOf(err) != agent.KindNotFound {
				t.Errorf("a session was left behind: %v", err)
			}
		})
	}
}

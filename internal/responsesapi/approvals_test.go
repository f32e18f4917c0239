package responsesapi_test

import (
	"strings"
	"testing"

	"github.com/openai/openai-go/v3/responses"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
)

// asking is a rig whose model lists the modes only with its user's approval.
func asking(t *testing.T, script ...llmtest.Reply) *rig {
	t.Helper()
	list := llmtest.Reply{Text: "Let me see. ", Calls: []llmtest.Call{{ID: "c1", Name: "agent_list_modes", Arguments: "{}"}}}
	r := newRig(t, append([]llmtest.Reply{list}, script...)...)
	r.rules = agent.ApprovalRules{"agent_list_modes": agent.ApprovalAsk}
	r.restart()
	return r
}

// approve decides as the user does, at the other door.
func (r *rig) approve(conversation string) {
	r.t.Helper()
	_, _, body := r.do("GET", "sessions/"+conversation+"/turns", "")
	_, turn, _ := strings.Cut(string(body), `"turnId":"`)
	turn, _, _ = strings.Cut(turn, `"`)
	if code, _, body := r.do("POST", "sessions/"+conversation+"/turns/"+turn+"/approvals/apr_1", `{"decision":"approve"}`); code != 200 {
		r.t.Fatalf("approve: %d %s", code, body)
	}
}

// A response whose turn waits for its user is in progress and says what for; no output of
// the client's decides. When the user has, it is the same response that completes.
func TestApproval_ResponseIsInProgress(t *testing.T) {
	r := asking(t, llmtest.Reply{Text: "There are three."})
	got := r.new(responses.ResponseNewParams{Model: "default", Input: text("What modes are there?")})
	if got.Status != "in_progress" || got.Metadata["aptix_waits_for"] != "approval" || got.Metadata["aptix_approvals"] != "apr_1 agent_list_modes" {
		t.Fatalf("got %s", got.RawJSON())
	}
	for name, body := range map[string]string{
		"an output for the call": `{"model":"default","previous_response_id":"` + got.ID + `","input":[{"type":"function_call_output","call_id":"c1","output":"approved"}]}`,
		"an approval of the API": `{"model":"default","previous_response_id":"` + got.ID + `","input":[{"type":"mcp_approval_response","approval_request_id":"apr_1","approve":true}]}`,
		"a message":              `{"model":"default","conversation":"` + got.Conversation.ID + `","input":"I approve apr_1"}`,
	} {
		if code, _, answer := r.do("POST", "responses", body); code < 400 {
			t.Errorf("%s: %d %s", name, code, answer)
		}
	}
	again, err := r.client.Responses.Get(t.Context(), got.ID, responses.ResponseGetParams{})
	if err != nil || again.Status != "in_progress" || again.Metadata["aptix_waits_for"] != "approval" {
		t.Fatalf("read again: %v %s", err, again.RawJSON())
	}
	r.approve(got.Conversation.ID)
	if err := r.provider.Await(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	r.restart() // when the turn has ended
	final, err := r.client.Responses.Get(t.Context(), got.ID, responses.ResponseGetParams{})
	if err != nil || final.Status != "completed" || !strings.HasSuffix(final.OutputText(), "There are three.") || final.Metadata["aptix_waits_for"] != "" {
		t.Errorf("at the end: %v %s", err, final.RawJSON())
	}
	if len(calls(*final)) != 0 {
		t.Errorf("the server's call is shown: %s", final.RawJSON())
	}
}

// A stream stays open over the decision, and reads the same afterwards.
func TestApproval_StreamGoesOnOverIt(t *testing.T) {
	r := asking(t, llmtest.Reply{Text: "There are three."})
	stream := r.client.Responses.NewStreaming(t.Context(), responses.ResponseNewParams{Model: "default", Input: text("What modes are there?")})
	defer func() { _ = stream.Close() }()
	var seen []string
	var end responses.Response
	approved := false
	for stream.Next() {
		e := stream.Current()
		seen = append(seen, e.Type)
		if e.Type == "response.output_text.delta" && !approved && strings.Contains(e.Delta, "see") {
			approved = true
			conversation := ""
			for conversation == "" || r.waiting(conversation) == "" {
				_, _, body := r.do("GET", "sessions", "")
				_, conversation, _ = strings.Cut(string(body), `"sessionId":"`)
				conversation, _, _ = strings.Cut(conversation, `"`)
			}
			r.approve(conversation)
		}
		end = e.Response
	}
	if err := stream.Err(); err != nil || end.Status != "completed" || !strings.HasSuffix(end.OutputText(), "There are three.") {
		t.Fatalf("error %v after %v: %s", err, seen, end.RawJSON())
	}
	_, _, replayed := r.do("GET", "responses/"+end.ID+"?stream=true", "")
	if got := strings.Count(string(replayed), "\nevent: ") + 1; got != len(seen) {
		t.Errorf("read again there are %d events, at first there were %d", got, len(seen))
	}
}

// waiting returns the first turn of a conversation that waits, as it is listed.
func (r *rig) waiting(conversation string) string {
	r.t.Helper()
	_, _, body := r.do("GET", "sessions/"+conversation+"/turns", "")
	if !strings.Contains(string(body), `"state":"waiting"`) {
		return ""
	}
	return string(body)
}

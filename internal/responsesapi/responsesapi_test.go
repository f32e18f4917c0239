package responsesapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/prove"
)

func text(s string) responses.ResponseNewParamsInputUnion {
	return responses.ResponseNewParamsInputUnion{OfString: openai.String(s)}
}

// weather is a tool of the client.
var weather = responses.ToolUnionParam{OfFunction: &responses.FunctionToolParam{
	Name: "get_weather", Description: openai.String("The weather in a city."), Strict: openai.Bool(false),
	Parameters: map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}},
}}

func (r *rig) new(p responses.ResponseNewParams, opts ...option.RequestOption) *responses.Response {
	r.t.Helper()
	resp, err := r.client.Responses.New(r.t.Context(), p, opts...)
	if err != nil {
		r.t.Fatalf("%v\n%s", err, r.log)
	}
	return resp
}

// stream reads a stream to its end.
func (r *rig) stream(p responses.ResponseNewParams) []responses.ResponseStreamEventUnion {
	r.t.Helper()
	s := r.client.Responses.NewStreaming(r.t.Context(), p)
	var out []responses.ResponseStreamEventUnion
	for s.Next() {
		out = append(out, s.Current())
	}
	if err := s.Err(); err != nil {
		r.t.Fatalf("%v\n%s", err, r.log)
	}
	for i, e := range out {
		if e.SequenceNumber != int64(i) {
			r.t.Errorf("event %d has sequence number %d", i, e.SequenceNumber)
		}
	}
	return out
}

func last(events []responses.ResponseStreamEventUnion) responses.Response {
	return events[len(events)-1].Response
}

func calls(r responses.Response) []responses.ResponseFunctionToolCall {
	var out []responses.ResponseFunctionToolCall
	for _, o := range r.Output {
		if o.Type == "function_call" {
			out = append(out, o.AsFunctionCall())
		}
	}
	return out
}

func output(callID, text string) responses.ResponseInputItemUnionParam {
	item := responses.ResponseInputItemParamOfFunctionCallOutput(text)
	item.OfFunctionCallOutput.CallID = openai.String(callID)
	return item
}

func outputs(items ...responses.ResponseInputItemUnionParam) responses.ResponseNewParamsInputUnion {
	return responses.ResponseNewParamsInputUnion{OfInputItemList: items}
}

func changeMode(to string) llmtest.Reply {
	return llmtest.Reply{Calls: []llmtest.Call{{Name: "agent_change_mode", Arguments: fmt.Sprintf(`{"mode":%q,"branch":false,"reason":"It fits."}`, to)}}}
}

func TestCreate_PlainText(t *testing.T) {
	r := newRig(t, llmtest.Reply{Text: "Hello there."})
	got := r.new(responses.ResponseNewParams{Model: "default", Input: text("Hi"), Temperature: openai.Float(0.5), SafetyIdentifier: openai.String("u1"),
		Metadata: map[string]string{"ticket": "42"}})
	if got.OutputText() != "Hello there." || got.Status != "completed" || got.Model != "default" || got.Temperature != 0.5 || got.SafetyIdentifier != "u1" {
		t.Errorf("got %s", got.RawJSON())
	}
	if diff := cmp.Diff(map[string]string(got.Metadata), map[string]string{"ticket": "42", "mode": "general"}); diff != "" {
		t.Errorf("metadata -got +want\n%s", diff)
	}
	if !strings.HasPrefix(got.Conversation.ID, "conv_") || got.Usage.TotalTokens == 0 {
		t.Errorf("got conversation %q and usage %+v", got.Conversation.ID, got.Usage)
	}
	again, err := r.client.Responses.Get(t.Context(), got.ID, responses.ResponseGetParams{})
	if err != nil {
		t.Fatal(err)
	}
	if again.RawJSON() != got.RawJSON() {
		t.Errorf("read again it is\n%s\nwant\n%s", again.RawJSON(), got.RawJSON())
	}
}

func TestCreate_FollowsUpByResponseAndByConversation(t *testing.T) {
	r := newRig(t, llmtest.Reply{Text: "one"}, llmtest.Reply{Text: "two"}, llmtest.Reply{Text: "three"})
	one := r.new(responses.ResponseNewParams{Model: "default", Input: text("1")})
	two := r.new(responses.ResponseNewParams{Model: "default", Input: text("2"), PreviousResponseID: openai.String(one.ID)})
	if two.Conversation.ID != one.Conversation.ID || two.PreviousResponseID != one.ID {
		t.Errorf("got %s", two.RawJSON())
	}
	three := r.new(responses.ResponseNewParams{Input: text("3"), Conversation: responses.ResponseNewParamsConversationUnion{OfString: openai.String(one.Conversation.ID)}})
	if three.OutputText() != "three" || three.Model != "default" {
		t.Errorf("got %s", three.RawJSON())
	}
	requests := r.provider.Requests()
	if !bytes.Contains(requests[2], []byte(`"one"`)) || !bytes.Contains(requests[2], []byte(`"two"`)) {
		t.Errorf("the model does not see what went before: %s", requests[2])
	}
	// The first response is no longer the end of the conversation.
	_, err := r.client.Responses.New(t.Context(), responses.ResponseNewParams{Model: "default", Input: text("x"), PreviousResponseID: openai.String(one.ID)})
	wantError(t, err, 400, "previous_response_id", "previous_response_not_found")
}

func TestStream_Text(t *testing.T) {
	r := newRig(t, llmtest.Reply{Text: "Hello there you."})
	events := r.stream(responses.ResponseNewParams{Model: "terse", Input: text("Hi")})
	var kinds []string
	var said strings.Builder
	for _, e := range events {
		kinds = append(kinds, e.Type)
		if e.Type == "response.output_text.delta" {
			said.WriteString(e.Delta)
		}
	}
	want := []string{
		"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
		"response.output_text.delta", "response.output_text.delta", "response.output_text.delta",
		"response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed",
	}
	if diff := cmp.Diff(kinds, want); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
	final := last(events)
	if said.String() != "Hello there you." || final.OutputText() != said.String() {
		t.Errorf("streamed %q, answered %q", said.String(), final.OutputText())
	}
	got, err := r.client.Responses.Get(t.Context(), final.ID, responses.ResponseGetParams{})
	if err != nil {
		t.Fatal(err)
	}
	if got.RawJSON() != final.RawJSON() {
		t.Errorf("read again it is\n%s\nwant\n%s", got.RawJSON(), final.RawJSON())
	}
}

// A streamed conversation with tools of both sides: the server's run on the server,
// the client's come back to it, and the change of the mode is told.
func TestStream_ConversationWithTools(t *testing.T) {
	r := newRig(t,
		changeMode("ddr_authoring"),
		llmtest.Reply{Text: "Let me look.", Calls: []llmtest.Call{{ID: "call_a", Name: "get_weather", Arguments: `{"city":"Oslo"}`}, {ID: "call_b", Name: "get_weather", Arguments: `{"city":"Rome"}`}}},
		llmtest.Reply{Text: "Cold and warm."},
	)
	first := last(r.stream(responses.ResponseNewParams{Model: "default", Input: text("Weather?"), Instructions: openai.String("Be brief."), Tools: []responses.ToolUnionParam{weather}}))
	if first.OutputText() != "Let me look." {
		t.Errorf("got the text %q", first.OutputText())
	}
	got := calls(first)
	if len(got) != 2 || got[0].CallID != "call_a" || got[0].Arguments != `{"city":"Oslo"}` || got[1].CallID != "call_b" {
		t.Fatalf("got the calls %+v", got)
	}
	if diff := cmp.Diff(map[string]string(first.Metadata), map[string]string{
		"mode": "ddr_authoring", "previous_mode": "general", "mode_change_reason": "It fits.", "mode_branch": "false",
	}); diff != "" {
		t.Errorf("metadata -got +want\n%s", diff)
	}
	if !bytes.Contains(r.provider.Requests()[0], []byte("Be brief.")) || !bytes.Contains(r.provider.Requests()[0], []byte(`"get_weather"`)) {
		t.Errorf("the model did not get the instructions and the tool: %s", r.provider.Requests()[0])
	}
	second := last(r.stream(responses.ResponseNewParams{Model: "default", PreviousResponseID: openai.String(first.ID), Tools: []responses.ToolUnionParam{weather},
		Input: outputs(output("call_b", "hot"), output("call_a", "3 °C"))})) // in no particular order
	if second.OutputText() != "Cold and warm." || second.PreviousResponseID != first.ID || second.Metadata["mode"] != "ddr_authoring" {
		t.Errorf("got %s", second.RawJSON())
	}
	if request := string(r.provider.Requests()[2]); !strings.Contains(request, `"3 °C"`) || strings.Index(request, `"3 °C"`) > strings.Index(request, `"hot"`) {
		t.Errorf("the results are not in the order of the calls: %s", request)
	}
	if first.ID == second.ID {
		t.Error("both responses have the same id")
	}
	// Both can be read from then on.
	for _, want := range []responses.Response{first, second} {
		got, err := r.client.Responses.Get(t.Context(), want.ID, responses.ResponseGetParams{})
		if err != nil {
			t.Fatal(err)
		}
		if got.RawJSON() != want.RawJSON() {
			t.Errorf("read again it is\n%s\nwant\n%s", got.RawJSON(), want.RawJSON())
		}
	}
}

func TestFollow_ReplaysTheSameBytesFromEverywhere(t *testing.T) {
	r := newRig(t,
		llmtest.Reply{Text: "Looking it up.", Calls: []llmtest.Call{{ID: "call_m", Name: "agent_list_modes"}}},
		llmtest.Reply{Text: "And now.", Calls: []llmtest.Call{{ID: "call_a", Name: "get_weather", Arguments: `{"city":"Oslo"}`}}},
		llmtest.Reply{Text: "It is cold."},
	)
	tools := `"tools":[{"type":"function","name":"get_weather","parameters":{"type":"object","properties":{}},"strict":false}]`
	_, _, one := r.do("POST", "responses", `{"model":"default","stream":true,"input":"Weather?",`+tools+`}`)
	var created struct{ Response struct{ ID string } }
	if err := json.Unmarshal(eventData(one)[0], &created); err != nil {
		t.Fatal(err)
	}
	first := created.Response.ID
	_, _, two := r.do("POST", "responses", `{"stream":true,"previous_response_id":"`+first+`","input":[{"type":"function_call_output","call_id":"call_a","output":"cold"}]}`)
	if err := json.Unmarshal(eventData(two)[0], &created); err != nil {
		t.Fatal(err)
	}
	second := created.Response.ID
	replay := func(when string) {
		for id, whole := range map[string][]byte{first: one, second: two} {
			events := bytes.SplitAfter(bytes.TrimSuffix(whole, []byte("\n\n")), []byte("\n\n"))
			for n := -1; n < len(events); n++ {
				query := fmt.Sprintf("responses/%s?stream=true&starting_after=%d", id, n)
				if n < 0 {
					query = "responses/" + id + "?stream=true"
				}
				status, _, got := r.do("GET", query, "")
				want := bytes.Join(events[min(n+1, len(events)):], nil)
				if status != 200 || !bytes.Equal(bytes.TrimSpace(got), bytes.TrimSpace(want)) {
					t.Fatalf("%s, after %d: got %d\n%s\nwant\n%s", when, n, status, got, want)
				}
			}
		}
	}
	replay("while the server runs")
	r.restart()
	replay("after a restart")
}

// A follower of a running response gets what was, and then what comes.
func TestFollow_JoinsARunningResponse(t *testing.T) {
	gate := make(chan struct{})
	r := newRig(t, llmtest.Reply{Text: "One two three.", Block: gate, BlockAfter: 5})
	s := r.client.Responses.NewStreaming(t.Context(), responses.ResponseNewParams{Model: "default", Input: text("Count")})
	if !s.Next() {
		t.Fatal(s.Err())
	}
	id := s.Current().Response.ID
	running, err := r.client.Responses.Get(t.Context(), id, responses.ResponseGetParams{})
	if err != nil || running.Status != "in_progress" {
		t.Fatalf("got %v, %v", running, err)
	}
	joined := r.client.Responses.GetStreaming(t.Context(), id, responses.ResponseGetParams{StartingAfter: param.NewOpt[int64](0)})
	if !joined.Next() || joined.Current().Type != "response.in_progress" {
		t.Fatalf("got %+v, %v", joined.Current(), joined.Err())
	}
	close(gate)
	for joined.Next() {
	}
	if e := joined.Current(); joined.Err() != nil || e.Response.OutputText() != "One two three." {
		t.Errorf("got %+v, %v", e, joined.Err())
	}
	for s.Next() {
	}
	if s.Err() != nil || s.Current().RawJSON() != joined.Current().RawJSON() {
		t.Errorf("the two readers do not agree: %v", s.Err())
	}
}

// A client may claim a mode: for a new session it is the first one, later the
// session's own is used, and both the log and the answer say so.
func TestCreate_ClaimedModeIsOverwritten(t *testing.T) {
	prove.Rule(t, "AGN011-3.3-e", "AGN011-3.3-f", "AGN011-3.3-g")
	r := newRig(t, llmtest.Reply{Text: "one"}, llmtest.Reply{Text: "two"},
		llmtest.Reply{Calls: []llmtest.Call{{ID: "call_a", Name: "get_weather"}}}, llmtest.Reply{Text: "four"})
	one := r.new(responses.ResponseNewParams{Model: "default", Input: text("1"), Metadata: map[string]string{"mode": "ddr_authoring"}})
	if one.Metadata["mode"] != "ddr_authoring" || one.Metadata["aptix_warning"] != "" {
		t.Errorf("got metadata %v", one.Metadata)
	}
	const logged = "client claims another mode than the session's"
	if strings.Contains(r.log.String(), logged) {
		t.Error("the first turn is warned about")
	}
	two := r.new(responses.ResponseNewParams{Input: text("2"), PreviousResponseID: openai.String(one.ID), Metadata: map[string]string{"mode": "general", "k": "v"}})
	if two.OutputText() != "two" || two.Metadata["mode"] != "ddr_authoring" || two.Metadata["k"] != "v" {
		t.Errorf("got %q and metadata %v", two.OutputText(), two.Metadata)
	}
	if w := two.Metadata["aptix_warning"]; !strings.Contains(w, `"general"`) || !strings.Contains(w, `"ddr_authoring"`) {
		t.Errorf("got the warning %q", w)
	}
	if !strings.Contains(r.log.String(), logged) {
		t.Errorf("the log has no warning: %s", r.log)
	}
	if !bytes.Contains(r.provider.Requests()[1], []byte("[MODE: ddr_authoring]")) {
		t.Errorf("the turn does not run in the session's mode: %s", r.provider.Requests()[1])
	}
	// The same on a continuation.
	three := r.new(responses.ResponseNewParams{Input: text("3"), PreviousResponseID: openai.String(two.ID), Tools: []responses.ToolUnionParam{weather}})
	four := r.new(responses.ResponseNewParams{Input: outputs(output("call_a", "x")), PreviousResponseID: openai.String(three.ID), Metadata: map[string]string{"mode": "general"}})
	if four.Metadata["mode"] != "ddr_authoring" || !strings.Contains(four.Metadata["aptix_warning"], `"general"`) {
		t.Errorf("got metadata %v", four.Metadata)
	}
	history, _, err := r.sessions.ModeHistory(t.Context(), agent.Caller{Org: "local", User: "local"}, agent.SessionID(one.Conversation.ID), storePage)
	if err != nil || len(history) != 0 {
		t.Errorf("a claim changed the mode: %v, %v", history, err)
	}
}

func TestCreate_IdempotencyKey(t *testing.T) {
	r := newRig(t, llmtest.Reply{Text: "one"}, llmtest.Reply{Text: "two"}, llmtest.Reply{Text: "three"})
	p := responses.ResponseNewParams{Model: "default", Input: text("Hi"), Instructions: openai.String("Be brief.")}
	key := option.WithHeader("Idempotency-Key", "k 1")
	one := r.new(p, key)
	if again := r.new(p, key); again.RawJSON() != one.RawJSON() {
		t.Errorf("got\n%s\nwant\n%s", again.RawJSON(), one.RawJSON())
	}
	p.Instructions = openai.String("Be long.")
	_, err := r.client.Responses.New(t.Context(), p, key)
	wantError(t, err, 409, "", "turn_conflict")
	// A follow-up too, although it is itself the latest by then.
	p = responses.ResponseNewParams{Input: text("And?"), PreviousResponseID: openai.String(one.ID)}
	key = option.WithHeader("Idempotency-Key", "k2")
	two := r.new(p, key)
	if again := r.new(p, key); again.RawJSON() != two.RawJSON() {
		t.Errorf("got\n%s\nwant\n%s", again.RawJSON(), two.RawJSON())
	}
	if other := r.new(responses.ResponseNewParams{Model: "default", Input: text("Hi")}); other.ID == one.ID {
		t.Error("without a key it is the same turn")
	}
}

// The results of the same calls sent twice are the same response.
func TestCreate_RepeatedResultsAreTheSameResponse(t *testing.T) {
	r := newRig(t, llmtest.Reply{Calls: []llmtest.Call{{ID: "call_a", Name: "get_weather"}}}, llmtest.Reply{Text: "Cold."})
	one := r.new(responses.ResponseNewParams{Model: "default", Input: text("?"), Tools: []responses.ToolUnionParam{weather}})
	p := responses.ResponseNewParams{PreviousResponseID: openai.String(one.ID), Input: outputs(output("call_a", "3"))}
	if a, b := r.new(p), r.new(p); a.RawJSON() != b.RawJSON() {
		t.Errorf("got\n%s\nand\n%s", a.RawJSON(), b.RawJSON())
	}
}

// A follow-up's own instructions reach the model also where the canonical request has
// no system message, with every call of the turn and not beyond it.
func TestCreate_InstructionsOfAFollowUp(t *testing.T) {
	r := newRig(t, llmtest.Reply{Text: "one"}, llmtest.Reply{Calls: []llmtest.Call{{ID: "call_a", Name: "get_weather"}}}, llmtest.Reply{Text: "two"}, llmtest.Reply{Text: "three"})
	one := r.new(responses.ResponseNewParams{Model: "default", Input: text("1")})
	two := r.new(responses.ResponseNewParams{Input: text("2"), PreviousResponseID: openai.String(one.ID), Instructions: openai.String("Rhyme."), Tools: []responses.ToolUnionParam{weather}})
	r.restart() // the journal knows them
	three := r.new(responses.ResponseNewParams{Input: outputs(output("call_a", "x")), PreviousResponseID: openai.String(two.ID)})
	r.new(responses.ResponseNewParams{Input: text("3"), PreviousResponseID: openai.String(three.ID)})
	for i, want := range []bool{false, true, true, false} {
		if got := bytes.Contains(r.provider.Requests()[i], []byte("Rhyme.")); got != want {
			t.Errorf("model call %d has the instructions: %v, want %v", i+1, got, want)
		}
	}
}

// A client that keeps the conversation itself sends all of it, tools included.
func TestCreate_StatelessClient(t *testing.T) {
	r := newRig(t, llmtest.Reply{Text: "Paris."})
	_, _, body := r.do("POST", "responses", `{"model":"default","store":false,"input":[
		{"role":"system","content":"You know cities."},
		{"role":"user","content":[{"type":"input_text","text":"Weather in Oslo?"}]},
		{"type":"function_call","call_id":"c1","name":"get_weather","arguments":"{\"city\":\"Oslo\"}"},
		{"type":"function_call_output","call_id":"c1","output":"3 °C"},
		{"type":"reasoning","id":"rs_1","summary":[]},
		{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Cold."}]},
		{"role":"user","content":"The capital of France?"}]}`)
	if !bytes.Contains(body, []byte("Paris.")) {
		t.Fatalf("got %s", body)
	}
	request := string(r.provider.Requests()[0])
	for _, want := range []string{"You know cities.", "Weather in Oslo?", "3 °C", "Cold.", "The capital of France?"} {
		if !strings.Contains(request, want) {
			t.Errorf("the model does not see %q: %s", want, request)
		}
	}
}

func TestCreate_ImagesAndFiles(t *testing.T) {
	r := newRig(t, llmtest.Reply{Text: "Seen."})
	const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	_, _, body := r.do("POST", "responses", `{"model":"default","input":[{"role":"user","content":[
		{"type":"input_text","text":"What is it?"},
		{"type":"input_image","image_url":"data:image/png;base64,`+png+`"},
		{"type":"input_file","filename":"a.txt","file_data":"data:text/plain;base64,aGVsbG8gZmlsZQ=="}]}]}`)
	var resp responses.Response
	if err := json.Unmarshal(body, &resp); err != nil || resp.OutputText() != "Seen." {
		t.Fatalf("got %s, %v", body, err)
	}
	if request := string(r.provider.Requests()[0]); !strings.Contains(request, png) || !strings.Contains(request, "hello file") {
		t.Errorf("the model does not see them: %s", request)
	}
	items, err := r.client.Responses.InputItems.List(t.Context(), resp.ID, responses.InputItemListParams{})
	if err != nil || len(items.Data) != 1 || len(items.Data[0].AsMessage().Content) != 3 {
		t.Errorf("got %+v, %v", items, err)
	}
}

func TestCancel_EndsARunningResponse(t *testing.T) {
	gate := make(chan struct{})
	defer close(gate)
	r := newRig(t, llmtest.Reply{Text: "never", Block: gate})
	s := r.client.Responses.NewStreaming(t.Context(), responses.ResponseNewParams{Model: "default", Input: text("?")})
	if !s.Next() {
		t.Fatal(s.Err())
	}
	got, err := r.client.Responses.Cancel(t.Context(), s.Current().Response.ID)
	if err != nil || got.Status != "cancelled" {
		t.Fatalf("got %v, %v", got, err)
	}
	for s.Next() {
	}
	if e := s.Current(); s.Err() != nil || e.Type != "response.incomplete" || e.Response.Status != "cancelled" {
		t.Errorf("the stream ends with %s, %v", e.RawJSON(), s.Err())
	}
}

// An answer that the provider cuts short is one of its own kind, with its reason and
// with the text so far; a call in it does not reach the client. The conversation goes on.
func TestCreate_AnIncompleteAnswerSaysWhy(t *testing.T) {
	for _, reason := range []string{"max_output_tokens", "content_filter"} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %t", reason, stream), func(t *testing.T) {
				r := newRig(t, llmtest.Reply{Text: "Half an", Calls: []llmtest.Call{{Name: "pick"}}, Incomplete: reason}, llmtest.Reply{Text: "Whole."})
				params := responses.ResponseNewParams{Model: "default", Input: text("?"),
					Conversation: responses.ResponseNewParamsConversationUnion{OfString: openai.String("talk")}}
				var got *responses.Response
				if !stream {
					got = r.new(params)
				} else {
					s := r.client.Responses.NewStreaming(t.Context(), params)
					for s.Next() {
					}
					last := s.Current()
					if s.Err() != nil || last.Type != "response.incomplete" {
						t.Fatalf("the stream ends with %s, %v", last.RawJSON(), s.Err())
					}
					got = &last.Response
				}
				again, err := r.client.Responses.Get(t.Context(), got.ID, responses.ResponseGetParams{})
				if err != nil {
					t.Fatal(err)
				}
				for _, resp := range []*responses.Response{got, again} {
					if resp.Status != "incomplete" || resp.IncompleteDetails.Reason != reason || resp.OutputText() != "Half an" {
						t.Errorf("got %s", resp.RawJSON())
					}
					if len(resp.Output) != 1 || resp.Output[0].Status != "incomplete" {
						t.Errorf("the output is %s", resp.RawJSON())
					}
				}
				if next := r.new(params); next.Status != "completed" || next.OutputText() != "Whole." {
					t.Errorf("the next response is %s", next.RawJSON())
				}
			})
		}
	}
}

func TestCreate_WarnsOfTurnsThatWereLeftOut(t *testing.T) {
	r := newRig(t, llmtest.Reply{Text: "One."},
		llmtest.Reply{Status: 400, Body: `{"error":{"message":"Too long.","code":"context_length_exceeded"}}`, Headers: map[string]string{"Content-Type": "application/json"}},
		llmtest.Reply{Text: "Two."})
	talk := responses.ResponseNewParamsConversationUnion{OfString: openai.String("talk")}
	r.new(responses.ResponseNewParams{Model: "default", Input: text("1"), Conversation: talk})
	got := r.new(responses.ResponseNewParams{Model: "default", Input: text("2"), Conversation: talk})
	if got.OutputText() != "Two." || !strings.Contains(got.Metadata["aptix_warning"], "no longer fits the model") {
		t.Errorf("got %s", got.RawJSON())
	}
}

func TestDelete(t *testing.T) {
	r := newRig(t, llmtest.Reply{Text: "one"}, llmtest.Reply{Text: "two"}, llmtest.Reply{Text: "three"})
	alone := r.new(responses.ResponseNewParams{Model: "default", Input: text("1")})
	if err := r.client.Responses.Delete(t.Context(), alone.ID); err != nil {
		t.Fatal(err)
	}
	_, err := r.client.Responses.Get(t.Context(), alone.ID, responses.ResponseGetParams{})
	wantError(t, err, 404, "", "not_found")
	two := r.new(responses.ResponseNewParams{Model: "default", Input: text("2")})
	r.new(responses.ResponseNewParams{Input: text("3"), PreviousResponseID: openai.String(two.ID)})
	wantError(t, r.client.Responses.Delete(t.Context(), two.ID), 409, "", "response_in_conversation")
}

func TestModels(t *testing.T) {
	r := newRig(t, llmtest.Reply{Text: "x"})
	page, err := r.client.Models.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range page.Data {
		ids = append(ids, m.ID)
		if got, err := r.client.Models.Get(t.Context(), m.ID); err != nil || got.ID != m.ID {
			t.Errorf("model %s: got %v, %v", m.ID, got, err)
		}
	}
	if diff := cmp.Diff(ids, []string{"default", "terse", "other/default"}); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
	if got := r.new(responses.ResponseNewParams{Model: "other/default", Input: text("Hi")}); got.Model != "other/default" {
		t.Errorf("got model %s", got.Model)
	}
	_, err = r.client.Models.Get(t.Context(), "gpt-9")
	wantError(t, err, 404, "model", "model_not_found")
}

func TestCreate_AProviderFaultIsNoAnswer(t *testing.T) {
	r := newRig(t, llmtest.Reply{Status: 500}, llmtest.Reply{Deltas: []string{"Half ", "an "}, Cut: 6})
	_, err := r.client.Responses.New(t.Context(), responses.ResponseNewParams{Model: "default", Input: text("?")})
	wantError(t, err, 502, "", "provider_failed")
	if e := (*openai.Error)(nil); errors.As(err, &e) && e.Response.Header.Get("X-Should-Retry") != "false" {
		t.Error("the client is not kept from paying for it twice")
	}
	events := r.stream(responses.ResponseNewParams{Model: "default", Input: text("?")})
	end := events[len(events)-1]
	if end.Type != "response.failed" || end.Response.Status != "failed" || end.Response.Error.Code != "server_error" {
		t.Errorf("got %s", end.RawJSON())
	}
	got, err := r.client.Responses.Get(t.Context(), end.Response.ID, responses.ResponseGetParams{})
	if err != nil || got.RawJSON() != end.Response.RawJSON() {
		t.Errorf("read again it is\n%v, %v", got, err)
	}
}

func TestCreate_Refusals(t *testing.T) {
	r := newRig(t,
		llmtest.Reply{Calls: []llmtest.Call{{ID: "call_a", Name: "get_weather"}, {ID: "call_b", Name: "get_weather"}}},
		llmtest.Reply{Text: "done"},
	)
	waiting := r.new(responses.ResponseNewParams{Model: "default", Input: text("?"), Tools: []responses.ToolUnionParam{weather}})
	after := `"previous_response_id":"` + waiting.ID + `","input":`
	out := func(id string) string {
		return `{"type":"function_call_output","call_id":"` + id + `","output":"x"}`
	}
	for _, tt := range []struct {
		name, body  string
		status      int
		param, code string
	}{
		{"not JSON", `{`, 400, "", "invalid_json"},
		{"twice", `{"model":"default","model":"default","input":"x"}`, 400, "", "invalid_json"},
		{"no input", `{"model":"default"}`, 400, "input", "missing_required_parameter"},
		{"empty input", `{"model":"default","input":[]}`, 400, "input", "missing_required_parameter"},
		{"unknown model", `{"model":"gpt-9","input":"x"}`, 404, "model", "model_not_found"},
		{"unknown parameter", `{"model":"default","input":"x","colour":"red"}`, 400, "colour", "unknown_parameter"},
		{"wrong type", `{"model":"default","input":"x","temperature":"hot"}`, 400, "temperature", "invalid_type"},
		{"half a token", `{"model":"default","input":"x","max_output_tokens":1.5}`, 400, "max_output_tokens", "invalid_type"},
		{"endless echo", `{"model":"default","input":"x","user":"` + strings.Repeat("u", 20<<10) + `"}`, 400, "user", "invalid_value"},
		{"message while it waits", `{"model":"default","input":"x","conversation":"` + waiting.Conversation.ID + `"}`, 400, "input", "tool_output_mismatch"},
		{"background", `{"model":"default","input":"x","background":true}`, 400, "background", "unsupported_parameter"},
		{"prompt", `{"model":"default","input":"x","prompt":{"id":"p"}}`, 400, "prompt", "unsupported_parameter"},
		{"JSON schema", `{"model":"default","input":"x","text":{"format":{"type":"json_schema","name":"n","schema":{}}}}`, 400, "text.format", "unsupported_parameter"},
		{"hosted tool", `{"model":"default","input":"x","tools":[{"type":"web_search"}]}`, 400, "tools[0].type", "unsupported_value"},
		{"reserved tool", `{"model":"default","input":"x","tools":[{"type":"function","name":"agent_change_mode","parameters":{}}]}`, 400, "tools[0].name", "invalid_request"},
		{"required", `{"model":"default","input":"x","tool_choice":"required"}`, 400, "tool_choice", "unsupported_value"},
		{"choice of nothing", `{"model":"default","input":"x","tool_choice":{"type":"function","name":"f"}}`, 400, "tool_choice", "invalid_value"},
		{"unknown mode", `{"model":"default","input":"x","metadata":{"mode":"no_such"}}`, 400, "metadata.mode", "unknown_mode"},
		{"remote image", `{"model":"default","input":[{"role":"user","content":[{"type":"input_image","image_url":"https://example.com/a.png"}]}]}`, 400, "input[0].content[0].image_url", "unsupported_value"},
		{"uploaded file", `{"model":"default","input":[{"role":"user","content":[{"type":"input_file","file_id":"file_1"}]}]}`, 400, "input[0].content[0].file_id", "unsupported_parameter"},
		{"broken image", `{"model":"default","input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,%%%"}]}]}`, 400, "input", "invalid_value"},
		{"image that is not seen", `{"model":"terse","input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo="}]}]}`, 400, "input", "invalid_value"},
		{"no such item", `{"model":"default","input":[{"type":"item_reference","id":"i"}]}`, 400, "input[0].type", "unsupported_value"},
		{"no such response", `{"model":"default","input":"x","previous_response_id":"resp_abc"}`, 400, "previous_response_id", "previous_response_not_found"},
		{"both", `{"model":"default","input":"x","previous_response_id":"` + waiting.ID + `","conversation":"c"}`, 400, "previous_response_id", "mutually_exclusive_parameters"},
		{"bad conversation", `{"model":"default","input":"x","conversation":"a b"}`, 400, "conversation", "invalid_value"},
		{"nothing waits", `{"model":"default","conversation":"c0","input":[` + out("call_a") + `]}`, 400, "input", "tool_output_mismatch"},
		{"other model", `{"model":"terse","input":"x","conversation":"` + waiting.Conversation.ID + `"}`, 409, "model", "context_pinned"},
		{"message instead of outputs", `{` + after + `"x"}`, 400, "input", "tool_output_mismatch"},
		{"one output missing", `{` + after + `[` + out("call_a") + `]}`, 400, "input", "tool_output_mismatch"},
		{"one too many", `{` + after + `[` + out("call_a") + `,` + out("call_b") + `,` + out("call_c") + `]}`, 400, "input", "tool_output_mismatch"},
		{"one twice", `{` + after + `[` + out("call_a") + `,` + out("call_b") + `,` + out("call_a") + `]}`, 400, "input", "tool_output_mismatch"},
		{"another call", `{` + after + `[{"type":"function_call","call_id":"call_a","name":"get_weather","arguments":"{\"city\":1}"},` + out("call_a") + `,` + out("call_b") + `]}`, 400, "input", "invalid_value"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, h, body := r.do("POST", "responses", tt.body)
			wantFault(t, status, h, body, tt.status, tt.param, tt.code)
		})
	}
	// The turn waits still, and the calls may come back with their results.
	_, _, body := r.do("POST", "responses", `{`+after+`[{"type":"function_call","call_id":"call_a","name":"get_weather","arguments":" { } "},`+out("call_b")+`,`+out("call_a")+`]}`)
	if !bytes.Contains(body, []byte(`"done"`)) {
		t.Errorf("got %s", body)
	}
}

// The edge's own faults are in OpenAI's form too.
func TestFaults_OfTheEdge(t *testing.T) {
	r := newRig(t)
	for _, tt := range []struct {
		method, path, body, media string
		status                    int
		code                      string
	}{
		{"GET", "responses", "", "", 405, "method_not_allowed"},
		{"POST", "responses", "x", "text/plain", 415, "unsupported_media_type"},
		{"POST", "responses", `{"input":"` + strings.Repeat("x", 9<<20) + `"}`, "application/json", 413, "payload_too_large"},
		{"GET", "responses/nothing", "", "", 404, "not_found"},
		{"GET", "responses/resp_AAAA", "", "", 404, "not_found"},
		{"GET", "responses/a/b/c", "", "", 404, "not_found"},
		{"POST", "responses/resp_AAAA/cancel", "", "", 404, "not_found"},
		{"DELETE", "responses/resp_AAAA", "", "", 404, "not_found"},
		{"GET", "responses/resp_AAAA/input_items", "", "", 404, "not_found"},
		{"GET", "responses/resp_AAAA?stream=true", "", "", 404, "not_found"},
	} {
		status, h, body := r.do(tt.method, tt.path, tt.body, "Content-Type", tt.media)
		wantFault(t, status, h, body, tt.status, "", tt.code)
	}
}

func wantFault(t *testing.T, status int, h http.Header, body []byte, wantStatus int, wantParam, wantCode string) {
	t.Helper()
	var e struct {
		Error struct{ Message, Type, Param, Code string }
	}
	if err := json.Unmarshal(body, &e); err != nil || h.Get("Content-Type") != "application/json" {
		t.Fatalf("got %d %s %s: %v", status, h.Get("Content-Type"), body, err)
	}
	if status != wantStatus || e.Error.Param != wantParam || e.Error.Code != wantCode || e.Error.Message == "" || e.Error.Type == "" {
		t.Errorf("got %d %s, want %d with param %q and code %q", status, body, wantStatus, wantParam, wantCode)
	}
}

// wantError fails unless err is what the client makes of such a fault.
func wantError(t *testing.T, err error, status int, param, code string) {
	t.Helper()
	e := (*openai.Error)(nil)
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an error of the API", err)
	}
	if e.StatusCode != status || e.Param != param || e.Code != code || e.Message == "" {
		t.Errorf("got %d param %q code %q %q, want %d %q %q", e.StatusCode, e.Param, e.Code, e.Message, status, param, code)
	}
}

package render_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3/responses"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/render"
)

// answers are one response of every form.
func answers() map[string]render.Response {
	base := render.Response{ID: "resp_1", CreatedAt: 1700000000, Usage: render.Usage(400, 40), Echo: render.Echo{Model: "m"}}
	with := func(edit func(*render.Response)) render.Response {
		r := base
		edit(&r)
		return r
	}
	temperature, previous := 0.2, "resp_0"
	return map[string]render.Response{
		"text": with(func(r *render.Response) {
			r.Output = []render.Item{render.Message{ID: "msg_1", Deltas: []string{"Hel", "lo <b>&"}}}
		}),
		"empty text": with(func(r *render.Response) { r.Output = []render.Item{render.Message{ID: "msg_1"}} }),
		"refusal": with(func(r *render.Response) {
			r.Output = []render.Item{render.Message{ID: "msg_1", Refusal: "I would rather not."}}
		}),
		"calls after reasoning": with(func(r *render.Response) {
			r.Output = []render.Item{
				render.Raw(`{"type":"reasoning","id":"rs_1","summary":[]}`),
				render.Call{ID: "fc_1", CallID: "call_1", Name: "read_file", Arguments: `{"path":"src/größe.go"}`},
				render.Call{ID: "fc_2", CallID: "call_2", Name: "list_files", Arguments: ``},
			}
		}),
		"incomplete": with(func(r *render.Response) {
			r.Output = []render.Item{render.Message{ID: "msg_1", Deltas: []string{"cut"}}}
			r.Incomplete = "max_output_tokens"
		}),
		"failed": with(func(r *render.Response) { r.Failure = &render.Failure{Code: "server_error", Message: "boom"} }),
		"echo": with(func(r *render.Response) {
			r.Echo.PreviousResponseID, r.Echo.Temperature = &previous, &temperature
			r.Echo.Instructions = json.RawMessage(`"be brief"`)
			r.Echo.Tools = json.RawMessage(`[{"type":"function","name":"f","parameters":{},"strict":false}]`)
			r.Echo.ToolChoice = json.RawMessage(`{"type":"function","name":"f"}`)
		}),
	}
}

func TestResponse_JSONIsWhatTheAPIPublishes(t *testing.T) {
	check := published(t, "Response")
	for name, r := range answers() {
		t.Run(name, func(t *testing.T) {
			body, err := r.JSON()
			if err != nil {
				t.Fatal(err)
			}
			check(t, body)
			var got responses.Response
			if err := json.Unmarshal(body, &got); err != nil {
				t.Fatalf("openai-go cannot read %s: %v", body, err)
			}
			if got.ID != r.ID || len(got.Output) != len(r.Output) {
				t.Errorf("openai-go reads id %q and %d items, want %q and %d", got.ID, len(got.Output), r.ID, len(r.Output))
			}
		})
	}
}

func TestResponse_EventsAreWhatTheAPIPublishes(t *testing.T) {
	check := published(t, "ResponseStreamEvent")
	for name, r := range answers() {
		t.Run(name, func(t *testing.T) {
			events, err := r.Events()
			if err != nil {
				t.Fatal(err)
			}
			whole, err := r.JSON()
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			for i, e := range events {
				check(t, e.Data)
				var head struct {
					Type     string          `json:"type"`
					Sequence int             `json:"sequence_number"`
					Response json.RawMessage `json:"response"`
				}
				if err := json.Unmarshal(e.Data, &head); err != nil {
					t.Fatal(err)
				}
				if head.Sequence != i || head.Type != e.Type {
					t.Errorf("event %d: %s says type %q and sequence_number %d", i, e.Type, head.Type, head.Sequence)
				}
				var known responses.ResponseStreamEventUnion
				if err := json.Unmarshal(e.Data, &known); err != nil || known.AsAny() == nil {
					t.Errorf("openai-go does not know %s (%v)", e.Data, err)
				}
				if e.Type == render.EventTextDelta {
					text.WriteString(known.Delta)
				}
				if i == len(events)-1 && !bytes.Equal(head.Response, whole) {
					t.Errorf("the last event and the JSON form differ:\n%s", cmp.Diff(string(head.Response), string(whole)))
				}
			}
			var got responses.Response
			if err := json.Unmarshal(whole, &got); err != nil {
				t.Fatal(err)
			}
			if got.OutputText() != text.String() {
				t.Errorf("deltas say %q, the item %q", text.String(), got.OutputText())
			}
		})
	}
}

func TestResponse_EventsComeInTheOrderOfTheAPI(t *testing.T) {
	r := render.Response{ID: "resp_1", Output: []render.Item{
		render.Raw(`{"type":"reasoning","id":"rs_1","summary":[]}`),
		render.Message{ID: "msg_1", Deltas: []string{"a ", "b"}},
		render.Call{ID: "fc_1", CallID: "call_1", Name: "f", Arguments: "{}"},
	}}
	events, err := r.Events()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		got = append(got, strings.TrimPrefix(e.Type, "response."))
	}
	want := []string{
		"created", "in_progress",
		"output_item.added", "output_item.done",
		"output_item.added", "content_part.added", "output_text.delta", "output_text.delta", "output_text.done", "content_part.done", "output_item.done",
		"output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done",
		"completed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestResponse_RefusesARawItemThatIsNotJSON(t *testing.T) {
	r := render.Response{ID: "resp_1", Output: []render.Item{render.Raw(`{"type":`)}}
	if _, err := r.JSON(); err == nil {
		t.Error("JSON() = nil error")
	}
	if _, err := r.Events(); err == nil {
		t.Error("Events() = nil error")
	}
}

func TestEvent_SSEIsOneFrame(t *testing.T) {
	r := render.Response{ID: "resp_1", Output: []render.Item{render.Message{ID: "msg_1", Deltas: []string{"two\nlines\r\n"}}}}
	events, err := r.Events()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		frame := e.SSE()
		sc := bufio.NewScanner(bytes.NewReader(frame))
		var lines []string
		for sc.Scan() {
			lines = append(lines, sc.Text())
		}
		want := []string{"event: " + e.Type, "data: " + string(e.Data), ""}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("frame (-want +got):\n%s", diff)
		}
	}
}

func TestWords_JoinToTheText(t *testing.T) {
	for _, text := range []string{"", "one", " lead", "trail ", "a b\n\n- c  d\n", "größer 日本"} {
		words := render.Words(text)
		if got := strings.Join(words, ""); got != text {
			t.Errorf("Words(%q) joins to %q", text, got)
		}
		for _, w := range words {
			if w == "" {
				t.Errorf("Words(%q) = %q has an empty piece", text, words)
			}
		}
	}
}

func TestUsage_AddsUp(t *testing.T) {
	want := agent.Usage{InputTokens: 2, OutputTokens: 1, TotalTokens: 3}
	if got := render.Usage(11, 7); got != want {
		t.Errorf("Usage(11, 7) = %+v, want %+v", got, want)
	}
}

func TestFault_HasTheFormOfTheAPI(t *testing.T) {
	got := string(render.Fault("invalid_request_error", "no <b>", "input", ""))
	want := `{"error":{"message":"no <b>","type":"invalid_request_error","param":"input","code":null}}`
	if got != want {
		t.Errorf("Fault = %s, want %s", got, want)
	}
}

// published returns a check against a schema of OpenAI's document, which lies beside
// the checkout or nowhere; the check then has nothing to say.
func published(t *testing.T, name string) func(testing.TB, []byte) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "shared", "openai", "responses.openapi.json"))
	if err != nil {
		t.Log("WARNING: not checked against OpenAI's schema:", err)
		return func(testing.TB, []byte) {}
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	loosen(doc)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2019)
	c.UseLoader(jsonschema.SchemeURLLoader{})
	if err := c.AddResource("openai.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("openai.json#/components/schemas/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return func(t testing.TB, body []byte) {
		t.Helper()
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
		if err == nil {
			err = s.Validate(v)
		}
		if err != nil {
			t.Errorf("not a %s: %v\n%s", name, err, body)
		}
	}
}

// loosen reads oneOf as anyOf: the published alternatives overlap.
func loosen(node any) {
	switch n := node.(type) {
	case map[string]any:
		for _, v := range n {
			loosen(v)
		}
		delete(n, "discriminator")
		if one, ok := n["oneOf"]; ok {
			delete(n, "oneOf")
			n["allOf"] = []any{map[string]any{"anyOf": one}}
		}
	case []any:
		for _, v := range n {
			loosen(v)
		}
	}
}

// A response that is shown while it is made has the very events of the one that is
// made already.
func TestLive_IsTheStreamOfTheWhole(t *testing.T) {
	for name, r := range answers() {
		want, err := r.Events()
		if err != nil {
			t.Fatal(err)
		}
		var live render.Live
		var got []render.Event
		add := func(events []render.Event, err error) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, events...)
		}
		skip := r.Incomplete != "" // the provider's business; a turn has no such end
		add(live.Begin(r))
		for _, item := range r.Output {
			m, ok := item.(render.Message)
			if !ok || m.Refusal != "" || len(m.Deltas) == 0 {
				add(live.Add(item))
				continue
			}
			for _, d := range m.Deltas {
				add(live.Text(d, func(int) string { return m.ID }))
			}
			add(live.Close())
		}
		add(live.End(r))
		if diff := cmp.Diff(got, want); diff != "" && !skip {
			t.Errorf("%s: -got +want\n%s", name, diff)
		}
	}
}

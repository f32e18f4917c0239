package demo_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/aptixhq/aptix/internal/llm/demo"
)

func official(m *demo.Model) openai.Client {
	return openai.NewClient(option.WithBaseURL("http://demo.invalid/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0),
		option.WithHTTPClient(&http.Client{Transport: m.Transport()}))
}

func TestTransport_ServesTheOfficialClient(t *testing.T) {
	c := official(demo.New(demo.Config{}))
	params := responses.ResponseNewParams{
		Model: "demo",
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("read a.go and b.go")},
		Tools: []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{Name: "read_file", Parameters: map[string]any{"type": "object", "properties": map[string]any{"path": map[string]any{"type": "string"}}}}}},
	}
	whole, err := c.Responses.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`read_file {"path":"a.go"}`, `read_file {"path":"b.go"}`}
	if diff := cmp.Diff(want, calls(*whole)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if a, b := whole.Output[0], whole.Output[1]; a.CallID == b.CallID || a.ID == b.ID {
		t.Errorf("two calls share an id: %s %s, %s %s", a.ID, a.CallID, b.ID, b.CallID)
	}

	params.Input.OfString = openai.String("hello")
	whole, err = c.Responses.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	stream := c.Responses.NewStreaming(t.Context(), params)
	var deltas []string
	var last *responses.Response
	var seq int64
	for stream.Next() {
		e := stream.Current()
		if e.SequenceNumber != seq {
			t.Errorf("event %s has sequence_number %d, want %d", e.Type, e.SequenceNumber, seq)
		}
		seq++
		switch v := e.AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			deltas = append(deltas, v.Delta)
		case responses.ResponseCompletedEvent:
			last = &v.Response
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if last == nil {
		t.Fatal("the stream did not complete")
	}
	if len(deltas) < 10 {
		t.Errorf("the text came in %d pieces, want one for each word: %q", len(deltas), deltas)
	}
	if got := strings.Join(deltas, ""); got != whole.OutputText() || last.OutputText() != got {
		t.Errorf("streamed:\n%s\ncompleted:\n%s\nwhole:\n%s", got, last.OutputText(), whole.OutputText())
	}
}

func TestModel_SameRequestSameBytes(t *testing.T) {
	k := newTalk(t, serverTools...)
	k.say("help me write a design decision record")
	body := k.body("")
	_, a := k.post(body)
	_, b := k.post(body)
	if !bytes.Equal(a, b) {
		t.Errorf("two answers to one request:\n%s\n%s", a, b)
	}
	seen := map[string]bool{}
	for range 3 {
		for _, item := range k.say("list the modes").Output {
			if seen[item.ID] || seen[item.CallID] {
				t.Errorf("id %s or %s was given before", item.ID, item.CallID)
			}
			seen[item.ID], seen[item.CallID] = true, true
			k.result(item, `{"modes":[]}`)
		}
	}
}

func TestModel_RefusesWhatAProviderRefuses(t *testing.T) {
	const call = `{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}`
	const output = `{"type":"function_call_output","call_id":"c1","output":"{}"}`
	for _, tt := range []struct {
		name, body string
		status     int
		want       string
	}{
		{"a response it does not remember", `{"model":"m","previous_response_id":"resp_9","input":"hi"}`, 404, `{"error":{"message":"Previous response with id 'resp_9' not found.","type":"invalid_request_error","param":"previous_response_id","code":"previous_response_not_found"}}`},
		{"not JSON", `{"model"`, 400, "could not parse"},
		{"an open call", `{"model":"m","input":[` + call + `]}`, 400, "No tool output found for function call c1."},
		{"an output without a call", `{"model":"m","input":[` + output + `]}`, 400, "No tool call found for function call output with call_id c1."},
		{"two outputs", `{"model":"m","input":[` + call + `,` + output + `,` + output + `]}`, 400, "No tool call found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, body := newTalk(t).post([]byte(tt.body))
			if status != tt.status || !strings.Contains(string(body), tt.want) {
				t.Errorf("got %d %s, want %d with %q", status, body, tt.status, tt.want)
			}
		})
	}
	w := httptest.NewRecorder()
	demo.New(demo.Config{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/models", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("GET /v1/models is %d, want 404", w.Code)
	}
}

func TestModel_ReadsWhatIsThere(t *testing.T) {
	user := func(content string) string { return `{"role":"user","content":` + content + `}` }
	text := func(s string) string {
		q, _ := json.Marshal(s)
		return `{"type":"input_text","text":` + string(q) + `}`
	}
	const head = "[MODE: special]\n\n[INSTRUCTION]\n"
	done := `{"type":"function_call","call_id":"c1","name":"read_file","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"found it"}]}`
	for _, tt := range []struct{ name, input, want string }{
		{"a plain input", `"hello"`, "Hello!"},
		{"plain content", `[` + user(`"hello"`) + `]`, "Hello!"},
		{"a header in plain content", `[` + user(`"[MODE: special]\n\n[INSTRUCTION]\nhello"`) + `]`, "in **special** mode"},
		{"no input", `[]`, "offline demo model"},
		{"no input at all", `null`, "offline demo model"},
		{"unknown items", `[{"type":"reasoning","id":"rs_1","summary":[]},{"type":"teapot"},` + user(`"hello"`) + `]`, "Hello!"},
		{"blocks beside the instruction", `[` + user(`[`+text(head+"hello")+`,`+text("[CONTEXT]\nread a.go")+`]`) + `]`, "Hello!"},
		{"a follow-up without instruction", `[` + user(`"read a.go"`) + `,` + done + `,` + user(`[`+text(head)+`,`+text("[TOOL_RESULTS]\nx")+`]`) + `]`, "found it"},
		{"images alone", `[` + user(`[`+text(head)+`,{"type":"input_image","image_url":"data:,"},{"type":"input_image","image_url":"data:,"}]`) + `]`, "brought 2 images"},
		{"files with an instruction", `[` + user(`[`+text(head+"what do you think")+`,`+text("[INPUT_ARTIFACTS]\n…")+`,{"type":"input_image","image_url":"data:,"}]`) + `]`, "brought files and an image"},
		{"images in a turn after results", `[` + user(`"read a.go"`) + `,` + done + `,{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ok"}]},` + user(`[`+text(head)+`,{"type":"input_image","image_url":"data:,"}]`) + `]`, "brought an image"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, body := newTalk(t).post([]byte(`{"model":"m","input":` + tt.input + `}`))
			var resp responses.Response
			if err := json.Unmarshal(body, &resp); err != nil || status != http.StatusOK {
				t.Fatalf("got %d %s, %v", status, body, err)
			}
			if !strings.Contains(resp.OutputText(), tt.want) {
				t.Errorf("the answer does not say %q:\n%s", tt.want, resp.OutputText())
			}
		})
	}
}

const streamed = `{"model":"m","stream":true,"input":"hello"}`

func open(ctx context.Context, m *demo.Model) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://demo.invalid/v1/responses", strings.NewReader(streamed))
	if err != nil {
		return nil, err
	}
	return m.Transport().RoundTrip(req)
}

func TestConfig_DelayPacesTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 20 * time.Millisecond
		begin := time.Now()
		resp, err := open(t.Context(), demo.New(demo.Config{Delay: delay}))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var pieces int
		sc := bufio.NewScanner(resp.Body)
		for sc.Scan() {
			if sc.Text() == "event: response.output_text.delta" {
				pieces++
				if got, want := time.Since(begin), time.Duration(pieces)*delay; got != want {
					t.Errorf("piece %d came after %s, want %s", pieces, got, want)
				}
			}
		}
		if err := sc.Err(); err != nil || pieces < 10 {
			t.Errorf("%d pieces, %v", pieces, err)
		}
	})
}

func TestTransport_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := open(ctx, demo.New(demo.Config{Delay: time.Hour}))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			t.Errorf("got %d %q", resp.StatusCode, resp.Header.Get("Content-Type"))
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, len("event: response.created"))); err != nil {
			t.Fatal(err)
		}
		go func() {
			synctest.Wait()
			cancel()
		}()
		if _, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, context.Canceled) {
			t.Errorf("the body ended with %v, want context.Canceled", err)
		}
	})
}

func TestTransport_CloseStopsTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resp, err := open(t.Context(), demo.New(demo.Config{Delay: time.Hour}))
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("Close took %s", waited)
		}
		if _, err := resp.Body.Read(make([]byte, 1)); err == nil {
			t.Error("a closed body can be read")
		}
	})
}

func TestTransport_RefusesACancelledCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	resp, err := open(ctx, demo.New(demo.Config{}))
	if err == nil {
		resp.Body.Close()
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("RoundTrip = %v, want context.Canceled", err)
	}
}

func FuzzModel(f *testing.F) {
	for _, s := range []string{"hello", "read a.go and b.go", "call x {", "switch to ", `write "a" to b.c`, "2", "ls", "create a.b with", "run `", "find  in /", "\xff“"} {
		f.Add(s, `{"content":"x"}`)
	}
	m := demo.New(demo.Config{})
	var tools []string
	tools = append(append(tools, serverTools...), clientTools...)
	f.Fuzz(func(t *testing.T, say, output string) {
		q, _ := json.Marshal(say)
		out, _ := json.Marshal(output)
		for _, input := range []string{
			string(q),
			`[{"role":"assistant","content":"2) Switch this session to **m**, or"},{"role":"user","content":` + string(q) + `}]`,
			`[{"role":"user","content":"x"},{"type":"function_call","call_id":"c","name":"read_file","arguments":` + string(q) + `},{"type":"function_call_output","call_id":"c","output":` + string(out) + `}]`,
		} {
			w := httptest.NewRecorder()
			m.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/responses", strings.NewReader(`{"model":"m","tools":[`+strings.Join(tools, ",")+`],"input":`+input+`}`)))
			var resp responses.Response
			if err := json.Unmarshal(w.Body.Bytes(), &resp); err != nil || w.Code != http.StatusOK || len(resp.Output) == 0 {
				t.Errorf("%s: %d %s, %v", input, w.Code, w.Body, err)
			}
		}
	})
}

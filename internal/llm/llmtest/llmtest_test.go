package llmtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
)

// open sends a request.
func open(ctx context.Context, url, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/responses", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(req)
}

// post sends a request and returns the status and the body of the answer.
func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	resp, err := open(t.Context(), url, body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// ask is a request with these input items; extra are more members, each with its
// comma.
func ask(input, extra string) string {
	return fmt.Sprintf(`{"model":"m",%s"input":[%s]}`, extra, input)
}

const user = `{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}`

func output(callID string) string {
	return fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":"{}"}`, callID)
}

func call(callID string) string {
	return fmt.Sprintf(`{"type":"function_call","call_id":%q,"name":"f","arguments":"{}"}`, callID)
}

func client(url string) openai.Client {
	return openai.NewClient(option.WithBaseURL(url), option.WithAPIKey("k"), option.WithMaxRetries(0))
}

func params() responses.ResponseNewParams {
	return responses.ResponseNewParams{Model: "m", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hi")}}
}

func TestServer_AnswersJSONThatTheOfficialClientReads(t *testing.T) {
	s := llmtest.New(t, llmtest.Reply{
		Items: []json.RawMessage{json.RawMessage(`{"type":"reasoning","id":"rs_1","summary":[]}`)},
		Text:  "Hello there", Calls: []llmtest.Call{{Name: "f", Arguments: `{"a":1}`}, {ID: "call_1", Name: "g"}},
		Usage: agent.Usage{InputTokens: 10, OutputTokens: 5, TotalTokens: 15, CachedTokens: 4, ReasoningTokens: 2},
	})
	c := client(s.URL)
	got, err := c.Responses.New(t.Context(), params())
	if err != nil {
		t.Fatal(err)
	}
	if got.ID != "resp_1" || got.OutputText() != "Hello there" || len(got.Output) != 4 {
		t.Errorf("got id %q, text %q, %d items", got.ID, got.OutputText(), len(got.Output))
	}
	// call_1 belongs to the script, so the other call gets call_2.
	if a, b := got.Output[2].AsFunctionCall(), got.Output[3].AsFunctionCall(); a.CallID != "call_2" || a.Arguments != `{"a":1}` || b.CallID != "call_1" {
		t.Errorf("calls are %q %q", a.CallID, b.CallID)
	}
	if got.Usage.TotalTokens != 15 || got.Usage.InputTokensDetails.CachedTokens != 4 || got.Usage.OutputTokensDetails.ReasoningTokens != 2 {
		t.Errorf("usage is %+v", got.Usage)
	}
	if n := len(s.Requests()); n != 1 || s.Left() != 0 {
		t.Errorf("%d requests, %d replies left; want 1 and 0", n, s.Left())
	}
}

func TestServer_StreamsWhenAskedTo(t *testing.T) {
	s := llmtest.New(t, llmtest.Reply{Deltas: []string{"Hel", "lo"}, Calls: []llmtest.Call{{Name: "f"}}})
	c := client(s.URL)
	stream := c.Responses.NewStreaming(t.Context(), params())
	var deltas []string
	var last responses.Response
	for stream.Next() {
		switch e := stream.Current().AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			deltas = append(deltas, e.Delta)
		case responses.ResponseCompletedEvent:
			last = e.Response
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Hel", "lo"}, deltas); diff != "" {
		t.Errorf("deltas (-want +got):\n%s", diff)
	}
	if len(last.Output) != 2 || last.Output[1].AsFunctionCall().CallID != "call_1" {
		t.Errorf("completed with %d items", len(last.Output))
	}
}

func TestServer_HasTheMemoryOfTheRealService(t *testing.T) {
	reasoning := json.RawMessage(`{"type":"reasoning","id":"rs_1","summary":[]}`)
	rs := string(reasoning)
	msg := `{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"hi","annotations":[],"logprobs":[]}]}`
	type step struct {
		body    string
		status  int
		message string // part of the error
		forget  bool   // before the step
	}
	tests := []struct {
		name   string
		script []llmtest.Reply
		steps  []step
	}{
		{"a chained call is answered", []llmtest.Reply{{Calls: []llmtest.Call{{Name: "f"}, {Name: "f"}}}, {Text: "done"}, {Text: "more"}}, []step{
			{body: ask(user, "")},
			{body: ask(output("call_1")+","+output("call_2"), `"previous_response_id":"resp_1",`)},
			{body: ask(user, `"previous_response_id":"resp_2",`)},
		}},
		{"one of two calls is left open", []llmtest.Reply{{Calls: []llmtest.Call{{Name: "f"}, {Name: "f"}}}}, []step{
			{body: ask(user, "")},
			{body: ask(output("call_1"), `"previous_response_id":"resp_1",`), status: 400, message: "No tool output found for function call call_2."},
		}},
		{"chained with only a user message", []llmtest.Reply{{Calls: []llmtest.Call{{Name: "f"}}}}, []step{
			{body: ask(user, "")},
			{body: ask(user, `"previous_response_id":"resp_1",`), status: 400, message: "No tool output found for function call call_1."},
		}},
		{"an output answers twice", []llmtest.Reply{{Calls: []llmtest.Call{{Name: "f"}}}, {Text: "done"}}, []step{
			{body: ask(user, "")},
			{body: ask(output("call_1"), `"previous_response_id":"resp_1",`)},
			{body: ask(output("call_1"), `"previous_response_id":"resp_2",`), status: 400, message: "Duplicate tool output"},
		}},
		{"unknown id", nil, []step{
			{body: ask(user, `"previous_response_id":"resp_7",`), status: 404, message: `"Previous response with id 'resp_7' not found.","type":"invalid_request_error","param":"previous_response_id","code":"previous_response_not_found"`},
		}},
		{"an id that was not to be stored", []llmtest.Reply{{Text: "a"}}, []step{
			{body: ask(user, `"store":false,`)},
			{body: ask(user, `"previous_response_id":"resp_1",`), status: 404, message: "not found"},
		}},
		{"a forgotten id", []llmtest.Reply{{Text: "a"}}, []step{
			{body: ask(user, "")},
			{body: ask(user, `"previous_response_id":"resp_1",`), status: 404, message: "not found", forget: true},
		}},
		{"a failed response cannot be chained to", []llmtest.Reply{{Failure: "boom"}}, []step{
			{body: ask(user, "")},
			{body: ask(user, `"previous_response_id":"resp_1",`), status: 404, message: "not found"},
		}},
		{"a replayed transcript", []llmtest.Reply{{Text: "a"}}, []step{
			{body: ask(user+","+call("c1")+","+output("c1")+","+user, `"store":false,`)},
		}},
		{"a replayed call without output", nil, []step{
			{body: ask(user+","+call("c1")+","+user, ""), status: 400, message: "No tool output found for function call c1."},
		}},
		{"an output without its call", nil, []step{
			{body: ask(user+","+output("c1"), ""), status: 400, message: "No tool call found for function call output with call_id c1."},
		}},
		{"an output before its call", nil, []step{
			{body: ask(output("c1")+","+call("c1"), ""), status: 400, message: "No tool call found for function call output with call_id c1."},
		}},
		{"reasoning without what followed", nil, []step{
			{body: ask(rs+","+user, ""), status: 400, message: "provided without its required following item"},
		}},
		{"a message without its reasoning", []llmtest.Reply{{Items: []json.RawMessage{reasoning}, Text: "hi"}}, []step{
			{body: ask(user, "")},
			{body: ask(user+","+msg+","+user, ""), status: 400, message: "provided without its required 'reasoning' item: 'rs_1'"},
		}},
		{"a message with its reasoning", []llmtest.Reply{{Items: []json.RawMessage{reasoning}, Text: "hi"}, {Text: "ok"}}, []step{
			{body: ask(user, "")},
			{body: ask(user+","+rs+","+msg+","+user, "")},
		}},
		{"chained and replayed at once", []llmtest.Reply{{Text: "hi"}}, []step{
			{body: ask(user, "")},
			{body: ask(msg+","+user, `"previous_response_id":"resp_1",`), status: 400, message: "Duplicate item found with id msg_1"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := llmtest.New(t, tt.script...)
			for i, st := range tt.steps {
				if st.forget {
					s.Forget()
				}
				want := max(st.status, http.StatusOK)
				status, body := post(t, s.URL, st.body)
				if status != want || !strings.Contains(body, st.message) {
					t.Errorf("request %d: %d %s\nwant %d with %q", i+1, status, body, want, st.message)
				}
			}
			if s.Left() != 0 {
				t.Errorf("%d replies left", s.Left())
			}
		})
	}
}

func TestServer_PlaysMishaps(t *testing.T) {
	stream := ask(user, `"stream":true,`)
	t.Run("error status", func(t *testing.T) {
		s := llmtest.New(t, llmtest.Reply{Status: 429, Body: `{"error":{"message":"slow"}}`, Headers: map[string]string{"Retry-After": "7"}}, llmtest.Reply{Status: 500})
		resp, err := open(t.Context(), s.URL, stream)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "7" {
			t.Errorf("got %d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
		}
		if status, body := post(t, s.URL, stream); status != 500 || !strings.Contains(body, `"type":"server_error"`) {
			t.Errorf("got %d %s", status, body)
		}
	})
	t.Run("raw", func(t *testing.T) {
		s := llmtest.New(t, llmtest.Reply{Raw: "<html>", Headers: map[string]string{"Content-Type": "text/html"}})
		resp, err := open(t.Context(), s.URL, stream)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || string(body) != "<html>" || resp.Header.Get("Content-Type") != "text/html" {
			t.Errorf("got %q as %q, %v", body, resp.Header.Get("Content-Type"), err)
		}
	})
	for name, tt := range map[string]struct {
		reply llmtest.Reply
		body  string
		want  int // events that arrive
	}{
		"cut stream":  {llmtest.Reply{Text: "one two three", Cut: 5}, stream, 5},
		"cut JSON":    {llmtest.Reply{Text: "one two three", Cut: 1}, ask(user, ""), 0},
		"cut at once": {llmtest.Reply{Text: "one", Cut: -1}, stream, -1},
	} {
		t.Run(name, func(t *testing.T) {
			s := llmtest.New(t, tt.reply)
			resp, err := open(t.Context(), s.URL, tt.body)
			if tt.want < 0 {
				if err == nil {
					resp.Body.Close()
					t.Error("the request was answered")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err == nil {
				t.Errorf("the body ended well:\n%s", body)
			}
			if got := bytes.Count(body, []byte("event: ")); got != tt.want {
				t.Errorf("%d events arrived, want %d:\n%s", got, tt.want, body)
			}
		})
	}
	for name, reply := range map[string]llmtest.Reply{
		"response.incomplete": {Text: "cut", Incomplete: "max_output_tokens"},
		"response.failed":     {Failure: "boom"},
	} {
		t.Run(name, func(t *testing.T) {
			s := llmtest.New(t, reply)
			_, body := post(t, s.URL, stream)
			frames := strings.Split(strings.TrimSpace(body), "\n\n")
			if last := frames[len(frames)-1]; !strings.HasPrefix(last, "event: "+name+"\n") {
				t.Errorf("the stream ends in %s", last)
			}
		})
	}
}

func TestServer_BlocksUntilToldOrLeft(t *testing.T) {
	limit, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	gate := make(chan struct{})
	s := llmtest.New(t,
		llmtest.Reply{Text: "first", Block: gate},
		llmtest.Reply{Text: "second", Block: make(chan struct{})},
		llmtest.Reply{Text: "third and last", Block: make(chan struct{}), BlockAfter: 5},
	)
	got := make(chan string, 1)
	go func() {
		resp, err := open(limit, s.URL, ask(user, ""))
		if err != nil {
			got <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		got <- string(body)
	}()
	if err := s.Await(limit, 1); err != nil {
		t.Fatal(err)
	}
	select {
	case body := <-got:
		t.Errorf("answered before the gate opened: %s", body)
	default:
	}
	close(gate)
	if body := <-got; !strings.Contains(body, "first") {
		t.Errorf("got %s", body)
	}

	ctx, cancel := context.WithCancel(limit)
	left := make(chan error, 1)
	go func() {
		resp, err := open(ctx, s.URL, ask(user, ""))
		if err == nil {
			resp.Body.Close()
		}
		left <- err
	}()
	if err := s.Await(limit, 2); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the client that left got %v", err)
	}

	// The third stays blocked after five events: ending the test frees it.
	resp, err := open(limit, s.URL, ask(user, `"stream":true,`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	seen := make([]byte, 0, 8192)
	for bytes.Count(seen, []byte("\n\n")) < 5 {
		buf := make([]byte, 1024)
		n, err := resp.Body.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, buf[:n]...)
	}
	if bytes.Contains(seen, []byte("last")) {
		t.Errorf("the stream went past its block:\n%s", seen)
	}
}

func TestFake_AwaitHonoursItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := llmtest.NewFake().Await(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Await = %v, want context.Canceled", err)
	}
}

func TestFake_ReportsWhatIsWrong(t *testing.T) {
	tests := []struct {
		name, body string
		script     []llmtest.Reply
		want       string
		status     int
	}{
		{"the script ran out", ask(user, ""), nil, "the script has run out", 500},
		{"not JSON", `{"model"`, []llmtest.Reply{{Text: "a"}}, "model request 1", 400},
		{"an item that OpenAI does not know", ask(`{"type":"teapot","x":1}`, ""), []llmtest.Reply{{Text: "a"}}, "model request 1", 400},
		{"a script that contradicts itself", ask(user, ""), []llmtest.Reply{{Text: "a", Deltas: []string{"b"}}}, "reply 1 of the script", 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := llmtest.NewFake(tt.script...)
			w := httptest.NewRecorder()
			f.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/responses", strings.NewReader(tt.body)))
			errs := f.Errors()
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), tt.want) {
				t.Errorf("Errors() = %v, want one with %q", errs, tt.want)
			}
			if w.Code != tt.status {
				t.Errorf("status %d, want %d", w.Code, tt.status)
			}
		})
	}
}

func TestFake_OtherPathsAreNotFound(t *testing.T) {
	f := llmtest.NewFake()
	w := httptest.NewRecorder()
	f.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/models", nil))
	if w.Code != http.StatusNotFound || len(f.Errors()) != 0 {
		t.Errorf("status %d, errors %v", w.Code, f.Errors())
	}
}

func TestFake_OtherwiseAnswersAfterTheScript(t *testing.T) {
	s := llmtest.New(t, llmtest.Reply{Text: "scripted"})
	s.Otherwise(func(request []byte) llmtest.Reply {
		return llmtest.Reply{Text: fmt.Sprintf("%d bytes", len(request))}
	})
	for _, want := range []string{"scripted", fmt.Sprintf("%d bytes", len(ask(user, "")))} {
		if _, body := post(t, s.URL, ask(user, "")); !strings.Contains(body, want) {
			t.Errorf("got %s, want %q", body, want)
		}
	}
}

package llm_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func want(t *testing.T, got, want any) {
	t.Helper()
	if reflect.DeepEqual(want, got) {
		return // cmp.Diff takes its time, even where there is nothing to tell
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

const key = "sk-canary-0123456789"

// serve starts a provider and returns a client of it.
func serve(t testing.TB, cfg llm.Config, h http.HandlerFunc) *llm.Client {
	t.Helper()
	s := httptest.NewServer(h)
	cfg.BaseURL, cfg.APIKey = s.URL+"/v1/", secret.New(key)
	c := llm.New(cfg)
	t.Cleanup(func() {
		c.Close()
		s.Close()
	})
	return c
}

// answer is a provider that gives one answer to everything.
func answer(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}
}

// got is all that an iteration yielded.
type got struct {
	Deltas   []string
	Response *llm.Response
	Err      error
	Values   int
}

func (g got) text() string { return strings.Join(g.Deltas, "") }

func ask(t testing.TB, c *llm.Client, stream bool) got {
	t.Helper()
	var g got
	for ev, err := range c.Ask(t.Context(), &llm.Wire{Head: `{"model":"m","input":"u"}`}, stream) {
		g.take(t, ev, err)
	}
	return g
}

// take checks the order of values on the way: nothing follows a Response or an error.
func (g *got) take(t testing.TB, ev llm.Event, err error) {
	t.Helper()
	if g.Response != nil || g.Err != nil {
		t.Error("a value follows the last one")
	}
	g.Values++
	g.Response, g.Err = ev.Response, err
	if ev.Delta != "" {
		g.Deltas = append(g.Deltas, ev.Delta)
	}
}

// sse renders events as OpenAI does.
func sse(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		var head struct {
			Type string `json:"type"`
		}
		_ = json.Unmarshal([]byte(e), &head)
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", head.Type, e)
	}
	return b.String()
}

const (
	itemText = `{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"Hello, <world> & \u00e9"}]}`
	itemCall = `{"id":"fc_1","type":"function_call","status":"completed","arguments":"{\"path\":\"a.go\"}","call_id":"call_1","name":"read_file"}`
	usage    = `{"input_tokens":11,"input_tokens_details":{"cached_tokens":3,"cache_write_tokens":0},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":18}`
	document = `{"id":"resp_1","object":"response","status":"completed","error":null,"incomplete_details":null,"output":[` + itemText + `,` + itemCall + `],"usage":` + usage + `}`
)

// sixty are the sixty events of a turn that says something and calls a tool.
func sixty() []string {
	var out []string
	add := func(format string, args ...any) {
		out = append(out, strings.Replace(fmt.Sprintf(format, args...), "{", fmt.Sprintf(`{"sequence_number":%d,`, len(out)), 1))
	}
	add(`{"type":"response.created","response":{"id":"resp_1","status":"in_progress","output":[]}}`)
	add(`{"type":"response.in_progress","response":{"id":"resp_1","status":"in_progress","output":[]}}`)
	add(`{"type":"response.output_item.added","output_index":0,"item":{"id":"msg_1","type":"message"}}`)
	add(`{"type":"response.content_part.added","output_index":0,"content_index":0,"part":{"type":"output_text","text":""}}`)
	for i := range 48 {
		add(`{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"w%d ","logprobs":[]}`, i)
	}
	add(`{"type":"response.output_text.done","output_index":0,"content_index":0,"text":"…"}`)
	add(`{"type":"response.content_part.done","output_index":0,"content_index":0,"part":{"type":"output_text","text":"…"}}`)
	add(`{"type":"response.output_item.done","output_index":0,"item":%s}`, itemText)
	add(`{"type":"response.output_item.added","output_index":1,"item":{"id":"fc_1","type":"function_call"}}`)
	add(`{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"path\":\"a.go\"}"}`)
	add(`{"type":"response.function_call_arguments.done","output_index":1,"arguments":"{\"path\":\"a.go\"}"}`)
	add(`{"type":"response.output_item.done","output_index":1,"item":%s}`, itemCall)
	add(`{"type":"response.completed","response":%s}`, document)
	return out
}

func spoken() string {
	var b strings.Builder
	for i := range 48 {
		fmt.Fprintf(&b, "w%d ", i)
	}
	return b.String()
}

func raw(items ...string) []json.RawMessage {
	var out []json.RawMessage
	for _, i := range items {
		out = append(out, json.RawMessage(i))
	}
	return out
}

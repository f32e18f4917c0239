package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/llm/render"
)

// fakeResponses is a second door behind which one response stands. It fails with the
// kind that the body or the id names.
type fakeResponses struct{}

const oneResponse = "resp_one"

func (fakeResponses) Create(_ context.Context, _ agent.Caller, body []byte, _ string) (string, bool, error) {
	var r struct {
		Fault  agent.Kind `json:"fault"`
		Stream bool       `json:"stream"`
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return "", false, agent.Errorf(agent.KindInvalidRequest, "not JSON")
	}
	if r.Fault != "" {
		e := agent.Errorf(r.Fault, "It is so.")
		e.Violations = []agent.Violation{{Pointer: "/tools/0/name", Message: "is reserved"}}
		return "", false, e
	}
	return oneResponse, r.Stream, nil
}

func (fakeResponses) one(id string) (json.RawMessage, error) {
	if id == "" {
		return nil, errors.New("no id")
	}
	return json.RawMessage(`{"object":"response"}`), nil
}

func (f fakeResponses) Await(_ context.Context, _ agent.Caller, id string) (json.RawMessage, error) {
	return f.one(id)
}
func (f fakeResponses) Get(_ context.Context, _ agent.Caller, id string) (json.RawMessage, error) {
	return f.one(id)
}
func (f fakeResponses) Cancel(_ context.Context, _ agent.Caller, id string) (json.RawMessage, error) {
	return f.one(id)
}
func (f fakeResponses) Delete(_ context.Context, _ agent.Caller, id string) (json.RawMessage, error) {
	return f.one(id)
}
func (f fakeResponses) InputItems(_ context.Context, _ agent.Caller, id string, _ url.Values) (json.RawMessage, error) {
	return f.one(id)
}
func (fakeResponses) Models() (json.RawMessage, error) { return json.RawMessage(`{"data":[]}`), nil }
func (fakeResponses) Model(id string) (json.RawMessage, error) {
	return json.Marshal(map[string]string{"id": id})
}

func (fakeResponses) Reader(_ agent.Caller, _ string, after int) events.Reader[render.Event] {
	all := []render.Event{{Type: "response.created", Data: []byte(`{}`)}, {Type: "response.completed", Data: []byte(`{}`)}}
	return &listed[render.Event]{left: all[min(after+1, len(all)):]}
}

func TestResponses_ErrorsAreInOpenAIsForm(t *testing.T) {
	r := newRig(t)
	for kind, m := range meanings {
		if kind == agent.KindInternal || kind == agent.KindMethodNotAllowed {
			continue // the one says nothing of its own, the other is the mux's
		}
		a := r.do(t, "POST", "/v1/responses", `{"fault":"`+string(kind)+`"}`)
		f := a.openAIFault()
		if f == nil || a.Code != m.status || f.Code != string(kind) || f.Type != openAIType(m.status) {
			t.Fatalf("%s: got %d %s", kind, a.Code, a.Body)
		}
		if f.Param == nil || *f.Param != "tools[0].name" || !strings.Contains(f.Message, "is reserved") {
			t.Errorf("%s: got %+v, want the violation in it", kind, f)
		}
		if got, want := a.Header().Get("X-Should-Retry") != "false", worthARetry[kind]; got != want {
			t.Errorf("%s: a client may retry: %v, want %v", kind, got, want)
		}
	}
}

func TestResponses_StreamsAndResumes(t *testing.T) {
	r := newRig(t)
	const created, completed = "event: response.created\ndata: {}\n\n", "event: response.completed\ndata: {}\n\n"
	for _, tt := range []struct{ method, target, body, want string }{
		{"POST", "/v1/responses", `{"stream":true}`, created + completed},
		{"GET", "/v1/responses/resp_one?stream=true", "", created + completed},
		{"GET", "/v1/responses/resp_one?stream=true&starting_after=0", "", completed},
		{"GET", "/v1/responses/resp_one?stream=true&starting_after=1", "", ""},
	} {
		a := r.do(t, tt.method, tt.target, tt.body)
		if got := a.Body.String(); got != tt.want || a.Header().Get("Content-Type") != "text/event-stream" {
			t.Errorf("%s %s: got %q", tt.method, tt.target, got)
		}
	}
	for _, query := range []string{"stream=yes", "stream=true&starting_after=-1", "stream=true&starting_after=x"} {
		r.do(t, "GET", "/v1/responses/resp_one?"+query, "").want(t, agent.KindInvalidRequest)
	}
}

func TestResponses_WithoutTheDoorThereIsNothing(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Responses = nil })
	for _, path := range []string{"/v1/models", "/v1/models/m", "/v1/responses/resp_one"} {
		r.do(t, "GET", path, "").want(t, agent.KindNotFound)
	}
}

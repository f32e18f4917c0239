package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/llm/render"
	"github.com/aptixhq/aptix/internal/store"
)

// Responses is the second door (decision 6): it speaks OpenAI's Responses API where
// the other routes speak ours. What it returns is sent as it is.
type Responses interface {
	// Create accepts a request durably and returns the id of its response.
	Create(ctx context.Context, by agent.Caller, body []byte, idempotencyKey string) (id string, stream bool, err error)
	// Await returns a response that has ended, or its fault.
	Await(ctx context.Context, by agent.Caller, id string) (json.RawMessage, error)
	// Reader reads the events after a sequence number; -1 is before the first.
	Reader(by agent.Caller, id string, after int) events.Reader[render.Event]
	Get(ctx context.Context, by agent.Caller, id string) (json.RawMessage, error)
	Cancel(ctx context.Context, by agent.Caller, id string) (json.RawMessage, error)
	Delete(ctx context.Context, by agent.Caller, id string) (json.RawMessage, error)
	InputItems(ctx context.Context, by agent.Caller, id string, query url.Values) (json.RawMessage, error)
	Models() (json.RawMessage, error)
	Model(id string) (json.RawMessage, error)
}

// door returns the second door, if it is open.
func (s *Server) door() (Responses, error) {
	if s.second == nil {
		return nil, errNoRoute()
	}
	return s.second, nil
}

func (s *Server) createResponse(w http.ResponseWriter, r *http.Request) error {
	door, err := s.door()
	if err != nil {
		return err
	}
	if s.draining.Load() {
		return agent.Errorf(agent.KindDraining, "The server is going down and takes no new work. Send the same request again shortly.")
	}
	body, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	key := r.Header.Get("Idempotency-Key")
	if len(key) > 255 {
		return agent.Errorf(agent.KindInvalidRequest, "Idempotency-Key may have at most 255 characters.")
	}
	id, stream, err := door.Create(r.Context(), callerOf(r), body, key)
	s.bodies.letGo(exchangeOf(r)) // as for the other door
	if err != nil {
		return err
	}
	if stream {
		return s.followResponse(w, r, door, id, -1)
	}
	answer, err := door.Await(r.Context(), callerOf(r), id)
	if err != nil {
		return err
	}
	if err := s.still(exchangeOf(r), r, time.Now(), answerFresh); err != nil {
		return err
	}
	return writeBody(w, http.StatusOK, "application/json", answer)
}

// followResponse streams a response.
func (s *Server) followResponse(w http.ResponseWriter, r *http.Request, door Responses, id string, after int) error {
	err := deliver(s, w, r, door.Reader(callerOf(r), id, after), responseFrame)
	if errors.Is(err, errNothingMore) {
		// A stock client expects a stream, be it an empty one.
		return writeBody(w, http.StatusOK, "text/event-stream", nil)
	}
	return err
}

// responseFrame renders an event of a response.
func responseFrame(b []byte, e render.Event) ([]byte, ending, error) {
	switch e.Type {
	case "response.completed", "response.failed", "response.incomplete":
		return e.AppendSSE(b), ends, nil
	}
	return e.AppendSSE(b), goesOn, nil
}

func (s *Server) getResponse(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	stream, err := s.streamAsked(w, r)
	switch {
	case err != nil:
		return err
	case !stream:
		return s.answerResponse(w, r, func(door Responses, id string) (json.RawMessage, error) {
			return door.Get(r.Context(), callerOf(r), id)
		})
	}
	door, err := s.door()
	if err != nil {
		return err
	}
	after := -1
	if q.Has("starting_after") {
		if after, err = strconv.Atoi(q.Get("starting_after")); err != nil || after < 0 {
			return agent.Errorf(agent.KindInvalidRequest, "starting_after must be the sequence_number of an event that you have seen.")
		}
	}
	if r.Method == http.MethodHead {
		if _, err := door.Get(r.Context(), callerOf(r), r.PathValue("responseId")); err != nil {
			return err
		}
		return writeBody(w, http.StatusOK, "text/event-stream", nil)
	}
	return s.followResponse(w, r, door, r.PathValue("responseId"), after)
}

// maxAsk bounds the body of a GET.
const maxAsk = 4 << 10

// streamAsked reports whether a GET is for events. OpenAI's Go client says so in a body
// instead of the query; starting_after makes no sense without.
func (s *Server) streamAsked(w http.ResponseWriter, r *http.Request) (bool, error) {
	q := r.URL.Query()
	switch text := q.Get("stream"); {
	case text == "true", text == "" && q.Has("starting_after"):
		return true, nil
	case text == "false", text == "" && r.ContentLength == 0:
		return false, nil
	case text != "":
		return false, agent.Errorf(agent.KindInvalidRequest, "stream is true or false.")
	}
	var in struct {
		Stream bool `json:"stream"`
	}
	// It does not say what it sends either. No page of another origin can send a body
	// with a GET, so that nothing hangs on the type.
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAsk))
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // as readBody does
	if err != nil {
		hangUp(w)
		return false, agent.Errorf(agent.KindInvalidRequest, "The body of this GET cannot be read. Leave it out, and send stream=true in the query.")
	}
	return in.Stream, nil
}

func (s *Server) deleteResponse(w http.ResponseWriter, r *http.Request) error {
	return s.answerResponse(w, r, func(door Responses, id string) (json.RawMessage, error) {
		return door.Delete(r.Context(), callerOf(r), id)
	})
}

func (s *Server) cancelResponse(w http.ResponseWriter, r *http.Request) error {
	return s.answerResponse(w, r, func(door Responses, id string) (json.RawMessage, error) {
		return door.Cancel(r.Context(), callerOf(r), id)
	})
}

func (s *Server) listInputItems(w http.ResponseWriter, r *http.Request) error {
	return s.answerResponse(w, r, func(door Responses, id string) (json.RawMessage, error) {
		return door.InputItems(r.Context(), callerOf(r), id, r.URL.Query())
	})
}

func (s *Server) listModels(w http.ResponseWriter, r *http.Request) error {
	return s.answerResponse(w, r, func(door Responses, _ string) (json.RawMessage, error) { return door.Models() })
}

func (s *Server) getModel(w http.ResponseWriter, r *http.Request) error {
	return s.answerResponse(w, r, func(door Responses, _ string) (json.RawMessage, error) { return door.Model(r.PathValue("model")) })
}

// answerResponse answers with what the door says about the response in the path.
func (s *Server) answerResponse(w http.ResponseWriter, r *http.Request, ask func(door Responses, id string) (json.RawMessage, error)) error {
	door, err := s.door()
	if err != nil {
		return err
	}
	answer, err := ask(door, r.PathValue("responseId"))
	if err != nil {
		return err
	}
	return writeBody(w, http.StatusOK, "application/json", answer)
}

// speaksOpenAI reports whether faults on a path are told in OpenAI's form.
func speaksOpenAI(path string) bool {
	for _, root := range []string{"/v1/responses", "/v1/models"} {
		if path == root || strings.HasPrefix(path, root+"/") {
			return true
		}
	}
	return false
}

// OpenAIError is a fault as clients of OpenAI's API expect it.
type OpenAIError struct {
	Error OpenAIFault `json:"error"`
}

// OpenAIFault is what an OpenAIError says. Param is null when no parameter is wrong.
type OpenAIFault struct {
	Message string  `json:"message" doc:"What happened and what to do next, for people."`
	Type    string  `json:"type" doc:"The class of the fault."`
	Param   *string `json:"param" nullable:"true" doc:"The parameter that is wrong, if one is."`
	Code    string  `json:"code" doc:"The stable name of the fault, for programs."`
}

// openAIErrorOf renders a fault. The door's own faults say which parameter is wrong
// and what OpenAI calls it; of the others the kind is the code.
func openAIErrorOf(err error) (kind agent.Kind, out OpenAIError) {
	f := agent.FaultOf(err)
	kind, m := meaningOf(f.Kind)
	if kind == agent.KindInternal {
		f = agent.FaultOf(nil)
	}
	message, param, code := f.Message, "", string(kind)
	for i, v := range f.Violations {
		if i == 0 {
			param = paramOf(v.Pointer)
		}
		message += " " + paramOf(v.Pointer) + ": " + v.Message + "."
	}
	var named interface {
		error
		Param() string
		Code() string
	}
	if errors.As(err, &named) {
		param, code = named.Param(), named.Code()
	}
	out.Error = OpenAIFault{Message: message, Type: openAIType(m.status), Code: code}
	if param != "" {
		out.Error.Param = &param
	}
	return kind, out
}

// paramOf writes a JSON pointer as OpenAI names parameters: tools[0].name.
func paramOf(pointer string) string {
	var b strings.Builder
	for i, token := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch _, err := strconv.Atoi(token); {
		case err == nil:
			b.WriteString("[" + token + "]")
		case i > 0:
			b.WriteString("." + token)
		default:
			b.WriteString(token)
		}
	}
	return b.String()
}

func openAIType(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "authentication_error"
	case status == http.StatusForbidden:
		return "permission_error"
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status >= http.StatusInternalServerError:
		return "server_error"
	}
	return "invalid_request_error"
}

// worthARetry are the faults after which the same request may do better. Of the others
// stock clients would repeat some by their status, and a turn that failed would be
// paid for again.
var worthARetry = map[agent.Kind]bool{
	agent.KindRateLimited: true, agent.KindDraining: true, agent.KindTurnInProgress: true, agent.KindStorageFull: true,
	agent.KindUnavailable: true,
}

// writeOpenAIError answers with the fault that err is to an OpenAI client.
func writeOpenAIError(w http.ResponseWriter, err error) {
	kind, body := openAIErrorOf(err)
	h := w.Header()
	sayWhen(h, err, kind)
	// A turn that may have been stored is found again by its Idempotency-Key only, which
	// stock clients do not send by themselves.
	if !worthARetry[kind] || errors.Is(err, store.ErrUnknown) {
		h.Set("X-Should-Retry", "false")
	}
	if kind == agent.KindUnauthenticated {
		h.Set("WWW-Authenticate", "Bearer")
	}
	raw, jsonErr := marshal(body)
	if jsonErr != nil { // an OpenAIError is strings
		raw = json.RawMessage(`{"error":{"message":"internal error","type":"server_error","param":null,"code":"internal"}}`)
	}
	// A body that cannot be written has nobody to read it.
	_ = writeBody(w, meanings[kind].status, "application/json", raw)
}

// Package mock is a Responses API that costs next to nothing: what it answers is
// rendered once, and only ids and usage are filled in. It stands where the model is,
// so that a benchmark measures what is in front of it. It remembers nothing; what it
// has to know of a previous response stands in that response's id.
//
// Order and pace of a stream: token i is written Wait + i·Gap after the request came.
// A reader that is slow holds up its own stream only. Where there is a Gap, the first token
// says when it was due (see Began).
package mock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aptixhq/aptix/internal/llm/render"
)

// ToolMark in a request asks for a call of the function whose name follows it, with
// empty arguments. The output of the call, further on in the request, is answered with
// text.
const ToolMark = "CALL_TOOL "

// TokenBytes is the length of each token of an answer.
const TokenBytes = 6

// maxBody bounds a request.
const maxBody = 64 << 20

// Config says how the model answers. Zero fields mean 20 tokens, without waiting.
type Config struct {
	Tokens int
	// Wait is the time to the first token, Gap the time between two.
	Wait, Gap time.Duration
}

// Stats is what a Server has seen.
type Stats struct {
	Requests int64 `json:"requests"`
	Bytes    int64 `json:"bytes"` // of the requests' bodies
	// MaxOpen is how many requests were under way at once, at most.
	MaxOpen int64 `json:"maxOpen"`
}

// Server answers POST /v1/responses, and GET /stats with Stats.
type Server struct {
	http.ServeMux
	cfg        Config
	text, call *answer
	buffers    sync.Pool
	pacer      pacer

	requests, bytes, open, maxOpen atomic.Int64
}

// New returns a server.
func New(cfg Config) (*Server, error) {
	if cfg.Tokens == 0 {
		cfg.Tokens = 20
	}
	s := &Server{cfg: cfg, buffers: sync.Pool{New: func() any { return new(bytes.Buffer) }}, pacer: pacer{gap: cfg.Gap}}
	var err error
	if s.text, err = newAnswer(render.Message{ID: "msg_" + idHole, Deltas: words(cfg.Tokens)}, int64(cfg.Tokens)); err != nil {
		return nil, err
	}
	call := render.Call{ID: "fc_" + idHole, CallID: "call_" + idHole, Name: nameHole, Arguments: "{}"}
	if s.call, err = newAnswer(call, 8); err != nil {
		return nil, err
	}
	s.HandleFunc("POST /v1/responses", s.respond)
	s.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(Stats{s.requests.Load(), s.bytes.Load(), s.maxOpen.Load()})
	})
	return s, nil
}

// words returns n tokens of TokenBytes each. The first is a hole.
func words(n int) []string {
	some := []string{" lorem", " ipsum", " dolor", " elitr", " magna", " justo"}
	out := make([]string, n)
	for i := range out {
		out[i] = some[i%len(some)]
	}
	out[0] = beganHole
	return out
}

func (s *Server) respond(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	open := s.open.Add(1)
	over := func() { s.open.Add(-1) }
	defer func() { over() }()
	for m := s.maxOpen.Load(); open > m && !s.maxOpen.CompareAndSwap(m, open); m = s.maxOpen.Load() {
	}
	buf := s.buffers.Get().(*bytes.Buffer)
	defer s.buffers.Put(buf)
	buf.Reset()
	if _, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		refuse(w, http.StatusBadRequest, err.Error(), "")
		return
	}
	body := buf.Bytes()
	number := s.requests.Add(1)
	s.bytes.Add(int64(len(body)))

	previous, before, ok := contextOf(body)
	if !ok {
		refuse(w, http.StatusNotFound, fmt.Sprintf("Previous response with id '%.100s' not found.", previous), "previous_response_id")
		return
	}
	a := s.text
	v := values{name: wanted(body), began: " lorem", input: before + int64(len(body)+3)/4}
	if v.name != "" {
		a = s.call
	}
	v.total = v.input + a.output
	v.id = fmt.Sprintf("%012d_%d", number, v.total)
	if !pause(r, start.Add(s.cfg.Wait)) {
		return
	}
	if !bytes.Contains(body, []byte(`"stream":true`)) {
		if a == s.text && !pause(r, start.Add(s.cfg.Wait+time.Duration(s.cfg.Tokens-1)*s.cfg.Gap)) {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(a.whole.fill(nil, v))
		return
	}
	if s.cfg.Gap > 0 {
		first := start.Add(s.cfg.Wait)
		v.began = Stamp(first)
		if err := s.pacer.take(w, a, v, first, over); err != nil {
			http.Error(w, err.Error(), http.StatusNotImplemented)
			return
		}
		over = func() {} // the stream goes on
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	buf.Reset() // the request is read, and its memory serves for the answer
	for _, f := range a.frames {
		buf.Write(f.fill(buf.AvailableBuffer(), v))
	}
	_, _ = w.Write(buf.Bytes())
}

// pause waits for a moment; false means that the client left before.
func pause(r *http.Request, until time.Time) bool {
	d := time.Until(until)
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// wanted returns the function that the request asks to be called, "" for none.
func wanted(body []byte) string {
	i := bytes.LastIndex(body, []byte(ToolMark))
	if i < 0 {
		return ""
	}
	rest := body[i+len(ToolMark):]
	if bytes.Contains(rest, []byte("function_call_output")) {
		return ""
	}
	end := bytes.IndexFunc(rest, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
	return string(rest[:max(end, 0)])
}

// contextOf returns the previous response that the request names, and how many tokens
// it and all before it have; 0 without one. ok is false for an id that is none of ours.
func contextOf(body []byte) (id string, tokens int64, ok bool) {
	_, rest, chained := bytes.Cut(body, []byte(`"previous_response_id":"`))
	if !chained {
		return "", 0, true
	}
	quoted, _, _ := bytes.Cut(rest, []byte(`"`))
	id = string(quoted)
	_, sum, _ := strings.Cut(strings.TrimPrefix(id, "resp_"), "_")
	tokens, err := strconv.ParseInt(sum, 10, 64)
	return id, tokens, err == nil && tokens >= 0
}

func refuse(w http.ResponseWriter, status int, message, param string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(render.Fault("invalid_request_error", message, param, ""))
}

// Package demo is a model provider that needs no account and no network: a script
// behind the wire of the Responses API, in process. It answers, lists the modes,
// proposes a mode change and waits for the user's choice (TUL-007 §4), and calls the
// client's tools when it is asked to, so that a whole turn can be seen before the
// first API key is.
//
// In a turn it stands where the provider stands, behind the HTTP client: Transport
// takes the place of the network. The model keeps nothing between requests; all that
// it knows is in the transcript that it is sent, and so it refuses a
// previous_response_id as a provider does that has forgotten it. The same request
// gets the same answer, byte for byte.
//
// Streams carry the full sequence of events, in order. A slow reader is waited for,
// one that leaves ends the answer, and nothing survives a restart because nothing is
// kept.
package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/llm/render"
)

// maxBody bounds a request, in bytes. It is beyond what a turn may carry.
const maxBody = 128 << 20

// createdAt is the time of every answer, in Unix seconds: the demo has no clock.
const createdAt = 1_700_000_000

// Config sets how the model behaves. Its zero value answers at once.
type Config struct {
	// Delay is the pause before each piece of a streamed text.
	Delay time.Duration
}

// Model is the offline model: an http.Handler for POST …/responses.
type Model struct {
	delay time.Duration
}

// New returns a model.
func New(c Config) *Model { return &Model{delay: c.Delay} }

// ServeHTTP answers one request, as JSON or as a stream.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/responses") {
		refuse(w, &fault{status: http.StatusNotFound, message: fmt.Sprintf("The demo model has no %s %s; it answers POST …/responses.", r.Method, r.URL.Path)})
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		refuse(w, &fault{status: http.StatusRequestEntityTooLarge, message: fmt.Sprintf("The demo model reads at most %d bytes.", tooLarge.Limit)})
		return
	}
	if err != nil {
		refuse(w, &fault{status: http.StatusBadRequest, message: "The request could not be read to its end."})
		return
	}
	c, f := parse(body)
	if f != nil {
		refuse(w, f)
		return
	}
	m.answer(w, r.Context(), response(c, body), c.echo.Streams())
}

// answer writes the response in the form that the request asked for.
func (m *Model) answer(w http.ResponseWriter, ctx context.Context, resp render.Response, stream bool) {
	if !stream {
		body, err := resp.JSON()
		if err != nil {
			refuse(w, &fault{status: http.StatusInternalServerError, message: err.Error()})
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
		return
	}
	events, err := resp.Events()
	if err != nil {
		refuse(w, &fault{status: http.StatusInternalServerError, message: err.Error()})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	flush := http.NewResponseController(w)
	for _, e := range events {
		if e.Type == render.EventTextDelta && !pause(ctx, m.delay) {
			return
		}
		if _, err := w.Write(e.SSE()); err != nil {
			return // the reader left
		}
		_ = flush.Flush() // a writer that cannot flush holds nothing back
	}
}

// pause waits, and reports whether the reader is still there.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// response is the model's answer to a conversation. Its ids come from the request's
// bytes: the same request has the same ids, and a longer transcript has others.
func response(c conversation, body []byte) render.Response {
	sum := sha256.Sum256(body)
	id := hex.EncodeToString(sum[:12])
	a := reply(c)
	resp := render.Response{ID: "resp_" + id, CreatedAt: createdAt, Echo: c.echo}
	size := len(a.text)
	if a.text != "" {
		resp.Output = append(resp.Output, render.Message{ID: "msg_" + id, Deltas: render.Words(a.text)})
	}
	for i, call := range a.calls {
		resp.Output = append(resp.Output, render.Call{
			ID:     fmt.Sprintf("fc_%s_%d", id, i+1),
			CallID: fmt.Sprintf("call_%s_%d", id, i+1),
			Name:   call.name, Arguments: call.arguments,
		})
		size += len(call.name) + len(call.arguments)
	}
	resp.Usage = render.Usage(len(body), size)
	return resp
}

// fault is an answer that turns a request down.
type fault struct {
	status               int
	message, param, code string
}

func refuse(w http.ResponseWriter, f *fault) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.status)
	_, _ = w.Write(render.Fault("invalid_request_error", f.message, f.param, f.code))
}

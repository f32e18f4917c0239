package llmtest

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/aptixhq/aptix/internal/llm/render"
)

// player sends one reply, with the mishaps that it prescribes.
type player struct {
	w     http.ResponseWriter
	ctx   context.Context
	done  <-chan struct{}
	reply Reply
}

// model sends the response in the form that the request asked for.
func (p *player) model(resp render.Response, stream bool) {
	if !stream {
		body, err := resp.JSON()
		if err != nil {
			p.broken(err)
			return
		}
		p.body(http.StatusOK, body)
		return
	}
	events, err := resp.Events()
	if err != nil {
		p.broken(err)
		return
	}
	p.events(events)
}

// fixed sends a body that the reply brought along.
func (p *player) fixed() {
	r := p.reply
	body := r.Raw
	if body == "" {
		body = r.Body
	}
	if body == "" {
		body = string(render.Fault("server_error", fmt.Sprintf("the fake provider answers %d", r.Status), "", ""))
	}
	p.body(r.Status, []byte(body))
}

func (p *player) body(status int, body []byte) {
	if !p.wait() {
		return
	}
	if p.reply.Cut < 0 {
		p.cut()
	}
	if r := p.reply; r.Status != 0 {
		status = r.Status
	}
	if status == 0 {
		status = http.StatusOK
	}
	p.w.Header().Set("Content-Type", "application/json")
	p.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	p.headers()
	p.w.WriteHeader(status)
	if p.reply.Cut > 0 {
		_, _ = p.w.Write(body[:len(body)/2])
		p.flush()
		p.cut()
	}
	_, _ = p.w.Write(body)
}

func (p *player) events(events []render.Event) {
	if p.reply.BlockAfter == 0 && !p.wait() {
		return
	}
	if p.reply.Cut < 0 {
		p.cut()
	}
	p.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	p.w.Header().Set("Cache-Control", "no-cache")
	p.headers()
	p.w.WriteHeader(max(http.StatusOK, p.reply.Status))
	for i, e := range events {
		if p.reply.Cut == i && i > 0 {
			p.cut()
		}
		if p.reply.BlockAfter == i && i > 0 && !p.wait() {
			return
		}
		if _, err := p.w.Write(e.SSE()); err != nil {
			return
		}
		p.flush()
	}
}

// wait waits for the reply's signal; it reports whether there is still anyone to
// answer.
func (p *player) wait() bool {
	if p.reply.Block == nil {
		return true
	}
	select {
	case <-p.reply.Block:
		return true
	case <-p.ctx.Done():
		return false
	case <-p.done:
		return false
	}
}

func (p *player) headers() {
	for k, v := range p.reply.Headers {
		p.w.Header().Set(k, v)
	}
}

// cut drops the connection: this panic is net/http's way to ask for it, and is not
// logged.
func (p *player) cut() {
	panic(http.ErrAbortHandler)
}

func (p *player) flush() {
	// A writer that cannot flush has nothing to lose by it.
	_ = http.NewResponseController(p.w).Flush()
}

// broken answers when the fake itself failed.
func (p *player) broken(err error) {
	send(p.w, http.StatusInternalServerError, render.Fault("server_error", err.Error(), "", ""))
}

func send(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// isResponses tells the one endpoint that there is from any other; what comes before
// it is the base URL's.
func isResponses(path string) bool { return strings.HasSuffix(path, "/responses") }

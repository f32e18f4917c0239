package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/aptixhq/aptix/internal/llm/render"
	"github.com/aptixhq/aptix/internal/llm/wirecheck"
)

// maxBody bounds a request, in bytes: more than any test should send.
const maxBody = 64 << 20

// Fake is the provider without its test: an http.Handler for POST …/responses. Use
// New in tests; a command that a script runs makes one with NewFake and looks at
// Errors at the end.
type Fake struct {
	done chan struct{} // closed by Close
	once sync.Once

	mu        sync.Mutex // guards everything below
	script    []Reply
	next      int
	otherwise func(request []byte) Reply
	requests  [][]byte
	heard     [][]json.RawMessage
	arrived   chan struct{} // closed, and replaced, when a request arrives
	errs      []error
	report    func(error)
	note      func(string)
	ids       ids
	memory    memory
}

// NewFake returns a provider that answers with the replies, one for each request.
func NewFake(script ...Reply) *Fake {
	f := &Fake{
		done: make(chan struct{}), arrived: make(chan struct{}), script: script,
		report: func(error) {}, note: func(string) {},
		ids:    ids{taken: map[string]bool{}},
		memory: memory{stored: map[string]exchange{}, reasons: map[string]string{}},
	}
	for i, r := range script {
		if err := r.check(); err != nil {
			f.errs = append(f.errs, fmt.Errorf("reply %d of the script: %w", i+1, err))
		}
		for _, c := range r.Calls {
			f.ids.taken[c.ID] = true
		}
	}
	return f
}

// Close ends every wait for a Reply.Block, so that no handler is left behind.
func (f *Fake) Close() { f.once.Do(func() { close(f.done) }) }

// Errors returns what was wrong with the script and with the requests: bodies that
// break OpenAI's schema or that its client cannot read, and requests for which there
// was no reply left.
func (f *Fake) Errors() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.errs)
}

// Requests returns the bodies as they were received, also of requests that were
// refused.
func (f *Fake) Requests() [][]byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

// Heard returns, for each request that was not refused, the whole conversation that
// stood before the model: what it remembered and what the request brought.
func (f *Fake) Heard() [][]json.RawMessage {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.heard)
}

// Left returns how many replies of the script were not asked for.
func (f *Fake) Left() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.script) - f.next
}

// Await returns when n requests have arrived, before they are answered.
func (f *Fake) Await(ctx context.Context, n int) error {
	for {
		f.mu.Lock()
		have, arrived := len(f.requests), f.arrived
		f.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d model requests arrived: %w", have, n, ctx.Err())
		}
	}
}

// Forget makes the provider lose every response that it stored, as after a restart or
// when they expire.
func (f *Fake) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.memory.stored)
	clear(f.memory.reasons)
}

// Otherwise sets what answers once the script has run out, by the request. Then
// running out is no error. It may be called from several requests at once.
func (f *Fake) Otherwise(answer func(request []byte) Reply) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.otherwise = answer
}

// ServeHTTP answers one request.
func (f *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !isResponses(r.URL.Path) {
		send(w, http.StatusNotFound, render.Fault("invalid_request_error", fmt.Sprintf("Invalid URL (%s %s)", r.Method, r.URL.Path), "", ""))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		send(w, http.StatusBadRequest, render.Fault("invalid_request_error", "the body could not be read: "+err.Error(), "", ""))
		return
	}
	in, reply, refused := f.receive(body)
	if refused != nil {
		send(w, refused.status, refused.body())
		return
	}
	p := &player{w: w, ctx: r.Context(), done: f.done, reply: reply}
	if !reply.model() {
		p.fixed()
		return
	}
	resp, err := f.respond(reply, in, body)
	if err != nil {
		f.fail(err)
		p.broken(err)
		return
	}
	p.model(resp, in.Streams())
}

// receive records a request, judges it and takes the reply for it.
func (f *Fake) receive(body []byte) (input, Reply, *refusal) {
	in, wrong := read(body)
	a := f.arrive(body, in, wrong)
	switch {
	case wrong != nil:
		f.fail(fmt.Errorf("model request %d: %w\n%s", a.n, wrong, body))
		return in, Reply{}, &refusal{status: http.StatusBadRequest, message: wrong.Error()}
	case a.refused != nil:
		a.note(fmt.Sprintf("the fake provider refuses model request %d: %s", a.n, a.refused.message))
		return in, Reply{}, a.refused
	case a.reply != nil:
		return in, *a.reply, nil
	case a.otherwise == nil:
		f.fail(fmt.Errorf("model request %d: the script has run out\n%s", a.n, body))
		return in, Reply{}, &refusal{status: http.StatusInternalServerError, message: "The script of the fake provider has run out."}
	}
	reply := a.otherwise(body)
	if err := reply.check(); err != nil {
		f.fail(fmt.Errorf("the reply to model request %d: %w", a.n, err))
	}
	return in, reply, nil
}

// arrival is what the Fake made of a request when it came in.
type arrival struct {
	n         int
	refused   *refusal
	reply     *Reply // of the script, if it had one
	otherwise func([]byte) Reply
	note      func(string)
}

// arrive counts the request in. Its reply is taken in the same step, so that replies
// go out in the order in which Await and Requests see the requests.
func (f *Fake) arrive(body []byte, in input, wrong error) arrival {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, body)
	close(f.arrived)
	f.arrived = make(chan struct{})
	a := arrival{n: len(f.requests), otherwise: f.otherwise, note: f.note}
	if wrong != nil {
		return a
	}
	if a.refused = f.memory.judge(in); a.refused == nil {
		f.heard = append(f.heard, f.memory.heard(in))
	}
	if a.refused == nil && f.next < len(f.script) {
		a.reply = &f.script[f.next]
		f.next++
	}
	return a
}

// read applies the yardsticks of wirecheck to a request, and decodes it.
func read(body []byte) (input, error) {
	wrong := wirecheck.Decode(body)
	if err := wirecheck.Validate(body); err != nil && !errors.Is(err, wirecheck.ErrNoSchema) {
		wrong = errors.Join(wrong, err)
	}
	var in input
	if err := json.Unmarshal(body, &in); err != nil {
		wrong = errors.Join(wrong, err)
	}
	return in, wrong
}

// respond renders a reply and remembers it. A failed response cannot be chained to.
func (f *Fake) respond(reply Reply, in input, body []byte) (render.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	resp := reply.response(&f.ids, in.Echo, body)
	whole, err := resp.JSON()
	if err != nil {
		return resp, err
	}
	var made struct {
		Output []item `json:"output"`
	}
	var raw struct {
		Output []json.RawMessage `json:"output"`
	}
	if err := errors.Join(json.Unmarshal(whole, &made), json.Unmarshal(whole, &raw)); err != nil {
		return resp, fmt.Errorf("read the fake's own response: %w", err)
	}
	if resp.Failure == nil {
		f.memory.learn(resp.ID, in, made.Output, raw.Output)
	}
	return resp, nil
}

// fail records an error and tells the test at once.
func (f *Fake) fail(err error) {
	f.mu.Lock()
	f.errs = append(f.errs, err)
	report := f.report
	f.mu.Unlock()
	report(err)
}

package llmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/render"
)

// Reply is what the provider does with one request. It answers in one of three ways:
// as a model (Text to Failure), with a fixed body (Raw), or with an error (Status).
// The zero value is a completed response without output.
type Reply struct {
	// Items are output items as they are, before all others; a reasoning item for
	// instance.
	Items []json.RawMessage
	// Text is the answer, streamed word by word.
	Text string
	// Deltas is the answer in the pieces in which it is streamed, instead of Text.
	Deltas []string
	// Refusal is the answer of a model that will not.
	Refusal string
	// Calls are the function calls, after the text.
	Calls []Call
	// Usage is what the call cost; zero means that it is estimated from the bytes.
	Usage agent.Usage
	// Incomplete ends the answer early: max_output_tokens or content_filter.
	Incomplete string
	// Failure makes it a failed response with this message.
	Failure string

	// Raw is the whole body, whatever the request asked for. Its type is
	// application/json unless Headers say otherwise.
	Raw string

	// Status is the status of the answer; 0 is 200. From 300 on, Body is sent, or an
	// error in the API's form when Body is empty.
	Status int
	Body   string

	// Headers are added to the answer and replace its own.
	Headers map[string]string
	// Cut closes the connection after so many events, or halfway through a body that
	// is not a stream; -1 closes it before the first byte.
	Cut int
	// Block is waited on before anything is sent or, of a stream, after BlockAfter
	// events. A client that goes away ends the wait.
	Block      <-chan struct{}
	BlockAfter int
}

// Call is a function call of the model.
type Call struct {
	// ID is the call id; empty means the next free call_1, call_2 …
	ID   string
	Name string
	// Arguments is passed on as it is, also when it is not JSON; empty means {}.
	Arguments string
}

// model reports whether r answers as a model would.
func (r Reply) model() bool { return r.Raw == "" && r.Status < http.StatusMultipleChoices }

// check reports why r cannot be played.
func (r Reply) check() error {
	var errs []error
	says := r.Text != "" || len(r.Deltas) > 0 || r.Refusal != "" || len(r.Calls) > 0 || len(r.Items) > 0 || r.Incomplete != "" || r.Failure != ""
	if !r.model() && says {
		errs = append(errs, errors.New("raw and an error status stand alone: a model's answer beside them is never sent"))
	}
	if r.Body != "" && r.Status < http.StatusMultipleChoices {
		errs = append(errs, errors.New("body belongs to a status of 300 or more; use raw"))
	}
	if r.Status != 0 && (r.Status < 200 || r.Status > 599) {
		errs = append(errs, fmt.Errorf("status %d is not one of HTTP's final ones, 200 to 599", r.Status))
	}
	if r.Text != "" && len(r.Deltas) > 0 {
		errs = append(errs, errors.New("text and deltas are two ways to say the same: use one"))
	}
	if r.Refusal != "" && (r.Text != "" || len(r.Deltas) > 0) {
		errs = append(errs, errors.New("a refusal stands in the place of the text"))
	}
	if r.Incomplete != "" && !slices.Contains([]string{"max_output_tokens", "content_filter"}, r.Incomplete) {
		errs = append(errs, fmt.Errorf("incomplete is max_output_tokens or content_filter, not %q", r.Incomplete))
	}
	for i, c := range r.Calls {
		if c.Name == "" {
			errs = append(errs, fmt.Errorf("calls[%d] has no name", i))
		}
	}
	for i, item := range r.Items {
		if !json.Valid(item) {
			errs = append(errs, fmt.Errorf("items[%d] is not JSON: %s", i, item))
		}
	}
	return errors.Join(errs...)
}

// ids hands out the numbers behind the ids of one provider.
type ids struct {
	response, message, call, callID int
	// taken are the call ids that the script chose, which must not be given again.
	taken map[string]bool
}

func (n *ids) nextCallID() string {
	for {
		n.callID++
		if id := fmt.Sprintf("call_%d", n.callID); !n.taken[id] {
			return id
		}
	}
}

// response turns r into the response to a request.
func (r Reply) response(n *ids, echo render.Echo, request []byte) render.Response {
	n.response++
	out := render.Response{ID: fmt.Sprintf("resp_%d", n.response), CreatedAt: createdAt, Incomplete: r.Incomplete, Usage: r.Usage, Echo: echo}
	if r.Failure != "" {
		out.Failure = &render.Failure{Code: "server_error", Message: r.Failure}
	}
	size := 0
	for _, item := range r.Items {
		out.Output = append(out.Output, render.Raw(item))
		size += len(item)
	}
	deltas := r.Deltas
	if r.Text != "" {
		deltas = render.Words(r.Text)
	}
	if len(deltas) > 0 || r.Refusal != "" {
		n.message++
		out.Output = append(out.Output, render.Message{ID: fmt.Sprintf("msg_%d", n.message), Deltas: deltas, Refusal: r.Refusal})
		for _, d := range deltas {
			size += len(d)
		}
	}
	for _, c := range r.Calls {
		n.call++
		call := render.Call{ID: fmt.Sprintf("fc_%d", n.call), CallID: c.ID, Name: c.Name, Arguments: c.Arguments}
		if call.CallID == "" {
			call.CallID = n.nextCallID()
		}
		if call.Arguments == "" {
			call.Arguments = "{}"
		}
		out.Output = append(out.Output, call)
		size += len(call.Name) + len(call.Arguments)
	}
	if out.Usage == (agent.Usage{}) {
		out.Usage = render.Usage(len(request), size)
	}
	return out
}

// createdAt is the time of every response: a test's answers are the same each time.
const createdAt = 1_700_000_000

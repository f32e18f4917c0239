package llm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aptixhq/aptix/internal/agent"
)

// The events of the stream that matter here; all others are ignored.
const (
	eventTextDelta    = "response.output_text.delta"
	eventRefusalDelta = "response.refusal.delta"
	eventItemDone     = "response.output_item.done"
	eventCompleted    = "response.completed"
	eventIncomplete   = "response.incomplete"
	eventFailed       = "response.failed"
	eventError        = "error"
)

// errMalformed tells that the provider sent what cannot be read.
var errMalformed = errors.New("malformed answer")

// reducer turns the events of one stream into deltas and, at the end, an answer.
type reducer struct {
	c *Client
	// last is the highest sequence number applied so far.
	last      int64
	done      []doneItem
	envelopes envelopeReader
	deltas    sheet
}

// sheet is what short strings are cut from: one for each of the thousands of deltas of a
// stream would be an allocation each, and whoever allocates while the collector runs has to
// help it.
type sheet struct{ text strings.Builder }

// How much is cut from one sheet, in bytes: from the first, and from the others. A string
// keeps its sheet in memory.
const (
	firstSheet = 512
	nextSheet  = 4 * firstSheet
)

// cut reads a JSON string.
func (s *sheet) cut(raw []byte) (string, error) {
	plain, ok := plainString(raw)
	if !ok || len(plain) > firstSheet/8 {
		return stringOf(raw)
	}
	if s.text.Cap()-s.text.Len() < len(plain) {
		size := firstSheet
		if s.text.Len() > 0 {
			size = nextSheet
		}
		s.text = strings.Builder{}
		s.text.Grow(size)
	}
	from := s.text.Len()
	s.text.Write(plain)
	return s.text.String()[from:], nil
}

type doneItem struct {
	index int64
	raw   json.RawMessage
}

// apply takes one event. It reports whether that was the terminal one; the event
// returned may be empty. An error ends the stream too.
func (r *reducer) apply(e serverEvent) (ev Event, terminal bool, err error) {
	if bytes.Equal(bytes.TrimSpace(e.Data), []byte("[DONE]")) {
		return Event{}, false, nil
	}
	data := validJSON(e.Data)
	in, err := r.envelopes.read(data)
	if err != nil {
		return Event{}, false, fmt.Errorf("%w: %w", errMalformed, err)
	}
	kind := in.Type
	if len(kind) == 0 {
		kind = e.Name
	}
	if len(in.Type) == 0 && isObject(in.Error) {
		kind = []byte(eventError)
	}
	if r.again(kind, int64(in.Sequence)) {
		return Event{}, false, nil
	}
	switch string(kind) {
	case eventTextDelta, eventRefusalDelta:
		if len(in.Delta) == 0 || string(in.Delta) == "null" {
			return Event{}, false, nil
		}
		if ev.Delta, err = r.deltas.cut(in.Delta); err != nil {
			return Event{}, false, fmt.Errorf("%w: %w", errMalformed, err)
		}
		return ev, false, nil
	case eventItemDone:
		r.done = append(r.done, doneItem{int64(in.Index), bytes.Clone(in.Item)})
		return Event{}, false, nil
	case eventCompleted:
		ev, err = r.settle(in.Response, statusCompleted)
		return ev, true, err
	case eventIncomplete:
		ev, err = r.settle(in.Response, statusIncomplete)
		return ev, true, err
	case eventFailed:
		ev, err = r.settle(in.Response, statusFailed)
		return ev, true, err
	case eventError:
		return Event{}, true, r.c.failed(errorOf(data, in.Error))
	}
	return Event{}, false, nil
}

// again reports whether an event was applied already. Zero is what endpoints that do
// not count leave in every event. A terminal event is never a repetition.
func (r *reducer) again(kind []byte, sequence int64) bool {
	switch string(kind) {
	case eventCompleted, eventIncomplete, eventFailed, eventError:
		return false
	}
	if sequence <= 0 {
		return false
	}
	if sequence <= r.last {
		return true
	}
	r.last = sequence
	return false
}

// settle ends the stream with the response object of its terminal event.
func (r *reducer) settle(response json.RawMessage, how string) (Event, error) {
	slices.SortStableFunc(r.done, func(a, b doneItem) int { return cmp.Compare(a.index, b.index) })
	items := make([]json.RawMessage, 0, len(r.done))
	for _, i := range r.done {
		items = append(items, i.raw)
	}
	return r.c.settle(response, items, how)
}

// The ways in which an answer can end.
const (
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
)

// settle reads a response object and says what became of the answer. The items are
// those that the stream has shown so far, for endpoints that leave them out of the
// object. How says how the stream ended; it is empty for an answer that is no
// stream, and then the object must say it itself.
//
// An answer that is not complete is a fault; its Response comes with it, since it
// was paid for.
func (c *Client) settle(raw json.RawMessage, items []json.RawMessage, how string) (Event, error) {
	var o responseObject
	if err := o.read(raw); err != nil {
		return Event{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	if len(o.Output) == 0 {
		o.Output = items
	}
	r := &Response{ID: o.ID, Items: o.Output, Usage: o.Usage.agent(), IncompleteReason: c.clean(string(o.Incomplete.Reason))}
	status := o.Status
	switch {
	case how == statusIncomplete || how == statusFailed:
		status = how
	case status != "":
	case r.IncompleteReason != "":
		status = statusIncomplete
	case how == statusCompleted || o.Output != nil:
		// The API's schema lets a whole document leave its status out.
		status = statusCompleted
	}
	r.Status = status
	switch {
	case status == statusFailed || isObject(o.Error):
		r.Status = statusFailed
		return Event{Response: r}, c.failed(parseError(o.Error))
	case status == statusIncomplete:
		return Event{Response: r}, stoppedEarly(r.IncompleteReason)
	case status != statusCompleted:
		return Event{}, agent.Errorf(agent.KindProviderFailed, "The provider ended its answer in a state that is no end (%s).", cmp.Or(c.clean(status), "none"))
	}
	if err := check(r); err != nil {
		return Event{}, err
	}
	return Event{Response: r}, nil
}

// stoppedEarly is the outcome of an answer that the provider itself cut short, for a
// reason in its own word.
func stoppedEarly(reason string) error {
	then := "Send the turn again with a new turnId."
	switch reason {
	case "max_output_tokens":
		then = "It reached the model's bound of output; ask for less at once."
	case "content_filter":
		then = "The provider's filter stopped it; ask in another way."
	}
	err := agent.Errorf(agent.KindAnswerIncomplete, "The provider stopped before its answer was complete: %s. %s",
		cmp.Or(reason, "no reason given"), then)
	err.Reason = reason
	return err
}

// check refuses a complete answer that nobody could go on from: without an id, with
// items that are none, with calls whose results could not be told apart.
func check(r *Response) error {
	if r.ID == "" {
		return fmt.Errorf("%w: no response id", errMalformed)
	}
	seen := map[string]bool{}
	for n, raw := range r.Items {
		if !isObject(raw) {
			return fmt.Errorf("%w: output item %d is no object", errMalformed, n)
		}
		i, err := readItem(raw)
		switch i.Type {
		case itemMessage, itemFunctionCall:
			if err != nil {
				return fmt.Errorf("%w: output item %d: %w", errMalformed, n, err)
			}
			if i.Type != itemFunctionCall {
				continue
			}
			if i.CallID == "" || i.Name == "" || seen[i.CallID] {
				return fmt.Errorf("%w: output item %d is a call without a name or an id of its own", errMalformed, n)
			}
			seen[i.CallID] = true
		}
	}
	return nil
}

func (c *Client) failed(e providerError) error {
	return agent.Errorf(agent.KindProviderFailed, "The provider failed%s", c.said(e))
}

// errorOf reads an error event, whose members stand at the top or in an error object.
func errorOf(data, nested []byte) providerError {
	if e := parseError(nested); e.Message != "" || e.Code != "" {
		return e
	}
	return parseError(data)
}

type usage struct {
	Input        integer `json:"input_tokens"`
	Output       integer `json:"output_tokens"`
	Total        integer `json:"total_tokens"`
	InputDetails struct {
		Cached integer `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	OutputDetails struct {
		Reasoning integer `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
}

func (u *usage) agent() agent.Usage {
	if u == nil {
		return agent.Usage{}
	}
	out := agent.Usage{
		InputTokens:     int64(u.Input),
		OutputTokens:    int64(u.Output),
		TotalTokens:     int64(u.Total),
		CachedTokens:    int64(u.InputDetails.Cached),
		ReasoningTokens: int64(u.OutputDetails.Reasoning),
	}
	if out.TotalTokens == 0 {
		out.TotalTokens = out.InputTokens + out.OutputTokens
	}
	return out
}

// validJSON replaces bytes that are not UTF-8, as the standard asks of a reader of
// events; JSON of other bytes could be neither stored nor sent back.
func validJSON(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	return bytes.ToValidUTF8(b, []byte("\uFFFD"))
}

func isObject(raw []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) }

package llmtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/aptixhq/aptix/internal/llm/render"
)

// memory is what the provider knows of the responses that it gave.
type memory struct {
	// stored are the responses that may be chained to, by id.
	stored map[string]exchange
	// reasons names the reasoning item that stood before an output item, by item id.
	reasons map[string]string
}

// exchange is one stored response with what led to it.
type exchange struct {
	previous string
	items    []item            // of the input, then of the output
	raw      []json.RawMessage // the same, byte for byte
}

// item is what the memory looks at in an input or an output item.
type item struct {
	Type   string `json:"type"`
	ID     string `json:"id"`
	Role   string `json:"role"`
	CallID string `json:"call_id"`
}

// input is the part of a request that the memory judges.
type input struct {
	render.Echo
	Input json.RawMessage `json:"input"`
}

// raw returns the input items byte for byte.
func (in input) raw() []json.RawMessage {
	var items []json.RawMessage
	if err := json.Unmarshal(in.Input, &items); err != nil {
		return nil // a plain text
	}
	return items
}

// items returns the input items; an input that is a plain text has none that matter.
func (in input) items() []item {
	if raw := bytes.TrimSpace(in.Input); len(raw) == 0 || raw[0] != '[' {
		return nil
	}
	var items []item
	if err := json.Unmarshal(in.Input, &items); err != nil {
		return nil
	}
	return items
}

// refusal is an answer of the API that turns a request down.
type refusal struct {
	status               int
	message, param, code string
}

func (r *refusal) body() []byte {
	kind := "invalid_request_error"
	if r.status >= http.StatusInternalServerError {
		kind = "server_error"
	}
	return render.Fault(kind, r.message, r.param, r.code)
}

func refuse(format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, message: fmt.Sprintf(format, args...), param: "input"}
}

// judge reports why the real service would refuse the request, nil when it would not.
func (m *memory) judge(in input) *refusal {
	chain, r := m.chain(in.PreviousResponseID)
	if r != nil {
		return r
	}
	items := in.items()
	if r := calls(chain, items); r != nil {
		return r
	}
	return m.reasoning(chain, items)
}

// chain returns everything that went before, the oldest first.
func (m *memory) chain(previous *string) ([]item, *refusal) {
	var links [][]item
	for id := deref(previous); id != ""; {
		e, ok := m.stored[id]
		if !ok {
			return nil, &refusal{
				status:  http.StatusNotFound,
				message: fmt.Sprintf("Previous response with id '%s' not found.", id),
				param:   "previous_response_id", code: "previous_response_not_found",
			}
		}
		links = append(links, e.items)
		id = e.previous
	}
	var out []item
	for i := len(links) - 1; i >= 0; i-- {
		out = append(out, links[i]...)
	}
	return out, nil
}

// heard returns all items that stand before the model: those of the responses that the
// request continues, then its own.
func (m *memory) heard(in input) []json.RawMessage {
	var links [][]json.RawMessage
	for id := deref(in.PreviousResponseID); id != ""; {
		e := m.stored[id]
		links = append(links, e.raw)
		id = e.previous
	}
	slices.Reverse(links)
	return append(slices.Concat(links...), in.raw()...)
}

// calls demands that every call has its one output, after it.
func calls(chain, items []item) *refusal {
	open := map[string]bool{} // call id → still without output
	var order []string
	for _, it := range append(chain[:len(chain):len(chain)], items...) {
		switch it.Type {
		case "function_call":
			if _, twice := open[it.CallID]; twice {
				return refuse("Duplicate function call with call_id %s.", it.CallID)
			}
			open[it.CallID] = true
			order = append(order, it.CallID)
		case "function_call_output":
			waiting, made := open[it.CallID]
			if !made {
				return refuse("No tool call found for function call output with call_id %s.", it.CallID)
			}
			if !waiting {
				return refuse("Duplicate tool output for function call with call_id %s.", it.CallID)
			}
			open[it.CallID] = false
		}
	}
	for _, id := range order {
		if open[id] {
			return refuse("No tool output found for function call %s.", id)
		}
	}
	return nil
}

// reasoning demands that items appear once, and that a reasoning item and the item
// that the model made of it stay together.
func (m *memory) reasoning(chain, items []item) *refusal {
	seen := map[string]bool{}
	for _, it := range chain {
		seen[it.ID] = true
	}
	for i, it := range items {
		if it.ID == "" {
			continue
		}
		if seen[it.ID] {
			return refuse("Duplicate item found with id %s. Remove duplicate items from your input and try again.", it.ID)
		}
		seen[it.ID] = true
		if it.Type == "reasoning" && (i+1 == len(items) || !items[i+1].made()) {
			return refuse("Item '%s' of type 'reasoning' was provided without its required following item.", it.ID)
		}
		if reason := m.reasons[it.ID]; reason != "" && !seen[reason] {
			return refuse("Item '%s' of type '%s' was provided without its required 'reasoning' item: '%s'.", it.ID, it.Type, reason)
		}
	}
	return nil
}

// made reports whether the item is one that a model makes.
func (it item) made() bool {
	return it.Type != "function_call_output" && (it.Type != "message" || it.Role == "assistant")
}

// learn remembers a response that was given.
func (m *memory) learn(id string, in input, output []item, raw []json.RawMessage) {
	reason := ""
	for _, it := range output {
		if it.Type == "reasoning" {
			reason = it.ID
		} else if reason != "" {
			m.reasons[it.ID], reason = reason, ""
		}
	}
	if in.Stored() {
		m.stored[id] = exchange{previous: deref(in.PreviousResponseID), items: append(in.items(), output...), raw: append(in.raw(), raw...)}
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

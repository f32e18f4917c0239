package llm

import (
	"encoding/json"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
)

// Event is one value of an answer: a Delta, or the Response that ends it.
type Event struct {
	// Delta is the next piece of the text, or of a refusal.
	Delta    string
	Response *Response
}

// Response is a whole answer.
type Response struct {
	ID string
	// Status is the provider's word: completed, incomplete or failed.
	Status string
	// Items are the output items, byte for byte.
	Items []json.RawMessage
	Usage agent.Usage
	// IncompleteReason says why an incomplete answer is that.
	IncompleteReason string
}

// Calls returns the tools that the model asks for, in its own order.
func (r Response) Calls() []agent.ToolCall { return Calls(r.Items) }

// Text returns what the model says.
func (r Response) Text() string { return Text(r.Items) }

// Refusal returns the words in which the model declines, "" when it does not.
func (r Response) Refusal() string { return Refusal(r.Items) }

// item is what is read of an output item; the rest of it is only passed on.
type item struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Content   []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
}

const (
	itemMessage        = "message"
	itemFunctionCall   = "function_call"
	itemFunctionOutput = "function_call_output"
	itemReasoning      = "reasoning"
)

// Calls returns the function calls among output items, in their order.
func Calls(items []json.RawMessage) []agent.ToolCall {
	var out []agent.ToolCall
	for _, i := range parse(items, itemFunctionCall) {
		out = append(out, agent.ToolCall{ID: agent.CallID(i.CallID), Name: i.Name, Arguments: i.Arguments})
	}
	return out
}

// Text returns the output text among output items, put together.
func Text(items []json.RawMessage) string {
	var b strings.Builder
	for _, i := range parse(items, itemMessage) {
		for _, c := range i.Content {
			if c.Type == "output_text" {
				b.WriteString(c.Text)
			}
		}
	}
	return b.String()
}

// Refusal returns the refusals among output items, put together.
func Refusal(items []json.RawMessage) string {
	var b strings.Builder
	for _, i := range parse(items, itemMessage) {
		for _, c := range i.Content {
			if c.Type == "refusal" {
				b.WriteString(c.Refusal)
			}
		}
	}
	return b.String()
}

// parse reads the items of one type. Its kind is looked at first: items of other
// kinds have members of other shapes, which are none of our business.
func parse(raw []json.RawMessage, kind string) []item {
	var out []item
	for _, r := range raw {
		if typeOf(r) != kind {
			continue
		}
		var i item
		if err := json.Unmarshal(r, &i); err == nil {
			out = append(out, i)
		}
	}
	return out
}

func typeOf(raw json.RawMessage) string {
	var t struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &t); err != nil {
		return ""
	}
	return t.Type
}

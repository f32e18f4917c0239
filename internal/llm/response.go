package llm

import (
	"cmp"
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
func (r Response) Calls() []agent.ToolCall { return Read(r.Items).Calls }

// Text returns what the model says.
func (r Response) Text() string { return Read(r.Items).Text }

// Refusal returns the words in which the model declines, "" when it does not.
func (r Response) Refusal() string { return Read(r.Items).Refusal }

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

// Said is what output items say.
type Said struct {
	// Calls are the function calls, in their order.
	Calls []agent.ToolCall
	// Text is the output text, put together, and Refusal the refusals.
	Text, Refusal string
}

// Answer is what the model says to the user: its text, or its refusal.
func (s Said) Answer() string { return cmp.Or(s.Text, s.Refusal) }

// Read reads output items. One that is of another type says nothing, and may have members
// of any shape; neither does one that cannot be read.
func Read(items []json.RawMessage) Said {
	var s Said
	var text, refusal strings.Builder
	for _, raw := range items {
		i, err := readItem(raw)
		switch {
		case err != nil:
		case i.Type == itemFunctionCall:
			s.Calls = append(s.Calls, agent.ToolCall{ID: agent.CallID(i.CallID), Name: i.Name, Arguments: i.Arguments})
		case i.Type == itemMessage:
			for _, c := range i.Content {
				switch c.Type {
				case "output_text":
					text.WriteString(c.Text)
				case "refusal":
					refusal.WriteString(c.Refusal)
				}
			}
		}
	}
	s.Text, s.Refusal = text.String(), refusal.String()
	return s
}

// readItem reads an item. With an error its type is still told, unless it is no object.
func readItem(raw json.RawMessage) (i item, err error) {
	err = json.Unmarshal(raw, &i)
	return i, err
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

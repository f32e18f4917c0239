package render

import (
	"encoding/json"
	"strings"
)

// Event is one event of a stream.
type Event struct {
	// Type is the event's name, such as response.output_text.delta.
	Type string
	// Data is its JSON, on one line.
	Data []byte
}

// EventTextDelta is the event that carries a piece of the text.
const EventTextDelta = "response.output_text.delta"

// SSE returns the event in the form in which it goes over the wire.
func (e Event) SSE() []byte {
	return e.AppendSSE(make([]byte, 0, len("event: \ndata: \n\n")+len(e.Type)+len(e.Data)))
}

// AppendSSE appends the event to b in the form in which it goes over the wire.
func (e Event) AppendSSE(b []byte) []byte {
	b = append(b, "event: "...)
	b = append(b, e.Type...)
	b = append(b, "\ndata: "...)
	b = append(b, e.Data...)
	return append(b, "\n\n"...)
}

// Events returns the response as a stream, from response.created to the event that
// says how it ended. It fails where JSON does.
func (r Response) Events() ([]Event, error) {
	s := &stream{}
	s.response("response.created", r.document(inProgress))
	s.response("response.in_progress", r.document(inProgress))
	if r.Failure == nil {
		for i, item := range r.Output {
			item.stream(s, i, r.itemStatus(i))
		}
	}
	s.end(r)
	return s.events, s.err
}

// stream gathers events and numbers them.
type stream struct {
	events []Event
	next   int // the number of the next event
	err    error
}

// end adds the event that says how the response ended. The API has none for one that
// was cancelled; what it has for an answer that stops early carries that status.
func (s *stream) end(r Response) {
	kind := r.status()
	if kind == cancelled {
		kind = incomplete
	}
	s.response("response."+kind, r.document(r.status()))
}

// event is the JSON form of every event; members that are not its own are absent.
type event struct {
	Type         string    `json:"type"`
	Sequence     int       `json:"sequence_number"`
	Response     *document `json:"response,omitempty"`
	OutputIndex  *int      `json:"output_index,omitempty"`
	Item         any       `json:"item,omitempty"`
	ItemID       string    `json:"item_id,omitempty"`
	ContentIndex *int      `json:"content_index,omitempty"`
	Part         any       `json:"part,omitempty"`
	Delta        *string   `json:"delta,omitempty"`
	Text         *string   `json:"text,omitempty"`
	Refusal      *string   `json:"refusal,omitempty"`
	Logprobs     *[]any    `json:"logprobs,omitempty"`
	Name         string    `json:"name,omitempty"`
	Arguments    *string   `json:"arguments,omitempty"`
}

func (s *stream) add(e event) {
	if s.err != nil {
		return
	}
	e.Sequence = s.next
	data, err := encode(e)
	if err != nil {
		s.err = err
		return
	}
	s.next++
	s.events = append(s.events, Event{Type: e.Type, Data: data})
}

func (s *stream) response(kind string, d document) {
	s.add(event{Type: kind, Response: &d})
}

// The content parts of a message.
type (
	textPart struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		Annotations []any  `json:"annotations"`
		Logprobs    []any  `json:"logprobs"`
	}
	refusalPart struct {
		Type    string `json:"type"`
		Refusal string `json:"refusal"`
	}
)

func text(s string) textPart {
	return textPart{Type: "output_text", Text: s, Annotations: []any{}, Logprobs: []any{}}
}

// messageItem and callItem are the JSON forms of the two items.
type messageItem struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Status  string `json:"status"`
	Role    string `json:"role"`
	Content []any  `json:"content"`
}

type callItem struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Status    string `json:"status"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

func (m Message) resource(status string) any {
	item := messageItem{ID: m.ID, Type: "message", Status: status, Role: "assistant"}
	if m.Refusal != "" {
		item.Content = []any{refusalPart{Type: "refusal", Refusal: m.Refusal}}
	} else {
		item.Content = []any{text(strings.Join(m.Deltas, ""))}
	}
	return item
}

func (m Message) stream(s *stream, index int, status string) {
	m.open(s, index)
	if m.Refusal != "" {
		m.streamRefusal(s, index)
	} else {
		m.streamText(s, index)
	}
	s.add(event{Type: "response.output_item.done", OutputIndex: &index, Item: m.resource(status)})
}

func (m Message) open(s *stream, index int) {
	empty := messageItem{ID: m.ID, Type: "message", Status: inProgress, Role: "assistant", Content: []any{}}
	s.add(event{Type: "response.output_item.added", OutputIndex: &index, Item: empty})
}

func (m Message) streamText(s *stream, index int) {
	s.add(m.part("response.content_part.added", index, event{Part: text("")}))
	for _, d := range m.Deltas {
		m.delta(s, index, d)
	}
	m.closeText(s, index)
}

func (m Message) delta(s *stream, index int, d string) {
	s.add(m.part(EventTextDelta, index, event{Delta: &d, Logprobs: &[]any{}}))
}

func (m Message) closeText(s *stream, index int) {
	whole := strings.Join(m.Deltas, "")
	none := []any{}
	s.add(m.part("response.output_text.done", index, event{Text: &whole, Logprobs: &none}))
	s.add(m.part("response.content_part.done", index, event{Part: text(whole)}))
}

func (m Message) streamRefusal(s *stream, index int) {
	s.add(m.part("response.content_part.added", index, event{Part: refusalPart{Type: "refusal"}}))
	for _, d := range Words(m.Refusal) {
		s.add(m.part("response.refusal.delta", index, event{Delta: &d}))
	}
	s.add(m.part("response.refusal.done", index, event{Refusal: &m.Refusal}))
	s.add(m.part("response.content_part.done", index, event{Part: refusalPart{Type: "refusal", Refusal: m.Refusal}}))
}

// part returns e as an event about the content of the message; a message has one
// part.
func (m Message) part(kind string, index int, e event) event {
	first := 0
	e.Type, e.ItemID, e.OutputIndex, e.ContentIndex = kind, m.ID, &index, &first
	return e
}

func (c Call) resource(status string) any {
	return callItem{ID: c.ID, Type: "function_call", Status: status, CallID: c.CallID, Name: c.Name, Arguments: c.Arguments}
}

func (c Call) stream(s *stream, index int, status string) {
	empty := c
	empty.Arguments = ""
	s.add(event{Type: "response.output_item.added", OutputIndex: &index, Item: empty.resource(inProgress)})
	for _, piece := range pieces(c.Arguments) {
		s.add(event{Type: "response.function_call_arguments.delta", ItemID: c.ID, OutputIndex: &index, Delta: &piece})
	}
	s.add(event{Type: "response.function_call_arguments.done", ItemID: c.ID, OutputIndex: &index, Name: c.Name, Arguments: &c.Arguments})
	s.add(event{Type: "response.output_item.done", OutputIndex: &index, Item: c.resource(status)})
}

func (r Raw) resource(string) any { return json.RawMessage(r) }

// stream shows the item whole, twice: what lies between is not known here, and the
// API lets a reader rely on the item that is done.
func (r Raw) stream(s *stream, index int, status string) {
	s.add(event{Type: "response.output_item.added", OutputIndex: &index, Item: r.resource(status)})
	s.add(event{Type: "response.output_item.done", OutputIndex: &index, Item: r.resource(status)})
}

// pieces cuts arguments into the size in which a model streams them, never within a
// character.
func pieces(s string) []string {
	const size = 16
	var out []string
	runes := []rune(s)
	for len(runes) > size {
		out = append(out, string(runes[:size]))
		runes = runes[size:]
	}
	if len(runes) > 0 {
		out = append(out, string(runes))
	}
	return out
}

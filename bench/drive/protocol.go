package drive

import (
	"crypto/rand"
	"encoding/json"

	"github.com/aptixhq/aptix/bench/sse"
)

// Protocol is how a kind of server is spoken to: what a turn is sent as, and which
// events of its stream carry text and tell that the turn is over.
type Protocol struct {
	path   string
	body   func(s *session, text string) []byte
	delta  string // the event with a piece of text
	member string // the member of it that has the text
	done   string // the event without which the turn failed
}

// Responses is the model's own API. The driver keeps the conversation and sends all of
// it, as a server does that keeps it.
func Responses() Protocol {
	return Protocol{
		path: "/v1/responses", delta: "response.output_text.delta", member: "delta", done: "response.completed",
		body: func(s *session, text string) []byte {
			body := []byte(`{"model":"mock","stream":true,"store":false,"instructions":"You are a helpful assistant.","input":[`)
			body = append(body, s.history...)
			return append(append(append(body, `{"role":"user","content":`...), quote(text)...), `}]}`...)
		},
	}
}

// Floor is what the floors speak.
func Floor() Protocol {
	return Protocol{
		path: "/turn", delta: "delta", member: "text", done: "done",
		body: func(s *session, text string) []byte {
			return append(append([]byte(`{"session":"`+s.id+`","text":`), quote(text)...), '}')
		},
	}
}

// Aptix is what Aptix speaks. It is not the Go client that is used, which does more
// for each event and would be measured with the server.
func Aptix() Protocol {
	return Protocol{
		path: "/v1/agent/execute", delta: "text.delta", member: "text", done: "turn.completed",
		body: func(s *session, text string) []byte {
			body := []byte(`{"sessionId":"` + s.id + `","turnId":"` + rand.Text() + `","stream":true,"instruction":`)
			return append(append(body, quote(text)...), '}')
		},
	}
}

// session is one conversation.
type session struct {
	id string
	// history is what was said, as items of a request, each with a comma after it. Only
	// Responses sends it.
	history []byte
}

func newSession() *session { return &session{id: rand.Text()} }

// remember adds a turn to the history; answer is text as it stood in JSON.
func (s *session) remember(text string, answer []byte) {
	s.history = append(append(append(s.history, `{"role":"user","content":`...), quote(text)...), "},"...)
	s.history = append(append(append(s.history, `{"role":"assistant","content":"`...), answer...), `"},`...)
}

// text returns the piece of text that an event carries, as it stands in JSON.
func (p Protocol) text(e sse.Event) []byte {
	if string(e.Name) != p.delta {
		return nil
	}
	return sse.String(e.Data, p.member)
}

func quote(text string) []byte {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always encodes
	}
	return b
}

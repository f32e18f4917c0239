package server

import (
	"fmt"
	"strconv"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/jsonstr"
)

// ending says what an event means for the stream that it stands in.
type ending int

const (
	goesOn ending = iota // something must follow
	rests                // the stream may rightly end here
	ends                 // nothing follows
)

// framer appends an event to b in the form in which it goes over the wire.
type framer[E any] func(b []byte, e E) ([]byte, ending, error)

// eventData is the data of one event: agent.Event, with its fault as the problem
// that a JSON answer would have been.
type eventData struct {
	agent.Event
	Problem *Problem `json:"problem,omitempty"`
}

// turnFrames renders a turn's events for the client of one request.
func turnFrames(requestID string) framer[agent.Event] {
	return func(b []byte, e agent.Event) ([]byte, ending, error) {
		if e.Type == agent.EventTextDelta {
			return appendText(b, e), goesOn, nil
		}
		data := eventData{Event: e}
		if e.Type == agent.EventTurnFailed {
			p := problemOf(faultOf(e.Fault), requestID)
			data.Problem = &p
		}
		body, err := marshal(data)
		if err != nil {
			return b, goesOn, fmt.Errorf("render event %d: %w", e.Sequence, err)
		}
		b = append(appendHead(b, e), body...)
		return append(b, "\n\n"...), endingOf(e.Type), nil
	}
}

func endingOf(t agent.EventType) ending {
	switch {
	case t.EndsTurn():
		return ends
	case t.EndsDelivery():
		return rests
	}
	return goesOn
}

// appendHead appends what stands before the data of an event.
func appendHead(b []byte, e agent.Event) []byte {
	b = append(append(b, "event: "...), e.Type...)
	b = strconv.AppendInt(append(b, "\nid: "...), e.Sequence, 10)
	return append(b, "\ndata: "...)
}

// appendText renders a piece of text without any detour: a stream is mostly these.
func appendText(b []byte, e agent.Event) []byte {
	b = append(appendHead(b, e), `{"type":"text.delta","sequence":`...)
	b = strconv.AppendInt(b, e.Sequence, 10)
	b = jsonstr.Append(append(b, `,"sessionId":`...), string(e.SessionID))
	b = jsonstr.Append(append(b, `,"turnId":`...), string(e.TurnID))
	if e.Text != "" { // absent, as in every event without text
		b = jsonstr.Append(append(b, `,"text":`...), e.Text)
	}
	return append(b, "}\n\n"...)
}

// faultOf returns why a turn failed, an internal fault when nobody wrote it down.
func faultOf(f *agent.Fault) agent.Fault {
	if f == nil {
		return agent.FaultOf(nil)
	}
	return *f
}

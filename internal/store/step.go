package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/aptixhq/aptix/internal/agent"
)

// A step is stored in two parts: data, the step as JSON, and items, the raw JSON
// texts in it byte for byte. They are kept apart because encoding/json rewrites a
// raw message that it embeds (white space goes, <, > and & are escaped), and a
// wire request that is put together again from the journal must hash to what was
// posted. Apart, they also let a transcript be read without decoding the steps.

// separator begins every item: a JSON text sequence as in RFC 7464. The byte
// cannot occur in a JSON text, where control characters are escaped.
const separator = 0x1e

// EncodeStep returns the stored form of a step. It refuses a step whose members do
// not match its kind.
func EncodeStep(s agent.Step) (data, items []byte, err error) {
	var e StepEncoder
	return e.Encode(s)
}

// StepEncoder encodes the steps of one unit of writing into one piece of memory, which the
// next unit has when they are written. The zero StepEncoder is ready.
type StepEncoder struct {
	written []byte
}

var stepEncoders = sync.Pool{New: func() any { return new(StepEncoder) }}

// NewStepEncoder returns an encoder that is to be released.
func NewStepEncoder() *StepEncoder { return stepEncoders.Get().(*StepEncoder) }

// mostWritten bounds what an encoder keeps for the next unit.
const mostWritten = 256 << 10

// Release ends the use of the encoder and of all that it has returned. One that is never
// released is left to the garbage collector.
func (e *StepEncoder) Release() {
	if cap(e.written) > mostWritten {
		e.written = nil
	}
	e.written = e.written[:0]
	stepEncoders.Put(e)
}

// Encode is EncodeStep.
func (e *StepEncoder) Encode(s agent.Step) (data, items []byte, err error) {
	if err := checkMembers(s); err != nil {
		return nil, nil, fmt.Errorf("encode step %d: %w", s.N, err)
	}
	bare, raw := detach(s)
	start := len(e.written)
	if err := json.NewEncoder(e).Encode(bare); err != nil {
		return nil, nil, fmt.Errorf("encode step %d: %w", s.N, err)
	}
	end := len(e.written)
	data = e.written[start : end-1 : end-1] // without the line's end
	if err := e.join(raw); err != nil {
		return nil, nil, fmt.Errorf("encode step %d: %w", s.N, err)
	}
	if len(raw) > 0 {
		items = e.written[end:len(e.written):len(e.written)]
	}
	return data, items, nil
}

// Write appends. What was returned before stands where it stood.
func (e *StepEncoder) Write(p []byte) (int, error) {
	e.written = append(e.written, p...)
	return len(p), nil
}

// DecodeStep fills the members of a step, whose Kind is known, from its stored
// form. Rows are input like any other: what does not fit is an error.
func DecodeStep(s agent.Step, data, items []byte) (agent.Step, error) {
	if err := json.Unmarshal(data, &s); err != nil {
		return agent.Step{}, fmt.Errorf("decode step %d: %w", s.N, err)
	}
	if err := checkMembers(s); err != nil {
		return agent.Step{}, fmt.Errorf("decode step %d: %w", s.N, err)
	}
	raw, err := SplitItems(items)
	if err != nil {
		return agent.Step{}, fmt.Errorf("decode step %d: %w", s.N, err)
	}
	if err := attach(&s, raw); err != nil {
		return agent.Step{}, fmt.Errorf("decode step %d: %w", s.N, err)
	}
	return s, nil
}

// SplitItems returns the raw items of a stored step.
func SplitItems(items []byte) ([]json.RawMessage, error) {
	if len(items) == 0 {
		return nil, nil
	}
	if items[0] != separator || items[len(items)-1] != '\n' {
		return nil, errors.New("the items are cut off")
	}
	var out []json.RawMessage
	for part := range bytes.SplitSeq(items[1:], []byte{separator}) {
		item, ok := bytes.CutSuffix(part, []byte{'\n'})
		if !ok || len(item) == 0 {
			return nil, errors.New("the items are cut off")
		}
		out = append(out, json.RawMessage(item))
	}
	return out, nil
}

// join appends the items as SplitItems reads them.
func (e *StepEncoder) join(raw []json.RawMessage) error {
	n := 0
	for _, item := range raw {
		n += len(item) + 2
	}
	e.written = slices.Grow(e.written, n)
	for i, item := range raw {
		if len(item) == 0 || bytes.IndexByte(item, separator) >= 0 {
			return fmt.Errorf("item %d is not JSON", i)
		}
		e.written = append(append(append(e.written, separator), item...), '\n')
	}
	return nil
}

// checkMembers reports whether exactly the member that belongs to the kind is set,
// so that code which follows the kind never meets a nil.
func checkMembers(s agent.Step) error {
	var has, wants int
	for _, m := range []struct {
		kind agent.StepKind
		set  bool
	}{
		{agent.StepQueued, s.Queued != nil},
		{agent.StepEntering, s.Entering != nil},
		{agent.StepEntered, s.Entered != nil},
		{agent.StepAsked, s.Asked != nil},
		{agent.StepAnswered, s.Answered != nil},
		{agent.StepToolStarted, s.ToolStarted != nil},
		{agent.StepToolFinished, s.ToolFinished != nil},
		{agent.StepAskedUser, s.AskedUser != nil},
		{agent.StepDecided, s.Decided != nil},
		{agent.StepWaiting, s.Waiting != nil},
		{agent.StepContinued, s.Continued != nil},
		{agent.StepResumed, s.Resumed != nil},
		{agent.StepSettled, s.Settled != nil},
	} {
		if m.set {
			has++
		}
		if m.kind == s.Kind {
			wants = 1
			if !m.set {
				return fmt.Errorf("a step of kind %s without its member", s.Kind)
			}
		}
	}
	if wants == 0 && s.Kind != agent.StepAccepted {
		return fmt.Errorf("unknown kind of step %q", s.Kind)
	}
	if has != wants {
		return fmt.Errorf("a step of kind %s with members of another kind", s.Kind)
	}
	return nil
}

// detach returns the step without its raw items, and the items. The caller's step
// stays as it is.
func detach(s agent.Step) (agent.Step, []json.RawMessage) {
	switch s.Kind {
	case agent.StepAsked:
		m := *s.Asked
		raw := m.NewItems
		m.NewItems, s.Asked = nil, &m
		return s, raw
	case agent.StepAnswered:
		m := *s.Answered
		raw := m.Items
		m.Items, s.Answered = nil, &m
		return s, raw
	case agent.StepWaiting:
		m := *s.Waiting
		raw := optional(m.Response)
		m.Response, s.Waiting = nil, &m
		return s, raw
	case agent.StepSettled:
		m := *s.Settled
		raw := optional(m.Response)
		m.Response, s.Settled = nil, &m
		return s, raw
	}
	return s, nil
}

// attach puts the raw items back where detach took them.
func attach(s *agent.Step, raw []json.RawMessage) error {
	switch {
	case s.Kind == agent.StepAsked:
		s.Asked.NewItems = raw
	case s.Kind == agent.StepAnswered:
		s.Answered.Items = raw
	case s.Kind == agent.StepWaiting && len(raw) <= 1:
		s.Waiting.Response = first(raw)
	case s.Kind == agent.StepSettled && len(raw) <= 1:
		s.Settled.Response = first(raw)
	case len(raw) != 0:
		return fmt.Errorf("a step of kind %s with %d raw items", s.Kind, len(raw))
	}
	return nil
}

func optional(m json.RawMessage) []json.RawMessage {
	if len(m) == 0 {
		return nil
	}
	return []json.RawMessage{m}
}

func first(raw []json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	return raw[0]
}

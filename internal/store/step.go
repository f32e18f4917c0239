package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

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
	if err := checkMembers(s); err != nil {
		return nil, nil, fmt.Errorf("encode step %d: %w", s.N, err)
	}
	bare, raw := detach(s)
	if data, err = json.Marshal(bare); err != nil {
		return nil, nil, fmt.Errorf("encode step %d: %w", s.N, err)
	}
	if items, err = joinItems(raw); err != nil {
		return nil, nil, fmt.Errorf("encode step %d: %w", s.N, err)
	}
	return data, items, nil
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

func joinItems(raw []json.RawMessage) ([]byte, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	n := 0
	for _, item := range raw {
		n += len(item) + 2
	}
	out := make([]byte, 0, n)
	for i, item := range raw {
		if len(item) == 0 || bytes.IndexByte(item, separator) >= 0 {
			return nil, fmt.Errorf("item %d is not JSON", i)
		}
		out = append(append(append(out, separator), item...), '\n')
	}
	return out, nil
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

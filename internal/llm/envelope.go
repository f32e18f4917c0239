package llm

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// envelope is what is read of an event. All but its head stays raw until its type is
// known: events of other types have members of the same names and other shapes. The
// raw members lie within the event's data and live as long.
type envelope struct {
	Type     []byte
	Sequence integer
	Index    integer
	Delta    json.RawMessage
	Item     json.RawMessage
	Response json.RawMessage
	Error    json.RawMessage
}

// envelopeReader reads one envelope after the other. It walks an event once, checks all
// of it, and keeps nothing: a stream is mostly thousands of small events.
type envelopeReader struct {
	objects objectReader
	last    envelope
}

// read reads the event in data; null is an event that says nothing.
func (r *envelopeReader) read(data []byte) (envelope, error) {
	if r.last = (envelope{}); readFlat(data, &r.last) {
		return r.last, nil
	}
	r.last = envelope{}
	err := r.objects.read(data, &r.last)
	return r.last, err
}

// The members of an envelope.
const (
	memberType member = iota + 1
	memberSequence
	memberIndex
	memberDelta
	memberItem
	memberResponse
	memberError
)

func (e *envelope) member(name []byte) member {
	switch string(name) {
	case `"type"`:
		return memberType
	case `"sequence_number"`:
		return memberSequence
	case `"output_index"`:
		return memberIndex
	case `"delta"`:
		return memberDelta
	case `"item"`:
		return memberItem
	case `"response"`:
		return memberResponse
	case `"error"`:
		return memberError
	}
	return 0
}

func (e *envelope) set(m member, raw []byte) error {
	switch m {
	case memberType:
		return e.setType(raw)
	case memberSequence:
		e.Sequence = integerOf(raw)
	case memberIndex:
		e.Index = integerOf(raw)
	case memberDelta:
		e.Delta = raw
	case memberItem:
		e.Item = raw
	case memberResponse:
		e.Response = raw
	case memberError:
		e.Error = raw
	}
	return nil
}

func (e *envelope) setType(raw []byte) error {
	if plain, ok := plainString(raw); ok {
		e.Type = plain
		return nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	e.Type = []byte(s)
	return nil
}

// plainString returns what stands between the quotes of a string without escapes.
func plainString(raw []byte) ([]byte, bool) {
	if len(raw) < 2 || raw[0] != '"' || bytes.IndexByte(raw, '\\') >= 0 {
		return nil, false
	}
	return raw[1 : len(raw)-1], true
}

// stringOf reads a JSON string.
func stringOf(raw []byte) (string, error) {
	if plain, ok := plainString(raw); ok {
		return string(plain), nil
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err
}

// integer is a whole number that is not negative, or zero when something else stands
// in its place: a wrong counter is no reason to lose an answer.
type integer int64

// UnmarshalJSON reads a number and forgives everything else.
func (i *integer) UnmarshalJSON(b []byte) error {
	if n := integerOf(b); n > 0 {
		*i = n
	}
	return nil
}

func integerOf(b []byte) integer {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return integer(n)
}

package llm

import (
	"bytes"
	"encoding/json"
	"errors"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// objectReader walks JSON objects, one after the other, and hands their members out raw.
// It checks all that it passes, once.
type objectReader struct {
	buf bytes.Buffer
	dec *jsontext.Decoder
}

// lenient takes what encoding/json takes.
var lenient = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// members takes in the members of an object.
type members interface {
	// member returns what it calls the member of a name, as it stands in the JSON, or 0
	// when it does not want it.
	member(name []byte) member
	// set takes in a member that it wants. The value lies within the data that is read.
	set(m member, value []byte) error
}

type member int

var errNoObject = errors.New("a JSON object is expected")

// read reads the object in data; null is one without members.
func (r *objectReader) read(data []byte, into members) error {
	r.reset(data)
	switch r.dec.PeekKind() {
	case '{', 'n':
	default:
		if _, err := r.dec.ReadValue(); err != nil {
			return err
		}
		return errNoObject
	}
	open, err := r.dec.ReadToken()
	if err != nil {
		return err
	}
	for open.Kind() == '{' && r.dec.PeekKind() != '}' {
		name, err := r.dec.ReadValue()
		if err != nil {
			return err
		}
		// A name's bytes are good until the next read only, so it is told by number.
		m := into.member(name)
		value, err := r.value(data)
		if err != nil {
			return err
		}
		if m == 0 {
			continue
		}
		if err := into.set(m, value); err != nil {
			return err
		}
	}
	if open.Kind() == '{' {
		if _, err := r.dec.ReadToken(); err != nil {
			return err
		}
	}
	if len(bytes.TrimSpace(data[r.dec.InputOffset():])) > 0 {
		return errNoObject
	}
	return nil
}

// elements returns the elements of the array in data, which is JSON; of null there are
// none.
func (r *objectReader) elements(data []byte) ([]json.RawMessage, error) {
	r.reset(data)
	open, err := r.dec.ReadToken()
	if err != nil || open.Kind() == 'n' {
		return nil, err
	}
	if open.Kind() != '[' {
		return nil, errors.New("a JSON array is expected")
	}
	out := []json.RawMessage{}
	for r.dec.PeekKind() != ']' {
		value, err := r.value(data)
		if err != nil {
			return nil, err
		}
		out = append(out, bytes.Clone(value))
	}
	return out, nil
}

func (r *objectReader) reset(data []byte) {
	r.buf = *bytes.NewBuffer(data)
	if r.dec == nil {
		r.dec = jsontext.NewDecoder(&r.buf, lenient)
	} else {
		r.dec.Reset(&r.buf, lenient)
	}
}

// value reads the next value.
func (r *objectReader) value(data []byte) ([]byte, error) {
	raw, err := r.dec.ReadValue()
	if err != nil {
		return nil, err
	}
	// The decoder may move what it read; the data stays.
	end := r.dec.InputOffset()
	return data[end-int64(len(raw)) : end], nil
}

package store

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/aptixhq/aptix/internal/agent"
)

// A content that a turn brought, such as a file, is a blob under its hash. The model
// request that carries it holds it again, as part of its JSON, and so would the
// stored step. Cut takes it out there and notes where it was; Mend puts it back, byte
// for byte. The notes are kept beside the text and never in it, so no text can pass
// for one.

// MinCut is the size in bytes from which on a content is worth being cut out.
const MinCut = 4 << 10

// Form says how a content stood in the text that it was cut out of. The forms are
// part of what is stored: what one of them writes must never change.
type Form string

// The forms.
const (
	// FormJSON is the content as it stands inside a JSON string.
	FormJSON Form = "json"
	// FormJSONTwice is a JSON string inside a JSON string, the outer one with the
	// escapes for HTML that encoding/json adds.
	FormJSONTwice Form = "json2"
	// FormBase64 is the standard alphabet with padding.
	FormBase64 Form = "base64"
)

// Hole is a place where a content was cut out of a text.
type Hole struct {
	// At is its place in the whole text, Len its length there; both in bytes.
	At     int    `json:"at"`
	Len    int    `json:"len"`
	Form   Form   `json:"form"`
	SHA256 string `json:"sha256"`
}

// Holes are those of a stored step, by the part that they are in.
type Holes struct {
	Data  []Hole `json:"data,omitempty"`
	Items []Hole `json:"items,omitempty"`
}

// CutStep takes the contents out of the stored form of a step. It returns the rest,
// and the note for MendStep, which is nil when nothing was cut.
func CutStep(data, items []byte, contents []agent.Blob) (dataRest, itemsRest, note []byte, err error) {
	var h Holes
	// The canonical request is a string in the data, and JSON itself.
	data, h.Data = Cut(data, contents, FormJSONTwice)
	items, h.Items = Cut(items, contents, FormJSON, FormBase64)
	if len(h.Data)+len(h.Items) == 0 {
		return data, items, nil, nil
	}
	if note, err = json.Marshal(h); err != nil {
		return nil, nil, nil, fmt.Errorf("note what was cut out: %w", err)
	}
	return data, items, note, nil
}

// ReadHoles reads the note of CutStep.
func ReadHoles(note []byte) (h Holes, err error) {
	if len(note) == 0 {
		return h, nil
	}
	if err := json.Unmarshal(note, &h); err != nil {
		return Holes{}, fmt.Errorf("read what was cut out: %w", err)
	}
	return h, nil
}

// Cut takes every occurrence of the contents in one of the forms out of a text. It
// returns the rest, which is the text itself when nothing was found, and the holes in
// their order. Contents under MinCut stay.
func Cut(text []byte, contents []agent.Blob, forms ...Form) ([]byte, []Hole) {
	var holes []Hole
	// The largest first: a content that is part of another one then finds its place
	// taken, and less is left to be searched.
	contents = slices.SortedFunc(slices.Values(contents), func(a, b agent.Blob) int { return cmp.Compare(len(b.Data), len(a.Data)) })
	for _, c := range contents {
		if len(c.Data) < MinCut || len(c.Data) > len(text) {
			continue
		}
		for _, form := range forms {
			found := find(text, holes, c, form)
			if len(found) == 0 {
				continue
			}
			holes = append(holes, found...)
			slices.SortFunc(holes, func(a, b Hole) int { return cmp.Compare(a.At, b.At) })
			break // a content is either text or not
		}
	}
	if len(holes) == 0 {
		return text, nil
	}
	rest := make([]byte, 0, len(text))
	at := 0
	for _, h := range holes {
		rest = append(rest, text[at:h.At]...)
		at = h.At + h.Len
	}
	return append(rest, text[at:]...), holes
}

// find returns where a content stands between the holes that there are, in order.
func find(text []byte, holes []Hole, c agent.Blob, form Form) (found []Hole) {
	piece, err := form.write(c.Data)
	if err != nil {
		return nil
	}
	search := func(from, to int) {
		for {
			i := bytes.Index(text[from:to], piece)
			if i < 0 {
				return
			}
			found = append(found, Hole{At: from + i, Len: len(piece), Form: form, SHA256: c.SHA256})
			from += i + len(piece)
		}
	}
	at := 0
	for _, h := range holes {
		search(at, h.At)
		at = h.At + h.Len
	}
	search(at, len(text))
	return found
}

// Mend puts the contents back into the rest of a text. content finds one by its hash.
// Rows are input like any other: holes that do not fit are an error.
func Mend(rest []byte, holes []Hole, content func(sha256 string) ([]byte, error)) ([]byte, error) {
	if len(holes) == 0 {
		return rest, nil
	}
	var text []byte
	for _, h := range holes {
		keep := h.At - len(text)
		if keep < 0 || keep > len(rest) {
			return nil, errors.New("what was cut out has no place")
		}
		text, rest = append(text, rest[:keep]...), rest[keep:]
		data, err := content(h.SHA256)
		if err != nil {
			return nil, err
		}
		piece, err := h.Form.write(data)
		if err != nil {
			return nil, err
		}
		if len(piece) != h.Len {
			return nil, fmt.Errorf("content %s has %d bytes as %s, not %d", h.SHA256, len(piece), h.Form, h.Len)
		}
		text = append(text, piece...)
	}
	return append(text, rest...), nil
}

// write returns the content in this form.
func (f Form) write(data []byte) ([]byte, error) {
	switch {
	case f == FormBase64:
		return base64.StdEncoding.AppendEncode(nil, data), nil
	case f != FormJSON && f != FormJSONTwice:
		return nil, fmt.Errorf("unknown form of a content %q", f)
	case !utf8.Valid(data):
		return nil, errors.New("the content is not text")
	case f == FormJSONTwice:
		return escape(escape(data, false), true), nil
	}
	return escape(data, false), nil
}

// escape writes text as it stands inside a JSON string, in the way of encoding/json.
// It is written out here since a later version of that package may do it otherwise,
// and what is stored must still be put back as it was.
func escape(text []byte, html bool) []byte {
	const hex = "0123456789abcdef"
	out := make([]byte, 0, len(text)+len(text)/16)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c == '\n':
			out = append(out, '\\', 'n')
		case c == '\t':
			out = append(out, '\\', 't')
		case c == '\r':
			out = append(out, '\\', 'r')
		case c == '\b':
			out = append(out, '\\', 'b')
		case c == '\f':
			out = append(out, '\\', 'f')
		case c < ' ', html && (c == '<' || c == '>' || c == '&'):
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		case c == 0xe2 && i+2 < len(text) && text[i+1] == 0x80 && text[i+2]&^1 == 0xa8:
			// U+2028 and U+2029, which end a line in JavaScript.
			out = append(out, '\\', 'u', '2', '0', '2', hex[text[i+2]&0xf])
			i += 2
		default:
			out = append(out, c)
		}
	}
	return out
}

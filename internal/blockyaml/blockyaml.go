// Package blockyaml writes YAML for people: members in the order of the Go type, each
// text of several lines as a block that reads as it is, whatever it holds. Prompts are
// such texts. The YAML library writes a text as one long quoted line as soon as there is
// an emoji or a space at the end of a line in it, and nobody can review that.
package blockyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// Marshal returns v as YAML, as its JSON has it. Reading it back gives the same JSON.
func Marshal(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return FromJSON(b)
}

// FromJSON returns one JSON value as YAML, members in their order.
func FromJSON(data []byte) ([]byte, error) {
	w := &writer{in: json.NewDecoder(bytes.NewReader(data))}
	w.in.UseNumber()
	if err := w.value(0, top); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	if _, err := w.in.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("write YAML: there is more than one JSON value")
	}
	return w.out.Bytes(), nil
}

type writer struct {
	in  *json.Decoder
	out bytes.Buffer
}

// place is where a value stands, which says how what precedes it is parted from it.
type place int

const (
	top       place = iota
	afterKey        // behind "key:"
	afterDash       // behind "-"
)

// step is how much deeper the content of a value is indented.
const step = 2

// value writes the next value. depth is the indentation of the line that it stands on.
func (w *writer) value(depth int, at place) error {
	t, err := w.in.Token()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return w.mapping(depth, at)
		}
		return w.sequence(depth, at)
	case string:
		w.space(at)
		w.text(depth, t)
	case nil:
		w.space(at)
		w.out.WriteString("null\n")
	default: // a number or a truth value
		w.space(at)
		fmt.Fprintln(&w.out, t)
	}
	return nil
}

func (w *writer) space(at place) {
	if at != top {
		w.out.WriteByte(' ')
	}
}

func (w *writer) indent(n int) {
	for range n {
		w.out.WriteByte(' ')
	}
}

func (w *writer) mapping(depth int, at place) error {
	if !w.in.More() {
		return w.empty(at, "{}")
	}
	inner := depth
	switch at {
	case afterKey:
		w.out.WriteByte('\n')
		inner += step
	case afterDash:
		w.out.WriteByte(' ') // the first member stands on the line of the dash
		inner += step
	}
	for first := true; w.in.More(); first = false {
		key, err := w.in.Token()
		if err != nil {
			return err
		}
		if at != afterDash || !first {
			w.indent(inner)
		}
		w.out.WriteString(scalar(fmt.Sprint(key)))
		w.out.WriteByte(':')
		if err := w.value(inner, afterKey); err != nil {
			return err
		}
	}
	_, err := w.in.Token()
	return err
}

func (w *writer) sequence(depth int, at place) error {
	if !w.in.More() {
		return w.empty(at, "[]")
	}
	inner := depth
	if at != top {
		w.out.WriteByte('\n')
		inner += step
	}
	for w.in.More() {
		w.indent(inner)
		w.out.WriteByte('-')
		if err := w.value(inner, afterDash); err != nil {
			return err
		}
	}
	_, err := w.in.Token()
	return err
}

// empty writes a mapping or sequence without content, and passes over its end.
func (w *writer) empty(at place, form string) error {
	w.space(at)
	w.out.WriteString(form + "\n")
	_, err := w.in.Token()
	return err
}

// text writes a text: as a block where it has several lines and a block can hold it.
func (w *writer) text(depth int, s string) {
	if !strings.Contains(s, "\n") || !blockable(s) {
		w.out.WriteString(scalar(s) + "\n")
		return
	}
	w.out.WriteByte('|')
	body := strings.TrimRight(s, "\n")
	if strings.IndexAny(body, " \t\n") == 0 {
		// Else the reader would take the first line for the measure.
		fmt.Fprint(&w.out, step)
	}
	switch len(s) - len(body) {
	case 0:
		w.out.WriteByte('-')
	case 1:
	default:
		w.out.WriteByte('+')
	}
	w.out.WriteByte('\n')
	for line := range strings.SplitSeq(strings.TrimSuffix(s, "\n"), "\n") {
		if line != "" {
			w.indent(depth + step)
		}
		w.out.WriteString(line + "\n")
	}
}

// blockable reports whether a block can hold a text: whether every character in it stands
// for itself there, and something stands there at all.
func blockable(s string) bool {
	return strings.TrimSpace(s) != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return special(r) && r != '\n' && r != '\t'
	})
}

// special reports whether a character must be escaped: readers drop it, break the line at
// it or refuse it.
func special(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == '\ufeff' || r == '\ufffe' || r == '\uffff'
}

// scalar returns a text on one line: as it is where it can only be read as this text, else
// in quotes.
func scalar(s string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case special(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// plain asks the library, as a reader, what it makes of the text without quotes, as a
// value and as a key.
func plain(s string) bool {
	old := []string{"y", "n", "yes", "no", "on", "off"} // truth values to readers of YAML 1.1
	if s == "" || strings.ContainsFunc(s, special) || slices.Contains(old, strings.ToLower(s)) {
		return false
	}
	var doc yaml.Node
	if yaml.Unmarshal([]byte("- "+s+": "+s+"\n"), &doc) != nil {
		return false
	}
	read := doc.Content[0].Content[0]
	return read.Kind == yaml.MappingNode && len(read.Content) == 2 && itself(read.Content[0], s) && itself(read.Content[1], s)
}

// itself reports whether a reader took the text as it is.
func itself(n *yaml.Node, s string) bool {
	return n.Kind == yaml.ScalarNode && n.Value == s && n.ShortTag() == "!!str" && n.Style == 0
}

package mock

import (
	"bytes"
	"strconv"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/render"
)

// What is rendered where an answer differs from the next; render escapes none of it.
const (
	idHole    = "@id@"
	beganHole = "@when@" // a token
	nameHole  = "@name@"
	inputHole = 7_770_000_001
	totalHole = 7_770_000_002
)

// values is what fills the holes of a template.
type values struct {
	id, name     string
	began        string // the first token
	input, total int64  // tokens
}

// template is bytes with holes.
type template []piece

// piece is a run of bytes and the hole that follows it.
type piece struct {
	text []byte
	hole string // "" at the end
}

// cut makes a template of rendered bytes.
func cut(rendered []byte) template {
	holes := []string{idHole, beganHole, nameHole, strconv.Itoa(inputHole), strconv.Itoa(totalHole)}
	var out template
	for {
		at, found := len(rendered), ""
		for _, h := range holes {
			if i := bytes.Index(rendered, []byte(h)); i >= 0 && i < at {
				at, found = i, h
			}
		}
		out = append(out, piece{rendered[:at], found})
		if found == "" {
			return out
		}
		rendered = rendered[at+len(found):]
	}
}

// fill appends the template with its holes filled.
func (t template) fill(b []byte, v values) []byte {
	for _, p := range t {
		b = append(b, p.text...)
		switch p.hole {
		case idHole:
			b = append(b, v.id...)
		case beganHole:
			b = append(b, v.began...)
		case nameHole:
			b = append(b, v.name...)
		case strconv.Itoa(inputHole):
			b = strconv.AppendInt(b, v.input, 10)
		case strconv.Itoa(totalHole):
			b = strconv.AppendInt(b, v.total, 10)
		}
	}
	return b
}

// answer is one answer in both its forms.
type answer struct {
	output int64 // tokens
	whole  template
	frames []frame
}

// frame is one event of the stream.
type frame struct {
	template
	token bool // a piece of the text, which comes at its time
}

// newAnswer renders an answer whose output has so many tokens.
func newAnswer(item render.Item, output int64) (*answer, error) {
	r := render.Response{
		ID: "resp_" + idHole, CreatedAt: 1_700_000_000, Output: []render.Item{item}, Echo: render.Echo{Model: "mock"},
		Usage: agent.Usage{InputTokens: inputHole, OutputTokens: output, TotalTokens: totalHole},
	}
	whole, err := r.JSON()
	if err != nil {
		return nil, err
	}
	events, err := r.Events()
	if err != nil {
		return nil, err
	}
	a := &answer{output: output, whole: cut(whole)}
	for _, e := range events {
		a.frames = append(a.frames, frame{cut(e.SSE()), e.Type == render.EventTextDelta})
	}
	return a, nil
}

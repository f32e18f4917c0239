package interchange

import (
	"fmt"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/mode"
)

// NoteKind says what became of a part of a mode.
type NoteKind string

// The kinds of a note.
const (
	Merged  NoteKind = "merged"   // what was there twice is there once
	Changed NoteKind = "changed"  // it is not as it was written
	LeftOut NoteKind = "left out" // there is no place for it here
	Refused NoteKind = "refused"  // it is not safe, or not possible, to take
)

// Note is one thing that somebody who exchanges modes must know.
type Note struct {
	Kind NoteKind `json:"kind"`
	Text string   `json:"text"`
}

// notes collects them.
type notes []Note

func (n *notes) add(kind NoteKind, format string, args ...any) {
	*n = append(*n, Note{kind, fmt.Sprintf(format, args...)})
}

// Imported is what became of one mode of another agent, or of a file that holds none.
type Imported struct {
	// Source is the file that it came from, Slug what it is called there.
	Source string `json:"source"`
	Slug   string `json:"slug,omitempty"`
	// Key is set when the mode is taken.
	Key agent.ModeKey `json:"key,omitempty"`
	// Why is the reason for which it is refused; empty when it is taken.
	Why   string    `json:"why,omitempty"`
	Notes []Note    `json:"notes,omitempty"`
	Mode  mode.Mode `json:"-"`
	// File is the mode as a mode file.
	File []byte `json:"-"`
}

// Taken reports whether there is a mode.
func (i Imported) Taken() bool { return i.Why == "" }

// Name is the name of its mode file.
func (i Imported) Name() string { return string(i.Key) + ".yaml" }

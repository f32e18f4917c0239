// Package terminal makes text from a model or a tool safe to print. Such text may
// hold escape sequences that move the cursor, rename the window, write to the
// clipboard or reorder what a reader sees; none of them may reach a person who is
// about to answer y or N. It stands at the very end of a turn, between the stream
// and the screen, and keeps no history: text goes in and comes out in order.
package terminal

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Strip returns s without escape sequences and control characters.
func Strip(s string) string {
	var st Stripper
	return st.Strip(s)
}

// Stripper removes escape sequences from text that comes in pieces: a sequence may
// begin in one piece and end in another. The zero value is ready.
type Stripper struct {
	state   state
	partial []byte // the beginning of a character whose end is in the next piece
}

// state is where the stripper stands within an escape sequence (ECMA-48).
type state int

const (
	plain  state = iota
	escape       // after ESC
	inter        // ESC and intermediate bytes; one final byte ends it
	csi          // ESC [ … one final byte in @ to ~ ends it
	str          // ESC ] P X ^ _ … until BEL or ST
	strEsc       // ESC inside str: a backslash completes ST
)

// Strip returns what may be printed of the next piece: printable text, newlines and
// tabs.
func (st *Stripper) Strip(piece string) string {
	if len(st.partial) > 0 {
		piece = string(st.partial) + piece
		st.partial = st.partial[:0]
	}
	var out strings.Builder
	out.Grow(len(piece))
	for i := 0; i < len(piece); {
		r, size := utf8.DecodeRuneInString(piece[i:])
		if r == utf8.RuneError && size == 1 {
			if !utf8.FullRuneInString(piece[i:]) {
				st.partial = append(st.partial, piece[i:]...)
				break
			}
			r = 0 // never a valid character, and 0 is dropped below
		}
		i += size
		if st.next(r) {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// next advances the state by one character and reports whether it may be printed.
func (st *Stripper) next(r rune) bool {
	switch {
	case r == 0x18 || r == 0x1a: // CAN and SUB abort any sequence
		st.state = plain
		return false
	case r == 0x1b && st.state != str:
		st.state = escape
		return false
	}
	switch st.state {
	case escape:
		switch {
		case r == '[':
			st.state = csi
		case strings.ContainsRune("]PX^_", r):
			st.state = str
		case r >= 0x20 && r <= 0x2f:
			st.state = inter
		default:
			st.state = plain
		}
		return false
	case inter:
		if r < 0x20 || r > 0x2f {
			st.state = plain
		}
		return false
	case csi:
		// Parameters and intermediates are 0x20 to 0x3f; what is neither those nor
		// a final byte means a broken sequence, which must not swallow the rest.
		switch {
		case r >= 0x40 && r <= 0x7e:
			st.state = plain
			return false
		case r >= 0x20 && r <= 0x3f:
			return false
		}
		st.state = plain
	case str:
		switch r {
		case 0x1b:
			st.state = strEsc
		case 0x07, 0x9c:
			st.state = plain
		case '\n':
			// A string sequence that was never closed must not hide the rest.
			st.state = plain
			return true
		}
		return false
	case strEsc:
		if r != '\\' {
			st.state = escape // it was the start of another sequence
			return st.next(r)
		}
		st.state = plain
		return false
	}
	switch r {
	case 0x9b:
		st.state = csi
		return false
	case 0x90, 0x98, 0x9d, 0x9e, 0x9f:
		st.state = str
		return false
	}
	return printable(r)
}

// Visible returns s with every character that a terminal would act on, or that a
// reader could not see, written out as an escape. It is for text that a person must
// judge before it takes effect, such as a command: hiding a character there would
// hide what is going to happen.
func Visible(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, s[i])
		case printable(r):
			out.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&out, `\x%02x`, r)
		default:
			fmt.Fprintf(&out, `\u{%x}`, r)
		}
		i += size
	}
	return out.String()
}

// printable reports whether r shows as itself: no control character, no bidirectional
// override, nothing of zero width that could hide or reorder its neighbours.
func printable(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return true
	case r < 0x20, r >= 0x7f && r <= 0x9f:
		return false
	case r == 0x061c, r == 0x200b, r == 0x200e, r == 0x200f, r == 0x2028, r == 0x2029, r == 0x2060, r == 0xfeff,
		r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069,
		r >= 0xfff9 && r <= 0xfffb, r >= 0xe0000 && r <= 0xe007f:
		return false
	}
	return true
}

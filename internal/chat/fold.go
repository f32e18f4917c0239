package chat

import (
	"strings"

	"github.com/rivo/uniseg"
)

// fold ends lines between words where a terminal would end them anywhere. Text comes in
// pieces, so a word is held back until it is whole. Words that are longer than a line, and
// blanks within a line, stay as they are. Without a width nothing is folded.
type fold struct {
	width  func() int // of the terminal in cells; nil where there is none
	indent int        // of the lines that are added
	column int        // where the next cell goes
	word   strings.Builder
}

// text returns what can be shown of a piece.
func (f *fold) text(piece string) string {
	if f.width == nil {
		return piece
	}
	var out strings.Builder
	for _, r := range piece {
		switch r {
		case '\n':
			out.WriteString(f.whole() + "\n")
			f.column = 0
		case ' ':
			out.WriteString(f.whole())
			if f.column < f.width() {
				out.WriteByte(' ')
				f.column++
			}
		case '\t':
			out.WriteString(f.whole() + "\t")
			f.column = f.column/8*8 + 8
		default:
			f.word.WriteRune(r)
		}
	}
	return out.String()
}

// end returns what was held back. The next text begins a line.
func (f *fold) end() string {
	rest := f.whole()
	f.column = 0
	return rest
}

// whole returns the word that is held back, on a line of its own where it has no room.
func (f *fold) whole() string {
	word := f.word.String()
	if word == "" {
		return ""
	}
	f.word.Reset()
	n, width := uniseg.StringWidth(word), f.width()
	if width <= 0 {
		return word
	}
	if f.column+n > width && f.column > f.indent && f.indent+n <= width {
		word, f.column = "\n"+strings.Repeat(" ", f.indent)+word, f.indent
	}
	f.column = (f.column + n) % (width + 1)
	return word
}

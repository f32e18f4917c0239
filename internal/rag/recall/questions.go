package recall

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/aptixhq/aptix/internal/rag"
)

// Question is a question with the places that answer it.
type Question struct {
	Text   string
	Places []Place
}

// Place is where an answer stands: the lines of a file that have a text. Line numbers
// would be wrong after the next change of the file.
type Place struct{ Path, Has string }

// Read reads questions: one per line, and below each, indented, its places as
// "path: text"; # begins a comment.
func Read(r io.Reader) ([]Question, error) {
	var out []Question
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
		case !strings.HasPrefix(line, " "):
			out = append(out, Question{Text: line})
		default:
			path, has, ok := strings.Cut(strings.TrimLeft(line, " "), ": ")
			if !ok || len(out) == 0 {
				return nil, fmt.Errorf("line %d: want a question, and below it places as path: text", n)
			}
			q := &out[len(out)-1]
			q.Places = append(q.Places, Place{Path: path, Has: has})
		}
	}
	return out, lines.Err()
}

// AnsweredBy reports whether a chunk has lines that answer the question.
func (q Question) AnsweredBy(c rag.Chunk) bool {
	for _, p := range q.Places {
		if c.Path == p.Path && strings.Contains(c.Text, p.Has) {
			return true
		}
	}
	return false
}

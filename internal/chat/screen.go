package chat

import (
	"fmt"
	"io"
	"strings"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/terminal"
)

// screen prints. It knows whether a line is begun, and strips what a terminal would act
// on from everything that passes through it, so that no caller has to think of it.
type screen struct {
	w      io.Writer
	colour bool
	begun  bool // the cursor stands behind something
	answer terminal.Stripper
	fold   fold // of the answer
}

func newScreen(w io.Writer, colour bool) *screen { return &screen{w: w, colour: colour} }

// write prints text that is safe already. A terminal that cannot be written to ends the
// conversation by other means, so the error is of no use here.
func (s *screen) write(text string) {
	if text == "" {
		return
	}
	_, _ = io.WriteString(s.w, text)
	s.begun = !strings.HasSuffix(text, "\n")
}

// newline ends the line that is begun, if there is one.
func (s *screen) newline() {
	s.write(s.fold.end())
	if s.begun {
		s.write("\n")
	}
}

// prompt begins a line that the user finishes.
func (s *screen) prompt(text string) {
	s.newline()
	s.write(s.styled(bold, terminal.Strip(text)))
	s.begun = true
}

// entered tells that the terminal itself has shown the user's line.
func (s *screen) entered() { s.begun = false }

// echo shows a line that was not typed at a terminal.
func (s *screen) echo(line string) { s.write(terminal.Strip(line) + "\n") }

// text shows a piece of the answer.
func (s *screen) text(piece string) { s.write(s.fold.text(s.answer.Strip(piece))) }

// endText ends the answer; what an unfinished escape sequence held back is dropped.
func (s *screen) endText() {
	s.answer = terminal.Stripper{}
	s.newline()
}

// line prints a line of ours.
func (s *screen) line(format string, args ...any) { s.entry(0, format, args...) }

// entry prints a line of a list. Where it is too long for one it goes on below, from a column
// on.
func (s *screen) entry(column int, format string, args ...any) {
	s.newline()
	s.write(s.folded(column, terminal.Strip(fmt.Sprintf(format, args...))) + "\n")
}

func (s *screen) folded(column int, text string) string {
	f := fold{width: s.fold.width, indent: column}
	return f.text(text) + f.end()
}

// note prints a line beside the conversation.
func (s *screen) note(format string, args ...any) {
	s.newline()
	s.write(s.styled(dim, s.folded(2, terminal.Strip(fmt.Sprintf(format, args...)))) + "\n")
}

// command prints a note with a command in it, in one line, so that it can be copied.
func (s *screen) command(format string, args ...any) {
	s.newline()
	s.write(s.styled(dim, terminal.Strip(fmt.Sprintf(format, args...))) + "\n")
}

// quote prints text that the user must judge: every character shows, and a margin sets
// it apart from what we say ourselves.
func (s *screen) quote(text string) {
	s.newline()
	for l := range strings.SplitSeq(strings.TrimRight(terminal.Visible(text), "\n"), "\n") {
		s.write("  │ " + l + "\n")
	}
}

// fail prints an error.
func (s *screen) fail(err error) { s.line("%s", sentence(err)) }

func sentence(err error) string { return "Error: " + err.Error() }

// problem prints why a turn failed.
func (s *screen) problem(p *client.Problem) {
	if p == nil {
		p = &client.Problem{Detail: "the turn failed without saying why"}
	}
	s.fail(p)
}

// The styles, as ECMA-48 parameters.
const (
	bold = "1"
	dim  = "2"

	red   = "31"
	green = "32"
	cyan  = "36"
)

func (s *screen) styled(style, text string) string {
	if !s.colour || style == "" || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

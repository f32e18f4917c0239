package chat

import (
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/aptixhq/aptix/internal/localtools"
	"github.com/aptixhq/aptix/internal/terminal"
)

// maxChange bounds how many lines of a change are shown.
const maxChange = 200

// change shows what a call would do to a file, as a difference. Every character of it
// shows, as in quote.
func (s *screen) change(c localtools.Change) {
	old := ""
	if c.Old != nil {
		old = *c.Old
	}
	// The first lines name the versions; the path stands above them already.
	_, text, _ := strings.Cut(string(diff.Diff("a", []byte(old), "b", []byte(c.New))), "+++ b\n")
	s.newline()
	if text == "" {
		why := "nothing would change"
		if c.Old == nil {
			why = "the file would be empty"
		}
		s.write("  │ " + s.styled(dim, why) + "\n")
		return
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, l := range lines {
		if i == maxChange {
			s.write("  │ " + s.styled(dim, fmt.Sprintf("… and %d lines more", len(lines)-i)) + "\n")
			break
		}
		s.write("  │ " + s.styled(changeStyle(l), terminal.Visible(l)) + "\n")
	}
}

func changeStyle(line string) string {
	switch {
	case strings.HasPrefix(line, "+"):
		return green
	case strings.HasPrefix(line, "-"):
		return red
	case strings.HasPrefix(line, "@@"):
		return cyan
	}
	return ""
}

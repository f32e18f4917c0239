package mode

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says whether a problem stops the start.
type Severity string

// The severities of a problem.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Problem is one fault in the mode files.
type Problem struct {
	// File is empty when the fault lies in the catalogue as a whole.
	File string `json:"file,omitempty"`
	// Line is 0 when the fault has no line of its own.
	Line     int      `json:"line,omitempty"`
	Severity Severity `json:"severity"`
	// Message says what is wrong and what to do about it.
	Message string `json:"message"`
}

// String renders the problem as compilers do, so that editors find the place.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
		}
		b.WriteString(": ")
	}
	if p.Severity == SeverityWarning {
		b.WriteString("warning: ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Problems are all faults of a catalogue, in the order of files and lines.
type Problems []Problem

// Error lists every problem, one a line.
func (ps Problems) Error() string {
	lines := make([]string, 0, len(ps)+1)
	lines = append(lines, "the mode files have problems:")
	for _, p := range ps {
		lines = append(lines, "  "+p.String())
	}
	return strings.Join(lines, "\n")
}

// Fatal reports whether one of the problems is an error.
func (ps Problems) Fatal() bool {
	return slices.ContainsFunc(ps, func(p Problem) bool { return p.Severity == SeverityError })
}

func (ps *Problems) errorf(file string, line int, format string, args ...any) {
	*ps = append(*ps, Problem{File: file, Line: line, Severity: SeverityError, Message: fmt.Sprintf(format, args...)})
}

func (ps *Problems) warnf(file string, line int, format string, args ...any) {
	*ps = append(*ps, Problem{File: file, Line: line, Severity: SeverityWarning, Message: fmt.Sprintf(format, args...)})
}

// sort puts the problems of the catalogue as a whole last: they often follow from
// one that is named before.
func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		if whole := cmp.Compare(btoi(a.File == ""), btoi(b.File == "")); whole != 0 {
			return whole
		}
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

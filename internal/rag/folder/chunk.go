package folder

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aptixhq/aptix/internal/rag"
)

// The size of a passage. It ends where something ends if that is possible between
// leastLines and mostLines; else the next one overlaps it.
const (
	leastLines = 8
	mostLines  = 50
	mostBytes  = 3000
	// Two passages overlap by so many lines, and by no more than a part of the first.
	overlapLines = 6
	overlapShare = 5
	// mostLineBytes is how much of one line is kept; what is longer was not written by a
	// person.
	mostLineBytes = 1600
)

// Cut cuts a text into passages by its lines. A passage ends before the start of
// something, such as a heading or a function, where there is one within reach, and at
// a blank line else. Only where neither is found do two of them overlap.
func Cut(text string) []rag.Passage {
	lines := linesOf(text)
	var out []rag.Passage
	for first := 0; first < len(lines); {
		end, whole := cutFrom(lines, first)
		if body := strings.Join(lines[first:end], ""); strings.TrimSpace(body) != "" {
			out = append(out, rag.Passage{First: first + 1, Last: end, Text: body})
		}
		if end == len(lines) {
			break
		}
		next := end
		if !whole {
			next = overlapped(lines, end, (end-first)/overlapShare)
		}
		first = next
	}
	return out
}

// overlapped returns where the passage after one that ends at end begins, no more than so
// many lines before. It begins at end if else it would say nothing new, as among lines so
// long that few fit into a passage.
func overlapped(lines []string, end, most int) int {
	next := end - min(overlapLines, most)
	if reach, _ := cutFrom(lines, next); reach <= end {
		return end
	}
	return next
}

// linesOf returns the lines with their ends, each no longer than mostLineBytes.
func linesOf(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if len(line) > mostLineBytes {
			n := mostLineBytes
			for !utf8.RuneStart(line[n]) {
				n--
			}
			line = line[:n] + "…\n"
		}
		out = append(out, line)
	}
	return out
}

// cutFrom returns where the passage that begins at first ends, and whether nothing is
// torn there.
func cutFrom(lines []string, first int) (end int, whole bool) {
	size, fits := 0, first
	for fits < len(lines) && fits-first < mostLines && (fits == first || size+len(lines[fits]) <= mostBytes) {
		size += len(lines[fits])
		fits++
	}
	if fits == len(lines) {
		return fits, true
	}
	blank := 0
	for end := fits; end >= first+leastLines; end-- {
		switch {
		case begins(lines[end-1], lines[end]):
			return end, true
		case blank == 0 && isBlank(lines[end-1]):
			blank = end
		}
	}
	if blank > 0 {
		return blank, true
	}
	return fits, false
}

// begins reports whether something begins at a line: a Markdown heading, or what stands
// at the left edge after a blank line and is no closing bracket.
func begins(before, line string) bool {
	if strings.HasPrefix(line, "#") && strings.HasPrefix(strings.TrimLeft(line, "#"), " ") {
		return true
	}
	r, _ := utf8.DecodeRuneInString(line)
	return isBlank(before) && !isBlank(line) && !unicode.IsSpace(r) && !strings.ContainsRune(")]}", r)
}

func isBlank(line string) bool { return strings.TrimSpace(line) == "" }

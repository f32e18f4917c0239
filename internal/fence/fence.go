// Package fence writes foreign text into a prompt so that it stays what it is: a
// value cannot begin a line of its own and pass for a header, and a body cannot
// close its own fence. The blocks of a model request are written with it, before the
// model is asked; what stands between the fences is data, whatever it says.
package fence

import (
	"regexp"
	"strings"
	"unicode"
)

// Field writes a line "name: value", nothing when there is no value. Line breaks and
// other control characters of the value become blanks.
func Field(b *strings.Builder, name, value string) {
	value = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, value))
	if value != "" {
		b.WriteString(name + ": " + value + "\n")
	}
}

var languageTag = regexp.MustCompile(`^[A-Za-z0-9+#_.-]+$`)

const maxLanguageTag = 32

// Text writes text between two fences that are longer than any run of backticks in
// it. The language is named on the first fence when it is a plain word.
func Text(b *strings.Builder, language, text string) {
	fence := strings.Repeat("`", max(3, longestRun(text)+1))
	b.WriteString(fence)
	if len(language) <= maxLanguageTag && languageTag.MatchString(language) {
		b.WriteString(language)
	}
	b.WriteByte('\n')
	b.WriteString(text)
	if text != "" && !strings.HasSuffix(text, "\n") {
		b.WriteByte('\n')
	}
	b.WriteString(fence + "\n")
}

// longestRun counts the backticks of the longest run of them.
func longestRun(s string) int {
	longest, run := 0, 0
	for i := range len(s) {
		if s[i] != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}

package folder_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/aptixhq/aptix/internal/rag"
	"github.com/aptixhq/aptix/internal/rag/folder"
)

// places renders the lines of passages.
func places(passages []rag.Passage) string {
	var out []string
	for _, p := range passages {
		out = append(out, fmt.Sprintf("%d-%d", p.First, p.Last))
	}
	return strings.Join(out, " ")
}

// numbered writes n lines, each of them by line.
func numbered(n int, line func(i int) string) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		b.WriteString(line(i) + "\n")
	}
	return b.String()
}

func TestCut(t *testing.T) {
	functions := func(i int) string {
		switch i % 20 {
		case 1:
			return fmt.Sprintf("func f%d() {", i)
		case 19:
			return "}"
		case 0:
			return ""
		}
		return "\twork()"
	}
	sections := func(i int) string {
		if i%15 == 1 {
			return "## Section"
		}
		return "text"
	}
	paragraphs := func(i int) string {
		if i%12 == 0 {
			return ""
		}
		return "  indented text"
	}
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":                        {"", ""},
		"blank":                          {"\n\n  \n", ""},
		"short":                          {"one\ntwo", "1-2"},
		"at functions":                   {numbered(100, functions), "1-40 41-80 81-100"},
		"at headings":                    {numbered(100, sections), "1-45 46-90 91-100"},
		"at blank lines":                 {numbered(100, paragraphs), "1-48 49-96 97-100"},
		"nowhere, so they overlap":       {numbered(120, func(int) string { return "word" }), "1-50 45-94 89-120"},
		"long lines make short passages": {numbered(9, func(int) string { return strings.Repeat("x", 1000) }), "1-2 3-4 5-6 7-8 9-9"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(places(folder.Cut(tc.text)), tc.want); diff != "" {
				t.Errorf("-got +want\n%s", diff)
			}
		})
	}
}

// Whatever the text: no line is lost, every passage is what stands on its lines, and none
// is larger than it may be.
func TestCut_LosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.SampledFrom([]string{"", "}", "\tx", "func f() {", "# Title", "word", strings.Repeat("long ", 100), strings.Repeat("é", 3000)})).Draw(t, "lines")
		text := strings.Join(lines, "\n")
		covered := map[int]bool{}
		last := 0
		for _, p := range folder.Cut(text) {
			if p.First > p.Last || p.Last <= last || !utf8.ValidString(p.Text) || len(p.Text) > 3000+2000 {
				t.Fatalf("passage %d-%d after %d, %d bytes", p.First, p.Last, last, len(p.Text))
			}
			last = p.Last
			for n := p.First; n <= p.Last; n++ {
				covered[n] = true
				if want := lines[n-1]; len(want) < 1500 && !strings.Contains(p.Text, want) {
					t.Fatalf("passage %d-%d does not have its line %d", p.First, p.Last, n)
				}
			}
		}
		for i, line := range lines {
			if strings.TrimSpace(line) != "" && !covered[i+1] {
				t.Fatalf("line %d is in no passage", i+1)
			}
		}
	})
}

func TestLanguage(t *testing.T) {
	for name, want := range map[string]string{"a/b.go": "go", "README.md": "markdown", "x.YAML": "yaml", "Dockerfile": "dockerfile", "LICENSE": "", "a.go.unknown": ""} {
		if got := folder.Language(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

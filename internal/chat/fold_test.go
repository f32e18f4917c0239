package chat

import (
	"strings"
	"testing"
)

func TestFold(t *testing.T) {
	for name, tt := range map[string]struct {
		indent     int
		text, want string
	}{
		"fits":              {0, "one two", "one two"},
		"between words":     {0, "one two three four", "one two \nthree four"},
		"the width itself":  {0, "0123456789 x", "0123456789\nx"},
		"own lines":         {0, "one\n\ntwo three four", "one\n\ntwo three \nfour"},
		"longer than lines": {0, "a 0123456789abc b", "a 0123456789abc b"},
		"indented":          {2, "ab one two three", "ab one two\n  three"},
		"blanks":            {0, "a  b\tc", "a  b\tc"},
		"wide characters":   {0, "日本 日本語", "日本 \n日本語"},
		"combined":          {0, "e\u0301e\u0301e\u0301e\u0301e\u0301 e\u0301e\u0301e\u0301e\u0301", "e\u0301e\u0301e\u0301e\u0301e\u0301 e\u0301e\u0301e\u0301e\u0301"},
	} {
		// However it comes, it looks the same.
		for size := 1; size <= len(tt.text); size++ {
			f := fold{width: func() int { return 10 }, indent: tt.indent}
			var got strings.Builder
			runes := []rune(tt.text)
			for ; len(runes) > 0; runes = runes[min(size, len(runes)):] {
				got.WriteString(f.text(string(runes[:min(size, len(runes))])))
			}
			got.WriteString(f.end())
			if got.String() != tt.want {
				t.Errorf("%s, in pieces of %d: got %q, want %q", name, size, got.String(), tt.want)
			}
		}
		f := fold{}
		if got := f.text(tt.text) + f.end(); got != tt.text {
			t.Errorf("%s without a terminal: got %q", name, got)
		}
	}
}

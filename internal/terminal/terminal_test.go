package terminal_test

import (
	"fmt"
	"testing"

	"github.com/aptixhq/aptix/internal/terminal"
)

func ExampleStrip() {
	fmt.Println(terminal.Strip("\x1b]0;owned\x07\x1b[31mred\x1b[0m and plain"))
	// Output: red and plain
}

// TestStrip holds row S-28 of docs/security.md.
func TestStrip(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"plain":                {"héllo wörld 日本\n\tx", "héllo wörld 日本\n\tx"},
		"colour":               {"a\x1b[1;31mb\x1b[0mc", "abc"},
		"cursor":               {"a\x1b[2J\x1b[Hb", "ab"},
		"private csi":          {"\x1b[?1049hx", "x"},
		"title bel":            {"\x1b]0;title\x07x", "x"},
		"title st":             {"\x1b]0;title\x1b\\x", "x"},
		"clipboard osc52":      {"\x1b]52;c;ZXZpbA==\x07x", "x"},
		"link osc8":            {"\x1b]8;;http://evil\x1b\\text\x1b]8;;\x1b\\", "text"},
		"dcs":                  {"\x1bPq#0\x1b\\x", "x"},
		"apc":                  {"\x1b_secret\x1b\\x", "x"},
		"charset":              {"\x1b(0lqk\x1b(B", "lqk"},
		"reset":                {"\x1bcx", "x"},
		"c1 csi":               {"\u009b31mx", "x"},
		"c1 osc":               {"\u009d0;t\u009cx", "x"},
		"raw c1 byte":          {"a\x9b31mb", "a31mb"},
		"backspace":            {"rm -rf /\b\b\bls", "rm -rf /ls"},
		"carriage return":      {"safe\rEVIL\r\n", "safeEVIL\n"},
		"bell and nul":         {"a\x07\x00b\x7f", "ab"},
		"bidi":                 {"a\u202eb\u2066c\u200f", "abc"},
		"zero width":           {"a\u200bb\ufeffc", "abc"},
		"tags":                 {"a\U000e0041b", "ab"},
		"unterminated osc":     {"\x1b]0;hides\nrest", "\nrest"},
		"esc in osc":           {"\x1b]0;t\x1b[31mx", "x"},
		"aborted by CAN":       {"\x1b[31\x18mx", "mx"},
		"broken csi keeps on":  {"\x1b[31é", "é"},
		"invalid utf8":         {"a\xffb", "ab"},
		"replacement is text":  {"a\ufffdb", "a\ufffdb"},
		"zwj emoji is kept":    {"👩\u200d💻", "👩\u200d💻"},
		"escape of the escape": {"\x1b\x1b[31mx", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := terminal.Strip(tc.in); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestStripper_CutAnywhereIsTheSame holds row S-28 of docs/security.md.
func TestStripper_CutAnywhereIsTheSame(t *testing.T) {
	const in = "añ\x1b[1;31mb日\x1b]0;t\x1b\\c\u202e\x1b]8;;u\x07d\u009b1me"
	want := terminal.Strip(in)
	for cut := range len(in) + 1 {
		var st terminal.Stripper
		if got := st.Strip(in[:cut]) + st.Strip(in[cut:]); got != want {
			t.Errorf("cut at %d: got %q, want %q", cut, got, want)
		}
	}
	var st terminal.Stripper
	var got string
	for i := range len(in) {
		got += st.Strip(in[i : i+1])
	}
	if got != want {
		t.Errorf("byte by byte: got %q, want %q", got, want)
	}
}

func TestVisible_HidesNothing(t *testing.T) {
	got := terminal.Visible("ls\x1b[2K\r\u202e#\xff\nok")
	if want := `ls\x1b[2K\x0d\u{202e}#\xff` + "\nok"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

package chat

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/localtools"
)

func TestChange(t *testing.T) {
	old := "one\ntwo\nthree\n"
	for _, test := range []struct {
		name   string
		change localtools.Change
		colour bool
		want   string
	}{
		{"an edit", localtools.Change{Old: &old, New: "one\n2\nthree\n"}, false, "  │ @@ -1,3 +1,3 @@\n  │  one\n  │ -two\n  │ +2\n  │  three\n"},
		{"in colour", localtools.Change{Old: &old, New: "one\n2\nthree\n"}, true,
			"  │ \x1b[36m@@ -1,3 +1,3 @@\x1b[0m\n  │  one\n  │ \x1b[31m-two\x1b[0m\n  │ \x1b[32m+2\x1b[0m\n  │  three\n"},
		{"the same again", localtools.Change{Old: &old, New: old}, false, "  │ nothing would change\n"},
		{"an empty new file", localtools.Change{}, false, "  │ the file would be empty\n"},
		{"what a terminal would act on", localtools.Change{New: "\x1b[2K\r+++ b\n"}, false, "  │ @@ -0,0 +1,1 @@\n  │ +\\x1b[2K\\x0d+++ b\n"},
		{"too much", localtools.Change{New: strings.Repeat("x\n", 500)}, false, "  │ @@ -0,0 +1,500 @@\n" + strings.Repeat("  │ +x\n", 199) + "  │ … and 301 lines more\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			newScreen(&out, test.colour).change(test.change)
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

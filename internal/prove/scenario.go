package prove

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// Scenario declares that the scenario file at path, a txtar archive, proves the
// rules which its comment names. The runner calls it in the file's own subtest,
// which carries the file's name.
func Scenario(t testing.TB, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("read scenario: %v", err)
	}
	for _, id := range Named(data) {
		t.Attr(Attr, id)
	}
}

// Named returns the ids on the lines "proves: ID ID …" in the comment of a txtar
// archive, the part before its first file. The line may begin with #, so that a
// script can hold it.
func Named(archive []byte) []string {
	var ids []string
	for line := range bytes.Lines(archive) {
		text := strings.TrimSpace(string(line))
		if strings.HasPrefix(text, "-- ") && strings.HasSuffix(text, " --") {
			break
		}
		text = strings.TrimSpace(strings.TrimPrefix(text, "#"))
		if list, ok := strings.CutPrefix(text, "proves:"); ok {
			ids = append(ids, strings.Fields(list)...)
		}
	}
	return ids
}

package rag_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/rag"
)

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		"Plain words, with: marks!":   "plain words with marks",
		"maxReadBytes":                "maxreadbytes max read bytes",
		"MAX_READ_BYTES":              "maxreadbytes max read bytes",
		"NewHTTPServer":               "newhttpserver new http server",
		"HTTP":                        "http",
		"sha256 D63 utf8":             "sha256 d63 utf8",
		"_private __init__":           "private init",
		"internal/rag/block.go":       "internal rag block go",
		"AGN034-4.4-c":                "agn034 4 4 c",
		"straße Ünïcode":              "straße ünïcode",
		"a\x00b\u2028c":               "a b c",
		strings.Repeat("x", 65):       "",
		strings.Repeat("x", 64):       strings.Repeat("x", 64),
		"\xff\xfe broken \xf0":        "broken",
		`"quoted" OR (x AND NOT -y)*`: "quoted or x and not y",
	} {
		if diff := cmp.Diff(strings.Join(rag.Words(text), " "), want); diff != "" {
			t.Errorf("Words(%q): -got +want\n%s", text, diff)
		}
	}
}

func TestTerms_TellSomethingOnce(t *testing.T) {
	got := rag.Terms("How is the Turn of a turn in a TurnKey kept?")
	if diff := cmp.Diff(got, []string{"turn", "turnkey", "key", "kept"}); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
	var long strings.Builder
	for i := range 1000 {
		long.WriteString(strings.Repeat("w", 2+i%50) + string(rune('a'+i%26)) + " ")
	}
	if n := len(rag.Terms(long.String())); n > 64 {
		t.Errorf("%d terms of a pasted file", n)
	}
}

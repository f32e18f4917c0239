package server

import (
	"regexp"
	"testing"
)

// insides is what an answer must not show of the server: its stacks and source, its store,
// its paths, and the hosts that it speaks with.
var insides = regexp.MustCompile(`goroutine \d|\.go:\d|runtime error|panic:|0x[0-9a-f]{6}` +
	`|SELECT |INSERT |UPDATE \w+ SET|DELETE FROM|SQLSTATE|(?i:\b(?:sqlite|pgx|postgres(?:ql)?)\b|constraint failed)` +
	`|/(?:tmp|home|root|srv|var|etc|usr|private)/|\.db\b` +
	`|\bdial (?:tcp|udp|unix)|connection refused|127\.0\.0\.1:\d|\[::1\]|no such host`)

// hidesInsides fails when an error that a client gets shows one of them. Each problem that a
// test of this package looks at passes here.
func hidesInsides(t *testing.T, body string) {
	t.Helper()
	if found := insides.FindString(body); found != "" {
		t.Errorf("the error shows %q: %s", found, body)
	}
}

// TestInsides holds row S-26 of docs/security.md.
func TestInsides(t *testing.T) {
	for _, shown := range []string{
		"goroutine 7 [running]", "at serve.go:93", "runtime error: index out of range", "SQL logic error: SELECT id FROM t", "ERROR: x (SQLSTATE 23505)", "UNIQUE constraint failed: turns.id",
		"open /tmp/x", "read /var/lib/aptix/aptix.db", "dial tcp 10.0.0.1:443", "Post http://127.0.0.1:8080/v1", "lookup db.internal: no such host", "connection refused",
	} {
		if !insides.MatchString(shown) {
			t.Errorf("%q passes", shown)
		}
	}
	for _, harmless := range []string{"The provider answered 500 Internal Server Error.", "Select a mode.", "inputArtifacts/0/relativePath", "Use localhost or 127.0.0.1 in the URL.", "a.go"} {
		if found := insides.FindString(harmless); found != "" {
			t.Errorf("%q has %q in it", harmless, found)
		}
	}
}

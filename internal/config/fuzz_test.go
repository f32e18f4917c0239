package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzLoad reads files that an operator may write, or somebody else: what is wrong is a
// list of problems that names no secret of the environment, what is taken is the same
// twice, and nothing in a file is ever replaced by what the environment holds.
// It holds row S-25 of docs/security.md.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "listen: 127.0.0.1:8080\n", "listen: [1, 2]\n", "provider: openai\n", "unknown: 1\n", "? [x]\n: {<<: {}}\n",
		"data: ${APTIX_SECRET_CANARY}\n", "data: $APTIX_SECRET_CANARY\nlisten: \"%APTIX_SECRET_CANARY%\"\n", "data: !!env APTIX_SECRET_CANARY\n",
		"a: &a [*a, *a]\n", "a: &a {b: *a}\n", "\ufefflisten: x\n", "listen: \"\\ud800\"\n", "listen: \"a\\0b\"\n", "li\u017ften: x\n", "data: a\ndata: b\n", "openai:\n  apiKey: sk-1\n",
		"approvals: {\"[\": ask}\n", "limits: {steps: -1}\n", "limits: {turnTime: 10}\n", "mcp: {servers: {a: {command: [sh]}}}\n", "\r", "\x00", "--- \n...\n---\nlisten: x\n",
		"x: " + strings.Repeat("[", 3000) + "\n", "data: 1e400\n", "mcp:\n  servers:\n    a__b: {url: file:///etc/passwd}\n",
	} {
		f.Add(seed)
	}
	const canary = "canary-of-the-environment"
	lookup := func(name string) (string, bool) {
		if strings.Contains(name, "KEY") || strings.Contains(name, "CANARY") {
			return canary, true
		}
		return "", false
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "aptix.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		first, err := Load(Options{File: path, LookupEnv: lookup})
		again, err2 := Load(Options{File: path, LookupEnv: lookup})
		if err != nil {
			var p Problems
			if !errors.As(err, &p) || len(p) == 0 || strings.TrimSpace(p[0]) == "" {
				t.Fatalf("%q is refused with %#v, want problems", text, err)
			}
			if strings.Contains(err.Error(), canary) {
				t.Fatalf("%q: the refusal shows the environment: %v", text, err)
			}
			if err2 == nil || err.Error() != err2.Error() {
				t.Fatalf("%q is refused with %v, then with %v", text, err, err2)
			}
			return
		}
		shown := show(first)
		if err2 != nil || shown != show(again) {
			t.Fatalf("%q is taken as %s, then as %s, %v", text, shown, show(again), err2)
		}
		if strings.Contains(shown, canary) {
			t.Fatalf("%q: what is taken shows the environment: %s", text, shown)
		}
	})
}

// show is what `aptix config print` would say.
func show(c Config) string { return fmt.Sprintf("%+v %s %s", c.Settings(), c.Data, c.Listen) }

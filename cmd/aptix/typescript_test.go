package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The TypeScript client is up to date with the API, compiles, and does against a server
// what clients/typescript/test/conversation.mjs says.
func TestTypeScriptClient(t *testing.T) {
	dir, err := filepath.Abs("../../clients/typescript")
	if err != nil {
		t.Fatal(err)
	}
	node, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "node_modules", "typescript"))
	}
	if err != nil {
		if os.Getenv("APTIX_REQUIRE_NODE") == "1" {
			t.Fatalf("%v, and APTIX_REQUIRE_NODE=1 asks for it", err)
		}
		t.Skipf("WARNING: what the TypeScript client is made with is not there: %v; scripts/test installs it where npm is", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	run := func(env string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(ctx, node, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("node %v: %v\n%s", args, err, out)
		}
		return string(out)
	}

	schema := filepath.Join(t.TempDir(), "schema.ts")
	run("", "node_modules/openapi-typescript/bin/cli.js", "../../internal/server/testdata/openapi.json", "--output", schema)
	want, err := os.ReadFile(schema)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "src", "schema.ts"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Fatalf("src/schema.ts is not what the API is; 'npm run generate' in clients/typescript mends it (-want +got):\n%s", diff)
	}
	run("", "node_modules/typescript/bin/tsc")
	server := startDemo(t, nil)
	run("APTIX_URL="+server.url, "test/conversation.mjs")
	for example, said := range map[[2]string]string{
		{"ask.mjs", "hello"}:                           "[general]",
		{"tools.mjs", `call stock {"item": "tea"}`}:    `"pieces":12`,
		{"tools.mjs", `call stock {"item": "cement"}`}: "there are tea and coffee",
	} {
		if out := run("APTIX_URL="+server.url, "examples/"+example[0], example[1]); !strings.Contains(out, said) {
			t.Errorf("%v does not print %s:\n%s", example, said, out)
		}
	}
}

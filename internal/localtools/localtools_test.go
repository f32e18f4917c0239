package localtools_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/localtools"
)

// project makes a directory with files; a name ending in "/" is a folder, and contents
// beginning with "-> " make a symbolic link.
func project(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		full := filepath.Join(dir, filepath.FromSlash(name))
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(full, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(full), 0o755))
		if to, ok := strings.CutPrefix(content, "-> "); ok {
			must(t, os.Symlink(to, full))
			continue
		}
		must(t, os.WriteFile(full, []byte(content), 0o644))
	}
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, dir string, l localtools.Limits) *localtools.Tools {
	t.Helper()
	tools, err := localtools.Open(dir, l)
	must(t, err)
	t.Cleanup(func() { must(t, tools.Close()) })
	return tools
}

// call prepares and runs a call and returns its result, or its error as text.
func call(t *testing.T, tools *localtools.Tools, name, args string) string {
	t.Helper()
	a, err := tools.Prepare(name, args)
	if err != nil {
		return "error: " + err.Error()
	}
	out, err := a.Run(t.Context())
	if err != nil {
		return "error: " + err.Error()
	}
	if !json.Valid([]byte(out)) {
		t.Errorf("%s did not return JSON: %s", name, out)
	}
	return out
}

func check(t *testing.T, got, want string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDefinitions_AreToolsThatAServerTakes(t *testing.T) {
	tools := open(t, t.TempDir(), localtools.Limits{})
	var names []string
	for _, d := range tools.Definitions() {
		names = append(names, d.Name)
		var schema struct {
			Type       string
			Properties map[string]struct{ Type, Description string }
			Required   []string
		}
		if err := json.Unmarshal(d.Parameters, &schema); err != nil || schema.Type != "object" || len(schema.Properties) == 0 {
			t.Errorf("%s: %v %s", d.Name, err, d.Parameters)
		}
		for name, p := range schema.Properties {
			if p.Type == "" || p.Description == "" {
				t.Errorf("%s: property %s is not described", d.Name, name)
			}
		}
		for _, r := range schema.Required {
			if _, ok := schema.Properties[r]; !ok {
				t.Errorf("%s requires %s, which it does not have", d.Name, r)
			}
		}
	}
	check(t, strings.Join(names, " "), "list_files read_file search_files write_file run_command")
}

func TestPrepare_RefusesBadCalls(t *testing.T) {
	tools := open(t, project(t, map[string]string{"a.txt": "a"}), localtools.Limits{WriteBytes: 10, CommandBytes: 10})
	for name, tc := range map[string]struct{ tool, args, want string }{
		"unknown tool":     {"rm", `{}`, `there is no tool "rm" here; use one of list_files, read_file, search_files, write_file, run_command`},
		"not json":         {"read_file", `path`, "do not fit"},
		"not an object":    {"read_file", `[]`, "do not fit"},
		"wrong type":       {"read_file", `{"path":1}`, "do not fit"},
		"misspelt member":  {"read_file", `{"path":"a.txt","from":1}`, `unknown field "from"`},
		"two objects":      {"read_file", `{"path":"a.txt"}{}`, "one JSON object"},
		"no path":          {"read_file", ``, "needs a path"},
		"range backwards":  {"read_file", `{"path":"a.txt","startLine":5,"endLine":4}`, "no range"},
		"negative line":    {"read_file", `{"path":"a.txt","startLine":-1}`, "no range"},
		"nul in path":      {"read_file", `{"path":"a\u0000b"}`, "not valid text"},
		"long path":        {"read_file", `{"path":"` + strings.Repeat("a", 2000) + `"}`, "longer than"},
		"no query":         {"search_files", `{}`, "needs a query"},
		"bad regexp":       {"search_files", `{"query":"(","regexp":true}`, "no regular expression"},
		"bad glob":         {"list_files", `{"glob":"["}`, "not valid"},
		"no content":       {"write_file", `{"path":"b"}`, "needs the path of a file and its content"},
		"folder":           {"write_file", `{"path":"b/","content":""}`, "needs the path of a file"},
		"content too long": {"write_file", `{"path":"b","content":"12345678901"}`, "more than 10 bytes"},
		"no command":       {"run_command", `{"command":" "}`, "needs a command"},
		"long command":     {"run_command", `{"command":"12345678901"}`, "more than 10 bytes"},
		"nul in command":   {"run_command", `{"command":"a\u0000b"}`, "not valid text"},
		"negative time":    {"run_command", `{"command":"a","timeoutSeconds":-1}`, "positive"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := tools.Prepare(tc.tool, tc.args); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestNothingLeadsOutside tries every file tool on every way out of the directory.
// It holds row S-17 of docs/security.md.
func TestNothingLeadsOutside(t *testing.T) {
	outside := project(t, map[string]string{"secret.txt": "TOPSECRET\n", "sub/deep.txt": "TOPSECRET\n"})
	dir := project(t, map[string]string{
		"in.txt":       "inside\n",
		"sub/":         "",
		"out-file":     "-> " + filepath.Join(outside, "secret.txt"),
		"out-dir":      "-> " + outside,
		"sub/up":       "-> ../..",
		"sub/relative": "-> ../../" + filepath.Base(outside) + "/secret.txt",
		"chain1":       "-> chain2",
		"chain2":       "-> out-dir",
		"root":         "-> /",
	})
	// t.TempDir gives sibling folders, so that the relative links really lead there.
	if filepath.Dir(outside) != filepath.Dir(dir) {
		t.Fatalf("%s and %s are no siblings", outside, dir)
	}
	rel := "../" + filepath.Base(outside)
	tools := open(t, dir, localtools.Limits{})
	for _, base := range []string{
		outside, rel, "./" + rel, "sub/../" + rel, "out-dir", "chain1", "chain1/sub/..", "sub/up/" + filepath.Base(outside),
		"root" + outside, "//" + outside, "..", "/", "sub/up", "../..",
	} {
		for tool, calls := range map[string][]map[string]any{
			"read_file":    {{"path": base + "/secret.txt"}, {"path": base + "/sub/deep.txt"}},
			"list_files":   {{"path": base}, {"path": base, "recursive": true}, {"path": base + "/sub"}},
			"search_files": {{"path": base, "query": "SECRET"}, {"path": base + "/secret.txt", "query": "SECRET"}},
			"write_file":   {{"path": base + "/new.txt", "content": "x"}, {"path": base + "/secret.txt", "content": "x"}},
		} {
			for _, c := range calls {
				args, err := json.Marshal(c)
				must(t, err)
				if got := call(t, tools, tool, string(args)); !strings.HasPrefix(got, "error: ") || strings.Contains(got, "TOPSECRET") {
					t.Errorf("%s %s: %s", tool, args, got)
				}
			}
		}
	}
	for _, link := range []string{"out-file", "sub/relative"} {
		for _, c := range [][2]string{
			{"read_file", `{"path":"` + link + `"}`},
			{"write_file", `{"path":"` + link + `","content":"x"}`},
			{"search_files", `{"path":"` + link + `","query":"SECRET"}`},
		} {
			if got := call(t, tools, c[0], c[1]); !strings.HasPrefix(got, "error: ") {
				t.Errorf("%s %s: %s", c[0], c[1], got)
			}
		}
	}
	// A walk does not follow links either.
	check(t, call(t, tools, "search_files", `{"query":"SECRET|inside","regexp":true}`),
		`{"matches":[{"path":"in.txt","line":1,"text":"inside"}],"more":false,"searchedFiles":1,"skippedFiles":0}`)

	secret, err := os.ReadFile(filepath.Join(outside, "secret.txt"))
	must(t, err)
	entries, err := os.ReadDir(outside)
	must(t, err)
	if string(secret) != "TOPSECRET\n" || len(entries) != 2 {
		t.Errorf("something was written outside: %q, %v", secret, entries)
	}
}

func TestPrepare_LinkExchangedAfterConsent(t *testing.T) {
	outside := project(t, map[string]string{"keep.txt": "keep"})
	dir := project(t, map[string]string{"sub/": ""})
	tools := open(t, dir, localtools.Limits{})
	a, err := tools.Prepare("write_file", `{"path":"sub/keep.txt","content":"evil"}`)
	must(t, err)
	must(t, os.Remove(filepath.Join(dir, "sub")))
	must(t, os.Symlink(outside, filepath.Join(dir, "sub")))
	if _, err := a.Run(t.Context()); err == nil {
		t.Error("the write went through")
	}
	got, err := os.ReadFile(filepath.Join(outside, "keep.txt"))
	must(t, err)
	check(t, string(got), "keep")
}

func TestLinksInsideMayBeRead(t *testing.T) {
	tools := open(t, project(t, map[string]string{"real/a.txt": "hello\n", "link": "-> real", "l.txt": "-> real/a.txt"}), localtools.Limits{})
	for _, p := range []string{"link/a.txt", "l.txt", "./link/../l.txt"} {
		if got := call(t, tools, "read_file", `{"path":"`+p+`"}`); !strings.Contains(got, `"content":"hello\n"`) {
			t.Errorf("%s: %s", p, got)
		}
	}
	check(t, call(t, tools, "list_files", `{"path":"link"}`), `{"path":"link","entries":[{"path":"link/a.txt","type":"file","size":6}],"more":false}`)
}

func TestActionsAskBeforeTheyChangeAnything(t *testing.T) {
	dir := project(t, map[string]string{"old.txt": "old", "real/": "", "link": "-> real"})
	tools := open(t, dir, localtools.Limits{})
	for name, tc := range map[string]struct{ tool, args, title, detail string }{
		"new file":     {"write_file", `{"path":"./x/../new.txt","content":"a\nb\n"}`, "write 4 bytes (2 lines) to a new file", "new.txt"},
		"old file":     {"write_file", `{"path":"old.txt","content":"new"}`, "write 3 bytes (1 line) over a file of 3 bytes", "old.txt"},
		"through link": {"write_file", `{"path":"link/n","content":""}`, "write 0 bytes (0 lines) to a new file, through a link; it is really real/n", "link/n"},
		"command":      {"run_command", `{"command":"rm -rf build"}`, "run this command, which can reach beyond the directory", "rm -rf build"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := tools.Prepare(tc.tool, tc.args)
			must(t, err)
			if !a.Ask || a.Title != tc.title || a.Detail != tc.detail {
				t.Errorf("got %+v", a)
			}
		})
	}
	for tool, args := range map[string]string{"list_files": `{}`, "read_file": `{"path":"old.txt"}`, "search_files": `{"query":"x"}`} {
		if a, err := tools.Prepare(tool, args); err != nil || a.Ask {
			t.Errorf("%s: %+v, %v", tool, a, err)
		}
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 3 {
		t.Errorf("preparing changed the directory: %v", entries)
	}
}

func TestOpen_NotADirectory(t *testing.T) {
	dir := project(t, map[string]string{"a": "a"})
	for _, d := range []string{filepath.Join(dir, "a"), filepath.Join(dir, "missing")} {
		if _, err := localtools.Open(d, localtools.Limits{}); err == nil {
			t.Errorf("%s was opened", d)
		}
	}
}

func TestStopped(t *testing.T) {
	tools := open(t, project(t, map[string]string{"a.txt": strings.Repeat("x\n", 5000)}), localtools.Limits{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for tool, args := range map[string]string{
		"list_files": `{"recursive":true}`, "read_file": `{"path":"a.txt"}`, "search_files": `{"query":"y"}`, "run_command": `{"command":"true"}`,
	} {
		a, err := tools.Prepare(tool, args)
		must(t, err)
		if out, err := a.Run(ctx); err == nil {
			t.Errorf("%s went on: %s", tool, out)
		}
	}
}

func TestCommand(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-secret")
	t.Setenv("APTIX_API_KEY", "ak-secret")
	t.Setenv("KEPT", "kept")
	dir := project(t, map[string]string{"a.txt": "a"})
	tools := open(t, dir, localtools.Limits{CommandOutput: 400})
	for name, tc := range map[string]struct{ command, want string }{
		"output":         {"ls; echo err >&2", `{"exitCode":0,"stdout":"a.txt\n","stderr":"err\n"}`},
		"exit code":      {"exit 3", `{"exitCode":3,"stdout":"","stderr":""}`},
		"no input":       {"cat", `{"exitCode":0,"stdout":"","stderr":""}`},
		"no credentials": {"echo $OPENAI_API_KEY$APTIX_API_KEY$KEPT", `{"exitCode":0,"stdout":"kept\n","stderr":""}`},
		"not text":       {`printf 'a\377b'`, `{"exitCode":0,"stdout":"a` + "\ufffd" + `b","stderr":""}`},
		"long output": {`i=0; while [ $i -lt 300 ]; do printf x; i=$((i+1)); done; printf END`,
			`{"exitCode":0,"stdout":"` + strings.Repeat("x", 100) + `\n… 103 bytes left out …\n` + strings.Repeat("x", 97) + `END","stderr":"","truncated":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			args, err := json.Marshal(map[string]string{"command": tc.command})
			must(t, err)
			check(t, call(t, tools, "run_command", string(args)), tc.want)
		})
	}
}

func TestCommand_TimeIsBounded(t *testing.T) {
	dir := project(t, nil)
	tools := open(t, dir, localtools.Limits{CommandTime: 200 * time.Millisecond})
	// The second sleep belongs to a child of the shell: the whole group must end.
	got := call(t, tools, "run_command", `{"command":"echo started; sh -c 'sleep 600; echo x > late' ; sleep 600"}`)
	if !strings.Contains(got, `"timedOut":true`) || !strings.Contains(got, `"stdout":"started\n"`) {
		t.Errorf("got %s", got)
	}
}

func TestCommand_LeavesNothingBehind(t *testing.T) {
	tools := open(t, project(t, nil), localtools.Limits{})
	got := call(t, tools, "run_command", `{"command":"sleep 600 >/dev/null 2>&1 & echo $! "}`)
	var out struct{ Stdout string }
	must(t, json.Unmarshal([]byte(got), &out))
	pid := strings.TrimSpace(out.Stdout)
	// Killing is asynchronous; kill -0 in a loop ends as soon as the process is gone.
	got = call(t, tools, "run_command", `{"command":"while kill -0 `+pid+` 2>/dev/null && ! grep -q '^State:.*Z' /proc/`+pid+`/status 2>/dev/null; do :; done; echo gone","timeoutSeconds":20}`)
	if !strings.Contains(got, "gone") {
		t.Errorf("the background process lives: %s", got)
	}
}

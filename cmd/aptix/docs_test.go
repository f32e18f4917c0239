package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestDocs does what the documents say and compares what comes of it with what they show.
// Each of them has a copy of the repository to itself.
//
// A block of kind console holds commands behind "$ " and what they print. Numbers, times
// and ids may be others; a line "…" stands for any lines, and one that ends in it for all
// that begin like it. What follows a prompt of aptix chat is typed. A server that a command
// starts runs on to the next one. A block whose first line is a comment with a path is
// written to that file.
func TestDocs(t *testing.T) {
	for _, name := range []string{"README.md", "docs/quickstart.md", "docs/telemetry.md"} {
		t.Run(name, func(t *testing.T) {
			d := newDocument(t)
			text, err := os.ReadFile(filepath.Join(d.dir, name))
			if err != nil {
				t.Fatal(err)
			}
			d.play(string(text))
		})
	}
}

// document is one that is being played.
type document struct {
	*testing.T
	root   string // the repository
	dir    string // its copy
	server *exec.Cmd
	url    string
}

func newDocument(t *testing.T) *document {
	t.Helper()
	d := &document{T: t, dir: filepath.Join(t.TempDir(), "aptix")}
	var err error
	if d.root, err = filepath.Abs("../.."); err != nil {
		t.Fatal(err)
	}
	// What git would give somebody who clones, with what is not committed yet.
	copying := exec.CommandContext(t.Context(), "sh", "-c", `mkdir -p "$1" && git ls-files -z --cached --others --exclude-standard | xargs -0 tar cf - | tar xf - -C "$1"`, "sh", d.dir)
	copying.Dir = d.root
	if out, err := copying.CombinedOutput(); err != nil {
		t.Fatalf("copy the repository: %v\n%s", err, out)
	}
	t.Cleanup(d.stop)
	return d
}

var (
	block    = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	path     = regexp.MustCompile(`^# ([a-zA-Z0-9_./-]+\.[a-z]+)\n`)
	prompted = regexp.MustCompile(`(?m)^(?:\[[a-z_]+\] > |.*\[y/N\] )(.*)$`)
)

func (d *document) play(text string) {
	d.Helper()
	played := 0
	for _, b := range block.FindAllStringSubmatch(text, -1) {
		kind, body := b[1], b[2]
		if m := path.FindStringSubmatch(body); m != nil {
			d.write(m[1], body)
		}
		if kind != "console" {
			continue
		}
		for _, c := range strings.Split("\n"+body, "\n$ ")[1:] {
			command, shown, _ := strings.Cut(c, "\n")
			d.run(command, strings.TrimSuffix(shown, "\n"))
			played++
		}
	}
	d.Logf("%d commands", played)
	if played == 0 {
		d.Error("the document has no commands")
	}
}

func (d *document) write(name, text string) {
	d.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(d.dir, name)), 0o755); err != nil {
		d.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600); err != nil {
		d.Fatal(err)
	}
}

// run runs one command of a document and compares what it prints.
func (d *document) run(command, shown string) {
	d.Helper()
	if strings.HasSuffix(command, "aptix serve") {
		d.serve(command, shown)
		return
	}
	if d.server == nil && !strings.Contains(command, "go build") {
		d.serve("aptix serve", "…")
	}
	ctx, cancel := context.WithTimeout(d.Context(), 2*time.Minute)
	defer cancel()
	cmd := d.command(ctx, command)
	var typed strings.Builder
	for _, m := range prompted.FindAllStringSubmatch(shown, -1) {
		typed.WriteString(m[1] + "\n")
	}
	cmd.Stdin = strings.NewReader(typed.String())
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.Errorf("$ %s: %v\n%s", command, err, out)
		return
	}
	d.compare(command, shown, string(out))
}

func (d *document) command(ctx context.Context, command string) *exec.Cmd {
	command = strings.ReplaceAll(command, "go run ./cmd/aptix", "aptix")
	if d.url != "" {
		command = strings.ReplaceAll(command, "http://127.0.0.1:8080", d.url)
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", strings.Replace(command, "go build -o ", "go build -o "+d.dir+"/", 1))
	cmd.Dir = d.dir
	if strings.HasPrefix(command, "go build ") {
		cmd.Dir = d.root // where most of it is built already
	}
	cmd.Env = append(os.Environ(), "APTIX_LISTEN=127.0.0.1:0", "TZ=UTC")
	if d.url != "" {
		cmd.Env = append(cmd.Env, "APTIX_URL="+d.url)
	}
	return cmd
}

// serve starts a server in the place of the one that runs.
func (d *document) serve(command, shown string) {
	d.Helper()
	d.stop()
	d.url = ""
	d.server = d.command(context.WithoutCancel(d.Context()), "exec "+strings.ReplaceAll(command, "go run ./cmd/aptix", "aptix"))
	said := &firstWords{whole: make(chan string, 1), end: "Ctrl-C stops it."}
	d.server.Stderr = said
	if err := d.server.Start(); err != nil {
		d.Fatal(err)
	}
	select {
	case text := <-said.whole:
		_, url, _ := strings.Cut(text, "Aptix is ready at ")
		d.url, _, _ = strings.Cut(url, "\n")
		if i := strings.Index(text, "Aptix is ready"); i >= 0 {
			text = text[i:] // without the log
		}
		d.compare(command, shown, text)
	case <-time.After(time.Minute):
		d.Fatalf("$ %s: the server is not ready", command)
	}
}

func (d *document) stop() {
	if d.server == nil {
		return
	}
	_ = d.server.Process.Signal(os.Interrupt)
	if err := d.server.Wait(); err != nil {
		d.Errorf("the server: %v", err)
	}
	d.server = nil
}

// firstWords collects what a server prints until its banner ends.
type firstWords struct {
	text  bytes.Buffer
	end   string
	whole chan string
}

func (o *firstWords) Write(b []byte) (int, error) {
	if o.end != "" {
		o.text.Write(b)
		if strings.Contains(o.text.String(), o.end) {
			o.end = ""
			o.whole <- o.text.String()
		}
	}
	return len(b), nil
}

func (d *document) compare(command, shown, printed string) {
	d.Helper()
	if d.url != "" {
		printed = strings.ReplaceAll(printed, d.url, "http://127.0.0.1:8080")
	}
	printed = strings.ReplaceAll(printed, " --url http://127.0.0.1:8080", "") // it is the usual one
	printed = strings.ReplaceAll(printed, d.dir, "/home/you/aptix")
	if why := differs(lines(shown), lines(printed)); why != "" {
		d.Errorf("$ %s\n%s\nIt printed:\n%s", command, why, printed)
	}
}

func lines(text string) []string {
	text = strings.Trim(text, "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// differs says which of the lines that are shown is not printed.
func differs(shown, printed []string) string {
	for i, want := range shown {
		if want == "…" {
			if i == len(shown)-1 {
				return ""
			}
			for skip := range printed {
				if differs(shown[i+1:], printed[skip:]) == "" {
					return ""
				}
			}
			return fmt.Sprintf("does not print, after what may come between: %s", shown[i+1])
		}
		if i >= len(printed) {
			return "does not print: " + want
		}
		begin, more := strings.CutSuffix(want, "…")
		got, begin := plain(printed[i]), plain(begin)
		if more && !strings.HasPrefix(got, begin) || !more && got != begin {
			return "does not print: " + want
		}
		if i == len(shown)-1 && len(printed) > len(shown) {
			return "prints more than: " + want
		}
	}
	if len(shown) == 0 && len(printed) > 0 {
		return "prints what is not shown"
	}
	return ""
}

var changing = []struct{ pattern, with string }{
	{`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, "ID"},
	{`[0-9a-f]{24,64}`, "HASH"},
	{`\d[\d.:+TZ-]*`, "N"},
	{` +`, " "},
}

// plain returns a line without what is different each time.
func plain(line string) string {
	for _, c := range changing {
		line = regexp.MustCompile(c.pattern).ReplaceAllString(line, c.with)
	}
	return strings.TrimSpace(line)
}

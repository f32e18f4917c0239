package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/mode"
)

// TestDocs does what the documents say and compares what comes of it with what they show.
// Each of them has a copy of the repository to itself.
//
// A block of kind console holds commands behind "$ " and what they print. Numbers, times
// and ids may be others; a line "…" stands for any lines, and one that ends in it for all
// that begin like it. What follows a prompt of aptix chat is typed. A variable that a command
// sets is there for those behind it. A server that a command starts runs on until another
// one is started at the same address; one runs from the first command on.
//
// Behind the kind of a block may stand, which readers do not see:
//
//	a path            the block is written to that file, as is one that begins with a
//	                  comment with a path
//	server stopped    the server is stopped before, and not started by itself
//	a mode            the block is a part of a mode file; other YAML is of the configuration
//	not run: REASON   nobody does what it says
func TestDocs(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var ran, left atomic.Int64
	t.Run("pages", func(t *testing.T) {
		for _, page := range append([]string{"../../README.md"}, pages...) {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			if !block.Match(text) {
				continue
			}
			name := strings.TrimPrefix(filepath.ToSlash(page), "../../")
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d := newDocument(t)
				d.play(string(text))
				ran.Add(int64(d.ran))
				left.Add(int64(d.left))
				t.Logf("%d commands; %d more are not run", d.ran, d.left)
			})
		}
	})
	t.Logf("%d commands of the documents; %d more are not run", ran.Load(), left.Load())
	if left.Load() > mostLeft {
		t.Errorf("%d commands of the documents are not run, more than %d", left.Load(), mostLeft)
	}
}

// mostLeft is how many commands of all documents may be without a test.
const mostLeft = 8

// usualAddress is where a server listens when nothing else is said.
const usualAddress = "127.0.0.1:8080"

// document is one that is being played.
type document struct {
	*testing.T
	root    string // the repository
	dir     string // its copy
	env     string // the file of the variables that commands have set
	servers map[string]*documented
	ran     int
	left    int
}

// documented is a server of a document.
type documented struct {
	cmd *exec.Cmd
	url string
}

func newDocument(t *testing.T) *document {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	d := &document{T: t, root: root, dir: filepath.Join(t.TempDir(), "aptix"), env: filepath.Join(t.TempDir(), "env"), servers: map[string]*documented{}}
	// What git would give somebody who clones, with what is not committed yet.
	copying := exec.CommandContext(t.Context(), "sh", "-c", `mkdir -p "$1" && git ls-files -z --cached --others --exclude-standard | xargs -0 tar cf - | tar xf - -C "$1"`, "sh", d.dir)
	copying.Dir = d.root
	if out, err := copying.CombinedOutput(); err != nil {
		t.Fatalf("copy the repository: %v\n%s", err, out)
	}
	if err := os.WriteFile(d.env, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.stopAll)
	return d
}

var (
	block    = regexp.MustCompile("(?ms)^```([a-z]*)(?: ([^\n]+))?\n(.*?)^```$")
	path     = regexp.MustCompile(`^# ([a-zA-Z0-9_./-]+\.[a-z]+)\n`)
	file     = regexp.MustCompile(`^[a-zA-Z0-9_/-]*\.[a-z]+$`)
	typed    = regexp.MustCompile(`(?m)^(\$ |(?:aptix|curl|export|go|kill|bash|make|npm|pip) )`)
	prompted = regexp.MustCompile(`(?m)^(?:\[[a-z_]+\] > |.*\[y/N\] )(.*)$`)
)

func (d *document) play(text string) {
	d.Helper()
	for _, b := range block.FindAllStringSubmatch(text, -1) {
		d.playBlock(b[1], b[2], b[3])
	}
}

func (d *document) playBlock(kind, info, body string) {
	d.Helper()
	why, skipped := strings.CutPrefix(info, "not run: ")
	if m := path.FindStringSubmatch(body); m != nil {
		info = m[1]
	}
	switch {
	case skipped && len(why) < 10:
		d.Errorf("a block is not run, and nobody says why:\n%s", body)
	case skipped:
		n := len(typed.FindAllString(body, -1))
		d.left += n
		d.Logf("%d commands are not run: %s", n, why)
	case file.MatchString(info):
		d.write(info, body)
	case kind == "console":
		if info == "server stopped" {
			d.stopAll()
		}
		for _, c := range strings.Split("\n"+body, "\n$ ")[1:] {
			command, shown, _ := strings.Cut(c, "\n")
			began := time.Now()
			d.run(command, strings.TrimSuffix(shown, "\n"), info != "server stopped")
			d.ran++
			d.Logf("%3d. %5.1f s  $ %s", d.ran, time.Since(began).Seconds(), command)
		}
	case kind == "yaml" && info == "mode":
		d.checkMode(body)
	case kind == "yaml":
		d.checkSettings(body)
	case typed.MatchString(body):
		d.Errorf("a block has commands that nobody runs; make it one of kind console, or say behind its kind why not:\n%s", body)
	}
}

// checkSettings holds an extract of a configuration file to what a server takes. That it
// goes without what stands elsewhere in the file, such as a key, does not count.
func (d *document) checkSettings(text string) {
	d.Helper()
	name := filepath.Join(d.TempDir(), "aptix.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		d.Fatal(err)
	}
	_, err := config.Load(config.Options{File: name, LookupEnv: func(name string) (string, bool) {
		if name == "OPENAI_API_KEY" || name == "DOCS_TOKEN" {
			return "sesame", true
		}
		return "", false
	}})
	if err != nil {
		d.Errorf("%v\n%s", err, text)
	}
}

// checkMode holds an extract of a mode file to the members that there are.
func (d *document) checkMode(text string) {
	d.Helper()
	whole := "id: 5C1E9A7B3D2F4E60A8B1C2D3E4F50617\nkey: general\ndisplayName: d\ndescription: d\nwhenToUse: d\nisDefault: true\n" + text
	if _, err := mode.Load(fstest.MapFS{"general.yaml": {Data: []byte(whole)}}); err != nil {
		d.Errorf("%v\n%s", err, text)
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

// begins are the commands that need no server, and may come before one can start.
var begins = regexp.MustCompile(`^(go build|export APTIX_[A-Z]+=|mkdir|git) ?`)

// serving are the commands that start a server, and listening says where.
var (
	serving   = regexp.MustCompile(`(^|[ /])aptix serve( |$)`)
	listening = regexp.MustCompile(`--listen (\S+)`)
)

// run runs one command of a document and compares what it prints.
func (d *document) run(command, shown string, started bool) {
	d.Helper()
	if serving.MatchString(command) {
		d.serve(command, shown)
		return
	}
	if started && len(d.servers) == 0 && !begins.MatchString(command) {
		d.serve("aptix serve", "…")
	}
	ctx, cancel := context.WithTimeout(d.Context(), 5*time.Minute)
	defer cancel()
	cmd := d.command(ctx, command+"\nrc=$?; export -p > "+d.env+"; exit $rc")
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

// command is a command as it is run here: with the servers at the addresses that they have.
func (d *document) command(ctx context.Context, command string) *exec.Cmd {
	dir := d.dir
	if strings.HasPrefix(command, "go build ") {
		dir = d.root // where most of it is built already
	}
	command = strings.ReplaceAll(command, "go run ./cmd/aptix", "aptix")
	command = strings.Replace(command, "go build -o ", "go build -o "+d.dir+"/", 1)
	command = listening.ReplaceAllString(command, "--listen 127.0.0.1:0")
	if strings.Contains(command, documentedDatabase) {
		command = strings.ReplaceAll(command, documentedDatabase, databases.URL(d))
	}
	before := "set -a; PATH=" + unraced.folder(d) + ":$PATH; . " + d.env + "; APTIX_LISTEN=127.0.0.1:0; TZ=UTC\n"
	for address, s := range d.servers {
		command = strings.ReplaceAll(command, "http://"+address, s.url)
		if address == usualAddress {
			before += "APTIX_URL=" + s.url + "\n"
			command = strings.ReplaceAll(command, "$(pidof aptix)", strconv.Itoa(s.cmd.Process.Pid))
		}
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", before+command)
	cmd.Dir = dir
	return cmd
}

// documentedDatabase is the database of the documents; each of them gets one of its own.
const documentedDatabase = "postgres://aptix:secret@127.0.0.1:5432/aptix"

// serve starts a server in the place of the one that runs at its address.
func (d *document) serve(command, shown string) {
	d.Helper()
	address := usualAddress
	if m := listening.FindStringSubmatch(command); m != nil {
		address = m[1]
	}
	d.stop(address)
	s := &documented{cmd: d.command(context.WithoutCancel(d.Context()), "exec "+command)}
	said := &firstWords{whole: make(chan string, 1), end: "Ctrl-C stops it."}
	s.cmd.Stderr = said
	if err := s.cmd.Start(); err != nil {
		d.Fatal(err)
	}
	d.servers[address] = s
	select {
	case text := <-said.whole:
		_, url, _ := strings.Cut(text, "Aptix is ready at ")
		s.url, _, _ = strings.Cut(url, "\n")
		if i := strings.Index(text, "Aptix is ready"); i >= 0 {
			text = text[i:] // without the log
		}
		d.compare(command, shown, text)
	case <-time.After(time.Minute):
		d.Fatalf("$ %s: the server is not ready:\n%s", command, said.soFar())
	}
}

func (d *document) stopAll() {
	for address := range d.servers {
		d.stop(address)
	}
}

func (d *document) stop(address string) {
	s := d.servers[address]
	if s == nil {
		return
	}
	delete(d.servers, address)
	_ = s.cmd.Process.Signal(os.Interrupt)
	if err := s.cmd.Wait(); err != nil {
		d.Errorf("the server: %v", err)
	}
}

// firstWords collects what a server prints until its banner ends.
type firstWords struct {
	mu    sync.Mutex // guards text and end
	text  bytes.Buffer
	end   string
	whole chan string
}

func (o *firstWords) soFar() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *firstWords) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
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
	for address, s := range d.servers {
		printed = strings.ReplaceAll(printed, s.url, "http://"+address)
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
	{`\b(aptix|aud|whsec|wh|msg|apr|resp|req|call)_[A-Za-z0-9_+/=]{6,}`, "ID"},
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

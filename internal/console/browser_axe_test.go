package console_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/aptixhq/aptix/internal/llm/llmtest"
)

// shots is the variable that names a folder for pictures of every page, for people to look
// at.
const shots = "APTIX_CONSOLE_SHOTS"

// looks are the windows and preferences that every page is tried with.
var looks = []struct {
	scheme        string
	width, height int64
}{{"light", 1280, 800}, {"dark", 1280, 800}, {"light", 390, 844}, {"dark", 390, 844}, {"light", 360, 640}}

// Every page, in every look: axe finds nothing, and nothing is wider than the window.
func TestBrowser_Accessible(t *testing.T) {
	axe := axeScript(t)
	b := newTab(t, script...)
	b.furnish()
	for _, p := range []struct{ name, path string }{
		{"home", "/"}, {"empty", "/?q=nothing"}, {"chat", "/sessions/tour"}, {"approval", "/sessions/approval"}, {"consent", "/sessions/consent"},
		{"client-tools", "/sessions/client-tools"}, {"failed", "/sessions/failed"}, {"new", "/sessions/new"},
		{"history", "/sessions/tour/history"}, {"turn", "/sessions/tour/turns/t3"}, {"diff", "/sessions/tour/turns/t3/diff?from=1&to=2&form=wire"},
		{"modes", "/modes"}, {"mode", "/modes/general"}, {"mode-diff", "/modes/general/diff?to=ddr_authoring"}, {"live", "/live"},
		{"fault", "/sessions/none"},
	} {
		if p.name == "fault" {
			b.allow("404")
		}
		for _, l := range looks {
			b.look(l.scheme, l.width, l.height)
			b.open(p.path)
			b.is("document.querySelector('main')")
			name := fmt.Sprintf("%s-%s-%d", p.name, l.scheme, l.width)
			b.shot(name)
			b.sound(axe, name)
		}
	}
}

// A key is shown once; from then on the browser has a cookie that no script can read.
func TestBrowser_SignIn(t *testing.T) {
	axe := axeScript(t)
	b := newTabAt(t, keys{}, llmtest.Reply{Text: "Hello, Ann."})
	b.open("/modes/general")
	b.shows("h1", "Sign in")
	b.allow("422")
	b.write("#key", "wrong\r")
	b.shows("#wrong", "This key is not valid.")
	for _, l := range looks {
		b.look(l.scheme, l.width, l.height)
		b.is("document.querySelector('#wrong')")
		b.shot(fmt.Sprintf("sign-in-%s-%d", l.scheme, l.width))
		b.sound(axe, "sign-in "+l.scheme)
	}
	b.write("#key", "acme-key\r")
	b.shows("h1", "General") // where the reader wanted to go
	b.is("document.cookie === ''")
	b.open("/")
	b.write("[data-start] textarea", "Hello")
	b.click("[data-start] button")
	b.shows(".md", "Hello, Ann.")
	b.click(".top form button")
	b.shows("h1", "Sign in")
	b.open("/sessions")
	b.shows("h1", "Sign in")
}

// axeScript is the accessibility checker, which scripts/test installs.
func axeScript(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "axe", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		if os.Getenv(requireChromium) == "1" {
			t.Fatalf("%v, and %s=1 asks for it", err, requireChromium)
		}
		t.Skipf("WARNING: axe-core is not there: %v; scripts/test installs it where npm is", err)
	}
	return string(text)
}

// sound has axe look at the page as it is.
func (b *tab) sound(axe, name string) {
	b.t.Helper()
	if wide := eval[int](b, "document.documentElement.scrollWidth - innerWidth"); wide > 0 {
		b.t.Errorf("%s: the page is %d pixels wider than the window", name, wide)
	}
	eval[any](b, axe+"; window.found = null; axe.run().then((r) => { window.found = r.violations; }); 0")
	b.is("window.found")
	b.is("axe.version")
	for _, v := range eval[[]string](b, `window.found.map((v) => v.id + ": " + v.help + "\n    " +
		v.nodes.slice(0, 5).map((n) => n.html.slice(0, 160) + " | " + (n.any[0]?.message || n.failureSummary)).join("\n    "))`) {
		b.t.Errorf("%s: %s", name, v)
	}
}

// shot keeps a picture of the page where somebody asked for it.
func (b *tab) shot(name string) {
	dir := os.Getenv(shots)
	if dir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// script is what the model says in the sessions of furnish.
var script = []llmtest.Reply{
	{Text: "I can answer questions, explain code and help with small changes.\n\n## What I look at\n\n1. The files you send, such as `main.go`\n2. The mode: **General**\n\n" +
		"| Mode | For |\n|---|---|\n| General | everyday questions |\n| DDR authoring | design decisions |\n\n```go\nfunc main() {\n\tfmt.Println(strings.Join([]string{\"hello\", \"world\"}, \", \"), time.Now().Format(time.RFC3339Nano), os.Getenv(\"HOME\"))\n}\n```\n\nMore in the [documentation](https://example.com/docs)."},
	{Text: "Let me see which modes there are.", Calls: []llmtest.Call{{Name: "agent_list_modes", Arguments: `{}`}}},
	{Text: "There are three modes: General, DDR authoring and Workflow authoring. A long name such as `" + strings.Repeat("pipeline_of_", 9) + "release` does not break the page."},
	{Text: "That is a design question.", Calls: []llmtest.Call{{Name: "agent_change_mode", Arguments: `{"mode":"ddr_authoring","branch":false,"reason":"The user wants a decision written down."}`}}},
	{Text: "We are in DDR authoring now. Which decision is it?"},
	{Calls: []llmtest.Call{{Name: "agent_list_modes", Arguments: `{}`}}},
	{Text: "This belongs to another mode.", Calls: []llmtest.Call{{Name: "agent_change_mode", Arguments: `{"mode":"workflow_authoring","branch":true,"reason":"The pipeline is a piece of work of its own."}`}}},
	{Calls: []llmtest.Call{{Name: "read_file", Arguments: `{"path":"docs/design.md"}`}}},
	{Status: 400, Body: `{"error":{"message":"The request was refused.","type":"invalid_request_error","param":null,"code":null}}`},
}

// furnish makes sessions in every state that a page shows.
func (b *tab) furnish() {
	b.t.Helper()
	decide := func(session, turn, verdict string) {
		b.t.Helper()
		pending := b.do("GET", "/v1/sessions/"+session+"/turns/"+turn+"/approvals", "")
		_, rest, _ := strings.Cut(pending.body, `"approvalId":"`)
		id, _, _ := strings.Cut(rest, `"`)
		if a := b.do("POST", "/v1/sessions/"+session+"/turns/"+turn+"/approvals/"+id, `{"decision":"`+verdict+`"}`); a.status != 200 {
			b.t.Fatalf("decide on %s: %d %s", pending.body, a.status, a.body)
		}
		b.rests(session, turn)
	}
	b.turn("tour", "t1", "What can you do?")
	b.turn("tour", "t2", "Which modes are there, what is each of them for, and which one should I take to write down a decision?")
	decide("tour", "t2", "approve")
	b.turn("tour", "t3", "Write down why we chose PostgreSQL")
	decide("tour", "t3", "switch")
	b.turn("approval", "t1", "List the modes")
	b.turn("consent", "t1", "Build a release pipeline")
	b.do("POST", "/v1/sessions", `{"sessionId":"client-tools","tools":[{"type":"function","name":"read_file","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}]}`)
	b.turn("client-tools", "t1", "Summarise docs/design.md")
	b.do("POST", "/v1/agent/execute", `{"sessionId":"failed","turnId":"t1","instruction":"Explain the failure"}`)
	b.do("POST", "/v1/sessions", `{"sessionId":"new","mode":"workflow_authoring"}`)
}

// rests waits for a turn's rest.
func (b *tab) rests(session, turn string) {
	b.t.Helper()
	b.do("GET", "/v1/sessions/"+session+"/turns/"+turn+"/events", "")
}

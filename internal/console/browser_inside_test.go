package console_test

import (
	"fmt"
	"testing"

	"github.com/aptixhq/aptix/internal/llm/llmtest"
)

func TestBrowser_RequestsAndTheirDifference(t *testing.T) {
	b := newTab(t,
		llmtest.Reply{Calls: []llmtest.Call{{Name: "agent_list_modes", Arguments: `{}`}}},
		llmtest.Reply{Text: "Three."},
	)
	b.do("POST", "/v1/sessions", `{"sessionId":"s1"}`)
	b.open("/sessions/s1")
	b.write("[data-send] textarea", "Which modes?\r")
	b.is(`document.querySelector('[data-decide=approve]')`)
	b.click("[data-decide=approve]")
	b.shows(".md", "Three.")
	b.shows(".foot", "tokens") // the turn is over, and what is shown of it stays
	b.click(".foot a")
	b.shows("h1", "Which modes?")
	b.shows(".waterfall", "Model call 2")
	b.shows(".waterfall", "Waits for the user")
	b.is(`document.querySelectorAll('.waterfall rect.model').length === 2 && document.querySelectorAll('.pair pre').length === 4`)
	b.shows(".pair pre", "You are Aptix.")

	// What the links give are the bytes that the hashes are of.
	for _, form := range []string{"canonical", "wire"} {
		b.is(fmt.Sprintf(`(async () => {
			const link = document.querySelector('a[href$="/%s"]');
			const bytes = await (await fetch(link.href)).arrayBuffer();
			const sum = [...new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))].map((b) => b.toString(16).padStart(2, "0")).join("");
			window.sum_%[1]s = sum;
		})() || true`, form))
		b.is(fmt.Sprintf(`[...document.querySelectorAll('.pair code[title]')].some((c) => c.title === window.sum_%s)`, form))
	}

	b.click("form[action$='/diff'] button")
	b.shows("h1", "Call 1 → call 2, as sent to the provider")
	b.shows(".diff .add", "function_call_output")
	b.is(`document.querySelector('.diff .at')`)
}

func TestBrowser_Catalogue(t *testing.T) {
	b := newTab(t)
	b.open("/modes")
	b.shows(".cards", "General")
	b.shows(".tool", "agent_change_mode")
	b.open("/modes/general")
	b.shows(".pair", "You are Aptix.")
	b.click("form[action$='/diff'] button")
	b.shows(".diff .add", "ddr_authoring")
	// A mode that no session is in shows what the first turn of one would send.
	b.open("/modes/workflow_authoring")
	b.shows(".pair", "Current mode: workflow_authoring")
	b.click(".button.first")
	b.is(`document.querySelector("#mode").value === "workflow_authoring"`)
}

func TestBrowser_LiveIsLive(t *testing.T) {
	hold := make(chan struct{})
	b := newTab(t, llmtest.Reply{Text: "It takes its time.", Block: hold, BlockAfter: 5})
	b.open("/live")
	b.shows(".empty", "No session has a turn yet")
	b.do("POST", "/v1/sessions", `{"sessionId":"s1"}`)
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.do("POST", "/v1/agent/execute", `{"sessionId":"s1","turnId":"t1","instruction":"Go"}`)
	}()
	b.shows("tbody", "running")
	close(hold)
	<-done
	b.shows("tbody", "completed")

	// A server that is away is told of, and forgotten when it is back.
	b.allow("ERR_CONNECTION_REFUSED")
	b.allow("ERR_EMPTY_RESPONSE")
	b.kill()
	b.shows("#alert", "The server cannot be reached.")
	b.start()
	b.is("document.querySelector('#alert').hidden")
}

// Turns that wait for one another are all followed, more of them than a browser has
// connections.
func TestBrowser_Queue(t *testing.T) {
	const n = 8
	hold := make(chan struct{})
	script := []llmtest.Reply{{Text: "Answer number 1.", Block: hold, BlockAfter: 5}}
	for i := 2; i <= n; i++ {
		script = append(script, llmtest.Reply{Text: fmt.Sprintf("Answer number %d.", i)})
	}
	b := newTab(t, script...)
	b.do("POST", "/v1/sessions", `{"sessionId":"s1","concurrency":"queue"}`)
	b.open("/sessions/s1")
	for i := 1; i <= n; i++ {
		b.write("[data-send] textarea", fmt.Sprintf("Question %d\r", i))
		b.is(fmt.Sprintf("document.querySelectorAll('article.turn').length === %d", i))
	}
	b.shows(".working", "Waits until the session is free")
	close(hold)
	b.shows(".md", fmt.Sprintf("Answer number %d.", n))
	b.is("!document.querySelector('.working')")
}

// Nothing that an answer, a user or a tool writes runs, loads or leads astray. It holds row
// S-28 of docs/security.md.
func TestBrowser_HostileText(t *testing.T) {
	const hostile = `<script>window.pwned = 1</script>
<img src=x onerror="window.pwned = 2">
<svg onload="window.pwned = 3"><script>window.pwned = 4</script></svg>
<iframe srcdoc="<script>parent.pwned = 5</script>"></iframe>
<form action="http://evil.example/"><button>send</button></form>
<style>body { display: none }</style>
<b data-hx-get="/sign-out" hx-get="/live" hx-trigger="load" data-decide="approve">bold</b>

[click](javascript:window.pwned=6) [data](data:text/html,<script>window.pwned=7</script>) [tab](java	script:alert(1))
![pixel](http://evil.example/pixel.png) ![x](javascript:alert(1)) <javascript:alert(1)> <http://evil.example/auto>
[ref]: javascript:window.pwned=8

[ref] **after** "quotes' & <https://evil.example/?a=b&c="onmouseover="x>`
	b := newTab(t, llmtest.Reply{Text: hostile, Calls: []llmtest.Call{{Name: "agent_list_modes", Arguments: `{"x":"<img src=x onerror=window.pwned=9>"}`}}},
		llmtest.Reply{Text: hostile})
	b.do("POST", "/v1/sessions", `{"sessionId":"s1"}`)
	b.open("/sessions/s1")
	b.set("[data-send] textarea", hostile)
	b.write("[data-send] textarea", "\r")
	b.shows(".foot", "completed")
	b.shows(".md", "after")
	for _, path := range []string{"/sessions/s1", "/", "/live", "/sessions/s1/history"} {
		b.open(path)
		b.is("document.querySelector('main')")
		if pwned := eval[any](b, "window.pwned"); pwned != nil {
			t.Errorf("%s: something ran: %v", path, pwned)
		}
	}
	b.open("/sessions/s1")
	b.shows(".md", "<script>window.pwned = 1</script>") // it is shown as the text that it is
	b.click("article:last-of-type .tool summary")
	harmless := `![...document.querySelectorAll('article *')].some((e) =>
		['SCRIPT', 'IMG', 'SVG', 'IFRAME', 'FORM', 'STYLE', 'OBJECT', 'LINK', 'META'].includes(e.tagName.toUpperCase()) ||
		[...e.attributes].some((a) => a.name.startsWith('on') || a.name.includes('hx-') || a.name === 'style') ||
		e.tagName === 'A' && !/^(https?|mailto):/.test(e.href))`
	b.is(harmless)
	b.is(`document.querySelector('.md [data-decide]') === null`)
	// Every link is clicked but those that lead away on purpose.
	b.is(`[...document.querySelectorAll('.md .nolink')].map((e) => e.click()).length >= 4`)
	if pwned := eval[any](b, "window.pwned"); pwned != nil {
		t.Errorf("a click ran something: %v", pwned)
	}
}

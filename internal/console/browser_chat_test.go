package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/aptixhq/aptix/internal/llm/llmtest"
)

func TestBrowser_Chat(t *testing.T) {
	hold := make(chan struct{})
	b := newTab(t,
		llmtest.Reply{Text: "# Two things\n\n- **one** and `two`\n- [a link](https://example.com/x)\n\n| a | b |\n|---|---|\n| 1 | 2 |"},
		llmtest.Reply{Text: "A second answer that comes in pieces.", Block: hold, BlockAfter: 8},
	)
	b.open("/")
	b.shows(".empty", "No sessions yet")
	b.write("[data-start] textarea", "What can you do?")
	b.click("[data-start] button")
	// The answer is Markdown, rendered, with links that give nothing away.
	b.shows(".md h3", "Two things")
	b.is(`document.querySelector('.md strong') && document.querySelector('.md td')`)
	b.is(`document.querySelector('.md a').rel === 'noopener noreferrer' && document.querySelector('.md a').target === '_blank'`)
	b.shows(".foot", "completed")

	// The next one is sent with Enter, and shows while it comes.
	b.write("[data-send] textarea", "And then?\r")
	b.shows(".stream", "A second answer")
	b.is(`document.querySelector('#turns').getAttribute('aria-busy') === 'true'`)
	close(hold)
	b.shows("article:last-of-type .md", "A second answer that comes in pieces.")
	b.is(`document.querySelectorAll('article.turn').length === 2 && !document.querySelector('.working')`)
	b.shows("#status", "The answer is complete.")

	// The list knows the session by what it began with, and finds it by its mode.
	b.open("/")
	b.shows(".sessions li", "What can you do?")
	b.write("#q", "workflow")
	b.shows("#session-list", "No session has “workflow”")
	b.set("#q", "")
	b.write("#q", "GENERAL")
	b.shows(".sessions li", "What can you do?")
}

// Who hears of a turn late is shown its answer once: what the journal has is not added from
// the stream again.
func TestBrowser_LateReader(t *testing.T) {
	hold := make(chan struct{})
	b := newTab(t, llmtest.Reply{Calls: []llmtest.Call{{Name: "no_such_tool"}}}, llmtest.Reply{Text: "Said once.", Block: hold})
	b.do("POST", "/v1/sessions", `{"sessionId":"s1"}`)
	b.open("/sessions/s1")
	b.is(`window.real = window.fetch, window.fetch = async (url, options) => {
		while (String(url).endsWith("/events") && !window.over) await new Promise((done) => setTimeout(done, 20));
		return window.real(url, options);
	}`)
	b.write("[data-send] textarea", "Tell me\r")
	b.shows(".foot", "running")
	close(hold)
	b.is(`(window.real(location.pathname.replace("/sessions", "/v1/sessions") + "/turns").then((a) => a.text()).then((t) => { window.over = t.includes("completed"); }), window.over)`)
	b.shows(".md", "Said once.")
	b.shows("#status", "The answer is complete.")
	if text := eval[string](b, "document.querySelector('#turns').innerText"); strings.Count(text, "Said once.") != 1 {
		t.Errorf("the answer is not shown once:\n%s", text)
	}
}

// What a failed turn was asked can be sent again, changed or not.
func TestBrowser_SendAgain(t *testing.T) {
	b := newTab(t, llmtest.Reply{Status: 400, Body: `{"error":{"message":"Refused.","type":"invalid_request_error","param":null,"code":null}}`}, llmtest.Reply{Text: "Now it works."})
	b.do("POST", "/v1/sessions", `{"sessionId":"s1"}`)
	b.open("/sessions/s1")
	b.write("[data-send] textarea", "Explain <it>\r")
	b.shows(".notice.bad", "Refused.")
	b.click("[data-again]")
	b.is(`document.activeElement.matches("[data-send] textarea") && document.activeElement.value === "Explain <it>"`)
	b.write("[data-send] textarea", "\r")
	b.shows(".md", "Now it works.")
}

// A turn that is cancelled from the page ends, and says so.
func TestBrowser_Cancel(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	b := newTab(t, llmtest.Reply{Text: "This will never be whole.", Block: hold, BlockAfter: 5})
	b.do("POST", "/v1/sessions", `{"sessionId":"s1"}`)
	b.open("/sessions/s1")
	b.shows("[data-empty]", "Nothing was said yet")
	b.write("[data-send] textarea", "Go on for ever\r")
	b.shows(".stream", "This")
	b.click("[data-cancel]")
	b.shows(".foot", "cancelled")
	b.is(`!document.querySelector('[data-cancel]')`)
}

// The model asks to change the mode; nothing happens until the user has decided, and then
// what was decided.
func TestBrowser_ModeSwitchWithConsent(t *testing.T) {
	ask := llmtest.Reply{Text: "This is a design question.", Calls: []llmtest.Call{{Name: "agent_change_mode",
		Arguments: `{"mode":"ddr_authoring","branch":false,"reason":"A DDR is wanted."}`}}}
	b := newTab(t, ask, llmtest.Reply{Text: "Then we stay."}, ask, llmtest.Reply{Text: "Now we write a DDR."})
	b.do("POST", "/v1/sessions", `{"sessionId":"s1"}`)
	b.open("/sessions/s1")
	b.shows("#current-mode", "General")

	b.write("[data-send] textarea", "Write a DDR\r")
	b.shows(".approval", "A DDR is wanted.")
	b.shows(".foot", "waiting")
	b.click("[data-decide=stay]")
	b.shows(".md", "Then we stay.")
	b.shows(".approval", "Stayed")
	b.shows("#current-mode", "General")

	b.write("[data-send] textarea", "Really\r")
	b.is(`document.querySelector('[data-decide="switch"]')`)
	b.click(`[data-decide="switch"]`)
	b.shows(".md", "Now we write a DDR.")
	b.shows(".switched", "Mode changed from General to")
	b.shows("#current-mode", "DDR")

	// By hand, with a reason.
	b.click(".menu summary")
	b.set("#to-mode", "general")
	b.write("#reason", "Done with it.")
	b.click("[data-mode] button")
	b.shows("#current-mode", "General")

	// The strip has both, and says who and why.
	b.open("/sessions/s1/history")
	b.shows(".strip", "A DDR is wanted.")
	b.shows(".strip", "by the model, with the consent of the local user")
	b.shows(".strip", "Done with it.")
}

// A branch is a session that remembers this one.
func TestBrowser_SwitchInANewSession(t *testing.T) {
	b := newTab(t, llmtest.Reply{Text: "Noted."})
	b.turn("s1", "t1", "Remember the number 7")
	b.open("/sessions/s1")
	b.click(".menu summary")
	b.set("#to-mode", "ddr_authoring")
	b.click("[data-mode] [name=branch]")
	b.shows(".bar", "branched off s1")
	b.shows("#current-mode", "DDR")
	b.shows(".said", "Remember the number 7")
}

func TestBrowser_Approval(t *testing.T) {
	call := llmtest.Reply{Calls: []llmtest.Call{{Name: "agent_list_modes", Arguments: `{}`}}}
	b := newTab(t, call, llmtest.Reply{Text: "Denied, so be it."}, call, llmtest.Reply{Text: "There are three modes."}, call, llmtest.Reply{Text: "Still three."})
	b.do("POST", "/v1/sessions", `{"sessionId":"s1"}`)
	b.open("/sessions/s1")
	b.write("[data-send] textarea", "Which modes?\r")
	b.shows(".approval.open", "agent_list_modes")

	// It waits also for whoever opens the page later.
	b.open("/sessions/s1")
	b.shows(".approval.open", "agent_list_modes")
	b.click("[data-decide=deny]")
	b.shows(".md", "Denied, so be it.")

	b.write("[data-send] textarea", "Which modes, please?\r")
	b.is(`document.querySelector('[data-remember]')`)
	b.click("[data-remember]")
	b.shows(".md", "There are three modes.")
	b.shows("article:last-of-type .tool summary", "agent_list_modes")
	b.is(`document.querySelector('article:last-of-type .tool:not(.approval) .outcome').innerText === 'ok'`)

	// From then on nobody is asked.
	b.write("[data-send] textarea", "Again?\r")
	b.shows(".md", "Still three.")
}

// A turn that waits for tools of another client says so and can be cancelled.
func TestBrowser_ClientTools(t *testing.T) {
	b := newTab(t, llmtest.Reply{Calls: []llmtest.Call{{Name: "read_file", Arguments: `{"path":"a"}`}}})
	b.do("POST", "/v1/sessions", `{"sessionId":"s1","tools":[{"type":"function","name":"read_file","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}]}`)
	b.turn("s1", "t1", "Read a")
	b.open("/sessions/s1")
	b.shows(".notice", "read_file")
	b.click("[data-cancel]")
	b.shows(".foot", "cancelled")
	b.is(`!document.querySelector('.notice')`)
}

// The server is killed under a turn that streams. The page goes on when it is there again,
// with what the new process says, and nothing twice.
func TestBrowser_ResumeAfterARestart(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	b := newTab(t,
		llmtest.Reply{Text: "The first half is lost with the process.", Block: hold, BlockAfter: 8},
		llmtest.Reply{Text: "The whole answer, after the restart."},
	)
	b.do("POST", "/v1/sessions", `{"sessionId":"s1"}`)
	b.open("/sessions/s1")
	b.write("[data-send] textarea", "Tell me\r")
	b.shows(".stream", "The first")
	b.allow("ERR_CONNECTION_REFUSED")
	b.allow("ERR_INCOMPLETE_CHUNKED_ENCODING")
	b.allow("ERR_CONNECTION_RESET")
	b.allow("ERR_EMPTY_RESPONSE")
	b.kill()
	b.shows(".working", "Connection lost")
	b.start()
	b.shows(".md", "The whole answer, after the restart.")
	b.shows(".note", "The server was started anew")
	b.shows(".foot", "completed")
	if text := eval[string](b, "document.querySelector('#turns').innerText"); strings.Contains(text, "first half") {
		t.Errorf("what the lost process said still stands:\n%s", text)
	}
}

// What cannot be done is told, and what was typed is kept.
func TestBrowser_RefusalIsTold(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	b := newTab(t, llmtest.Reply{Text: "One two three four five.", Block: hold, BlockAfter: 5})
	b.do("POST", "/v1/sessions", `{"sessionId":"s1"}`)
	b.open("/sessions/s1")
	b.write("[data-send] textarea", "First\r")
	b.shows(".stream", "One")
	b.allow("409")
	b.write("[data-send] textarea", "Second\r")
	b.shows("#alert", "is still active")
	b.is(`document.querySelector('[data-send] textarea').value.trim() === 'Second'`)
	b.click("#alert button")
	b.is(`document.querySelector('#alert').hidden`)
}

// Everything is done with the keyboard alone, and at each stop one sees where one is.
func TestBrowser_Keyboard(t *testing.T) {
	b := newTab(t, llmtest.Reply{Calls: []llmtest.Call{{Name: "agent_list_modes", Arguments: `{}`}}}, llmtest.Reply{Text: "Three."})
	b.open("/")
	b.press(kb.Tab)
	b.is("document.activeElement.matches('.skip') && document.activeElement.getBoundingClientRect().left >= 0")
	b.press(kb.Enter)
	b.is("document.activeElement.id === 'main'")
	b.tabTo("[data-start] textarea")
	b.press("Which modes?")
	b.tabTo("[data-start] button")
	b.press(kb.Enter)
	b.is("document.querySelector('[data-decide=approve]')")
	b.tabTo(".menu summary")
	b.press(" ")
	b.is("document.querySelector('.menu').open")
	b.tabTo("#reason")
	b.tabTo("[data-decide=approve]")
	b.press(kb.Enter)
	b.shows(".md", "Three.")
	b.is("document.activeElement.matches('article.turn')") // where the button was
	b.tabTo(".tool:not(.approval) summary")
	b.press(kb.Enter)
	b.shows(".tool pre", "workflow_authoring")
	b.tabTo("[data-send] textarea")
}

func (b *tab) press(keys string) { b.t.Helper(); b.act(chromedp.KeyEvent(keys)) }

// tabTo presses Tab until an element has the focus.
func (b *tab) tabTo(css string) {
	b.t.Helper()
	for range 80 {
		b.press(kb.Tab)
		if eval[bool](b, "document.activeElement !== document.body && getComputedStyle(document.activeElement).outlineStyle === 'none'") {
			b.t.Errorf("nobody sees where the focus is: %s", eval[string](b, "document.activeElement.outerHTML.slice(0, 200)"))
		}
		if eval[bool](b, fmt.Sprintf("document.activeElement.matches(%s)", quoted(css))) {
			return
		}
	}
	b.t.Fatalf("Tab never comes to %s", css)
}

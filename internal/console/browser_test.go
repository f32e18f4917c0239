package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	devlog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/server"
)

// requireChromium is the variable that, set to 1, turns a browser that is not there into a
// failure.
const requireChromium = "APTIX_REQUIRE_CHROMIUM"

// patience bounds every wait for the browser. A machine under load is slow.
const patience = 30 * time.Second

// tab is a page in a headless Chromium, and what it did that it must not.
type tab struct {
	*rig
	ctx context.Context

	mu sync.Mutex // guards the following
	// foreign are requests to other hosts, faults what the browser complained of.
	foreign, faults []string
	requests        int
	// allowed is a part of faults that a test brings about on purpose.
	allowed []string
}

// newTab starts a server on which nobody has to sign in, and a browser of its own.
func newTab(t *testing.T, script ...llmtest.Reply) *tab {
	t.Helper()
	return newTabAt(t, nil, script...)
}

func newTabAt(t *testing.T, auth server.Authenticator, script ...llmtest.Reply) *tab {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv(requireChromium) == "1" {
			t.Fatalf("%v, and %s=1 asks for it", err, requireChromium)
		}
		t.Skipf("WARNING: no browser, so the console is not tested in one: %v; scripts/test installs it on Debian", err)
	}
	b := &tab{rig: newRig(t, auth, script...)}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("disable-component-update", true), chromedp.Flag("no-proxy-server", true))
	allocated, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	var cancel context.CancelFunc
	b.ctx, cancel = chromedp.NewContext(allocated)
	t.Cleanup(cancel)
	if err := chromedp.Listen(b.ctx, b.watch); err != nil {
		t.Fatal(err)
	}
	b.act(command(network.Enable, network.EnableParams{}), command(devlog.Enable, cdp.Empty{}), chromedp.EmulateViewport(1280, 800))
	t.Cleanup(b.verdict)
	return b
}

// command is a command of the DevTools protocol of which only the failure counts.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, c, params)
		return chromedp.Void{}, err
	}
}

// watch sees every event of the page.
func (b *tab) watch(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests++
		u, err := url.Parse(e.Request.URL)
		if err != nil || u.Host != b.addr && u.Scheme != "data" && u.Scheme != "about" {
			b.foreign = append(b.foreign, e.Request.URL)
		}
	case *runtime.EventExceptionThrown:
		b.faults = append(b.faults, "exception: "+e.ExceptionDetails.Text)
	case *devlog.EventEntryAdded:
		if e.Entry.Level == "error" {
			b.faults = append(b.faults, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	}
}

// verdict fails the test when the page asked another host for anything, or when the browser
// complained of it: a script or style that the policy refused, an exception, a missing file.
func (b *tab) verdict() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.requests == 0 {
		b.t.Error("no request was seen: the network is not watched")
	}
	for _, u := range b.foreign {
		b.t.Errorf("a request left for another host: %s", u)
	}
faults:
	for _, f := range b.faults {
		for _, a := range b.allowed {
			if strings.Contains(f, a) {
				continue faults
			}
		}
		b.t.Errorf("the browser complains: %s", f)
	}
}

// allow expects the browser to complain of something.
func (b *tab) allow(part string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.allowed = append(b.allowed, part)
}

// act does things in the page, one after the other.
func (b *tab) act(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	for _, a := range actions {
		ctx := b.ctx
		if c := chromedp.FromContext(b.ctx); c != nil && c.Target != nil { // the first one starts the browser, which lives as long as its context
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(b.ctx, patience)
			defer cancel()
		}
		err := chromedp.Do(ctx, a)
		for err != nil && strings.Contains(err.Error(), "Could not find node") && ctx.Err() == nil {
			// The page has put another in its place since it was looked for, and nothing was done.
			time.Sleep(10 * time.Millisecond)
			err = chromedp.Do(ctx, a)
		}
		if err != nil {
			b.t.Fatalf("in the browser: %v\n%s", err, b.text())
		}
	}
}

func (b *tab) open(path string) { b.t.Helper(); b.act(chromedp.Navigate("http://" + b.addr + path)) }

func (b *tab) click(css string) { b.t.Helper(); b.act(chromedp.Click(chromedp.CSS(css))) }

func (b *tab) write(css, text string) {
	b.t.Helper()
	b.act(chromedp.SendKeys(chromedp.CSS(css), text))
}

// set gives a field a value, as a choice or a paste does.
func (b *tab) set(css, value string) {
	b.t.Helper()
	b.is(fmt.Sprintf(`((e) => { e.value = %s; e.dispatchEvent(new Event("input", { bubbles: true })); return true; })(document.querySelector(%s))`, quoted(value), quoted(css)))
}

// is waits until a JavaScript condition holds. It may break off while a page is changed.
func (b *tab) is(condition string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(30 * time.Millisecond) {
		held, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+condition+")"))
		if err == nil && held {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("this never held: %s (%v)\nthe page: %s", condition, err, b.text())
		}
	}
}

// shows waits until the text of an element holds what it should.
func (b *tab) shows(css, text string) {
	b.t.Helper()
	b.is(fmt.Sprintf("[...document.querySelectorAll(%s)].some((e) => e.innerText.includes(%s))", quoted(css), quoted(text)))
}

// text is what the page shows, for the messages of failures.
func (b *tab) text() string { return eval[string](b, "document.body ? document.body.innerText : ''") }

// eval asks the page for a value; the zero value when it has none.
func eval[T any](b *tab, expression string) T {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, _ := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	return v
}

// look sets what the reader prefers, and the size of the window.
func (b *tab) look(scheme string, width, height int64) {
	b.t.Helper()
	b.act(chromedp.EmulateViewport(width, height), command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}}))
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil { // strings are always JSON
		return `""`
	}
	return string(b)
}

package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
)

// door lets everybody in until it is shut; then keys does.
type door struct{ shut atomic.Bool }

func (d *door) Open() bool { return !d.shut.Load() }

func (d *door) Authenticate(r *http.Request) (agent.Caller, error) {
	if d.Open() {
		return agent.Local(), nil
	}
	return keys{}.Authenticate(r)
}

// Where nobody authenticates a browser sees no page before it has shown the token, and
// programs need none. It holds row S-1 of docs/security.md.
func TestToken_EveryPageNeedsIt(t *testing.T) {
	r := newRig(t, &door{}, llmtest.Reply{Text: "Hello"})
	r.turn("s1", "t1", "Hi")
	cookie := r.showToken()
	for _, p := range allPages(t) {
		if p.Public {
			continue
		}
		path := pathOf(p)
		for _, header := range [][]string{nil, {"Cookie", r.cookieName() + "=guessed"}, {"Cookie", r.cookieName() + "=" + r.token}, {"Authorization", "Bearer " + r.token}} {
			if a := r.do(p.Method, path, "", header...); a.status != http.StatusSeeOther || !strings.HasPrefix(a.header.Get("Location"), "/sign-in?") {
				t.Errorf("%s %s with %v: got %d to %q", p.Method, path, header, a.status, a.header.Get("Location"))
			}
		}
		if a := r.do(p.Method, path, "", "Cookie", cookie); a.status == http.StatusSeeOther {
			t.Errorf("%s %s with the cookie: led to %q", p.Method, path, a.header.Get("Location"))
		}
	}
	if a := r.do("GET", "/sessions/s1", "", "Cookie", cookie); a.status != 200 || !strings.Contains(a.body, "Hello") || strings.Contains(a.body, "/sign-out") {
		t.Errorf("a page with the cookie: %d\n%s", a.status, a.body)
	}
	if a := r.do("GET", "/v1/sessions", ""); a.status != 200 {
		t.Errorf("the API without the cookie: %d", a.status)
	}
}

// showToken opens the address that the server prints and returns the cookie.
func (r *rig) showToken() string {
	r.t.Helper()
	a := r.do("GET", "/?token="+r.token, "")
	set := a.header.Get("Set-Cookie")
	cookie, attributes, _ := strings.Cut(set, ";")
	if a.status != http.StatusSeeOther || a.header.Get("Location") != "/" || strings.Contains(a.body+set, r.token) {
		r.t.Fatalf("the printed address: %d %v\n%s", a.status, a.header, a.body)
	}
	if !strings.Contains(attributes, "HttpOnly") || !strings.Contains(attributes, "SameSite=Strict") {
		r.t.Errorf("cookie %s", set)
	}
	return cookie
}

func TestToken_WaysIn(t *testing.T) {
	r := newRig(t, &door{})
	if a := r.do("GET", "/sessions/s1?token="+r.token+"&before=5", ""); a.header.Get("Location") != "/sessions/s1?before=5" || a.header.Get("Set-Cookie") == "" {
		t.Errorf("another page with the token: %d %v", a.status, a.header)
	}
	if a := r.do("GET", "/sign-in", ""); a.status != 200 || !strings.Contains(a.body, "Open the address that it printed") || strings.Contains(a.body, r.token) || strings.Contains(a.body, "API key") {
		t.Errorf("the form: %d\n%s", a.status, a.body)
	}
	form := func(token string, header ...string) answer {
		return r.do("POST", "/sign-in", url.Values{"key": {token}, "next": {"/modes"}}.Encode(), header...)
	}
	if a := form(r.token + "\n"); a.status != http.StatusSeeOther || a.header.Get("Location") != "/modes" || a.header.Get("Set-Cookie") == "" {
		t.Errorf("the form with the token: %d %v", a.status, a.header)
	}
	if a := form(r.token, "Sec-Fetch-Site", "same-site"); a.status != http.StatusForbidden || a.header.Get("Set-Cookie") != "" {
		t.Errorf("the form of a page at another port: %d", a.status)
	}
	for _, wrong := range []string{"", "x", r.token + "x", r.token[1:], strings.ToLower(r.token)} {
		if a := form(wrong); a.status != http.StatusUnprocessableEntity || a.header.Get("Set-Cookie") != "" || !strings.Contains(a.body, `aria-invalid="true"`) {
			t.Errorf("token %q: %d %v", wrong, a.status, a.header)
		}
	}
	before := r.token
	r.kill()
	r.start()
	if r.token == before {
		t.Error("the next start has the same token")
	}
	if a := r.do("GET", "/?token="+before, ""); a.status != http.StatusUnprocessableEntity || a.header.Get("Set-Cookie") != "" {
		t.Errorf("the token of the start before: %d", a.status)
	}
}

// Whoever guesses is held up, and who has the token is not. It holds row S-14 of
// docs/security.md.
func TestToken_GuessesAreHeldUp(t *testing.T) {
	r := newRig(t, &door{})
	guesses := 0
	for a := r.do("GET", "/?token=wrong", ""); a.status != http.StatusTooManyRequests; a = r.do("GET", "/?token=wrong", "") {
		if guesses++; a.status != http.StatusUnprocessableEntity || guesses > 1000 {
			t.Fatalf("guess %d: %d", guesses, a.status)
		}
	}
	if a := r.do("POST", "/sign-in", "key=wrong"); a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" {
		t.Errorf("the form: %d %v", a.status, a.header)
	}
	r.showToken()
}

// The first key ends the token and what was signed in with it.
func TestToken_EndsWithTheFirstKey(t *testing.T) {
	d := &door{}
	r := newRig(t, d)
	token, cookie := r.token, r.showToken()
	d.shut.Store(true)
	for _, path := range []string{"/", "/v1/sessions"} {
		if a := r.do("GET", path, "", "Cookie", cookie); a.status == 200 {
			t.Errorf("%s takes the cookie", path)
		}
	}
	if a := r.do("GET", "/?token="+token, ""); a.header.Get("Set-Cookie") != "" {
		t.Error("the token is taken")
	}
	if a := r.do("POST", "/sign-in", "key="+token); a.status != http.StatusUnprocessableEntity {
		t.Errorf("the form takes the token: %d", a.status)
	}
	if a := r.do("GET", "/sign-in", ""); !strings.Contains(a.body, "API key") {
		t.Errorf("the form asks for something else:\n%s", a.body)
	}
}

func TestBrowser_Token(t *testing.T) {
	b := newTabAt(t, &door{}, llmtest.Reply{Text: "Hello there."})
	b.turn("s1", "t1", "Hi")
	b.open("/sessions/s1")
	b.shows("main", "Open the address that it printed")
	b.set("#key", b.token)
	b.click("form.stack button")
	b.shows("main", "Hello there.")
	b.act(command(network.ClearBrowserCookies, cdp.Empty{}))
	b.open("/?token=" + b.token)
	b.is(`location.pathname + location.search === "/"`)
	b.shows("main", "Search sessions")
	b.is(`document.cookie === ""`)
}

package console_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/console"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/server"
	"github.com/aptixhq/aptix/internal/tool"
)

const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func TestPages(t *testing.T) {
	r := newRig(t, nil, llmtest.Reply{Calls: []llmtest.Call{{Name: "no_such_tool"}}}, llmtest.Reply{Text: "<b>Hello</b>"})
	r.turn("s1", "t1", "<i>Hi</i>")
	for _, tt := range []struct {
		path   string
		status int
		holds  []string
	}{
		{"/", 200, []string{"&lt;i&gt;Hi&lt;/i&gt;", `<option value="general" selected>`}},
		{"/?q=s1", 200, []string{"/sessions/s1"}},
		{"/?q=%3Cb%3E", 200, []string{"No session has “&lt;b&gt;”"}},
		{"/?cursor=nonsense", 400, []string{"This cursor is not one of this list"}},
		{"/sessions/s1", 200, []string{"&lt;b&gt;Hello&lt;/b&gt;", `data-turn="t1"`, "no_such_tool", `id="current-mode">General<`}},
		{"/sessions/s1?before=1", 200, []string{"Nothing was said yet"}},
		{"/sessions/s1?before=x", 400, []string{"before must be the number of a turn"}},
		{"/sessions/none", 404, []string{"Not found", "Back to the sessions"}},
		{"/sessions/%3Cb%3E", 404, []string{"There is no such session."}},
		{"/sessions/s1/bar", 200, []string{"Change the mode to"}},
		{"/sessions/s1/history", 200, []string{"The session began", "&lt;i&gt;Hi&lt;/i&gt;"}},
		{"/sessions/none/history", 404, nil},
		{"/sessions/s1/turns/t1", 200, []string{"Model call 1", "You are Aptix.", "calls/2/wire"}},
		{"/sessions/s1/turns/none", 404, nil},
		{"/sessions/none/turns/t1", 404, nil},
		{"/sessions/s1/turns/t1/card", 200, []string{`data-after="`}},
		{"/sessions/s1/turns/t1/calls/1/canonical", 200, []string{`{"model":"test-model"`}},
		{"/sessions/s1/turns/t1/calls/3/canonical", 404, nil},
		{"/sessions/s1/turns/t1/calls/x/canonical", 404, nil},
		{"/sessions/s1/turns/t1/calls/1/other", 404, nil},
		{"/sessions/s1/turns/t1/diff?from=1&to=2&form=wire", 200, []string{`class="add"`}},
		{"/sessions/s1/turns/t1/diff?from=1&to=1&form=wire", 200, []string{"They are the same."}},
		{"/sessions/s1/turns/t1/diff?from=1&to=9&form=wire", 404, nil},
		{"/modes", 200, []string{"agent_change_mode"}},
		{"/modes/general", 200, []string{"Current mode: general"}},
		{"/modes/none", 404, nil},
		{"/modes/general/diff?to=ddr_authoring", 200, []string{`class="add"`}},
		{"/modes/general/diff?to=none", 404, nil},
		{"/live", 200, []string{"Completed</dt><dd>1</dd>"}},
		{"/assets/console.css", 200, nil},
		{"/assets/none.css", 404, nil},
		{"/assets/htmx.LICENSE", 404, nil},
		{"/sign-in", 404, nil}, // nobody has to
	} {
		a := r.do("GET", tt.path, "")
		if a.status != tt.status {
			t.Errorf("%s: got %d, want %d\n%s", tt.path, a.status, tt.status, a.body)
		}
		for _, text := range tt.holds {
			if !strings.Contains(a.body, text) {
				t.Errorf("%s does not hold %q:\n%s", tt.path, text, a.body)
			}
		}
		if strings.HasPrefix(a.header.Get("Content-Type"), "text/html") && a.header.Get("Content-Security-Policy") != pagePolicy {
			t.Errorf("%s: policy %q", tt.path, a.header.Get("Content-Security-Policy"))
		}
		for _, inline := range []string{"<script>", " style=", " onclick=", "<style", "http://", "https://"} {
			if strings.HasPrefix(a.header.Get("Content-Type"), "text/html") && strings.Contains(a.body, inline) {
				t.Errorf("%s holds %q", tt.path, inline)
			}
		}
	}
}

// What a mode's page shows is what the first turn of a session in it sends.
func TestMode_FirstRequest(t *testing.T) {
	r := newRig(t, nil, llmtest.Reply{Text: "Hello"})
	shown := r.do("GET", "/modes/workflow_authoring", "").body
	r.do("POST", "/v1/sessions", `{"sessionId":"s1","mode":"workflow_authoring"}`)
	r.turn("s1", "t1", "What can you do?")
	sent := r.do("GET", "/sessions/s1/turns/t1", "").body
	for _, form := range []string{"Canonical", "Wire"} {
		got, want := requestShown(shown, form), requestShown(sent, form)
		if got != want || !strings.Contains(got, "workflow_authoring") {
			t.Errorf("%s request of the mode:\n%s\nwas sent as\n%s", form, got, want)
		}
	}
}

// requestShown is the first request of a form on a page.
func requestShown(page, form string) string {
	_, rest, _ := strings.Cut(page, `aria-label="`+form+` request`)
	_, rest, _ = strings.Cut(rest, ">")
	text, _, _ := strings.Cut(rest, "</pre>")
	return text
}

// Cost is shown wherever tokens are, of models that have a price.
func TestPages_Cost(t *testing.T) {
	r := newRig(t, nil, llmtest.Reply{Text: "Hello"})
	r.turn("s1", "t1", "Hi")
	for path, want := range map[string]string{"/sessions/s1": "cost 0.00", "/sessions/s1/history": "<dt>Cost</dt><dd>0.00", "/sessions/s1/turns/t1": "<dt>Cost</dt><dd>0.00", "/live": "<dt>Cost</dt><dd>0.00"} {
		if a := r.do("GET", path, ""); !strings.Contains(a.body, want) {
			t.Errorf("%s does not hold %q:\n%s", path, want, a.body)
		}
	}
}

// No page changes anything: there is none that takes another method.
func TestPages_AreForReading(t *testing.T) {
	r := newRig(t, nil, llmtest.Reply{Text: "Hello"})
	r.turn("s1", "t1", "Hi")
	before := r.do("GET", "/v1/sessions/s1/turns", "").body
	for _, path := range []string{"/", "/sessions", "/sessions/s1", "/sessions/s1/turns/t1", "/sessions/s1/turns/t1/card", "/modes", "/live"} {
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
			if a := r.do(method, path, ""); a.status != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: got %d", method, path, a.status)
			}
		}
		r.do("GET", path, "")
	}
	if after := r.do("GET", "/v1/sessions/s1/turns", "").body; after != before {
		t.Errorf("reading changed the turns from %s to %s", before, after)
	}
}

func TestPages_Conversation(t *testing.T) {
	var script []llmtest.Reply
	for range 25 {
		script = append(script, llmtest.Reply{Text: "Yes."})
	}
	r := newRig(t, nil, script...)
	for i := range 25 {
		r.turn("s1", "t"+string(rune('a'+i)), "Say "+string(rune('a'+i)))
	}
	last := r.do("GET", "/sessions/s1", "").body
	if n := strings.Count(last, "<article"); n != 20 || strings.Contains(last, `data-turn="te"`) || !strings.Contains(last, `data-turn="ty"`) {
		t.Errorf("%d turns are shown, not the last 20", n)
	}
	_, rest, _ := strings.Cut(last, `hx-get="/sessions/s1?before=`)
	before, _, _ := strings.Cut(rest, `"`)
	first := r.do("GET", "/sessions/s1?before="+before, "", "HX-Request", "true").body
	if n := strings.Count(first, "<article"); n != 5 || !strings.Contains(first, `data-turn="ta"`) || strings.Contains(first, "<html") || strings.Contains(first, "Earlier turns") {
		t.Errorf("before %s: %d turns\n%s", before, n, first)
	}
}

func TestSessions_ArePaged(t *testing.T) {
	r := newRig(t, nil)
	for i := range 45 {
		r.do("POST", "/v1/sessions", `{"sessionId":"a`+string(rune('0'+i/10))+string(rune('0'+i%10))+`"}`)
	}
	seen := 0
	for next, pages := "/sessions?q=A", 0; next != ""; pages++ {
		if pages > 3 {
			t.Fatal("the list has no end")
		}
		a := r.do("GET", next, "")
		seen += strings.Count(a.body, "<li>")
		_, rest, _ := strings.Cut(a.body, `hx-get="`)
		next, _, _ = strings.Cut(rest, `"`)
		next = strings.ReplaceAll(next, "&amp;", "&")
	}
	if seen != 45 {
		t.Errorf("%d sessions in all, want 45", seen)
	}
	if a := r.do("GET", "/sessions?q=a07", ""); strings.Count(a.body, "<li>") != 1 {
		t.Errorf("a search for one session finds\n%s", a.body)
	}
}

// What an erased session said does not show up in one that has its names.
func TestLive_ErasedAndBegunAgain(t *testing.T) {
	r := newRig(t, nil, llmtest.Reply{Text: "Yes."}, llmtest.Reply{Text: "Yes."})
	r.do("POST", "/v1/agent/execute", `{"sessionId":"s1","turnId":"t1","instruction":"Before the erasure"}`)
	if a := r.do("GET", "/live", ""); !strings.Contains(a.body, "Before the erasure") {
		t.Fatalf("the page: %s", a.body)
	}
	r.do("DELETE", "/v1/sessions/s1", "")
	r.do("POST", "/v1/agent/execute", `{"sessionId":"s1","turnId":"t1","instruction":"After the erasure"}`)
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		a := r.do("GET", "/live", "")
		if strings.Contains(a.body, "After the erasure") {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("the page: %s", a.body)
		}
	}
}

// keys lets in one user of each of two organisations.
type keys struct{}

func (keys) Authenticate(r *http.Request) (agent.Caller, error) {
	switch r.Header.Get("Authorization") {
	case "Bearer acme-key":
		return agent.Caller{Org: "acme", User: "ann", Role: agent.RoleUser}, nil
	case "Bearer other-key":
		return agent.Caller{Org: "other", User: "bob", Role: agent.RoleUser}, nil
	}
	return agent.Caller{}, agent.Errorf(agent.KindUnauthenticated, "Send a key.").Because(errors.New("no such key"))
}

// Whatever is not public leads to the sign-in, with no credential and with a wrong one. The
// public pages are listed by hand: a new one is a decision. It holds row S-1 of
// docs/security.md.
func TestPages_NeedASignIn(t *testing.T) {
	r := newRig(t, keys{})
	open := map[string]bool{"/assets/{file}": true, "/sign-in": true, "/sign-out": true}
	for _, p := range allPages(t) {
		if p.Public != open[p.Pattern] {
			t.Errorf("%s %s: public is %t", p.Method, p.Pattern, p.Public)
		}
		if p.Public {
			continue
		}
		path := pathOf(p)
		for _, header := range [][]string{nil, {"Authorization", "Bearer wrong"}, {"Cookie", r.cookieName() + "=guessed"}} {
			if a := r.do(p.Method, path, "", header...); a.status != http.StatusSeeOther || !strings.HasPrefix(a.header.Get("Location"), "/sign-in?") {
				t.Errorf("%s %s with %v: got %d to %q", p.Method, path, header, a.status, a.header.Get("Location"))
			}
		}
	}
}

// allPages are those of a console that has a sign-in.
func allPages(t *testing.T) []server.Page {
	t.Helper()
	signIns, err := console.NewSignIns(keys{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := console.New(console.Config{Turns: noTurns{}, Sessions: noSessions{}, Catalog: mode.Builtin(), Registry: &tool.Registry{}, SignIns: signIns})
	if err != nil {
		t.Fatal(err)
	}
	return c.Pages()
}

// pathOf is one at which a page is served.
func pathOf(p server.Page) string {
	return strings.NewReplacer("{$}", "", "{sessionId}", "s1", "{turnId}", "t1", "{n}", "1", "{form}", "wire", "{key}", "general").Replace(p.Pattern)
}

// A console is asked for its pages here, and for nothing on them.
type (
	turns      = console.Turns
	noTurns    struct{ turns }
	noSessions struct{ console.Sessions }
)

func TestSignIn(t *testing.T) {
	r := newRig(t, keys{}, llmtest.Reply{Text: "The secret of acme."})
	if a := r.do("GET", "/sessions/s1", ""); a.status != http.StatusSeeOther || a.header.Get("Location") != "/sign-in?next=%2Fsessions%2Fs1" {
		t.Fatalf("without a key: %d to %q", a.status, a.header.Get("Location"))
	}
	if a := r.do("GET", "/live", "", "HX-Request", "true"); a.header.Get("HX-Redirect") != "/sign-in" || a.body != "" {
		t.Errorf("htmx without a key: %d %v", a.status, a.header)
	}
	if a := r.do("GET", "/sign-in?next=//evil.example", ""); a.status != 200 || strings.Contains(a.body, "evil") {
		t.Errorf("the form: %d\n%s", a.status, a.body)
	}
	form := func(key string, header ...string) answer {
		return r.do("POST", "/sign-in", url.Values{"key": {key}, "next": {"/modes"}}.Encode(), header...)
	}
	for _, key := range []string{"", "wrong", "acme key", "acme-key\r\nX: y"} {
		if a := form(key); a.status != http.StatusUnprocessableEntity || len(a.header["Set-Cookie"]) != 0 || !strings.Contains(a.body, `aria-invalid="true"`) {
			t.Errorf("key %q: %d %v", key, a.status, a.header["Set-Cookie"])
		}
	}
	if a := form("acme-key", "Sec-Fetch-Site", "cross-site"); a.status != http.StatusForbidden {
		t.Errorf("a form of another site: %d", a.status)
	}
	if a := r.do("POST", "/sign-in", "key="+strings.Repeat("x", 20<<10)); a.status != 400 {
		t.Errorf("a form that is too long: %d", a.status)
	}
	sign := func(key string) string {
		t.Helper()
		a := form(" " + key + "\n")
		if a.status != http.StatusSeeOther || a.header.Get("Location") != "/modes" {
			t.Fatalf("sign-in with %s: %d %v\n%s", key, a.status, a.header, a.body)
		}
		set := a.header.Get("Set-Cookie")
		cookie, attributes, _ := strings.Cut(set, ";")
		if strings.Contains(set, key) || !strings.Contains(attributes, "HttpOnly") || !strings.Contains(attributes, "SameSite=Strict") {
			t.Errorf("cookie %s", set)
		}
		return cookie
	}
	acme, other := sign("acme-key"), sign("other-key")

	// The API takes the cookie too: the pages' script has nothing else.
	if a := r.do("POST", "/v1/agent/execute", `{"sessionId":"s1","turnId":"t1","instruction":"Hi"}`, "Cookie", acme); a.status != 200 {
		t.Fatalf("a turn: %d %s", a.status, a.body)
	}
	if a := r.do("POST", "/v1/agent/execute", `{"sessionId":"s1","turnId":"t2","instruction":"Hi"}`, "Cookie", acme, "Sec-Fetch-Site", "cross-site"); a.status != http.StatusForbidden {
		t.Errorf("a turn from another site: %d", a.status)
	}
	// Each page is its caller's alone, and of another's session there is as much as of none.
	for _, path := range []string{"", "/bar", "/history", "/turns/t1", "/turns/t1/card", "/turns/t1/calls/1/wire", "/turns/t1/diff?from=1&to=1&form=wire"} {
		if a := r.do("GET", "/sessions/s1"+path, "", "Cookie", acme); a.status != 200 {
			t.Errorf("%s for its owner: %d", path, a.status)
		}
		a := r.do("GET", "/sessions/s1"+path, "", "Cookie", other, "X-Request-Id", "same")
		if none := r.do("GET", "/sessions/s9"+path, "", "Cookie", other, "X-Request-Id", "same"); a.status != 404 || a.body != strings.ReplaceAll(none.body, "s9", "s1") {
			t.Errorf("%s for another: %d\n%s", path, a.status, a.body)
		}
	}
	for _, path := range []string{"/", "/sessions", "/live"} {
		if a := r.do("GET", path, "", "Cookie", other); strings.Contains(a.body, "s1") || a.status != 200 {
			t.Errorf("%s shows another's session: %d\n%s", path, a.status, a.body)
		}
	}

	if a := r.do("POST", "/sign-out", "", "Cookie", acme); a.status != http.StatusSeeOther || !strings.Contains(a.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("sign-out: %d %v", a.status, a.header)
	}
	if a := r.do("GET", "/sessions/s1", "", "Cookie", acme); a.status != http.StatusSeeOther {
		t.Errorf("after the sign-out: %d", a.status)
	}
	if a := r.do("GET", "/v1/sessions", "", "Cookie", acme); a.status != http.StatusUnauthorized {
		t.Errorf("the API after the sign-out: %d", a.status)
	}
}

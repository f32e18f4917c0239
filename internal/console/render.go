package console

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

//go:embed templates/*.html
var templateFiles embed.FS

// policy is the Content-Security-Policy of every page: what is ours runs, nothing else,
// and nothing goes to another origin.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// templates are parsed when the first page is asked for. A template that does not parse is
// a fault of the binary, which any test of a page shows.
var templates = sync.OnceValues(func() (*template.Template, error) {
	return template.New("").Funcs(template.FuncMap{
		"asset":    func(name string) string { return "/assets/" + name + "?v=" + assetVersion() },
		"clock":    func(t time.Time) string { return t.UTC().Format("15:04:05") },
		"day":      func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") },
		"stamp":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"count":    thousands,
		"took":     took,
		"short":    func(hash string) string { return hash[:min(len(hash), 12)] },
		"words":    words,
		"money":    money,
		"person":   person,
		"choice":   func(d agent.Decision) string { return choices[d].ask },
		"verdict":  func(d agent.Decision) string { return choices[d].done },
		"markdown": markdown,
		"state":    func(s agent.TurnState) string { return stateNames[s] },
	}).ParseFS(templateFiles, "templates/*.html")
})

// page is what every whole page has.
type page struct {
	Title string
	// Nav is the section of the navigation that the page belongs to.
	Nav string
	// SignedIn tells that there is a sign-in to end.
	SignedIn bool
	// Body is the name of the template inside the frame, Data what it shows.
	Body string
	Data any
}

// show answers with a whole page.
func (c *Console) show(w http.ResponseWriter, r *http.Request, status int, p page) error {
	p.SignedIn = c.signIns.has(r)
	html, err := render("frame", framed{p, ""})
	if err != nil {
		return err
	}
	return write(w, status, html)
}

// framed is a page with its body rendered.
type framed struct {
	page
	Inner template.HTML
}

// fragment answers with a part of a page.
func fragment(w http.ResponseWriter, name string, data any) error {
	html, err := render(name, data)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, html)
}

// render runs a template; a frame's body is run first.
func render(name string, data any) ([]byte, error) {
	t, err := templates()
	if err != nil {
		return nil, fmt.Errorf("parse the console's templates: %w", err)
	}
	if f, ok := data.(framed); ok {
		inner, err := render(f.Body, f.Data)
		if err != nil {
			return nil, err
		}
		f.Inner = template.HTML(inner) // came from a template itself
		data = f
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name, data); err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	return b.Bytes(), nil
}

func write(w http.ResponseWriter, status int, html []byte) error {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	// With no-referrer a form is sent with Origin: null, which the edge refuses.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(html)))
	w.WriteHeader(status)
	_, _ = w.Write(html) // a reader who is gone misses nothing
	return nil
}

// thousands writes a number with thin spaces between its thousands.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

// took writes a duration as people say it.
func took(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// words writes a key such as switch_and_branch as words.
func words(v any) string { return strings.ReplaceAll(fmt.Sprint(v), "_", " ") }

// ago tells how long before now t was.
func ago(now, t time.Time) string {
	switch d := now.Sub(t); {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	default:
		return t.UTC().Format("2 Jan 2006")
	}
}

// choices are the decisions on a question for people: what a button says, and what was done.
var choices = map[agent.Decision]struct{ ask, done string }{
	agent.DecisionApprove: {"Approve", "Approved"}, agent.DecisionDeny: {"Deny", "Denied"},
	agent.DecisionStay: {"Stay", "Stayed"}, agent.DecisionSwitch: {"Switch", "Switched"},
	agent.DecisionSwitchAndBranch: {"Switch in a new session", "Switched in a new session"},
	agent.DecisionExpired:         {"", "Nobody decided in time"},
}

// person names a user. Where nobody signs in there is only one.
func person(u agent.UserID) string {
	if u == agent.Local().User {
		return "the local user"
	}
	return string(u)
}

// stateNames are the states of a turn for people, who do not care which of its first two it
// is in.
var stateNames = map[agent.TurnState]string{
	agent.TurnAccepted: "running", agent.TurnRunning: "running", agent.TurnWaiting: "waiting",
	agent.TurnCompleted: "completed", agent.TurnFailed: "failed", agent.TurnCancelled: "cancelled",
}

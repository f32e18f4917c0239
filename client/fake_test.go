package client_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/aptixhq/aptix/client"
)

// fake is a server that answers each request with the next handler of its script.
type fake struct {
	t      *testing.T
	script []http.HandlerFunc

	mu   sync.Mutex // guards seen
	seen []seen
}

// seen is a request as the fake received it.
type seen struct {
	Method, URI, Body, Auth, LastEventID string
}

func serve(t *testing.T, script ...http.HandlerFunc) (*client.Client, *fake) {
	t.Helper()
	f := &fake{t: t, script: script}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return connect(t, client.Config{URL: s.URL}), f
}

func connect(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	cfg.Attempts = 5
	cfg.Backoff = func(int) time.Duration { return 0 }
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		f.t.Error(err)
	}
	f.mu.Lock()
	n := len(f.seen)
	f.seen = append(f.seen, seen{r.Method, r.URL.RequestURI(), string(body),
		r.Header.Get("Authorization"), r.Header.Get("Last-Event-ID")})
	f.mu.Unlock()
	if n >= len(f.script) {
		f.t.Errorf("unexpected request %d: %s %s %s", n+1, r.Method, r.URL.RequestURI(), body)
		http.Error(w, "the script is over", http.StatusTeapot)
		return
	}
	f.script[n](w, r)
}

func (f *fake) requests() []seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		kind := "application/json"
		if status >= 400 {
			kind = "application/problem+json"
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		if body != "" {
			_, _ = io.WriteString(w, body)
		}
	}
}

// drop closes the connection without an answer.
func drop(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// sse answers with the given events. Each is "type" or "type {members}", and takes the
// next sequence from first on.
func sse(first int, events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(w, ": hello\n\nretry: 1000\n\n")
		for i, e := range events {
			_, _ = io.WriteString(w, event(first+i, e))
		}
		w.(http.Flusher).Flush()
	}
}

func event(seq int, e string) string {
	name, members := e, ""
	for i := range e {
		if e[i] == ' ' {
			name, members = e[:i], ","+e[i+1:]
			break
		}
	}
	return fmt.Sprintf("id: %d\nevent: %s\ndata: {\"type\":%q,\"sequence\":%d,\"sessionId\":\"s1\",\"turnId\":\"t1\"%s}\n\n",
		seq, name, name, seq, members)
}

// then runs handlers one after the other for the same request.
func then(hs ...http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, h := range hs {
			h(w, r)
		}
	}
}

// exampleServer asks for a tool and then answers.
func exampleServer() http.Handler {
	return &fake{t: nil, script: []http.HandlerFunc{
		sse(1, "turn.started", `text.delta "text":"I look.\n"`,
			`turn.waiting "response":{"kind":"client_tool_continuation","toolCalls":[{"toolCallId":"c1","name":"read_file","argumentsJson":"{\"path\":\"notes.md\"}"}]}`),
		sse(4, `text.delta "text":"It says: the cache forgets"`, "turn.completed"),
	}}
}

package chat_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/chat"
	"github.com/aptixhq/aptix/internal/localtools"
)

const sessionJSON = `{"sessionId":"s1","mode":"general","modeDisplayName":"General","agentContextId":"default","conversationContextId":"default",
 "version":0,"turns":3,"createdAt":"2026-01-02T03:04:05Z","updatedAt":"2026-01-02T03:04:05Z"}`

// server is a fake Aptix server: /v1/agent/execute answers from a script, the rest from
// a table.
type server struct {
	t      *testing.T
	script []http.HandlerFunc
	routes map[string]http.HandlerFunc

	mu       sync.Mutex // guards the rest
	executed []string   // bodies of /v1/agent/execute
	others   []string   // method, path and body of every other request
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	n := len(s.executed)
	execute := r.URL.Path == "/v1/agent/execute"
	if execute {
		s.executed = append(s.executed, string(b))
	} else {
		s.others = append(s.others, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(b)))
	}
	s.mu.Unlock()
	path := regexp.MustCompile(`/turns/[^/]+`).ReplaceAllString(r.URL.Path, "/turns/T") // the chat makes the id up
	switch h := s.routes[r.Method+" "+path]; {
	case execute && n < len(s.script):
		s.script[n](w, r)
	case !execute && h != nil:
		h(w, r)
	default:
		s.t.Errorf("unexpected request: %s %s %s", r.Method, r.URL.RequestURI(), b)
		http.NotFound(w, r)
	}
}

func reply(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

func refuse(status int, code, detail string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"status":%d,"code":%q,"detail":%q}`, status, code, detail)
	}
}

// stream answers with events, each "type" or "type members", from a sequence on.
func stream(from int, events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i, e := range events {
			name, members, _ := strings.Cut(e, " ")
			if members != "" {
				members = "," + members
			}
			fmt.Fprintf(w, "event: %s\nid: %d\ndata: {\"type\":%q,\"sequence\":%d,\"sessionId\":\"s1\",\"turnId\":\"t\"%s}\n\n", name, from+i, name, from+i, members)
		}
		w.(http.Flusher).Flush()
	}
}

func delta(text string) string {
	b, _ := json.Marshal(text)
	return `text.delta "text":` + string(b)
}

func completed(mode, text string) string {
	b, _ := json.Marshal(text)
	return fmt.Sprintf(`turn.completed "response":{"kind":"final","sessionId":"s1","turnId":"t","mode":%q,"modeDisplayName":"M","primaryOutputText":%s}`, mode, b)
}

// waiting takes pairs of a tool and its arguments.
func waiting(calls ...string) string { return "turn.waiting " + waitingMembers(calls...) }

func waitingMembers(calls ...string) string {
	var list []client.ToolCall
	for i := 0; i+1 < len(calls); i += 2 {
		list = append(list, client.ToolCall{ToolCallID: fmt.Sprintf("c%d", i/2+1), Name: calls[i], ArgumentsJSON: calls[i+1]})
	}
	b, _ := json.Marshal(list)
	return fmt.Sprintf(`"response":{"kind":"client_tool_continuation","sessionId":"s1","turnId":"t","mode":"general","modeDisplayName":"M","toolCalls":%s}`, b)
}

// rig is a conversation with a fake server over a directory.
type rig struct {
	*server
	t   *testing.T
	dir string
	cfg chat.Config
	out bytes.Buffer
}

func newRig(t *testing.T, script ...http.HandlerFunc) *rig {
	t.Helper()
	s := &server{t: t, script: script, routes: map[string]http.HandlerFunc{"POST /v1/sessions": reply(sessionJSON)}}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	c, err := client.New(client.Config{URL: h.URL, Backoff: func(int) time.Duration { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{server: s, t: t, dir: t.TempDir()}
	tools, err := localtools.Open(r.dir, localtools.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tools.Close() })
	r.cfg = chat.Config{Client: c, Tools: tools}
	return r
}

// say holds the conversation with these lines and returns what was shown, without the
// banner and with the machine's own names replaced.
func (r *rig) say(lines ...string) (string, error) {
	r.t.Helper()
	if r.cfg.In == nil {
		text := strings.Join(lines, "\n")
		if text != "" {
			text += "\n"
		}
		r.cfg.In = strings.NewReader(text)
	}
	r.cfg.Out = &r.out
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	err := chat.Run(ctx, r.cfg)
	out := strings.NewReplacer(r.dir, "DIR", r.cfg.Client.URL(), "URL").Replace(r.out.String())
	out = strings.TrimPrefix(out, "Session s1 at URL. The assistant may read files in DIR.\n/help lists the commands; Ctrl-C stops a turn, Ctrl-D leaves.\n")
	return strings.TrimSuffix(out, "Go on later with: aptix chat --url URL --session s1\n"), err
}

// results returns the tool results that were sent with the nth call of execute.
func (r *rig) results(n int) []client.ToolResult {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if n >= len(r.executed) {
		r.t.Fatalf("there were only %d calls of execute", len(r.executed))
	}
	var c client.ToolContinuation
	if err := json.Unmarshal([]byte(r.executed[n]), &c); err != nil {
		r.t.Fatal(err)
	}
	for i := range c.ToolResults {
		c.ToolResults[i].ExecutionMs = 0
	}
	return c.ToolResults
}

func (r *rig) file(name, content string) {
	r.t.Helper()
	if err := os.WriteFile(r.dir+"/"+name, []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func ok(result string) client.ToolResult  { return client.ToolResult{ResultJSON: &result} }
func no(message string) client.ToolResult { return client.ToolResult{ErrorMessage: &message} }
func id(n int, r client.ToolResult) client.ToolResult {
	r.ToolCallID = fmt.Sprintf("c%d", n)
	return r
}

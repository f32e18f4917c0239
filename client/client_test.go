package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/prove"
)

const final = `{"kind":"final","sessionId":"s1","turnId":"t1","mode":"ddr_authoring","modeDisplayName":"DDR",
 "primaryOutputText":"hi","usage":{"inputTokens":3,"outputTokens":2,"totalTokens":5},
 "modeChange":{"previousMode":"general","mode":"ddr_authoring","branch":true,"reason":"asked"}}`

func TestExecute_Answer(t *testing.T) {
	prove.Rule(t, "AGN011-3.4-c", "AGN011-4.6-a")
	c, f := serve(t, answer(200, final))
	got, err := c.Execute(t.Context(), client.UserTurn{SessionID: "s1", TurnID: "t1", Instruction: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	if got.Kind != client.AnswerFinal || got.PrimaryOutputText != "hi" || got.Usage.TotalTokens != 5 {
		t.Errorf("answer: %+v", got)
	}
	want := client.ModeChange{PreviousMode: "general", Mode: "ddr_authoring", Branch: true, Reason: "asked"}
	if diff := cmp.Diff(want, *got.ModeChange); diff != "" || got.Mode != "ddr_authoring" {
		t.Errorf("mode %q, change (-want +got):\n%s", got.Mode, diff)
	}
	if string(got.JSON()) != final {
		t.Errorf("JSON() is not what the server sent:\n%s", got.JSON())
	}
	// The request says nothing of a mode: the session holds it.
	want1 := []seen{{Method: "POST", URI: "/v1/agent/execute", Body: `{"sessionId":"s1","turnId":"t1","instruction":"hello"}`}}
	if diff := cmp.Diff(want1, f.requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestExecute_MakesUpIds(t *testing.T) {
	c, f := serve(t, answer(200, final))
	if _, err := c.Execute(t.Context(), client.UserTurn{Instruction: "x"}); err != nil {
		t.Fatal(err)
	}
	var sent struct{ SessionID, TurnID string }
	if err := json.Unmarshal([]byte(f.requests()[0].Body), &sent); err != nil {
		t.Fatal(err)
	}
	if len(sent.SessionID) != 36 || len(sent.TurnID) != 36 || sent.SessionID == sent.TurnID {
		t.Errorf("ids: %+v", sent)
	}
}

func TestExecute_LostConnectionSendsTheSameTurnAgain(t *testing.T) {
	half := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"kind":`))
		panic(http.ErrAbortHandler)
	}
	c, f := serve(t, drop, half,
		answer(503, `{"status":503,"code":"draining","detail":"going down"}`),
		answer(200, final))
	if _, err := c.Execute(t.Context(), client.UserTurn{Instruction: "x"}); err != nil {
		t.Fatal(err)
	}
	for i, r := range f.requests() {
		if r != f.requests()[0] {
			t.Errorf("request %d differs: %+v", i+1, r)
		}
	}
	if n := len(f.requests()); n != 4 {
		t.Errorf("got %d requests, want 4", n)
	}
}

func TestExecute_GivesUpAfterAttempts(t *testing.T) {
	c, f := serve(t, drop, drop, drop, drop, drop)
	_, err := c.Execute(t.Context(), client.UserTurn{Instruction: "x"})
	if !errors.Is(err, client.ErrConnectionLost) || len(f.requests()) != 5 {
		t.Errorf("err %v after %d requests", err, len(f.requests()))
	}
}

func TestExecute_ProblemsAreNotRepeated(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		body   string
		want   client.Problem
	}{
		"contract": {400, `{"type":"about:blank","title":"Bad Request","status":400,"detail":"2 violations","code":"invalid_request",
			"requestId":"r1","violations":[{"pointer":"/mode","rule":"AGN034-2.1-f","message":"forbidden"}]}`,
			client.Problem{Type: "about:blank", Title: "Bad Request", Status: 400, Detail: "2 violations", Code: "invalid_request", RequestID: "r1",
				Violations: []client.Violation{{Pointer: "/mode", Rule: "AGN034-2.1-f", Message: "forbidden"}}}},
		"conflict":        {409, `{"status":409,"code":"turn_in_progress","detail":"t0 runs"}`, client.Problem{Status: 409, Code: "turn_in_progress", Detail: "t0 runs"}},
		"provider failed": {502, `{"status":502,"code":"provider_failed","detail":"down"}`, client.Problem{Status: 502, Code: "provider_failed", Detail: "down"}},
		"no problem document": {404, `<html>nope</html>`,
			client.Problem{Status: 404, Detail: "the server answered 404 Not Found without saying why"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := serve(t, answer(tc.status, tc.body))
			_, err := c.Execute(t.Context(), client.UserTurn{Instruction: "x"})
			p := (*client.Problem)(nil)
			if !errors.As(err, &p) {
				t.Fatalf("not a problem: %v", err)
			}
			if diff := cmp.Diff(tc.want, *p); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if client.CodeOf(err) != tc.want.Code {
				t.Errorf("CodeOf: %q", client.CodeOf(err))
			}
		})
	}
}

func TestProblem_Error(t *testing.T) {
	p := &client.Problem{Detail: "2 violations", Code: "invalid_request", Violations: []client.Violation{
		{Pointer: "/mode", Rule: "AGN034-2.1-f", Message: "forbidden"}, {Pointer: "/x", Message: "unknown"}}}
	want := "2 violations (invalid_request)\n  /mode: forbidden [AGN034-2.1-f]\n  /x: unknown"
	if got := p.Error(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRetryAfter(t *testing.T) {
	limited := func(value string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", value)
			answer(429, `{"status":429,"code":"rate_limited"}`)(w, r)
		}
	}
	for value, want := range map[string]time.Duration{
		"7": 7 * time.Second, "": 0, "-3": 0, "soon": 0, "99999999": 24 * time.Hour,
		"Mon, 02 Jan 2006 15:04:05 GMT": 0,
	} {
		c, _ := serve(t, limited(value))
		p := (*client.Problem)(nil)
		if err := c.Ready(t.Context()); !errors.As(err, &p) || p.RetryAfter != want {
			t.Errorf("%q: got %v (%v), want %v", value, p, err, want)
		}
	}
}

func TestUnreachable_SaysSoAtOnce(t *testing.T) {
	s := httptest.NewServer(nil)
	s.Close()
	c := connect(t, client.Config{URL: s.URL})
	if _, err := c.Execute(t.Context(), client.UserTurn{Instruction: "x"}); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("Execute: %v", err)
	}
	for _, err := range c.Stream(t.Context(), client.UserTurn{Instruction: "x"}) {
		if !errors.Is(err, client.ErrUnreachable) {
			t.Errorf("Stream: %v", err)
		}
	}
}

func TestExecute_Cancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if _, err := c.Execute(ctx, client.UserTurn{Instruction: "x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestExecute_TimesOut(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server hears of a client that leaves only after that
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	c := connect(t, client.Config{URL: s.URL, TurnTimeout: time.Nanosecond})
	if _, err := c.Execute(t.Context(), client.UserTurn{Instruction: "x"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestAnswer_Bounded(t *testing.T) {
	s := httptest.NewServer(answer(200, `{"kind":"`+strings.Repeat("x", 200)+`"}`))
	t.Cleanup(s.Close)
	c := connect(t, client.Config{URL: s.URL, MaxBytes: 100})
	if _, err := c.Execute(t.Context(), client.UserTurn{Instruction: "x"}); err == nil || !strings.Contains(err.Error(), "more than 100 bytes") {
		t.Errorf("got %v", err)
	}
}

// TestCalls holds each method to the path, the body and the answer of the public
// surface.
func TestCalls(t *testing.T) {
	ctx := t.Context()
	str := func(s string) *string { return &s }
	list := func(item string) string { return `{"data":[` + item + `],"hasMore":false}` }
	tools := []client.Tool{{Name: "read_file", Description: "d", Parameters: json.RawMessage(`{"type":"object"}`)}}
	const toolJSON = `{"type":"function","name":"read_file","description":"d","parameters":{"type":"object"}}`

	for name, tc := range map[string]struct {
		call   func(c *client.Client) (any, error)
		method string
		uri    string
		body   string
		answer string
		want   string // JSON of the result
	}{
		"continue": {func(c *client.Client) (any, error) {
			return c.Continue(ctx, client.ToolContinuation{SessionID: "s1", TurnID: "t1", ToolResults: []client.ToolResult{
				{ToolCallID: "c1", ExecutionMs: 0, ResultJSON: str("{}")}, {ToolCallID: "c2", ExecutionMs: 3, ErrorMessage: str("no")}}})
		}, "POST", "/v1/agent/execute",
			`{"sessionId":"s1","turnId":"t1","toolResults":[{"toolCallId":"c1","executionMs":0,"resultJson":"{}"},{"toolCallId":"c2","executionMs":3,"errorMessage":"no"}]}`,
			`{"kind":"client_tool_continuation","sessionId":"s1","turnId":"t1","mode":"general","modeDisplayName":"General","toolCalls":[{"toolCallId":"c3","name":"n","argumentsJson":"{}"}]}`,
			`{"kind":"client_tool_continuation","sessionId":"s1","turnId":"t1","mode":"general","modeDisplayName":"General","toolCalls":[{"toolCallId":"c3","name":"n","argumentsJson":"{}"}]}`},
		"preview": {func(c *client.Client) (any, error) {
			return c.Preview(ctx, client.UserTurn{SessionID: "s1", TurnID: "t1", Instruction: "x"})
		}, "POST", "/v1/agent/preview", `{"sessionId":"s1","turnId":"t1","instruction":"x"}`,
			`{"canonical":"{}","canonicalSha256":"a","wire":"{ }","wireSha256":"b","mode":"general","tools":[{"name":"n"}]}`,
			`{"canonical":"{}","canonicalSha256":"a","wire":"{ }","wireSha256":"b","mode":"general","tools":[{"name":"n"}]}`},
		"create session": {func(c *client.Client) (any, error) {
			return c.CreateSession(ctx, client.NewSession{SessionID: "s1", Mode: "general", SystemPrompt: "p", Tools: tools})
		}, "POST", "/v1/sessions", `{"sessionId":"s1","mode":"general","systemPrompt":"p","tools":[` + toolJSON + `]}`,
			`{"sessionId":"s1","mode":"general","version":3,"turns":2,"createdAt":"2026-01-02T03:04:05Z","updatedAt":"2026-01-02T03:04:05Z"}`,
			`{"sessionId":"s1","mode":"general","version":3,"turns":2,"createdAt":"2026-01-02T03:04:05Z","updatedAt":"2026-01-02T03:04:05Z"}`},
		"session": {func(c *client.Client) (any, error) { return c.Session(ctx, "a b/../c") },
			"GET", "/v1/sessions/a%20b%2F..%2Fc", "",
			`{"sessionId":"s1","mode":"general","version":3,"turns":2,"createdAt":"2026-01-02T03:04:05Z","updatedAt":"2026-01-02T03:04:05Z"}`,
			`{"sessionId":"s1","mode":"general","version":3,"turns":2,"createdAt":"2026-01-02T03:04:05Z","updatedAt":"2026-01-02T03:04:05Z"}`},
		"sessions": {func(c *client.Client) (any, error) { return c.Sessions(ctx, client.Page{Limit: 5, Cursor: "c&d"}) },
			"GET", "/v1/sessions?cursor=c%26d&limit=5", "", `{"data":[],"hasMore":true,"nextCursor":"e"}`, `{"data":[],"hasMore":true,"nextCursor":"e"}`},
		"delete session": {func(c *client.Client) (any, error) { return nil, c.DeleteSession(ctx, "s1") },
			"DELETE", "/v1/sessions/s1", "", ``, `null`},
		"set mode": {func(c *client.Client) (any, error) { return c.SetMode(ctx, "s1", "m", "r") },
			"PUT", "/v1/sessions/s1/mode", `{"mode":"m","reason":"r"}`,
			`{"sessionId":"s1","mode":"m","version":3,"turns":2,"createdAt":"2026-01-02T03:04:05Z","updatedAt":"2026-01-02T03:04:05Z"}`,
			`{"sessionId":"s1","mode":"m","version":3,"turns":2,"createdAt":"2026-01-02T03:04:05Z","updatedAt":"2026-01-02T03:04:05Z"}`},
		"set tools": {func(c *client.Client) (any, error) { return c.SetTools(ctx, "s1", tools) },
			"PUT", "/v1/sessions/s1/tools", `{"tools":[` + toolJSON + `]}`, `{"sessionId":"s1","mode":"general","version":3,"turns":2,"createdAt":"2026-01-02T03:04:05Z","updatedAt":"2026-01-02T03:04:05Z"}`, `{"sessionId":"s1","mode":"general","version":3,"turns":2,"createdAt":"2026-01-02T03:04:05Z","updatedAt":"2026-01-02T03:04:05Z"}`},
		"no tools": {func(c *client.Client) (any, error) { return c.SetTools(ctx, "s1", nil) },
			"PUT", "/v1/sessions/s1/tools", `{"tools":[]}`, `{"sessionId":"s1","mode":"general","version":3,"turns":2,"createdAt":"2026-01-02T03:04:05Z","updatedAt":"2026-01-02T03:04:05Z"}`, `{"sessionId":"s1","mode":"general","version":3,"turns":2,"createdAt":"2026-01-02T03:04:05Z","updatedAt":"2026-01-02T03:04:05Z"}`},
		"mode history": {func(c *client.Client) (any, error) { return c.ModeHistory(ctx, "s1", client.Page{}) },
			"GET", "/v1/sessions/s1/mode-history", "",
			list(`{"previousMode":"a","mode":"b","reason":"r","turnId":"t1","at":"2026-01-02T03:04:05Z","actor":"model","org":"local","user":"local","branch":false}`),
			list(`{"previousMode":"a","mode":"b","reason":"r","turnId":"t1","at":"2026-01-02T03:04:05Z","actor":"model","org":"local","user":"local","branch":false}`)},
		"approvals": {func(c *client.Client) (any, error) { return c.Approvals(ctx, "s1", "t1") },
			"GET", "/v1/sessions/s1/turns/t1/approvals", "",
			list(`{"approvalId":"apr_1","toolCallId":"c1","name":"deploy","argumentsJson":"{}","options":["approve","deny"],"mayRemember":true,"deadline":"2026-01-02T03:04:05Z"}`),
			`[{"approvalId":"apr_1","toolCallId":"c1","name":"deploy","argumentsJson":"{}","options":["approve","deny"],"mayRemember":true,"deadline":"2026-01-02T03:04:05Z"}]`},
		"decide": {func(c *client.Client) (any, error) {
			return c.Decide(ctx, "s1", "t1", "apr_1", client.Verdict{Decision: client.DecisionApprove, Remember: true})
		}, "POST", "/v1/sessions/s1/turns/t1/approvals/apr_1", `{"decision":"approve","remember":true}`,
			`{"approvalId":"apr_1","toolCallId":"c1","name":"deploy","argumentsJson":"{}","options":["approve","deny"],"deadline":"2026-01-02T03:04:05Z","decision":"approve","remember":true,"decidedBy":"ann","decidedAt":"2026-01-02T03:04:05Z"}`,
			`{"approvalId":"apr_1","toolCallId":"c1","name":"deploy","argumentsJson":"{}","options":["approve","deny"],"deadline":"2026-01-02T03:04:05Z","decision":"approve","remember":true,"decidedBy":"ann","decidedAt":"2026-01-02T03:04:05Z"}`},
		"branch": {func(c *client.Client) (any, error) {
			return c.Branch(ctx, "s1", client.NewBranch{SessionID: "s2", Mode: "m", AtTurnID: "t1"})
		}, "POST", "/v1/sessions/s1/branch", `{"sessionId":"s2","mode":"m","atTurnId":"t1"}`,
			`{"sessionId":"s2","mode":"m","version":1,"turns":1,"createdAt":"2026-01-02T03:04:05Z","updatedAt":"2026-01-02T03:04:05Z","parent":{"sessionId":"s1","turnId":"t1"}}`,
			`{"sessionId":"s2","mode":"m","version":1,"turns":1,"createdAt":"2026-01-02T03:04:05Z","updatedAt":"2026-01-02T03:04:05Z","parent":{"sessionId":"s1","turnId":"t1"}}`},
		"turns": {func(c *client.Client) (any, error) { return c.Turns(ctx, "s1", client.Page{}) },
			"GET", "/v1/sessions/s1/turns", "",
			list(`{"turnId":"t1","state":"failed","mode":"general","ordinal":1,"createdAt":"2026-01-02T03:04:05Z","updatedAt":"2026-01-02T03:04:05Z","problem":{"code":"provider_failed"}}`),
			list(`{"turnId":"t1","state":"failed","mode":"general","ordinal":1,"createdAt":"2026-01-02T03:04:05Z","updatedAt":"2026-01-02T03:04:05Z","problem":{"code":"provider_failed"}}`)},
		"turn": {func(c *client.Client) (any, error) { return c.Turn(ctx, "s1", "t1") },
			"GET", "/v1/sessions/s1/turns/t1", "",
			`{"turnId":"t1","state":"completed","mode":"general","ordinal":1,"createdAt":"2026-01-02T03:04:05Z","updatedAt":"2026-01-02T03:04:05Z","response":{"kind":"final","sessionId":"s1","turnId":"t1","mode":"general","modeDisplayName":"General","primaryOutputText":"x"}}`,
			`{"turnId":"t1","state":"completed","mode":"general","ordinal":1,"createdAt":"2026-01-02T03:04:05Z","updatedAt":"2026-01-02T03:04:05Z","response":{"kind":"final","sessionId":"s1","turnId":"t1","mode":"general","modeDisplayName":"General","primaryOutputText":"x"}}`},
		"requests": {func(c *client.Client) (any, error) { return c.Requests(ctx, "s1", "t1") },
			"GET", "/v1/sessions/s1/turns/t1/requests", "",
			list(`{"n":1,"canonical":"{}","canonicalSha256":"a","wire":"{}","wireSha256":"b","at":"2026-01-02T03:04:05Z"}`),
			`[{"n":1,"canonical":"{}","canonicalSha256":"a","wire":"{}","wireSha256":"b","at":"2026-01-02T03:04:05Z"}]`},
		"cancel": {func(c *client.Client) (any, error) { return nil, c.Cancel(ctx, "s1", "t1") },
			"POST", "/v1/sessions/s1/turns/t1/cancel", "", `{}`, `null`},
		"modes": {func(c *client.Client) (any, error) { return c.Modes(ctx) }, "GET", "/v1/modes", "",
			list(`{"id":"i","key":"general","displayName":"General","description":"d","whenToUse":"w","systemPromptSummary":"s","isDefault":true,"status":"active","version":"v1","instructions":["x"],"tools":["t"],"humanRoleHints":[],"exampleUtterances":[],"rag":{"prefer":[],"exclude":[]}}`),
			`[{"id":"i","key":"general","displayName":"General","description":"d","whenToUse":"w","systemPromptSummary":"s","isDefault":true,"status":"active","version":"v1","instructions":["x"],"tools":["t"],"humanRoleHints":[],"exampleUtterances":[],"rag":{"prefer":[],"exclude":[]}}]`},
		"mode": {func(c *client.Client) (any, error) { return c.Mode(ctx, "general") }, "GET", "/v1/modes/general", "",
			`{"id":"i","key":"general","displayName":"General","description":"d","whenToUse":"w","systemPromptSummary":"s","isDefault":true,"status":"active","version":"v1","instructions":["x"],"tools":["t"],"humanRoleHints":[],"exampleUtterances":[],"rag":{"prefer":[],"exclude":[]}}`,
			`{"id":"i","key":"general","displayName":"General","description":"d","whenToUse":"w","systemPromptSummary":"s","isDefault":true,"status":"active","version":"v1","instructions":["x"],"tools":["t"],"humanRoleHints":[],"exampleUtterances":[],"rag":{"prefer":[],"exclude":[]}}`},
		"tools": {func(c *client.Client) (any, error) { return c.Tools(ctx) }, "GET", "/v1/tools", "",
			list(`{"name":"agent_list_modes","description":"d","usage":"u","parameters":{},"idempotent":true}`), `[{"name":"agent_list_modes","description":"d","usage":"u","parameters":{},"idempotent":true}]`},
		"usage": {func(c *client.Client) (any, error) { return c.Usage(ctx) }, "GET", "/v1/usage", "",
			`{"org":"acme","budgets":[{"of":"day","unit":"cost","limit":2.5,"spent":1,"left":1.5,"resetsAt":"2026-01-03T00:00:00Z"},{"of":"turn","unit":"tokens","limit":9}]}`,
			`{"org":"acme","budgets":[{"of":"day","unit":"cost","limit":2.5,"spent":1,"left":1.5,"resetsAt":"2026-01-03T00:00:00Z"},{"of":"turn","unit":"tokens","limit":9}]}`},
		"ready": {func(c *client.Client) (any, error) { return nil, c.Ready(ctx) }, "GET", "/readyz", "", `ok`, `null`},
	} {
		t.Run(name, func(t *testing.T) {
			c, f := serve(t, answer(200, tc.answer))
			out, err := tc.call(c)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(out)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]seen{{Method: tc.method, URI: tc.uri, Body: tc.body}}, f.requests()); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestShortListsAreReadToTheEnd(t *testing.T) {
	c, f := serve(t,
		answer(200, `{"data":[{"name":"a"}],"hasMore":true,"nextCursor":"n1"}`),
		answer(200, `{"data":[{"name":"b"}],"hasMore":false}`))
	got, err := c.Tools(t.Context())
	if err != nil || len(got) != 2 || got[1].Name != "b" || f.requests()[1].URI != "/v1/tools?cursor=n1" {
		t.Errorf("got %+v, %v after %+v", got, err, f.requests())
	}
}

func TestCreateSession_IsNotRepeated(t *testing.T) {
	c, f := serve(t, drop)
	_, err := c.CreateSession(t.Context(), client.NewSession{})
	if !errors.Is(err, client.ErrConnectionLost) || len(f.requests()) != 1 {
		t.Errorf("got %v after %d requests", err, len(f.requests()))
	}
}

func TestAPIKeyAndPrefix(t *testing.T) {
	f := &fake{t: t, script: []http.HandlerFunc{answer(200, `{}`)}}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	c := connect(t, client.Config{URL: s.URL + "/aptix/", APIKey: "k1"})
	if err := c.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]seen{{Method: "GET", URI: "/aptix/readyz", Auth: "Bearer k1"}}, f.requests()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNew_BadAddress(t *testing.T) {
	for _, u := range []string{"localhost:8080", "ftp://x", "http://", "://"} {
		if _, err := client.New(client.Config{URL: u}); err == nil {
			t.Errorf("%q was taken", u)
		}
	}
}

func TestNewID(t *testing.T) {
	seen := map[string]bool{}
	before := time.Now().UnixMilli()
	for range 1000 {
		id := client.NewID()
		if len(id) != 36 || id[14] != '7' || !strings.ContainsRune("89ab", rune(id[19])) || seen[id] {
			t.Fatalf("not a fresh UUIDv7: %s", id)
		}
		seen[id] = true
	}
	var ms int64
	for _, r := range strings.ReplaceAll(client.NewID(), "-", "")[:12] {
		ms = ms<<4 | int64(strings.IndexRune("0123456789abcdef", r))
	}
	if ms < before || ms > time.Now().UnixMilli() {
		t.Errorf("the id's time is %d", ms)
	}
}

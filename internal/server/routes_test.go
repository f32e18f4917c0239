package server

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/mode"
)

func TestRoutes_EveryOneIsClassifiedAndWhole(t *testing.T) {
	ids := map[string]bool{}
	for _, rt := range routes() {
		if err := rt.check(); err != nil {
			t.Error(err)
		}
		if ids[rt.id] {
			t.Errorf("two routes have the id %s", rt.id)
		}
		ids[rt.id] = true
	}
}

// TestMount_RefusesARouteThatNobodyClassified holds row S-1 of docs/security.md.
func TestMount_RefusesARouteThatNobodyClassified(t *testing.T) {
	whole := routes()[0]
	unclassified, invented, without := whole, whole, whole
	unclassified.class, invented.class, without.handle = 0, admin+1, nil
	for _, rt := range []route{unclassified, invented, without} {
		if _, err := newRig(t).mount([]route{rt}); err == nil || !strings.Contains(err.Error(), "POST /v1/agent/execute") {
			t.Errorf("got error %v, want one that names the route", err)
		}
	}
}

func TestNew_NeedsItsParts(t *testing.T) {
	whole := Config{Turns: &fakeTurns{}, Sessions: &fakeSessions{}, Catalog: mode.Builtin(), Registry: registry(t), Log: slog.New(slog.DiscardHandler)}
	if _, err := New(whole); err != nil {
		t.Fatal(err)
	}
	for name, remove := range map[string]func(*Config){
		"Turns": func(c *Config) { c.Turns = nil }, "Sessions": func(c *Config) { c.Sessions = nil },
		"Catalog": func(c *Config) { c.Catalog = nil }, "Registry": func(c *Config) { c.Registry = nil }, "Log": func(c *Config) { c.Log = nil },
	} {
		c := whole
		remove(&c)
		if _, err := New(c); err == nil {
			t.Errorf("a server without %s", name)
		}
	}
}

// TestMux_UnknownPathsAreProblems holds row S-17 of docs/security.md.
func TestMux_UnknownPathsAreProblems(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{
		"/no/such", "/v1", "/v1/", "/v1/sessions/", "/v1//sessions", "/v1/../v1/sessions", "/v1/./sessions", "/v1/sessions/s1/",
		"/v1/sessions/s1/branch", "/v1/sessions/s1/turns/t1/approvals/apr_1", "/v1/responses", "/v1/responses/", "/v1/responses/a%2Fb/c", "/v1/models/", "/metrics/", "/livez/", "/debug/pprof/",
		"/v1/sessions/%2e%2e", "/v1/sessions/a%2Fb", "/v1/sessions/a%00b", "/v1/sessions/%F0%9F%98%80", "/v1/sessions/" + strings.Repeat("a", 129),
		"/v1/sessions/s1/turns/a%20b", "/v1/sessions/s1/turns/a%2Fb/events", "/v1/modes/no_such",
	} {
		for _, method := range []string{"GET", "HEAD", "DELETE"} {
			req := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
			req.Host = "localhost"
			w := httptest.NewRecorder()
			r.ServeHTTP(w, req)
			if got := w.Header().Get("Content-Type"); w.Code != 404 && w.Code != 405 || got != faultType(path) {
				t.Errorf("%s %s: got %d %s", method, path, w.Code, got)
			}
		}
	}
}

func TestMux_OtherMethodsAreProblems(t *testing.T) {
	r := newRig(t)
	allowed := map[string]string{}
	for _, rt := range routes() {
		allowed[target(rt)] += " " + rt.method
	}
	for path, methods := range allowed {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"} {
			if strings.Contains(methods, method) {
				continue
			}
			a := r.do(t, method, path, "")
			a.want(t, agent.KindMethodNotAllowed)
			for m := range strings.FieldsSeq(methods) {
				if !strings.Contains(a.Header().Get("Allow"), m) {
					t.Errorf("%s %s: Allow is %q, want %s in it", method, path, a.Header().Get("Allow"), m)
				}
			}
		}
	}
}

func TestMux_HeadWorksWhereGetDoes(t *testing.T) {
	r := newRig(t)
	r.turns.completed()
	r.do(t, "POST", "/v1/agent/execute", hello).wantStatus(t, 200)
	r.do(t, "POST", "/v1/sessions", `{"sessionId":"s1"}`).wantStatus(t, 201)
	for _, rt := range routes() {
		if rt.method == "GET" {
			r.do(t, "HEAD", target(rt), "").wantStatus(t, 200)
		}
	}
}

func TestServe_RequestID(t *testing.T) {
	r := newRig(t)
	for _, tt := range []struct {
		given string
		taken bool
	}{
		{"abc-123_X.y", true}, {strings.Repeat("a", 64), true},
		{"", false}, {strings.Repeat("a", 65), false}, {"a b", false}, {"a\tb", false}, {"é", false}, {"<script>", false}, {"a,b", false},
	} {
		a := r.do(t, "GET", "/livez", "", "X-Request-Id", tt.given)
		got := a.Header().Get("X-Request-Id")
		if (got == tt.given) != tt.taken || !requestIDPattern.MatchString(got) {
			t.Errorf("given %q: got %q, want it taken %v", tt.given, got, tt.taken)
		}
	}
}

// TestServe_LogsOneLineWithoutContents holds row S-27 of docs/security.md.
func TestServe_LogsOneLineWithoutContents(t *testing.T) {
	r := newRig(t)
	r.turns.completed()
	for _, tt := range []struct{ method, target, body, want string }{
		{"POST", "/v1/agent/execute", hello, "method=POST route=/v1/agent/execute status=200"},
		{"GET", "/v1/sessions/secret-session?cursor=hello", "", "method=GET route=/v1/sessions/{sessionId} status=404"},
		{"GET", "/secret-path", "", `method=GET route="" status=404`},
		{"BREW", "/v1/sessions", "", "method=BREW route=/v1/sessions status=405"},
	} {
		r.log.Reset()
		r.do(t, tt.method, tt.target, tt.body, "X-Request-Id", "req-7", "Authorization", "Bearer secret")
		line := r.log.String()
		if strings.Count(line, "\n") != 1 || !strings.Contains(line, tt.want) || !strings.Contains(line, "requestId=req-7") || !strings.Contains(line, "ms=") {
			t.Errorf("%s %s: log %q, want %q in one line", tt.method, tt.target, line, tt.want)
		}
		for _, secret := range []string{"hello", "secret"} {
			if strings.Contains(line, secret) {
				t.Errorf("%s %s: the log holds %q: %s", tt.method, tt.target, secret, line)
			}
		}
	}
}

func TestServe_PanicIsA500WithItsStackInTheLog(t *testing.T) {
	r := newRig(t)
	r.turns.await = func(context.Context) (agent.Turn, error) { panic("in the pipeline") }
	r.do(t, "POST", "/v1/agent/execute", hello).want(t, agent.KindInternal)
	if log := r.log.String(); !strings.Contains(log, "in the pipeline") || !strings.Contains(log, "stack=") || !strings.Contains(log, "level=ERROR") {
		t.Errorf("log: %s", log)
	}
	r.turns.await = nil
	r.turns.completed()
	r.do(t, "POST", "/v1/agent/execute", hello).wantStatus(t, 200)
}

// TestServe_HeadersThatKeepBrowsersCareful holds row S-28 of docs/security.md.
func TestServe_HeadersThatKeepBrowsersCareful(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/docs", "/livez", "/v1/sessions", "/no/such"} {
		h := r.do(t, "GET", path, "").Header()
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "Content-Security-Policy": "default-src 'none'",
		} {
			if !strings.HasPrefix(h.Get(name), want) {
				t.Errorf("%s: %s is %q, want %q", path, name, h.Get(name), want)
			}
		}
	}
}

// Each kind in the published table of errors that wrong input can bring about, with
// nothing written.
func TestWrongInput_ChangesNothing(t *testing.T) {
	const json = "application/json"
	for _, tt := range []struct {
		name, method, target, media, body string
		want                              agent.Kind
	}{
		{"no members", "POST", "/v1/agent/execute", json, `{}`, agent.KindInvalidRequest},
		{"not JSON", "POST", "/v1/agent/execute", json, `{"sessionId":`, agent.KindInvalidRequest},
		{"no body", "POST", "/v1/agent/execute", json, ``, agent.KindInvalidRequest},
		{"neither body nor type", "POST", "/v1/agent/execute", "", ``, agent.KindInvalidRequest},
		{"mode on a turn", "POST", "/v1/agent/execute", json, `{"sessionId":"s1","turnId":"t1","instruction":"x","mode":"general"}`, agent.KindInvalidRequest},
		{"duplicate member", "POST", "/v1/agent/execute", json, `{"sessionId":"s1","sessionId":"s1","turnId":"t1","instruction":"x"}`, agent.KindInvalidRequest},
		{"folded member", "POST", "/v1/agent/execute", json, `{"ſessionId":"s1","turnId":"t1","instruction":"x"}`, agent.KindInvalidRequest},
		{"trailing data", "POST", "/v1/agent/execute", json, hello + `{}`, agent.KindInvalidRequest},
		{"deep", "POST", "/v1/agent/execute", json, strings.Repeat("[", 100) + strings.Repeat("]", 100), agent.KindInvalidRequest},
		{"lone surrogate", "POST", "/v1/agent/execute", json, `{"sessionId":"s1","turnId":"t1","instruction":"\ud800"}`, agent.KindInvalidRequest},
		{"form", "POST", "/v1/agent/execute", "text/plain", hello, agent.KindUnsupportedMediaType},
		{"unknown member of a session", "POST", "/v1/sessions", json, `{"colour":"red"}`, agent.KindInvalidRequest},
		{"no such policy", "POST", "/v1/sessions", json, `{"concurrency":"parallel"}`, agent.KindInvalidRequest},
		{"unknown mode", "POST", "/v1/sessions", json, `{"mode":"no_such"}`, agent.KindUnknownMode},
		{"unknown context", "POST", "/v1/sessions", json, `{"agentContextId":"no_such"}`, agent.KindUnknownContext},
		{"unknown mode by hand", "PUT", "/v1/sessions/s0/mode", json, `{"mode":"no_such","reason":"r"}`, agent.KindUnknownMode},
		{"no reason", "PUT", "/v1/sessions/s0/mode", json, `{"mode":"general"}`, agent.KindInvalidRequest},
		{"tools are no array", "PUT", "/v1/sessions/s0/tools", json, `{"tools":{}}`, agent.KindInvalidRequest},
		{"no such session", "DELETE", "/v1/sessions/none", "", ``, agent.KindNotFound},
		{"session exists", "POST", "/v1/sessions", json, `{"sessionId":"s0"}`, agent.KindSessionExists},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.turns.completed()
			if _, err := r.sessions.Create(t.Context(), agent.Local(), contract.CreateSession{SessionID: "s0"}); err != nil {
				t.Fatal(err)
			}
			r.do(t, tt.method, tt.target, tt.body, "Content-Type", tt.media).want(t, tt.want)
			if len(r.turns.submitted)+len(r.turns.continued)+len(r.sessions.history) > 0 || len(r.sessions.all) != 1 || r.sessions.all[0].ClientTools != nil {
				t.Errorf("something was written: %+v %+v", r.turns.submitted, r.sessions.all)
			}
		})
	}
}

package server

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prove"
)

// constants returns the string constants of a type that a file of package agent declares.
func constants(t *testing.T, file, typ string) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../agent/"+file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); !ok || id.Name != typ {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		found[spec.Names[0].Name] = value
		return true
	})
	if len(found) == 0 {
		t.Fatalf("agent/%s has no constants of type %s", file, typ)
	}
	return found
}

func TestMeanings_CoverEveryKind(t *testing.T) {
	kinds := constants(t, "error.go", "Kind")
	for name, value := range kinds {
		m, ok := meanings[agent.Kind(value)]
		if !ok {
			t.Errorf("agent.%s (%s) has no row in meanings; give it a status and a title", name, value)
		} else if m.status < 400 || m.status > 599 || m.title == "" {
			t.Errorf("agent.%s means %+v", name, m)
		}
	}
	if len(meanings) != len(kinds) {
		t.Errorf("meanings has %d rows, there are %d kinds", len(meanings), len(kinds))
	}
}

// The statuses that clients rely on, from the published table of errors.
func TestMeanings_Statuses(t *testing.T) {
	want := map[agent.Kind]int{
		"invalid_request": 400, "unknown_mode": 400, "unknown_context": 400, "unauthenticated": 401, "forbidden": 403,
		"not_found": 404, "method_not_allowed": 405, "turn_conflict": 409, "turn_in_progress": 409, "turn_not_waiting": 409,
		"context_pinned": 409, "session_exists": 409, "turn_cancelled": 409, "turn_expired": 410, "payload_too_large": 413,
		"unsupported_media_type": 415, "tool_results_mismatch": 422, "limit_reached": 422, "rate_limited": 429, "internal": 500,
		"provider_failed": 502, "answer_incomplete": 502, "storage_full": 503, "draining": 503, "provider_timeout": 504,
	}
	for kind, status := range want {
		if got := meanings[kind].status; got != status {
			t.Errorf("%s: got status %d, want %d", kind, got, status)
		}
	}
}

// Every kind of fault, from the pipeline to the client, on both ways of delivery.
func TestExecute_RendersEveryKindOfFault(t *testing.T) {
	documented := map[agent.Kind]bool{}
	for _, rt := range routes() {
		if rt.id == "execute" {
			for _, kinds := range faultsOf(rt) {
				for _, k := range kinds {
					documented[agent.Kind(k)] = true
				}
			}
		}
	}
	for kind := range documented {
		t.Run(string(kind), func(t *testing.T) {
			prove.Rule(t, "AGN034-4.7-d")
			r := newRig(t)
			fault := agent.Fault{Kind: kind, Message: "What to do next.", Violations: []agent.Violation{{Pointer: "/a", Rule: "AGN034-5-e", Message: "m"}}}

			r.turns.script.err = &agent.Error{Fault: fault, Err: errors.New("dial tcp 10.1.2.3: secret")}
			refused := r.do(t, "POST", "/v1/agent/execute", hello).want(t, kind)

			r.turns.script.err = nil
			r.turns.failed(fault)
			failed := r.do(t, "POST", "/v1/agent/execute", hello).want(t, kind)

			for _, p := range []Problem{refused, failed} {
				if kind == agent.KindInternal {
					if strings.Contains(p.Detail, "next") {
						t.Errorf("an internal fault shows its text: %q", p.Detail)
					}
				} else if p.Detail != "What to do next." || len(p.Violations) != 1 {
					t.Errorf("got %+v", p)
				}
			}

			streamed := r.do(t, "POST", "/v1/agent/execute", `{"sessionId":"s1","turnId":"t1","instruction":"hello","stream":true}`, "X-Request-Id", failed.RequestID)
			events := parseSSE(t, streamed.Body.String())
			last := events[len(events)-1]
			if last.event != "turn.failed" || !strings.Contains(last.data, `"code":"`+string(kind)+`"`) || !strings.Contains(last.data, `"detail":"`+failed.Detail+`"`) {
				t.Errorf("the stream tells another fault: %+v", last)
			}
		})
	}
}

// TestProblem_HidesWhatLiesBehind holds row S-26 of docs/security.md.
func TestProblem_HidesWhatLiesBehind(t *testing.T) {
	for name, err := range map[string]error{
		"a bare error":       errors.New("open /srv/aptix.db: SELECT * FROM turn failed at db.internal:5432"),
		"an internal error":  agent.Errorf(agent.KindInternal, "row 7 of /srv/aptix.db"),
		"an unknown kind":    agent.Errorf("made_up", "row 7 of /srv/aptix.db"),
		"an error's reason":  agent.Errorf(agent.KindProviderFailed, "The provider failed.").Because(errors.New("POST https://api.internal/v1: SELECT")),
		"a panic":            panicked("/srv/aptix.db"),
		"a nil pointer down": panicked(errors.New("runtime error: goroutine 1")),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.turns.script.err = err
			a := r.do(t, "POST", "/v1/agent/execute", hello)
			a.problem(t)
			for _, secret := range []string{"/srv", "SELECT", "internal:", "api.internal", "goroutine", "serve.go", "row 7"} {
				if strings.Contains(a.Body.String(), secret) {
					t.Errorf("the answer holds %q: %s", secret, a.Body)
				}
			}
			if !strings.Contains(r.log.String(), "error=") {
				t.Errorf("the log does not have the error: %s", r.log)
			}
			if n := strings.Count(r.log.String(), "\n"); n != 1 {
				t.Errorf("the log has %d lines: %s", n, r.log)
			}
		})
	}
}

func TestProblem_RetryAfter(t *testing.T) {
	hinted := agent.Errorf(agent.KindRateLimited, "Slow down.")
	hinted.RetryAfter = 1500 * time.Millisecond
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"rounds up what is known", hinted, "2"},
		{"a provider that asks for it", &agent.Error{Fault: agent.Fault{Kind: agent.KindProviderFailed, RetryAfter: time.Hour}}, "3600"},
		{"draining has a default", agent.Errorf(agent.KindDraining, "d"), "2"},
		{"rate limited has a default", agent.Errorf(agent.KindRateLimited, "r"), "1"},
		{"nothing for other kinds", agent.Errorf(agent.KindNotFound, "n"), ""},
	} {
		w := httptest.NewRecorder()
		writeProblem(w, tt.err, "r1")
		if got := w.Header().Get("Retry-After"); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestProblem_UnauthenticatedNamesTheScheme(t *testing.T) {
	w := httptest.NewRecorder()
	writeProblem(w, agent.Errorf(agent.KindUnauthenticated, "Send a key."), "r1")
	if got := w.Header().Get("WWW-Authenticate"); got != "Bearer" {
		t.Errorf("got WWW-Authenticate %q, want Bearer", got)
	}
}

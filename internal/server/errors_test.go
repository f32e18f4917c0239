package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/prove"
	"github.com/aptixhq/aptix/internal/reasoner"
	"github.com/aptixhq/aptix/internal/secret"
	"github.com/aptixhq/aptix/internal/tool"
)

// These tests are the published table of errors (api.md), on the real parts: what is
// wrong with a request gives its code and leaves no trace; what goes wrong with a
// turn that was accepted fails the turn, and its journal stays.

// notYet are the kinds that nothing gives yet, with the reason.
var notYet = map[agent.Kind]string{
	agent.KindUnauthenticated: "nobody can authenticate before there are keys; TestAuthentication holds the edge to it until then",
	agent.KindUnavailable:     "only a database over the network can be out of reach, and these tests have a file; TestUnavailable of internal/pipeline has the other",
	agent.KindRateLimited:     "there are no limits on rates yet; a provider's own limit is provider_failed",
}

func TestErrors_EveryKindIsShown(t *testing.T) {
	shown := map[agent.Kind]bool{}
	for _, r := range slices.Concat(refusals(), expired(), stopping(), fullDisk(), brokenStore()) {
		shown[r.kind] = true
	}
	for _, s := range failures() {
		for _, f := range s.failures {
			shown[f.kind] = true
		}
	}
	for name, value := range constants(t, "error.go", "Kind") {
		kind := agent.Kind(value)
		reason, excused := notYet[kind]
		switch {
		case !shown[kind] && !excused:
			t.Errorf("agent.%s (%s) has no row in these tests; show how a client meets it", name, kind)
		case shown[kind] && excused:
			t.Errorf("agent.%s (%s) has a row and is also listed as not reachable yet: %s", name, kind, reason)
		}
	}
}

// refusal is a request that is turned away.
type refusal struct {
	name                 string
	kind                 agent.Kind
	status               int
	method, target, body string
	header               []string
	says                 []string // what the problem names, in its detail or its violations
}

const (
	execute  = "/v1/agent/execute"
	readFile = `{"type":"function","name":"read_file","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}`

	doneTurn      = `{"sessionId":"done","turnId":"t1","instruction":"hello"}`
	cancelledTurn = `{"sessionId":"over","turnId":"t1","instruction":"read c"}`
	// more brings a text that is latched and contents that are kept, if it is accepted.
	more = `"solutionContextText":"new context","inputArtifacts":[{"relativePath":"a.go","fileName":"a.go","contents":"package a","origin":"ide"}]`
)

// userTurn renders a turn with further members.
func userTurn(session, turn string, members ...string) string {
	return fmt.Sprintf(`{"sessionId":%q,"turnId":%q,"instruction":"hello"%s}`, session, turn, strings.Join(append([]string{""}, members...), ","))
}

// results renders a continuation of a session's turn t1.
func results(session string, calls ...string) string {
	var all []string
	for _, c := range calls {
		all = append(all, fmt.Sprintf(`{"toolCallId":%q,"executionMs":1,"resultJson":"{}"}`, c))
	}
	return fmt.Sprintf(`{"sessionId":%q,"turnId":"t1","toolResults":[%s]}`, session, strings.Join(all, ","))
}

// refusals are the requests that are wrong where inhabited says how things stand.
func refusals() []refusal {
	long := strings.Repeat(" ", 64<<10)
	foreign := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Origin", "https://evil.example"}
	return []refusal{
		{"no JSON", "invalid_request", 400, "POST", execute, `{"sessionId"`, nil, nil},
		{"every violation at once", "invalid_request", 400, "POST", execute, userTurn("new", "t1", `"mode":"general"`, `"tools":[]`, `"nonsense":1`), nil,
			[]string{"/mode", "/tools", "/nonsense", "AGN034-2.1-f"}},
		{"a turn without input", "invalid_request", 400, "POST", execute, `{"sessionId":"new","turnId":"t1","instruction":""}`, nil, nil},
		{"both scenarios in one", "invalid_request", 400, "POST", execute, userTurn("busy", "t1", `"toolResults":[{"toolCallId":"call_a","executionMs":1,"resultJson":"{}"}]`), nil, nil},
		{"an id that is none", "invalid_request", 400, "POST", execute, userTurn("new session", "t1"), nil, []string{"/sessionId"}},
		{"an artifact outside of the project", "invalid_request", 400, "POST", execute, strings.Replace(userTurn("done", "t2", more), `"a.go"`, `"../a.go"`, 1), nil, []string{"/inputArtifacts/0/relativePath"}},
		{"an image that does not decode", "invalid_request", 400, "POST", execute, userTurn("done", "t2", `"clipboardImages":[{"id":"i","mimeType":"image/png","dataBase64":"!"}]`), nil, []string{"/clipboardImages/0/dataBase64"}},
		{"a stream preference on a continuation", "invalid_request", 400, "POST", execute, strings.Replace(results("busy", "call_a", "call_b"), `"toolResults"`, `"stream":false,"toolResults"`, 1), nil, []string{"/stream"}},
		{"a result that is two", "invalid_request", 400, "POST", execute, strings.Replace(results("busy", "call_a", "call_b"), `"executionMs"`, `"errorMessage":"no","executionMs"`, 1), nil, []string{"/toolResults/0"}},
		{"a preview of a continuation", "invalid_request", 400, "POST", "/v1/agent/preview", results("busy", "call_a", "call_b"), nil, nil},
		{"a session that runs turns side by side", "invalid_request", 400, "POST", "/v1/sessions", `{"concurrency":"parallel"}`, nil, []string{"/concurrency"}},
		{"a session with a reserved tool", "invalid_request", 400, "POST", "/v1/sessions", `{"tools":[` + strings.Replace(readFile, "read_file", tool.ChangeMode, 1) + `]}`, nil, []string{"/tools/0"}},
		{"a mode without a reason", "invalid_request", 400, "PUT", "/v1/sessions/done/mode", `{"mode":"ddr_authoring"}`, nil, []string{"/reason"}},
		{"a mode with a blank reason", "invalid_request", 400, "PUT", "/v1/sessions/done/mode", `{"mode":"ddr_authoring","reason":" "}`, nil, []string{"/reason"}},
		{"tools that are no list", "invalid_request", 400, "PUT", "/v1/sessions/done/tools", `{"tools":{}}`, nil, []string{"/tools"}},
		{"two tools of one name", "invalid_request", 400, "PUT", "/v1/sessions/done/tools", `{"tools":[` + readFile + `,` + readFile + `]}`, nil, []string{"/tools/1"}},
		{"a page of none", "invalid_request", 400, "GET", "/v1/sessions?limit=0", "", nil, nil},
		{"a cursor of another list", "invalid_request", 400, "GET", "/v1/sessions/done/turns?cursor=nonsense", "", nil, nil},
		{"a sequence that is no number", "invalid_request", 400, "GET", "/v1/sessions/done/turns/t1/events", "", []string{"Last-Event-ID", "x"}, nil},

		{"a session in an unknown mode", "unknown_mode", 400, "POST", "/v1/sessions", `{"mode":"no_such"}`, nil, []string{"no_such", "ddr_authoring", "general", "workflow_authoring"}},
		{"a change to an unknown mode", "unknown_mode", 400, "PUT", "/v1/sessions/done/mode", `{"mode":"no_such","reason":"r"}`, nil, []string{"no_such", "ddr_authoring", "general", "workflow_authoring"}},

		{"a session in an unknown context", "unknown_context", 400, "POST", "/v1/sessions", `{"agentContextId":"no_such"}`, nil, []string{"default"}},
		{"a first turn in an unknown context", "unknown_context", 400, "POST", execute, userTurn("new", "t1", more, `"conversationContextId":"no_such"`), nil, []string{"default"}},
		{"a preview in an unknown context", "unknown_context", 400, "POST", "/v1/agent/preview", userTurn("new", "t1", `"agentContextId":"no_such"`), nil, []string{"default"}},

		{"a turn under a foreign host name", "forbidden", 403, "POST", execute, userTurn("new", "t1", more), []string{"Host", "evil.example"}, []string{"localhost"}},
		{"an erasure under a foreign host name", "forbidden", 403, "DELETE", "/v1/sessions/done", "", []string{"Host", "evil.example:8080"}, nil},
		{"a turn from a foreign page", "forbidden", 403, "POST", execute, userTurn("new", "t1", more), foreign, nil},
		{"an erasure from a foreign page", "forbidden", 403, "DELETE", "/v1/sessions/done", "", foreign, nil},
		{"a cancel from a foreign page", "forbidden", 403, "POST", "/v1/sessions/busy/turns/t1/cancel", "", foreign, nil},
		{"a read from a foreign page", "forbidden", 403, "GET", "/v1/sessions/done", "", foreign, nil},

		{"results for a session that is not there", "not_found", 404, "POST", execute, results("none", "call_a"), nil, []string{"none"}},
		{"results for a turn that is not there", "not_found", 404, "POST", execute, strings.Replace(results("busy", "call_a", "call_b"), `"t1"`, `"none"`, 1), nil, []string{"none"}},
		{"a session that is not there", "not_found", 404, "GET", "/v1/sessions/none", "", nil, nil},
		{"an erasure of nothing", "not_found", 404, "DELETE", "/v1/sessions/none", "", nil, nil},
		{"a mode for nothing", "not_found", 404, "PUT", "/v1/sessions/none/mode", `{"mode":"ddr_authoring","reason":"r"}`, nil, nil},
		{"tools for nothing", "not_found", 404, "PUT", "/v1/sessions/none/tools", `{"tools":[]}`, nil, nil},
		{"a history of nothing", "not_found", 404, "GET", "/v1/sessions/none/mode-history", "", nil, nil},
		{"the turns of nothing", "not_found", 404, "GET", "/v1/sessions/none/turns", "", nil, nil},
		{"a turn that is not there", "not_found", 404, "GET", "/v1/sessions/done/turns/none", "", nil, nil},
		{"the events of nothing", "not_found", 404, "GET", "/v1/sessions/done/turns/none/events", "", nil, nil},
		{"the requests of nothing", "not_found", 404, "GET", "/v1/sessions/done/turns/none/requests", "", nil, nil},
		{"a cancel of nothing", "not_found", 404, "POST", "/v1/sessions/done/turns/none/cancel", "", nil, nil},
		{"an id that no session can have", "not_found", 404, "DELETE", "/v1/sessions/a%20b", "", nil, nil},
		{"a mode that is not there", "not_found", 404, "GET", "/v1/modes/no_such", "", nil, nil},
		{"a path that is not there", "not_found", 404, "POST", "/v1/agent/executes", userTurn("new", "t1"), nil, nil},

		{"a method that a turn does not take", "method_not_allowed", 405, "PUT", execute, userTurn("new", "t1", more), nil, []string{"POST"}},
		{"a method that a session does not take", "method_not_allowed", 405, "PATCH", "/v1/sessions/done", `{"mode":"ddr_authoring"}`, nil, []string{"DELETE"}},

		{"a session that is there", "session_exists", 409, "POST", "/v1/sessions", `{"sessionId":"done","mode":"ddr_authoring","tools":[` + readFile + `]}`, nil, []string{"done"}},

		{"a turn with another instruction", "turn_conflict", 409, "POST", execute, strings.Replace(doneTurn, "hello", "bye", 1), nil, []string{"t1", "instruction"}},
		{"a turn with another context and artifact", "turn_conflict", 409, "POST", execute, userTurn("done", "t1", more), nil, []string{"solutionContextText", "inputArtifacts"}},
		{"a turn that is a stream now", "turn_conflict", 409, "POST", execute, userTurn("done", "t1", `"stream":true`), nil, []string{"stream"}},

		{"a turn beside a waiting one", "turn_in_progress", 409, "POST", execute, userTurn("busy", "t2", more), nil, []string{`"t1"`}},
		{"a streamed turn beside a waiting one", "turn_in_progress", 409, "POST", execute, userTurn("busy", "t2", more, `"stream":true`), nil, []string{`"t1"`}},

		{"results for a completed turn", "turn_not_waiting", 409, "POST", execute, results("done", "call_a"), nil, []string{"t1", "completed"}},
		{"results for a cancelled turn", "turn_not_waiting", 409, "POST", execute, results("over", "call_c"), nil, []string{"t1", "cancelled"}},

		{"results for a turn that waits for its user", "turn_not_waiting", 409, "POST", execute, results("asked", "call_e"), nil, []string{"decisions"}},
		{"a decision for a cancelled turn", "turn_not_waiting", 409, "POST", "/v1/sessions/unasked/turns/t1/approvals/apr_1", `{"decision":"approve"}`, nil, []string{"cancelled"}},
		{"a decision after another one", "approval_decided", 409, "POST", "/v1/sessions/ruled/turns/t1/approvals/apr_1", `{"decision":"approve"}`, nil, []string{"local", "deny"}},
		{"a decision that is remembered, after one that is not", "approval_decided", 409, "POST", "/v1/sessions/ruled/turns/t1/approvals/apr_1", `{"decision":"deny","remember":true}`, nil, nil},
		{"a decision that is none", "invalid_request", 400, "POST", "/v1/sessions/asked/turns/t1/approvals/apr_1", `{"decision":"switch"}`, nil, []string{"approve", "deny"}},
		{"a denial that is remembered", "invalid_request", 400, "POST", "/v1/sessions/asked/turns/t1/approvals/apr_1", `{"decision":"deny","remember":true}`, nil, nil},
		{"a decision from a foreign page", "forbidden", 403, "POST", "/v1/sessions/asked/turns/t1/approvals/apr_1", `{"decision":"approve"}`, foreign, nil},
		{"a decision on nothing", "not_found", 404, "POST", "/v1/sessions/asked/turns/t1/approvals/apr_2", `{"decision":"approve"}`, nil, []string{"apr_2"}},
		{"a branch off a turn that waits", "turn_in_progress", 409, "POST", "/v1/sessions/busy/branch", `{"atTurnId":"t1"}`, nil, []string{"t1"}},
		{"a branch off a cancelled turn", "invalid_request", 400, "POST", "/v1/sessions/over/branch", `{"atTurnId":"t1"}`, nil, []string{"cancelled"}},
		{"a branch that is a session already", "session_exists", 409, "POST", "/v1/sessions/done/branch", `{"sessionId":"busy"}`, nil, []string{"busy"}},

		{"a turn that was cancelled", "turn_cancelled", 409, "POST", execute, cancelledTurn, nil, nil},

		{"a turn in another agent context", "context_pinned", 409, "POST", execute, userTurn("done", "t2", more, `"agentContextId":"other"`), nil, []string{"agentContextId", "default"}},
		{"a turn in another conversation context", "context_pinned", 409, "POST", execute, userTurn("done", "t2", more, `"conversationContextId":"other"`), nil, []string{"conversationContextId", "default"}},
		{"a preview in another context", "context_pinned", 409, "POST", "/v1/agent/preview", userTurn("done", "t2", `"agentContextId":"other"`), nil, nil},

		{"a turn that is too large", "payload_too_large", 413, "POST", execute, userTurn("new", "t1", more) + long, nil, []string{"65536"}},
		{"a session that is too large", "payload_too_large", 413, "POST", "/v1/sessions", `{}` + long, nil, nil},

		{"a turn as text", "unsupported_media_type", 415, "POST", execute, userTurn("new", "t1", more), []string{"Content-Type", "text/plain"}, []string{"application/json"}},
		{"a compressed turn", "unsupported_media_type", 415, "POST", execute, userTurn("new", "t1", more), []string{"Content-Encoding", "gzip"}, nil},
		{"a session as a form", "unsupported_media_type", 415, "POST", "/v1/sessions", `sessionId=x`, []string{"Content-Type", "application/x-www-form-urlencoded"}, nil},

		{"results out of order", "tool_results_mismatch", 422, "POST", execute, results("busy", "call_b", "call_a"), nil, []string{"/toolResults/0/toolCallId", "/toolResults/1/toolCallId", "AGN034-5-e"}},
		{"a result too few", "tool_results_mismatch", 422, "POST", execute, results("busy", "call_a"), nil, []string{"call_b"}},
		{"a result too many", "tool_results_mismatch", 422, "POST", execute, results("busy", "call_a", "call_b", "call_c"), nil, []string{"call_c"}},
		{"the same result twice", "tool_results_mismatch", 422, "POST", execute, results("busy", "call_a", "call_a"), nil, []string{"/toolResults/1/toolCallId", "call_b"}},
		{"results of another turn", "tool_results_mismatch", 422, "POST", execute, results("busy", "call_x", "call_y"), nil, []string{"call_x", "call_y", "call_a", "call_b"}},
	}
}

// inhabited is a server with a completed turn in session done, a waiting one in busy
// and a cancelled one in over; in ruled, asked and unasked there is a turn whose user said
// no, was asked, and was asked until it was cancelled.
func inhabited(t *testing.T, further ...llmtest.Reply) (*whole, *llmtest.Server) {
	t.Helper()
	script := []llmtest.Reply{{Text: "Done."}, reads("call_a", "call_b"), reads("call_c"), lists("call_d"), {Text: "As you like."}, lists("call_e"), lists("call_f")}
	provider := llmtest.New(t, append(script, further...)...)
	w := newWhole(t, from(provider), asking, func(p *parts) { p.bodies.Body, p.anybody = 64<<10, true })
	w.do(t, "POST", execute, doneTurn).wantStatus(t, 200)
	w.waiting(t, "busy", userTurn("busy", "t1", `"solutionContextText":"old context"`))
	w.waiting(t, "over", cancelledTurn)
	w.do(t, "POST", "/v1/sessions/over/turns/t1/cancel", "").wantStatus(t, 202)
	w.waiting(t, "ruled", userTurn("ruled", "t1", more))
	w.do(t, "POST", "/v1/sessions/ruled/turns/t1/approvals/apr_1", `{"decision":"deny"}`).wantStatus(t, 200)
	w.do(t, "POST", execute, userTurn("ruled", "t1", more)).wantStatus(t, 200)
	w.waiting(t, "asked", userTurn("asked", "t1", more))
	w.waiting(t, "unasked", userTurn("unasked", "t1", more))
	w.do(t, "POST", "/v1/sessions/unasked/turns/t1/cancel", "").wantStatus(t, 202)
	return w, provider
}

// lists is a model that calls a tool which needs its user's approval.
func lists(id string) llmtest.Reply {
	return llmtest.Reply{Calls: []llmtest.Call{{ID: id, Name: tool.ListModes, Arguments: "{}"}}}
}

// reads is a model that calls the client's tool.
func reads(ids ...string) (r llmtest.Reply) {
	for _, id := range ids {
		r.Calls = append(r.Calls, llmtest.Call{ID: id, Name: "read_file", Arguments: `{"path":"a"}`})
	}
	return r
}

// waiting makes a session with the client's tool and runs a turn in it that waits.
func (w *whole) waiting(t *testing.T, session, turn string) {
	t.Helper()
	w.do(t, "POST", "/v1/sessions", fmt.Sprintf(`{"sessionId":%q,"tools":[%s]}`, session, readFile)).wantStatus(t, 201)
	w.do(t, "POST", execute, turn).wantStatus(t, 200)
	if got := decode[Turn](t, w.do(t, "GET", "/v1/sessions/"+session+"/turns/t1", "")).State; got != agent.TurnWaiting {
		t.Fatalf("the turn of session %s is %s, want it waiting", session, got)
	}
}

// from makes a provider the model.
func from(p *llmtest.Server) func(*parts) {
	return func(c *parts) { c.model = llm.Config{BaseURL: p.URL, APIKey: secret.New("sk-canary")} }
}

// refuse sends the requests and checks that each gets its problem, writes nothing
// and reaches no model.
func (w *whole) refuse(t *testing.T, provider *llmtest.Server, all []refusal) {
	t.Helper()
	before, asked := w.rows(t), len(provider.Requests())
	for _, r := range all {
		t.Run(strings.ReplaceAll(string(r.kind)+"/"+r.name, " ", "_"), func(t *testing.T) {
			a := w.do(t, r.method, r.target, r.body, r.header...)
			p := a.want(t, r.kind)
			if a.Code != r.status {
				t.Errorf("got status %d, want %d", a.Code, r.status)
			}
			violations, err := json.Marshal(p.Violations)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range r.says {
				if !strings.Contains(p.Detail, s) && !strings.Contains(string(violations), s) {
					t.Errorf("the problem does not name %s: %s", s, a.Body)
				}
			}
			if p.Code == agent.KindDraining && a.Header().Get("Retry-After") == "" {
				t.Error("the problem does not say when to try again")
			}
			if diff := cmp.Diff(before, w.rows(t)); diff != "" {
				t.Errorf("the refused request left something (-before +after):\n%s", diff)
			}
			if n := len(provider.Requests()); n != asked {
				t.Errorf("the model was asked %d times", n-asked)
			}
		})
	}
}

func TestErrors_WrongInputGivesItsCodeAndWritesNothing(t *testing.T) {
	t.Parallel()
	w, provider := inhabited(t)
	w.refuse(t, provider, refusals())
}

// A mismatch is refused as a whole: everything about the session is as before, and
// the right results go through.
// It holds row S-19 of docs/security.md.
func TestErrors_MismatchLeavesTheTurnWaiting(t *testing.T) {
	t.Parallel()
	prove.Rule(t, "AGN034-5-e")
	w, provider := inhabited(t, llmtest.Reply{Text: "Both read."}, llmtest.Reply{Text: "And on."})
	session := func() (all []string) {
		for _, path := range []string{"", "/mode-history", "/turns", "/turns/t1", "/turns/t1/requests", "/turns/t1/events"} {
			all = append(all, w.do(t, "GET", "/v1/sessions/busy"+path, "").Body.String())
		}
		return all
	}
	before := session()
	for range 2 {
		w.do(t, "POST", execute, results("busy", "call_b", "call_a")).want(t, agent.KindToolResultsMismatch)
	}
	if diff := cmp.Diff(before, session()); diff != "" {
		t.Errorf("the session after a mismatch (-before +after):\n%s", diff)
	}
	asked := len(provider.Requests())
	done := w.do(t, "POST", execute, results("busy", "call_a", "call_b"))
	done.wantStatus(t, 200)
	if f := decode[contract.Final](t, done); f.PrimaryOutputText != "Both read." {
		t.Errorf("got %s", done.Body)
	}
	sent := string(provider.Requests()[asked])
	a, b := strings.LastIndex(sent, `"call_id":"call_a"`), strings.LastIndex(sent, `"call_id":"call_b"`)
	if n := strings.Count(sent, `"type":"function_call_output"`); n != 2 || a < 0 || b < a {
		t.Errorf("the model gets %d outputs, call_a's at %d and call_b's at %d: %s", n, a, b, sent)
	}
	w.do(t, "POST", execute, userTurn("busy", "t2")).wantStatus(t, 200)
}

// late is a turn that waits too long.
var late = failure{name: "late", kind: "turn_expired", status: 410}

// expired are requests that come when it is over.
func expired() []refusal {
	return []refusal{
		{"the turn again", late.kind, late.status, "POST", execute, late.turn(), nil, nil},
		{"its results", "turn_not_waiting", 409, "POST", execute, results("late", "call_a"), nil, []string{"t1", "failed"}},
	}
}

func TestErrors_TurnExpired(t *testing.T) {
	t.Parallel()
	provider := llmtest.New(t, reads("call_a"), llmtest.Reply{Text: "On time."})
	w := newWhole(t, from(provider))
	w.waiting(t, late.session(), late.turn())
	// The first sweep finds that more than a day has passed.
	w.restart(t, func(p *parts) { p.now = func() time.Time { return time.Now().Add(25 * time.Hour) } })
	w.refuse(t, provider, expired())
	w.tells(t, late)
	w.do(t, "POST", execute, userTurn(late.session(), "t2")).wantStatus(t, 200)
}

// stopping are requests that a server which is going down turns away.
func stopping() []refusal {
	return []refusal{
		{"a new session's turn", "draining", 503, "POST", execute, userTurn("new", "t1", more), nil, nil},
		{"a turn", "draining", 503, "POST", execute, userTurn("done", "t2", more), nil, nil},
		{"a streamed turn", "draining", 503, "POST", execute, userTurn("done", "t2", more, `"stream":true`), nil, nil},
		{"the results of a waiting turn", "draining", 503, "POST", execute, results("busy", "call_a", "call_b"), nil, nil},
	}
}

func TestErrors_Draining(t *testing.T) {
	t.Parallel()
	w, provider := inhabited(t)
	t.Run("edge", func(t *testing.T) {
		w.Drain()
		w.refuse(t, provider, stopping())
	})
	w.restart(t)
	t.Run("pipeline", func(t *testing.T) {
		if err := w.pipeline.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.refuse(t, provider, stopping())
		w.do(t, "POST", execute, doneTurn).wantStatus(t, 200) // what is known is still told
	})
	w.do(t, "GET", "/v1/sessions/busy/turns/t1", "").wantStatus(t, 200)
}

// fullDisk are requests for which there is no room.
func fullDisk() []refusal {
	large := strings.Repeat("x", 64<<10)
	return []refusal{
		{"a new session's turn", "storage_full", 503, "POST", execute, userTurn("new", "t1", strings.Replace(more, "package a", large, 1)), nil, nil},
		{"a turn", "storage_full", 503, "POST", execute, userTurn("done", "t2", strings.Replace(more, "new context", large, 1)), nil, nil},
		{"a streamed turn", "storage_full", 503, "POST", execute, userTurn("done", "t3", strings.Replace(more, "new context", large, 1), `"stream":true`), nil, nil},
		{"results", "storage_full", 503, "POST", execute, strings.ReplaceAll(results("busy", "call_a", "call_b"), `{}`, `\"`+large+`\"`), nil, nil},
		{"a session", "storage_full", 503, "POST", "/v1/sessions", `{"systemPrompt":"` + large + `"}`, nil, nil},
		{"tools", "storage_full", 503, "PUT", "/v1/sessions/done/tools", `{"tools":[` + strings.Replace(readFile, `"parameters"`, `"description":"`+large+`","parameters"`, 1) + `]}`, nil, nil},
		{"a mode", "storage_full", 503, "PUT", "/v1/sessions/done/mode", `{"mode":"ddr_authoring","reason":"` + large + `"}`, nil, nil},
	}
}

func TestErrors_StorageFull(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 64<<10)
	provider := llmtest.New(t)
	provider.Otherwise(func([]byte) llmtest.Reply { return llmtest.Reply{Text: long} })
	w, refused := inhabited(t)
	pages := w.pageCount(t)
	w.restart(t, from(provider), func(p *parts) {
		p.pages = pages + 12 // room for a turn that has little to say
		p.bodies = contract.Limits{}
		p.times.SweepEvery = time.Hour // nothing goes on by itself meanwhile
		p.times.Gather = -1            // the turn is accepted before it is answered
	})
	w.refuse(t, refused, fullDisk())
	w.do(t, "GET", "/v1/sessions/done", "").wantStatus(t, 200)
	// The mode, which a running turn may change too, has used the reserve.
	for until := time.Now().Add(10 * time.Second); w.store.Room() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the reserve is not set aside again")
		}
	}

	// A disk that fills up under a turn is told as such. The turn is not lost.
	if a := w.do(t, "POST", execute, userTurn("under", "t1")); a.Code != 503 {
		t.Errorf("got status %d, want 503", a.Code)
	} else {
		a.want(t, agent.KindStorageFull)
	}
	if got := decode[Turn](t, w.do(t, "GET", "/v1/sessions/under/turns/t1", "")); got.State.Terminal() {
		t.Errorf("got turn %+v, want one that goes on", got)
	}

	// With room again it goes on by itself, and what was refused is taken.
	w.restart(t, func(p *parts) { p.pages = 0 })
	done := w.do(t, "POST", execute, userTurn("under", "t1"))
	done.wantStatus(t, 200)
	if f := decode[contract.Final](t, done); f.PrimaryOutputText != long {
		t.Errorf("got an answer of %d bytes, want %d", len(f.PrimaryOutputText), len(long))
	}
	events := w.do(t, "GET", "/v1/sessions/under/turns/t1/events", "").Body.String()
	for name, want := range map[string]int{"turn.started": 1, "turn.resumed": 1, "turn.completed": 1, "turn.failed": 0} {
		if got := strings.Count(events, "event: "+name+"\n"); got != want {
			t.Errorf("the journal shows %d %s, want %d", got, name, want)
		}
	}
	for _, r := range fullDisk()[2:] {
		if a := w.do(t, r.method, r.target, r.body); a.Code >= 300 || strings.Contains(a.Body.String(), "turn.failed") {
			t.Errorf("%s: got %d %s", r.name, a.Code, a.Body)
		}
	}
}

// brokenStore are requests that the server cannot serve because of itself.
func brokenStore() []refusal {
	return []refusal{
		{"a turn", "internal", 500, "POST", execute, userTurn("done", "t2", more), nil, nil},
		{"results", "internal", 500, "POST", execute, results("busy", "call_a", "call_b"), nil, nil},
		{"a session", "internal", 500, "POST", "/v1/sessions", `{}`, nil, nil},
		{"a read", "internal", 500, "GET", "/v1/sessions/done", "", nil, nil},
	}
}

func TestErrors_Internal(t *testing.T) {
	t.Parallel()
	w, provider := inhabited(t)
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	w.refuse(t, provider, brokenStore())
}

// failure is a turn that is accepted and cannot be finished.
type failure struct {
	name   string
	kind   agent.Kind
	status int
	reply  llmtest.Reply
	stream bool
	says   string
}

// setting are failures that happen to servers with the same choices.
type setting struct {
	name     string
	parts    func(*parts)
	failures []failure
}

func failures() []setting {
	never := make(chan struct{})
	return []setting{
		{"provider", func(*parts) {}, []failure{
			{name: "error", kind: "provider_failed", status: 502, reply: llmtest.Reply{Status: 500}, says: "500"},
			{name: "error of a stream", kind: "provider_failed", status: 502, reply: llmtest.Reply{Status: 500}, stream: true, says: "500"},
			{name: "limit of its own", kind: "provider_failed", status: 502, reply: llmtest.Reply{Status: 429, Headers: map[string]string{"Retry-After": "7"}}, says: "429"},
			{name: "wrong key", kind: "provider_failed", status: 502, reply: llmtest.Reply{Status: 401, Body: `{"error":{"message":"Incorrect API key provided: sk-canary."}}`}, says: "401"},
			{name: "failed response", kind: "provider_failed", status: 502, reply: llmtest.Reply{Failure: "overloaded"}, says: "overloaded"},
			{name: "failed stream", kind: "provider_failed", status: 502, reply: llmtest.Reply{Text: "Half an", Failure: "overloaded"}, stream: true, says: "overloaded"},
			{name: "incomplete response", kind: "answer_incomplete", status: 502, reply: llmtest.Reply{Text: "Half an", Incomplete: "max_output_tokens"}, says: "max_output_tokens"},
			{name: "cut stream", kind: "provider_failed", status: 502, reply: llmtest.Reply{Text: "Half an answer", Cut: 6}, stream: true, says: "cut"},
			{name: "broken connection", kind: "provider_failed", status: 502, reply: llmtest.Reply{Text: "Nothing", Cut: -1}, says: "could not be reached"},
			{name: "no JSON", kind: "provider_failed", status: 502, reply: llmtest.Reply{Raw: "<html>", Headers: map[string]string{"Content-Type": "text/html"}}, says: "base URL"},
			{name: "no answer", kind: "provider_failed", status: 502, reply: llmtest.Reply{}, says: "nothing"},
		}},
		{"silence", func(p *parts) { p.model.Timeout, p.model.IdleTimeout = 200*time.Millisecond, 50*time.Millisecond }, []failure{
			{name: "slow answer", kind: "provider_timeout", status: 504, reply: llmtest.Reply{Text: "Never.", Block: never}},
			{name: "stream that stands still", kind: "provider_timeout", status: 504, reply: llmtest.Reply{Text: "Never ends.", Block: never, BlockAfter: 5}, stream: true},
		}},
		{"limits", func(p *parts) { p.limits = reasoner.Limits{ModelCalls: 1, OutputBytes: 1000} }, []failure{
			{name: "too many model calls", kind: "limit_reached", status: 422, reply: llmtest.Reply{Calls: []llmtest.Call{{Name: tool.ListModes}}}, says: "model calls"},
			{name: "too much output", kind: "limit_reached", status: 422, reply: llmtest.Reply{Deltas: []string{strings.Repeat("x", 800), strings.Repeat("y", 800)}}, says: "1000"},
			{name: "too much streamed output", kind: "limit_reached", status: 422, reply: llmtest.Reply{Deltas: []string{strings.Repeat("x", 800), strings.Repeat("y", 800)}}, stream: true, says: "1000"},
		}},
		{"deadline", func(p *parts) { p.times.TurnTime = 50 * time.Millisecond }, []failure{
			{name: "too long a turn", kind: "limit_reached", status: 422, reply: llmtest.Reply{Text: "Never.", Block: never}, says: "50ms"},
		}},
	}
}

// A turn that cannot be finished is failed, says why wherever one looks, keeps its
// journal, is not run again, and leaves its session free for the next.
func TestErrors_FailedTurnKeepsItsJournal(t *testing.T) {
	t.Parallel()
	for _, s := range failures() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			provider := llmtest.New(t)
			provider.Otherwise(func(request []byte) llmtest.Reply {
				for _, f := range s.failures {
					if bytes.Contains(request, []byte(f.instruction())) {
						return f.reply
					}
				}
				return llmtest.Reply{Text: "Better."}
			})
			w := newWhole(t, from(provider), s.parts)
			shown := map[string]bool{} // the requests that the turns tell of
			for _, f := range s.failures {
				t.Run(f.name, func(t *testing.T) {
					w.failed(t, f, w.do(t, "POST", execute, f.turn()))
					shown[w.tells(t, f)] = true
				})
			}
			asked := len(provider.Requests())
			w.restart(t, from(provider), func(p *parts) { p.limits, p.times = reasoner.Limits{}, pipeline.Limits{} })
			for _, f := range s.failures {
				t.Run(f.name+" restarted", func(t *testing.T) { w.tells(t, f) })
			}
			sent := provider.Requests()
			for _, body := range sent {
				if !shown[string(body)] {
					t.Errorf("the model got what no turn tells of: %s", body)
				}
			}
			if len(sent) != asked || asked > len(s.failures) {
				t.Errorf("the model was asked %d times before the restart and %d in all, for %d turns", asked, len(sent), len(s.failures))
			}
			for _, f := range s.failures {
				w.do(t, "POST", execute, userTurn(f.session(), "t2")).wantStatus(t, 200)
			}
		})
	}
}

func (f failure) session() string { return strings.ReplaceAll(f.name, " ", "_") }

// instruction tells the provider how to fail.
func (f failure) instruction() string { return "Show a failure: " + f.name + "." }

// turn renders the turn that fails so.
func (f failure) turn() string {
	return fmt.Sprintf(`{"sessionId":%q,"turnId":"t1","instruction":%q,"stream":%t}`, f.session(), f.instruction(), f.stream)
}

// tells checks what one learns about the turn of a failure afterwards, and returns
// its one request to the model.
func (w *whole) tells(t *testing.T, f failure) (wire string) {
	t.Helper()
	path := "/v1/sessions/" + f.session() + "/turns/t1"
	turn := decode[Turn](t, w.do(t, "GET", path, ""))
	if turn.State != agent.TurnFailed || turn.Problem == nil || turn.Problem.Code != f.kind || turn.Problem.Status != f.status || turn.Response != nil {
		t.Errorf("got turn %+v with problem %+v, want it failed with %d %s", turn, turn.Problem, f.status, f.kind)
	}
	calls := decode[List[ModelCall]](t, w.do(t, "GET", path+"/requests", "")).Data
	if len(calls) != 1 || !strings.Contains(calls[0].Wire, f.instruction()) {
		t.Fatalf("the turn has the model calls %+v, want the one with its instruction", calls)
	}
	events := parseSSE(t, w.do(t, "GET", path+"/events", "").Body.String())
	if first, last := events[0].event, events[len(events)-1].event; first != "turn.started" || last != "turn.failed" {
		t.Errorf("the events go from %s to %s", first, last)
	}
	w.failed(t, f, w.do(t, "POST", execute, f.turn()))
	return calls[0].Wire
}

// failed checks the answer to a turn that fails, in its way of delivery.
func (w *whole) failed(t *testing.T, f failure, a answer) {
	t.Helper()
	var p Problem
	if !f.stream {
		p = a.want(t, f.kind)
	} else {
		a.wantStatus(t, 200)
		events := parseSSE(t, a.Body.String())
		last := events[len(events)-1]
		var d struct{ Problem Problem }
		unmarshal(t, last.data, &d)
		if p = d.Problem; last.event != "turn.failed" || p.Code != f.kind {
			t.Errorf("the stream ends with %+v, want turn.failed with %s", last, f.kind)
		}
	}
	if p.Status != f.status || !strings.Contains(p.Detail, f.says) {
		t.Errorf("got %d %q, want %d with %q", p.Status, p.Detail, f.status, f.says)
	}
	hidesInsides(t, a.Body.String())
	if strings.Contains(a.Body.String(), "canary") || strings.Contains(a.Body.String(), "127.0.0.1") {
		t.Errorf("the answer shows what is nobody's business: %s", a.Body)
	}
}

package server

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/auth"
)

// tenants is a whole server with keys of everybody.
type tenants struct {
	*whole
	key map[string]string // by name
	// response is ann's, erased one that is gone.
	response, erased string
	calls            int
}

// newTenants has keys of ann and bob, two users of acme, of oz and ada, its operator and
// its admin, and of gil, an admin of globex. Ann has a session s1 with a turn t1 and one of
// the second door. Keys that are good no more are called expired and revoked.
func newTenants(t *testing.T) *tenants {
	t.Helper()
	w := &tenants{whole: newWhole(t, func(p *parts) { p.door = true }), key: map[string]string{}}
	holder := agent.Caller{User: "local"}
	var soon time.Time
	ids := map[string]agent.KeyID{}
	for _, k := range []struct {
		name string
		auth.NewKey
	}{
		{"ada", auth.NewKey{Org: "acme", User: "ada", Role: agent.RoleAdmin}}, // the first
		{"oz", auth.NewKey{Org: "acme", User: "oz", Role: agent.RoleOperator}},
		{"ann", auth.NewKey{Org: "acme", User: "ann"}},
		{"bob", auth.NewKey{Org: "acme", User: "bob"}},
		{"gil", auth.NewKey{Org: "globex", User: "gil", Role: agent.RoleAdmin}},
		{"expired", auth.NewKey{Org: "acme", User: "ann", Role: agent.RoleAdmin}},
		{"revoked", auth.NewKey{Org: "acme", User: "ann", Role: agent.RoleAdmin}},
	} {
		if k.name == "expired" {
			soon = time.Now().Add(time.Second)
			k.ExpiresAt = soon
		}
		made, text, err := w.keys.Create(t.Context(), holder, k.NewKey)
		if err != nil {
			t.Fatal(err)
		}
		w.key[k.name], ids[k.name] = text, made.ID
	}
	w.key["wrong"] = "aptix_" + strings.Repeat("0", 16) + "_" + strings.Repeat("a", 33)
	other := "a"
	if w.key["ada"][30] == 'a' {
		other = "b"
	}
	w.key["changed"] = w.key["ada"][:30] + other + w.key["ada"][31:]
	w.key["token"] = "eyJhbGciOiJub25lIn0.eyJvcmciOiJhY21lIn0."
	if _, err := w.keys.Revoke(t.Context(), holder, ids["revoked"], false); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(soon)) // the end of a key is a moment on the clock

	w.as(t, "ann", "POST", "/v1/agent/execute", hello).wantStatus(t, 200)
	for _, id := range []*string{&w.response, &w.erased} {
		*id = decoded[struct{ ID string }](t, w.as(t, "ann", "POST", "/v1/responses", `{"input":"secret of ann"}`), 200).ID
	}
	w.as(t, "ann", "DELETE", "/v1/responses/"+w.erased, "").wantStatus(t, 200)
	return w
}

// as sends a request with the named key, from an address that nobody has used yet.
func (w *tenants) as(t *testing.T, who, method, target, body string) answer {
	t.Helper()
	w.calls++
	req := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	if body == "" {
		req.Body, req.ContentLength = http.NoBody, 0
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	req.RemoteAddr = fmt.Sprintf("10.%d.%d.%d:1", w.calls>>16, w.calls>>8&255, w.calls&255)
	req.Header.Set("X-Request-Id", "same")
	if who != "" {
		req.Header.Set("Authorization", "Bearer "+w.key[who])
	}
	return w.serve(t, req)
}

// bodies of requests by the operation that takes them; those about a session are about s1.
func bodyOf(rt route, session, response string) string {
	return map[string]string{
		"execute":        `{"sessionId":"` + session + `","turnId":"t1","instruction":"hello"}`,
		"preview":        `{"sessionId":"` + session + `","turnId":"t9","instruction":"hello"}`,
		"createSession":  `{}`,
		"setMode":        `{"mode":"ddr_authoring","reason":"r"}`,
		"setTools":       `{"tools":[]}`,
		"branchSession":  `{}`,
		"decideApproval": `{"decision":"approve"}`,
		"createKey":      `{"user":"eve","role":"admin"}`,
		"createResponse": `{"input":"hello","previous_response_id":"` + response + `"}`,
	}[rt.id]
}

func targetOf(rt route, session, response string) string {
	path := strings.NewReplacer("{sessionId}", session, "{responseId}", response, "{model}", "default", "{userId}", "nobody").Replace(rt.pattern)
	return target(route{pattern: path})
}

// S-1: every route × every method × every state of a credential. The public routes are
// listed by hand: a new one is a decision.
func TestIdentity_EveryRouteForEveryCredential(t *testing.T) {
	w := newTenants(t)
	open := map[string]bool{"live": true, "ready": true, "openapi": true, "docs": true, "index": true}
	asked := 0
	for _, rt := range routes() {
		if open[rt.id] != (rt.class == public) {
			t.Fatalf("%s has class %d and is not in the list of public routes, or the other way round", rt.id, rt.class)
		}
		// Ids that nobody has, so that those who may call the route change nothing.
		path, body := targetOf(rt, "nowhere", w.erased), bodyOf(rt, "elsewhere", w.erased)
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"} {
			for _, who := range []string{"", "wrong", "changed", "token", "expired", "revoked"} {
				asked++
				got := w.as(t, who, method, path, body).Code
				switch {
				case open[rt.id] && (method == "GET" || method == "HEAD"):
					if got != 200 {
						t.Errorf("%s %s with key %q: got %d, want it public", method, path, who, got)
					}
				case method == rt.method && got != 401, got != 401 && got != 404 && got != 405:
					t.Errorf("%s %s with key %q: got %d", method, path, who, got)
				}
			}
		}
		for who, role := range map[string]agent.Role{"ann": agent.RoleUser, "oz": agent.RoleOperator, "ada": agent.RoleAdmin} {
			asked++
			got := w.as(t, who, rt.method, path, body).Code
			if may := rt.class == public || role.Includes(rt.class.role()); may == (got == 403) || got == 401 {
				t.Errorf("%s with role %s: got %d", rt.id, role, got)
			}
		}
		if !strings.Contains(rt.pattern, "{sessionId}") && !strings.Contains(rt.pattern, "{responseId}") {
			continue
		}
		asked++
		if got := w.as(t, "gil", rt.method, targetOf(rt, "s1", w.response), body).Code; got != 404 {
			t.Errorf("%s with a key of another tenant: got %d", rt.id, got)
		}
	}
	t.Logf("%d requests", asked)
	w.as(t, "ann", "GET", "/v1/sessions/s1", "").wantStatus(t, 200)
}

// What a user has made is there for its operator and its admin, and for no other user: not
// by its name, in no list, by no repeat of a request, through neither door. He is told the
// very bytes that he is told of what does not exist.
// It holds row S-7 of docs/security.md.
func TestIdentity_UsersSeeTheirOwnSessionsOnly(t *testing.T) {
	w := newTenants(t)
	before := w.rows(t)
	for _, rt := range routes() {
		foreign, missing := targetOf(rt, "s1", w.response), targetOf(rt, "s2", w.erased)
		if rt.class == public || foreign == missing {
			continue
		}
		body := bodyOf(rt, "s1", w.response)
		got, want := w.as(t, "bob", rt.method, foreign, body), w.as(t, "bob", rt.method, missing, body)
		if got.Code != 404 || want.Code != 404 || nameless(got) != nameless(want) {
			t.Errorf("%s: ann's is answered with %d %s\nnobody's with %d %s", rt.id, got.Code, got.Body, want.Code, want.Body)
		}
	}
	w.as(t, "bob", "POST", "/v1/agent/execute", hello).want(t, agent.KindNotFound) // ann's own request again
	w.as(t, "bob", "POST", "/v1/agent/execute", `{"sessionId":"s1","turnId":"t2","instruction":"hello"}`).want(t, agent.KindNotFound)
	w.as(t, "bob", "POST", "/v1/agent/execute", `{"sessionId":"s1","turnId":"t1","toolResults":[{"toolCallId":"c","resultJson":"{}","executionMs":1}]}`).want(t, agent.KindNotFound)
	w.as(t, "bob", "POST", "/v1/agent/preview", hello).want(t, agent.KindNotFound)
	w.as(t, "bob", "POST", "/v1/responses", `{"input":"hello","conversation":"s1"}`).want(t, agent.KindNotFound)
	told := func(response string) string {
		return nameless(w.as(t, "bob", "POST", "/v1/responses", `{"input":"hello","previous_response_id":"`+response+`"}`))
	}
	if got, want := told(w.response), told(w.erased); got != want {
		t.Errorf("ann's response continues with %s\nnobody's with %s", got, want)
	}
	if list := w.as(t, "bob", "GET", "/v1/sessions", "").Body.String(); strings.Contains(list, "s1") || !strings.Contains(list, `"data":[]`) {
		t.Errorf("bob's list is %s", list)
	}
	// A name that is taken is all that he learns.
	taken := w.as(t, "bob", "POST", "/v1/sessions", `{"sessionId":"s1"}`)
	taken.want(t, agent.KindSessionExists)
	if after := w.rows(t); !reflect.DeepEqual(touched(before), touched(after)) {
		t.Error("bob has changed something")
	}

	w.as(t, "bob", "POST", "/v1/sessions", `{"sessionId":"mine"}`).wantStatus(t, http.StatusCreated)
	w.as(t, "bob", "POST", "/v1/sessions/mine/branch", `{"sessionId":"s1"}`).want(t, agent.KindSessionExists)
	w.as(t, "oz", "POST", "/v1/sessions/mine/branch", `{"sessionId":"ozs"}`).wantStatus(t, http.StatusCreated)
	w.as(t, "bob", "POST", "/v1/sessions/mine/branch", `{"sessionId":"ozs"}`).want(t, agent.KindSessionExists) // the same request
	for who, want := range map[string]int{"ann": 2, "bob": 1, "oz": 4, "ada": 4, "gil": 0} {
		var got []agent.SessionID
		for cursor := ""; ; {
			page := decode[List[Session]](t, w.as(t, who, "GET", "/v1/sessions?limit=1&cursor="+cursor, ""))
			for _, s := range page.Data {
				got = append(got, s.SessionID)
			}
			if cursor = page.NextCursor; cursor == "" {
				break
			}
		}
		if len(got) != want {
			t.Errorf("%s sees %v, want %d sessions", who, got, want)
		}
	}
	for _, who := range []string{"ann", "oz", "ada"} {
		w.as(t, who, "GET", "/v1/sessions/s1/turns/t1", "").wantStatus(t, 200)
		w.as(t, who, "GET", "/v1/responses/"+w.response, "").wantStatus(t, 200)
		w.as(t, who, "GET", "/v1/sessions/s1/turns/t1/events", "").wantStatus(t, 200)
	}
}

// nameless is the body of an answer without the names that it was asked for.
func nameless(a answer) string {
	return regexp.MustCompile(`\bs[12]\b|resp_[A-Za-z0-9_-]+…?`).ReplaceAllString(a.Body.String(), "it")
}

// touched are the rows of a server's tables without those that note the use of keys.
func touched(rows map[string][]string) map[string][]string {
	out := map[string][]string{}
	for table, lines := range rows {
		if table != "api_keys" {
			out[table] = lines
		}
	}
	return out
}

// What is guarded does nothing when nobody is known to ask. The methods that are told who
// asks are listed by hand: all others look at the context.
func TestIdentity_NothingIsDoneForNobody(t *testing.T) {
	w := newTenants(t)
	told := map[string]bool{"Submit": true, "Execute": true, "Preview": true, "PreviewMode": true, "Create": true, "List": true, "Get": true}
	key := agent.TurnKey{Org: "acme", Session: "s1", Turn: "t1"}
	for _, part := range []any{w.Server.turns, w.Server.sessions} {
		v := reflect.ValueOf(part)
		if v.Elem().Type().Field(0).Anonymous {
			t.Fatalf("%s embeds something, whose methods nobody guards", v.Type())
		}
		for i := range v.NumMethod() {
			m := v.Type().Method(i)
			if told[m.Name] || m.Type.In(1) != reflect.TypeFor[context.Context]() {
				continue // a reader looks with its first event
			}
			args := []reflect.Value{reflect.ValueOf(t.Context())}
			for n := 2; n < m.Type.NumIn(); n++ {
				arg := reflect.New(m.Type.In(n)).Elem()
				if arg.Type() == reflect.TypeFor[agent.TurnKey]() {
					arg.Set(reflect.ValueOf(key))
				}
				args = append(args, arg)
			}
			out := v.Method(i).Call(args)
			if err, _ := out[len(out)-1].Interface().(error); err == nil || agent.KindOf(err) != agent.KindInternal {
				t.Errorf("%s.%s for nobody: %v", v.Type(), m.Name, err)
			}
		}
	}
	if _, _, err := w.Server.turns.Reader(key, 0).Next(t.Context()); err == nil {
		t.Error("nobody reads the events of a turn")
	}
}

// S-14: who guesses is told to wait, who has a key is not.
func TestIdentity_GuessesFromOneAddressAreHeldUp(t *testing.T) {
	w := newTenants(t)
	held := 0
	for range 50 {
		a := w.do(t, "GET", "/v1/sessions", "", "Authorization", "Bearer "+w.key["wrong"])
		if a.Code == http.StatusTooManyRequests {
			held++
			if a.Header().Get("Retry-After") == "" {
				t.Error("nobody is told how long")
			}
		} else {
			a.want(t, agent.KindUnauthenticated)
		}
		w.do(t, "GET", "/v1/sessions", "", "Authorization", "Bearer "+w.key["ann"]).wantStatus(t, 200)
	}
	t.Logf("%d of 50 guesses were held up", held)
	if held < 30 {
		t.Errorf("only %d of 50 guesses were held up", held)
	}
	w.as(t, "wrong", "GET", "/v1/sessions", "").want(t, agent.KindUnauthenticated) // from elsewhere
	w.do(t, "GET", "/v1/sessions", "").want(t, agent.KindUnauthenticated)          // without any
}

// changing is an Authenticator whose one credential may change.
type changing struct{ fault atomic.Pointer[agent.Error] }

func (c *changing) Authenticate(*http.Request) (agent.Caller, error) {
	if fault := c.fault.Load(); fault != nil {
		return agent.Caller{}, fault
	}
	return agent.Caller{Org: "acme", User: "ann", Role: agent.RoleUser, Key: keyID}, nil
}

// S-13: a stream ends within 30 s of the credential that opened it, whether it is silent
// or never is, and goes on while nobody can say whether the credential is good.
func TestIdentity_StreamsEndWithTheirCredential(t *testing.T) {
	for name, every := range map[string]time.Duration{"silent": time.Hour, "slow": 14 * time.Second, "busy": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				who := &changing{}
				r := newRig(t, func(c *Config) { c.Auth = who })
				start := time.Now()
				r.turns.put(agent.Turn{Key: agent.TurnKey{Org: "acme", Session: "s1", Turn: "t1"}, State: agent.TurnRunning})
				r.turns.follow = func(ctx context.Context, key agent.TurnKey, _ int64) iter.Seq2[agent.Event, error] {
					return func(yield func(agent.Event, error) bool) {
						for n := int64(1); time.Since(start) < 10*time.Minute; n++ {
							if !yield(agent.Event{Type: agent.EventTextDelta, Text: "x", Sequence: n, SessionID: key.Session, TurnID: key.Turn}, nil) {
								return
							}
							select {
							case <-time.After(every):
							case <-ctx.Done():
								return
							}
						}
					}
				}
				time.AfterFunc(time.Minute, func() { who.fault.Store(agent.Errorf(agent.KindUnavailable, "The store is away.")) })
				time.AfterFunc(2*time.Minute, func() { who.fault.Store(agent.Errorf(agent.KindUnauthenticated, "The key was revoked.")) })
				a := r.do(t, "GET", "/v1/sessions/s1/turns/t1/events", "", "Authorization", "Bearer x")
				cut := time.Now()
				if !a.aborted {
					t.Errorf("the stream ended with %d, as if it were whole", a.Code)
				}
				if after := cut.Sub(start) - 2*time.Minute; after < 0 || after > 30*time.Second {
					t.Errorf("cut %s after the credential was revoked", after)
				} else {
					t.Logf("cut %s after the credential was revoked", after)
				}
			})
		})
	}
}

// TestIdentity_AnswersAreNotGivenForARevokedCredential holds row S-13 of docs/security.md.
func TestIdentity_AnswersAreNotGivenForARevokedCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		who := &changing{}
		r := newRig(t, func(c *Config) { c.Auth = who })
		r.turns.completed()
		r.turns.await = func(context.Context) (agent.Turn, error) {
			time.Sleep(time.Minute)
			who.fault.Store(agent.Errorf(agent.KindUnauthenticated, "The key was revoked."))
			return r.turns.script.turn, nil
		}
		r.do(t, "POST", "/v1/agent/execute", hello, "Authorization", "Bearer x").want(t, agent.KindUnauthenticated)
	})
}

// anOperator is whoever asks.
type anOperator struct{}

func (anOperator) Authenticate(*http.Request) (agent.Caller, error) {
	return agent.Caller{Org: "acme", User: "ann", Role: agent.RoleOperator, Key: keyID}, nil
}

// S-3: the names that a server answers to.
func TestGuard_HostsOfTheServer(t *testing.T) {
	names := []string{"localhost:8080", "127.0.0.1", "[::1]:8080", "api.example.com", "API.example.com:8443", "other.example.com", "192.0.2.7:8080", "evil.com", "localhost.evil", "127.0.0.1.nip.io", "2130706433", "localhost.", ""}
	loopback := map[string]bool{"localhost:8080": true, "127.0.0.1": true, "[::1]:8080": true}
	own := map[string]bool{"api.example.com": true, "API.example.com:8443": true}
	for _, tt := range []struct {
		name                    string
		on, loopback, hosts     bool
		wantOwn, wantEverything bool
	}{
		{"nobody authenticates", false, true, false, false, false},
		{"nobody authenticates, with a name", false, true, true, true, false},
		{"loopback", true, true, false, false, false},
		{"loopback, with a name", true, true, true, true, false},
		{"everywhere", true, false, false, true, true},
		{"everywhere, with a name", true, false, true, true, false},
	} {
		r := newRig(t, func(c *Config) {
			c.Auth, c.Open, c.Loopback = anOperator{}, func() bool { return !tt.on }, tt.loopback
			if tt.hosts {
				c.Hosts = []string{"api.example.com"}
			}
		})
		for _, host := range names {
			want := loopback[host] || tt.wantOwn && own[host] || tt.wantEverything
			for _, path := range []string{"/livez", "/v1/sessions", "/metrics", "/mcp"} {
				if got := r.do(t, "GET", path, "", "Host", host).Code != http.StatusForbidden; got != want {
					t.Errorf("%s: Host %q at %s is answered: %v, want %v", tt.name, host, path, got, want)
				}
			}
		}
	}
}

package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
)

// TestCheckListen holds row S-2 of docs/security.md.
func TestCheckListen(t *testing.T) {
	for _, tt := range []struct {
		addr          string
		authenticated bool
		ok            bool
	}{
		{"127.0.0.1:8080", false, true},
		{"127.8.9.10:0", false, true},
		{"localhost:8080", false, true},
		{"[::1]:8080", false, true},
		{":8080", false, false},
		{"0.0.0.0:8080", false, false},
		{"[::]:8080", false, false},
		{"192.168.1.5:8080", false, false},
		{"example.com:8080", false, false},
		{"127.0.0.1.nip.io:8080", false, false},
		{"[::ffff:127.0.0.1]:8080", false, false},
		{"localhost", false, false},
		{"0.0.0.0:8080", true, true},
		{":8080", true, true},
		{"localhost", true, false},
	} {
		if err := CheckListen(tt.addr, tt.authenticated); (err == nil) != tt.ok {
			t.Errorf("CheckListen(%q, %v) = %v, want ok %v", tt.addr, tt.authenticated, err, tt.ok)
		}
	}
}

var foreignHosts = []string{
	"evil.com", "evil.com:8080", "127.0.0.1.nip.io", "localhost.evil", "localhost.evil:8080", "localhost.", "localhost.:8080",
	"127.0.0.1.", "2130706433", "2130706433:8080", "0x7f000001", "0177.0.0.1", "127.1", "127.0.0.01", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]",
	"[::1%25lo]", "::1:8080", "192.168.1.1", "localhost:evil", "localhost:", "localhost:99999", "user@localhost", "localhost:80:80", "",
}

// TestGuard_ForeignHostIsRefusedOnEveryRoute holds row S-3 of docs/security.md.
func TestGuard_ForeignHostIsRefusedOnEveryRoute(t *testing.T) {
	r := newRig(t)
	r.turns.completed()
	for _, rt := range routes() {
		for _, host := range foreignHosts {
			body := ""
			if len(rt.in.bodies) > 0 {
				body = hello
			}
			a := r.do(t, rt.method, target(rt), body, "Host", host)
			if a.Code != http.StatusForbidden {
				t.Errorf("%s with Host %q: got %d", rt.id, host, a.Code)
			}
		}
	}
	for _, path := range []string{"/", "/no/such", "/v1//sessions", "/debug/pprof", "/metrics", "/mcp"} {
		r.do(t, "GET", path, "", "Host", "evil.com").want(t, agent.KindForbidden)
	}
	if len(r.turns.submitted) > 0 || len(r.sessions.all) > 0 {
		t.Error("a refused request changed something")
	}
}

// TestGuard_OtherMachinesAreRefusedWhileNobodyAuthenticates: whoever listens for the server
// may do it on an address that others reach, a program that has it inside above all.
// It holds row S-2 of docs/security.md.
func TestGuard_OtherMachinesAreRefusedWhileNobodyAuthenticates(t *testing.T) {
	open := newRig(t)
	for address, want := range map[string]int{"127.0.0.1": 200, "::1": 200, "::ffff:127.0.0.1": 200, "0.0.0.0": 403, "192.0.2.7": 403, "2001:db8::7": 403} {
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.ParseIP(address)})), "GET", "/livez", nil)
		r.Host = "localhost"
		open.serve(t, r).wantStatus(t, want)
	}
}

// TestGuard_LoopbackNamesAreAnswered holds row S-3 of docs/security.md.
func TestGuard_LoopbackNamesAreAnswered(t *testing.T) {
	r := newRig(t)
	for _, host := range []string{"localhost", "LocalHost:8080", "127.0.0.1", "127.0.0.1:1", "127.255.255.254:65535", "[::1]", "[::1]:8080"} {
		r.do(t, "GET", "/livez", "", "Host", host).wantStatus(t, 200)
	}
}

// The combinations of headers by which browsers and other clients show themselves.
var origins = []struct {
	name                string
	header              []string
	readable, writeable bool
}{
	{"no browser", nil, true, true},
	{"cookie without Origin", []string{"Cookie", "a=b"}, true, true}, // cookies mean nothing here
	{"our own page", []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://localhost:8080"}, true, true},
	{"typed into the address bar", []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate"}, true, true},
	{"older browser, our own page", []string{"Origin", "http://localhost:8080"}, true, true},
	{"cross-site fetch", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Origin", "https://evil.com"}, false, false},
	{"cross-site form or image", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, false, false},
	{"cross-site link", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, true, false},
	{"another port of this machine", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Origin", "http://localhost:3000"}, false, false},
	{"older browser, foreign page", []string{"Origin", "https://evil.com"}, false, false},
	{"older browser, another port", []string{"Origin", "http://localhost:3000"}, false, false},
	{"sandboxed page", []string{"Origin", "null"}, false, false},
}

// TestGuard_CrossOriginRequestsAreRefused holds rows S-4 and S-5 of docs/security.md.
func TestGuard_CrossOriginRequestsAreRefused(t *testing.T) {
	r := newRig(t)
	r.turns.completed()
	for _, o := range origins {
		t.Run(o.name, func(t *testing.T) {
			for _, rt := range routes() {
				allowed, body := o.readable, ""
				if rt.method != "GET" {
					allowed = o.writeable
				}
				if len(rt.in.bodies) > 0 {
					body = hello
				}
				a := r.do(t, rt.method, target(rt), body, o.header...)
				if (a.Code != http.StatusForbidden) != allowed {
					t.Errorf("%s: got %d, want allowed %v", rt.id, a.Code, allowed)
				}
				if !allowed {
					a.want(t, agent.KindForbidden)
				}
			}
		})
	}
}

// TestGuard_NoCORS holds row S-6 of docs/security.md.
func TestGuard_NoCORS(t *testing.T) {
	r := newRig(t)
	for _, rt := range routes() {
		for _, header := range [][]string{
			{"Origin", "https://evil.com", "Access-Control-Request-Method", rt.method, "Access-Control-Request-Headers", "content-type"},
			{"Origin", "http://localhost:8080", "Access-Control-Request-Method", rt.method},
			{"Origin", "null", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"},
		} {
			a := r.do(t, "OPTIONS", target(rt), "", header...)
			if a.Code < 400 {
				t.Errorf("%s: preflight %v is answered with %d", rt.id, header, a.Code)
			}
			for name := range a.Header() {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s: preflight %v is answered with %s", rt.id, header, name)
				}
			}
		}
	}
}

// keys is an Authenticator with one caller of each role, and one of none.
type keys struct{}

func (keys) Authenticate(r *http.Request) (agent.Caller, error) {
	switch r.Header.Get("Authorization") {
	case "Bearer user-key":
		return agent.Caller{Org: "acme", User: "ann", Role: agent.RoleUser}, nil
	case "Bearer operator-key":
		return agent.Caller{Org: "acme", User: "oz", Role: agent.RoleOperator}, nil
	case "Bearer admin-key":
		return agent.Caller{Org: "acme", User: "ada", Role: agent.RoleAdmin}, nil
	case "Bearer strange-key":
		return agent.Caller{Org: "acme", User: "eve", Role: "root"}, nil
	}
	return agent.Caller{}, agent.Errorf(agent.KindUnauthenticated, "Send a key as Authorization: Bearer.").Because(errors.New("no such key"))
}

// Every route × every method, without and with a wrong key. The public routes are
// listed by hand: a new one is a decision.
// It holds row S-1 of docs/security.md.
func TestAuthentication_EveryRouteNeedsAKey(t *testing.T) {
	open := map[string]bool{"/livez": true, "/readyz": true, "/openapi.json": true, "/docs": true}
	r := newRig(t, func(c *Config) { c.Auth = keys{} })
	r.turns.completed()
	for _, rt := range routes() {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"} {
			for _, header := range [][]string{nil, {"Authorization", "Bearer wrong"}, {"Authorization", "Basic dXNlcjprZXk="}} {
				a := r.do(t, method, target(rt), hello, append([]string{"Host", "api.example.com"}, header...)...)
				switch {
				case open[target(rt)] && (method == "GET" || method == "HEAD"):
					if a.Code != 200 {
						t.Errorf("%s %s: got %d, want it public", method, target(rt), a.Code)
					}
				case a.Code != 401 && a.Code != 403 && a.Code != 404 && a.Code != 405:
					t.Errorf("%s %s with %v: got %d", method, target(rt), header, a.Code)
				case method == rt.method && a.Code != 401:
					t.Errorf("%s %s with %v: got %d, want 401", method, target(rt), header, a.Code)
				}
			}
		}
	}
	if len(r.turns.submitted) > 0 || len(r.sessions.all) > 0 {
		t.Error("a refused request changed something")
	}
}

// TestAuthentication_CallerComesFromTheKey holds row S-12 of docs/security.md.
func TestAuthentication_CallerComesFromTheKey(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Auth = keys{} })
	r.turns.completed()
	a := r.do(t, "POST", "/v1/agent/execute", hello, "Host", "api.example.com", "Authorization", "Bearer user-key")
	a.wantStatus(t, 200)
	if got := r.turns.callers[0]; got != (agent.Caller{Org: "acme", User: "ann", Role: agent.RoleUser}) {
		t.Errorf("the turn belongs to %+v", got)
	}
	r.do(t, "GET", "/v1/sessions", "", "Authorization", "Bearer user-key", "Origin", "https://evil.com").want(t, agent.KindForbidden)
}

// TestAuthentication_OtherTenantsThingsDoNotExist holds row S-7 of docs/security.md.
func TestAuthentication_OtherTenantsThingsDoNotExist(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Auth = keys{} })
	r.turns.put(agent.Turn{Key: agent.TurnKey{Org: "other", Session: "s1", Turn: "t1"}, State: agent.TurnCompleted, Response: []byte(final)})
	r.sessions.all = []agent.Session{{Org: "other", ID: "s1", Mode: "general"}}
	for _, rt := range routes() {
		if !strings.Contains(rt.pattern, "{sessionId}") {
			continue
		}
		body := map[string]string{"setMode": `{"mode":"general","reason":"r"}`, "setTools": `{"tools":[]}`, "branchSession": `{}`, "decideApproval": `{"decision":"approve"}`}[rt.id]
		foreign := r.do(t, rt.method, target(rt), body, "Authorization", "Bearer user-key", "X-Request-Id", "same").want(t, agent.KindNotFound)
		missing := r.do(t, rt.method, strings.ReplaceAll(target(rt), "s1", "s2"), body, "Authorization", "Bearer user-key", "X-Request-Id", "same").want(t, agent.KindNotFound)
		if foreign.Detail != missing.Detail {
			t.Errorf("%s: %q for another tenant's, %q for nobody's", rt.id, foreign.Detail, missing.Detail)
		}
	}
}

// TestAuthentication_RolesOfRoutes holds row S-1 of docs/security.md.
func TestAuthentication_RolesOfRoutes(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Auth = keys{} })
	answer := func(_ *Server, w http.ResponseWriter, _ *http.Request) error {
		return writeJSON(w, 200, Health{Status: "ok"})
	}
	var rows []route
	classes := map[string]class{"user": user, "operator": operator, "admin": admin}
	for name, c := range classes {
		rows = append(rows, route{"GET", "/v1/" + name, c, name, "Things", answer, nothing, gives(is(200)), nil})
	}
	mux, err := r.mount(rows)
	if err != nil {
		t.Fatal(err)
	}
	r.mux = mux
	for _, test := range []struct {
		key                   string
		user, operator, admin int
	}{
		{"", 401, 401, 401},
		{"Bearer strange-key", 403, 403, 403},
		{"Bearer user-key", 200, 403, 403},
		{"Bearer operator-key", 200, 200, 403},
		{"Bearer admin-key", 200, 200, 200},
	} {
		for name, want := range map[string]int{"user": test.user, "operator": test.operator, "admin": test.admin} {
			req := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/"+name, http.NoBody)
			req.Header.Set("Authorization", test.key)
			w := httptest.NewRecorder()
			r.ServeHTTP(w, req)
			if w.Code != want {
				t.Errorf("key %q: the route for class %s answers %d, want %d", test.key, name, w.Code, want)
			}
		}
	}
}

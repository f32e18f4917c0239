package mcp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aptixhq/aptix/internal/mcp"
	"github.com/aptixhq/aptix/internal/mcp/mcptest"
	"github.com/aptixhq/aptix/internal/secret"
)

const canary = "sk-canary-0123456789"

// A server that repeats what it was sent in headers puts it before nobody: not in a result,
// and not in an error.
// It holds row S-25 of docs/security.md.
func TestHeaders_AreConcealedInWhatTheServerSays(t *testing.T) {
	web := httptest.NewServer(mcptest.Handler(mcptest.Good, true))
	t.Cleanup(web.Close)
	r := newRig(t, mcp.ServerConfig{Name: "test", URL: web.URL, Headers: map[string]secret.Text{"Authorization": secret.New("Bearer " + canary)}})
	got := r.says("test__echo", `{"text":"you said Bearer `+canary+`, that is `+canary+`"}`)
	if strings.Contains(got, canary) || !strings.Contains(got, "you said ***, that is ***") {
		t.Errorf("got %s", got)
	}
	if _, err := r.call("test__refuse", `{"text":"not with `+canary+`"}`); err == nil || strings.Contains(err.Error(), canary) || !strings.Contains(err.Error(), "not with ***") {
		t.Errorf("got %v", err)
	}
	if strings.Contains(r.log.String(), canary) {
		t.Errorf("the log has it:\n%s", r.log)
	}
}

// A local server that writes its variables to stderr does not write them into the log.
func TestVariables_AreConcealedInTheLog(t *testing.T) {
	t.Setenv("MCPTEST_TOKEN", canary)
	c := mcptest.Command(t, "test", mcptest.Good)
	c.Env = []string{"MCPTEST_TOKEN"}
	r := newRig(t, c)
	// Once as it is, and once across the end of what the log takes of a line.
	r.says("test__complain", `{"text":"the token is `+canary+`"}`)
	r.says("test__complain", `{"text":"`+strings.Repeat("x", 1<<10-5)+canary+`"}`)
	eventually(t, "both lines", func() bool { return strings.Count(r.log.String(), "MCP server says") == 2 })
	if log := r.log.String(); strings.Contains(log, canary[:4]) || !strings.Contains(log, "the token is ***") {
		t.Errorf("got %s", log)
	}
}

// A server that wants OAuth is not logged in to, and what it names for that is not fetched.
// It holds row S-10 of docs/security.md.
func TestOAuthMetadata_IsNotFetched(t *testing.T) {
	var fetched atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fetched.Add(1) }))
	t.Cleanup(elsewhere.Close)
	var asked sync.Map
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.URL.Path, true)
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+elsewhere.URL+`/.well-known/oauth-protected-resource"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(web.Close)
	if _, err := mcp.Declared(t.Context(), mcp.ServerConfig{Name: "test", URL: web.URL + "/mcp"}, discard); err == nil {
		t.Error("no error")
	}
	if n := fetched.Load(); n != 0 {
		t.Errorf("%d requests to the address that the server named", n)
	}
	asked.Range(func(path, _ any) bool {
		if path != "/mcp" {
			t.Errorf("the server was asked for %s", path)
		}
		return true
	})
}

package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/mcp"
	"github.com/aptixhq/aptix/internal/mcp/mcptest"
	"github.com/aptixhq/aptix/internal/secret"
)

// frugal fails the test when what follows needs more memory than a bounded reader would.
func frugal(t *testing.T) func() {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	runtime.GC()
	before, most := heap(), uint64(0)
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			most = max(most, heap())
			select {
			case <-over:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() {
		t.Helper()
		close(over)
		<-watched
		if most > before+256<<20 {
			t.Errorf("%d MiB of memory for what a hostile server sent", (most-before)>>20)
		}
	}
}

// TestHostileServers_OverStdio holds row S-29 of docs/security.md.
func TestHostileServers_OverStdio(t *testing.T) {
	for _, tt := range []struct {
		kind   mcptest.Kind
		within time.Duration // long, but where it is waited for
		want   string
	}{
		{mcptest.Silent, time.Second, "no session with the server"},
		{mcptest.Deaf, time.Second, "no session with the server"},
		{mcptest.Junk, time.Minute, "no session with the server"},
		{mcptest.Flood, time.Minute, "no session with the server"},
		{mcptest.Mute, 3 * time.Second, "read the list of tools"},
		{mcptest.Endless, time.Minute, "does not end"},
		{mcptest.Many, time.Minute, "more than 256 tools"},
	} {
		t.Run(string(tt.kind), func(t *testing.T) {
			defer frugal(t)()
			c := mcptest.Command(t, "test", tt.kind)
			c.StartTimeout = tt.within
			if _, err := mcp.Declared(t.Context(), c, discard); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// hostile is a remote server that answers the handshake, and then what it pleases.
func hostile(t *testing.T, answer http.HandlerFunc) mcp.ServerConfig {
	good := mcptest.Handler(mcptest.Good, true)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var call struct{ Method string }
		if json.Unmarshal(body, &call) == nil && call.Method == "tools/call" {
			answer(w, r)
			return
		}
		good.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return mcp.ServerConfig{Name: "test", URL: s.URL, Timeout: 30 * time.Second, MaxBytes: 1 << 17}
}

func TestHostileServers_OverHTTP(t *testing.T) {
	var written atomic.Int64
	endless := func(kind, part string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			for range 1 << 30 / len(part) {
				if _, err := io.WriteString(w, part); err != nil {
					return
				}
				written.Add(int64(len(part)))
			}
		}
	}
	unknown, nothing := "may have been carried out or not", "nothing was done"
	for _, tt := range []struct {
		what   string
		answer http.HandlerFunc
		want   string
	}{
		{"a gigabyte of JSON", endless("application/json", strings.Repeat(" ", 1<<16)), unknown},
		{"a gigabyte in one event", endless("text/event-stream", "data: "+strings.Repeat("x", 1<<16)), unknown},
		{"a gigabyte of comments", endless("text/event-stream", ": "+strings.Repeat("x", 1<<10)+"\n\n"), unknown},
		{"a gigabyte of notifications", endless("text/event-stream", `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`+"\n\n"), unknown},
		{"a length of a gigabyte", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", fmt.Sprint(1<<30))
			_, _ = io.WriteString(w, "{")
		}, unknown},
		{"a refusal of a gigabyte", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			endless("text/plain", strings.Repeat("x", 1<<16))(w, r)
		}, nothing},
		{"headers of a megabyte", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		}, unknown},
		{"no answer", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, unknown},
		{"a broken connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, unknown},
		{"not JSON", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "<html>")
		}, unknown},
		{"another kind of answer", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, unknown},
		{"a server error", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, unknown},
		{"a refused key", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, nothing},
		{"another place", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/elsewhere", http.StatusTemporaryRedirect)
		}, nothing},
	} {
		t.Run(tt.what, func(t *testing.T) {
			defer frugal(t)()
			c := hostile(t, tt.answer)
			if tt.what == "no answer" {
				c.Timeout = time.Second
			}
			r := newRig(t, c)
			written.Store(0)
			if _, err := r.call("test__echo", `{"text":"x"}`); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			// What the connection holds comes on top of what is read.
			if n := written.Load() >> 20; n > 64 {
				t.Errorf("the server got rid of %d MiB", n)
			}
		})
	}
}

// TestRedirect_CarriesNoHeaders holds row S-10 of docs/security.md.
func TestRedirect_CarriesNoHeaders(t *testing.T) {
	var seen sync.Map
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen.Store("elsewhere", r.Header) }))
	t.Cleanup(elsewhere.Close)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store("server", r.Header.Get("Authorization"))
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(s.Close)
	c := mcp.ServerConfig{Name: "test", URL: s.URL, Headers: map[string]secret.Text{"Authorization": secret.New("Bearer secret")}}
	if _, err := mcp.Declared(t.Context(), c, discard); err == nil {
		t.Error("no error")
	}
	if got, _ := seen.Load("server"); got != "Bearer secret" {
		t.Errorf("the server got the header %q", got)
	}
	if got, ok := seen.Load("elsewhere"); ok {
		t.Errorf("a redirect was followed, with %v", got)
	}
}

// TestHugeAnswer_OverStdio holds row S-29 of docs/security.md.
func TestHugeAnswer_OverStdio(t *testing.T) {
	c := mcptest.Command(t, "test", mcptest.Good)
	c.MaxBytes = 1 << 20
	r := newRig(t, c)
	if _, err := r.call("test__huge", `{"n":2000000}`); err == nil || !strings.Contains(err.Error(), "may have been carried out or not") {
		t.Errorf("got %v", err)
	}
	eventually(t, "the server again", func() bool {
		out, err := r.call("test__huge", `{"n":1000}`)
		return err == nil && len(out.Text) > 1000
	})
}

func TestStormOfNotifications(t *testing.T) {
	r := newRig(t, mcptest.Command(t, "test", mcptest.Good))
	r.says("test__storm", `{"n":3000}`)
	if got := r.says("test__echo", `{"text":"still here"}`); !strings.Contains(got, "still here") {
		t.Errorf("got %s", got)
	}
}

func TestAServerThatDoesNotRead_HoldsNobodyUp(t *testing.T) {
	c := mcptest.Command(t, "test", mcptest.Good)
	lock := mcptest.Approve(t, c)
	deaf := mcptest.Command(t, "test", mcptest.Deaf)
	deaf.StartTimeout = time.Second
	r := newRigWith(t, lock, deaf)
	_, err := r.call("test__echo", `{"text":"x"}`)
	if err == nil || !strings.Contains(err.Error(), "could not be started") {
		t.Errorf("got %v", err)
	}
}

func TestManyCallsAtOnce(t *testing.T) {
	c := mcptest.Command(t, "test", mcptest.Good)
	c.Concurrency = 4
	r := newRig(t, c)
	var work sync.WaitGroup
	for i := range 64 {
		work.Go(func() {
			text := fmt.Sprintf("call %d", i)
			out, err := r.call("test__echo", fmt.Sprintf(`{"text":%q}`, text))
			if err != nil || !strings.Contains(out.Text, text) {
				t.Errorf("%s: %s, %v", text, out.Text, err)
			}
		})
	}
	work.Wait()
	if n := strings.Count(r.log.String(), "MCP server started"); n != 1 {
		t.Errorf("the server was started %d times for 64 calls", n)
	}
}

func TestCancel_ReturnsAtOnce(t *testing.T) {
	r := newRig(t, mcptest.Command(t, "test", mcptest.Good))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	began := time.Now()
	for _, tool := range r.servers.Tools() {
		if tool.Definition().Name == "test__slow" {
			if _, err := tool.Execute(ctx, nil, `{"n":30000}`); err == nil {
				t.Error("no error")
			}
		}
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("a cancelled call took %s", took)
	}
}

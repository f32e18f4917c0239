package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/node"
)

// TestNothingIsFetched: no URL that comes in a request, in a header, in a schema or from the
// model is ever connected to.
// It holds row S-10 of docs/security.md.
func TestNothingIsFetched(t *testing.T) {
	var connects atomic.Int64
	wire := httptest.NewUnstartedServer(http.NotFoundHandler())
	wire.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connects.Add(1)
		}
	}
	wire.Start()
	t.Cleanup(wire.Close)
	c := newColony(t)
	c.command(0, "mcp", "approve", "--yes")
	s := c.serve()

	// What must be refused, and what is taken as the text that it is.
	for _, tt := range []struct {
		name, path, body string
		status           int
	}{
		{"an image by its URL", "/v1/responses", `{"model":"default","input":[{"role":"user","content":[{"type":"input_image","image_url":"URL/a.png"}]}]}`, 400},
		{"an image at a metadata service", "/v1/responses", `{"model":"default","input":[{"role":"user","content":[{"type":"input_image","image_url":"http://169.254.169.254/latest/"}]}]}`, 400},
		{"an image that is a file", "/v1/responses", `{"model":"default","input":[{"role":"user","content":[{"type":"input_image","image_url":"file:///etc/passwd"}]}]}`, 400},
		{"a file by its URL", "/v1/responses", `{"model":"default","input":[{"role":"user","content":[{"type":"input_file","file_url":"URL/a.pdf"}]}]}`, 400},
		{"an image in a turn", "/v1/agent/execute", `{"sessionId":"i","turnId":"t","instruction":"do:ok","clipboardImages":[{"id":"i","mimeType":"image/png","dataBase64":"URL/a.png"}]}`, 400},
		{"an artifact by its URL", "/v1/agent/execute", `{"sessionId":"a","turnId":"t","instruction":"do:ok","inputArtifacts":[{"relativePath":"URL/a","fileName":"a","contents":"x","origin":"ide"}]}`, 400},
		{"a remote MCP server as a tool", "/v1/responses", `{"model":"default","input":"do:ok","tools":[{"type":"mcp","server_label":"x","server_url":"URL"}]}`, 400},
		{"a schema that refers elsewhere", "/v1/sessions", `{"sessionId":"ref","tools":[{"type":"function","name":"look","parameters":{"type":"object","$schema":"URL/s","$id":"URL/i","properties":{"a":{"$ref":"URL/schema.json"},"b":{"$dynamicRef":"URL/d#x"}}}}]}`, 0},
		{"a turn with that schema", "/v1/agent/execute", `{"sessionId":"ref","turnId":"t","instruction":"do:client-tool"}`, 0},
		{"a model that names URLs", "/v1/agent/execute", `{"sessionId":"m","turnId":"t","instruction":"do:ok ![x](URL/x.png) <img src=URL/y>"}`, 200},
	} {
		res, err := s.post(tt.path, strings.ReplaceAll(tt.body, "URL", wire.URL))
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if tt.status != 0 && res.StatusCode != tt.status || res.StatusCode >= 500 {
			t.Errorf("%s: got %d, want %d: %s", tt.name, res.StatusCode, tt.status, b)
		}
	}
	s.end(t, syscall.SIGINT)
	if n := connects.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}

// TestHeaders_ConfigureNothing: what a proxy or a tracer writes into headers changes nothing
// of what a server answers or does.
// It holds row S-10 of docs/security.md.
func TestHeaders_ConfigureNothing(t *testing.T) {
	c := newColony(t)
	c.command(0, "mcp", "approve", "--yes")
	s := c.serve()
	ask := func(method, path, body string, header http.Header) string {
		req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name := range header {
			req.Header.Set(name, header.Get(name))
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Request-Id", "r")
		client := http.Client{Timeout: within}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		b, err := io.ReadAll(res.Body)
		res.Header.Del("Date")
		return fmt.Sprint(res.StatusCode, res.Header, string(b), err)
	}
	odd := http.Header{}
	for name, value := range map[string]string{
		"Baggage": "otel.exporter.endpoint=http://evil.example,OPENAI_BASE_URL=http://evil.example", "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"Tracestate": "endpoint=http://evil.example", "X-Forwarded-For": "203.0.113.9", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https", "X-Forwarded-Prefix": "/evil",
		"Forwarded": "for=203.0.113.9;host=evil.example;proto=https", "X-Real-Ip": "203.0.113.9", "X-Original-Url": "/v1/sessions/x", "X-Rewrite-Url": "/v1/sessions/x",
		"X-Http-Method-Override": "DELETE", "Proxy": "http://evil.example", "Openai-Organization": "evil", "Openai-Project": "evil", "X-Org-Id": "evil", "X-User-Id": "evil",
	} {
		odd.Set(name, value)
	}
	for _, tt := range [][3]string{
		{"GET", "/", ""}, {"GET", "/docs", ""}, {"GET", "/openapi.json", ""}, {"GET", "/readyz", ""}, {"GET", "/v1/modes", ""}, {"GET", "/v1/tools", ""}, {"GET", "/v1/sessions", ""},
		{"POST", "/v1/agent/preview", `{"sessionId":"h","turnId":"t","instruction":"do:ok"}`}, {"GET", "/v1/sessions/none", ""}, {"POST", "/v1/sessions", `{"mode":"none"}`},
	} {
		plain, got := ask(tt[0], tt[1], tt[2], nil), ask(tt[0], tt[1], tt[2], odd)
		if got != plain {
			t.Errorf("%s %s: with the headers %s\nwithout %s", tt[0], tt[1], got, plain)
		}
		if strings.Contains(got, "evil") {
			t.Errorf("%s %s: %s", tt[0], tt[1], got)
		}
	}
	s.end(t, syscall.SIGINT)
}

// TestLogs_HoldNoContent: what users, models and tools say is in no line of the log, at its
// most talkative.
// It holds row S-27 of docs/security.md.
func TestLogs_HoldNoContent(t *testing.T) {
	c := newColony(t)
	c.command(0, "mcp", "approve", "--yes")
	t.Chdir(c.dir)
	t.Setenv("MCP_ENV", c.env["MCP_ENV"])
	cfg, err := config.Load(config.Options{LookupEnv: func(name string) (string, bool) {
		v, ok := c.env[name]
		return v, ok
	}})
	if err != nil {
		t.Fatal(err)
	}
	log := &output{}
	n, err := node.New(t.Context(), parts(cfg, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.Level(-100), AddSource: true}))))
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(n.Handler())
	c.drive(&canaryServer{c: c, url: web.URL})
	web.Close()
	if err := n.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	said := log.String()
	if strings.Count(said, "\n") < len(c.faults()) {
		t.Errorf("the log says nothing:\n%s", said)
	}
	c.look("the log", said, inLogs)
	c.look("the log", said, everywhere)
	c.lookFor(everywhere)
}

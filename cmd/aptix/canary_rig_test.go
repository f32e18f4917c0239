package main

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/mcp/mcptest"
	"github.com/aptixhq/aptix/internal/telemetry/otlptest"
)

// place says where a canary must not be.
type place int

const (
	// everywhere is what a server says: its output, its answers, the output of commands.
	everywhere place = iota
	// inLogs is its output alone.
	inLogs
	// notStored is what it keeps.
	notStored
)

// forbidden says of each canary where it must not be. Secrets of the configuration and of a
// caller's credential are nowhere; content is in answers and in the journal, and in no log;
// an X-Request-Id is echoed, logged and in the audit log, which is what it is for.
var forbidden = map[string][]place{
	"openai": {everywhere, inLogs, notStored}, "embeddings": {everywhere, inLogs, notStored}, "database": {everywhere, inLogs, notStored}, "nats": {everywhere, inLogs, notStored},
	"otlp-header": {everywhere, inLogs, notStored}, "mcp-header": {everywhere, inLogs, notStored}, "mcp-env": {everywhere, inLogs, notStored}, "authorization": {everywhere, inLogs, notStored},
	"api-key": {everywhere, inLogs, notStored}, "wrong-key": {everywhere, inLogs, notStored}, "token": {everywhere, inLogs, notStored}, "issuer": {everywhere, notStored},
	"console-token": {everywhere, inLogs, notStored}, "console-cookie": {everywhere, inLogs, notStored}, "webhook": {everywhere, inLogs},
	"instruction": {inLogs}, "artifact": {inLogs}, "arguments": {inLogs}, "output": {inLogs}, "request-id": {},
}

// colony is a configuration full of canaries, with all that a server made of it says.
type colony struct {
	t      *testing.T
	dir    string
	env    map[string]string
	canary map[string]string

	collector      *otlptest.Collector
	toldOfTraces   atomic.Int64 // requests to the remote MCP server that name a trace
	embeddingsFail atomic.Bool
	hung           chan struct{}

	mu   sync.Mutex // guards what follows
	says map[string]string
	// learned are secrets that the server makes by itself, in the place of a canary.
	learned map[string]string
}

func newColony(t *testing.T) *colony {
	c := &colony{t: t, dir: t.TempDir(), collector: otlptest.Start(t), canary: map[string]string{}, says: map[string]string{}, learned: map[string]string{}, hung: make(chan struct{}, 10)}
	for name := range forbidden {
		c.canary[name] = "cnry-" + name + "-Zq7xK2mW9pL4vT"
	}
	provider := httptest.NewServer(http.HandlerFunc(c.provider))
	remote := httptest.NewServer(http.HandlerFunc(c.remote()))
	t.Cleanup(func() {
		provider.CloseClientConnections()
		remote.CloseClientConnections()
		provider.Close()
		remote.Close()
	})
	c.env = map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": c.dir, "TMPDIR": c.dir, "TZ": "UTC",
		"OPENAI_API_KEY": c.canary["openai"], "OPENAI_BASE_URL": provider.URL + "/v1", "APTIX_EMBEDDINGS_API_KEY": c.canary["embeddings"],
		"APTIX_EMBEDDINGS_BASE_URL": provider.URL + "/v1", "APTIX_EMBEDDINGS_MODEL": "embed", "MCP_HEADER": c.canary["mcp-header"], "MCP_ENV": c.canary["mcp-env"],
		"OTLP_HEADER": c.canary["otlp-header"],
	}
	c.write("modes/general.yaml", strings.ReplaceAll(`id: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA
key: general
displayName: General
description: For canaries.
whenToUse: Use it.
isDefault: true
tools: ["files__*", "remote__*", agent_list_modes]
`, "\t", "  "))
	c.write("aptix.yaml", `modes: modes
limits: {modelAttempts: 1}
embeddings: {attempts: 1}
approvals: {"files__*": never, "remote__*": never}
mcp:
  servers:
    - {name: files, command: mcptest, args: [leaky], env: [MCP_ENV]}
    - name: remote
      url: `+remote.URL+`
      headers: [{name: Authorization, prefix: "Bearer ", env: MCP_HEADER}]
telemetry:
  otlp:
    endpoint: `+c.collector.URL+`
    headers: [{name: Authorization, prefix: "Bearer ", env: OTLP_HEADER}]
`)
	return c
}

func (c *colony) set(name, value string) { c.env[name] = value }

// write writes a file and returns the folder that it is in.
func (c *colony) write(name, text string) string {
	c.t.Helper()
	file := filepath.Join(c.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		c.t.Fatal(err)
	}
	return filepath.Dir(file)
}

func (c *colony) dataFiles() []string {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(c.dir, "aptix-data", "*"))
	if err != nil || len(files) == 0 {
		c.t.Fatalf("no data files: %v", err)
	}
	return files
}

// cmd makes a command in the folder of the configuration.
func (c *colony) cmd(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(unraced.folder(c.t), "aptix"), args...)
	cmd.Dir = c.dir
	for _, name := range slices.Sorted(maps.Keys(c.env)) {
		cmd.Env = append(cmd.Env, name+"="+c.env[name])
	}
	return cmd
}

// command runs a command, notes what it says, and expects it to end with a code; -1 is any.
func (c *colony) command(code int, args ...string) {
	c.t.Helper()
	cmd := c.cmd(args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	timer := time.AfterFunc(within, func() { _ = cmd.Process.Kill() })
	err := cmd.Run()
	timer.Stop()
	c.note(strings.Join(args, " "), out.String())
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || code >= 0 && cmd.ProcessState.ExitCode() != code {
		c.t.Fatalf("aptix %s: %v\n%s", strings.Join(args, " "), err, out.String())
	}
}

// doctor asks what is configured, with a provider that works and with one that does not.
func (c *colony) doctor() {
	c.t.Helper()
	c.command(-1, "doctor")
	c.command(-1, "doctor", "--probe")
	good := c.env["OPENAI_BASE_URL"]
	for _, bad := range []string{"http://127.0.0.1:1/v1", strings.TrimSuffix(good, "/v1") + "/echo"} {
		c.set("OPENAI_BASE_URL", bad)
		c.command(-1, "doctor")
	}
	c.set("OPENAI_BASE_URL", good)
	c.command(-1, "mcp", "list")
	c.command(-1, "tools")
}

func (c *colony) note(where, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.says[where] += text
}

// learn has a secret that the server made looked for.
func (c *colony) learn(name, secret string) {
	c.t.Helper()
	if _, known := forbidden[name]; !known || len(secret) < 16 {
		c.t.Fatalf("%s: %q cannot be looked for", name, secret)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.learned[name] = secret
}

// traces notes what the collector was sent, where there must be something.
func (c *colony) traces() {
	c.t.Helper()
	sent := c.collector.Bytes()
	if !strings.Contains(sent, "execute_tool") || !strings.Contains(sent, "invoke_agent") {
		c.t.Error("no turn with a tool was traced")
	}
	if c.toldOfTraces.Load() == 0 {
		c.t.Error("no call of an MCP tool named its trace")
	}
	for _, h := range c.collector.Headers() {
		if h.Get("Authorization") != "Bearer "+c.canary["otlp-header"] {
			c.t.Error("the collector was sent no credential")
		}
	}
	c.note("server's output, traces", sent)
}

// lookFor looks for all canaries in all that was noted.
func (c *colony) lookFor(p place) {
	c.t.Helper()
	c.mu.Lock()
	says := maps.Clone(c.says)
	c.mu.Unlock()
	for where, text := range says {
		c.look(where, text, p)
		if strings.HasPrefix(where, "server's output") {
			c.look(where, text, inLogs)
		}
	}
	if len(says) == 0 {
		c.t.Error("nothing was said")
	}
}

// look looks for the canaries that must not be in a place.
func (c *colony) look(where, text string, p place) {
	c.t.Helper()
	for name, places := range forbidden {
		if !slices.Contains(places, p) {
			continue
		}
		c.mu.Lock()
		secret := cmp.Or(c.learned[name], c.canary[name])
		c.mu.Unlock()
		if form := found(text, secret); form != "" {
			at := strings.Index(text, form)
			c.t.Errorf("%s has the canary of %s as %q:\n…%s…", where, name, form, strings.ToValidUTF8(text[max(0, at-300):min(len(text), at+300)], "?"))
		}
	}
}

// found returns the first form of a secret that is in a text, "" when there is none.
func found(text, secret string) string {
	forms := []string{secret, url.QueryEscape(secret), url.PathEscape(secret), fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret), strings.Trim(strconv.Quote(secret), `"`)}
	if b, err := json.Marshal(secret); err == nil {
		forms = append(forms, strings.Trim(string(b), `"`))
	}
	for skip := range 3 {
		// What a neighbour has a part in is left out, on either side.
		whole := secret[(3-skip)%3:]
		whole = whole[:len(whole)/3*3]
		forms = append(forms, base64.StdEncoding.EncodeToString([]byte(whole)), base64.URLEncoding.EncodeToString([]byte(whole)))
	}
	for _, form := range forms {
		if strings.Contains(text, form) {
			return form
		}
	}
	return ""
}

func base64Of(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// canaryServer is a server that is a process of its own.
type canaryServer struct {
	c    *colony
	cmd  *exec.Cmd
	url  string
	out  *output
	done chan error
}

// output is what a process says, which may be read while it speaks.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// serve starts a server and waits until it is ready.
func (c *colony) serve() *canaryServer {
	c.t.Helper()
	s := &canaryServer{c: c, cmd: c.cmd("serve", "--listen", "127.0.0.1:0"), out: &output{}, done: make(chan error, 1)}
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	if err := s.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() { s.done <- s.cmd.Wait() }()
	c.t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if _, rest, ok := strings.Cut(s.out.String(), "Aptix is ready at "); ok && strings.Contains(rest, "Ctrl-C stops it.") {
			s.url, _, _ = strings.Cut(rest, "\n")
			if _, rest, ok := strings.Cut(rest, "/?token="); ok {
				token, _, _ := strings.Cut(rest, "\n")
				c.learn("console-token", token)
			}
			return s
		}
		if time.Since(began) > within {
			c.t.Fatalf("the server is not ready:\n%s", s.out)
		}
	}
}

// end ends the server with a signal and notes all that it has said.
func (s *canaryServer) end(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.done:
	case <-time.After(within):
		t.Fatalf("the server has not stopped:\n%s", s.out)
	}
	s.c.note("server's output", s.said())
}

// said is all that the server has said, without the console's token where it is printed.
func (s *canaryServer) said() string {
	before, rest, printed := strings.Cut(s.out.String(), "/?token=")
	if !printed {
		return before
	}
	_, after, _ := strings.Cut(rest, "\n")
	return before + "\n" + after
}

// do sends a request with the caller's canaries and notes the whole answer.
func (s *canaryServer) do(method, path, body string) string {
	s.c.t.Helper()
	res, err := s.send(method, path, body)
	if err != nil {
		s.c.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	var head bytes.Buffer
	_ = res.Header.Write(&head)
	s.c.note(method+" "+path, head.String()+string(b)+fmt.Sprint(err))
	return string(b)
}

func (s *canaryServer) post(path, body string) (*http.Response, error) {
	return s.send("POST", path, body)
}

func (s *canaryServer) send(method, path, body string) (*http.Response, error) {
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+s.c.canary["authorization"])
	req.Header.Set("X-Request-Id", s.c.canary["request-id"])
	client := http.Client{Timeout: within}
	return client.Do(req)
}

// turn is the body of a user turn with all that a user's content can be.
func (c *colony) turn(session, instruction string) string {
	b, err := json.Marshal(map[string]any{
		"sessionId": session, "turnId": "t1", "instruction": instruction + " " + c.canary["instruction"],
		"inputArtifacts": []any{map[string]any{"relativePath": "a.txt", "fileName": "a.txt", "contents": c.canary["artifact"], "origin": "user"}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return string(b)
}

// drive has turns succeed and fail in every way that the provider knows, and reads all that
// can be read of them.
func (c *colony) drive(s *canaryServer) {
	c.t.Helper()
	for _, what := range c.faults() {
		session := fmt.Sprintf("%s-%d", what, time.Now().UnixNano())
		s.do("POST", "/v1/sessions", `{"sessionId":"`+session+`","tools":[{"type":"function","name":"look","parameters":{"type":"object"}}]}`)
		got := s.do("POST", "/v1/agent/execute", c.turn(session, "do:"+what))
		if strings.Contains(got, "too often in a row") {
			c.t.Fatalf("%s: the provider was not asked: %s", what, got)
		}
		if what == "client-tool" {
			if !strings.Contains(got, "call_look") {
				c.t.Fatalf("no tool was called: %s", got)
			}
			s.do("POST", "/v1/agent/execute", fmt.Sprintf(`{"sessionId":%q,"turnId":"t1","toolResults":[{"toolCallId":"call_look","executionMs":1,"resultJson":%q}]}`,
				session, `{"found":"`+c.canary["output"]+`"}`))
		}
		turn := "/v1/sessions/" + session + "/turns/t1"
		for _, path := range []string{turn, turn + "/events", turn + "/requests", "/v1/sessions/" + session, "/v1/sessions/" + session + "/mode-history"} {
			s.do("GET", path, "")
		}
		// An answer in between, so that the provider is not left alone for its faults.
		s.do("POST", "/v1/responses", `{"model":"default","input":"do:ok"}`)
		s.do("POST", "/v1/responses", fmt.Sprintf(`{"model":"default","input":%q}`, "do:"+what))
		s.do("POST", "/v1/responses", fmt.Sprintf(`{"model":"default","stream":true,"input":%q}`, "do:"+what))
	}
	for _, path := range []string{"/", "/docs", "/openapi.json", "/livez", "/readyz", "/v1/sessions", "/v1/modes", "/v1/tools", "/v1/models", "/nowhere", "/metrics", "/debug/pprof/", "/debug/vars"} {
		s.do("GET", path, "")
	}
	c.note("server's output, metrics", s.do("GET", "/metrics", ""))
	s.do("POST", "/v1/agent/execute", `{"sessionId":`)
	s.do("POST", "/v1/agent/preview", c.turn("preview", "do:ok"))
}

// remote is an MCP server that repeats its header wherever a call says HEADER, and fails with
// it where one says FAIL.
func (c *colony) remote() http.HandlerFunc {
	tools := mcptest.Handler(mcptest.Good, true)
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Traceparent") != "" {
			c.toldOfTraces.Add(1)
		}
		header := r.Header.Get("Authorization")
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if bytes.Contains(body, []byte("FAIL")) {
			http.Error(w, "not with "+header, http.StatusInternalServerError)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		tools.ServeHTTP(&planting{w, "HEADER", header}, r)
	}
}

// planting writes a canary wherever a word stands in an answer.
type planting struct {
	http.ResponseWriter
	word, canary string
}

func (p *planting) WriteHeader(status int) {
	p.Header().Del("Content-Length")
	p.ResponseWriter.WriteHeader(status)
}

func (p *planting) Write(b []byte) (int, error) {
	_, err := io.WriteString(p.ResponseWriter, strings.ReplaceAll(string(b), p.word, p.canary))
	return len(b), err
}

// Unwrap lets a server flush.
func (p *planting) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Flush is for those that ask for a http.Flusher.
func (p *planting) Flush() { _ = http.NewResponseController(p.ResponseWriter).Flush() }

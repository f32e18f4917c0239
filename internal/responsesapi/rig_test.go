package responsesapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/llm/wirecheck"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/reasoner"
	"github.com/aptixhq/aptix/internal/responsesapi"
	"github.com/aptixhq/aptix/internal/server"
	"github.com/aptixhq/aptix/internal/session"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/sqlite"
	"github.com/aptixhq/aptix/internal/store/sqlite/sqlitetest"
	"github.com/aptixhq/aptix/internal/tool"
	"github.com/aptixhq/aptix/internal/tool/builtin"
)

// rig is the whole server on a socket, over a data file and a fake provider, and a
// stock client of it. All that the client receives is judged by OpenAI's schema.
type rig struct {
	t        *testing.T
	provider *llmtest.Server
	path     string
	log      *syncBuffer
	store    *sqlite.Store
	sessions *session.Manager
	pipeline *pipeline.Pipeline
	url      string
	web      *httptest.Server
	client   openai.Client
	judge    *judge
	rules    agent.ApprovalRules
}

func newRig(t *testing.T, script ...llmtest.Reply) *rig {
	t.Helper()
	r := &rig{t: t, provider: llmtest.New(t, script...), path: sqlitetest.File(t), log: &syncBuffer{}}
	r.start()
	t.Cleanup(r.stop)
	return r
}

func (r *rig) start() {
	t := r.t
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	log := slog.New(slog.NewTextHandler(r.log, nil))
	catalog := mode.Builtin()
	var err error
	r.store, err = sqlite.Open(context.Background(), r.path, log)
	must(err)
	late := &lateSessions{}
	change, err := builtin.NewChangeMode(late, log)
	must(err)
	list, err := builtin.NewListModes(catalog, log)
	must(err)
	registry, err := tool.NewRegistry(change, list)
	must(err)
	r.sessions, err = session.New(session.Config{Store: r.store, Catalog: catalog, Registry: registry, Contexts: contexts{}, Log: log})
	must(err)
	late.Manager = r.sessions
	loop, err := reasoner.New(reasoner.Config{Model: llm.New(llm.Config{BaseURL: r.provider.URL}), Sessions: r.store, Registry: registry, Log: log})
	must(err)
	r.pipeline, err = pipeline.New(pipeline.Config{
		Store: r.store, Sessions: r.sessions, Catalog: catalog, Registry: registry, Contexts: contexts{}, Reasoner: loop, Hub: events.NewHub(), Log: log,
		ApprovalRules: r.rules,
	})
	must(err)
	must(r.pipeline.Recover(context.Background()))
	door, err := responsesapi.New(responsesapi.Config{Turns: r.pipeline, Sessions: r.sessions, Tools: registry, Contexts: contexts{}})
	must(err)
	edge, err := server.New(server.Config{Turns: r.pipeline, Sessions: r.sessions, Responses: door, Catalog: catalog, Registry: registry, Log: log})
	must(err)
	r.web = httptest.NewServer(edge)
	r.url = r.web.URL + "/v1/"
	r.judge = &judge{t: t}
	r.client = openai.NewClient(option.WithBaseURL(r.url), option.WithAPIKey("none"), option.WithMaxRetries(0),
		option.WithHTTPClient(&http.Client{Transport: r.judge}))
}

// stop ends the server when its turns have ended.
func (r *rig) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	r.stopWithin(ctx)
}

// kill stops the server under its turns.
func (r *rig) kill() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r.stopWithin(ctx)
}

func (r *rig) stopWithin(ctx context.Context) {
	if r.web == nil {
		return
	}
	err := r.pipeline.Drain(ctx)
	r.web.CloseClientConnections()
	r.web.Close()
	r.web = nil
	if err := errors.Join(err, r.store.Close()); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) restart() {
	r.t.Helper()
	r.stop()
	r.start()
}

// do sends a request as it is, and returns the answer.
func (r *rig) do(method, path, body string, header ...string) (int, http.Header, []byte) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := (&http.Client{Transport: r.judge}).Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, got
}

// judge is a transport that holds what comes back against OpenAI's schema.
type judge struct {
	t *testing.T
}

func (j *judge) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(req.URL.Path, "/responses") {
		return resp, err
	}
	resp.Body = &judged{ReadCloser: resp.Body, judge: j, media: resp.Header.Get("Content-Type")}
	return resp, nil
}

// judged is a body that is judged once it has been read.
type judged struct {
	io.ReadCloser
	*judge
	media string
	read  bytes.Buffer
}

func (b *judged) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read.Write(p[:n])
	if errors.Is(err, io.EOF) {
		b.whole()
	}
	return n, err
}

func (b *judged) whole() {
	if b.media == "text/event-stream" {
		for _, data := range eventData(b.read.Bytes()) {
			b.check(wirecheck.ValidateEvent(data), data)
		}
		return
	}
	var kind struct{ Object string }
	if json.Unmarshal(b.read.Bytes(), &kind) == nil && kind.Object == "response" && !bytes.Contains(b.read.Bytes(), []byte(`"deleted"`)) {
		b.check(wirecheck.ValidateResponse(b.read.Bytes()), b.read.Bytes())
	}
}

func (j *judge) check(err error, body []byte) {
	switch {
	case err == nil:
	case errors.Is(err, wirecheck.ErrNoSchema) && os.Getenv(wirecheck.RequireEnv) != "1":
		j.t.Log("WARNING:", err)
	default:
		j.t.Errorf("%v\n%s", err, body)
	}
}

// eventData returns the data of the events of a stream.
func eventData(stream []byte) [][]byte {
	var out [][]byte
	lines := bufio.NewScanner(bytes.NewReader(stream))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); ok {
			out = append(out, bytes.Clone(data))
		}
	}
	return out
}

type syncBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

var storePage = store.Page{}

type lateSessions struct{ *session.Manager }

// contexts is a configuration with two conversation contexts, of which the terse one
// takes no images, and a second agent.
type contexts struct{}

func (contexts) List() []agent.ContextName {
	return []agent.ContextName{
		{Agent: "default", Conversation: "default", DefaultAgent: true, Default: true},
		{Agent: "default", Conversation: "terse", DefaultAgent: true},
		{Agent: "other", Conversation: "default"},
	}
}

func (c contexts) Conversation(agentID, conversationID string) (agent.ConversationContext, bool) {
	for _, n := range c.List() {
		if n.Agent == agentID && n.Conversation == conversationID {
			return agent.ConversationContext{ID: conversationID, Model: "test-model", System: "You are Aptix.", NoImages: conversationID == "terse"}, true
		}
	}
	return agent.ConversationContext{}, false
}

func (c contexts) Resolve(agentID, conversationID string) (string, string, agent.ConversationContext, error) {
	if agentID == "" {
		agentID = "default"
	}
	if conversationID == "" {
		conversationID = "default"
	}
	found, ok := c.Conversation(agentID, conversationID)
	if !ok {
		return "", "", found, agent.Errorf(agent.KindUnknownContext, "There is no such context.")
	}
	return agentID, conversationID, found, nil
}

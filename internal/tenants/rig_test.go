package tenants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aptixhq/aptix/internal/access"
	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/auth"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/llm/demo"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/outbound"
	"github.com/aptixhq/aptix/internal/pgtest"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/rag"
	"github.com/aptixhq/aptix/internal/rag/embedding"
	"github.com/aptixhq/aptix/internal/rag/folder"
	"github.com/aptixhq/aptix/internal/rag/sqliteindex"
	"github.com/aptixhq/aptix/internal/reasoner"
	"github.com/aptixhq/aptix/internal/responsesapi"
	"github.com/aptixhq/aptix/internal/secret"
	"github.com/aptixhq/aptix/internal/server"
	"github.com/aptixhq/aptix/internal/session"
	"github.com/aptixhq/aptix/internal/store/postgres"
	"github.com/aptixhq/aptix/internal/store/postgres/postgrestest"
	"github.com/aptixhq/aptix/internal/store/sqlite"
	"github.com/aptixhq/aptix/internal/store/sqlite/sqlitetest"
	"github.com/aptixhq/aptix/internal/telemetry"
	"github.com/aptixhq/aptix/internal/tool"
	"github.com/aptixhq/aptix/internal/tool/builtin"
	"github.com/aptixhq/aptix/internal/webhook"
)

// cluster is the PostgreSQL server of the tests.
var cluster = pgtest.Cluster{Prepare: postgrestest.Migrate}

func TestMain(m *testing.M) { goleak.VerifyTestMain(cluster.Around(m)) }

// journal is a store as the parts of a server need it.
type journal interface {
	pipeline.Store
	session.Store
	reasoner.Sessions
	auth.Store
	server.AuditLog
	webhook.Registry
	Close() error
}

// onEveryStore runs a test on a data file and on PostgreSQL.
func onEveryStore(t *testing.T, test func(t *testing.T, s journal)) {
	t.Run("sqlite", func(t *testing.T) {
		s, err := sqlite.Open(t.Context(), sqlitetest.File(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		test(t, s)
	})
	t.Run("postgres", func(t *testing.T) {
		s, err := postgres.Open(t.Context(), secret.New(cluster.Database(t)), nil)
		if err != nil {
			t.Fatal(err)
		}
		test(t, s)
	})
}

// rig is the whole server for many organisations.
type rig struct {
	t         *testing.T
	edge      *server.Server
	pipeline  *pipeline.Pipeline
	documents *sqliteindex.Store
	provider  *provider
	log       *lines
}

func newRig(t *testing.T, s journal) *rig {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r := &rig{t: t, log: &lines{}, provider: newProvider()}
	log := slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	catalog := mode.Builtin()
	r.documents = sqliteindex.New(filepath.Join(t.TempDir(), "index.db"))
	retriever, err := rag.NewRetriever(rag.RetrieverConfig{Store: r.documents, Embedder: embedding.Hashing{}, Log: log, Deadline: time.Minute})
	must(err)
	late := &lateSessions{}
	change, err := builtin.NewChangeMode(late, log)
	must(err)
	list, err := builtin.NewListModes(catalog, log)
	must(err)
	registry, err := tool.NewRegistry(change, list)
	must(err)
	sessions, err := session.New(session.Config{Store: s, Catalog: catalog, Registry: registry, Contexts: contexts{}, Log: log})
	must(err)
	late.Manager = sessions
	loop, err := reasoner.New(reasoner.Config{Model: llm.New(llm.Config{BaseURL: "http://demo.invalid/v1", Transport: r.provider}), Sessions: s, Registry: registry, Log: log})
	must(err)
	watched := telemetry.New(telemetry.Config{})
	r.pipeline, err = pipeline.New(pipeline.Config{
		Telemetry: watched, Store: s, Sessions: sessions, Catalog: catalog, Registry: registry, Contexts: contexts{}, Reasoner: loop, Hub: events.NewHub(), Log: log,
		Retriever: retriever, ApprovalRules: agent.ApprovalRules{"agent_list_modes": agent.ApprovalAlwaysAsk},
	})
	must(err)
	must(r.pipeline.Recover(t.Context()))
	keys, err := auth.NewKeyring(s, false, log)
	must(err)
	turns, theirs := access.NewTurns(r.pipeline, sessions), access.NewSessions(sessions)
	door, err := responsesapi.New(responsesapi.Config{Turns: turns, Sessions: theirs, Tools: registry, Contexts: contexts{}})
	must(err)
	watched.Ask(telemetry.Gauges{Leases: r.pipeline.Leases, Room: s.Room,
		Queued: func(context.Context) (int64, error) { return 0, nil }, Spans: func() (int64, int64, int64) { return 0, 0, 0 }})
	r.edge, err = server.New(server.Config{
		Turns: turns, Sessions: theirs, Responses: door, Catalog: catalog, Registry: registry, Log: log, Auth: tokens{}, Keys: keys,
		Audit: s, Erasures: r.pipeline, Webhooks: webhook.New(s, outbound.Policy{}), Telemetry: watched,
	})
	must(err)
	t.Cleanup(func() {
		r.provider.letGo()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(r.pipeline.Drain(ctx), r.documents.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// tokens says that whoever names an organisation is its administrator. All have the same
// name, as people of different organisations may.
type tokens struct{}

func (tokens) Authenticate(r *http.Request) (agent.Caller, error) {
	org, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return agent.Caller{}, agent.Errorf(agent.KindUnauthenticated, "Send a key.")
	}
	return agent.Caller{Org: agent.OrgID(org), User: "ann", Role: agent.RoleAdmin}, nil
}

// request is what somebody asks.
type request struct {
	method, target, body string
	header               []string // pairs
}

// answer is what one request got, and what the server logged meanwhile.
type answer struct {
	status int
	header http.Header
	body   string
	log    string
	took   time.Duration
}

func (r *rig) as(org string, q request) answer {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	req := httptest.NewRequestWithContext(ctx, q.method, q.target, strings.NewReader(q.body))
	if q.body == "" {
		req.Body, req.ContentLength = http.NoBody, 0
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Authorization", "Bearer "+org)
	req.Header.Set("X-Request-Id", "same")
	for i := 0; i+1 < len(q.header); i += 2 {
		req.Header.Set(q.header[i], q.header[i+1])
	}
	w := httptest.NewRecorder()
	before := r.log.len()
	start := time.Now()
	r.edge.ServeHTTP(w, req)
	took := time.Since(start)
	return answer{w.Code, w.Header(), w.Body.String(), r.log.since(before), took}
}

// want is a request that must succeed.
func (r *rig) want(org string, q request, status int) answer {
	r.t.Helper()
	a := r.as(org, q)
	if a.status != status {
		r.t.Fatalf("%s %s %s: got %d, want %d; %s", q.method, q.target, q.body, a.status, status, a.body)
	}
	return a
}

// index makes the documents of an organisation.
func (r *rig) index(org, name, text string) {
	r.t.Helper()
	dir := r.t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	u := folder.Updater{Keeper: r.documents, Folder: folder.Folder{Path: dir}, Embedder: embedding.Hashing{}}
	if _, err := u.Update(r.t.Context(), rag.Index{Org: agent.OrgID(org), Name: "docs", Repo: "docs"}); err != nil {
		r.t.Fatal(err)
	}
}

// provider is the demo model, which also holds an answer back and refuses one, when it is
// asked to.
type provider struct {
	demo    http.RoundTripper
	held    chan struct{} // of each answer that is held back
	release chan struct{}
	letGo   func()
}

func newProvider() *provider {
	p := &provider{demo: demo.Transport(), held: make(chan struct{}, 16), release: make(chan struct{})}
	p.letGo = sync.OnceFunc(func() { close(p.release) })
	return p
}

// The words by which an instruction makes the provider hold back or refuse.
const (
	hold    = "PLEASE-HOLD"
	refusal = "PLEASE-REFUSE"
)

func (p *provider) RoundTrip(req *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	switch {
	case bytes.Contains(raw, []byte(hold)):
		p.held <- struct{}{}
		select {
		case <-p.release:
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	case bytes.Contains(raw, []byte(refusal)):
		text, err := json.Marshal(map[string]any{"error": map[string]string{"message": "refused: " + string(raw), "code": "bad"}})
		if err != nil {
			return nil, err
		}
		return &http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(bytes.NewReader(text)), Request: req}, nil
	}
	req.Body = io.NopCloser(bytes.NewReader(raw))
	return p.demo.RoundTrip(req)
}

// lines is a log that can be read while it is written.
type lines struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Len()
}

func (l *lines) since(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b.Bytes()[n:])
}

type lateSessions struct{ *session.Manager }

// contexts is a configuration with one context.
type contexts struct{}

func (contexts) List() []agent.ContextName {
	return []agent.ContextName{{Agent: "default", Conversation: "default", DefaultAgent: true, Default: true}}
}

func (contexts) Conversation(_, _ string) (agent.ConversationContext, bool) {
	return agent.ConversationContext{ID: "default", Model: "demo", System: "You are Aptix."}, true
}

func (c contexts) Resolve(_, _ string) (string, string, agent.ConversationContext, error) {
	found, _ := c.Conversation("", "")
	return "default", "default", found, nil
}

package pipeline_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/budget"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/mcp"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/quota"
	"github.com/aptixhq/aptix/internal/rag"
	"github.com/aptixhq/aptix/internal/rag/embedding"
	"github.com/aptixhq/aptix/internal/rag/sqliteindex"
	"github.com/aptixhq/aptix/internal/reasoner"
	"github.com/aptixhq/aptix/internal/secret"
	"github.com/aptixhq/aptix/internal/session"
	"github.com/aptixhq/aptix/internal/store/postgres"
	"github.com/aptixhq/aptix/internal/store/sqlite"
	"github.com/aptixhq/aptix/internal/store/sqlite/sqlitetest"
	"github.com/aptixhq/aptix/internal/store/storetest"
	"github.com/aptixhq/aptix/internal/telemetry"
	"github.com/aptixhq/aptix/internal/tool"
	"github.com/aptixhq/aptix/internal/tool/builtin"
)

// caller is who sends the turns of these tests.
var caller = agent.Caller{Org: "acme", User: "alice"}

// rig is the whole server below HTTP, on a real database file and against a fake
// provider on a real socket. It can be stopped and started over the same file.
type rig struct {
	t        *testing.T
	path     string // of the file
	database string // instead of the file
	provider *llmtest.Server
	catalog  *mode.Catalog
	extra    []tool.Tool
	mcp      *mcp.Servers
	chain    bool
	consent  bool
	rules    agent.ApprovalRules
	exposure agent.Exposure
	limits   reasoner.Limits
	times    pipeline.Limits
	log      *slog.Logger
	model    reasoner.Model // nil is the provider over HTTP
	hooks    *hooks         // nil leaves the store as it is
	bus      pipeline.Bus
	watched  *telemetry.Telemetry // nil notes nothing
	gate     *gate                // nil for a store that is always there
	lost     string               // a conversation context that configuration has lost
	now      func() time.Time
	// retention is that of sessions; 0 keeps them.
	retention time.Duration
	budgets   budget.Plans
	quotas    quota.Plans
	documents *sqliteindex.Store // nil when nothing is indexed

	store    storetest.Store
	sessions *session.Manager
	pipeline *pipeline.Pipeline
	hub      *events.Hub
	stopped  bool
}

func newRig(t *testing.T, options ...func(*rig)) *rig {
	t.Helper()
	r := &rig{t: t, path: sqlitetest.File(t), catalog: mode.Builtin(), log: slog.New(slog.DiscardHandler)}
	if strings.HasPrefix(t.Name(), "TestPostgreSQL/") {
		withDatabase(cluster.Database(t))(r)
	}
	for _, o := range options {
		o(r)
	}
	r.start()
	t.Cleanup(r.stop)
	return r
}

func (r *rig) start() {
	r.t.Helper()
	fail := func(err error) {
		if err != nil {
			r.t.Helper()
			r.t.Fatal(err)
		}
	}
	var err error
	r.store, err = r.open()
	fail(err)
	sessions := &lateSessions{}
	change, err := builtin.NewChangeMode(sessions, r.log)
	fail(err)
	list, err := builtin.NewListModes(r.catalog, r.log)
	fail(err)
	all := append([]tool.Tool{change, list}, r.extra...)
	if r.mcp != nil {
		all = append(all, r.mcp.Tools()...)
	}
	registry, err := tool.NewRegistry(all...)
	fail(err)
	if r.mcp != nil {
		r.mcp.ReportTo(registry)
	}
	r.sessions, err = session.New(session.Config{Store: r.store, Catalog: r.catalog, Registry: registry, Contexts: contexts{}, Log: r.log, Consent: r.consent, Quotas: r.quotas})
	fail(err)
	sessions.Manager = r.sessions
	model := r.model
	if model == nil {
		model = llm.New(llm.Config{BaseURL: r.provider.URL, APIKey: secret.New("sk-test-canary")})
	}
	var journal pipeline.Store = r.store
	if r.hooks != nil {
		r.hooks.Store = r.store
		journal = r.hooks.over(r.store)
	}
	if r.gate != nil {
		r.gate.leasedStore = journal.(leasedStore)
		journal = r.gate
	}
	r.hub = events.NewHub()
	budgets, err := budget.New(budget.Config{Ledger: r.store, Plans: r.budgets, CallTime: time.Minute, Log: r.log, Now: r.now})
	fail(err)
	loop, err := reasoner.New(reasoner.Config{Model: model, Sessions: r.store, Registry: registry, Log: r.log, Limits: r.limits, Budgets: budgets})
	fail(err)
	var retriever pipeline.Retriever
	if r.documents != nil {
		retriever, err = rag.NewRetriever(rag.RetrieverConfig{Store: r.documents, Embedder: embedding.Hashing{}, Log: r.log, Deadline: time.Minute})
		fail(err)
	}
	r.pipeline, err = pipeline.New(pipeline.Config{
		Store: journal, Sessions: r.sessions, Catalog: r.catalog, Registry: registry, Contexts: contexts{r.lost},
		Reasoner: loop, Hub: r.hub, Bus: r.bus, Log: r.log, Chain: r.chain, ApprovalRules: r.rules, Exposure: r.exposure, Consent: r.consent, Limits: r.times, Retention: r.retention, Now: r.now,
		Retriever: retriever, Budgets: budgets, Quotas: r.quotas, Telemetry: r.watched,
	})
	fail(err)
	fail(r.pipeline.Recover(r.t.Context()))
	r.stopped = false
}

// open opens the store: a file, or a database that other rigs may share.
func (r *rig) open() (storetest.Store, error) {
	if r.database != "" {
		return postgres.Open(r.t.Context(), secret.New(r.database), r.log)
	}
	return sqlite.Open(r.t.Context(), r.path, r.log)
}

// withDatabase lets the journal be in PostgreSQL, where nodes may share it.
func withDatabase(connection string) func(*rig) {
	return func(r *rig) {
		r.database, r.times.Poll = connection+" pool_max_conns=6", 20*time.Millisecond
	}
}

func (r *rig) stop() {
	if r.stopped {
		return
	}
	r.stopped = true
	if r.gate != nil {
		r.gate.reopen()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := r.pipeline.Drain(ctx); err != nil {
		r.t.Errorf("drain: %v", err)
	}
	if err := r.store.Close(); err != nil {
		r.t.Errorf("close store: %v", err)
	}
}

// restart stops the process's parts and starts them over the same file.
func (r *rig) restart() {
	r.t.Helper()
	r.stop()
	r.start()
}

// lateSessions lets a tool be built before the manager that needs the registry.
type lateSessions struct{ *session.Manager }

// contexts is a configuration with two conversation contexts, less the one named.
type contexts struct{ lost string }

func (c contexts) Conversation(agentID, conversationID string) (agent.ConversationContext, bool) {
	if conversationID == c.lost {
		return agent.ConversationContext{}, false
	}
	temperature := 0.2
	switch agentID + "/" + conversationID {
	case "default/default":
		return agent.ConversationContext{ID: "default", Model: "test-model", System: "You are Aptix.", Temperature: &temperature}, true
	case "default/terse":
		return agent.ConversationContext{ID: "terse", Model: "test-model-2", System: "Be terse."}, true
	case "default/blind":
		return agent.ConversationContext{ID: "blind", Model: "test-model", NoImages: true, NoFiles: true}, true
	case "default/allowing":
		return agent.ConversationContext{ID: "allowing", Model: "test-model", AllowedTools: true}, true
	case "default/unlettered":
		return agent.ConversationContext{ID: "unlettered", Model: "test-model", NoFiles: true}, true
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
		return "", "", found, agent.Errorf(agent.KindUnknownContext, "There is no conversation context %q in %q. Valid: default, terse.", conversationID, agentID)
	}
	return agentID, conversationID, found, nil
}

func withCatalog(files map[string][]byte) func(*rig) {
	return func(r *rig) {
		if len(files) == 0 {
			return
		}
		fsys := fstest.MapFS{}
		for name, data := range files {
			fsys[name] = &fstest.MapFile{Data: data}
		}
		catalog, err := mode.Load(fsys)
		if err != nil {
			r.t.Fatalf("catalogue of the scenario: %v", err)
		}
		r.catalog = catalog
	}
}

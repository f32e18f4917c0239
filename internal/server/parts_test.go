package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	driver "modernc.org/sqlite"

	"github.com/aptixhq/aptix/internal/access"
	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/auth"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/llm/demo"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/reasoner"
	"github.com/aptixhq/aptix/internal/responsesapi"
	"github.com/aptixhq/aptix/internal/session"
	"github.com/aptixhq/aptix/internal/store/sqlite"
	"github.com/aptixhq/aptix/internal/store/sqlite/sqlitetest"
	"github.com/aptixhq/aptix/internal/tool"
	"github.com/aptixhq/aptix/internal/tool/builtin"
)

// whole is the edge on the real parts: a data file, the session manager, the
// pipeline and the model's client. What the fakes of this package claim is held
// against it, and its answers against the published document.
type whole struct {
	*rig
	parts
	store    *sqlite.Store
	pipeline *pipeline.Pipeline
	keys     *auth.Keyring
	reader   *sql.DB // sees the data file beside the store, and cannot write
}

// parts is what a test may choose of the real parts.
type parts struct {
	path   string     // the data file; default a new one
	pages  int        // how many pages it may have; default as many as it likes
	model  llm.Config // default the demo model
	limits reasoner.Limits
	times  pipeline.Limits
	now    func() time.Time
	bodies contract.Limits
	rules  agent.ApprovalRules
	// consent tells that the model changes no mode without the user.
	consent bool
	// tokens are taken beside keys; nil is none.
	tokens    *auth.Tokens
	anybody   bool // nobody is asked who he is, nor the store whether there are keys
	heartbeat time.Duration
	door      bool // the second door is the real one, too
}

func newWhole(t *testing.T, with ...func(*parts)) *whole {
	t.Helper()
	w := &whole{parts: parts{
		path:  sqlitetest.File(t),
		model: llm.Config{BaseURL: "http://demo.invalid/v1", Transport: demo.Transport()},
	}}
	w.start(t, with...)
	t.Cleanup(func() { w.stop(t) })
	return w
}

// start builds the parts on the data file as it is.
func (w *whole) start(t *testing.T, with ...func(*parts)) {
	t.Helper()
	for _, f := range with {
		f(&w.parts)
	}
	log := slog.New(slog.DiscardHandler)
	catalog := mode.Builtin()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	limitPages(w.path, w.pages)
	var err error
	w.store, err = sqlite.Open(t.Context(), w.path, log)
	must(err)
	w.reader, err = sql.Open("sqlite", "file:"+w.path+"?mode=ro")
	must(err)
	var late lateSessions
	change, err := builtin.NewChangeMode(&late, log)
	must(err)
	list, err := builtin.NewListModes(catalog, log)
	must(err)
	registry, err := tool.NewRegistry(change, list)
	must(err)
	sessions, err := session.New(session.Config{Store: w.store, Catalog: catalog, Registry: registry, Contexts: contexts{}, Log: log, Consent: w.consent})
	must(err)
	late.Manager = sessions
	loop, err := reasoner.New(reasoner.Config{Model: llm.New(w.model), Sessions: w.store, Registry: registry, Log: log, Limits: w.limits})
	must(err)
	w.pipeline, err = pipeline.New(pipeline.Config{
		Store: w.store, Sessions: sessions, Catalog: catalog, Registry: registry, Contexts: contexts{}, Reasoner: loop, Hub: events.NewHub(), Log: log,
		Limits: w.times, Now: w.now, ApprovalRules: w.rules, Consent: w.consent,
	})
	must(err)
	must(w.pipeline.Recover(t.Context()))
	w.keys, err = auth.NewKeyring(w.store, w.tokens != nil, log)
	must(err)
	who, err := auth.New(w.keys, w.tokens)
	must(err)
	theirTurns, theirSessions := access.NewTurns(w.pipeline, sessions), access.NewSessions(sessions)
	door, err := responsesapi.New(responsesapi.Config{Turns: theirTurns, Sessions: theirSessions, Tools: registry, Contexts: contexts{}})
	must(err)
	w.rig = newRig(t, func(c *Config) {
		c.Turns, c.Sessions, c.Catalog, c.Registry, c.Ready, c.Limits = theirTurns, theirSessions, catalog, registry, w.store.Ping, w.bodies
		c.Auth, c.Open, c.Keys = who, func() bool { return !w.keys.On() }, w.keys
		if w.anybody {
			c.Auth, c.Open = nil, nil
		}
		c.Heartbeat = w.heartbeat
		if w.door {
			c.Responses = door
		}
		c.Audit, c.Erasures, c.Webhooks = w.store, w.pipeline, realWebhooks(w.store)
	})
}

// stop ends what start began. Doing it again does nothing.
func (w *whole) stop(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	w.keys.Close()
	if err := errors.Join(w.pipeline.Drain(ctx), w.reader.Close(), w.store.Close()); err != nil {
		t.Error(err)
	}
}

// restart stops the parts and starts them, with other choices, on the same data file.
func (w *whole) restart(t *testing.T, with ...func(*parts)) {
	t.Helper()
	w.stop(t)
	w.start(t, with...)
}

// rows returns everything that the data file holds, by table.
func (w *whole) rows(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, name := range w.query(t, "SELECT name FROM sqlite_master WHERE type = 'table'") {
		table := strings.TrimPrefix(name, "name=")
		all[table] = w.query(t, `SELECT * FROM "`+table+`"`)
	}
	for _, table := range []string{"sessions", "turns", "steps", "mode_changes", "blobs"} {
		if _, ok := all[table]; !ok {
			t.Fatalf("the data file has no table %s", table)
		}
	}
	return all
}

// query returns the rows of an answer in an order of its own, a line for each.
func (w *whole) query(t *testing.T, statement string) []string {
	t.Helper()
	rows, err := w.reader.QueryContext(t.Context(), statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	lines := []string{}
	for rows.Next() {
		values, to := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		var line strings.Builder
		for i, v := range values {
			if i > 0 {
				line.WriteByte(' ')
			}
			if b, ok := v.([]byte); ok {
				v = string(b)
			}
			fmt.Fprintf(&line, "%s=%v", columns[i], v)
		}
		lines = append(lines, line.String())
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	slices.Sort(lines)
	return lines
}

// pageCount returns how large the data file is, in pages.
func (w *whole) pageCount(t *testing.T) int {
	t.Helper()
	var n int
	if err := w.reader.QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// pageLimits are the data files that may not grow, with their limits. SQLite keeps
// the limit with the connection, so it is set on every one that the store opens.
var pageLimits sync.Map

var hookPageLimits = sync.OnceFunc(func() {
	driver.RegisterConnectionHook(func(c driver.ExecQuerierContext, dsn string) (err error) {
		pageLimits.Range(func(path, pages any) bool {
			if strings.Contains(dsn, path.(string)) {
				_, err = c.ExecContext(context.Background(), fmt.Sprintf("PRAGMA max_page_count = %d", pages), nil)
			}
			return err == nil
		})
		return err
	})
})

// limitPages makes the disk full for a data file that is opened from now on, once it
// has so many pages; 0 takes the limit away.
func limitPages(path string, pages int) {
	hookPageLimits() // before any file is opened: the driver reads its hooks without a lock
	if pages == 0 {
		pageLimits.Delete(path)
		return
	}
	pageLimits.Store(path, pages)
}

// lateSessions lets a tool be built before the manager that needs the registry.
type lateSessions struct{ *session.Manager }

// contexts is a configuration with one context.
type contexts struct{}

func (contexts) Conversation(_, _ string) (agent.ConversationContext, bool) {
	return agent.ConversationContext{ID: "default", Model: "demo", System: "You are Aptix."}, true
}

func (c contexts) Resolve(agentID, conversationID string) (string, string, agent.ConversationContext, error) {
	if agentID+conversationID != "" {
		return "", "", agent.ConversationContext{}, agent.Errorf(agent.KindUnknownContext, "There is no such context. Valid: default.")
	}
	found, _ := c.Conversation("", "")
	return "default", "default", found, nil
}

func (contexts) List() []agent.ContextName {
	return []agent.ContextName{{Agent: "default", Conversation: "default", DefaultAgent: true, Default: true}}
}

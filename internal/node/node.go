// Package node puts a node together: the parts of a server, from the store up to the
// routes, by hand and in sight. The binary and the public package aptix both have theirs
// from here, so that a server in somebody's program is the same as one of its own. It has
// no part in a turn; nothing here is used again once a turn runs.
package node

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"sync"

	"github.com/aptixhq/aptix/internal/access"
	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/budget"
	"github.com/aptixhq/aptix/internal/bus"
	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/console"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/mcp"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/outbound"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/rag"
	"github.com/aptixhq/aptix/internal/reasoner"
	"github.com/aptixhq/aptix/internal/responsesapi"
	"github.com/aptixhq/aptix/internal/secret"
	"github.com/aptixhq/aptix/internal/server"
	"github.com/aptixhq/aptix/internal/session"
	"github.com/aptixhq/aptix/internal/telemetry"
	"github.com/aptixhq/aptix/internal/tool"
	"github.com/aptixhq/aptix/internal/webhook"
)

// Config says what a node is made of. Settings and Log are required.
type Config struct {
	Settings config.Config
	Log      *slog.Logger
	// Version is what the audit log says of the program that runs the node.
	Version string
	// Tools are run by the node beside those that it has anyway.
	Tools []tool.Tool
	// Modes has the mode files; nil means those that the settings name.
	Modes fs.FS
	// ModeTools are tools that modes have beside those that their files list.
	ModeTools map[agent.ModeKey][]string
}

// Node is a server that is built. It serves nothing before it is started.
type Node struct {
	// Sessions and Turns are those of all callers: whoever has them sees everything.
	Sessions *session.Manager
	Turns    *pipeline.Pipeline

	store     Journal
	bus       *bus.Bus // nil without NATS
	documents rag.Keeper
	mcp       *mcp.Servers
	modes     *liveModes
	identity  identity
	signIns   *console.SignIns
	audit     auditLog
	deliverer *webhook.Deliverer
	server    *server.Server
	watching  watching

	stopDelivering context.CancelFunc // nil before it is started
	delivering     sync.WaitGroup
}

// New puts a node together, from the ground up. It has to be closed.
func New(ctx context.Context, c Config) (_ *Node, err error) {
	c.Log = slog.New(telemetry.Logs(c.Log.Handler()))
	cfg, log := c.Settings, c.Log
	watching, err := openTelemetry(cfg, log)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			watching.close()
		}
	}()
	servers, err := mcpServers(c)
	if err != nil {
		return nil, err
	}
	modes, err := openModes(c)
	if err != nil {
		return nil, err
	}
	catalog := modes.live
	sessions := &lateSessions{}
	registry, err := newRegistry(c, sessions, catalog, servers)
	if err != nil {
		return nil, err
	}
	servers.ReportTo(registry)
	store, err := OpenStore(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, store.Close())
		}
	}()
	contexts := cfg.Contexts()
	manager, err := session.New(session.Config{Store: store, Catalog: catalog, Registry: registry, Contexts: contexts, Log: log,
		Consent: cfg.ModeChange.Consent == config.ConsentRequired, Quotas: cfg.QuotaPlans()})
	if err != nil {
		return nil, err
	}
	sessions.Manager = manager

	budgets, err := budget.New(budget.Config{Ledger: store, Plans: cfg.BudgetPlans(), CallTime: cfg.Limits.Turn, Log: log})
	if err != nil {
		return nil, err
	}
	loop, err := reasoner.New(reasoner.Config{
		Model: model(cfg), Sessions: store, Registry: registry, Log: log, Budgets: budgets,
		Limits: reasoner.Limits{ModelCalls: cfg.Limits.ModelCalls, ToolTime: cfg.Limits.Tool, ToolCalls: cfg.Limits.ToolCalls, OutputBytes: cfg.Limits.OutputBytes},
	})
	if err != nil {
		return nil, err
	}
	documents, err := OpenIndexes(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, documents.Close())
		}
	}()
	finds, err := retriever(cfg, documents, log)
	if err != nil {
		return nil, err
	}
	hub := events.NewHub()
	others, err := OpenBus(cfg, hub, log)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && others != nil {
			others.Close()
		}
	}()
	turns, err := pipeline.New(pipeline.Config{
		Store: store, Sessions: manager, Catalog: catalog, Registry: registry, Contexts: contexts,
		Reasoner: loop, Hub: hub, Bus: hints(others), Log: log, Chain: cfg.Chain(),
		ApprovalRules: cfg.Approvals, Exposure: cfg.Exposure, Consent: cfg.ModeChange.Consent == config.ConsentRequired,
		Limits: pipeline.Limits{TurnTime: cfg.Limits.Turn, WaitTime: cfg.Limits.Waiting, ApprovalTime: cfg.Limits.Approval,
			Lease: cfg.Cluster.Lease, Poll: cfg.Cluster.Poll},
		Retention: cfg.Retention.Sessions, AuditRetention: cfg.Retention.Audit, Indexes: documents, Retriever: finds,
		Budgets: budgets, Quotas: cfg.QuotaPlans(), Telemetry: watching.telemetry,
	})
	if err != nil {
		return nil, err
	}
	watching.ask(store, turns)
	// What the doors have is what their callers may see.
	theirSessions, theirTurns := access.NewSessions(manager), access.NewTurns(turns, manager)
	door, err := responsesapi.New(responsesapi.Config{Turns: theirTurns, Sessions: theirSessions, Tools: registry, Contexts: contexts})
	if err != nil {
		return nil, err
	}
	who, err := openIdentity(cfg, store, log)
	if err != nil {
		return nil, err
	}
	proxies, err := cfg.Proxies()
	if err != nil {
		return nil, err
	}
	allow, err := cfg.Outbound.Allowlist()
	if err != nil {
		return nil, err
	}
	theirs := outbound.Policy{Allow: allow} // for addresses that come over the API
	open := func() bool { return !who.keys.On() }
	asks := open
	if cfg.Console.Token == config.ConsoleTokenOff {
		asks = nil
	}
	signIns, err := console.NewSignIns(who.authenticator, asks)
	if err != nil {
		return nil, err
	}
	pages, err := console.New(console.Config{Turns: theirTurns, Sessions: theirSessions, Catalog: catalog, Registry: registry, SignIns: signIns,
		Prices: cfg.BudgetPlans().Prices})
	if err != nil {
		return nil, err
	}
	edge, err := server.New(server.Config{
		Turns: theirTurns, Sessions: theirSessions, Responses: door, Console: pages, Catalog: catalog, Registry: registry, Log: log, Ready: store.Ping,
		Auth: signIns, Open: open, Keys: who.keys,
		Loopback: OnlyHere(cfg), Hosts: cfg.Hosts, Proxies: proxies,
		Budgets: budgets, Quotas: cfg.QuotaPlans(),
		Audit: store, Erasures: turns, Webhooks: webhook.New(store, theirs), Telemetry: watching.telemetry,
	})
	if err != nil {
		return nil, err
	}
	deliverer := webhook.NewDeliverer(webhook.Config{Queue: store, Log: log, Policy: theirs, Retry: cfg.Webhooks.Retry, Telemetry: watching.telemetry})
	return &Node{
		Sessions: manager, Turns: turns,
		store: store, audit: auditLog{cfg, c.Version, store, log}, deliverer: deliverer, bus: others, documents: documents,
		mcp: servers, modes: modes, identity: who, signIns: signIns, server: edge, watching: watching,
	}, nil
}

// lateSessions lets agent_change_mode be built before the session manager, which needs
// the registry that the tool stands in.
type lateSessions struct{ *session.Manager }

// Catalog returns the modes in force.
func (n *Node) Catalog() *mode.Catalog { return n.modes.live.Current() }

// Authenticates reports whether callers have to say who they are.
func (n *Node) Authenticates(ctx context.Context) (bool, error) { return n.identity.keys.Look(ctx) }

// ConsoleToken returns what a browser has to show to the console while nobody has to
// authenticate; it is empty where none is asked for.
func (n *Node) ConsoleToken() secret.Text { return n.signIns.Token() }

// Handler returns the node's routes, with all their checks.
func (n *Node) Handler() http.Handler { return n.server.Handler() }

// HTTPServer returns the node as a web server for addr, with all its bounds.
func (n *Node) HTTPServer(addr string) *http.Server { return n.server.HTTPServer(addr) }

// EndParked ends the streams that net/http does not know of; see server.EndParked.
func (n *Node) EndParked(ctx context.Context) error { return n.server.EndParked(ctx) }

// MetricsServer returns a web server for addr that has the metrics alone, for scrapers
// without a credential.
func (n *Node) MetricsServer(addr string) *http.Server { return n.server.MetricsServer(addr) }

// Start takes up the turns that are not finished, before the first request can meet them,
// and begins to send what other systems are to be told. It is called once.
func (n *Node) Start(ctx context.Context) error {
	if err := n.Turns.Recover(ctx); err != nil {
		return err
	}
	if err := n.audit.loaded(ctx, agent.AuditConfigLoaded, n.Catalog()); err != nil {
		return err
	}
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.stopDelivering = stop
	n.delivering.Go(func() { n.deliverer.Run(sending) })
	return nil
}

// Drain refuses new turns, and returns when no turn runs any more. When ctx ends those that
// still run are left to the next start, or to another node.
func (n *Node) Drain(ctx context.Context) error {
	n.server.Drain()
	return n.Turns.Drain(ctx)
}

// Close ends what the node has begun and closes its parts. Drain it first.
func (n *Node) Close() error {
	if n.stopDelivering != nil {
		n.stopDelivering()
		n.delivering.Wait()
	}
	n.watching.close()
	n.mcp.Close()
	if n.bus != nil {
		n.bus.Close()
	}
	n.identity.keys.Close()
	return errors.Join(n.documents.Close(), n.store.Close())
}

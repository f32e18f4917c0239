package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/aptixhq/aptix/internal/access"
	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/budget"
	"github.com/aptixhq/aptix/internal/bus"
	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/console"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/llm/demo"
	"github.com/aptixhq/aptix/internal/mcp"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/outbound"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/rag"
	"github.com/aptixhq/aptix/internal/reasoner"
	"github.com/aptixhq/aptix/internal/responsesapi"
	"github.com/aptixhq/aptix/internal/server"
	"github.com/aptixhq/aptix/internal/session"
	"github.com/aptixhq/aptix/internal/webhook"
)

// drainTime is how long running turns may take to finish when the server stops. The
// others are taken up again at the next start.
const drainTime = 30 * time.Second

func newServe() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Runs the server. Without any configuration it listens on 127.0.0.1:8080, keeps its
data in ./aptix-data and answers with an offline model, so that everything can be
seen without an account; with OPENAI_API_KEY set it uses the real one.

With a PostgreSQL database, any number of servers may share it: each of them takes
every request, and the turns of one that dies go on elsewhere. Its address is best
set as APTIX_DATABASE, or in a file that APTIX_DATABASE_FILE names, since it holds a
password.

Flags go over environment (APTIX_LISTEN and so on), environment over the file,
the file over defaults; 'aptix doctor' shows what is used.

Nobody has to authenticate at first, and only this machine is answered. The first key,
made with 'aptix keys create', changes that for everybody at once; then, or with an
issuer of tokens configured, the server may listen elsewhere.

Ctrl-C stops it. SIGHUP has it read the certificate and the mode files anew, for turns
that begin later; when something is wrong with them it keeps those that it has, and
says so.`,
		Args: takes(0, 0, ""),
	}
	f := cmd.Flags()
	f.String("listen", "", "address to listen on (default 127.0.0.1:8080)")
	f.String("data", "", "folder of the data file (default ./aptix-data)")
	f.StringVar(&file, "config", "", "configuration file (default "+config.DefaultFile+" if it is there)")
	f.String("database", "", "path of the data file (default: in the data folder), or postgres://USER:PASSWORD@HOST:PORT/DATABASE")
	f.String("nats", "", "NATS servers between several nodes, nats://HOST:PORT; only with PostgreSQL")
	f.String("modes", "", "folder of mode files (default: the built-in modes)")
	f.String("provider", "", "demo or openai (default: openai when OPENAI_API_KEY is set, else demo)")
	f.String("tls-cert", "", "file of the server's certificate, with its chain")
	f.String("tls-key", "", "file of its key")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := config.Load(config.Options{File: file, Flags: changedFlags(cmd)})
		if err != nil {
			return err
		}
		// Two places: a second Ctrl-C means not to wait for running turns.
		signals := make(chan os.Signal, 2)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(signals)
		return serve(cmd.Context(), cfg, cmd.ErrOrStderr(), signals)
	}
	return cmd
}

// changedFlags returns the settings that were made on the command line, by their key.
func changedFlags(cmd *cobra.Command) map[string]string {
	set := map[string]string{}
	for _, key := range []string{"listen", "data", "database", "nats", "modes", "provider", "tls.cert", "tls.key"} {
		if f := cmd.Flags().Lookup(strings.ReplaceAll(key, ".", "-")); f != nil && f.Changed {
			set[key] = f.Value.String()
		}
	}
	return set
}

// serve runs a server until a signal comes.
func serve(ctx context.Context, cfg config.Config, stderr io.Writer, signals <-chan os.Signal) (err error) {
	log := slog.New(slog.NewTextHandler(stderr, nil))
	if err := cfg.CheckSecrets(); err != nil {
		return err
	}
	cert, err := readCertificate(cfg.TLS, log)
	if err != nil {
		return err
	}
	p, err := build(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	on, err := p.identity.keys.Look(ctx)
	if err != nil {
		return err
	}
	if err := server.CheckListen(cfg.Listen, on); err != nil {
		return err
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	defer p.mcp.Close()
	collecting, stopCollecting := context.WithCancel(ctx)
	var collector sync.WaitGroup
	collector.Go(func() { tuneCollector(collecting) })
	defer collector.Wait()
	defer stopCollecting()

	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w; choose another address with --listen", err)
	}
	// Unfinished turns go on before the first request can meet them.
	if err := p.turns.Recover(ctx); err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := p.audit.loaded(ctx, agent.AuditConfigLoaded, p.modes.live.Current()); err != nil {
		return errors.Join(err, listener.Close())
	}
	delivering, stopDelivering := context.WithCancel(ctx)
	var deliverer sync.WaitGroup
	deliverer.Go(func() { p.deliverer.Run(delivering) })
	defer deliverer.Wait()
	defer stopDelivering()
	giveBack(log)
	web := p.server.HTTPServer(cfg.Listen)
	served := make(chan error, 1)
	go func() {
		defer close(served)
		if cert == nil {
			served <- web.Serve(listener)
			return
		}
		web.TLSConfig = cert.config()
		served <- web.ServeTLS(listener, "", "")
	}()
	say(stderr, "%s", banner(cfg, p.modes.live.Current(), scheme(cfg)+listener.Addr().String(), security(cfg, on)))

	for {
		select {
		case <-hangups:
			p.reload(ctx)
			if cert != nil {
				cert.reload()
			}
			continue
		case err = <-served:
			err = fmt.Errorf("serve: %w", err)
		case s := <-signals:
			say(stderr, "Stopping (%s): running turns have %s to finish; once more stops at once.", s, drainTime)
		case <-ctx.Done():
		}
		return errors.Join(err, p.stop(web, served, signals))
	}
}

// parts is a server that is built and not yet started.
type parts struct {
	store     journal
	bus       *bus.Bus // nil without NATS
	documents rag.Keeper
	mcp       *mcp.Servers
	modes     *liveModes
	identity  identity
	sessions  *session.Manager
	turns     *pipeline.Pipeline
	audit     auditLog
	deliverer *webhook.Deliverer
	server    *server.Server
}

func (p *parts) close() error {
	if p.bus != nil {
		p.bus.Close()
	}
	p.identity.keys.Close()
	return errors.Join(p.documents.Close(), p.store.Close())
}

// build puts the server together, from the ground up.
func build(ctx context.Context, cfg config.Config, log *slog.Logger) (_ *parts, err error) {
	servers, err := mcpServers(cfg, log)
	if err != nil {
		return nil, err
	}
	modes, err := openModes(cfg, log)
	if err != nil {
		return nil, err
	}
	catalog := modes.live
	sessions := &lateSessions{}
	registry, err := newRegistry(cfg, sessions, catalog, servers, log)
	if err != nil {
		return nil, err
	}
	servers.ReportTo(registry)
	store, err := openStore(ctx, cfg, log)
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
	documents, err := openIndexes(ctx, cfg)
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
	others, err := openBus(cfg, hub, log)
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
		Budgets: budgets, Quotas: cfg.QuotaPlans(),
	})
	if err != nil {
		return nil, err
	}
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
	signIns := console.NewSignIns(who.authenticator)
	pages, err := console.New(console.Config{Turns: theirTurns, Sessions: theirSessions, Catalog: catalog, Registry: registry, SignIns: signIns})
	if err != nil {
		return nil, err
	}
	edge, err := server.New(server.Config{
		Turns: theirTurns, Sessions: theirSessions, Responses: door, Console: pages, Catalog: catalog, Registry: registry, Log: log, Ready: store.Ping,
		Auth: signIns, Open: func() bool { return !who.keys.On() }, Keys: who.keys,
		Loopback: onlyHere(cfg), Hosts: cfg.Hosts, Proxies: proxies,
		Budgets: budgets, Quotas: cfg.QuotaPlans(),
		Audit: store, Erasures: turns, Webhooks: webhook.New(store, theirs),
	})
	if err != nil {
		return nil, err
	}
	deliverer := webhook.NewDeliverer(webhook.Config{Queue: store, Log: log, Policy: theirs, Retry: cfg.Webhooks.Retry})
	return &parts{store: store, audit: auditLog{cfg, store, log}, deliverer: deliverer, bus: others, documents: documents, mcp: servers, modes: modes, identity: who, sessions: manager, turns: turns, server: edge}, nil
}

// model returns the way to the model, with its patience.
func model(cfg config.Config) *llm.Provider {
	return llm.NewProvider(llm.ProviderConfig{
		Client:   modelClient(cfg),
		Attempts: cfg.Limits.ModelAttempts, MaxWait: cfg.Limits.ModelWait, Concurrency: cfg.Limits.ModelConcurrency,
	})
}

// modelClient returns the way to the model.
func modelClient(cfg config.Config) *llm.Client {
	client := llm.Config{
		BaseURL: cfg.OpenAI.BaseURL, APIKey: cfg.OpenAI.APIKey,
		Organization: cfg.OpenAI.Organization, Project: cfg.OpenAI.Project,
	}
	if cfg.Provider == config.ProviderDemo {
		client = llm.Config{BaseURL: "http://demo/v1", Transport: demo.Transport()}
	}
	return llm.New(client)
}

// lateSessions lets agent_change_mode be built before the session manager, which needs
// the registry that the tool stands in.
type lateSessions struct{ *session.Manager }

// stop ends the server in order: no new turns, running turns finish or are left to the
// next start, readers get their last events, connections close.
func (p *parts) stop(web *http.Server, served <-chan error, signals <-chan os.Signal) error {
	p.server.Drain()
	ctx, hurry := context.WithTimeout(context.Background(), drainTime)
	defer hurry()
	drained := make(chan error, 1)
	go func() { drained <- p.turns.Drain(ctx) }()
	var err error
	select {
	case err = <-drained:
	case <-signals:
		hurry()
		err = errors.Join(errInterrupted, <-drained)
	}
	closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if web.Shutdown(closing) != nil {
		// Somebody still reads; they can take the stream up again elsewhere.
		_ = web.Close()
	}
	if serr := <-served; serr != nil && !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err
}

// banner says what runs and what to do next.
func banner(cfg config.Config, catalog *mode.Catalog, url string, security []string) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "Aptix is ready at %s\n\n", url)
	if cfg.Provider == config.ProviderDemo {
		line("provider", "demo, an offline script; set OPENAI_API_KEY for a real model")
	} else {
		line("provider", "%s, model %s", cfg.Provider, cfg.Model)
	}
	line("data", "%s", cfg.Store())
	line("modes", "%s (%s)", strings.Join(catalog.Keys(), ", "), nameOf(cfg.Modes))
	for i, text := range security {
		name := "auth"
		if i > 0 {
			name = ""
		}
		line(name, "%s", text)
	}
	if cfg.File != "" {
		line("file", "%s", cfg.File)
	}
	at := ""
	if url != "http://127.0.0.1:8080" {
		at = " --url " + url
	}
	b.WriteString("\n")
	line("try", `aptix ask%s "What can you do?"`, at)
	line("talk", "aptix chat%s", at)
	line("console", "%s/", url)
	line("API", "%s/docs", url)
	b.WriteString("\nCtrl-C stops it.")
	return b.String()
}

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

	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/node"
	"github.com/aptixhq/aptix/internal/secret"
	"github.com/aptixhq/aptix/internal/server"
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
	f.String("metrics-listen", "", "address of a listener for /metrics alone, without a key")
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
	for _, key := range []string{"listen", "data", "database", "nats", "modes", "provider", "tls.cert", "tls.key", "metrics.listen"} {
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
	n, err := node.New(ctx, parts(cfg, log))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	on, err := n.Authenticates(ctx)
	if err != nil {
		return err
	}
	if err := server.CheckListen(cfg.Listen, on); err != nil {
		return err
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	defer watchVitals(stderr)()
	collecting, stopCollecting := context.WithCancel(ctx)
	var collector sync.WaitGroup
	collector.Go(func() { tuneCollector(collecting) })
	defer collector.Wait()
	defer stopCollecting()

	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w; choose another address with --listen", err)
	}
	stopMetrics, err := serveMetrics(cfg, n)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer stopMetrics()
	if err := n.Start(ctx); err != nil {
		return errors.Join(err, listener.Close())
	}
	giveBack(log)
	web := n.HTTPServer(cfg.Listen)
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
	say(stderr, "%s", banner(cfg, n.Catalog(), scheme(cfg)+listener.Addr().String(), security(cfg, on), n.ConsoleToken()))

	for {
		select {
		case <-hangups:
			n.Reload(ctx)
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
		return errors.Join(err, stop(n, web, served, signals))
	}
}

// parts says what a server with these settings is made of.
func parts(cfg config.Config, log *slog.Logger) node.Config {
	return node.Config{Settings: cfg, Log: log, Version: version(), Tools: testTools()}
}

// stop ends the server in order: no new turns, running turns finish or are left to the
// next start, readers get their last events, connections close.
func stop(n *node.Node, web *http.Server, served <-chan error, signals <-chan os.Signal) error {
	ctx, hurry := context.WithTimeout(context.Background(), drainTime)
	defer hurry()
	drained := make(chan error, 1)
	go func() { drained <- n.Drain(ctx) }()
	var err error
	select {
	case err = <-drained:
	case <-signals:
		hurry()
		err = errors.Join(errInterrupted, <-drained)
	}
	closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	// Whoever still reads when it is over can take the stream up again elsewhere.
	if errors.Join(n.EndParked(closing), web.Shutdown(closing)) != nil {
		_ = web.Close()
	}
	if serr := <-served; serr != nil && !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err
}

// banner says what runs and what to do next.
func banner(cfg config.Config, catalog *mode.Catalog, url string, security []string, token secret.Text) string {
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
	line("modes", "%s (%s)", strings.Join(catalog.Keys(), ", "), node.ModesName(cfg.Modes))
	for i, text := range security {
		name := "auth"
		if i > 0 {
			name = ""
		}
		line(name, "%s", text)
	}
	if at := metricsAddress(cfg); at != "" {
		line("metrics", "http://%s/metrics", at)
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
	page := url + "/"
	if !token.IsZero() {
		page += "?token=" + token.Reveal()
	}
	line("console", "%s", page)
	line("API", "%s/docs", url)
	b.WriteString("\nCtrl-C stops it.")
	return b.String()
}

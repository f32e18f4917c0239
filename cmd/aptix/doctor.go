package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/mcp"
	"github.com/aptixhq/aptix/internal/node"
	"github.com/aptixhq/aptix/internal/outbound"
	"github.com/aptixhq/aptix/internal/secret"
	"github.com/aptixhq/aptix/internal/store/postgres"
	"github.com/aptixhq/aptix/internal/store/sqlite"
)

// probeTime bounds each question of doctor that no model is asked, and mcpTime the start
// of an MCP server.
const (
	probeTime = 5 * time.Second
	mcpTime   = time.Minute
)

func newDoctor() *cobra.Command {
	var r remote
	var file string
	var probe bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show what is configured, from where, and whether it works",
		Long: `Shows every setting and where it came from, and then whether the server could start
with them: whether the address may be used, the data can be read, the modes are
valid, the provider answers, and MCP servers start and declare what was approved.
Nothing is sent to a model, except with --probe:
then a model is told a word and, in a second request, asked for it, to see whether
the provider remembers its responses. Both model calls are small, and paid for.

It exits with 1 when something would not work.`,
		Args: takes(0, 0, ""),
	}
	r.flags(cmd)
	cmd.Flags().StringVar(&file, "config", "", "configuration file (default "+config.DefaultFile+" if it is there)")
	cmd.Flags().BoolVar(&probe, "probe", false, "test the provider's memory, with two small model calls that are paid for")
	cmd.RunE = stoppable(func(cmd *cobra.Command, _ []string) error {
		out := cmd.OutOrStdout()
		cfg, err := config.Load(config.Options{File: file})
		if err != nil {
			return err
		}
		t := newTable(out)
		t.row("SETTING", "VALUE", "FROM")
		for _, s := range cfg.Settings() {
			t.row(s.Key, s.Value, s.Source)
		}
		if err := t.flush(); err != nil {
			return err
		}
		say(out, "")

		checks := append(authChecks(cfg), []check{
			checkStore(cfg),
			{"nats", probeTime, func(ctx context.Context) (string, error) { return checkNATS(ctx, cfg) }},
			{"modes", probeTime, func(context.Context) (string, error) { return checkModes(cfg) }},
			{"indexes", indexTime, func(ctx context.Context) (string, error) { return checkIndexes(ctx, cfg) }},
			{"provider", probeTime, func(ctx context.Context) (string, error) { return checkProvider(ctx, cfg) }},
			{"outbound", probeTime, func(context.Context) (string, error) { return outboundPolicy(cfg), nil }},
			{"continuity", memoryTime, func(ctx context.Context) (string, error) { return checkContinuity(ctx, cfg, probe) }},
		}...)
		if err := cfg.CheckSecrets(); err != nil {
			return err
		}
		lock, err := mcp.ReadLock(cfg.MCPLock())
		if err != nil {
			return err
		}
		for _, c := range cfg.MCPServers() {
			checks = append(checks, check{"MCP server " + c.Name, mcpTime, func(ctx context.Context) (string, error) { return checkMCP(ctx, c, lock) }})
		}
		t = newTable(out)
		failed := false
		for _, c := range checks {
			ctx, stop := context.WithTimeout(cmd.Context(), c.within)
			found, err := c.run(ctx)
			stop()
			if err != nil {
				failed = true
				t.row("FAILED", c.name, err)
				continue
			}
			t.row("ok", c.name, found)
		}
		// Whether a server runs is worth knowing and no fault either way.
		t.row("", "server", running(cmd, &r))
		if err := t.flush(); err != nil {
			return err
		}
		if failed {
			return errReported
		}
		return nil
	})
	return cmd
}

// check is one question: what was found, or what is wrong.
type check struct {
	name string
	// within bounds it.
	within time.Duration
	run    func(ctx context.Context) (string, error)
}

// checkStore looks at the store that is configured.
func checkStore(cfg config.Config) check {
	if connection, ok := cfg.PostgreSQL(); ok {
		return check{"database", probeTime, func(ctx context.Context) (string, error) { return checkDatabase(ctx, cfg.Store(), connection) }}
	}
	return check{"data file", probeTime, func(ctx context.Context) (string, error) { return checkFile(ctx, cfg.DatabasePath()) }}
}

// checkDatabase sees whether the database can be used, and changes nothing in it.
func checkDatabase(ctx context.Context, name string, connection secret.Text) (string, error) {
	has, wants, err := postgres.Schema(ctx, connection)
	switch {
	case err != nil:
		return "", err
	case has > wants:
		return "", fmt.Errorf("%s was migrated by a newer aptix (schema %d, this one knows %d); use that one or a later one", name, has, wants)
	case has < wants:
		return fmt.Sprintf("%s answers; 'aptix serve' will migrate it from schema %d to %d", name, has, wants), nil
	}
	return name + " answers", nil
}

// checkFile opens the data file if it exists, and else sees whether it could be made.
func checkFile(ctx context.Context, path string) (string, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path + " will be made by 'aptix serve'", writable(filepath.Dir(path))
	}
	if err != nil {
		return "", err
	}
	store, err := sqlite.Open(ctx, path, slog.New(slog.DiscardHandler))
	if errors.Is(err, sqlite.ErrLocked) {
		return path + " is in use by a server", nil
	}
	if err != nil {
		return "", err
	}
	return path + " opens", errors.Join(store.Ping(ctx), store.Close())
}

// writable sees whether files can be made in a folder, or in the nearest one above it
// that exists.
func writable(dir string) error {
	for {
		info, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
			dir = filepath.Dir(dir)
			continue
		}
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a folder", dir)
		}
		if err != nil {
			return err
		}
		f, err := os.CreateTemp(dir, ".aptix-doctor-*")
		if err != nil {
			return err
		}
		return errors.Join(f.Close(), os.Remove(f.Name()))
	}
}

func checkModes(cfg config.Config) (string, error) {
	dir := cfg.Modes
	problems, err := parts(cfg, nil).Lint()
	if err != nil {
		return "", err
	}
	if problems.Fatal() {
		return "", fmt.Errorf("%s: %d problems; 'aptix modes lint' lists them", node.ModesName(dir), len(problems))
	}
	if len(problems) > 0 {
		return fmt.Sprintf("%s, with %d warnings; 'aptix modes lint' lists them", node.ModesName(dir), len(problems)), nil
	}
	return node.ModesName(dir), nil
}

// checkProvider sees whether the provider answers, by asking for its list of models:
// unlike a model request, that costs nothing.
func checkProvider(ctx context.Context, cfg config.Config) (string, error) {
	if cfg.Provider == config.ProviderDemo {
		return "demo, which is offline", nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(cfg.OpenAI.BaseURL, "/")+"/models", nil)
	if err != nil {
		return "", err
	}
	if key := cfg.OpenAI.APIKey.Reveal(); key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if cfg.OpenAI.Organization != "" {
		req.Header.Set("OpenAI-Organization", cfg.OpenAI.Organization)
	}
	if cfg.OpenAI.Project != "" {
		req.Header.Set("OpenAI-Project", cfg.OpenAI.Project)
	}
	web := outbound.NewClient(outbound.Policy{Configured: []string{cfg.OpenAI.BaseURL}})
	defer web.CloseIdleConnections()
	res, err := web.Do(req)
	if err != nil {
		return "", fmt.Errorf("%s does not answer: %w", cfg.OpenAI.BaseURL, err)
	}
	defer func() { _ = res.Body.Close() }()
	switch {
	case res.StatusCode == http.StatusUnauthorized, res.StatusCode == http.StatusForbidden:
		return "", fmt.Errorf("%s refuses the key (%s)", cfg.OpenAI.BaseURL, res.Status)
	case res.StatusCode == http.StatusNotFound:
		return fmt.Sprintf("%s answers, but has no list of models", cfg.OpenAI.BaseURL), nil
	case res.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%s answers %s", cfg.OpenAI.BaseURL, res.Status)
	}
	var list struct {
		Data []struct{ ID string }
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 8<<20)).Decode(&list); err != nil {
		return "", fmt.Errorf("%s answers, but not with a list of models; does the address end in /v1?", cfg.OpenAI.BaseURL)
	}
	for _, want := range cfg.Models() {
		if !slices.ContainsFunc(list.Data, func(m struct{ ID string }) bool { return m.ID == want }) {
			return "", fmt.Errorf("%s answers and has no model %q; set another one with APTIX_MODEL", cfg.OpenAI.BaseURL, want)
		}
	}
	return fmt.Sprintf("%s answers and has %s", cfg.OpenAI.BaseURL, strings.Join(cfg.Models(), ", ")), nil
}

// running says whether a server answers where the other commands would look for it.
func running(cmd *cobra.Command, r *remote) string {
	c, err := r.client(cmd)
	if err != nil {
		return err.Error()
	}
	ctx, stop := context.WithTimeout(cmd.Context(), probeTime)
	defer stop()
	switch err := c.Ready(ctx); {
	case errors.Is(err, client.ErrUnreachable):
		return "none runs at " + c.URL()
	case err != nil:
		return fmt.Sprintf("%s answers, but is not ready: %v", c.URL(), err)
	}
	return "ready at " + c.URL()
}

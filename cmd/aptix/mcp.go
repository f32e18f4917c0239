package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/mcp"
)

func newMCP() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "List MCP servers, and approve their tools",
		Long: `MCP servers stand in the configuration file, under mcp.servers. What their tools are
called, what they say of themselves and which arguments they take is text that a
model obeys; so only what was approved is shown to one. Approvals are kept in
` + mcp.LockFile + ` beside the configuration file. A running server reads them when it
starts.`,
	}
	group(cmd)
	cmd.AddCommand(newMCPList(), newMCPApprove())
	return cmd
}

func newMCPList() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the configured servers and their approved tools; none is started",
		Args:  takes(0, 0, ""),
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file (default "+config.DefaultFile+" if it is there)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := config.Load(config.Options{File: file})
		if err != nil {
			return err
		}
		lock, err := mcp.ReadLock(cfg.MCPLock())
		if err != nil {
			return err
		}
		t := newTable(cmd.OutOrStdout())
		t.row("SERVER", "APPROVED", "RUNS")
		for _, c := range cfg.MCPServers() {
			t.row(c.Name, counted(len(lock[c.Name]), "tool"), c.Where())
		}
		return t.flush()
	}
	return cmd
}

func newMCPApprove() *cobra.Command {
	var file string
	var yes bool
	cmd := &cobra.Command{
		Use:   "approve [NAME...]",
		Short: "Show what servers declare, and approve it",
		Long: `Starts the servers, or those named, asks for their tools, and shows everything that is not
as it was approved: the name, the description and the arguments, as a model would
read them. What you approve is written to ` + mcp.LockFile + `; a server that runs uses
it after a restart.`,
		Args: takes(0, -1, ""),
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file (default "+config.DefaultFile+" if it is there)")
	cmd.Flags().BoolVar(&yes, "yes", false, "approve without asking")
	cmd.RunE = stoppable(func(cmd *cobra.Command, names []string) error {
		cfg, err := config.Load(config.Options{File: file})
		if err != nil {
			return err
		}
		servers, err := chosen(cfg.MCPServers(), names)
		if err == nil {
			err = cfg.CheckSecrets()
		}
		if err != nil {
			return err
		}
		a := approval{file: cfg.MCPLock(), yes: yes, in: bufio.NewReader(cmd.InOrStdin()), out: cmd.OutOrStdout(),
			asks: isTerminal(cmd.InOrStdin()), log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))}
		if a.lock, err = mcp.ReadLock(a.file); err != nil {
			say(a.out, "%v", err)
			a.lock = mcp.Lock{} // everything is to be approved anew
		}
		for _, c := range servers {
			if err := a.server(cmd.Context(), c); err != nil {
				return fmt.Errorf("MCP server %s: %w", c.Name, err)
			}
		}
		if a.refused {
			return errReported
		}
		return nil
	})
	return cmd
}

// chosen returns the servers with these names; all without one.
func chosen(servers []mcp.ServerConfig, names []string) ([]mcp.ServerConfig, error) {
	if len(servers) == 0 {
		return nil, errors.New("no MCP server is configured; list them under mcp.servers in " + config.DefaultFile)
	}
	if len(names) == 0 {
		return servers, nil
	}
	var out []mcp.ServerConfig
	for _, name := range names {
		i := slices.IndexFunc(servers, func(c mcp.ServerConfig) bool { return c.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("no MCP server %q is configured", name)
		}
		out = append(out, servers[i])
	}
	return out, nil
}

// approval is a conversation about what may be shown to models.
type approval struct {
	lock    mcp.Lock
	file    string
	yes     bool
	asks    bool // somebody can answer
	refused bool // something is not approved in the end
	in      *bufio.Reader
	out     io.Writer
	log     *slog.Logger
}

// server shows what a server declares anew and takes down what is approved of it.
func (a *approval) server(ctx context.Context, c mcp.ServerConfig) error {
	say(a.out, "%s runs: %s", c.Name, c.Where())
	found, err := mcp.Declared(ctx, c, a.log)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(found.Faults)) {
		say(a.out, "  cannot be used: %q: %v", name, found.Faults[name])
	}
	changes := mcp.Compare(a.lock[c.Name], found.Tools)
	if len(changes) == 0 {
		say(a.out, "  %s, all as they were approved", counted(len(found.Tools), "tool"))
		return nil
	}
	for _, change := range changes {
		a.show(change)
	}
	if !a.agreed(fmt.Sprintf("Approve %s of %s?", counted(len(changes), "change"), c.Name)) {
		a.refused = true
		say(a.out, "  not approved")
		return nil
	}
	a.lock[c.Name] = found.Tools
	if err := a.lock.Write(a.file); err != nil {
		return err
	}
	say(a.out, "  approved: %s, in %s", counted(len(found.Tools), "tool"), a.file)
	return nil
}

// show prints a change in full: who approves it must have seen it.
func (a *approval) show(c mcp.Change) {
	switch {
	case c.Declared == nil:
		say(a.out, "  gone: %s", c.Name)
		return
	case c.Approved == nil:
		say(a.out, "  new: %s", c.Name)
	default:
		say(a.out, "  changed: %s", c.Name)
		if c.Approved.Description != c.Declared.Description {
			say(a.out, "    it said: %s", indented(c.Approved.Description))
		}
		if string(c.Approved.InputSchema) != string(c.Declared.InputSchema) {
			say(a.out, "    it took: %s", indented(pretty(c.Approved.InputSchema)))
		}
	}
	say(a.out, "    it says: %s", indented(c.Declared.Description))
	say(a.out, "    it takes: %s", indented(pretty(c.Declared.InputSchema)))
}

// agreed asks. Where nobody can answer, nothing is agreed to.
func (a *approval) agreed(question string) bool {
	if a.yes {
		return true
	}
	if !a.asks {
		say(a.out, "%s Nobody can be asked here; use --yes to approve it.", question)
		return false
	}
	_, _ = fmt.Fprint(a.out, question+" [y/N] ")
	answer, err := a.in.ReadString('\n')
	return err == nil && slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer)))
}

// indented keeps the lines of a text together.
func indented(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n      ") }

func pretty(raw json.RawMessage) string {
	b, err := json.MarshalIndent(raw, "", "  ")
	if err != nil {
		return string(raw)
	}
	return string(b)
}

// checkMCP sees whether a server starts and declares what was approved.
func checkMCP(ctx context.Context, c mcp.ServerConfig, lock mcp.Lock) (string, error) {
	found, err := mcp.Declared(ctx, c, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	changes := mcp.Compare(lock[c.Name], found.Tools)
	var withdrawn, added []string
	for _, change := range changes {
		if change.Approved != nil {
			withdrawn = append(withdrawn, change.Name)
		} else {
			added = append(added, change.Name)
		}
	}
	switch {
	case len(withdrawn) > 0:
		return "", fmt.Errorf("not as approved: %s; look at it with 'aptix mcp approve %s'", strings.Join(withdrawn, ", "), c.Name)
	case len(lock[c.Name]) == 0:
		return "", fmt.Errorf("none of its %d tools is approved; look at them with 'aptix mcp approve %s'", len(added), c.Name)
	case len(added) > 0:
		return fmt.Sprintf("%s answers, with %d approved tools and %d others", c.Where(), len(lock[c.Name]), len(added)), nil
	}
	return fmt.Sprintf("%s answers, with %d approved tools", c.Where(), len(lock[c.Name])), nil
}

package main

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/mcp"
	"github.com/aptixhq/aptix/internal/tool"
	"github.com/aptixhq/aptix/internal/tool/builtin"
)

// newRegistry returns the tools that the server runs: its own and those of MCP servers,
// with the groups that modes may list.
func newRegistry(cfg config.Config, sessions builtin.SessionManager, catalog builtin.Catalog, servers *mcp.Servers, log *slog.Logger) (*tool.Registry, error) {
	change, err := builtin.NewChangeMode(sessions, log)
	if err != nil {
		return nil, err
	}
	list, err := builtin.NewListModes(catalog, log)
	if err != nil {
		return nil, err
	}
	registry, err := tool.NewRegistry(slices.Concat([]tool.Tool{change, list}, testTools(), servers.Tools())...)
	if err != nil {
		return nil, err
	}
	for _, prefix := range servers.Prefixes() {
		registry.Reserve(prefix)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.ToolGroups)) {
		if err := registry.Group(name, cfg.ToolGroups[name]...); err != nil {
			return nil, fmt.Errorf("%s: toolGroups: %w", cfg.File, err)
		}
	}
	return registry, nil
}

// mcpServers returns the configured MCP servers with what is approved of them. None is
// started.
func mcpServers(cfg config.Config, log *slog.Logger) (*mcp.Servers, error) {
	if len(cfg.MCP.Servers) == 0 {
		return mcp.New(nil, nil, log)
	}
	lock, err := mcp.ReadLock(cfg.MCPLock())
	if err != nil {
		return nil, err
	}
	return mcp.New(cfg.MCPServers(), lock, log)
}

func newTools() *cobra.Command {
	var r remote
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "List the tools that the server runs",
		Long: `Lists the tools that the server runs: its own, and those of MCP servers. A tool that is
withdrawn is not offered to models until what is wrong with it is mended.`,
		Args: takes(0, 0, ""),
	}
	r.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	cmd.RunE = stoppable(func(cmd *cobra.Command, _ []string) error {
		c, err := r.client(cmd)
		if err != nil {
			return err
		}
		tools, err := c.Tools(cmd.Context())
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), tools)
		}
		t := newTable(cmd.OutOrStdout())
		t.row("NAME", "STATE", "DESCRIPTION")
		for _, found := range tools {
			state := "offered"
			if found.Withdrawn != "" {
				state = "withdrawn: " + found.Withdrawn
			}
			t.row(found.Name, state, opening(found.Description))
		}
		return t.flush()
	})
	return cmd
}

// opening is so much of a text as a list has room for.
func opening(s string) string {
	const most = 80
	s, _, more := strings.Cut(strings.TrimSpace(s), "\n")
	if runes := []rune(s); len(runes) > most {
		s, more = string(runes[:most]), true
	}
	if more {
		s += "…"
	}
	return s
}

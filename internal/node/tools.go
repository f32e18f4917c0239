package node

import (
	"fmt"
	"maps"
	"slices"

	"github.com/aptixhq/aptix/internal/mcp"
	"github.com/aptixhq/aptix/internal/tool"
	"github.com/aptixhq/aptix/internal/tool/builtin"
)

// newRegistry returns the tools that the node runs: its own and those of MCP servers,
// with the groups that modes may list.
func newRegistry(c Config, sessions builtin.SessionManager, catalog builtin.Catalog, servers *mcp.Servers) (*tool.Registry, error) {
	change, err := builtin.NewChangeMode(sessions, c.Log)
	if err != nil {
		return nil, err
	}
	list, err := builtin.NewListModes(catalog, c.Log)
	if err != nil {
		return nil, err
	}
	registry, err := tool.NewRegistry(slices.Concat([]tool.Tool{change, list}, c.Tools, servers.Tools())...)
	if err != nil {
		return nil, err
	}
	for _, prefix := range servers.Prefixes() {
		registry.Reserve(prefix)
	}
	groups := c.Settings.ToolGroups
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		if err := registry.Group(name, groups[name]...); err != nil {
			return nil, fmt.Errorf("%s: toolGroups: %w", c.Settings.File, err)
		}
	}
	return registry, nil
}

// mcpServers returns the configured MCP servers with what is approved of them. None is
// started.
func mcpServers(c Config) (*mcp.Servers, error) {
	if len(c.Settings.MCP.Servers) == 0 {
		return mcp.New(nil, nil, c.Log)
	}
	lock, err := mcp.ReadLock(c.Settings.MCPLock())
	if err != nil {
		return nil, err
	}
	return mcp.New(c.Settings.MCPServers(), lock, c.Log)
}

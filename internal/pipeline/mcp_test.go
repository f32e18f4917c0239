package pipeline_test

import (
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/aptixhq/aptix/internal/mcp"
	"github.com/aptixhq/aptix/internal/mcp/mcptest"
)

// mcpServers returns two real MCP servers with everything approved that they declare:
// local, a process, and remote, behind HTTP.
func mcpServers(t *testing.T) *mcp.Servers {
	t.Helper()
	web := httptest.NewServer(mcptest.Handler(mcptest.Good, true))
	t.Cleanup(web.Close)
	configs := []mcp.ServerConfig{
		mcptest.Command(t, "local", mcptest.Good),
		{Name: "remote", URL: web.URL},
	}
	servers, err := mcp.New(configs, mcptest.Approve(t, configs...), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(servers.Close)
	return servers
}

// Command clock is an MCP server with one tool, to show how little a tool of your own
// takes: build it, name it in aptix.yaml, approve it (docs/quickstart.md).
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type question struct {
	Zone string `json:"zone" jsonschema:"an IANA time zone, such as Europe/Oslo"`
}

type answer struct {
	Time string `json:"time" jsonschema:"the time there, as RFC 3339 has it"`
}

func now(_ context.Context, _ *mcp.CallToolRequest, q question) (*mcp.CallToolResult, answer, error) {
	zone, err := time.LoadLocation(q.Zone)
	if err != nil {
		return nil, answer{}, err
	}
	return nil, answer{Time: time.Now().In(zone).Format(time.RFC3339)}, nil
}

func main() {
	server := mcp.NewServer(&mcp.Implementation{Name: "clock", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "now", Description: "Tells the time in a time zone."}, now)
	if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, "clock:", err)
		os.Exit(1)
	}
}

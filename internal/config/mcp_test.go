package config_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/mcp"
	"github.com/aptixhq/aptix/internal/secret"
)

func TestMCP_FromTheFile(t *testing.T) {
	file := `
mcp:
  servers:
    - name: files
      command: mcp-files
      args: [--root, /srv]
      env: [FILES_TOKEN]
      timeout: 10s
      tools: {allow: ["read_*"], deny: [read_secret], idempotent: [read_file]}
    - name: docs
      url: https://docs.example.com/mcp
      headers: [{name: Authorization, prefix: "Bearer ", env: DOCS_TOKEN}]
      maxBytes: 1000
toolGroups:
  reading: ["files__read_*", agent_list_modes]
`
	c, err := load(t, file, map[string]string{"DOCS_TOKEN": "sesame"}, nil)
	want := []mcp.ServerConfig{
		{Name: "files", Command: "mcp-files", Args: []string{"--root", "/srv"}, Env: []string{"FILES_TOKEN"}, Headers: map[string]secret.Text{},
			Timeout: 10 * time.Second, Allow: []string{"read_*"}, Deny: []string{"read_secret"}, Idempotent: []string{"read_file"}},
		{Name: "docs", URL: "https://docs.example.com/mcp", Headers: map[string]secret.Text{"Authorization": secret.New("Bearer sesame")}, MaxBytes: 1000},
	}
	if d := cmp.Diff(want, must(t, c, err).MCPServers()); d != "" {
		t.Errorf("servers (-want +got)\n%s", d)
	}
	if got := c.MCPLock(); got != mcp.LockFile {
		t.Errorf("the lock is %s", got)
	}
	for key, want := range map[string]string{"mcp.servers": "files, docs · file aptix.yaml", "toolGroups": "reading · file aptix.yaml"} {
		if got := shown(c)[key]; got != want {
			t.Errorf("%s is shown as %q, want %q", key, got, want)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v", c, c, c); strings.Contains(text, "sesame") {
		t.Errorf("a header is shown: %s", text)
	}
	c.File = filepath.Join("etc", "aptix.yaml")
	if got, want := c.MCPLock(), filepath.Join("etc", mcp.LockFile); got != want {
		t.Errorf("the lock is %s, want %s", got, want)
	}
}

// Over http the server speaks to those of another machine that the operator named twice.
func TestMCP_PlainWhereAllowed(t *testing.T) {
	for address, allowed := range map[string]string{
		"http://10.1.2.3:8000/mcp": "10.1.0.0/16", "http://10.1.2.4/mcp": "10.1.2.4", "http://tools.internal/mcp": "tools.internal", "http://[fd00::1]/mcp": "'fd00::/8'",
	} {
		c, err := load(t, fmt.Sprintf("mcp: {servers: [{name: a, url: '%s'}]}\noutbound: {allow: [%s]}\n", address, allowed), nil, nil)
		if servers := must(t, c, err).MCPServers(); !servers[0].Plain || servers[0].URL != address {
			t.Errorf("%s: %+v", address, servers[0])
		}
	}
}

func TestMCP_Problems(t *testing.T) {
	server := func(s string) string { return "mcp: {servers: [{name: a, " + s + "}]}" }
	for file, want := range map[string]string{
		server("command: x, url: 'https://example.com'"):                                         "mcp.servers[0].url: want a command or a url, not both",
		server("url: 'http://example.com'"):                                                      "mcp.servers[0].url: http:// is for this machine only",
		server("url: 'http://10.1.2.3/mcp'") + "\noutbound: {allow: [10.1.2.4, other.internal]}": "mcp.servers[0].url: http:// is for this machine only, and for hosts that outbound.allow names",
		server("command: x, dir: /does/not/exist"):                                               "mcp.servers[0].dir: /does/not/exist is not a folder",
		server("command: x, shell: true"):                                                        "unknown setting mcp.servers[0].shell",
		server("url: 'https://example.com', headers: [{name: A}]"):                               "mcp.servers[0].headers[0]: want env or file",
		server("url: 'https://example.com', headers: [{name: A, env: NONE}]"):                    "mcp.servers[0].headers[0]: there is no value in NONE",
		server("url: 'https://example.com', headers: [{name: A, env: BROKEN}]"):                  "mcp.servers[0].headers[0]: the value in BROKEN holds a line break",
		server("url: 'https://example.com', headers: [{name: 'A: b', env: T}]"):                  "mcp.servers[0].headers[0]: name: want the name of a header",
		server("url: 'https://example.com', headers: [{name: A, value: secret}]"):                "unknown setting mcp.servers[0].headers[0].value",
		server("url: 'https://example.com', headers: [{name: A, file: /no/such/file}]"):          "mcp.servers[0].headers[0]: open /no/such/file",
	} {
		c, err := load(t, file, map[string]string{"BROKEN": "a\nb", "T": "x"}, nil)
		if err == nil {
			err = c.CheckSecrets()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", file, err, want)
		}
	}
}

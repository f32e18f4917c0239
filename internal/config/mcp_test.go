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

func TestMCP_Problems(t *testing.T) {
	server := func(s string) string { return "mcp: {servers: [{name: a, " + s + "}]}" }
	for file, want := range map[string]string{
		server("command: x, url: 'https://example.com'"):                                "mcp.servers[0].url: want a command or a url, not both",
		server("url: 'http://example.com'"):                                             "mcp.servers[0].url: http:// is for this machine only",
		server("command: x, dir: /does/not/exist"):                                      "mcp.servers[0].dir: /does/not/exist is not a folder",
		server("command: x, shell: true"):                                               "unknown setting mcp.servers[0].shell",
		server("url: 'https://example.com', headers: [{name: A}]"):                      "mcp.servers[0].headers[0]: want env or file",
		server("url: 'https://example.com', headers: [{name: A, env: NONE}]"):           "mcp.servers[0].headers[0]: there is no value in NONE",
		server("url: 'https://example.com', headers: [{name: A, env: BROKEN}]"):         "mcp.servers[0].headers[0]: the value in BROKEN holds a line break",
		server("url: 'https://example.com', headers: [{name: 'A: b', env: T}]"):         "mcp.servers[0].headers[0]: name: want the name of a header",
		server("url: 'https://example.com', headers: [{name: A, value: secret}]"):       "unknown setting mcp.servers[0].headers[0].value",
		server("url: 'https://example.com', headers: [{name: A, file: /no/such/file}]"): "mcp.servers[0].headers[0]: open /no/such/file",
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

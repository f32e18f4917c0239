package config

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/mcp"
	"github.com/aptixhq/aptix/internal/outbound"
	"github.com/aptixhq/aptix/internal/secret"
)

// MCP names the MCP servers whose tools modes may use. Only the file can: a flag or a
// variable that starts programs would be one too many, and a turn can say nothing of it.
type MCP struct {
	Servers []MCPServer `koanf:"servers"`
}

// MCPServer is one of them; see mcp.ServerConfig.
type MCPServer struct {
	Name    string   `koanf:"name"`
	Command string   `koanf:"command"`
	Args    []string `koanf:"args"`
	// Env names variables of this process that the server may see.
	Env          []string      `koanf:"env"`
	Dir          string        `koanf:"dir"`
	URL          string        `koanf:"url"`
	Headers      []Header      `koanf:"headers"`
	Tools        MCPTools      `koanf:"tools"`
	Timeout      time.Duration `koanf:"timeout"`
	StartTimeout time.Duration `koanf:"startTimeout"`
	MaxBytes     int           `koanf:"maxBytes"`
	Concurrency  int           `koanf:"concurrency"`
}

// Header goes with each request to an MCP server or a collector. Its value is a secret: the file says
// where it is, in the variable Env or in the file File, and what stands before it.
type Header struct {
	Name   string `koanf:"name"`
	Prefix string `koanf:"prefix"`
	Env    string `koanf:"env"`
	File   string `koanf:"file"`

	// Value is what was found there.
	Value secret.Text `koanf:"-"`
	// missing says why it was not found.
	missing string
}

// MCPTools says which tools of a server may be used, by name or by pattern.
type MCPTools struct {
	Allow []string `koanf:"allow"`
	Deny  []string `koanf:"deny"`
	// Idempotent are those that may run again after a crash.
	Idempotent []string `koanf:"idempotent"`
}

// MCPServers returns what package mcp wants to know of the servers.
func (c Config) MCPServers() []mcp.ServerConfig {
	var out []mcp.ServerConfig
	allow, err := c.Outbound.Allowlist()
	if err != nil { // a problem of its own
		allow = outbound.Allowlist{}
	}
	for _, s := range c.MCP.Servers {
		headers := map[string]secret.Text{}
		for _, h := range s.Headers {
			headers[h.Name] = secret.New(h.Prefix + h.Value.Reveal())
		}
		out = append(out, mcp.ServerConfig{
			Name: s.Name, Command: s.Command, Args: s.Args, Env: s.Env, Dir: s.Dir, URL: s.URL, Headers: headers, Plain: allow.NamesHost(hostOf(s.URL)),
			Allow: s.Tools.Allow, Deny: s.Tools.Deny, Idempotent: s.Tools.Idempotent,
			Timeout: s.Timeout, StartTimeout: s.StartTimeout, MaxBytes: s.MaxBytes, Concurrency: s.Concurrency,
		})
	}
	return out
}

// hostOf returns the host of an address, empty when it has none.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// MCPLock returns the path of the file that holds what is approved of the servers: it
// stands beside the configuration file.
func (c Config) MCPLock() string { return filepath.Join(filepath.Dir(c.File), mcp.LockFile) }

// readHeaders fetches the values of the headers.
func (m *MCP) readHeaders(env environment) Problems {
	var p Problems
	for i := range m.Servers {
		for j := range m.Servers[i].Headers {
			h := &m.Servers[i].Headers[j]
			if err := h.read(env); err != nil {
				p = append(p, fmt.Sprintf("mcp.servers[%d].headers[%d]: %v", i, j, err))
			}
		}
	}
	return p
}

func (h *Header) read(env environment) error {
	switch {
	case h.Name == "" || strings.ContainsAny(h.Name, ": \t\r\n"):
		return fmt.Errorf("name: want the name of a header, such as Authorization")
	case (h.Env == "") == (h.File == ""):
		return fmt.Errorf("want env or file, which say where the value is")
	case h.Env != "":
		h.Value = secret.New(env.get(h.Env))
	default:
		b, err := readBounded(h.File)
		if err != nil {
			h.missing = err.Error()
		}
		h.Value = secret.New(strings.TrimRight(string(b), "\r\n"))
	}
	switch v := h.Value.Reveal(); {
	case v == "" && h.missing == "":
		h.missing = fmt.Sprintf("there is no value in %s%s", h.Env, h.File)
	case strings.ContainsAny(v, "\r\n"):
		h.missing, h.Value = fmt.Sprintf("the value in %s%s holds a line break", h.Env, h.File), secret.Text{}
	}
	return nil
}

// CheckSecrets returns which values of headers are not there, for MCP servers and for the
// collector of traces. Only who speaks to them needs them: modes can be checked without.
func (c Config) CheckSecrets() error {
	var p Problems
	for i, s := range c.MCP.Servers {
		for j, h := range s.Headers {
			if h.missing != "" {
				p = append(p, fmt.Sprintf("mcp.servers[%d].headers[%d]: %s", i, j, h.missing))
			}
		}
	}
	for i, h := range c.Telemetry.OTLP.Headers {
		if h.missing != "" {
			p = append(p, fmt.Sprintf("telemetry.otlp.headers[%d]: %s", i, h.missing))
		}
	}
	if len(p) > 0 {
		return p
	}
	return nil
}

// mcpProblems returns what is wrong with the servers.
func (c Config) mcpProblems() Problems {
	var p Problems
	for _, problem := range mcp.Problems(c.MCPServers()) {
		p = append(p, "mcp."+problem)
	}
	for i, s := range c.MCP.Servers {
		if s.Dir != "" {
			if info, err := os.Stat(s.Dir); err != nil || !info.IsDir() {
				p = append(p, fmt.Sprintf("mcp.servers[%d].dir: %s is not a folder", i, s.Dir))
			}
		}
	}
	return p
}

// mcpNames shows the servers.
func (c Config) mcpNames() string {
	var out []string
	for _, s := range c.MCP.Servers {
		out = append(out, s.Name)
	}
	return strings.Join(out, ", ")
}

// groupNames shows the tool groups.
func (c Config) groupNames() string {
	return strings.Join(slices.Sorted(maps.Keys(c.ToolGroups)), ", ")
}

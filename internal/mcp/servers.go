package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/aptixhq/aptix/internal/tool"
)

// Servers are the configured MCP servers of this process. They are safe for concurrent use.
type Servers struct {
	servers []*server
	tools   []tool.Tool
}

// New returns the servers with what is approved of them, and starts none. Approved tools
// that cannot be offered are left out, which the log says. The error tells what is wrong
// with the configuration.
func New(configs []ServerConfig, lock Lock, log *slog.Logger) (*Servers, error) {
	if problems := Problems(configs); len(problems) > 0 {
		return nil, errors.New(strings.Join(problems, "; "))
	}
	all := &Servers{}
	for _, c := range configs {
		s := newServer(c, log)
		all.servers = append(all.servers, s)
		approved := lock[c.Name]
		faults := faultsOf(c, approved)
		for _, d := range approved {
			if !c.uses(d.Name) {
				continue
			}
			if err := faults[d.Name]; err != nil {
				s.log.Error("MCP tool cannot be offered", "tool", clip(d.Name, 80), "why", err)
				continue
			}
			t, err := newTool(s, d)
			if err != nil {
				return nil, err
			}
			s.tools[d.Name] = t
			all.tools = append(all.tools, t)
		}
		if len(s.tools) == 0 {
			s.log.Warn("MCP server has no approved tools", "approve", "aptix mcp approve "+c.Name)
		}
	}
	return all, nil
}

func newTool(s *server, d Definition) (*Tool, error) {
	t := &Tool{server: s, approved: d}
	var err error
	if t.definition, err = d.offered(s.config); err == nil {
		t.arguments, err = tool.NewValidator(t.definition.Parameters)
	}
	if err != nil {
		return nil, fmt.Errorf("tool %s of MCP server %s: %w", d.Name, s.config.Name, err)
	}
	return t, nil
}

// faultsOf returns why tools of a server cannot be offered, by their own names: each for
// itself, or because two of them could be taken for each other.
func faultsOf(c ServerConfig, definitions []Definition) map[string]error {
	faults := map[string]error{}
	first := map[string]string{} // by folded full name
	for _, d := range definitions {
		offered, err := d.offered(c)
		if err != nil {
			faults[d.Name] = err
			continue
		}
		key := folded(offered.Name)
		other, taken := first[key]
		switch {
		case taken && other == d.Name:
			faults[d.Name] = errors.New("it is declared twice")
		case taken:
			faults[d.Name] = fmt.Errorf("its name reads like that of %s", other)
			faults[other] = fmt.Errorf("its name reads like that of %s", d.Name)
		}
		first[key] = d.Name
	}
	return faults
}

// Tools returns the approved tools, in the order of the servers and of their names.
func (a *Servers) Tools() []tool.Tool { return slices.Clone(a.tools) }

// Prefixes returns what the names of the servers' tools begin with: nobody else's may.
func (a *Servers) Prefixes() []string {
	var out []string
	for _, s := range a.servers {
		out = append(out, s.config.Name+Separator)
	}
	return out
}

// ReportTo tells an offer from now on which tools are withdrawn.
func (a *Servers) ReportTo(o Offer) {
	for _, s := range a.servers {
		s.mu.Lock()
		s.offer = o
		s.mu.Unlock()
	}
}

// Close ends all servers and returns when nothing of them is left.
func (a *Servers) Close() {
	var work sync.WaitGroup
	for _, s := range a.servers {
		work.Go(s.close)
	}
	work.Wait()
}

// Declaration is what a server declares now.
type Declaration struct {
	// Tools are those that the configuration lets be used and that can be offered; Faults
	// says of the others that it lets be used why they cannot.
	Tools  []Definition
	Faults map[string]error
}

// Declared starts a server, asks for its tools and stops it. Nothing is called.
func Declared(ctx context.Context, c ServerConfig, log *slog.Logger) (Declaration, error) {
	if problems := Problems([]ServerConfig{c}); len(problems) > 0 {
		return Declaration{}, errors.New(strings.Join(problems, "; "))
	}
	c = c.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, c.StartTimeout)
	defer cancel()
	conn, err := connect(ctx, c, log)
	if err != nil {
		return Declaration{}, err
	}
	defer conn.close()
	all, err := conn.list(ctx)
	if err != nil {
		return Declaration{}, err
	}
	all = slices.DeleteFunc(all, func(d Definition) bool { return !c.uses(d.Name) })
	out := Declaration{Faults: faultsOf(c, all)}
	for _, d := range all {
		if out.Faults[d.Name] == nil {
			out.Tools = append(out.Tools, d)
		}
	}
	return out, nil
}

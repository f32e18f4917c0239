package mcp_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/mcp"
	"github.com/aptixhq/aptix/internal/mcp/mcptest"
	"github.com/aptixhq/aptix/internal/tool"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	parent()
	goleak.VerifyTestMain(m)
}

var discard = slog.New(slog.DiscardHandler)

// rig is a set of servers with everything approved that they declare.
type rig struct {
	t       *testing.T
	servers *mcp.Servers
	offer   *offer
	log     *syncBuffer
}

func newRig(t *testing.T, configs ...mcp.ServerConfig) *rig {
	t.Helper()
	return newRigWith(t, mcptest.Approve(t, configs...), configs...)
}

func newRigWith(t *testing.T, lock mcp.Lock, configs ...mcp.ServerConfig) *rig {
	t.Helper()
	r := &rig{t: t, offer: &offer{why: map[string]string{}}, log: &syncBuffer{}}
	var err error
	r.servers, err = mcp.New(configs, lock, slog.New(slog.NewTextHandler(r.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	r.servers.ReportTo(r.offer)
	t.Cleanup(r.servers.Close)
	return r
}

// call calls a tool by its full name.
func (r *rig) call(name, arguments string) (tool.Content, error) {
	r.t.Helper()
	return r.callWithin(30*time.Second, name, arguments)
}

func (r *rig) callWithin(limit time.Duration, name, arguments string) (tool.Content, error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	for _, t := range r.servers.Tools() {
		if t.Definition().Name == name {
			ec := &tool.ExecutionContext{Caller: agent.Caller{Org: "acme", User: "alice"}, Session: "s1", Turn: "t1", Call: "call_1"}
			return t.(tool.ContentTool).ExecuteContent(ctx, ec, arguments)
		}
	}
	r.t.Fatalf("there is no tool %s", name)
	return tool.Content{}, nil
}

// says calls a tool that must succeed.
func (r *rig) says(name, arguments string) string {
	r.t.Helper()
	out, err := r.call(name, arguments)
	if err != nil {
		r.t.Fatalf("%s %s: %v\n%s", name, arguments, err, r.log)
	}
	return out.Text
}

// offer is what a registry would be told.
type offer struct {
	mu  sync.Mutex
	why map[string]string
}

func (o *offer) Withdraw(name, why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.why[name] = why
}

func (o *offer) Restore(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.why, name)
}

func (o *offer) withdrawn(name string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.why[name]
}

// ways are the ways to a server: each transport in each generation of the protocol.
func ways(t *testing.T) map[string]func(name string) mcp.ServerConfig {
	over := func(stateless bool) func(string) mcp.ServerConfig {
		return func(name string) mcp.ServerConfig {
			s := httptest.NewServer(mcptest.Handler(mcptest.Good, stateless))
			t.Cleanup(s.Close)
			return mcp.ServerConfig{Name: name, URL: s.URL}
		}
	}
	return map[string]func(string) mcp.ServerConfig{
		"stdio":              func(name string) mcp.ServerConfig { return mcptest.Command(t, name, mcptest.Good) },
		"stdio, older":       func(name string) mcp.ServerConfig { return mcptest.Command(t, name, mcptest.Legacy) },
		"HTTP, stateless":    over(true),
		"HTTP with sessions": over(false),
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

// runs reports whether a process is there and has not ended.
func runs(pid string) bool {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !bytes.Contains(data, []byte(") Z "))
}

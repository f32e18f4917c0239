package mcptest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/aptixhq/aptix/internal/mcp"
)

// Kind says how a server behaves.
type Kind string

// The kinds of servers.
const (
	Good Kind = "good"
	// Legacy speaks the protocol's older generation only.
	Legacy Kind = "legacy"
	// Silent reads everything and answers nothing; Deaf does not even read.
	Silent Kind = "silent"
	Deaf   Kind = "deaf"
	// Junk writes something else than the protocol.
	Junk Kind = "junk"
	// Endless has a list of tools without an end, Many has too many on one page, Flood a
	// list of a gigabyte.
	Endless Kind = "endless"
	Many    Kind = "many"
	Flood   Kind = "flood"
	// Names has tools whose names cannot be used, or are alike; Bombs such whose schemas
	// and descriptions cannot.
	Names Kind = "names"
	Bombs Kind = "bombs"
	// Leaky writes all of its variables to stderr, and is good otherwise.
	Leaky Kind = "leaky"
	// Mute answers everything but the list of tools.
	Mute Kind = "mute"
)

// argument makes a test binary a server.
const argument = "mcptest-serve"

// Main turns a test binary into a server over stdio when it was started as one. Call it
// first in TestMain.
func Main() {
	if len(os.Args) == 3 && os.Args[1] == argument {
		Serve(Kind(os.Args[2]))
	}
}

// Serve serves over stdio until its input ends, and then ends the process: at once, which
// os.Exit does not. Under the race detector it first waits a second for what still runs, and
// servers are not handed the variable that says otherwise.
func Serve(kind Kind) {
	if odd(kind) {
		syscall.Exit(0)
	}
	if kind == Leaky {
		for _, v := range os.Environ() {
			_, _ = fmt.Fprintln(os.Stderr, v)
		}
	}
	if err := New(kind).Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "mcptest:", err)
		syscall.Exit(1)
	}
	syscall.Exit(0)
}

// Command returns the configuration of a server that is a process: the test binary, whose
// TestMain calls Main.
func Command(t testing.TB, name string, kind Kind) mcp.ServerConfig {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return mcp.ServerConfig{Name: name, Command: self, Args: []string{argument, string(kind)}}
}

// Remote is a server behind HTTP.
type Remote struct {
	kind      Kind
	stateless bool

	mu      sync.Mutex // guards what follows
	server  *sdk.Server
	handler http.Handler
}

// Handler serves a kind over HTTP: statelessly, as the newer generation of the protocol
// has it, or with sessions, as the older one does.
func Handler(kind Kind, stateless bool) *Remote {
	r := &Remote{kind: kind, stateless: stateless}
	r.Restart()
	return r
}

// Restart lets the server begin anew: it knows no sessions of before.
func (r *Remote) Restart() {
	server := New(r.kind)
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: r.stateless, JSONResponse: r.stateless})
	r.mu.Lock()
	before := r.server
	r.server, r.handler = server, handler
	r.mu.Unlock()
	if before == nil {
		return
	}
	for session := range before.Sessions() {
		_ = session.Close()
	}
}

// ServeHTTP answers a request.
func (r *Remote) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	handler := r.handler
	r.mu.Unlock()
	handler.ServeHTTP(w, req)
}

// Approve returns a lock in which everything that the servers declare is approved.
func Approve(t testing.TB, configs ...mcp.ServerConfig) mcp.Lock {
	t.Helper()
	lock := mcp.Lock{}
	for _, c := range configs {
		found, err := mcp.Declared(t.Context(), c, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatalf("approve %s: %v", c.Name, err)
		}
		lock[c.Name] = found.Tools
	}
	return lock
}

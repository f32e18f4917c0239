package streams

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/reasoner"
	"github.com/aptixhq/aptix/internal/responsesapi"
	"github.com/aptixhq/aptix/internal/server"
	"github.com/aptixhq/aptix/internal/session"
	"github.com/aptixhq/aptix/internal/store/sqlite"
	"github.com/aptixhq/aptix/internal/tool"
	"github.com/aptixhq/aptix/internal/tool/builtin"
)

// rig is the whole server on a socket, over a data file and a fake provider.
type rig struct {
	provider *llmtest.Server
	pipeline *pipeline.Pipeline
	web      *http.Server
	addr     string
	stop     func()
}

// options is what a test may choose.
type options struct {
	path    string // the data file; default a new one
	model   string // the address of another model than the script
	server  server.Config
	journal func(pipeline.Store) pipeline.Store
	// over is told the id of each request that is over, also of one whose stream was parked.
	over func(requestID string)
}

func newRig(t testing.TB, o options, script ...llmtest.Reply) *rig {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	log := slog.New(slog.DiscardHandler)
	catalog := mode.Builtin()
	store, err := sqlite.Open(context.Background(), cmp.Or(o.path, filepath.Join(t.TempDir(), "aptix.db")), log)
	must(err)
	late := &lateSessions{}
	change, err := builtin.NewChangeMode(late, log)
	must(err)
	list, err := builtin.NewListModes(catalog, log)
	must(err)
	registry, err := tool.NewRegistry(change, list)
	must(err)
	sessions, err := session.New(session.Config{Store: store, Catalog: catalog, Registry: registry, Contexts: contexts{}, Log: log})
	must(err)
	late.Manager = sessions
	r := &rig{}
	if o.model == "" {
		r.provider = llmtest.New(t, script...)
		o.model = r.provider.URL
	}
	loop, err := reasoner.New(reasoner.Config{Model: llm.New(llm.Config{BaseURL: o.model, IdleTimeout: time.Hour}), Sessions: store, Registry: registry, Log: log})
	must(err)
	var journal pipeline.Store = store
	if o.journal != nil {
		journal = o.journal(store)
	}
	r.pipeline, err = pipeline.New(pipeline.Config{
		Store: journal, Sessions: sessions, Catalog: catalog, Registry: registry, Contexts: contexts{}, Reasoner: loop, Hub: events.NewHub(), Log: log,
	})
	must(err)
	must(r.pipeline.Recover(context.Background()))
	door, err := responsesapi.New(responsesapi.Config{Turns: r.pipeline, Sessions: sessions, Tools: registry, Contexts: contexts{}})
	must(err)
	o.server.Turns, o.server.Sessions, o.server.Responses = r.pipeline, sessions, door
	o.server.Heartbeat = cmp.Or(o.server.Heartbeat, time.Hour) // a comment would stand between the bytes
	o.server.Catalog, o.server.Registry, o.server.Log = catalog, registry, log
	if o.over != nil {
		o.server.Log = slog.New(requestLog{slog.DiscardHandler, o.over})
	}
	edge, err := server.New(o.server)
	must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	r.web, r.addr = edge.HTTPServer(""), listener.Addr().String()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = r.web.Serve(listener)
	}()
	r.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		err := errors.Join(r.pipeline.Drain(ctx), edge.EndParked(ctx), r.web.Close())
		<-served
		if err := errors.Join(err, store.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// request makes a request of the rig; a body is sent as JSON, header pairs follow.
func (r *rig) request(t testing.TB, method, path, body string, header ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.addr+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

// read returns all that a request is answered with over a connection that is cut after
// so many bytes, and these bytes; less than 0 is never.
func (r *rig) read(t testing.TB, req *http.Request, cut int) (body string, wire []byte) {
	t.Helper()
	conn := &cutConn{left: cut}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, addr string) (_ net.Conn, err error) {
		conn.Conn, err = (&net.Dialer{}).DialContext(ctx, network, addr)
		return conn, err
	}}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		if cut < 0 {
			t.Fatal(err)
		}
		return "", conn.read
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNoContent {
		raw, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s %s: got %s\n%s", req.Method, req.URL, resp.Status, raw)
	}
	raw, err := io.ReadAll(resp.Body)
	if err != nil && cut < 0 {
		t.Fatalf("%s %s: %v after\n%s", req.Method, req.URL, err, raw)
	}
	return string(raw), conn.read
}

// cutConn is closed when left bytes have been read.
type cutConn struct {
	net.Conn
	left int
	read []byte
}

func (c *cutConn) Read(b []byte) (int, error) {
	if c.left == 0 {
		_ = c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	if c.left > 0 {
		b = b[:min(len(b), c.left)]
	}
	n, err := c.Conn.Read(b)
	c.read = append(c.read, b[:n]...)
	if c.left > 0 {
		c.left -= n
	}
	return n, err
}

// long reports whether the long forms are asked for.
func long() bool { return os.Getenv("APTIX_TORTURE_STREAMS") != "" }

// complete returns the part of a stream that is whole events.
func complete(stream string) string { return stream[:strings.LastIndex("\n\n"+stream, "\n\n")] }

// last returns what stands behind a mark in the last event of a stream that has it, up
// to the end of the token; empty when there is none.
func last(stream, mark string) string {
	at := strings.LastIndex(stream, mark)
	if at < 0 {
		return ""
	}
	token := stream[at+len(mark):]
	return token[:strings.IndexAny(token+"\n", "\n,}\"")]
}

type lateSessions struct{ *session.Manager }

// contexts is a configuration with one context.
type contexts struct{}

func (contexts) List() []agent.ContextName {
	return []agent.ContextName{{Agent: "default", Conversation: "default", DefaultAgent: true, Default: true}}
}

func (contexts) Conversation(_, _ string) (agent.ConversationContext, bool) {
	return agent.ConversationContext{ID: "default", Model: "test-model", System: "You are Aptix."}, true
}

func (c contexts) Resolve(_, _ string) (string, string, agent.ConversationContext, error) {
	found, _ := c.Conversation("", "")
	return "default", "default", found, nil
}

// requestLog calls over for the line that each request leaves.
type requestLog struct {
	slog.Handler
	over func(requestID string)
}

func (l requestLog) Enabled(context.Context, slog.Level) bool { return true }

func (l requestLog) Handle(_ context.Context, line slog.Record) error {
	line.Attrs(func(a slog.Attr) bool {
		if line.Message == "request" && a.Key == "requestId" {
			l.over(a.Value.String())
		}
		return true
	})
	return nil
}

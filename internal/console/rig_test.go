package console_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/budget"
	"github.com/aptixhq/aptix/internal/console"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/reasoner"
	"github.com/aptixhq/aptix/internal/server"
	"github.com/aptixhq/aptix/internal/session"
	"github.com/aptixhq/aptix/internal/store/sqlite"
	"github.com/aptixhq/aptix/internal/store/sqlite/sqlitetest"
	"github.com/aptixhq/aptix/internal/tool"
	"github.com/aptixhq/aptix/internal/tool/builtin"
)

// rig is the whole server on a socket, over a data file and a fake provider. A call of
// agent_list_modes waits for an approval, a change of the mode for consent. An
// authenticator that has a method Open says by it when nobody has to authenticate.
type rig struct {
	t        testing.TB
	provider *llmtest.Server
	path     string
	addr     string
	auth     server.Authenticator
	token    string // of the console, while it asks for one
	stop     func(context.Context)
}

func newRig(t testing.TB, auth server.Authenticator, script ...llmtest.Reply) *rig {
	t.Helper()
	r := &rig{t: t, provider: llmtest.New(t, script...), path: sqlitetest.File(t), auth: auth}
	r.start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		r.stop(ctx)
	})
	return r
}

// start builds the server on the data file as it is, at the same address as before.
func (r *rig) start() {
	t := r.t
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	log := slog.New(slog.DiscardHandler)
	catalog := mode.Builtin()
	store, err := sqlite.Open(context.Background(), r.path, log)
	must(err)
	late := &lateSessions{}
	change, err := builtin.NewChangeMode(late, log)
	must(err)
	list, err := builtin.NewListModes(catalog, log)
	must(err)
	registry, err := tool.NewRegistry(change, list)
	must(err)
	sessions, err := session.New(session.Config{Store: store, Catalog: catalog, Registry: registry, Contexts: contexts{}, Log: log, Consent: true})
	must(err)
	late.Manager = sessions
	loop, err := reasoner.New(reasoner.Config{Model: llm.New(llm.Config{BaseURL: r.provider.URL, IdleTimeout: time.Hour}), Sessions: store, Registry: registry, Log: log})
	must(err)
	turns, err := pipeline.New(pipeline.Config{
		Store: store, Sessions: sessions, Catalog: catalog, Registry: registry, Contexts: contexts{}, Reasoner: loop, Hub: events.NewHub(), Log: log,
		ApprovalRules: agent.ApprovalRules{"agent_list_modes": agent.ApprovalAsk}, Consent: true,
	})
	must(err)
	must(turns.Recover(context.Background()))
	var signIns *console.SignIns
	var auth server.Authenticator
	var open func() bool
	if r.auth != nil {
		if door, ok := r.auth.(interface{ Open() bool }); ok {
			open = door.Open
		}
		signIns, err = console.NewSignIns(r.auth, open)
		must(err)
		auth = signIns
		r.token = signIns.Token().Reveal()
	}
	pages, err := console.New(console.Config{Turns: turns, Sessions: sessions, Catalog: catalog, Registry: registry, SignIns: signIns,
		Prices: map[string]budget.Price{"test-model": {Input: 0.25, CachedInput: 0.025, Output: 2}}})
	must(err)
	edge, err := server.New(server.Config{Turns: turns, Sessions: sessions, Console: pages, Catalog: catalog, Registry: registry, Log: log, Auth: auth, Open: open})
	must(err)
	listener, err := net.Listen("tcp", cmp.Or(r.addr, "127.0.0.1:0"))
	must(err)
	if r.addr == "" { // a browser reads it while the server starts anew
		r.addr = listener.Addr().String()
	}
	web := edge.HTTPServer("")
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = web.Serve(listener)
	}()
	var once sync.Once
	r.stop = func(ctx context.Context) {
		once.Do(func() {
			err := turns.Drain(ctx)
			if errors.Is(err, context.Canceled) {
				err = nil // killed: the turns go on at the next start
			}
			err = errors.Join(err, web.Close())
			<-served
			if err := errors.Join(err, store.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// kill stops the server under its turns.
func (r *rig) kill() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r.stop(ctx)
}

// cookieName is what the console calls its cookie at the rig's address.
func (r *rig) cookieName() string {
	_, port, _ := net.SplitHostPort(r.addr)
	return "aptix_console_" + port
}

// answer is what a request was answered with.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request as a browser's page of the same origin would; header pairs follow. No
// redirect is followed.
func (r *rig) do(method, path, body string, header ...string) answer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, "http://"+r.addr+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if strings.HasPrefix(body, "{") {
		req.Header.Set("Content-Type", "application/json")
	} else if body != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(raw)}
}

// turn runs a turn to its rest.
func (r *rig) turn(session, turn, instruction string) {
	r.t.Helper()
	if a := r.do("POST", "/v1/agent/execute", `{"sessionId":"`+session+`","turnId":"`+turn+`","instruction":"`+instruction+`"}`); a.status != 200 {
		r.t.Fatalf("turn %s/%s: %d %s", session, turn, a.status, a.body)
	}
}

type lateSessions struct{ *session.Manager }

// contexts is a configuration with one context.
type contexts struct{}

func (contexts) Conversation(_, _ string) (agent.ConversationContext, bool) {
	return agent.ConversationContext{ID: "default", Model: "test-model", System: "You are Aptix."}, true
}

func (c contexts) Resolve(_, _ string) (string, string, agent.ConversationContext, error) {
	found, _ := c.Conversation("", "")
	return "default", "default", found, nil
}

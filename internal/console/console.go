package console

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/budget"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/server"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/tool"
)

// Turns is what the pages show of turns. What the caller may not see is
// agent.KindNotFound, as at the API.
type Turns interface {
	Turn(ctx context.Context, key agent.TurnKey) (agent.Turn, error)
	// Turns pages through a session's turns, newest last.
	Turns(ctx context.Context, by agent.Caller, id agent.SessionID, p store.Page) ([]agent.Turn, string, error)
	// Steps returns the journal of a turn, for reading only.
	Steps(ctx context.Context, key agent.TurnKey) ([]agent.Step, error)
	// Requests returns the turn's model calls in order.
	Requests(ctx context.Context, key agent.TurnKey) ([]pipeline.ModelCall, error)
	// PreviewMode builds the first request of a session that would begin in a mode.
	PreviewMode(ctx context.Context, by agent.Caller, m agent.ModeKey, instruction string) (pipeline.Preview, error)
}

// Sessions is what the pages show of sessions.
type Sessions interface {
	Get(ctx context.Context, by agent.Caller, id agent.SessionID) (agent.Session, error)
	// List pages through the sessions, newest first.
	List(ctx context.Context, by agent.Caller, p store.Page) ([]agent.Session, string, error)
	// ModeHistory pages through the mode changes, newest last.
	ModeHistory(ctx context.Context, by agent.Caller, id agent.SessionID, p store.Page) ([]agent.ModeChange, string, error)
}

// Config holds the parts of a Console. Turns, Sessions, Catalog and Registry are required.
type Config struct {
	Turns    Turns
	Sessions Sessions
	Catalog  server.Catalogs
	Registry *tool.Registry
	// SignIns keeps who signed in; nil where nobody has to.
	SignIns *SignIns
	// Prices are those of the models. Of a model that has none no cost is shown.
	Prices map[string]budget.Price
}

// Console has the pages. Build it with New.
type Console struct {
	turns    Turns
	sessions Sessions
	catalog  server.Catalogs
	registry *tool.Registry
	signIns  *SignIns
	prices   map[string]budget.Price
	board    board
	now      func() time.Time
}

// New returns a console, or an error when a part is missing.
func New(c Config) (*Console, error) {
	if c.Turns == nil || c.Sessions == nil || c.Catalog == nil || c.Registry == nil {
		return nil, errors.New("console: Turns, Sessions, Catalog and Registry are all required")
	}
	return &Console{turns: c.Turns, sessions: c.Sessions, catalog: c.Catalog, registry: c.Registry, signIns: c.SignIns, prices: c.Prices, now: time.Now}, nil
}

// Pages is the whole URL space of the console.
func (c *Console) Pages() []server.Page {
	const (
		session = "/sessions/{sessionId}"
		turn    = session + "/turns/{turnId}"
	)
	pages := []server.Page{
		{Method: "GET", Pattern: "/{$}", Serve: c.home},
		{Method: "GET", Pattern: "/sessions", Serve: c.sessionList},
		{Method: "GET", Pattern: session, Serve: c.chat},
		{Method: "GET", Pattern: session + "/bar", Serve: c.bar},
		{Method: "GET", Pattern: session + "/history", Serve: c.history},
		{Method: "GET", Pattern: turn, Serve: c.turn},
		{Method: "GET", Pattern: turn + "/card", Serve: c.card},
		{Method: "GET", Pattern: turn + "/diff", Serve: c.diffCalls},
		{Method: "GET", Pattern: turn + "/calls/{n}/{form}", Serve: c.callBytes},
		{Method: "GET", Pattern: "/modes", Serve: c.modes},
		{Method: "GET", Pattern: "/modes/{key}", Serve: c.mode},
		{Method: "GET", Pattern: "/modes/{key}/diff", Serve: c.diffModes},
		{Method: "GET", Pattern: "/live", Serve: c.live},
		{Method: "GET", Pattern: "/assets/{file}", Public: true, Serve: c.asset},
	}
	if c.signIns != nil {
		for i, p := range pages {
			if !p.Public {
				pages[i] = c.withToken(p)
			}
		}
		pages = append(pages,
			server.Page{Method: "GET", Pattern: "/sign-in", Public: true, Serve: c.signInForm},
			server.Page{Method: "POST", Pattern: "/sign-in", Public: true, Serve: c.signIn},
			server.Page{Method: "POST", Pattern: "/sign-out", Public: true, Serve: c.signOut})
	}
	return pages
}

// sessionOf reads the session that the path names.
func (c *Console) sessionOf(r *http.Request, by agent.Caller) (agent.Session, error) {
	id := r.PathValue("sessionId")
	if !agent.ValidID(id) {
		return agent.Session{}, agent.Errorf(agent.KindNotFound, "There is no such session.")
	}
	return c.sessions.Get(r.Context(), by, agent.SessionID(id))
}

// turnOf reads the turn that the path names, and its session, which says whether the
// caller may see it.
func (c *Console) turnOf(r *http.Request, by agent.Caller) (agent.Session, agent.Turn, error) {
	s, err := c.sessionOf(r, by)
	if err != nil {
		return s, agent.Turn{}, err
	}
	id := r.PathValue("turnId")
	if !agent.ValidID(id) {
		return s, agent.Turn{}, agent.Errorf(agent.KindNotFound, "There is no such turn.")
	}
	t, err := c.turns.Turn(r.Context(), agent.TurnKey{Org: by.Org, Session: s.ID, Turn: agent.TurnID(id)})
	return s, t, err
}

// modeName returns a mode's name for people, its key when the catalogue has lost it.
func (c *Console) modeName(key agent.ModeKey) string {
	if m, ok := c.catalog.Current().Get(key); ok {
		return m.DisplayName
	}
	return string(key)
}

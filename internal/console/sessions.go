package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/store"
)

const (
	// shownSessions is how many sessions a list shows at a time.
	shownSessions = 30
	// maxSearched bounds how many sessions one search looks at; the reader goes on from there.
	maxSearched = 1000
)

// sessionList is a part of the sessions, newest first.
type sessionList struct {
	Items   []sessionItem
	Query   string
	Current agent.SessionID
	// Next is the address of the rest; empty at the end.
	Next string
	// More tells that the list goes on from another one, so that nothing is said when it is
	// empty.
	More bool
}

// sessionItem is one session in a list.
type sessionItem struct {
	ID       agent.SessionID
	Title    string
	ModeName string
	State    agent.TurnState // of its last turn; empty without one
	At       time.Time
	Ago      string
	Current  bool
}

// sessionList answers with a part of the list, for htmx.
func (c *Console) sessionList(w http.ResponseWriter, r *http.Request, by agent.Caller) error {
	list, err := c.list(r.Context(), by, r.URL.Query())
	if err != nil {
		return err
	}
	return fragment(w, "session-list", list)
}

// list finds sessions whose id or mode holds the query, from a cursor on.
func (c *Console) list(ctx context.Context, by agent.Caller, q url.Values) (sessionList, error) {
	out := sessionList{Query: strings.TrimSpace(q.Get("q")), Current: agent.SessionID(q.Get("current")), More: q.Get("cursor") != ""}
	page := store.Page{Limit: shownSessions, Cursor: q.Get("cursor")}
	for seen := 0; ; {
		found, next, err := c.sessions.List(ctx, by, page)
		if err != nil {
			return out, err
		}
		for _, s := range found {
			if !c.matches(s, out.Query) {
				continue
			}
			item, err := c.item(ctx, by, s)
			if err != nil {
				return out, err
			}
			item.Current = s.ID == out.Current
			out.Items = append(out.Items, item)
		}
		seen += len(found)
		if next == "" {
			return out, nil
		}
		if len(out.Items) >= shownSessions || seen >= maxSearched {
			out.Next = "/sessions?" + url.Values{"q": {out.Query}, "current": {string(out.Current)}, "cursor": {next}}.Encode()
			return out, nil
		}
		page.Cursor = next
	}
}

// matches reports whether a session is one that a query means.
func (c *Console) matches(s agent.Session, query string) bool {
	query = strings.ToLower(query)
	for _, text := range []string{string(s.ID), string(s.Mode), c.modeName(s.Mode)} {
		if strings.Contains(strings.ToLower(text), query) {
			return true
		}
	}
	return false
}

// item reads what a list shows of a session: what it began with, and how its last turn is.
func (c *Console) item(ctx context.Context, by agent.Caller, s agent.Session) (sessionItem, error) {
	item := sessionItem{ID: s.ID, ModeName: c.modeName(s.Mode), At: s.UpdatedAt, Ago: ago(c.now(), s.UpdatedAt)}
	var err error
	if item.Title, item.State, err = c.began(ctx, by, s); err != nil || s.Turns <= 1 {
		return item, err
	}
	last, err := c.lastTurns(ctx, by, s, 1)
	if len(last) > 0 {
		item.State = last[len(last)-1].State
	}
	return item, err
}

// began reads what a session began with: what it was asked, and how that turn is.
func (c *Console) began(ctx context.Context, by agent.Caller, s agent.Session) (string, agent.TurnState, error) {
	if s.Turns == 0 {
		return "New session", "", nil
	}
	first, _, err := c.turns.Turns(ctx, by, s.ID, store.Page{Limit: 1})
	if err != nil || len(first) == 0 {
		return "New session", "", err
	}
	return titleOf(first[0]), first[0].State, nil
}

// lastTurns reads the last n turns of a session.
func (c *Console) lastTurns(ctx context.Context, by agent.Caller, s agent.Session, n int64) ([]agent.Turn, error) {
	page := store.Page{Limit: int(n)}
	if s.Turns > n {
		page.Cursor = store.AfterTurn(s.Turns - n)
	}
	turns, _, err := c.turns.Turns(ctx, by, s.ID, page)
	return turns, err
}

// maxTitle bounds a title in a list, in characters.
const maxTitle = 80

// titleOf is what a turn asks, in a line.
func titleOf(t agent.Turn) string {
	words := strings.Fields(requestOf(t).Instruction)
	if len(words) == 0 {
		return "Files or images"
	}
	title := []rune(strings.Join(words, " "))
	if len(title) > maxTitle {
		return string(title[:maxTitle-1]) + "…"
	}
	return string(title)
}

// home is the first page: the sessions, and the beginning of a new one.
func (c *Console) home(w http.ResponseWriter, r *http.Request, by agent.Caller) error {
	list, err := c.list(r.Context(), by, r.URL.Query())
	if err != nil {
		return err
	}
	catalog := c.catalog.Current()
	chosen := agent.ModeKey(r.URL.Query().Get("mode"))
	if _, ok := catalog.Get(chosen); !ok {
		chosen = agent.ModeGeneral
	}
	return c.show(w, r, http.StatusOK, page{Title: "Chat", Nav: "chat", Body: "home", Data: struct {
		List   sessionList
		Modes  []mode.Mode
		Chosen agent.ModeKey
	}{list, catalog.All(), chosen}})
}

// requestOf reads what a turn was asked; nothing, when that cannot be read.
func requestOf(t agent.Turn) contract.UserTurn {
	var u contract.UserTurn
	if json.Unmarshal(t.Request, &u) != nil {
		return contract.UserTurn{}
	}
	return u
}

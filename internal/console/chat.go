package console

import (
	"context"
	"net/http"
	"strconv"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/mode"
)

// shownTurns is how many turns of a conversation are shown at a time.
const shownTurns = 20

// conversation is a session with its last turns.
type conversation struct {
	List sessionList
	bar
	Turns []turnView
	// Earlier is the address of the turns before; empty at the beginning.
	Earlier string
	// Welcome is the mode's message, of a session without a turn.
	Welcome string
}

// bar is what always shows of a session: its mode, and how to change it.
type bar struct {
	Session  agent.Session
	Title    string
	ModeName string
	Modes    []mode.Mode
	Parent   agent.SessionID
}

func (c *Console) barOf(ctx context.Context, by agent.Caller, s agent.Session) (bar, error) {
	title, _, err := c.began(ctx, by, s)
	return bar{Session: s, Title: title, ModeName: c.modeName(s.Mode), Modes: c.catalog.Current().All(), Parent: s.Parent.Session}, err
}

// bar answers with a session's mode as it is now, for htmx.
func (c *Console) bar(w http.ResponseWriter, r *http.Request, by agent.Caller) error {
	s, err := c.sessionOf(r, by)
	if err != nil {
		return err
	}
	b, err := c.barOf(r.Context(), by, s)
	if err != nil {
		return err
	}
	return fragment(w, "bar", b)
}

// chat is a session's page: the conversation, beside the other sessions.
func (c *Console) chat(w http.ResponseWriter, r *http.Request, by agent.Caller) error {
	s, err := c.sessionOf(r, by)
	if err != nil {
		return err
	}
	end, err := c.endOf(s, r.URL.Query().Get("before"))
	if err != nil {
		return err
	}
	var view conversation
	if view.bar, err = c.barOf(r.Context(), by, s); err != nil {
		return err
	}
	upTo := s
	upTo.Turns = end
	n := min(end, shownTurns)
	turns, err := c.lastTurns(r.Context(), by, upTo, max(n, 1))
	if err != nil {
		return err
	}
	for _, t := range turns[:min(len(turns), int(n))] {
		v, err := c.viewOf(r.Context(), t)
		if err != nil {
			return err
		}
		view.Turns = append(view.Turns, v)
	}
	if end > shownTurns {
		view.Earlier = "/sessions/" + string(s.ID) + "?before=" + strconv.FormatInt(end-shownTurns+1, 10)
	}
	if r.Header.Get("HX-Request") != "" {
		return fragment(w, "turns", view)
	}
	query := r.URL.Query()
	query.Set("current", string(s.ID))
	if view.List, err = c.list(r.Context(), by, query); err != nil {
		return err
	}
	if m, ok := c.catalog.Current().Get(s.Mode); ok && len(turns) == 0 {
		view.Welcome = m.WelcomeMessage
	}
	return c.show(w, r, http.StatusOK, page{Title: view.Title, Nav: "chat", Body: "chat", Data: view})
}

// endOf returns the last turn to show: the session's, or the one before the ordinal that the
// reader names.
func (c *Console) endOf(s agent.Session, before string) (int64, error) {
	if before == "" {
		return s.Turns, nil
	}
	n, err := strconv.ParseInt(before, 10, 64)
	if err != nil || n < 1 {
		return 0, agent.Errorf(agent.KindInvalidRequest, "before must be the number of a turn.")
	}
	return min(n-1, s.Turns), nil
}

// card answers with one turn as it is now, for the script.
func (c *Console) card(w http.ResponseWriter, r *http.Request, by agent.Caller) error {
	_, t, err := c.turnOf(r, by)
	if err != nil {
		return err
	}
	v, err := c.viewOf(r.Context(), t)
	if err != nil {
		return err
	}
	return fragment(w, "turn", v)
}

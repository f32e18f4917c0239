package console

import (
	"net/http"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/tool"
)

func (c *Console) modes(w http.ResponseWriter, r *http.Request, _ agent.Caller) error {
	var tools []toolView
	for _, d := range c.registry.Definitions() {
		tools = append(tools, c.toolView(d))
	}
	return c.show(w, r, http.StatusOK, page{Title: "Modes and tools", Nav: "modes", Body: "modes", Data: struct {
		Modes []mode.Mode
		Tools []toolView
		Hash  string
	}{c.catalog.Current().All(), tools, c.catalog.Current().Hash()}})
}

// toolView is a server tool as the catalogue shows it.
type toolView struct {
	tool.Definition
	Schema    string
	Withdrawn string
}

func (c *Console) toolView(d tool.Definition) toolView {
	return toolView{d, pretty(string(d.Parameters)), c.registry.Withdrawn(d.Name)}
}

func (c *Console) modeOf(key string) (mode.Mode, error) {
	m, ok := c.catalog.Current().Get(agent.ModeKey(key))
	if !ok {
		return m, agent.Errorf(agent.KindNotFound, "There is no such mode. It may have left the catalogue.")
	}
	return m, nil
}

// modePage is a mode, and the request that a turn in it would send.
type modePage struct {
	mode.Mode
	Others []mode.Mode
	Tools  []toolView
	// Session is the newest session in the mode, of which Request is the next first request;
	// both are empty when there is none. A new session is in the default mode.
	Session   agent.SessionID
	Request   string
	Canonical string
}

// sampleInstruction is what the sample request asks.
const sampleInstruction = "What can you do?"

func (c *Console) mode(w http.ResponseWriter, r *http.Request, by agent.Caller) error {
	m, err := c.modeOf(r.PathValue("key"))
	if err != nil {
		return err
	}
	p := modePage{Mode: m}
	for _, other := range c.catalog.Current().All() {
		if other.Key != m.Key {
			p.Others = append(p.Others, other)
		}
	}
	if err := c.sample(r, by, &p); err != nil {
		return err
	}
	return c.show(w, r, http.StatusOK, page{Title: m.DisplayName, Nav: "modes", Body: "mode", Data: p})
}

// sample builds the request of a turn that nobody sends.
func (c *Console) sample(r *http.Request, by agent.Caller, p *modePage) error {
	sessions, _, err := c.sessions.List(r.Context(), by, store.Page{Limit: store.MaxLimit})
	if err != nil {
		return err
	}
	for _, s := range sessions {
		if s.Mode == p.Key {
			p.Session = s.ID
			break
		}
	}
	if p.Session == "" && !p.IsDefault {
		return nil
	}
	u := contract.UserTurn{SessionID: p.Session, TurnID: "preview", Instruction: sampleInstruction}
	if u.SessionID == "" {
		u.SessionID = "preview"
	}
	preview, err := c.turns.Preview(r.Context(), by, u)
	if err != nil {
		p.Request = "It cannot be built at the moment: " + agent.FaultOf(err).Message
		return nil
	}
	p.Request, p.Canonical = readable(preview.Wire), readable(preview.Canonical)
	return nil
}

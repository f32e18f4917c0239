package console

import (
	"net/http"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/mode"
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

// modePage is a mode, and the first request of a session that begins in it.
type modePage struct {
	mode.Mode
	Others          []mode.Mode
	Canonical, Wire string
	// Problem tells why there is no request.
	Problem string
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
	if sample, err := c.turns.PreviewMode(r.Context(), by, m.Key, sampleInstruction); err != nil {
		p.Problem = agent.FaultOf(err).Message
	} else {
		p.Canonical, p.Wire = readable(sample.Canonical), readable(sample.Wire)
	}
	return c.show(w, r, http.StatusOK, page{Title: m.DisplayName, Nav: "modes", Body: "mode", Data: p})
}

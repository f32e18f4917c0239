package server

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/tool"
)

// Catalogs has the modes in force.
type Catalogs interface {
	Current() *mode.Catalog
}

// Tool is a server tool as clients see it.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Usage       string          `json:"usage" doc:"What the model reads about when to use the tool."`
	Parameters  json.RawMessage `json:"parameters" doc:"The JSON Schema of the arguments."`
	Idempotent  bool            `json:"idempotent" doc:"Whether a call may run again after a crash."`
	Withdrawn   string          `json:"withdrawn,omitempty" doc:"Why the tool is not offered to models for the time being."`
}

func (s *Server) toolView(d tool.Definition) Tool {
	return Tool{Name: d.Name, Description: d.Description, Usage: d.Usage, Parameters: d.Parameters, Idempotent: d.Idempotent,
		Withdrawn: s.registry.Withdrawn(d.Name)}
}

func (s *Server) listModes(w http.ResponseWriter, r *http.Request) error {
	page, err := pageOf(r)
	if err != nil {
		return err
	}
	modes, next, err := cut("modes", s.catalog.Current().All(), page, func(m mode.Mode) string { return string(m.Key) })
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, listOf(modes, next, func(m mode.Mode) mode.Mode { return m }))
}

func (s *Server) getMode(w http.ResponseWriter, r *http.Request) error {
	m, ok := s.catalog.Current().Get(agent.ModeKey(r.PathValue("key")))
	if !ok {
		return agent.Errorf(agent.KindNotFound, "There is no such mode. GET /v1/modes lists them.")
	}
	return writeJSON(w, http.StatusOK, m)
}

func (s *Server) listTools(w http.ResponseWriter, r *http.Request) error {
	page, err := pageOf(r)
	if err != nil {
		return err
	}
	tools, next, err := cut("tools", s.registry.Definitions(), page, func(d tool.Definition) string { return d.Name })
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, listOf(tools, next, s.toolView))
}

// cut returns a page of what is in memory whole, list by name. The cursor names the
// last thing on the page before.
func cut[T any](list string, all []T, p store.Page, name func(T) string) (page []T, next string, err error) {
	last, err := p.After(list, 1)
	if err != nil {
		return nil, "", err
	}
	if last != nil {
		i := slices.IndexFunc(all, func(t T) bool { return name(t) == last[0] })
		if i < 0 {
			return nil, "", store.BadCursor(nil)
		}
		all = all[i+1:]
	}
	if len(all) > p.Size() {
		all = all[:p.Size()]
		next = store.Cursor(list, name(all[len(all)-1]))
	}
	return all, next, nil
}

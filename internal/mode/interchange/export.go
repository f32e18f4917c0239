package interchange

import (
	"slices"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/blockyaml"
	"github.com/aptixhq/aptix/internal/mode"
)

// Exported says what the file of another agent cannot say of a mode.
type Exported struct {
	Key   agent.ModeKey `json:"key"`
	Slug  string        `json:"slug"`
	Notes []Note        `json:"notes,omitempty"`
}

// customMode is a mode as .roomodes has it.
type customMode struct {
	Slug               string `json:"slug"`
	Name               string `json:"name"`
	Description        string `json:"description"`
	RoleDefinition     string `json:"roleDefinition"`
	WhenToUse          string `json:"whenToUse"`
	CustomInstructions string `json:"customInstructions,omitempty"`
	// Groups holds names, and lists of a name and its bounds.
	Groups []any `json:"groups"`
}

type groupBounds struct {
	FileRegex   string `json:"fileRegex"`
	Description string `json:"description,omitempty"`
}

// Export returns the modes as a .roomodes file, and what is lost in it. Importing it gives
// the same modes again, as far as the format can say it.
func Export(modes []mode.Mode) ([]byte, []Exported, error) {
	var file struct {
		CustomModes []customMode `json:"customModes"`
	}
	var report []Exported
	for _, m := range modes {
		e := exporter{mode: m}
		file.CustomModes = append(file.CustomModes, e.export())
		report = append(report, Exported{Key: m.Key, Slug: slug(m.Key), Notes: e.notes})
	}
	b, err := blockyaml.Marshal(file)
	return b, report, err
}

func slug(key agent.ModeKey) string { return strings.ReplaceAll(string(key), "_", "-") }

// exporter turns one mode into one of the other format.
type exporter struct {
	mode  mode.Mode
	notes notes
}

func (e *exporter) export() customMode {
	m := e.mode
	out := customMode{
		Slug: slug(m.Key), Name: m.DisplayName, Description: m.Description, WhenToUse: m.WhenToUse,
		Groups: e.groups(),
	}
	out.RoleDefinition, out.CustomInstructions = e.prompts()
	e.lost("tools", len(m.Tools) > 0)
	e.lost("status", m.Status != mode.StatusActive)
	e.lost("isDefault", m.IsDefault && m.Key != agent.ModeGeneral)
	e.lost("humanRoleHints", len(m.HumanRoleHints) > 0)
	e.lost("exampleUtterances", len(m.ExampleUtterances) > 0)
	e.lost("rag", len(m.RAG.Prefer)+len(m.RAG.Exclude) > 0)
	e.lost("id", m.ID != id(m.Key))
	e.lost("version", m.Version != "v1")
	return out
}

func (e *exporter) lost(member string, there bool) {
	if there {
		e.notes.add(LeftOut, "%s", member)
	}
}

// prompts parts what the mode tells the model: who it is, and all that follows.
func (e *exporter) prompts() (role, custom string) {
	texts := slices.Clone(e.mode.Instructions)
	if s := e.mode.SystemPromptSummary; s != "" {
		texts = slices.Insert(texts, 0, s)
		e.notes.add(Changed, "systemPromptSummary: became the roleDefinition")
	}
	if len(texts) == 0 {
		e.notes.add(Changed, "roleDefinition: made from the description")
		return e.mode.Description, ""
	}
	if len(texts) > 2 {
		e.notes.add(Changed, "instructions: all but the first were joined to one text")
	}
	return texts[0], strings.Join(texts[1:], "\n\n")
}

// groups grants a group when the mode admits all of its tools, so that nothing is allowed
// there that is not allowed here.
func (e *exporter) groups() []any {
	c := e.mode.ClientTools
	out := []any{}
	granted := map[string]bool{}
	for _, g := range counterparts() {
		if slices.ContainsFunc(g.tools, func(name string) bool { return !c.Admits(name) }) {
			continue
		}
		bounds, ok := e.bounds(g)
		switch {
		case !ok:
			continue
		case bounds == nil:
			out = append(out, g.group)
		default:
			out = append(out, []any{g.group, bounds})
		}
		for _, name := range g.tools {
			granted[name] = true
		}
	}
	if c == nil {
		e.notes.add(Changed, "clientTools: the mode leaves the client all of its tools; the format names groups, and read, edit and command were named")
		return out
	}
	for _, name := range c.Allow {
		if !granted[name] {
			e.notes.add(LeftOut, "clientTools.allow %s: no group stands for it", name)
		}
	}
	return out
}

// bounds returns the bounds of a group, nil when it has none. ok is false when the format
// has no words for them.
func (e *exporter) bounds(g counterpart) (bounds *groupBounds, ok bool) {
	c := e.mode.ClientTools
	if c == nil {
		return nil, true
	}
	var rules []mode.FileRule
	for _, r := range c.Files {
		only := mode.ClientTools{Allow: r.Tools}
		if slices.ContainsFunc(g.tools, only.Admits) {
			rules = append(rules, r)
		}
	}
	switch {
	case len(rules) == 0:
		return nil, true
	case len(rules) > 1 || g.group != groupEdit:
		e.notes.add(LeftOut, "group %s: the format cannot say which files it may touch", g.group)
		return nil, false
	}
	if len(rules[0].Patterns) > 1 {
		e.notes.add(Changed, "clientTools.files: the patterns became one")
	}
	return &groupBounds{pattern(rules[0].Patterns), rules[0].Description}, true
}

package interchange

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/mode"
)

const (
	// maxDerived bounds a description that had to be made up from the role.
	maxDerived = 200
	// maxKey bounds a key that is made of a slug; it names a file.
	maxKey = 100
)

// Import reads the modes in files of other agents. Of modes with the same key the first is
// taken, so the file that counts most stands first. Every mode, and every file that cannot
// be read, is in the outcome, in order.
func Import(sources []Source) []Imported {
	var out []Imported
	owners := map[agent.ModeKey]string{}
	for _, s := range sources {
		modes, err := s.read()
		if err != nil {
			out = append(out, Imported{Source: s.Shown, Why: err.Error()})
			continue
		}
		for _, m := range modes {
			i := m.convert()
			i.Source = s.Shown
			if owner := owners[i.Key]; i.Taken() && owner != "" {
				i.Key, i.Why = "", "its key is that of "+owner+" already"
			} else if i.Taken() {
				owners[i.Key] = m.slug + " in " + s.Shown
			}
			out = append(out, i)
		}
	}
	return out
}

// convert makes a mode of ours.
func (m *foreign) convert() Imported {
	i := Imported{}
	m.complete()
	key := m.key()
	i.Slug = m.slug
	switch {
	case key == "":
		i.Why = "it has no slug that a key could be made of"
	case len(key) > maxKey:
		i.Why = fmt.Sprintf("its slug is longer than %d characters", maxKey)
	case m.role == "" && m.custom == "" && len(m.rules) == 0:
		i.Why = "it says nothing to the model: there is no role, no instructions and no rules"
	}
	if i.Why != "" {
		i.Notes = m.notes
		return i
	}
	i.Key = key
	i.Mode = mode.Mode{
		ID: id(key), Key: key, DisplayName: m.name, Description: m.description, WhenToUse: m.whenToUse,
		// Sessions start in general, and it stands in for modes that are gone.
		IsDefault: key == agent.ModeGeneral,
		Status:    mode.StatusActive, Version: "v1",
		Instructions: m.instructions(), Tools: append([]string{}, m.servers...),
		HumanRoleHints: []string{}, ExampleUtterances: []string{}, RAG: mode.Hints{Prefer: []string{}, Exclude: []string{}},
	}
	if !m.unbounded {
		i.Mode.ClientTools = clientTools(m.grants, &m.notes)
	}
	file, err := File(i.Mode)
	if err == nil {
		i.Mode, err = mode.Parse(i.Name(), file)
	}
	if err != nil {
		i.Key, i.Why = "", why(err)
	}
	i.File, i.Notes = file, m.notes
	return i
}

// why puts what is wrong with a mode file on one line.
func why(err error) string {
	problems := (mode.Problems)(nil)
	if !errors.As(err, &problems) {
		return err.Error()
	}
	var texts []string
	for _, p := range problems {
		texts = append(texts, p.Message)
	}
	return strings.Join(texts, "; ")
}

// complete makes up what another agent does without.
func (m *foreign) complete() {
	if m.slug == "" && m.name != "" {
		m.slug = strings.ReplaceAll(strings.ToLower(flat(m.name)), " ", "-")
		m.notes.add(Changed, "slug: made from the name")
	}
	if name := flat(m.name); name != m.name {
		m.notes.add(Changed, "name: put on one line")
		m.name = name
	}
	if m.name == "" {
		m.name = m.slug
		m.notes.add(Changed, "name: made from the slug")
	}
	if m.description == "" {
		from := "the role"
		m.description = firstSentence(joined(m.role, m.custom, "\n\n"), maxDerived)
		if m.whenToUse != "" {
			from, m.description = "whenToUse", firstSentence(m.whenToUse, maxDerived)
		}
		m.notes.add(Changed, "description: made from %s", from)
	}
	if m.description == "" {
		m.description = m.name
	}
	switch line := flat(m.whenToUse); {
	case line == "":
		m.whenToUse = flat(m.description)
		m.notes.add(Changed, "whenToUse: made from the description; the model tells the modes apart by it, so say when to use this one")
	case line != m.whenToUse:
		m.whenToUse = line
		m.notes.add(Changed, "whenToUse: put on one line")
	}
}

var (
	notInKey = regexp.MustCompile(`[^a-z0-9_]+`)
	inKey    = regexp.MustCompile(`[a-z0-9]`)
)

// key maps the slug. It is empty when nothing is left of it.
func (m *foreign) key() agent.ModeKey {
	key := strings.ReplaceAll(m.slug, "-", "_")
	clean := notInKey.ReplaceAllString(strings.ToLower(key), "_")
	if !inKey.MatchString(clean) {
		return ""
	}
	if clean != key {
		m.notes.add(Changed, "slug: %q became the key %q", m.slug, clean)
	}
	return agent.ModeKey(clean)
}

// id makes the id of a mode from its key, so that importing again gives the same one.
func id(key agent.ModeKey) string {
	sum := sha256.Sum256([]byte("mode " + key))
	return strings.ToUpper(hex.EncodeToString(sum[:16]))
}

// instructions are what the mode says to the model: who it is, what it has to do, and the
// rules that lay beside the file.
func (m *foreign) instructions() []string {
	var out []string
	for _, text := range []string{m.role, m.custom} {
		if text != "" {
			out = append(out, text)
		}
	}
	return append(out, m.rules...)
}

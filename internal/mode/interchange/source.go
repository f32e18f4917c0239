package interchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Source is a file that may hold modes of another agent.
type Source struct {
	// FS is the folder of the project; rules lie in it. Name is the file's path there.
	FS   fs.FS
	Name string
	// Shown is how the file is called in reports.
	Shown string
}

// The names under which other agents keep modes.
var (
	modeFiles    = []string{".roomodes", ".kilocodemodes", "custom_modes.yaml", "custom_modes.yml", "custom_modes.json"}
	agentEndings = []string{".agent.md", ".chatmode.md"}
	agentFolders = []string{".", ".github/agents", ".github/chatmodes", "agents"}
)

// Find returns the files of a project folder that may hold modes, by their usual names:
// those of a project before those of a user.
func Find(fsys fs.FS, shown string) []Source {
	var out []Source
	add := func(name string) {
		out = append(out, Source{FS: fsys, Name: name, Shown: path.Join(shown, name)})
	}
	for _, name := range modeFiles {
		if info, err := fs.Stat(fsys, name); err == nil && info.Mode().IsRegular() {
			add(name)
		}
	}
	for _, folder := range agentFolders {
		entries, err := fs.ReadDir(fsys, folder)
		if err != nil {
			continue // most projects have none of them
		}
		for _, e := range entries {
			if !e.IsDir() && isAgent(e.Name()) {
				add(path.Join(folder, e.Name()))
			}
		}
	}
	return out
}

func isAgent(name string) bool {
	return slices.ContainsFunc(agentEndings, func(ending string) bool { return strings.HasSuffix(name, ending) })
}

// foreign is a mode as another agent has it.
type foreign struct {
	slug, name, role, custom, whenToUse, description string
	// grants are what its groups allow; everything when unbounded.
	grants    []grant
	unbounded bool
	// servers are patterns for tools of MCP servers.
	servers []string
	// rules are texts that lie beside the modes, in the order in which they are added.
	rules []string
	notes notes
}

// maxModes bounds the modes of one file.
const maxModes = 1000

// read returns the modes in a file.
func (s Source) read() ([]*foreign, error) {
	data, err := readFile(s.FS, s.Name, maxFile)
	if err != nil {
		return nil, err
	}
	text, err := decode(data)
	if err != nil {
		return nil, err
	}
	if isAgent(s.Name) {
		m, err := readAgent(s.Name, text)
		return []*foreign{m}, err
	}
	root, cleaned, err := parse(text)
	if err != nil {
		return nil, err
	}
	modes, err := customModes(root)
	for _, m := range modes {
		if cleaned {
			m.notes.add(Changed, "the file could be read only after its typographic quotes and spaces were made plain")
		}
		m.rules = append(m.rules, rulesOf(s.FS, m.slug, &m.notes)...)
	}
	return modes, err
}

// parse reads YAML or JSON. What cannot be read is tried once more with plain quotes, for
// text that went through a word processor.
func parse(text string) (root *yaml.Node, cleaned bool, err error) {
	plain := visible(straight(text))
	if trimmed := strings.TrimSpace(text); strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[") {
		// YAML reads most JSON, but not characters that JSON writes as two escapes; and where
		// JSON has quotes that are none it reads something else.
		if again, err := withoutEscapes(trimmed); err == nil {
			text = again
		} else if again, err := withoutEscapes(plain); err == nil {
			text, cleaned = again, true
		}
	}
	if root, err = parseYAML(text); err == nil || plain == text {
		return root, cleaned, err
	}
	if root, again := parseYAML(plain); again == nil {
		return root, true, nil
	}
	return nil, false, err
}

func parseYAML(text string) (*yaml.Node, error) {
	var doc yaml.Node
	dec := yaml.NewDecoder(strings.NewReader(text))
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty")
	} else if err != nil {
		return nil, fmt.Errorf("this is not valid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	return doc.Content[0], nil
}

// withoutEscapes returns the same JSON with its characters written out.
func withoutEscapes(text string) (string, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return "", err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.String(), err
}

// customModes finds the modes in a file: under customModes, as a bare list, or one alone.
func customModes(root *yaml.Node) ([]*foreign, error) {
	root = deref(root)
	list := root
	if root.Kind == yaml.MappingNode {
		switch list = member(root, "customModes"); {
		case list == nil && member(root, "slug") != nil:
			return []*foreign{readCustom(root)}, nil
		case list == nil:
			return nil, errors.New("the file has no customModes")
		}
	}
	if list.Kind != yaml.SequenceNode {
		return nil, errors.New("customModes is not a list of modes")
	}
	if len(list.Content) > maxModes {
		return nil, fmt.Errorf("the file has %d modes; at most %d are read", len(list.Content), maxModes)
	}
	var out []*foreign
	for _, n := range list.Content {
		out = append(out, readCustom(deref(n)))
	}
	return out, nil
}

// member returns the value of a member of a mapping, nil without one.
func member(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if word(n.Content[i]) == name {
			return deref(n.Content[i+1])
		}
	}
	return nil
}

// word returns a scalar that is a name or a key word, free of typographic marks.
func word(n *yaml.Node) string {
	s := strings.TrimSpace(visible(straight(n.Value)))
	if typographic(n) {
		s = strings.Trim(s, `"' `)
	}
	return s
}

// typographic reports whether somebody meant to quote a scalar, but with quotes that are
// characters of the text to a reader of YAML.
func typographic(n *yaml.Node) bool {
	opens := strings.HasPrefix(n.Value, "\u201c") || strings.HasPrefix(n.Value, "\u2018") || strings.HasPrefix(n.Value, "\u201e")
	closes := strings.HasSuffix(n.Value, "\u201d") || strings.HasSuffix(n.Value, "\u2019") || strings.HasSuffix(n.Value, "\u201c")
	return n.Kind == yaml.ScalarNode && n.Style == 0 && opens && closes
}

// deref follows an alias.
func deref(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// text returns a text member; nothing when it is not one, with a note.
func (m *foreign) text(name string, n *yaml.Node) string {
	switch {
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
		return ""
	case n.Kind == yaml.ScalarNode && typographic(n):
		return strings.TrimSpace(strings.Trim(m.notes.clean(name, n.Value), `"'`))
	case n.Kind == yaml.ScalarNode:
		return m.notes.clean(name, n.Value)
	}
	m.notes.add(LeftOut, "%s: it is not a text", name)
	return ""
}

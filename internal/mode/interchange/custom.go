package interchange

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// readCustom reads a custom mode of Roo Code or Kilo Code.
func readCustom(n *yaml.Node) *foreign {
	m := &foreign{}
	if n.Kind != yaml.MappingNode {
		m.notes.add(Refused, "it is not a mapping of names to values")
		return m
	}
	var unknown []string
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, v := word(n.Content[i]), deref(n.Content[i+1])
		if seen[name] {
			m.notes.add(Merged, "%s is there twice; the first was taken", name)
			continue
		}
		seen[name] = true
		switch name {
		case "slug":
			m.slug = m.text(name, v)
		case "name":
			m.name = m.text(name, v)
		case "roleDefinition":
			m.role = m.text(name, v)
		case "customInstructions":
			m.custom = m.text(name, v)
		case "whenToUse":
			m.whenToUse = m.text(name, v)
		case "description":
			m.description = m.text(name, v)
		case "groups":
			m.groups(v)
		case "rulesFiles":
			m.rulesFiles(v)
		default:
			unknown = append(unknown, name)
		}
	}
	if !seen["groups"] {
		m.notes.add(Changed, "it has no groups: no client tool is allowed")
	}
	if len(unknown) > 0 {
		m.notes.add(LeftOut, "members that have no place here: %s", strings.Join(unknown, ", "))
	}
	return m
}

// groups reads what the mode allows: names, or lists of a name and its bounds.
func (m *foreign) groups(n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		m.notes.add(Refused, "groups is not a list: no client tool is allowed")
		return
	}
	for _, item := range n.Content {
		item = deref(item)
		switch {
		case item.Kind == yaml.ScalarNode && word(item) != "":
			m.grants = append(m.grants, grant{group: groupName(item)})
		case item.Kind == yaml.SequenceNode && len(item.Content) > 0 && deref(item.Content[0]).Kind == yaml.ScalarNode:
			g := grant{group: groupName(deref(item.Content[0]))}
			for _, bounds := range item.Content[1:] {
				m.bounds(&g, deref(bounds))
			}
			m.grants = append(m.grants, g)
		case item.Kind == yaml.MappingNode && len(item.Content) == 2:
			// As some write it: "edit: {fileRegex: …}".
			g := grant{group: groupName(item.Content[0])}
			m.bounds(&g, deref(item.Content[1]))
			m.grants = append(m.grants, g)
		default:
			m.notes.add(LeftOut, "an entry of groups that is neither a name nor a list of a name and its bounds")
		}
	}
}

func groupName(n *yaml.Node) string { return strings.ToLower(word(n)) }

// bounds reads the bounds of a group. Those that cannot be read stay bounds: to leave them
// out would allow more than was meant.
func (m *foreign) bounds(g *grant, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		m.notes.add(Refused, "the bounds of group %s cannot be read", g.group)
		g.bounded = true
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		v := deref(n.Content[i+1])
		switch name := word(n.Content[i]); name {
		case "fileRegex":
			g.bounded = true
			if p := m.text("fileRegex", v); p != "" {
				g.patterns = append(g.patterns, p)
			} else {
				m.notes.add(Refused, "fileRegex of group %s is empty", g.group)
			}
		case "description":
			g.description = joined(g.description, flat(m.text("description of group "+g.group, v)), "; ")
		default:
			m.notes.add(LeftOut, "%s of group %s", name, g.group)
		}
	}
}

// rulesFiles reads the rules that an exported mode carries along.
func (m *foreign) rulesFiles(n *yaml.Node) {
	for i, item := range n.Content {
		item = deref(item)
		content := member(item, "content")
		if content == nil {
			m.notes.add(LeftOut, "entry %d of rulesFiles has no content", i+1)
			continue
		}
		name := "rulesFiles"
		if path := member(item, "relativePath"); path != nil {
			name = path.Value
		}
		if text := m.text("rules "+name, content); text != "" {
			m.rules = append(m.rules, text)
		}
	}
}

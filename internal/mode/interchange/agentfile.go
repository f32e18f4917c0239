package interchange

import (
	"errors"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readAgent reads a custom agent: a Markdown text under a header in YAML.
func readAgent(name, text string) (*foreign, error) {
	m := &foreign{slug: base(name), unbounded: true}
	header, body, err := frontMatter(text)
	if err != nil {
		return nil, err
	}
	m.role = m.notes.clean("the text", body)
	if header == "" {
		return m, nil
	}
	root, cleaned, err := parse(header)
	if err != nil {
		return nil, err
	}
	if root.Kind != yaml.MappingNode {
		return nil, errors.New("the header is not a mapping of names to values")
	}
	if cleaned {
		m.notes.add(Changed, "the header could be read only after its typographic quotes and spaces were made plain")
	}
	var unknown []string
	for i := 0; i+1 < len(root.Content); i += 2 {
		v := deref(root.Content[i+1])
		switch name := word(root.Content[i]); name {
		case "name":
			m.name = m.text(name, v)
		case "description":
			m.description = m.text(name, v)
		case "tools":
			m.agentTools(v)
		default:
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		m.notes.add(LeftOut, "members that have no place here: %s", strings.Join(unknown, ", "))
	}
	return m, nil
}

// frontMatter parts a header between lines of three dashes from the text below it.
func frontMatter(text string) (header, body string, err error) {
	rest, ok := strings.CutPrefix(strings.TrimLeft(text, "\n\t "), "---")
	if !ok {
		return "", text, nil
	}
	lines := strings.SplitAfter(rest, "\n")
	if strings.TrimSpace(lines[0]) != "" {
		return "", text, nil // a rule across the page
	}
	for i, line := range lines[1:] {
		if strings.TrimRight(line, " \t\n") == "---" {
			return strings.Join(lines[1:i+1], ""), strings.Join(lines[i+2:], ""), nil
		}
	}
	return "", "", errors.New("the header, which begins with ---, has no end")
}

// agentTools reads the tools of an agent: a list, or their names with commas between.
func (m *foreign) agentTools(n *yaml.Node) {
	var names []string
	switch n.Kind {
	case yaml.SequenceNode:
		for _, item := range n.Content {
			if item = deref(item); item.Kind == yaml.ScalarNode {
				names = append(names, word(item))
			}
		}
	case yaml.ScalarNode:
		if n.ShortTag() == "!!null" {
			return
		}
		names = strings.Split(word(n), ",")
	default:
		m.notes.add(Refused, "tools is not a list: no client tool is allowed")
	}
	m.unbounded = false
	var unknown []string
	had := map[string]bool{}
	for _, name := range names {
		name = strings.TrimSpace(name)
		group := agentGroup(name)
		switch server, ok := serverPattern(name); {
		case name == "":
		case name == "*":
			m.unbounded = true
		case group != "" && !had[group]:
			had[group] = true
			m.grants = append(m.grants, grant{group: group})
		case group != "": // several tools of one group are usual
		case ok:
			m.servers = append(m.servers, server)
		default:
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		m.notes.add(LeftOut, "tools that have no counterpart: %s", strings.Join(unknown, ", "))
	}
}

// agentGroup returns the group that holds a tool of an agent, empty when none does no more
// than the tool. One that only runs tests, say, is not worth every command.
func agentGroup(name string) string {
	switch strings.ToLower(name) {
	case "read", "read/*", "read/readfile", "readfile", "view", "codebase", "usages", "findtestfiles",
		"search", "search/*", "search/codebase", "search/usages", "search/filesearch", "search/textsearch", "search/listdirectory",
		"grep", "glob", "ls":
		return groupRead
	case "edit", "edit/*", "edit/editfiles", "edit/createfile", "editfiles", "write", "multiedit":
		return groupEdit
	case "execute", "execute/*", "execute/runinterminal", "runcommands", "runinterminal", "shell", "bash", "powershell":
		return groupCommand
	case "web", "web/*", "web/fetch", "fetch", "opensimplebrowser", "vscode/opensimplebrowser", "browser", "websearch", "webfetch":
		return groupBrowser
	}
	return ""
}

var serverName = regexp.MustCompile(`^([A-Za-z0-9_-]+)/\*$`)

// serverPattern returns the pattern for all tools of an MCP server, which agents call
// server/*.
func serverPattern(name string) (string, bool) {
	m := serverName.FindStringSubmatch(name)
	if m == nil {
		return "", false
	}
	return m[1] + "__*", true
}

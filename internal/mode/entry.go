package mode

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// What a mode brings for the moment in which a session enters it, as its file says it.

// bootstrapTools reads the list of calls.
func (f *file) bootstrapTools(path string, n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		f.refuse(path, n, "%s must be a list of tools, each with its name", path)
		return
	}
	for _, item := range n.Content {
		f.bootstrapTool(path, item)
	}
}

func (f *file) bootstrapTool(member string, n *yaml.Node) {
	t := BootstrapTool{Arguments: json.RawMessage("{}")}
	f.mapping(member, n, map[string]func(string, *yaml.Node){
		"name": f.text(&t.Name),
		"arguments": func(path string, n *yaml.Node) {
			var arguments map[string]any
			if n.Decode(&arguments) != nil {
				f.refuse(path, n, "%s must be a mapping, the arguments of the tool", path)
				return
			}
			b, err := json.Marshal(arguments)
			if err != nil {
				f.refuse(path, n, "%s cannot be written as JSON: %v", path, err)
				return
			}
			t.Arguments = b
		},
	})
	// Each entry has members of these names.
	delete(f.lines, member+".name")
	delete(f.lines, member+".arguments")
	switch {
	case t.Name == "":
		f.refuse(member, n, "%s: an entry needs the name of a tool", member)
	case t.Name == changeMode:
		f.problems.errorf(f.name, n.Line, "%s: %s cannot be one: the mode stays while it is entered", member, changeMode)
	default:
		f.mode.BootstrapTools = append(f.mode.BootstrapTools, t)
	}
}

// checkBootstrap holds the calls to the tools of the mode, among which they must be. What a
// group holds the configuration says, so one of them may be in it.
func (f *file) checkBootstrap() {
	for _, t := range f.mode.BootstrapTools {
		if !slices.ContainsFunc(f.mode.Tools, func(entry string) bool {
			matches, err := path.Match(entry, t.Name)
			return err == nil && matches || strings.HasPrefix(entry, "group:")
		}) {
			f.errorf("bootstrapTools", "bootstrapTools: %q is not one of the mode's tools; list it there too", t.Name)
		}
	}
}

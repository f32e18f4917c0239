package mode

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// ClientTools narrows the tools that the client brings while a session is in a mode
// (D77). A nil one leaves all of them. It never adds a tool and never concerns those of
// the server.
type ClientTools struct {
	// Allow are the names of the tools that the model is offered; * stands for any run
	// of characters. Empty offers none.
	Allow []string `json:"allow" jsonschema:"Names of the client tools that the model is offered; * stands for any characters, such as read_*. An empty list offers none."`
	// Files bound the files that calls may name.
	Files []FileRule `json:"files,omitempty" jsonschema:"Which files the calls of some tools may name."`
}

// FileRule bounds the files that calls of some client tools may name. A call names its
// file in the member "path" of its arguments.
type FileRule struct {
	// Tools are names of client tools, as in ClientTools.Allow.
	Tools []string `json:"tools" jsonschema:"Names of the client tools that the rule is for; * stands for any characters."`
	// Patterns are regular expressions; a path must match one of them.
	Patterns []string `json:"patterns" jsonschema:"Regular expressions (RE2). The path in a call must match one of them."`
	// Description says in words what they stand for.
	Description string `json:"description,omitempty" jsonschema:"What the patterns stand for, in words. The model reads it when a call is refused."`
}

// Admits reports whether the model is offered the client tool of this name.
func (c *ClientTools) Admits(name string) bool { return c == nil || matches(c.Allow, name) }

// Refusal says why a call of a client tool must not go to the client, in words for the
// model; it is empty when the call may go. A call that names no file where it must name
// one is refused.
func (c *ClientTools) Refusal(name, argumentsJSON string) string {
	if c == nil {
		return ""
	}
	for _, rule := range c.Files {
		if !matches(rule.Tools, name) {
			continue
		}
		if file, ok := pathOf(argumentsJSON); !ok || !rule.covers(file) {
			return fmt.Sprintf("This mode lets %s touch only %s. Name such a file in the argument path, or ask the user to change the mode.", name, rule.words())
		}
	}
	return ""
}

// covers reports whether the rule has a pattern for a file.
func (r FileRule) covers(file string) bool {
	return slices.ContainsFunc(r.Patterns, func(pattern string) bool {
		re, err := regexp.Compile(pattern)
		return err == nil && re.MatchString(file)
	})
}

// words describe the files of the rule.
func (r FileRule) words() string {
	patterns := "files that match " + strings.Join(r.Patterns, " or ")
	if r.Description == "" {
		return patterns
	}
	return fmt.Sprintf("%s (%s)", r.Description, patterns)
}

// pathOf reads the file that a call names. Dots are resolved first: a rule for docs/ is not
// one for docs/../main.go. Clients read JSON in different ways, so two members that any of
// them could take for the path are no path.
func pathOf(argumentsJSON string) (string, bool) {
	var arguments map[string]jsontext.Value
	if jsonv2.Unmarshal([]byte(argumentsJSON), &arguments) != nil {
		return "", false
	}
	for name := range arguments {
		if name != "path" && strings.EqualFold(name, "path") {
			return "", false
		}
	}
	var file string
	if raw, ok := arguments["path"]; !ok || raw.Kind() != '"' || jsonv2.Unmarshal(raw, &file) != nil {
		return "", false
	}
	return path.Clean(strings.ReplaceAll(file, `\`, "/")), true
}

// matches reports whether a name fits one of the patterns.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return err == nil && ok
	})
}

func (c *ClientTools) clone() *ClientTools {
	if c == nil {
		return nil
	}
	out := &ClientTools{Allow: list(c.Allow)}
	for _, r := range c.Files {
		out.Files = append(out.Files, FileRule{Tools: list(r.Tools), Patterns: list(r.Patterns), Description: r.Description})
	}
	return out
}

// clientTools reads the member of that name.
func (f *file) clientTools(to **ClientTools) func(string, *yaml.Node) {
	return func(path string, n *yaml.Node) {
		c := &ClientTools{}
		var allow []int
		f.mapping(path, n, map[string]func(string, *yaml.Node){
			"allow": f.texts(&c.Allow, &allow),
			"files": func(path string, n *yaml.Node) { f.fileRules(c, path, n) },
		})
		if n.Kind == yaml.MappingNode && f.lines[path+".allow"] == 0 {
			f.problems.errorf(f.name, n.Line, `%s.allow is required; ["*"] allows every tool`, path)
		}
		f.checkNames(c.Allow, allow)
		*to = c
	}
}

func (f *file) fileRules(c *ClientTools, path string, n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		f.refuse(path, n, "%s must be a list", path)
		return
	}
	for i, item := range n.Content {
		var r FileRule
		var tools, patterns []int
		path := fmt.Sprintf("%s[%d]", path, i)
		f.mapping(path, item, map[string]func(string, *yaml.Node){
			"tools":       f.texts(&r.Tools, &tools),
			"patterns":    f.texts(&r.Patterns, &patterns),
			"description": f.text(&r.Description),
		})
		if item.Kind == yaml.MappingNode && (len(r.Tools) == 0 || len(r.Patterns) == 0) {
			f.problems.errorf(f.name, item.Line, "%s needs tools and patterns, at least one of each", path)
		}
		f.checkNames(r.Tools, tools)
		f.checkPatterns(r.Patterns, patterns)
		c.Files = append(c.Files, r)
	}
}

// checkNames refuses patterns for names that no name can be held against.
func (f *file) checkNames(patterns []string, lines []int) {
	for i, p := range patterns {
		if _, err := path.Match(p, ""); err != nil {
			f.problems.errorf(f.name, lines[i], "%q is not a pattern for names: %v", p, err)
		}
	}
}

// checkPatterns refuses regular expressions that do not compile.
func (f *file) checkPatterns(patterns []string, lines []int) {
	for i, p := range patterns {
		if _, err := regexp.Compile(p); err != nil {
			f.problems.errorf(f.name, lines[i], "the pattern %q does not compile: %s", p, PatternFault(err))
		}
	}
}

// PatternFault says in words why a regular expression does not compile. What other
// engines take and RE2 leaves out, since it cannot be matched in linear time, is named.
func PatternFault(err error) string {
	msg := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
	switch {
	case lookaround.MatchString(msg):
		return "it looks ahead or behind, which RE2 does not do; say with several patterns what may match"
	case backReference.MatchString(msg):
		return "it refers back to a group, which RE2 does not do"
	}
	return msg
}

// What lookarounds and references back look like in the message of the compiler.
var (
	lookaround    = regexp.MustCompile(`\(\?<?[=!]`)
	backReference = regexp.MustCompile(`invalid escape sequence: .\\[1-9k]`)
)

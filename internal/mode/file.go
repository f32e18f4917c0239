package mode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/aptixhq/aptix/internal/agent"
)

// changeMode is named here and not imported: the catalogue knows the one tool that
// configuration can neither add nor remove (decision 32), and no other.
const changeMode = "agent_change_mode"

var (
	keyPattern = regexp.MustCompile(`^[a-z0-9_]+$`)
	idPattern  = regexp.MustCompile(`^[0-9a-fA-F]{32}$`)
)

// file is one mode file as it was read: the mode, where its members stand, and what
// is wrong with it.
type file struct {
	name     string
	mode     Mode
	parsed   bool            // it is YAML of the right shape
	lines    map[string]int  // line of each member that is there
	tools    []int           // line of each tool name
	unread   map[string]bool // members whose value could not be taken over
	problems Problems
}

// parse reads one mode file. It goes through the YAML nodes by hand because a
// decoder stops at the shape of the data, and a reader wants every fault of a file
// with its line.
func parse(name string, data []byte) *file {
	f := &file{name: name, lines: map[string]int{}, unread: map[string]bool{}}
	root, ok := f.document(data)
	if !ok {
		return f
	}
	f.parsed = true
	f.members(root)
	f.check()
	return f
}

// Parse reads one mode file by itself. Its error is a Problems with every fault that needs
// no other file, and no server, to be seen.
func Parse(name string, data []byte) (Mode, error) {
	f := parse(name, data)
	if len(data) > maxFile {
		f.problems.errorf(name, 0, "%v", errTooLarge)
	}
	if f.problems.Fatal() {
		return Mode{}, f.problems
	}
	return f.mode, nil
}

// document returns the mapping that the file consists of.
func (f *file) document(data []byte) (*yaml.Node, bool) {
	dec := yaml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\uFEFF"))))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		f.problems.errorf(f.name, 0, "the file is empty; write one mode into it")
		return nil, false
	} else if err != nil {
		f.syntax(err)
		return nil, false
	}
	if err := dec.Decode(new(yaml.Node)); err == nil {
		f.problems.errorf(f.name, 0, "the file holds more than one YAML document; write one file per mode")
	} else if !errors.Is(err, io.EOF) {
		f.syntax(err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		f.problems.errorf(f.name, doc.Line, "a mode file is a mapping of names to values, such as \"key: general\"")
		return nil, false
	}
	return doc.Content[0], true
}

var syntaxLine = regexp.MustCompile(`^line (\d+): `)

// syntax records what the YAML reader said and the line it named, which is where the
// fault showed up and may lie a line off where it was made.
func (f *file) syntax(err error) {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if m := syntaxLine.FindStringSubmatch(msg); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
		}
		msg = msg[len(m[0]):]
	}
	f.problems.errorf(f.name, line, "this is not valid YAML: %s", msg)
}

// members takes over what the file says.
func (f *file) members(root *yaml.Node) {
	m := &f.mode
	var key, status string
	f.mapping("", root, map[string]func(path string, n *yaml.Node){
		"id":                  f.text(&m.ID),
		"key":                 f.text(&key),
		"displayName":         f.text(&m.DisplayName),
		"description":         f.text(&m.Description),
		"whenToUse":           f.text(&m.WhenToUse),
		"systemPromptSummary": f.text(&m.SystemPromptSummary),
		"isDefault":           f.boolean(&m.IsDefault),
		"status":              f.text(&status),
		"version":             f.text(&m.Version),
		"instructions":        f.texts(&m.Instructions, nil),
		"tools":               f.texts(&m.Tools, &f.tools),
		"toolChoice":          f.text(&m.ToolChoice),
		"clientTools":         f.clientTools(&m.ClientTools),
		"approvals":           f.approvals,
		"welcomeMessage":      f.text(&m.WelcomeMessage),
		"bootstrapTools":      f.bootstrapTools,
		"humanRoleHints":      f.texts(&m.HumanRoleHints, nil),
		"exampleUtterances":   f.texts(&m.ExampleUtterances, nil),
		"rag": func(path string, n *yaml.Node) {
			f.mapping(path, n, map[string]func(string, *yaml.Node){
				"prefer":  f.texts(&m.RAG.Prefer, nil),
				"exclude": f.texts(&m.RAG.Exclude, nil),
			})
		},
	})
	m.Key = agent.ModeKey(key)
	m.Status = Status(status)
	if m.Status == "" {
		m.Status = StatusActive
	}
	if m.Version == "" {
		m.Version = "v1"
	}
	*m = m.clone()
}

// mapping hands each value of a mapping to the function of its name.
func (f *file) mapping(path string, n *yaml.Node, known map[string]func(path string, n *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		f.refuse(path, n, "%s must be a mapping of names to values", path)
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		name := strings.TrimPrefix(path+"."+k.Value, ".")
		read, ok := known[k.Value]
		switch {
		case k.Kind != yaml.ScalarNode || !ok:
			f.problems.errorf(f.name, k.Line, "unknown member %q%s", name, suggest(k.Value, known))
		case f.lines[name] != 0:
			f.problems.errorf(f.name, k.Line, "member %q is there twice, first on line %d", name, f.lines[name])
		default:
			f.lines[name] = k.Line
			if v.Kind == yaml.AliasNode {
				f.refuse(name, v, "%s must be written out; aliases are not supported", name)
			} else if !null(v) {
				read(name, v)
			}
		}
	}
}

// suggest names the member that was meant when only its casing is wrong.
func suggest(name string, known map[string]func(string, *yaml.Node)) string {
	for k := range known {
		if strings.EqualFold(strings.ReplaceAll(name, "_", ""), k) {
			return fmt.Sprintf("; did you mean %q?", k)
		}
	}
	return ""
}

func null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// text reads a scalar as it is written, so that an id of digits stays what it is.
func (f *file) text(to *string) func(string, *yaml.Node) {
	return func(path string, n *yaml.Node) {
		if n.Kind != yaml.ScalarNode {
			f.refuse(path, n, "%s must be text", path)
			return
		}
		*to = strings.TrimSpace(n.Value)
	}
}

func (f *file) boolean(to *bool) func(string, *yaml.Node) {
	return func(path string, n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || n.Decode(to) != nil {
			f.refuse(path, n, "%s must be true or false", path)
		}
	}
}

// texts reads a list of texts and, when lines is not nil, where each one stands.
func (f *file) texts(to *[]string, lines *[]int) func(string, *yaml.Node) {
	return func(path string, n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			f.refuse(path, n, "%s must be a list", path)
			return
		}
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode || null(item) || strings.TrimSpace(item.Value) == "" {
				f.refuse(path, item, "%s must be a list of texts, none of them empty", path)
				continue
			}
			*to = append(*to, strings.TrimSpace(item.Value))
			if lines != nil {
				*lines = append(*lines, item.Line)
			}
		}
	}
}

// approvals reads policies by the name of a tool.
func (f *file) approvals(path string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		f.refuse(path, n, "%s must be a mapping of tools to never, ask or always-ask", path)
		return
	}
	f.mode.Approvals = agent.ApprovalRules{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, policy := n.Content[i], n.Content[i+1]
		if _, twice := f.mode.Approvals[name.Value]; twice {
			f.problems.errorf(f.name, name.Line, "%s has %q twice", path, name.Value)
		}
		f.mode.Approvals[name.Value] = agent.ApprovalPolicy(policy.Value)
		if name.Value == changeMode {
			f.problems.errorf(f.name, name.Line, "%s: consent to a change of the mode is the setting modeChange.consent, for all modes", changeMode)
		}
	}
	for _, wrong := range f.mode.Approvals.Problems() {
		f.problems.errorf(f.name, n.Line, "%s: %s", path, wrong)
	}
}

// check holds the mode against the rules that it can break on its own.
func (f *file) check() {
	m := f.mode
	f.require("id", m.ID)
	f.require("key", string(m.Key))
	f.require("displayName", m.DisplayName)
	f.require("description", m.Description)
	f.require("whenToUse", m.WhenToUse)
	if m.ID != "" && !idPattern.MatchString(m.ID) {
		f.errorf("id", "id must be 32 hexadecimal characters (a GUID without hyphens), not %q", m.ID)
	}
	if m.Key != "" && !keyPattern.MatchString(string(m.Key)) {
		f.errorf("key", "key must be made of the characters a-z, 0-9 and _ only, not %q", m.Key)
	}
	// Each of these is part of one line of the mode layer.
	if !oneLine(m.DisplayName) {
		f.errorf("displayName", "displayName must be one line")
	}
	if !oneLine(m.WhenToUse) {
		f.errorf("whenToUse", "whenToUse must be one line; put the rest into description or instructions")
	}
	if strings.Contains(m.SystemPromptSummary, "\n\n") {
		f.errorf("systemPromptSummary", "systemPromptSummary must be one paragraph")
	}
	if !m.Status.known() {
		f.errorf("status", "status must be active, experimental or deprecated, not %q", m.Status)
	}
	if m.ToolChoice != "" && m.ToolChoice != AllowedTools {
		f.errorf("toolChoice", "toolChoice must be %s or left out, not %q", AllowedTools, m.ToolChoice)
	}
	f.checkTools()
	f.checkBootstrap()
}

func (f *file) checkTools() {
	f.checkNames(f.mode.Tools, f.tools)
	seen := map[string]bool{}
	for i, name := range f.mode.Tools {
		line := f.tools[i]
		if seen[name] {
			f.problems.errorf(f.name, line, "tool %q is listed twice", name)
		}
		seen[name] = true
		if name == changeMode {
			f.problems.warnf(f.name, line, "%s need not be listed: it is part of every mode", changeMode)
		}
	}
}

// require wants a value, unless one is there that could not be read.
func (f *file) require(member, value string) {
	if value == "" && !f.unread[member] {
		f.errorf(member, "%s is required", member)
	}
}

// refuse records that the value of a member cannot be taken over.
func (f *file) refuse(member string, n *yaml.Node, format string, args ...any) {
	f.unread[member] = true
	f.problems.errorf(f.name, n.Line, format, args...)
}

// errorf records an error at the line of a member.
func (f *file) errorf(member, format string, args ...any) {
	f.problems.errorf(f.name, f.lines[member], format, args...)
}

// oneLine reports whether no reader would break s into two lines.
func oneLine(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsControl(r) && r != '\t' || r == '\u2028' || r == '\u2029'
	})
}

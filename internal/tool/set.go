package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Set is the tools of one turn. It is frozen before the model is asked and stays as
// it is when the mode changes; the new mode's tools come with the next turn
// (AGN-011 §4.4).
type Set struct {
	// JSON is the merged ToolsJson (AGN-011 §4.3): an array, the client's tools
	// first.
	JSON json.RawMessage
	// Schemas are the elements of JSON.
	Schemas []json.RawMessage
	// Server are the server tools in it, in the same order.
	Server []Definition
	// Warnings say what was left out and why, for the log.
	Warnings []string

	client []string // names of the client's tools
	server []string // names of the server's
	usage  string
}

// Merge returns the tools of a turn (AGN-011 §4.3): those that the client registered,
// then the server tools that the entries of the mode stand for, and always
// agent_change_mode. The same inputs, and the same tools withdrawn, give the same bytes.
//
// Whatever the client's tools are, Merge goes on: what cannot be used is left out
// with a warning (decision 18). A server tool never takes the place of a client's
// tool (decision 5), except that nothing takes the place of agent_change_mode
// (decision 32).
func Merge(clientTools json.RawMessage, entries []string, r *Registry) Set {
	var s Set
	tools := s.addClient(clientTools)
	names := r.expand(entries, s.warnf)
	if !slices.Contains(names, ChangeMode) {
		names = append(names, ChangeMode)
	}
	for _, name := range names {
		d, ok := r.definition(name)
		why := r.Withdrawn(name)
		switch {
		case !ok:
			s.warnf("the mode lists tool %q, which this server does not have", name)
		case why != "":
			s.warnf("tool %q is withdrawn: %s", name, why)
		case s.IsClient(name):
			s.warnf("server tool %q was left out: a client tool has the same name", name)
		default:
			s.addServer(d)
			tools = append(tools, Schema(d))
		}
	}
	s.Schemas, s.JSON, s.usage = tools, array(tools), usage(s.Server)
	return s
}

func (s *Set) addServer(d Definition) {
	s.Server, s.server = append(s.Server, d), append(s.server, d.Name)
}

// addClient takes over the client's tools that can be used.
func (s *Set) addClient(raw json.RawMessage) []json.RawMessage {
	entries, err := entries(raw)
	if err != nil {
		s.warnf("the client's tools were left out: %v", err)
		return nil
	}
	var tools []json.RawMessage
	for i, e := range entries {
		switch {
		case e.name == "":
			s.warnf("client tool %d was left out: it is not a function with a valid name", i)
		case fold(e.name) == ChangeMode:
			s.warnf("client tool %q was left out: the name is reserved for the server's tool", e.name)
		case s.IsClient(e.name):
			s.warnf("client tool %q was left out: an earlier one has the same name", e.name)
		default:
			s.client = append(s.client, e.name)
			tools = append(tools, e.raw)
		}
	}
	return tools
}

// ParseSet rebuilds a turn's set from the JSON that Merge gave and the names of the
// server tools in it. The array is taken as it is. A server tool that the registry has
// lost since is nobody's: no call of it goes to the client. Journals of before the names
// were kept have none: what belongs to the server is then told by name and schema, so
// that a client's tool stays the client's even when the server has since learnt one of
// that name.
func ParseSet(merged json.RawMessage, server []string, r *Registry) Set {
	s := Set{JSON: merged}
	entries, err := entries(merged)
	if err != nil {
		s.JSON = array(nil)
		s.warnf("the turn's tools cannot be read: %v", err)
		return s
	}
	for _, e := range entries {
		s.Schemas = append(s.Schemas, e.raw)
		d, known := r.definition(e.name)
		mine := slices.Contains(server, e.name)
		if len(server) == 0 {
			mine = known && (e.name == ChangeMode || same(e.parameters, d.Parameters))
		}
		switch {
		case mine && known:
			s.addServer(d)
		case !mine && e.name != "":
			s.client = append(s.client, e.name)
		}
	}
	s.usage = usage(s.Server)
	return s
}

// Names returns the names of all tools in the set.
func (s Set) Names() []string { return append(slices.Clone(s.client), s.ServerNames()...) }

// Among returns the schemas of a wider list that holds the set: the client's tools and the
// server tools that the entries stand for. It is the same for all sets with these client
// tools within it. When something of the set is not in it, ok is false.
func (s Set) Among(entries []string, r *Registry) (schemas []json.RawMessage, ok bool) {
	var own []json.RawMessage
	for _, raw := range s.Schemas {
		if !s.isServerSchema(raw) {
			own = append(own, raw)
		}
	}
	wide := Merge(array(own), entries, r)
	for _, d := range s.Server {
		if !wide.IsServer(d.Name) {
			return nil, false
		}
	}
	return wide.Schemas, true
}

func (s Set) isServerSchema(raw json.RawMessage) bool {
	var f function
	return jsonv2.Unmarshal(raw, &f) == nil && s.IsServer(f.Name)
}

// ServerNames returns the names of the server tools in the set; for reading only.
func (s Set) ServerNames() []string { return s.server }

// IsServer reports whether the tool with this name is in the set and runs here.
func (s Set) IsServer(name string) bool {
	return slices.ContainsFunc(s.Server, func(d Definition) bool { return d.Name == name })
}

// IsClient reports whether the tool with this name is in the set and runs at the
// client.
func (s Set) IsClient(name string) bool { return slices.Contains(s.client, name) }

// usageMark begins every delimiter of the usage block.
const usageMark = "<<<APTIX_"

// Usage returns the tool usage metadata block (AGN-003 §4.3): the guidance of the
// server tools in the set (decision 23), empty when there are none.
func (s Set) Usage() string { return s.usage }

func usage(server []Definition) string {
	if len(server) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("<<<APTIX_SERVER_TOOL_USAGE_METADATA_BEGIN>>>\n")
	for _, d := range server {
		fmt.Fprintf(&b, "<<<APTIX_TOOL_USAGE_BEGIN name='%s'>>>\n", d.Name)
		b.WriteString(strings.TrimSpace(d.Usage))
		fmt.Fprintf(&b, "\n<<<APTIX_TOOL_USAGE_END name='%s'>>>\n", d.Name)
	}
	b.WriteString("<<<APTIX_SERVER_TOOL_USAGE_METADATA_END>>>")
	return b.String()
}

func (s *Set) warnf(format string, args ...any) {
	s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
}

// entry is one element of a tools array, as far as a Set must know it.
type entry struct {
	raw        json.RawMessage
	name       string // empty when it is not a function with a valid name
	parameters json.RawMessage
}

// entries reads a tools array in the flat form; nothing at all is an empty one.
func entries(raw json.RawMessage) ([]entry, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if jsontext.Value(raw).Kind() != '[' {
		return nil, fmt.Errorf("they are not a JSON array")
	}
	var values []jsontext.Value
	if err := jsonv2.Unmarshal(raw, &values); err != nil {
		return nil, fmt.Errorf("they are not valid JSON: %w", readable(err))
	}
	out := make([]entry, 0, len(values))
	for _, v := range values {
		if err := v.Compact(); err != nil {
			return nil, fmt.Errorf("they are not valid JSON: %w", readable(err))
		}
		e := entry{raw: json.RawMessage(v)}
		var f function
		if jsonv2.Unmarshal(v, &f) == nil && f.Type == "function" && validName(f.Name) {
			e.name, e.parameters = f.Name, json.RawMessage(f.Parameters)
		}
		out = append(out, e)
	}
	return out, nil
}

package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/aptixhq/aptix/internal/agent"
)

const (
	// maxClientTools and maxClientBytes bound what a client may register: all of it
	// goes with every model call.
	maxClientTools = 128
	maxClientBytes = 256 << 10
	// maxViolations bounds the answer to a client that sends thousands of members
	// which do not exist.
	maxViolations = 1000
)

// The rules that ParseClient's violations name.
const (
	// ruleShape: the tools must be readable as an array of tools (AGN-011 §4.3).
	ruleShape = "AGN011-4.3-a"
	// ruleReserved: nothing may hide agent_change_mode, or speak in its name.
	ruleReserved = "TUL007-3.1-d"
	// ruleClientTools: what this server asks of client tools beyond the documents
	// (decision 5).
	ruleClientTools = "APTIX-client-tools"
)

// ParseClient checks the tools that a client registers on a session and returns them
// in the flat form of the Responses API, byte-stable; nil when there are none. Each
// may be given in that form or nested in "function", as the chat API has it. The
// error is an agent.Error that lists everything wrong with all of them (decisions 2
// and 5). A name for which reserved is true is refused.
func ParseClient(raw json.RawMessage, reserved func(name string) bool) (json.RawMessage, error) {
	c := client{reserved: reserved, seen: map[string]int{}}
	tools := c.parse(raw)
	if len(c.violations) > 0 {
		err := agent.Errorf(agent.KindInvalidRequest, "The tools were not registered; correct what is listed and send them again.")
		err.Violations = c.violations
		return nil, err
	}
	if len(tools) == 0 {
		return nil, nil
	}
	return array(tools), nil
}

// Only returns those of a client's tools whose names are admitted (D77). Tools that cannot
// be read are left as they are: Merge warns of them.
func Only(clientTools json.RawMessage, admits func(name string) bool) json.RawMessage {
	all, err := entries(clientTools)
	if err != nil {
		return clientTools
	}
	kept := make([]json.RawMessage, 0, len(all))
	for _, e := range all {
		if e.name == "" || admits(e.name) {
			kept = append(kept, e.raw)
		}
	}
	if len(kept) == len(all) {
		return clientTools
	}
	return array(kept)
}

// client collects what is wrong with the tools that a client sent.
type client struct {
	reserved   func(string) bool
	seen       map[string]int // name → index
	violations []agent.Violation
}

func (c *client) refuse(at jsontext.Pointer, rule, format string, args ...any) {
	if len(c.violations) >= maxViolations {
		return
	}
	c.violations = append(c.violations, agent.Violation{Pointer: string(at), Rule: rule, Message: fmt.Sprintf(format, args...)})
}

func (c *client) parse(raw json.RawMessage) []json.RawMessage {
	const at = jsontext.Pointer("/tools")
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil
	case len(raw) > maxClientBytes:
		c.refuse(at, ruleClientTools, "the tools are larger than %d KiB together", maxClientBytes>>10)
		return nil
	}
	var entries []jsontext.Value
	if jsontext.Value(raw).Kind() != '[' {
		c.refuse(at, ruleShape, "tools must be an array")
		return nil
	}
	if err := jsonv2.Unmarshal(raw, &entries); err != nil {
		c.refuse(at+syntaxPointer(err), ruleShape, "tools must be valid JSON: %v", readable(err))
		return nil
	}
	if len(entries) > maxClientTools {
		c.refuse(at, ruleClientTools, "there are %d tools; a session takes at most %d", len(entries), maxClientTools)
		return nil
	}
	tools := make([]json.RawMessage, 0, len(entries))
	for i, entry := range entries {
		before := len(c.violations)
		f := c.tool(at.AppendToken(fmt.Sprint(i)), i, entry)
		if len(c.violations) > before {
			continue
		}
		b, err := f.json()
		if err != nil {
			c.refuse(at.AppendToken(fmt.Sprint(i)), ruleShape, "the tool cannot be read: %v", err)
			continue
		}
		tools = append(tools, b)
	}
	return tools
}

// tool reads one tool in either form.
func (c *client) tool(at jsontext.Pointer, i int, entry jsontext.Value) function {
	outer, ok := c.object(at, entry, "a tool")
	if !ok {
		return function{}
	}
	kind, ok := c.text(at, outer, "type")
	if ok && kind != "function" {
		c.refuse(at.AppendToken("type"), ruleShape, `type must be "function": a client registers functions only`)
		return function{}
	}
	inner, nested := take(outer, "function")
	if !nested {
		f := c.function(at, i, outer)
		c.unknown(at, outer)
		return f
	}
	c.unknown(at, outer)
	at = at.AppendToken("function")
	members, ok := c.object(at, inner, "function")
	if !ok {
		return function{}
	}
	f := c.function(at, i, members)
	c.unknown(at, members)
	return f
}

// function reads the members that both forms share.
func (c *client) function(at jsontext.Pointer, i int, members map[string]jsontext.Value) function {
	var f function
	if name, ok := c.text(at, members, "name"); ok {
		f.Name = name
		c.name(at.AppendToken("name"), i, name)
	}
	if v, ok := take(members, "description"); ok {
		if err := jsonv2.Unmarshal(v, &f.Description); err != nil {
			c.refuse(at.AppendToken("description"), ruleShape, "description must be text")
		}
	}
	f.Parameters = c.parameters(at.AppendToken("parameters"), members)
	if v, ok := take(members, "strict"); ok {
		if err := jsonv2.Unmarshal(v, &f.Strict); err != nil {
			c.refuse(at.AppendToken("strict"), ruleShape, "strict must be true or false")
		}
	}
	// A provider refuses the whole request when a strict schema is not one; without
	// the promise the tool still works (decision 26).
	f.Strict = f.Strict && allowsStrict(json.RawMessage(f.Parameters))
	return f
}

func (c *client) name(at jsontext.Pointer, i int, name string) {
	switch first, twice := c.seen[name]; {
	case !validName(name):
		c.refuse(at, ruleClientTools, "the name of a tool is 1 to 64 of the characters A-Z, a-z, 0-9, _ and -, not %q", clip(name))
	case c.reserved != nil && c.reserved(name) || fold(name) == ChangeMode:
		c.refuse(at, ruleReserved, "the name %q is reserved for a tool of the server; choose another one", name)
	case twice:
		c.refuse(at, ruleClientTools, "the name %q is that of tool %d as well; every tool has its own", name, first)
	default:
		c.seen[name] = i
	}
}

// parameters reads the schema of the arguments; without one a tool takes none.
func (c *client) parameters(at jsontext.Pointer, members map[string]jsontext.Value) jsontext.Value {
	v, ok := take(members, "parameters")
	if !ok {
		return jsontext.Value(`{"type":"object","properties":{}}`)
	}
	if _, err := compile(v, anyPattern); err != nil {
		c.refuse(at, ruleClientTools, "parameters must be a JSON Schema: %v", err)
	}
	return v
}

// object reads the members of a JSON object.
func (c *client) object(at jsontext.Pointer, v jsontext.Value, what string) (map[string]jsontext.Value, bool) {
	var members map[string]jsontext.Value
	if v.Kind() != '{' {
		c.refuse(at, ruleShape, "%s must be an object", what)
		return nil, false
	}
	// The text was checked as a whole before: no name is there twice.
	if err := jsonv2.Unmarshal(v, &members); err != nil {
		c.refuse(at, ruleShape, "%s cannot be read: %v", what, readable(err))
		return nil, false
	}
	return members, true
}

// text takes a required text out of the members.
func (c *client) text(at jsontext.Pointer, members map[string]jsontext.Value, name string) (string, bool) {
	v, ok := take(members, name)
	if !ok {
		c.refuse(at.AppendToken(name), ruleShape, "%s is required", name)
		return "", false
	}
	var s string
	if err := jsonv2.Unmarshal(v, &s); err != nil {
		c.refuse(at.AppendToken(name), ruleShape, "%s must be text", name)
		return "", false
	}
	return s, true
}

// unknown refuses what is left of the members after all known ones were taken.
func (c *client) unknown(at jsontext.Pointer, members map[string]jsontext.Value) {
	var names []string
	for name, v := range members {
		if v.Kind() != 'n' {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		c.refuse(at.AppendToken(name), ruleShape, "unknown member %q", clip(name))
	}
}

// take removes a member and returns it; null equals absent (decision 2).
func take(members map[string]jsontext.Value, name string) (jsontext.Value, bool) {
	v, ok := members[name]
	delete(members, name)
	return v, ok && v.Kind() != 'n'
}

// clip shortens a text from outside for a message.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// syntaxPointer returns where a JSON reader met a fault.
func syntaxPointer(err error) jsontext.Pointer {
	if s := (*jsontext.SyntacticError)(nil); errors.As(err, &s) {
		return s.JSONPointer
	}
	return ""
}

// array joins JSON values to a JSON array.
func array(values []json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, v := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(v)
	}
	b.WriteByte(']')
	return b.Bytes()
}

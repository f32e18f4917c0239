package demo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/aptixhq/aptix/internal/llm/render"
)

// conversation is what the model understood of a request.
type conversation struct {
	echo render.Echo
	// mode is the current mode's key, modes the catalogue; both may be unknown.
	mode  string
	modes []mode
	// tools are the attached function tools.
	tools []tool
	// instruction is the user's last one.
	instruction string
	// asked is the instruction before it and before what the model said to that.
	asked, before string
	// said is what the model said since the last instruction.
	said string
	// header is the mode that the last user message names.
	header string
	// artifacts and images came with the last instruction.
	artifacts bool
	images    int
	// results are the outputs of calls that nothing was said about yet.
	results []result
}

// mode is one line of the catalogue.
type mode struct {
	key, name, whenToUse string
	retired              bool // deprecated: not to be proposed
}

// tool is an attached function tool.
type tool struct {
	Name       string `json:"name"`
	Type       string `json:"type"`
	Parameters schema `json:"parameters"`
}

// schema is what the model looks at in a tool's parameters.
type schema struct {
	Properties map[string]struct {
		Type any `json:"type"`
	} `json:"properties"`
	Required []string `json:"required"`
}

// result is the outcome of one call.
type result struct{ name, arguments, output string }

// item is an input item of any kind.
type item struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

// parse reads a request. It takes what it finds and refuses only what a provider
// would refuse too: no JSON, a response that it does not remember, calls and outputs
// that do not belong together.
func parse(body []byte) (conversation, *fault) {
	var in struct {
		render.Echo
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return conversation{}, &fault{status: http.StatusBadRequest, message: "We could not parse the JSON body of your request."}
	}
	c := conversation{echo: in.Echo}
	if id := c.echo.PreviousResponseID; id != nil && *id != "" {
		return c, &fault{
			status:  http.StatusNotFound,
			message: fmt.Sprintf("Previous response with id '%s' not found.", *id),
			param:   "previous_response_id", code: "previous_response_not_found",
		}
	}
	c.tools = functions(c.echo.Tools)
	c.readModes()
	if f := c.read(items(in.Input)); f != nil {
		return c, f
	}
	// The mode layer is newer than a message that was written before the change.
	c.mode = cmp.Or(c.mode, c.header, "general")
	return c, nil
}

// items returns the input as a list; a plain text is one user message.
func items(input json.RawMessage) []item {
	var list []item
	if json.Unmarshal(input, &list) == nil {
		return list
	}
	return []item{{Type: "message", Role: "user", Content: input}}
}

// functions returns the function tools among tools that the model can call.
func functions(raw json.RawMessage) []tool {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	var out []tool
	for _, r := range list {
		var t tool
		// A tool with odd parameters can still be called, by its name.
		err := json.Unmarshal(r, &t)
		if (err == nil || t.Name != "") && t.Type == "function" {
			out = append(out, t)
		}
	}
	return out
}

// read goes through the transcript, oldest first.
func (c *conversation) read(list []item) *fault {
	calls := map[string]item{} // open ones, by call id
	var order []string
	for _, it := range list {
		switch {
		case it.Type == "function_call":
			calls[it.CallID] = it
			order = append(order, it.CallID)
		case it.Type == "function_call_output":
			call, ok := calls[it.CallID]
			if !ok {
				return &fault{status: http.StatusBadRequest, message: fmt.Sprintf("No tool call found for function call output with call_id %s.", it.CallID), param: "input"}
			}
			delete(calls, it.CallID)
			c.results = append(c.results, result{name: call.Name, arguments: call.Arguments, output: strings.Join(texts(it.Output), "\n")})
		case it.Role == "assistant":
			c.said += strings.Join(texts(it.Content), "\n") + "\n"
			c.results = nil
		case it.Role == "user":
			c.readUser(it.Content)
		}
	}
	for _, id := range order {
		if _, open := calls[id]; open {
			return &fault{status: http.StatusBadRequest, message: fmt.Sprintf("No tool output found for function call %s.", id), param: "input"}
		}
	}
	return nil
}

// header begins every user message (AGN-003 §5.1).
var header = pattern(`^\[MODE: ([^\]\n]*)\]\s*\[INSTRUCTION\]\n?`)

// readUser takes in a user message. One without an instruction goes on with the turn
// that is open, unless it brings something of its own.
func (c *conversation) readUser(content json.RawMessage) {
	var (
		instruction string
		headed      bool
		plain       []string
	)
	images, artifacts := attachments(content)
	for _, text := range texts(content) {
		switch m := header().FindStringSubmatch(text); {
		case m != nil:
			headed, c.header, instruction = true, m[1], text[len(m[0]):]
		case strings.HasPrefix(text, "[INPUT_ARTIFACTS]"):
			artifacts = true
		case strings.HasPrefix(text, "[CONTEXT]"), strings.HasPrefix(text, "[TOOL_RESULTS]"), strings.HasPrefix(text, "[CLIPBOARD_IMAGES]"):
		default:
			plain = append(plain, text)
		}
	}
	if !headed { // a message that Aptix did not write
		instruction = strings.Join(plain, "\n")
	}
	instruction = strings.TrimSpace(instruction)
	if instruction == "" && (len(c.results) > 0 || !artifacts && images == 0) {
		return
	}
	c.asked, c.instruction = c.instruction, instruction
	c.before, c.said = c.said, ""
	c.artifacts, c.images, c.results = artifacts, images, nil
}

// parts returns the parts of a content that is a list.
func parts(content json.RawMessage) []part {
	var list []part
	if json.Unmarshal(content, &list) != nil {
		return nil
	}
	return list
}

type part struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// texts returns the texts of a content or of a tool's output, whether it is a plain
// text, a list of parts, or something else, which is then taken as it stands.
func texts(content json.RawMessage) []string {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return []string{s}
	}
	list := parts(content)
	if list == nil && len(content) > 0 {
		return []string{string(content)}
	}
	var out []string
	for _, p := range list {
		if p.Text != "" {
			out = append(out, p.Text)
		}
	}
	return out
}

// attachments counts the images of a user message and tells whether it has files.
func attachments(content json.RawMessage) (images int, files bool) {
	for _, p := range parts(content) {
		switch p.Type {
		case "input_image":
			images++
		case "input_file":
			files = true
		}
	}
	return images, files
}

// The lines of the mode layer, which comes with every request (decision 27).
var (
	modeLine    = pattern(`^- ([a-z0-9_]+) \((.*?)\): (.*)$`)
	currentLine = pattern(`^Current mode: ([a-z0-9_]+)`)
	retiredLine = pattern(`^Deprecated\b[^:]*: (.+)$`)
)

// readModes takes the current mode and the catalogue out of the instructions. The
// catalogue is the first list of its form; what comes after it, such as the solution
// context, is the user's text and may look the same.
func (c *conversation) readModes() {
	var layer string
	if json.Unmarshal(c.echo.Instructions, &layer) != nil {
		return
	}
	for line := range strings.Lines(layer) {
		line = strings.TrimSpace(line)
		if m := modeLine().FindStringSubmatch(line); m != nil {
			c.modes = append(c.modes, mode{key: m[1], name: m[2], whenToUse: m[3]})
			continue
		}
		if len(c.modes) > 0 { // the line after the list is the last to look at
			if m := retiredLine().FindStringSubmatch(line); m != nil {
				c.retire(strings.Split(m[1], ", "))
			}
			return
		}
		if m := currentLine().FindStringSubmatch(line); m != nil && c.mode == "" {
			c.mode = m[1]
		}
	}
}

// retire marks the modes that must not be proposed.
func (c *conversation) retire(keys []string) {
	for i, m := range c.modes {
		c.modes[i].retired = slices.Contains(keys, m.key)
	}
}

// attached returns the tool with this name.
func (c conversation) attached(name string) (tool, bool) {
	i := slices.IndexFunc(c.tools, func(t tool) bool { return t.Name == name })
	if i < 0 {
		return tool{}, false
	}
	return c.tools[i], true
}

// modeNamed returns the mode with this key; it need not be in the catalogue.
func (c conversation) modeNamed(key string) mode {
	for _, m := range c.modes {
		if m.key == key {
			return m
		}
	}
	return mode{key: key, name: key}
}

package responsesapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/render"
	"github.com/aptixhq/aptix/internal/tool"
)

// request is the body of POST /v1/responses as far as it changes the turn.
type request struct {
	model        string
	input        []item
	instructions *string
	previous     *responseID
	conversation agent.SessionID
	clientTools  json.RawMessage // as tool.ParseClient returned them; nil when not given
	toolChoice   string
	metadata     map[string]string
	stream       bool
	// echo are the members that the response repeats, as they came.
	echo map[string]jsontext.Value
}

// mode is the mode that the client claims.
func (r request) mode() agent.ModeKey { return agent.ModeKey(r.metadata["mode"]) }

// use says what becomes of a parameter.
type use int

const (
	read    use = iota + 1 // by decode
	echoed                 // changes nothing here, and the response repeats it
	ignored                // changes nothing here
	refused                // cannot be honoured
)

// parameter is a parameter of the API: the kinds of JSON value that it may have, and
// what becomes of it.
type parameter struct {
	kinds string // of jsontext.Kind
	use   use
}

// parameters is every parameter that the door knows. null is the same as absent.
var parameters = map[string]parameter{
	"model": {`"`, read}, "input": {`"[`, read}, "instructions": {`"`, read}, "previous_response_id": {`"`, read},
	"conversation": {`"{`, read}, "tools": {`[`, read}, "tool_choice": {`"{`, read}, "metadata": {`{`, read},
	"stream": {`tf`, read}, "background": {`tf`, read}, "text": {`{`, read},

	"temperature": {`0`, echoed}, "top_p": {`0`, echoed}, "max_output_tokens": {`0`, echoed}, "max_tool_calls": {`0`, echoed},
	"top_logprobs": {`0`, echoed}, "parallel_tool_calls": {`tf`, echoed}, "store": {`tf`, echoed}, "truncation": {`"`, echoed},
	"reasoning": {`{`, echoed}, "service_tier": {`"`, echoed}, "user": {`"`, echoed}, "safety_identifier": {`"`, echoed},
	"prompt_cache_key": {`"`, echoed},

	"include": {`[`, ignored}, "stream_options": {`{`, ignored}, "prompt_cache_retention": {`"`, ignored}, "prompt_cache_options": {`{`, ignored},

	"prompt": {`{`, refused}, "context_management": {`[`, refused}, "moderation": {`{`, refused}, "n": {`0`, refused},
	"response_format": {`{`, refused}, "messages": {`[`, refused},
}

// decode reads a request. The error names the first parameter that is wrong.
func (d *Door) decode(body []byte) (request, error) {
	r := request{echo: map[string]jsontext.Value{}}
	var members map[string]jsontext.Value
	if len(body) == 0 {
		return r, refuse("", codeMissing, "The request has no body. Send the JSON of a response to create.")
	}
	if err := jsonv2.Unmarshal(body, &members); err != nil {
		return r, refuse("", "invalid_json", "The body is not a JSON object that can be read: %v.", err)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value := members[name]
		if value.Kind() == 'n' {
			delete(members, name)
			continue
		}
		p, known := parameters[name]
		switch {
		case !known:
			return r, refuse(name, codeUnknownParam, "Unknown parameter: '%s'.", clip(name, 80))
		case p.use == refused:
			return r, refuse(name, codeUnsupported, "Unsupported parameter: '%s' is not available on this server.", name)
		case !strings.ContainsRune(p.kinds, rune(value.Kind())):
			return r, refuse(name, "invalid_type", "'%s' does not have the type that the API documents.", name)
		case p.use == echoed && len(value) > maxEchoed:
			return r, refuse(name, codeInvalidValue, "'%s' is longer than the %d bytes that are taken.", name, maxEchoed)
		case p.use == echoed:
			r.echo[name] = value
		}
	}
	for _, step := range []func(map[string]jsontext.Value) error{
		r.readModel, r.readText, r.readConversation, r.readMetadata, r.readToolChoice,
	} {
		if err := step(members); err != nil {
			return r, err
		}
	}
	if err := d.readTools(&r, members["tools"]); err != nil {
		return r, err
	}
	if err := r.checkEcho(); err != nil {
		return r, err
	}
	var err error
	r.input, err = readInput(members["input"])
	return r, err
}

// maxEchoed bounds a parameter that is only repeated, since every event that holds the
// response repeats it.
const maxEchoed = 16 << 10

// checkEcho refuses what the response could not repeat, such as a count with a
// fraction, before anything rests on it.
func (r *request) checkEcho() error {
	for _, name := range slices.Sorted(maps.Keys(r.echo)) {
		one, err := jsonv2.Marshal(map[string]jsontext.Value{name: r.echo[name]})
		if err == nil {
			err = jsonv2.Unmarshal(one, new(render.Echo))
		}
		if err != nil {
			return refuse(name, "invalid_type", "'%s' does not have the type that the API documents.", name)
		}
	}
	return nil
}

func (r *request) readModel(m map[string]jsontext.Value) error {
	r.model = text(m["model"])
	r.stream = string(m["stream"]) == "true"
	if v, ok := m["instructions"]; ok {
		s := text(v)
		r.echo["instructions"] = v
		if strings.TrimSpace(s) != "" {
			r.instructions = &s
		}
	}
	if string(m["background"]) == "true" {
		return refuse("background", codeUnsupported, "Background responses are not available. Every turn goes on when its client hangs up; read it again by its id.")
	}
	return nil
}

// readText accepts plain text, the one format there is.
func (r *request) readText(m map[string]jsontext.Value) error {
	raw, ok := m["text"]
	if !ok {
		return nil
	}
	var t struct {
		Format struct {
			Type string `json:"type"`
		} `json:"format"`
	}
	if err := jsonv2.Unmarshal(raw, &t); err != nil {
		return refuse("text", codeInvalidValue, "'text' cannot be read: %v.", err)
	}
	if f := t.Format.Type; f != "" && f != "text" {
		return refuse("text.format", codeUnsupported, "Unsupported value: the text format %q is not available; answers are plain text.", clip(f, 40))
	}
	r.echo["text"] = raw
	return nil
}

func (r *request) readConversation(m map[string]jsontext.Value) error {
	previous, conversation := m["previous_response_id"], m["conversation"]
	if previous != nil && conversation != nil {
		return refuse("previous_response_id", "mutually_exclusive_parameters", "'conversation' and 'previous_response_id' say the same thing in two ways. Send one of them.")
	}
	if previous != nil {
		id, ok := parseID(text(previous))
		if !ok {
			return refuse("previous_response_id", codePreviousNotFound, "Previous response with id '%s' not found.", clip(text(previous), 80))
		}
		r.previous, r.echo["previous_response_id"] = &id, previous
	}
	if conversation == nil {
		return nil
	}
	id := text(conversation)
	if conversation.Kind() == '{' {
		var c struct {
			ID string `json:"id"`
		}
		if err := jsonv2.Unmarshal(conversation, &c); err != nil {
			return refuse("conversation", codeInvalidValue, "'conversation' cannot be read: %v.", err)
		}
		id = c.ID
	}
	if !agent.ValidID(id) || id == "." || id == ".." {
		return refuse("conversation", codeInvalidValue, "'conversation' must be 1 to 128 characters of [A-Za-z0-9_.-].")
	}
	r.conversation = agent.SessionID(id)
	return nil
}

// The API's bounds of metadata.
const (
	maxMetadata      = 16
	maxMetadataKey   = 64
	maxMetadataValue = 512
)

func (r *request) readMetadata(m map[string]jsontext.Value) error {
	raw, ok := m["metadata"]
	if !ok {
		return nil
	}
	if err := jsonv2.Unmarshal(raw, &r.metadata); err != nil {
		return refuse("metadata", codeInvalidValue, "'metadata' must be an object whose values are strings.")
	}
	if len(r.metadata) > maxMetadata {
		return refuse("metadata", codeInvalidValue, "'metadata' has %d pairs; at most %d are taken.", len(r.metadata), maxMetadata)
	}
	for k, v := range r.metadata {
		if len([]rune(k)) > maxMetadataKey || len([]rune(v)) > maxMetadataValue {
			return refuse("metadata", codeInvalidValue, "The metadata %q is too long: a key has at most %d characters, a value %d.", clip(k, maxMetadataKey), maxMetadataKey, maxMetadataValue)
		}
	}
	return nil
}

func (r *request) readToolChoice(m map[string]jsontext.Value) error {
	raw, ok := m["tool_choice"]
	if !ok {
		return nil
	}
	r.echo["tool_choice"] = raw
	if raw.Kind() == '"' {
		if choice := text(raw); choice != "auto" {
			return refuse("tool_choice", codeUnsupportedValue, "Unsupported value: 'tool_choice' may be \"auto\" or name a function; %q is not available, since the tools for changing the mode are always there.", clip(choice, 40))
		}
		return nil
	}
	var c struct {
		Type string `json:"type"`
		Name string `json:"name"`
	}
	if err := jsonv2.Unmarshal(raw, &c); err != nil || c.Type != "function" || c.Name == "" {
		return refuse("tool_choice", codeUnsupportedValue, "Unsupported value: as an object, 'tool_choice' must be {\"type\":\"function\",\"name\":…}.")
	}
	r.toolChoice = c.Name
	return nil
}

// readTools takes the client's functions. The server's own tools come with the mode
// and need no mention.
func (d *Door) readTools(r *request, raw jsontext.Value) error {
	if raw != nil {
		var kinds []struct {
			Type string `json:"type"`
		}
		if err := jsonv2.Unmarshal(raw, &kinds); err != nil {
			return refuse("tools", codeInvalidValue, "'tools' must be an array of tools.")
		}
		for i, k := range kinds {
			if k.Type != "function" {
				return refuse(fmt.Sprintf("tools[%d].type", i), codeUnsupportedValue, "Unsupported tool type: %q. Only functions that the client runs can be given; the server has tools of its own.", clip(k.Type, 40))
			}
		}
		parsed, err := tool.ParseClient(json.RawMessage(raw), d.tools.Reserved)
		if err != nil {
			return err
		}
		r.clientTools = json.RawMessage("[]")
		if parsed != nil {
			r.clientTools = parsed
		}
		r.echo["tools"] = jsontext.Value(r.clientTools)
	}
	if r.toolChoice == "" || slices.Contains(d.tools.Names(), r.toolChoice) {
		return nil
	}
	var given []struct {
		Name string `json:"name"`
	}
	if r.clientTools != nil {
		if err := jsonv2.Unmarshal(r.clientTools, &given); err != nil {
			return fmt.Errorf("read the client's tools again: %w", err)
		}
	}
	for _, g := range given {
		if g.Name == r.toolChoice {
			return nil
		}
	}
	return refuse("tool_choice", codeInvalidValue, "Tool choice '%s' not found in 'tools' parameter.", clip(r.toolChoice, 64))
}

// text returns the string that a JSON value is, "" for any other.
func text(v jsontext.Value) string {
	var s string
	if v.Kind() != '"' || jsonv2.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

package tool_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prove"
	"github.com/aptixhq/aptix/internal/tool"
)

func TestParseClient_NormalisesBothForms(t *testing.T) {
	prove.Rule(t, "AGN011-4.3-a")
	const readFile = `[{"type":"function","name":"read_file","description":"Reads.","parameters":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]},"strict":false}]`
	tests := []struct{ name, raw, want string }{
		{"nothing", "", ""},
		{"null", " null ", ""},
		{"an empty array", "[ ]", ""},
		{"flat form", `[{"name": "read_file", "type": "function", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}, "description": "Reads."}]`, readFile},
		{"nested form", `[{"type":"function","function":{"description":"Reads.","name":"read_file","strict":null,"parameters":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}}]`, readFile},
		{"its own result", readFile, readFile},
		{"null equals absent", `[{"type":"function","name":"a","description":null,"parameters":null,"strict":null,"defer_loading":null}]`,
			`[{"type":"function","name":"a","parameters":{"type":"object","properties":{}},"strict":false}]`},
		{"both forms, in the order given", `[{"type":"function","function":{"name":"b"}},{"type":"function","name":"a"}]`,
			`[{"type":"function","name":"b","parameters":{"type":"object","properties":{}},"strict":false},{"type":"function","name":"a","parameters":{"type":"object","properties":{}},"strict":false}]`},
		{"strict kept where the schema allows it",
			`[{"type":"function","name":"a","strict":true,"parameters":{"type":"object","properties":{"x":{"type":"array","items":{"$ref":"#/$defs/y"}}},"required":["x"],"additionalProperties":false,"$defs":{"y":{"type":"object","properties":{},"additionalProperties":false}}}}]`,
			`[{"type":"function","name":"a","parameters":{"type":"object","properties":{"x":{"type":"array","items":{"$ref":"#/$defs/y"}}},"required":["x"],"additionalProperties":false,"$defs":{"y":{"type":"object","properties":{},"additionalProperties":false}}},"strict":true}]`},
		{"strict dropped where an inner object is open",
			`[{"type":"function","name":"a","strict":true,"parameters":{"type":"object","properties":{"x":{"anyOf":[{"type":"object"},{"type":"null"}]}},"required":["x"],"additionalProperties":false}}]`,
			`[{"type":"function","name":"a","parameters":{"type":"object","properties":{"x":{"anyOf":[{"type":"object"},{"type":"null"}]}},"required":["x"],"additionalProperties":false},"strict":false}]`},
		{"a pattern of JavaScript", `[{"type":"function","name":"a","parameters":{"type":"object","properties":{"x":{"type":"string","pattern":"^(?!y)"}}}}]`,
			`[{"type":"function","name":"a","parameters":{"type":"object","properties":{"x":{"type":"string","pattern":"^(?!y)"}}},"strict":false}]`},
		{"text is written one way", `[{"type":"function","name":"a","description":"\u003c\u00e9\/"}]`,
			`[{"type":"function","name":"a","description":"<é/","parameters":{"type":"object","properties":{}},"strict":false}]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tool.ParseClient(json.RawMessage(tt.raw), registry(t).Reserved)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("ParseClient() =\n%s, want\n%s", got, tt.want)
			}
			if (got == nil) != (tt.want == "") {
				t.Errorf("ParseClient() = %#v", got)
			}
		})
	}
}

func violation(pointer, rule, message string) agent.Violation {
	return agent.Violation{Pointer: pointer, Rule: rule, Message: message}
}

// TestParseClient_ListsEveryViolation holds row S-21 of docs/security.md.
func TestParseClient_ListsEveryViolation(t *testing.T) {
	const shape, own, reserved = "AGN011-4.3-a", "APTIX-client-tools", "TUL007-3.1-d"
	tests := []struct {
		name, raw string
		want      []agent.Violation
	}{
		{"not an array", `{"type":"function"}`, []agent.Violation{violation("/tools", shape, "tools must be an array")}},
		{"not JSON", `[{"type":]`, []agent.Violation{
			violation("/tools/0/type", shape, "tools must be valid JSON: at /0/type: invalid character ']' at start of value")}},
		{"a member twice", `[{"type":"function","name":"a","name":"b"}]`, []agent.Violation{
			violation("/tools/0/name", shape, "tools must be valid JSON: at /0/name: duplicate object member name")}},
		{"too large", `["` + strings.Repeat("a", 256<<10) + `"]`, []agent.Violation{
			violation("/tools", own, "the tools are larger than 256 KiB together")}},
		{"too many", "[" + strings.Repeat("{},", 128) + "{}]", []agent.Violation{
			violation("/tools", own, "there are 129 tools; a session takes at most 128")}},
		{"of each tool its own", `[
			5,
			{"type":"web_search"},
			{},
			{"type":"function","name":7,"description":[],"strict":"yes","parameters":[]},
			{"type":"function","function":"a"},
			{"type":"function","function":{"name":"ok","output_schema":{}},"name":"a"},
			{"type":"function","Name":"a"}
		]`, []agent.Violation{
			violation("/tools/0", shape, "a tool must be an object"),
			violation("/tools/1/type", shape, `type must be "function": a client registers functions only`),
			violation("/tools/2/type", shape, "type is required"),
			violation("/tools/2/name", shape, "name is required"),
			violation("/tools/3/name", shape, "name must be text"),
			violation("/tools/3/description", shape, "description must be text"),
			violation("/tools/3/parameters", own, `parameters must be a JSON Schema: a schema of arguments has "type": "object"`),
			violation("/tools/3/strict", shape, "strict must be true or false"),
			violation("/tools/4/function", shape, "function must be an object"),
			violation("/tools/5/name", shape, `unknown member "name"`),
			violation("/tools/5/function/output_schema", shape, `unknown member "output_schema"`),
			violation("/tools/6/name", shape, "name is required"),
			violation("/tools/6/Name", shape, `unknown member "Name"`),
		}},
		{"names", `[
			{"type":"function","name":""},
			{"type":"function","name":"read file"},
			{"type":"function","name":"аgent_change_mode"},
			{"type":"function","name":"agent_change_mode"},
			{"type":"function","function":{"name":"Agent-Change-Mode"}},
			{"type":"function","name":"agent_list_modes"},
			{"type":"function","name":"search_docs"},
			{"type":"function","name":"a"},
			{"type":"function","name":"A"},
			{"type":"function","name":"a"},
			{"type":"function","name":"` + strings.Repeat("b", 129) + `"}
		]`, []agent.Violation{
			violation("/tools/0/name", own, `the name of a tool is 1 to 64 of the characters A-Z, a-z, 0-9, _ and -, not ""`),
			violation("/tools/1/name", own, `the name of a tool is 1 to 64 of the characters A-Z, a-z, 0-9, _ and -, not "read file"`),
			violation("/tools/2/name", own, `the name of a tool is 1 to 64 of the characters A-Z, a-z, 0-9, _ and -, not "аgent_change_mode"`),
			violation("/tools/3/name", reserved, `the name "agent_change_mode" is reserved for a tool of the server; choose another one`),
			violation("/tools/4/function/name", reserved, `the name "Agent-Change-Mode" is reserved for a tool of the server; choose another one`),
			violation("/tools/5/name", reserved, `the name "agent_list_modes" is reserved for a tool of the server; choose another one`),
			violation("/tools/6/name", reserved, `the name "search_docs" is reserved for a tool of the server; choose another one`),
			violation("/tools/9/name", own, `the name "a" is that of tool 7 as well; every tool has its own`),
			violation("/tools/10/name", own, `the name of a tool is 1 to 64 of the characters A-Z, a-z, 0-9, _ and -, not "`+strings.Repeat("b", 80)+`…"`),
		}},
		{"schemas", `[
			{"type":"function","name":"a","parameters":{"type":"object","properties":{"x":{"$ref":"https://example.com/x"}}}},
			{"type":"function","name":"b","parameters":{"type":"object","required":"x"}},
			{"type":"function","name":"c","parameters":true},
			{"type":"function","name":"d","parameters":{"type":"object","minProperties":1e99999999}},
			{"type":"function","name":"e","parameters":{"type":"object","not":` + strings.Repeat(`{"not":`, 64) + "{}" + strings.Repeat("}", 64) + `}},
			{"type":"function","name":"f","parameters":{"type":"object","anyOf":[` + strings.Repeat("{},", 2000) + `{}]}},
			{"type":"function","name":"g","parameters":{"type":"object","$ref":"other.json"}}
		]`, []agent.Violation{
			violation("/tools/0/parameters", own, "parameters must be a JSON Schema: it refers to another document, which is not followed: https://example.com/x"),
			violation("/tools/1/parameters", own, "parameters must be a JSON Schema: at /required: got string, want array"),
			violation("/tools/2/parameters", own, `parameters must be a JSON Schema: a schema of arguments has "type": "object"`),
			violation("/tools/3/parameters", own, "parameters must be a JSON Schema: at /minProperties: this number is out of range"),
			violation("/tools/4/parameters", own, "parameters must be a JSON Schema: it is nested deeper than 64 levels"),
			violation("/tools/5/parameters", own, "parameters must be a JSON Schema: it has 2002 objects; at most 2000 are taken"),
			violation("/tools/6/parameters", own, "parameters must be a JSON Schema: it refers to another document, which is not followed: other.json"),
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tool.ParseClient(json.RawMessage(tt.raw), registry(t, "search_docs").Reserved)
			var fault *agent.Error
			if !errors.As(err, &fault) || fault.Kind != agent.KindInvalidRequest {
				t.Fatalf("ParseClient() = %s, %v, want %s", got, err, agent.KindInvalidRequest)
			}
			if diff := cmp.Diff(tt.want, fault.Violations); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
			if got != nil {
				t.Errorf("ParseClient() = %s beside an error", got)
			}
		})
	}
}

func TestParseClient_AnswerIsBounded(t *testing.T) {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, `,"%d":1`, i)
	}
	_, err := tool.ParseClient(json.RawMessage(`[{"type":"function","name":"a"`+b.String()+`}]`), nil)
	if got := len(agent.FaultOf(err).Violations); got != 1000 {
		t.Errorf("%d violations, want 1000", got)
	}
}

// TestParseClient_ChangeModeIsNeverTheClients holds without a registry, too.
func TestParseClient_ChangeModeIsNeverTheClients(t *testing.T) {
	prove.Rule(t, "TUL007-3.1-d")
	if got, err := tool.ParseClient(json.RawMessage(`[{"type":"function","name":"agent_change_mode"}]`), nil); err == nil {
		t.Errorf("ParseClient() = %s, want it refused", got)
	}
}

func FuzzParseClient(f *testing.F) {
	f.Add(`[{"type":"function","function":{"name":"a","parameters":{"type":"object"}}}]`)
	f.Add(`[{"type":"function","name":"a","strict":true,"parameters":{"type":"object","$ref":"#","minimum":1e308}}]`)
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := tool.ParseClient(json.RawMessage(raw), nil)
		if err != nil {
			if len(agent.FaultOf(err).Violations) == 0 {
				t.Errorf("ParseClient(%q) refused without a reason: %v", raw, err)
			}
			return
		}
		again, err := tool.ParseClient(got, nil)
		if err != nil || string(again) != string(got) {
			t.Errorf("its own result %s became %s, %v", got, again, err)
		}
		if s := tool.Merge(got, nil, registry(t, tool.ChangeMode)); len(s.Warnings) > 0 {
			t.Errorf("Merge(%s) warns of %q", got, s.Warnings)
		}
	})
}

package tool_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/tool"
)

type search struct {
	Query string   `json:"query" jsonschema:"what to look for, as <text>"`
	Limit int      `json:"limit,omitempty" jsonschema:"how many results"`
	Paths []string `json:"paths,omitempty"`
}

func newSearch(t *testing.T, run func(context.Context, *tool.ExecutionContext, search) (string, error)) tool.Tool {
	t.Helper()
	s, err := tool.New(tool.Definition{Name: "search", Description: "Searches.", Usage: "Use it to search."}, run)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNew_SchemaComesFromTheArgumentType(t *testing.T) {
	s := newSearch(t, nil)
	want := `{"type":"function","name":"search","description":"Searches.","parameters":{"type":"object","properties":{` +
		`"query":{"type":"string","description":"what to look for, as <text>"},` +
		`"limit":{"type":"integer","description":"how many results"},` +
		`"paths":{"type":["null","array"],"items":{"type":"string"}}},` +
		`"required":["query"],"additionalProperties":false},"strict":false}`
	if got := string(tool.Schema(s.Definition())); got != want {
		t.Errorf("Schema() =\n%s, want\n%s", got, want)
	}
}

func TestNew_RunsWithArgumentsThatFit(t *testing.T) {
	ec := &tool.ExecutionContext{Caller: agent.Caller{Org: "o", User: "u"}, Session: "s", Turn: "t", Call: "c"}
	var gotArgs search
	var gotContext *tool.ExecutionContext
	s := newSearch(t, func(_ context.Context, ec *tool.ExecutionContext, in search) (string, error) {
		gotArgs, gotContext = in, ec
		return "found", nil
	})
	got, err := s.Execute(t.Context(), ec, ` {"paths":["a"],"query":"é","limit":3} `)
	if got != "found" || err != nil {
		t.Fatalf("Execute() = %q, %v, want found", got, err)
	}
	if diff := cmp.Diff(search{Query: "é", Limit: 3, Paths: []string{"a"}}, gotArgs); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	if gotContext != ec {
		t.Errorf("context = %v, want %v", gotContext, ec)
	}
}

func TestNew_RefusesOtherArgumentsAndSaysWhy(t *testing.T) {
	s := newSearch(t, func(context.Context, *tool.ExecutionContext, search) (string, error) {
		t.Error("the tool ran")
		return "", nil
	})
	const fit, again = "search: the arguments do not fit the tool: ", "; correct them and call again"
	const valid, object = "search: the arguments are not valid JSON: ", "; call again with one JSON object"
	tests := []struct{ name, args, want string }{
		{"blank", " \n", fit + "missing property 'query'" + again},
		{"several faults, in a stable order", `{"query":5,"limit":"x","z":1}`,
			fit + "additional properties 'z' not allowed; at /limit: got string, want integer; at /query: got number, want string" + again},
		{"member in another casing", `{"Query":"a","query":"b"}`, fit + "additional properties 'Query' not allowed" + again},
		{"not an object", `["a"]`, fit + "got array, want object" + again},
		{"null", `null`, fit + "got null, want object" + again},
		{"inside a list", `{"query":"a","paths":[1]}`, fit + "at /paths/0: got number, want string" + again},
		{"a number that Go cannot hold", `{"query":"a","limit":99999999999999999999}`, fit + "at /limit: this number is not one that can be taken" + again},
		{"a number that nobody can hold", `{"query":"a","limit":1e999999999}`, valid + "at /limit: this number is out of range" + object},
		{"a fraction without end", `{"query":"a","limit":1e-999999999}`, valid + "at /limit: this number is out of range" + object},
		{"cut off", `{"query":"a`, valid + "at /query: unexpected EOF" + object},
		{"the same member twice", `{"query":"a","query":"b"}`, valid + "at /query: duplicate object member name" + object},
		{"two values", `{"query":"a"} {}`, valid + "there is text after the JSON value, at byte 13" + object},
		{"invalid UTF-8", "{\"query\":\"\xff\"}", valid + "at /query: invalid UTF-8" + object},
		{"too deep", strings.Repeat("[", 100), valid + "it is nested deeper than 64 levels" + object},
		{"too long", strings.Repeat(" ", 1<<20) + "{}", "search: the arguments are longer than 1048576 bytes; send less"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := s.Execute(t.Context(), nil, tt.args)
			if err == nil || err.Error() != tt.want {
				t.Errorf("error = %v\n  want  %s", err, tt.want)
			}
			if got != "" {
				t.Errorf("result = %q beside an error", got)
			}
		})
	}
}

func TestNew_ErrorOfTheToolIsPassedOn(t *testing.T) {
	sentinel := errors.New("nothing is indexed; index the folder first")
	s := newSearch(t, func(context.Context, *tool.ExecutionContext, search) (string, error) { return "", sentinel })
	if _, err := s.Execute(t.Context(), nil, `{"query":"a"}`); !errors.Is(err, sentinel) || err.Error() != sentinel.Error() {
		t.Errorf("error = %v, want %v", err, sentinel)
	}
}

func TestNew_RefusesWhatHasNoObjectSchema(t *testing.T) {
	tests := []struct {
		name string
		make func() (tool.Tool, error)
		want string
	}{
		{"a scalar", func() (tool.Tool, error) { return tool.New[int](tool.Definition{Name: "x"}, nil) },
			`tool x: compile the schema of int: a schema of arguments has "type": "object"`},
		{"a pointer", func() (tool.Tool, error) { return tool.New[*search](tool.Definition{Name: "x"}, nil) },
			`tool x: compile the schema of *tool_test.search: a schema of arguments has "type": "object"`},
		{"a function", func() (tool.Tool, error) { return tool.New[func()](tool.Definition{Name: "x"}, nil) },
			"tool x: infer the schema of func(): "},
		{"parameters of its own", func() (tool.Tool, error) {
			return tool.New[search](tool.Definition{Name: "x", Parameters: []byte(`{}`)}, nil)
		}, "tool x: its parameters come from its argument type; leave them empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := tt.make(); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("error = %v, want %s", err, tt.want)
			}
		})
	}
}

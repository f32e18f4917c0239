package mode

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/aptixhq/aptix/internal/agent"
)

// Schema returns the JSON Schema of a mode file, for editors. It is inferred from Mode,
// so the two cannot drift; what the types cannot say is added here. A file that it
// refuses is refused by Load as well; Load sees more, such as a key that two files have.
func Schema() ([]byte, error) {
	text := func(pattern string) *jsonschema.Schema { return &jsonschema.Schema{Type: "string", Pattern: pattern} }
	s, err := jsonschema.For[Mode](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[Status]():               {Type: "string", Enum: []any{StatusActive, StatusExperimental, StatusDeprecated}},
		reflect.TypeFor[agent.ApprovalPolicy](): {Type: "string", Enum: []any{agent.ApprovalNever, agent.ApprovalAsk, agent.ApprovalAlwaysAsk}},
		reflect.TypeFor[json.RawMessage]():      {Type: "object"}, // the arguments of a bootstrap tool
		// No text in a list is empty.
		reflect.TypeFor[[]string](): {Type: "array", Items: text(`\S`)},
	}})
	if err != nil {
		return nil, fmt.Errorf("schema of mode files: %w", err)
	}
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "Aptix mode"
	s.Description = "One mode of an Aptix server: what it is for, which tools it brings and what it tells the model."
	s.Required = []string{"id", "key", "displayName", "description", "whenToUse"}
	// YAML reads an id of digits, and a version such as 2, as numbers; both are text to us.
	for name, pattern := range map[string]string{"id": idPattern.String(), "version": ""} {
		p := s.Properties[name]
		p.Type, p.Types, p.Pattern = "", []string{"string", "number"}, pattern
	}
	s.Properties["key"].Pattern = keyPattern.String()
	for _, name := range []string{"displayName", "description", "whenToUse"} {
		s.Properties[name].Pattern = `\S`
	}
	for _, name := range []string{"instructions", "tools", "humanRoleHints", "exampleUtterances"} {
		s.Properties[name].Default = json.RawMessage(`[]`)
	}
	s.Properties["tools"].UniqueItems = true
	s.Properties["toolChoice"].Enum = []any{AllowedTools}
	s.Properties["isDefault"].Default = json.RawMessage(`false`)
	s.Properties["status"].Default = json.RawMessage(`"active"`)
	s.Properties["version"].Default = json.RawMessage(`"v1"`)
	s.Properties["rag"].Required = nil
	// What is not there is left out; the schema of a pointer, or of omitempty, has null.
	client := s.Properties["clientTools"]
	client.Type, client.Types = "object", nil
	files := client.Properties["files"]
	files.Type, files.Types = "array", nil
	for _, name := range []string{"tools", "patterns"} {
		files.Items.Properties[name].MinItems = jsonschema.Ptr(1)
	}
	approvals := s.Properties["approvals"]
	approvals.Type, approvals.Types = "object", nil
	bootstrap := s.Properties["bootstrapTools"]
	bootstrap.Type, bootstrap.Types = "array", nil
	bootstrap.Items.Required = []string{"name"}
	bootstrap.Items.Properties["name"].Pattern = `\S`
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("schema of mode files: %w", err)
	}
	return append(b, '\n'), nil
}

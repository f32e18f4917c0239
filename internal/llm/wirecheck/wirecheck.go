// Package wirecheck judges the body of a model request by two yardsticks that are
// not ours: OpenAI's published schema of the Responses API and the types of its Go
// client; and responses and their events, where we are the one who answers, by the
// schema. It is support for tests only: nothing that runs in production imports it,
// and llmtest puts every request that a test sends through it.
//
// The schema is not part of this repository. It is looked for beside the checkout,
// in shared/openai of the directory that holds it; without it only the second
// yardstick is applied.
package wirecheck

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3/responses"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// RequireEnv is the variable that, set to 1, turns a missing schema from a note in
// the test's log into a failure.
const RequireEnv = "APTIX_REQUIRE_SCHEMA"

// ErrNoSchema tells that OpenAI's schema does not lie beside the checkout.
var ErrNoSchema = errors.New("OpenAI's schema shared/openai/responses.openapi.json is not beside the checkout: requests are not checked against it")

// Check fails the test when body is not a request that the Responses API takes.
func Check(t testing.TB, body []byte) {
	t.Helper()
	if err := Decode(body); err != nil {
		t.Errorf("wire request: %v\n%s", err, body)
	}
	err := Validate(body)
	switch {
	case err == nil:
	case !errors.Is(err, ErrNoSchema):
		t.Errorf("wire request: %v\n%s", err, body)
	case os.Getenv(RequireEnv) == "1":
		t.Errorf("%v, and %s=1 asks for it", err, RequireEnv)
	default:
		t.Log("WARNING:", err)
	}
}

// Available reports whether the schema was found, so that Validate can judge.
func Available() bool {
	_, err := requestSchema()
	return err == nil
}

// Validate reports how body breaks OpenAI's schema of a request, ErrNoSchema when
// there is no schema to tell.
func Validate(body []byte) error { return validate(requestSchema, body) }

// ValidateResponse is Validate for a response resource.
func ValidateResponse(body []byte) error { return validate(responseSchema, body) }

// ValidateEvent is Validate for the data of an event of a stream.
func ValidateEvent(data []byte) error { return validate(eventSchema, data) }

func validate(schema func() (*jsonschema.Schema, error), body []byte) error {
	s, err := schema()
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	if err := s.Validate(v); err != nil {
		return fmt.Errorf("against OpenAI's schema: %w", err)
	}
	return nil
}

// Decode reports whether OpenAI's Go client can read body: every item and tool must
// be of a kind that it knows, and what it read, written out again, must say the
// same.
func Decode(body []byte) error {
	var p responses.ResponseNewParams
	if err := json.Unmarshal(body, &p); err != nil {
		return fmt.Errorf("for openai-go: %w", err)
	}
	for i, item := range p.Input.OfInputItemList {
		if !chosen(item) {
			return fmt.Errorf("openai-go knows no item of the kind at /input/%d", i)
		}
	}
	for i, tool := range p.Tools {
		if !chosen(tool) {
			return fmt.Errorf("openai-go knows no tool of the kind at /tools/%d", i)
		}
	}
	again, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("for openai-go, writing it again: %w", err)
	}
	var got, want map[string]any
	if err := json.Unmarshal(again, &got); err != nil {
		return fmt.Errorf("for openai-go, reading it again: %w", err)
	}
	if err := json.Unmarshal(body, &want); err != nil {
		return fmt.Errorf("not a JSON object: %w", err)
	}
	forgive(want)
	return missing("", want, got)
}

// forgive takes out of a request what the client's decoder is known to drop; the
// schema covers all of it. The client sets stream itself, by the method that is
// called; it loses the name of a forced function; and it reads the model's own
// messages, which come back when a transcript is replayed, as if they were inputs.
func forgive(want map[string]any) {
	delete(want, "stream")
	if choice, ok := want["tool_choice"].(map[string]any); ok {
		delete(choice, "name")
	}
	input, _ := want["input"].([]any)
	for i, v := range input {
		if item, ok := v.(map[string]any); ok && item["type"] == "message" && item["role"] == "assistant" {
			input[i] = nil
		}
	}
}

// chosen reports whether one alternative of a union of the client is set. The
// decoder leaves all of them nil when none fits, and says nothing.
func chosen(union any) bool {
	v := reflect.ValueOf(union)
	for _, f := range reflect.VisibleFields(v.Type()) {
		if f.IsExported() && f.Type.Kind() == reflect.Pointer && !v.FieldByIndex(f.Index).IsNil() {
			return true
		}
	}
	return false
}

// missing reports the first thing of want that got has not, by its JSON pointer. An
// empty thing may be left out.
func missing(at string, want, got any) error {
	switch w := want.(type) {
	case nil:
		return nil
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok && len(w) > 0 {
			return fmt.Errorf("openai-go loses the object at %q", at)
		}
		for _, k := range slices.Sorted(maps.Keys(w)) {
			if err := missing(at+"/"+k, w[k], g[k]); err != nil {
				return err
			}
		}
		return nil
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			return fmt.Errorf("openai-go loses items at %q", at)
		}
		for i, v := range w {
			if err := missing(fmt.Sprintf("%s/%d", at, i), v, g[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if want == got || got == nil && reflect.ValueOf(want).IsZero() {
		return nil
	}
	return fmt.Errorf("openai-go reads %v at %q where %v was written", got, at, want)
}

// The schemas, each compiled once for all tests of a process: they are large.
var (
	requestSchema  = load("CreateResponse")
	responseSchema = load("Response")
	eventSchema    = load("ResponseStreamEvent")
)

func load(component string) func() (*jsonschema.Schema, error) {
	return sync.OnceValues(func() (*jsonschema.Schema, error) {
		path, err := find()
		if err != nil {
			return nil, err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, ErrNoSchema
		}
		return compile(data, component)
	})
}

// find walks up from the working directory, which go test sets to the folder of the
// package, to the one with go.mod.
func find() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find OpenAI's schema: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(filepath.Dir(dir), "shared", "openai", "responses.openapi.json"), nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", ErrNoSchema
		}
		dir = up
	}
}

func compile(data []byte, component string) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("read OpenAI's schema: %w", err)
	}
	loosen(doc)
	const url = "openai.json"
	c := jsonschema.NewCompiler()
	// The document uses $recursiveRef, which the draft after this one dropped.
	c.DefaultDraft(jsonschema.Draft2019)
	// No loader: a reference out of the document is an error, not a download.
	c.UseLoader(jsonschema.SchemeURLLoader{})
	if err := c.AddResource(url, doc); err != nil {
		return nil, fmt.Errorf("add OpenAI's schema: %w", err)
	}
	s, err := c.Compile(url + "#/components/schemas/" + component)
	if err != nil {
		return nil, fmt.Errorf("compile OpenAI's schema: %w", err)
	}
	return s, nil
}

// loosen makes every oneOf an anyOf: the alternatives of the published schema
// overlap, so that a valid item often matches two of them. The discriminators are
// OpenAPI's and say nothing more.
func loosen(node any) {
	switch n := node.(type) {
	case map[string]any:
		for _, v := range n {
			loosen(v)
		}
		delete(n, "discriminator")
		one, ok := n["oneOf"]
		if !ok {
			return
		}
		delete(n, "oneOf")
		if _, taken := n["anyOf"]; !taken {
			n["anyOf"] = one
			return
		}
		all, _ := n["allOf"].([]any)
		n["allOf"] = append(all, map[string]any{"anyOf": one})
	case []any:
		for _, v := range n {
			loosen(v)
		}
	}
}

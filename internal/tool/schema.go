package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

const (
	// schemaURL is what a schema is called while it is compiled; a relative
	// reference in it ends up below schemaBase, where there is nothing else.
	schemaBase = "aptix://tool/"
	schemaURL  = schemaBase + "parameters"
	// maxDepth bounds the nesting of a schema, and of arguments; maxObjects the
	// number of objects in a schema. The compiler's work grows with the square of
	// both.
	maxDepth   = 64
	maxObjects = 2000
	// maxFaults bounds how many faults of one value a message names.
	maxFaults = 8
)

// noLoader keeps a schema from reaching out: not into the network and, what the
// compiler would do by itself, not into the file system.
type noLoader struct{}

var errElsewhere = errors.New("it refers to another document, which is not followed")

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%w: %s", errElsewhere, strings.TrimPrefix(url, schemaBase))
}

// goPattern compiles the pattern keyword for schemas that are used here.
func goPattern(s string) (jsonschema.Regexp, error) { return regexp.Compile(s) }

// anyPattern takes any pattern: the schemas of client tools are for the model and
// the client, and what JavaScript understands, such as a lookahead, is theirs to use.
func anyPattern(s string) (jsonschema.Regexp, error) { return unusedPattern(s), nil }

type unusedPattern string

func (p unusedPattern) MatchString(string) bool { return true }
func (p unusedPattern) String() string          { return string(p) }

// compile checks that raw is an object schema that stands on its own.
func compile(raw []byte, patterns jsonschema.RegexpEngine) (*jsonschema.Schema, error) {
	doc, err := decode(raw)
	if err != nil {
		return nil, err
	}
	if m, ok := doc.(map[string]any); !ok || m["type"] != "object" {
		return nil, errors.New(`a schema of arguments has "type": "object"`)
	}
	if n := objects(doc); n > maxObjects {
		return nil, fmt.Errorf("it has %d objects; at most %d are taken", n, maxObjects)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(patterns)
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	schema, err := c.Compile(schemaURL)
	if err == nil {
		return schema, nil
	}
	if meta := (*jsonschema.SchemaValidationError)(nil); errors.As(err, &meta) {
		return nil, unfit(meta.Err)
	}
	if load := (*jsonschema.LoadURLError)(nil); errors.As(err, &load) {
		return nil, load.Err
	}
	return nil, errors.New(strings.ReplaceAll(err.Error(), schemaURL, ""))
}

// objects counts the JSON objects in a value.
func objects(v any) int {
	n := 0
	switch v := v.(type) {
	case map[string]any:
		n = 1
		for _, member := range v {
			n += objects(member)
		}
	case []any:
		for _, item := range v {
			n += objects(item)
		}
	}
	return n
}

// decode reads one JSON value strictly, numbers as written.
func decode(raw []byte) (any, error) {
	if err := checkJSON(raw); err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(raw))
}

// checkJSON refuses what JSON readers disagree about: duplicate names, invalid
// UTF-8, text after the value; and nesting and numbers without bound.
func checkJSON(raw []byte) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return errors.New("there is nothing")
	}
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	for first := true; first || d.StackDepth() > 0; first = false {
		token, err := d.ReadToken()
		if err != nil {
			return readable(err)
		}
		if token.Kind() == '0' && !fits(token.String()) {
			return fmt.Errorf("at %s: this number is out of range", d.StackPointer())
		}
		if d.StackDepth() > maxDepth {
			return fmt.Errorf("it is nested deeper than %d levels", maxDepth)
		}
	}
	if rest := bytes.TrimSpace(raw[d.InputOffset():]); len(rest) > 0 {
		return fmt.Errorf("there is text after the JSON value, at byte %d", d.InputOffset())
	}
	return nil
}

// fits reports whether a number is one that a float64 can hold, about. The schema
// compiler reckons with exact fractions and fails badly on exponents that are not.
func fits(number string) bool {
	const most = 400 // digits, and the exponent either way
	if len(number) > most {
		return false
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(number), "e"); ok {
		if n, err := strconv.Atoi(exponent); err != nil || n < -most || n > most {
			return false
		}
	}
	_, err := strconv.ParseFloat(number, 64)
	return err == nil
}

// readable strips the names of Go and its packages from what a JSON reader found.
func readable(err error) error {
	if s := (*jsontext.SyntacticError)(nil); errors.As(err, &s) {
		if p := s.JSONPointer; p != "" {
			return fmt.Errorf("at %s: %w", p, s.Err)
		}
		return fmt.Errorf("at byte %d: %w", s.ByteOffset, s.Err)
	}
	if s := (*jsonv2.SemanticError)(nil); errors.As(err, &s) {
		return fmt.Errorf("at %s: this %v is not one that can be taken", s.JSONPointer, s.JSONKind)
	}
	return err
}

// unfit says in one line why a value does not fit a schema.
func unfit(err error) error {
	if invalid := (*jsonschema.ValidationError)(nil); errors.As(err, &invalid) {
		return errors.New(strings.Join(faults(invalid), "; "))
	}
	return err
}

// faults flattens what is wrong with a value to one text per fault, in an order that
// does not change from run to run.
func faults(e *jsonschema.ValidationError) []string {
	english := message.NewPrinter(language.English)
	var out []string
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			walk(cause)
		}
		if len(e.Causes) > 0 {
			return
		}
		fault := e.ErrorKind.LocalizedString(english)
		if len(e.InstanceLocation) > 0 {
			fault = "at " + pointer(e.InstanceLocation) + ": " + fault
		}
		out = append(out, fault)
	}
	walk(e)
	slices.Sort(out)
	out = slices.Compact(out)
	if more := len(out) - maxFaults; more > 0 {
		out = append(out[:maxFaults], fmt.Sprintf("and %d more", more))
	}
	return out
}

// pointer renders a path as a JSON pointer (RFC 6901).
func pointer(path []string) string {
	var p jsontext.Pointer
	for _, token := range path {
		p = p.AppendToken(token)
	}
	return string(p)
}

// allowsStrict reports whether a provider can hold the model to a schema: every
// object in it requires all of its members and permits no others. It reads the
// keywords that strict schemas are made of and takes any other for a no.
func allowsStrict(raw json.RawMessage) bool {
	doc, err := decode(raw)
	return err == nil && strictSchema(doc)
}

func strictSchema(doc any) bool {
	s, ok := doc.(map[string]any)
	if !ok {
		return false
	}
	properties, _ := s["properties"].(map[string]any)
	if isObject(s["type"]) || properties != nil {
		required, _ := s["required"].([]any)
		if s["additionalProperties"] != false || len(required) != len(properties) {
			return false
		}
		for _, name := range required {
			if name, ok := name.(string); !ok || properties[name] == nil {
				return false
			}
		}
	}
	for keyword, value := range s {
		switch keyword {
		case "properties", "$defs", "definitions":
			for _, sub := range asMap(value) {
				if !strictSchema(sub) {
					return false
				}
			}
		case "items":
			if !strictSchema(value) {
				return false
			}
		case "anyOf":
			subs, _ := value.([]any)
			for _, sub := range subs {
				if !strictSchema(sub) {
					return false
				}
			}
		case "allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas",
			"patternProperties", "prefixItems", "propertyNames", "unevaluatedProperties", "contains":
			return false
		}
	}
	return true
}

// isObject reports whether the type keyword allows an object.
func isObject(kind any) bool {
	kinds, _ := kind.([]any)
	return kind == "object" || slices.Contains(kinds, any("object"))
}

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

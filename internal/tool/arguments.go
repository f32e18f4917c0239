package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	infer "github.com/google/jsonschema-go/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxArguments is the size that the arguments of a server tool may have.
const maxArguments = 1 << 20

// Validator holds arguments to the schema of a tool.
type Validator struct{ schema *jsonschema.Schema }

// NewValidator returns the validator of a definition's parameters.
func NewValidator(parameters json.RawMessage) (Validator, error) {
	schema, err := compile(parameters, goPattern)
	return Validator{schema}, err
}

// Check returns what the model wrote as one JSON object that fits the schema; blank means
// no arguments. The error is for the model and says what to correct.
func (v Validator) Check(argumentsJSON string) (json.RawMessage, error) {
	if strings.TrimSpace(argumentsJSON) == "" {
		argumentsJSON = "{}"
	}
	if len(argumentsJSON) > maxArguments {
		return nil, fmt.Errorf("the arguments are longer than %d bytes; send less", maxArguments)
	}
	doc, err := decode([]byte(argumentsJSON))
	if err != nil {
		return nil, fmt.Errorf("the arguments are not valid JSON: %w; call again with one JSON object", err)
	}
	if err := v.schema.Validate(doc); err != nil {
		return nil, fmt.Errorf("the arguments do not fit the tool: %w; correct them and call again", unfit(err))
	}
	return json.RawMessage(argumentsJSON), nil
}

// Fits reports whether arguments are ones that a tool of this definition takes; blank
// means none.
func Fits(d Definition, argumentsJSON string) bool {
	v, err := NewValidator(d.Parameters)
	if err != nil {
		return false
	}
	_, err = v.Check(argumentsJSON)
	return err == nil
}

// Arguments reads the arguments of a tool into A, a struct whose fields carry json
// tags and, in jsonschema tags, the words by which the model knows them. A field
// without omitempty is required, and members that A lacks are refused.
type Arguments[A any] struct {
	// Parameters is the JSON Schema of A.
	Parameters json.RawMessage
	validator  Validator
}

// ArgumentsOf infers the schema of A.
func ArgumentsOf[A any]() (Arguments[A], error) {
	var none Arguments[A]
	inferred, err := infer.For[A](nil)
	if err != nil {
		return none, fmt.Errorf("infer the schema of %T: %w", *new(A), err)
	}
	// Once more through the writer of Schema, so that its bytes stay as they are.
	escaped, err := json.Marshal(inferred)
	if err != nil {
		return none, fmt.Errorf("write the schema of %T: %w", *new(A), err)
	}
	raw, err := normal(escaped)
	if err != nil {
		return none, fmt.Errorf("write the schema of %T: %w", *new(A), err)
	}
	validator, err := NewValidator(raw)
	if err != nil {
		return none, fmt.Errorf("compile the schema of %T: %w", *new(A), err)
	}
	return Arguments[A]{Parameters: raw, validator: validator}, nil
}

// Decode reads what the model wrote; blank means no arguments. The error is for the
// model and says what to correct.
func (a Arguments[A]) Decode(argumentsJSON string) (A, error) {
	var in A
	raw, err := a.validator.Check(argumentsJSON)
	if err != nil {
		return in, err
	}
	if err := jsonv2.Unmarshal(raw, &in); err != nil {
		return *new(A), fmt.Errorf("the arguments do not fit the tool: %w; correct them and call again", readable(err))
	}
	return in, nil
}

// New returns a tool that is a function of A. The schema in its definition is that
// of A, and run is called only with arguments that fit it.
func New[A any](d Definition, run func(ctx context.Context, ec *ExecutionContext, args A) (string, error)) (Tool, error) {
	if len(d.Parameters) > 0 {
		return nil, fmt.Errorf("tool %s: its parameters come from its argument type; leave them empty", d.Name)
	}
	args, err := ArgumentsOf[A]()
	if err != nil {
		return nil, fmt.Errorf("tool %s: %w", d.Name, err)
	}
	d.Parameters = args.Parameters
	return typed[A]{definition: d, args: args, run: run}, nil
}

type typed[A any] struct {
	definition Definition
	args       Arguments[A]
	run        func(context.Context, *ExecutionContext, A) (string, error)
}

func (t typed[A]) Definition() Definition { return t.definition }

func (t typed[A]) Execute(ctx context.Context, ec *ExecutionContext, argumentsJSON string) (string, error) {
	args, err := t.args.Decode(argumentsJSON)
	if err != nil {
		return "", fmt.Errorf("%s: %w", t.definition.Name, err)
	}
	return t.run(ctx, ec, args)
}

package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/aptixhq/aptix/internal/tool"
)

// callKey is the member of a call's metadata by which a server can tell that two requests
// are the same call.
const callKey = "io.github.aptixhq/call"

// Tool is an approved tool of a server; see tool.Tool.
type Tool struct {
	server     *server
	approved   Definition
	definition tool.Definition
	arguments  tool.Validator
}

// Definition is what the model reads: what was approved, under its full name.
func (t *Tool) Definition() tool.Definition { return t.definition }

// Execute is ExecuteContent without the images.
func (t *Tool) Execute(ctx context.Context, ec *tool.ExecutionContext, argumentsJSON string) (string, error) {
	out, err := t.ExecuteContent(ctx, ec, argumentsJSON)
	return out.Text, err
}

// ExecuteContent calls the tool. A tool.UnknownOutcome is the error of a call that may have
// been carried out although no answer came.
func (t *Tool) ExecuteContent(ctx context.Context, ec *tool.ExecutionContext, argumentsJSON string) (tool.Content, error) {
	arguments, err := t.arguments.Check(argumentsJSON)
	if err != nil {
		return tool.Content{}, fmt.Errorf("%s: %w", t.definition.Name, err)
	}
	out, err := t.server.call(ctx, t.approved.Name, arguments, keyOf(ec))
	if err != nil {
		return tool.Content{}, fmt.Errorf("%s: %w", t.definition.Name, err)
	}
	return out, nil
}

// keyOf names a call without telling the server whose it is.
func keyOf(ec *tool.ExecutionContext) string {
	if ec == nil {
		return ""
	}
	// None of them can hold a line break.
	sum := sha256.Sum256([]byte(strings.Join([]string{string(ec.Caller.Org), string(ec.Session), string(ec.Turn), string(ec.Call)}, "\n")))
	return hex.EncodeToString(sum[:16])
}

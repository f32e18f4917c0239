package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
)

// Mode is a mode of the server's catalogue.
type Mode struct {
	ID          string `json:"id"`
	Key         string `json:"key"`
	DisplayName string `json:"displayName"`
	Description string `json:"description"`
	// WhenToUse is the line from which the model tells the modes apart.
	WhenToUse           string   `json:"whenToUse"`
	SystemPromptSummary string   `json:"systemPromptSummary"`
	IsDefault           bool     `json:"isDefault"`
	Status              string   `json:"status"`
	Version             string   `json:"version"`
	Instructions        []string `json:"instructions"`
	// Tools are the server tools that the mode brings.
	Tools []string `json:"tools"`
	// ToolChoice is empty or allowed_tools.
	ToolChoice string `json:"toolChoice,omitempty"`
	// ClientTools narrows the client's own tools while a session is in the mode; nil
	// leaves all of them.
	ClientTools       *ModeClientTools `json:"clientTools,omitempty"`
	HumanRoleHints    []string         `json:"humanRoleHints"`
	ExampleUtterances []string         `json:"exampleUtterances"`
	RAG               RAGHints         `json:"rag"`
	// WelcomeMessage is told to the user when a session enters the mode.
	WelcomeMessage string `json:"welcomeMessage,omitempty"`
	// BootstrapTools run when a session's first turn in the mode begins.
	BootstrapTools []BootstrapTool `json:"bootstrapTools,omitempty"`
	// Approvals say which calls wait for the user: never, ask or always-ask, by the name of
	// a tool or a pattern.
	Approvals map[string]string `json:"approvals,omitempty"`
}

// BootstrapTool is a call that the mode makes by itself.
type BootstrapTool struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// ModeClientTools says which of the client's tools the model is offered in a mode, and
// which files their calls may name.
type ModeClientTools struct {
	// Allow are names; * stands for any characters.
	Allow []string       `json:"allow"`
	Files []ModeFileRule `json:"files,omitempty"`
}

// ModeFileRule bounds the files that calls of some client tools may name.
type ModeFileRule struct {
	Tools []string `json:"tools"`
	// Patterns are regular expressions; a path must match one of them.
	Patterns    []string `json:"patterns"`
	Description string   `json:"description,omitempty"`
}

// RAGHints steer retrieval while a session is in a mode.
type RAGHints struct {
	Prefer  []string `json:"prefer"`
	Exclude []string `json:"exclude"`
}

// ServerTool is a tool that the server runs.
type ServerTool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Usage is what the model reads about when to use the tool.
	Usage string `json:"usage"`
	// Parameters is the JSON Schema of the arguments.
	Parameters json.RawMessage `json:"parameters,omitempty"`
	// Idempotent tells that a call may run again after a crash of the server.
	Idempotent bool `json:"idempotent"`
	// Withdrawn tells why the tool is not offered to models for the time being; empty when
	// it is.
	Withdrawn string `json:"withdrawn,omitempty"`
}

// Modes returns the catalogue, the default mode first.
func (c *Client) Modes(ctx context.Context) ([]Mode, error) {
	return all[Mode](ctx, c, at("v1", "modes"))
}

// Mode returns one mode of the catalogue.
func (c *Client) Mode(ctx context.Context, key string) (*Mode, error) {
	var out Mode
	err := c.call(ctx, request{method: http.MethodGet, path: at("v1", "modes", key), repeat: true}, &out)
	return orNil(&out, err)
}

// Tools returns the tools that the server runs.
func (c *Client) Tools(ctx context.Context) ([]ServerTool, error) {
	return all[ServerTool](ctx, c, at("v1", "tools"))
}

// allPages bounds how many parts of a short list are read.
const allPages = 100

// all reads a list that is short by nature to its end.
func all[T any](ctx context.Context, c *Client, path string) ([]T, error) {
	var out []T
	var p Page
	for range allPages {
		var l List[T]
		if err := c.call(ctx, request{method: http.MethodGet, path: path, query: p.query(), repeat: true}, &l); err != nil {
			return nil, err
		}
		out = append(out, l.Data...)
		if !l.HasMore || l.NextCursor == "" {
			return out, nil
		}
		p.Cursor = l.NextCursor
	}
	return nil, errors.New("GET " + path + ": the list does not end")
}

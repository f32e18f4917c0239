// Package render writes what a Responses API answers: the response resource as one
// JSON document, or the same response as the full sequence of stream events. It has
// no part in a turn of its own; it is the mouth of whatever plays the provider, the
// offline demo model and the fake of the tests.
//
// Streams are lists of events, complete before the first one is written: the order
// is that of the API, sequence numbers are 0, 1, 2 … without gaps, and the pace and
// the fate of a slow reader are the business of whoever writes them.
package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
)

// Response is one answer of a model. Only ID is needed; the zero value of
// everything else is a completed response without output.
type Response struct {
	ID string
	// CreatedAt is in Unix seconds.
	CreatedAt int64
	Output    []Item
	Usage     agent.Usage
	// Incomplete is why the answer ends early: max_output_tokens or content_filter.
	// Empty means that it is complete.
	Incomplete string
	// Failure makes the response a failed one, without output.
	Failure *Failure
	// Cancelled tells that somebody ended the response; it has no output then.
	Cancelled bool
	// CompletedAt is in Unix seconds; 0 leaves the member out.
	CompletedAt int64
	// Conversation is the id of the conversation it belongs to; empty leaves the
	// member out.
	Conversation string
	Echo         Echo
}

// Failure is the error of a failed response.
type Failure struct {
	// Code is one of the API's closed set, such as server_error.
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Echo is what a response repeats of its request. Decode the request into it.
type Echo struct {
	Model              string          `json:"model"`
	Stream             *bool           `json:"stream"`
	Store              *bool           `json:"store"`
	PreviousResponseID *string         `json:"previous_response_id"`
	Instructions       json.RawMessage `json:"instructions"`
	Temperature        *float64        `json:"temperature"`
	TopP               *float64        `json:"top_p"`
	Metadata           json.RawMessage `json:"metadata"`
	Tools              json.RawMessage `json:"tools"`
	ToolChoice         json.RawMessage `json:"tool_choice"`
	MaxOutputTokens    *int64          `json:"max_output_tokens"`
	ParallelToolCalls  *bool           `json:"parallel_tool_calls"`
	// What follows is left out of the response when the request does not have it.
	MaxToolCalls     json.RawMessage `json:"max_tool_calls,omitempty"`
	TopLogprobs      json.RawMessage `json:"top_logprobs,omitempty"`
	Text             json.RawMessage `json:"text,omitempty"`
	Reasoning        json.RawMessage `json:"reasoning,omitempty"`
	Truncation       json.RawMessage `json:"truncation,omitempty"`
	ServiceTier      json.RawMessage `json:"service_tier,omitempty"`
	User             json.RawMessage `json:"user,omitempty"`
	SafetyIdentifier json.RawMessage `json:"safety_identifier,omitempty"`
	PromptCacheKey   json.RawMessage `json:"prompt_cache_key,omitempty"`
}

// Streams reports whether the request asked for events.
func (e Echo) Streams() bool { return e.Stream != nil && *e.Stream }

// Stored reports whether the provider is to remember the response; it is unless the
// request says otherwise.
func (e Echo) Stored() bool { return e.Store == nil || *e.Store }

// Message is an output item: the assistant's text or its refusal.
type Message struct {
	ID string
	// Deltas are the pieces in which the text is streamed.
	Deltas []string
	// Refusal, when set, takes the place of the text.
	Refusal string
}

// Call is an output item: a function call.
type Call struct {
	ID        string
	CallID    string
	Name      string
	Arguments string
}

// Raw is any other output item, as it is; a reasoning item for instance.
type Raw json.RawMessage

// Item is an output item: Message, Call or Raw.
type Item interface {
	// resource is the item as it stands in the output, with the given status.
	resource(status string) any
	// stream adds the item's events.
	stream(s *stream, index int, status string)
}

// The statuses of a response and of its items.
const (
	inProgress = "in_progress"
	completed  = "completed"
	incomplete = "incomplete"
	failed     = "failed"
	cancelled  = "cancelled"
)

// JSON returns the response resource. It fails only on a Raw item or a member of
// Echo that is not JSON.
func (r Response) JSON() ([]byte, error) {
	return encode(r.document(r.status()))
}

// InProgress returns the response resource as it stands before it has ended.
func (r Response) InProgress() ([]byte, error) {
	return encode(r.document(inProgress))
}

func (r Response) status() string {
	switch {
	case r.Cancelled:
		return cancelled
	case r.Failure != nil:
		return failed
	case r.Incomplete != "":
		return incomplete
	}
	return completed
}

// itemStatus is the status of the last item; the ones before it are complete.
func (r Response) itemStatus(index int) string {
	if r.Incomplete != "" && index == len(r.Output)-1 {
		return incomplete
	}
	return completed
}

// document is the response's JSON form. Its members are in the order of the API's
// documentation, and the required ones are there also when they say nothing.
type document struct {
	ID                 string             `json:"id"`
	Object             string             `json:"object"`
	CreatedAt          int64              `json:"created_at"`
	Status             string             `json:"status"`
	CompletedAt        int64              `json:"completed_at,omitempty"`
	Error              *Failure           `json:"error"`
	IncompleteDetails  *incompleteDetails `json:"incomplete_details"`
	Instructions       json.RawMessage    `json:"instructions"`
	MaxOutputTokens    *int64             `json:"max_output_tokens"`
	Model              string             `json:"model"`
	Output             []any              `json:"output"`
	ParallelToolCalls  bool               `json:"parallel_tool_calls"`
	PreviousResponseID *string            `json:"previous_response_id"`
	Store              bool               `json:"store"`
	Temperature        float64            `json:"temperature"`
	ToolChoice         json.RawMessage    `json:"tool_choice"`
	Tools              json.RawMessage    `json:"tools"`
	TopP               float64            `json:"top_p"`
	Usage              *usage             `json:"usage,omitempty"`
	Metadata           json.RawMessage    `json:"metadata"`
	Conversation       *conversation      `json:"conversation,omitempty"`
	MaxToolCalls       json.RawMessage    `json:"max_tool_calls,omitempty"`
	TopLogprobs        json.RawMessage    `json:"top_logprobs,omitempty"`
	Text               json.RawMessage    `json:"text,omitempty"`
	Reasoning          json.RawMessage    `json:"reasoning,omitempty"`
	Truncation         json.RawMessage    `json:"truncation,omitempty"`
	ServiceTier        json.RawMessage    `json:"service_tier,omitempty"`
	User               json.RawMessage    `json:"user,omitempty"`
	SafetyIdentifier   json.RawMessage    `json:"safety_identifier,omitempty"`
	PromptCacheKey     json.RawMessage    `json:"prompt_cache_key,omitempty"`
}

type conversation struct {
	ID string `json:"id"`
}

type incompleteDetails struct {
	Reason string `json:"reason"`
}

type usage struct {
	InputTokens         int64         `json:"input_tokens"`
	InputTokensDetails  inputDetails  `json:"input_tokens_details"`
	OutputTokens        int64         `json:"output_tokens"`
	OutputTokensDetails outputDetails `json:"output_tokens_details"`
	TotalTokens         int64         `json:"total_tokens"`
}

type inputDetails struct {
	CachedTokens     int64 `json:"cached_tokens"`
	CacheWriteTokens int64 `json:"cache_write_tokens"`
}

type outputDetails struct {
	ReasoningTokens int64 `json:"reasoning_tokens"`
}

// document returns the response as it stands in the given status: while it is in
// progress it has no output, no usage and no fate yet.
func (r Response) document(status string) document {
	e := r.Echo
	out := document{
		ID: r.ID, Object: "response", CreatedAt: r.CreatedAt, Status: status,
		Instructions: or(e.Instructions, "null"), MaxOutputTokens: e.MaxOutputTokens, Model: e.Model,
		Output: []any{}, ParallelToolCalls: true, PreviousResponseID: e.PreviousResponseID, Store: e.Stored(),
		Temperature: 1, ToolChoice: or(e.ToolChoice, `"auto"`), Tools: or(e.Tools, "[]"), TopP: 1, Metadata: or(e.Metadata, "{}"),
		MaxToolCalls: e.MaxToolCalls, TopLogprobs: e.TopLogprobs, Text: e.Text, Reasoning: e.Reasoning, Truncation: e.Truncation,
		ServiceTier: e.ServiceTier, User: e.User, SafetyIdentifier: e.SafetyIdentifier, PromptCacheKey: e.PromptCacheKey,
	}
	if r.Conversation != "" {
		out.Conversation = &conversation{ID: r.Conversation}
	}
	if e.ParallelToolCalls != nil {
		out.ParallelToolCalls = *e.ParallelToolCalls
	}
	if e.Temperature != nil {
		out.Temperature = *e.Temperature
	}
	if e.TopP != nil {
		out.TopP = *e.TopP
	}
	if status == inProgress {
		return out
	}
	out.Error = r.Failure
	if status == failed || status == cancelled {
		return out
	}
	out.CompletedAt = r.CompletedAt
	if status == incomplete {
		out.IncompleteDetails = &incompleteDetails{Reason: r.Incomplete}
	}
	out.Usage = &usage{
		InputTokens: r.Usage.InputTokens, InputTokensDetails: inputDetails{CachedTokens: r.Usage.CachedTokens},
		OutputTokens: r.Usage.OutputTokens, OutputTokensDetails: outputDetails{ReasoningTokens: r.Usage.ReasoningTokens},
		TotalTokens: r.Usage.TotalTokens,
	}
	for i, item := range r.Output {
		out.Output = append(out.Output, item.resource(r.itemStatus(i)))
	}
	return out
}

func or(raw json.RawMessage, otherwise string) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage(otherwise)
	}
	return raw
}

// Usage estimates what a call cost from the bytes that went in and out, four to a
// token: wrong in detail, but the same on every run.
func Usage(in, out int) agent.Usage {
	u := agent.Usage{InputTokens: int64(in / 4), OutputTokens: int64(out / 4)}
	u.TotalTokens = u.InputTokens + u.OutputTokens
	return u
}

// Fault returns the body of an answer that is an error, in the API's form. Empty
// param and code are null.
func Fault(kind, message, param, code string) []byte {
	type fault struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	f := fault{Message: message, Type: kind}
	if param != "" {
		f.Param = &param
	}
	if code != "" {
		f.Code = &code
	}
	body, err := encode(map[string]fault{"error": f})
	if err != nil { // strings always encode
		return []byte(`{"error":{"message":"unknown","type":"server_error","param":null,"code":null}}`)
	}
	return body
}

// Words cuts text into the pieces in which a model would stream it: a word with the
// space that follows it. Joined they are the text.
func Words(text string) []string {
	var out []string
	for text != "" {
		word := strings.IndexAny(text, " \n\t")
		if word < 0 {
			return append(out, text)
		}
		end := word + len(text[word:]) - len(strings.TrimLeft(text[word:], " \n\t"))
		out = append(out, text[:end])
		text = text[end:]
	}
	return out
}

// encode is json.Marshal without the escaping that is meant for HTML pages.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("render a model's answer: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

package responsesapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/store"
)

// Create accepts a request durably, as a turn or as the results that a turn waits
// for, and returns the id of the response that comes of it. stream is whether the
// client asked for events. The same idempotency key with the same body is the same
// response; without a key every request is a turn of its own.
func (d *Door) Create(ctx context.Context, by agent.Caller, body []byte, idempotencyKey string) (id string, stream bool, err error) {
	r, err := d.decode(body)
	if err != nil {
		return "", false, err
	}
	made, err := d.start(ctx, by, r, idempotencyKey)
	if err != nil {
		return "", false, err
	}
	return made.String(), r.stream, nil
}

func (d *Door) start(ctx context.Context, by agent.Caller, r request, idempotencyKey string) (responseID, error) {
	if r.previous != nil {
		return d.goOn(ctx, by, r, idempotencyKey)
	}
	if r.conversation == "" {
		// A client that keeps the conversation itself: all of it is in the input.
		return d.open(ctx, by, r, idempotencyKey, "")
	}
	if !hasOutputs(r.input) {
		return d.open(ctx, by, r, idempotencyKey, "")
	}
	latest, err := d.latest(ctx, by, r.conversation)
	if err != nil {
		return responseID{}, err
	}
	if latest == nil {
		return responseID{}, errNothingWaits()
	}
	steps, err := d.turns.Steps(ctx, latest.Key)
	if err != nil {
		return responseID{}, fmt.Errorf("read journal of turn %s: %w", latest.Key, err)
	}
	return d.proceed(ctx, by, r, responseID{latest.Key.Session, latest.Key.Turn, deliveries(steps)}, steps)
}

func errNothingWaits() error {
	return refuse("input", codeNoToolOutput, "The conversation waits for no function_call_output. Send a message, or name the response whose calls these are in 'previous_response_id'.")
}

func hasOutputs(input []item) bool {
	return slices.ContainsFunc(input, func(it item) bool { return it.kind == kindOutput })
}

// goOn continues from an earlier response: with the results of its calls, or with the
// next turn.
func (d *Door) goOn(ctx context.Context, by agent.Caller, r request, idempotencyKey string) (responseID, error) {
	previous := *r.previous
	key := previous.key(by)
	turn, err := d.turns.Turn(ctx, key)
	if agent.KindOf(err) == agent.KindNotFound {
		return responseID{}, refuse("previous_response_id", codePreviousNotFound, "Previous response with id '%s' not found.", clip(previous.String(), 80))
	}
	if err != nil {
		return responseID{}, err
	}
	steps, err := d.turns.Steps(ctx, key)
	if err != nil {
		return responseID{}, fmt.Errorf("read journal of turn %s: %w", key, err)
	}
	if previous.n > deliveries(steps) {
		return responseID{}, refuse("previous_response_id", codePreviousNotFound, "Previous response with id '%s' not found.", clip(previous.String(), 80))
	}
	if hasOutputs(r.input) {
		return d.proceed(ctx, by, r, previous, steps)
	}
	r.conversation = previous.session
	if turn.State == agent.TurnWaiting {
		if calls := callsOf(steps, previous.n); len(calls) > 0 {
			return responseID{}, refuse("input", codeNoToolOutput, "No tool output found for function call %s.", calls[0].ID)
		}
	}
	if turn.State != agent.TurnCompleted || previous.n != deliveries(steps) {
		return responseID{}, refuse("previous_response_id", codePreviousNotFound,
			"The response '%s' cannot be continued: its turn is %s. Continue from the last completed response of the conversation.", clip(previous.String(), 80), turn.State)
	}
	return d.open(ctx, by, r, idempotencyKey, lastProviderResponse(steps))
}

// lastProviderResponse is the provider's id of a turn's last answer, by which the
// session tells whether it is still the last one.
func lastProviderResponse(steps []agent.Step) string {
	for _, s := range slices.Backward(steps) {
		if s.Answered != nil {
			return s.Answered.ResponseID
		}
	}
	return ""
}

// open sends the request as a new turn. follows is the answer that it must come after;
// empty asks for nothing.
func (d *Door) open(ctx context.Context, by agent.Caller, r request, idempotencyKey, follows string) (responseID, error) {
	model, err := d.modelOf(ctx, by, r)
	if err != nil {
		return responseID{}, err
	}
	s := gather(r.input)
	if s.instruction == "" && len(s.images)+len(s.files) == 0 {
		return responseID{}, refuse("input", codeMissing, "The input says nothing. Send at least one message of the user.")
	}
	x := pipeline.Execution{
		Mode: r.mode(), ToolChoiceName: r.toolChoice, ClientTools: r.clientTools, SystemPrompt: r.systemPrompt(s), Follows: follows,
	}
	x.UserTurn = contract.UserTurn{
		SessionID: r.conversation, TurnID: newTurn(), Instruction: s.instruction,
		InputArtifacts: s.files, ClipboardImages: s.images,
	}
	if r.stream {
		x.Stream = &r.stream
	}
	if idempotencyKey != "" {
		x.TurnID = agent.TurnID("turn_" + digest("turn", string(by.User), idempotencyKey)[:32])
	}
	switch {
	case x.SessionID != "":
	case idempotencyKey != "":
		x.SessionID = agent.SessionID("conv_" + digest("conversation", string(by.User), idempotencyKey)[:32])
	default:
		x.SessionID = newConversation()
	}
	if follows != "" && idempotencyKey != "" {
		// Sent again, the request comes after its own answer.
		if _, err := d.turns.Turn(ctx, agent.TurnKey{Org: by.Org, Session: x.SessionID, Turn: x.TurnID}); err == nil {
			x.Follows = ""
		}
	}
	if model.asked {
		x.AgentContextID, x.ConversationContextID = model.Agent, model.Conversation
	}
	if err := d.checkTurn(x.UserTurn); err != nil {
		return responseID{}, err
	}
	if x.Door, err = r.note(model.id); err != nil {
		return responseID{}, err
	}
	key, _, err := d.turns.Execute(ctx, by, x)
	switch agent.KindOf(err) {
	case agent.KindContextPinned, agent.KindUnknownContext:
		return responseID{}, about("model", err)
	case agent.KindUnknownMode:
		return responseID{}, about("metadata.mode", err)
	case agent.KindTurnConflict:
		if idempotencyKey == "" {
			return responseID{}, refuse("previous_response_id", codePreviousNotFound, "The conversation has gone on since this response. Continue from its latest completed response; branching off an earlier one is not available.")
		}
		return responseID{}, about("", err)
	case agent.KindTurnInProgress:
		return responseID{}, d.busy(ctx, by, x.SessionID, err)
	case agent.KindInvalidRequest:
		if len(x.InputArtifacts)+len(x.ClipboardImages) > 0 {
			return responseID{}, inputFault(err)
		}
	}
	if err != nil {
		return responseID{}, err
	}
	return responseID{key.Session, key.Turn, 1}, nil
}

// busy says what a busy session waits for, when that is its client.
func (d *Door) busy(ctx context.Context, by agent.Caller, id agent.SessionID, busy error) error {
	turn, err := d.latest(ctx, by, id)
	if err != nil || turn == nil || turn.State != agent.TurnWaiting {
		return busy
	}
	steps, err := d.turns.Steps(ctx, turn.Key)
	if err != nil {
		return busy
	}
	n := deliveries(steps)
	if calls := callsOf(steps, n); len(calls) > 0 {
		return refuse("input", codeNoToolOutput, "No tool output found for function call %s, which the response %s asked for.", calls[0].ID, responseID{id, turn.Key.Turn, n})
	}
	return busy
}

// checkTurn holds the turn against the contract, which knows the bounds of files and
// images.
func (d *Door) checkTurn(u contract.UserTurn) error {
	if len(u.InputArtifacts)+len(u.ClipboardImages) == 0 {
		return nil
	}
	body, err := json.Marshal(u)
	if err != nil {
		return fmt.Errorf("write the turn: %w", err)
	}
	lim := d.limits
	lim.Body = int64(len(body)) // bounded at the door, in the client's own spelling
	if _, err := contract.DecodeExecute(body, lim); err != nil {
		return inputFault(err)
	}
	return nil
}

// inputFault says what is wrong with files and images, of which the client knows its
// input only.
func inputFault(err error) error {
	f := agent.FaultOf(err)
	var all []string
	for _, v := range f.Violations {
		all = append(all, strings.TrimPrefix(v.Pointer, "/")+" "+v.Message)
	}
	f.Message, f.Violations = "The files and images of the input cannot be taken: "+strings.Join(all, " "), nil
	return &Error{err: &agent.Error{Fault: f}, param: "input", code: codeInvalidValue}
}

// systemPrompt is what the request adds to the boot prompt: its instructions, then
// its system and developer messages; nil when it has neither.
func (r request) systemPrompt(s said) *string {
	parts := s.system
	if r.instructions != nil {
		parts = append([]string{*r.instructions}, parts...)
	}
	if len(parts) == 0 {
		return nil
	}
	prompt := strings.Join(parts, "\n\n")
	return &prompt
}

// proceed sends the results of the calls that a response asked for. This protocol has
// no order of results: the calls have it.
func (d *Door) proceed(ctx context.Context, by agent.Caller, r request, previous responseID, steps []agent.Step) (responseID, error) {
	calls := callsOf(steps, previous.n)
	if len(calls) == 0 {
		return responseID{}, errNothingWaits()
	}
	results, err := results(calls, r.input)
	if err != nil {
		return responseID{}, err
	}
	c := pipeline.Continuation{Mode: r.mode()}
	c.ToolContinuation = contract.ToolContinuation{SessionID: previous.session, TurnID: previous.turn, ToolResults: results}
	// A turn goes on with the model and the tools that it began with.
	first := noteOf(steps, 1)
	if c.Door, err = r.continued(first); err != nil {
		return responseID{}, err
	}
	key, _, _, err := d.turns.Proceed(ctx, by, c)
	if err != nil {
		return responseID{}, err
	}
	if steps, err = d.turns.Steps(ctx, key); err != nil {
		return responseID{}, fmt.Errorf("read journal of turn %s: %w", key, err)
	}
	return responseID{key.Session, key.Turn, continuedBy(steps, c.SHA256())}, nil
}

// results puts the outputs of an input in the order of the calls. Calls that a client
// sends back with them must be the ones that it got; messages have no place beside
// them, since a continuation is mechanical (AGN-034 §2.2).
func results(calls []agent.ToolCall, input []item) ([]contract.ToolResult, error) {
	outputs := map[agent.CallID]string{}
	for _, it := range input {
		i := slices.IndexFunc(calls, func(c agent.ToolCall) bool { return c.ID == it.call })
		switch {
		case it.kind == kindMessage && it.role == "assistant":
			// Its own text, sent back along with the calls.
		case it.kind == kindMessage:
			return nil, refuse("input", codeUnsupportedValue, "Send the function_call_output items alone; a message comes after the response to them.")
		case i < 0:
			return nil, refuse("input", codeNoToolOutput, "No tool call found for function call output with call_id %s.", clip(string(it.call), 128))
		case it.kind == kindCall:
			if calls[i].Name != it.name || !sameJSON(calls[i].Arguments, it.text) {
				return nil, refuse("input", codeInvalidValue, "The function_call %s is not the one that the response has. Send it back as it was, or leave it out.", it.call)
			}
		default:
			if _, twice := outputs[it.call]; twice {
				return nil, refuse("input", codeNoToolOutput, "There are two outputs for function call %s.", it.call)
			}
			outputs[it.call] = it.text
		}
	}
	var out []contract.ToolResult
	for _, c := range calls {
		text, ok := outputs[c.ID]
		if !ok {
			return nil, refuse("input", codeNoToolOutput, "No tool output found for function call %s.", c.ID)
		}
		out = append(out, contract.ToolResult{ToolCallID: c.ID, ResultJSON: &text})
	}
	return out, nil
}

// sameJSON compares arguments by what they say; a client may have written them anew.
func sameJSON(a, b string) bool {
	if a == b {
		return true
	}
	x, y := jsontext.Value(a), jsontext.Value(b)
	return x.Canonicalize() == nil && y.Canonicalize() == nil && bytes.Equal(x, y)
}

// latest returns the newest turn of a conversation, nil when there is none.
func (d *Door) latest(ctx context.Context, by agent.Caller, id agent.SessionID) (*agent.Turn, error) {
	var last *agent.Turn
	page := store.Page{Limit: store.MaxLimit}
	for {
		turns, next, err := d.turns.Turns(ctx, by, id, page)
		if agent.KindOf(err) == agent.KindNotFound {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if n := len(turns); n > 0 {
			last = &turns[n-1]
		}
		if page.Cursor = next; next == "" {
			return last, nil
		}
	}
}

// note is what the journal keeps of the request for the resource.
func (r request) note(model string) (json.RawMessage, error) {
	kept := map[string]any{"model": model}
	for name, v := range r.echo {
		kept[name] = v
	}
	if len(r.metadata) > 0 {
		kept["metadata"] = r.metadata
	}
	return r.encodeNote(kept)
}

// continued is the note of a continuation: what it brings itself, over what the turn
// began with.
func (r request) continued(first json.RawMessage) (json.RawMessage, error) {
	kept := map[string]any{}
	var began map[string]jsontext.Value
	if len(first) > 0 {
		if err := jsonv2.Unmarshal(first, &began); err != nil {
			return nil, fmt.Errorf("read the note of the turn: %w", err)
		}
	}
	for _, name := range []string{"model", "tools", "tool_choice", "instructions"} {
		if v, ok := began[name]; ok {
			kept[name] = v
		}
	}
	for name, v := range r.echo {
		if _, fixed := kept[name]; !fixed && name != "tools" {
			kept[name] = v
		}
	}
	if len(r.metadata) > 0 {
		kept["metadata"] = r.metadata
	}
	return r.encodeNote(kept)
}

func (r request) encodeNote(kept map[string]any) (json.RawMessage, error) {
	raw, err := jsonv2.Marshal(kept, jsonv2.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("keep the note of a response: %w", err)
	}
	return raw, nil
}

package llm_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/prompt"
)

// The request without its previous response is the same in every other byte, also when
// what a client wrote looks like the member that goes.
func TestUnchained_TakesOneMember(t *testing.T) {
	canonical := prompt.Build(prompt.Input{Request: prompt.Request{ResponseContinuationID: `resp_"1"`, Mode: "general", Instruction: "Go on."}})
	lane := llm.Lane{
		Chain: true, Instructions: `say "previous_response_id":"resp_1",`, FirstCall: true,
		Tools: []json.RawMessage{json.RawMessage(`{"type":"function","name":"f","parameters":{"previous_response_id":"resp_\"1\"","x":1}}`)},
	}
	made := llm.BuildWire(canonical, lane)
	bare, none := llm.Unchained(made.Head, made.Tail, `resp_"1"`)
	if bare != made.Head {
		t.Errorf("the head says what the response before is: %s", made.Head)
	}
	for name, w := range map[string]llm.Wire{
		"of this release": made,
		// Journals may hold some in which the member stood before the instructions.
		"of an earlier one": {Head: strings.Replace(made.Head, `"instructions"`, `"previous_response_id":"resp_\"1\"","instructions"`, 1), Tail: none},
	} {
		t.Run(name, func(t *testing.T) {
			want(t, llm.PreviousResponseID(w.Head, w.Tail), `resp_"1"`)
			head, tail := llm.Unchained(w.Head, w.Tail, `resp_"1"`)
			want(t, llm.PreviousResponseID(head, tail), "")

			var before, after map[string]json.RawMessage
			for text, into := range map[string]*map[string]json.RawMessage{w.Head + w.Tail: &before, head + tail: &after} {
				if err := json.Unmarshal([]byte(text), into); err != nil {
					t.Fatalf("%v: %s", err, text)
				}
			}
			delete(before, "previous_response_id")
			want(t, after, before)
		})
	}
}

func TestReplay(t *testing.T) {
	raw := func(texts ...string) []json.RawMessage {
		var out []json.RawMessage
		for _, text := range texts {
			out = append(out, json.RawMessage(text))
		}
		return out
	}
	const (
		user      = `{"type":"message","role":"user","content":[{"type":"input_text","text":"\"type\":\"reasoning\" function_call"}]}`
		encrypted = `{ "type" : "reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}`
		open      = `{"type":"reasoning","id":"rs_2","summary":[],"content":[{"type":"reasoning_text","text":"so"}]}`
		reference = `{"type":"reasoning","id":"rs_3","summary":[{"type":"summary_text","text":"so"}],"encrypted_content":null}`
		call1     = `{"type":"function_call","call_id":"c1","name":"reasoning","arguments":"{}"}`
		call2     = `{"type":"function_call","call_id":"c2","name":"f","arguments":"{}"}`
		out1      = `{"type":"function_call_output","call_id":"c1","output":"1"}`
		out2      = `{"type":"function_call_output","call_id":"c2","output":"2"}`
		lost1     = `{"type":"function_call_output","call_id":"c1","output":"{\"error\":\"The outcome of this call is unknown: its result was lost.\"}"}`
	)
	for _, tt := range []struct {
		name                    string
		transcript, added, want []json.RawMessage
	}{
		{"everything as it was", raw(user, encrypted, open, call1, call2, out2, out1), raw(user), raw(user, encrypted, open, call1, call2, out2, out1)},
		{"a reference", raw(user, reference, call1, out1), nil, raw(user, call1, out1)},
		{"calls that the request answers", raw(user, call1, call2), raw(out1, out2, user), raw(user, call1, call2)},
		{"a lost output", raw(user, call1, call2, out2), raw(user), raw(user, call1, lost1, call2, out2)},
		{"a lost output beside one that comes", raw(call1, call2), raw(out2), raw(call1, lost1, call2)},
		{"an output without its call", raw(user, out1), raw(user), raw(user)},
		{"an output before its call", raw(out1, call1), raw(out1), raw(call1)},
		{"an output twice", raw(call1, out1, out1), nil, raw(call1, out1)},
		{"not JSON", raw(`"function_call`, user), nil, raw(`"function_call`, user)},
	} {
		t.Run(tt.name, func(t *testing.T) { want(t, llm.Replay(tt.transcript, 0, tt.added), tt.want) })
	}
}

// What is taken for whole is sent again as it would be without that knowledge, whatever
// the turns after it hold.
func TestReplay_BehindWholeItemsIsTheSame(t *testing.T) {
	raw := func(texts ...string) (out []json.RawMessage) {
		for _, text := range texts {
			out = append(out, json.RawMessage(text))
		}
		return out
	}
	const (
		user      = `{"type":"message","role":"user","content":[]}`
		reference = `{"type":"reasoning","id":"rs_3","summary":[],"encrypted_content":null}`
		encrypted = `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}`
		call1     = `{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}`
		call2     = `{"type":"function_call","call_id":"c2","name":"f","arguments":"{}"}`
		out1      = `{"type":"function_call_output","call_id":"c1","output":"1"}`
		out2      = `{"type":"function_call_output","call_id":"c2","output":"2"}`
	)
	turns := map[string][]json.RawMessage{
		"nothing": nil, "words": raw(user, user), "a reference": raw(user, reference, user), "reasoning": raw(encrypted, user),
		"a call": raw(user, reference, call1, out1, user), "two calls": raw(call1, call2, out2, out1), "no output": raw(user, call1),
		"one output of two": raw(call1, call2, out2), "an output alone": raw(out1, user), "an output before its call": raw(out2, call2),
	}
	wholes := 0
	for nameA, a := range turns {
		kept, whole := llm.Whole(a)
		if !whole {
			continue
		}
		wholes++
		for nameB, b := range turns {
			for nameC, added := range map[string][]json.RawMessage{"a user": raw(user), "outputs": raw(out1, out2)} {
				plain := llm.Replay(slices.Concat(a, b), 0, added)
				known := llm.Replay(slices.Concat(kept, b), len(kept), added)
				if !slices.EqualFunc(plain, known, func(x, y json.RawMessage) bool { return string(x) == string(y) }) {
					t.Errorf("%s, %s, and then %s: %s, without knowing %s", nameA, nameB, nameC, known, plain)
				}
			}
		}
	}
	if wholes != 6 {
		t.Errorf("%d turns are whole, want 6", wholes)
	}
}

func TestOverflows_InTheWordsOfEachProvider(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"OpenAI", &llm.StatusError{Status: 400, Code: "context_length_exceeded"}, true},
		{"vLLM", &llm.StatusError{Status: 400, Message: "This model's maximum context length is 4096 tokens."}, true},
		{"llama.cpp", &llm.StatusError{Status: 400, Message: "the request exceeds the available context size. try increasing the context size"}, true},
		{"a proxy", &llm.StatusError{Status: 413, Message: "exceeds the context window"}, true},
		{"a fault inside", &llm.StatusError{Status: 500, Message: "context length"}, false},
		{"another refusal", &llm.StatusError{Status: 400, Message: "unknown model"}, false},
		{"no refusal", errors.New("context length"), false},
	} {
		t.Run(tt.name, func(t *testing.T) { want(t, llm.Overflows(tt.err), tt.want) })
	}
}

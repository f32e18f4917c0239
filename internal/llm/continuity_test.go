package llm_test

import (
	"encoding/json"
	"slices"
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
	chained := llm.BuildWire(canonical, lane)
	want(t, llm.PreviousResponseID(chained.Head, chained.Tail), `resp_"1"`)
	head := llm.Unchained(chained.Head, `resp_"1"`)
	want(t, llm.PreviousResponseID(head, chained.Tail), "")

	var before, after map[string]json.RawMessage
	for text, into := range map[string]*map[string]json.RawMessage{chained.Head + chained.Tail: &before, head + chained.Tail: &after} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	delete(before, "previous_response_id")
	want(t, after, before)
}

func TestReplayable_LeavesOutReferences(t *testing.T) {
	kept := []json.RawMessage{
		json.RawMessage(`{"type":"message","role":"user","content":[{"type":"input_text","text":"\"type\":\"reasoning\""}]}`),
		json.RawMessage(`{ "type" : "reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}`),
		json.RawMessage(`{"type":"reasoning","id":"rs_2","summary":[],"content":[{"type":"reasoning_text","text":"so"}]}`),
		json.RawMessage(`{"type":"function_call","call_id":"c","name":"reasoning","arguments":"{}"}`),
	}
	reference := json.RawMessage(`{"type":"reasoning","id":"rs_3","summary":[{"type":"summary_text","text":"so"}],"encrypted_content":null}`)
	want(t, llm.Replayable(slices.Insert(slices.Clone(kept), 2, reference)), kept)
}

package llm_test

import (
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm"
)

func TestResponse_ReadsItsItemsInOrder(t *testing.T) {
	r := llm.Response{Items: raw(
		`{"type":"reasoning","summary":[],"content":7,"name":["x"]}`,
		`{"type":"message","content":[{"type":"output_text","text":"a"},{"type":"refusal","refusal":"no"},{"type":"output_text","text":"b"}]}`,
		`{"type":"function_call","call_id":"c2","name":"g","arguments":"{ \"x\": 1 }"}`,
		`{"type":"function_call","call_id":"c1","name":"f","arguments":"not json"}`,
		`{"type":"message","content":[{"type":"output_text","text":"c"},{"type":"refusal","refusal":"t"}]}`,
		`{"type":"custom_tool_call","call_id":"c3","name":"h","input":"x"}`,
		`7`, `{`,
	)}
	want(t, r.Calls(), []agent.ToolCall{{ID: "c2", Name: "g", Arguments: `{ "x": 1 }`}, {ID: "c1", Name: "f", Arguments: "not json"}})
	want(t, r.Text(), "abc")
	want(t, r.Refusal(), "not")
}

func TestResponse_Empty(t *testing.T) {
	want(t, llm.Read(nil), llm.Said{})
}

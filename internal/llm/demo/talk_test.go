package demo_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3/responses"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/demo"
	"github.com/aptixhq/aptix/internal/llm/wirecheck"
	"github.com/aptixhq/aptix/internal/mode"
)

// talk is a conversation with the model as the server leads it: it keeps the
// transcript, replays it whole, and runs the tools.
type talk struct {
	t     *testing.T
	http  *http.Client
	mode  agent.ModeKey
	tools []string
	// context is the latched solution context.
	context string
	items   []json.RawMessage
}

func newTalk(t *testing.T, tools ...string) *talk {
	return &talk{t: t, http: &http.Client{Transport: demo.Transport()}, mode: agent.ModeGeneral, tools: tools}
}

// serverTools and clientTools are tools in the form in which they go over the wire.
var (
	serverTools = []string{
		tool("agent_change_mode", `{"mode":{"type":"string"},"branch":{"type":"boolean"},"reason":{"type":"string"}}`, `["mode","branch","reason"]`),
		tool("agent_list_modes", `{"includeExamples":{"type":"boolean"}}`, `[]`),
	}
	clientTools = []string{
		tool("list_files", `{"path":{"type":"string"}}`, `[]`),
		tool("read_file", `{"path":{"type":"string"}}`, `["path"]`),
		tool("search_files", `{"query":{"type":"string"},"path":{"type":"string"}}`, `["query"]`),
		tool("write_file", `{"path":{"type":"string"},"content":{"type":"string"}}`, `["path","content"]`),
		tool("run_command", `{"command":{"type":"string"}}`, `["command"]`),
	}
)

func tool(name, properties, required string) string {
	return `{"type":"function","name":"` + name + `","description":"d","parameters":{"type":"object","properties":` + properties + `,"required":` + required + `},"strict":false}`
}

// say sends an instruction and returns the model's answer.
func (k *talk) say(instruction string) responses.Response {
	k.t.Helper()
	k.add(map[string]any{"type": "message", "role": "user", "content": []any{
		map[string]any{"type": "input_text", "text": "[MODE: " + string(k.mode) + "]\n\n[INSTRUCTION]\n" + instruction},
	}})
	return k.ask()
}

// result hands in the output of the given call.
func (k *talk) result(call responses.ResponseOutputItemUnion, output string) {
	k.t.Helper()
	k.add(map[string]any{"type": "function_call_output", "call_id": call.CallID, "output": output})
}

func (k *talk) add(item any) {
	k.t.Helper()
	raw, err := json.Marshal(item)
	if err != nil {
		k.t.Fatal(err)
	}
	k.items = append(k.items, raw)
}

// ask posts the transcript and adds the answer to it.
func (k *talk) ask() responses.Response {
	k.t.Helper()
	body := k.body("")
	wirecheck.Check(k.t, body)
	status, data := k.post(body)
	if status != http.StatusOK {
		k.t.Fatalf("status %d: %s\nfor %s", status, data, body)
	}
	var resp responses.Response
	if err := json.Unmarshal(data, &resp); err != nil {
		k.t.Fatalf("openai-go cannot read the answer: %v\n%s", err, data)
	}
	for _, item := range resp.Output {
		k.items = append(k.items, json.RawMessage(item.RawJSON()))
	}
	return resp
}

// body is the request; extra are more members, each with its comma.
func (k *talk) body(extra string) []byte {
	k.t.Helper()
	instructions, err := json.Marshal(mode.Layer(mode.Builtin(), k.mode, k.context))
	if err != nil {
		k.t.Fatal(err)
	}
	items := make([]string, 0, len(k.items))
	for _, it := range k.items {
		items = append(items, string(it))
	}
	return []byte(`{"model":"demo",` + extra + `"store":false,"instructions":` + string(instructions) +
		`,"tools":[` + strings.Join(k.tools, ",") + `],"input":[` + strings.Join(items, ",") + `]}`)
}

func (k *talk) post(body []byte) (int, []byte) {
	k.t.Helper()
	req, err := http.NewRequestWithContext(k.t.Context(), http.MethodPost, "http://demo.invalid/v1/responses", strings.NewReader(string(body)))
	if err != nil {
		k.t.Fatal(err)
	}
	resp, err := k.http.Do(req)
	if err != nil {
		k.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		k.t.Fatal(err)
	}
	return resp.StatusCode, data
}

// calls returns the function calls of an answer, rendered as name and arguments.
func calls(resp responses.Response) []string {
	var out []string
	for _, item := range resp.Output {
		if item.Type == "function_call" {
			out = append(out, item.Name+" "+item.AsFunctionCall().Arguments)
		}
	}
	return out
}

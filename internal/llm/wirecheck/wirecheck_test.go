package wirecheck_test

import (
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/llm/wirecheck"
)

const good = `{"model":"m","temperature":0.2,"stream":true,"store":true,"include":["reasoning.encrypted_content"],"previous_response_id":"resp_1",` +
	`"instructions":"i","tool_choice":{"type":"function","name":"f"},` +
	`"tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object","properties":{}},"strict":false}],` +
	`"input":[{"type":"message","role":"system","content":[{"type":"input_text","text":"s"}]},` +
	`{"type":"message","role":"user","content":[{"type":"input_text","text":"u"},` +
	`{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,AAAA"},` +
	`{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,AAAA"}]},` +
	`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"},` +
	`{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"hi","annotations":[],"logprobs":[]}]},` +
	`{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":"{}","status":"completed"},` +
	`{"type":"function_call_output","call_id":"call_1","output":"{}"}]}`

func TestCheck_AcceptsARequestWithEveryItemThatWeSend(t *testing.T) {
	wirecheck.Check(t, []byte(good))
}

func TestValidate_RefusesWhatTheAPIRefuses(t *testing.T) {
	if !wirecheck.Available() {
		t.Skip(wirecheck.ErrNoSchema)
	}
	for name, body := range map[string]string{
		"content of type text":     `{"model":"m","input":[{"type":"message","role":"user","content":[{"type":"text","text":"u"}]}]}`,
		"tool_choice of type tool": `{"model":"m","input":"u","tool_choice":{"type":"tool","name":"f"}}`,
		"nested chat tool":         `{"model":"m","input":"u","tools":[{"type":"function","function":{"name":"f","parameters":{}}}]}`,
		"unknown include":          `{"model":"m","input":"u","include":["everything"]}`,
		"output that is no text":   `{"model":"m","input":[{"type":"function_call_output","call_id":"c","output":{"a":1}}]}`,
		"text as temperature":      `{"model":"m","input":"u","temperature":"hot"}`,
		"not JSON":                 `{"model"`,
	} {
		t.Run(name, func(t *testing.T) {
			if err := wirecheck.Validate([]byte(body)); err == nil {
				t.Errorf("Validate(%s) = nil, want an error", body)
			}
		})
	}
}

func TestDecode_RefusesWhatTheClientCannotRead(t *testing.T) {
	for name, body := range map[string]string{
		"not JSON":          `{"model"`,
		"input is a number": `{"model":"m","input":7}`,
		"unknown item":      `{"model":"m","input":[{"type":"teapot","x":1}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			if err := wirecheck.Decode([]byte(body)); err == nil {
				t.Errorf("Decode(%s) = nil, want an error", body)
			}
		})
	}
}

func TestValidate_AnswersAreJudged(t *testing.T) {
	if !wirecheck.Available() {
		t.Skip("WARNING:", wirecheck.ErrNoSchema)
	}
	for _, tt := range []struct {
		name     string
		validate func([]byte) error
		body     string
		ok       bool
	}{
		{"empty response", wirecheck.ValidateResponse, `{}`, false},
		{"status that is none", wirecheck.ValidateResponse, strings.Replace(aResponse, "completed", "done", 1), false},
		{"response", wirecheck.ValidateResponse, aResponse, true},
		{"event of no kind", wirecheck.ValidateEvent, `{"type":"response.text","sequence_number":1}`, false},
		{"event without its number", wirecheck.ValidateEvent, `{"type":"response.completed","response":` + aResponse + `}`, false},
		{"event", wirecheck.ValidateEvent, `{"type":"response.completed","sequence_number":1,"response":` + aResponse + `}`, true},
	} {
		if err := tt.validate([]byte(tt.body)); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

const aResponse = `{"id":"resp_1","object":"response","created_at":1,"status":"completed","error":null,"incomplete_details":null,"instructions":null,` +
	`"model":"m","tools":[],"output":[],"parallel_tool_calls":true,"metadata":{},"tool_choice":"auto","temperature":1,"top_p":1}`

package llm_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/llm/wirecheck"
	"github.com/aptixhq/aptix/internal/prompt"
	"github.com/aptixhq/aptix/internal/prove"
)

var update = flag.Bool("update", false, "write the golden files anew")

const readFile = `{"type":"function","name":"read_file","description":"<b> & co","parameters":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]},"strict":false}`

func ptr[T any](v T) *T { return &v }

// first is the first call of a session's first turn, with everything in it.
func first() (prompt.Input, llm.Lane) {
	in := prompt.Input{
		Context: agent.ConversationContext{Model: "gpt-5-mini", System: "You are Aptix.", Temperature: ptr(0.2)},
		Request: prompt.Request{
			Mode: "general", Instruction: "Why does <main> fail? \"ü\u2028\"", SystemPrompt: "Answer briefly.",
			ToolsJSON: json.RawMessage("[" + readFile + "]"), ToolChoiceName: "read_file",
			Artifacts: []agent.Artifact{
				{RelativePath: "a.go", FileName: "a.go", Contents: "package a\n", Origin: "ide", Language: "go"},
				{RelativePath: "b.pdf", FileName: "b.pdf", Contents: "JVBERgD/", Origin: "user", MimeType: "application/pdf", Encoding: "base64"},
			},
			Images: []agent.Image{{ID: "i1", MimeType: "image/png", DataBase64: "iVBORw=="}},
		},
		RAGContextBlock:        "[CONTEXT]\n1. docs/a.md\n",
		ToolUsageMetadataBlock: "<<<APTIX_SERVER_TOOL_USAGE_METADATA_BEGIN>>>",
		Stream:                 ptr(true),
	}
	return in, llm.Lane{
		Instructions: "Current mode: general", Tools: raw(readFile), FirstCall: true, EncryptedReasoning: true,
		Images: in.Request.Images, Artifacts: in.Request.Artifacts,
	}
}

// second is the call that follows it with the results of two tools.
func second() (prompt.Input, llm.Lane) {
	results := []agent.ToolResult{
		{CallID: "call_1", Name: "read_file", Result: `{"text":"<ok>"}`, Code: agent.OutcomeOK},
		{CallID: "call_2", Name: "read_file", Err: "file \"x\" not found", Code: agent.OutcomeError},
	}
	data, _ := json.Marshal(results)
	in, l := first()
	in.Request = prompt.Request{Mode: "general", ResponseContinuationID: "resp_1", ToolsJSON: in.Request.ToolsJSON,
		ToolChoiceName: "read_file", ToolResultsJSON: string(data)}
	in.RAGContextBlock = ""
	l.FirstCall, l.Images, l.Artifacts, l.ToolOutputs = false, nil, nil, results
	return in, l
}

func TestBuildWire_GoldenBytes(t *testing.T) {
	in, l := first()
	sent := llm.BuildWire(prompt.Build(in), l).New
	in2, l2 := second()
	l2.History = append(append(l2.History, sent...), raw(itemText, itemCall, strings.Replace(itemCall, "call_1", "call_2", 1))...)
	l2Chained := l2
	l2Chained.Chain = true
	for name, w := range map[string]llm.Wire{
		"initial":              llm.BuildWire(prompt.Build(in), l),
		"continuation_replay":  llm.BuildWire(prompt.Build(in2), l2),
		"continuation_chained": llm.BuildWire(prompt.Build(in2), l2Chained),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", "wire_"+name+".json")
			got := string(w.Bytes())
			wirecheck.Check(t, []byte(got))
			if *update {
				if err := os.WriteFile(file, []byte(got+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want(t, got, strings.TrimSuffix(string(data), "\n"))
		})
	}
}

func TestBuildWire_SameInputsSameBytes(t *testing.T) {
	in, l := first()
	a, b := llm.BuildWire(prompt.Build(in), l), llm.BuildWire(prompt.Build(in), l)
	want(t, a, b)
	// Those of other turns, too, hold what is the same once.
	want(t, unsafe.StringData(a.Head) == unsafe.StringData(b.Head), true)
	want(t, &a.New[0][0] == &b.New[0][0], true)
}

// The hash is that of the bytes that are sent.
func TestWire_SHA256(t *testing.T) {
	items := func(n, size int) (out []json.RawMessage) {
		for i := range n {
			out = append(out, json.RawMessage(`{"type":"message","n":`+strconv.Itoa(i)+`,"text":"`+strings.Repeat("x", size)+`"}`))
		}
		return out
	}
	for name, tc := range map[string]struct {
		wire llm.Wire
		body string
	}{
		"nothing":     {llm.Wire{}, ""},
		"no items":    {llm.Wire{Head: "[", Tail: "]"}, "[]"},
		"new":         {llm.Wire{Head: "[", New: items(2, 0), Tail: "]"}, `[{"type":"message","n":0,"text":""},{"type":"message","n":1,"text":""}]`},
		"both":        {llm.Wire{Head: "[", History: items(1, 0), New: items(1, 0), Tail: "]"}, `[{"type":"message","n":0,"text":""},{"type":"message","n":0,"text":""}]`},
		"history":     {llm.Wire{Head: "[", History: items(1, 0), Tail: "]"}, `[{"type":"message","n":0,"text":""}]`},
		"long pieces": {llm.Wire{Head: strings.Repeat("h", 10_000), New: items(1, 10_000), Tail: strings.Repeat("t", 10_000)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			body := tc.wire.Bytes()
			if tc.body != "" {
				want(t, string(body), tc.body)
			}
			sum := sha256.Sum256(body)
			want(t, tc.wire.SHA256(), hex.EncodeToString(sum[:]))
			if size := tc.wire.Size(); size < len(body) || size > len(body)+1 {
				t.Errorf("its size is said to be %d, of %d bytes", size, len(body))
			}
		})
	}
}

// body is a request as the tests look at it.
type body struct {
	Model              string            `json:"model"`
	Temperature        *float64          `json:"temperature"`
	Stream             *bool             `json:"stream"`
	Store              *bool             `json:"store"`
	Include            []string          `json:"include"`
	PreviousResponseID string            `json:"previous_response_id"`
	Instructions       *string           `json:"instructions"`
	ToolChoice         json.RawMessage   `json:"tool_choice"`
	Tools              []json.RawMessage `json:"tools"`
	Input              []struct {
		Type    string `json:"type"`
		Role    string `json:"role"`
		CallID  string `json:"call_id"`
		Output  string `json:"output"`
		Content []struct {
			Type     string `json:"type"`
			Text     string `json:"text"`
			ImageURL string `json:"image_url"`
			Filename string `json:"filename"`
			FileData string `json:"file_data"`
		} `json:"content"`
	} `json:"input"`
}

func build(t *testing.T, in prompt.Input, l llm.Lane) body {
	t.Helper()
	data := llm.BuildWire(prompt.Build(in), l).Bytes()
	wirecheck.Check(t, data)
	var b body
	if err := json.Unmarshal(data, &b); err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	return b
}

// shape names the items of a request in short.
func (b body) shape() []string {
	var out []string
	for _, i := range b.Input {
		switch {
		case i.Role != "":
			var parts []string
			for _, c := range i.Content {
				parts = append(parts, strings.TrimPrefix(c.Type, "input_"))
			}
			out = append(out, i.Role+":"+strings.Join(parts, "+"))
		case i.CallID != "":
			out = append(out, i.Type+":"+i.CallID)
		default:
			out = append(out, i.Type)
		}
	}
	return out
}

func TestBuildWire_Temperature(t *testing.T) {
	in, l := first()
	want(t, build(t, in, l).Temperature, ptr(0.2))
	l.OmitTemperature = true
	want(t, build(t, in, l).Temperature, (*float64)(nil))
}

func TestBuildWire_StreamAsInTheCanonicalRequest(t *testing.T) {
	prove.Rule(t, "AGN003-7-b")
	in, l := first()
	for _, stream := range []*bool{nil, ptr(false), ptr(true)} {
		in.Stream = stream
		want(t, build(t, in, l).Stream, stream)
	}
}

func TestBuildWire_ToolChoiceOnTheFirstCallAndOnlyOfAnAttachedTool(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*prompt.Input, *llm.Lane)
		want   string
	}{
		"first call":      {func(*prompt.Input, *llm.Lane) {}, `{"type":"function","name":"read_file"}`},
		"later call":      {func(_ *prompt.Input, l *llm.Lane) { l.FirstCall = false }, ""},
		"no such tool":    {func(in *prompt.Input, _ *llm.Lane) { in.Request.ToolChoiceName = "read" }, ""},
		"no tools at all": {func(_ *prompt.Input, l *llm.Lane) { l.Tools = nil }, ""},
		"not asked for":   {func(in *prompt.Input, _ *llm.Lane) { in.Request.ToolChoiceName = "" }, ""},
		"a continuation": {func(in *prompt.Input, _ *llm.Lane) { in.Request.ResponseContinuationID = "resp_1" },
			`{"type":"function","name":"read_file"}`},
	} {
		t.Run(name, func(t *testing.T) {
			in, l := first()
			tc.change(&in, &l)
			want(t, string(build(t, in, l).ToolChoice), tc.want)
		})
	}
}

func TestBuildWire_AllowedTools(t *testing.T) {
	const other = `{"type":"function","name":"write_file","parameters":{"type":"object","properties":{}},"strict":false}`
	for name, tc := range map[string]struct {
		change func(*prompt.Input, *llm.Lane)
		want   string
	}{
		"on a later call": {func(_ *prompt.Input, l *llm.Lane) { l.FirstCall = false },
			`{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"read_file"}]}`},
		"a forced tool is one of them": {func(*prompt.Input, *llm.Lane) {}, `{"type":"function","name":"read_file"}`},
		"a tool that is not allowed is not forced": {func(in *prompt.Input, _ *llm.Lane) { in.Request.ToolChoiceName = "write_file" },
			`{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"read_file"}]}`},
		"an endpoint that takes no tool choice": {func(_ *prompt.Input, l *llm.Lane) { l.OmitToolChoice = true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in, l := first()
			l.Tools, l.AllowedTools = append(l.Tools, json.RawMessage(other)), []string{"read_file"}
			tc.change(&in, &l)
			b := build(t, in, l)
			want(t, string(b.ToolChoice), tc.want)
			want(t, len(b.Tools), 2)
		})
	}
}

func TestBuildWire_ImagesOfToolResults(t *testing.T) {
	for name, tc := range map[string]struct {
		omit bool
		want string
	}{
		"shown":     {false, `[{"type":"input_text","text":"a dot"},{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,AAAA"}]`},
		"not shown": {true, `"a dot"`},
	} {
		t.Run(name, func(t *testing.T) {
			in, l := second()
			l.ToolOutputs = []agent.ToolResult{{CallID: "call_1", Name: "look", Result: "a dot", Code: agent.OutcomeOK,
				Images: []agent.Image{{MimeType: "image/png", DataBase64: "AAAA"}}}}
			l.OmitImages = tc.omit
			data := llm.BuildWire(prompt.Build(in), l).Bytes()
			wirecheck.Check(t, data)
			if want := `"type":"function_call_output","call_id":"call_1","output":` + tc.want; !strings.Contains(string(data), want) {
				t.Errorf("no %s in\n%s", want, data)
			}
		})
	}
}

func TestBuildWire_ToolsAndInstructionsOnEveryCall(t *testing.T) {
	in, l := first()
	in2, l2 := second()
	for _, b := range []body{build(t, in, l), build(t, in2, l2)} {
		want(t, len(b.Tools), 1)
		want(t, string(b.Tools[0]), readFile)
		want(t, b.Instructions, ptr("Current mode: general"))
	}
	l.Instructions, l.Tools = "", raw(`"no object"`, `{"cut`, " "+readFile)
	b := build(t, in, l)
	want(t, b.Instructions, (*string)(nil))
	want(t, len(b.Tools), 1)
	l.Tools = nil
	if data := llm.BuildWire(prompt.Build(in), l).Head; strings.Contains(data, `"tools"`) {
		t.Errorf("no tools, but %s", data)
	}
}

func TestBuildWire_Continuity(t *testing.T) {
	history := raw(itemText)
	for name, tc := range map[string]struct {
		chain     bool
		id        string
		encrypted bool
		wantStore bool
		wantID    string
		wantShape []string
		include   []string
	}{
		"replay, initial":       {false, "", true, false, "", []string{"assistant:output_text", "system:text", "user:text"}, []string{"reasoning.encrypted_content"}},
		"replay, continuation":  {false, "resp_1", true, false, "", []string{"assistant:output_text", "user:text"}, []string{"reasoning.encrypted_content"}},
		"replay, no reasoning":  {false, "resp_1", false, false, "", []string{"assistant:output_text", "user:text"}, nil},
		"chained, initial":      {true, "", true, true, "", []string{"assistant:output_text", "system:text", "user:text"}, nil},
		"chained, continuation": {true, "resp_1", true, true, "resp_1", []string{"user:text"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := build(t, prompt.Input{Context: agent.ConversationContext{Model: "m", System: "S"},
				Request: prompt.Request{Mode: "general", Instruction: "x", ResponseContinuationID: tc.id}},
				llm.Lane{Chain: tc.chain, EncryptedReasoning: tc.encrypted, History: history})
			want(t, b.Store, &tc.wantStore)
			want(t, b.PreviousResponseID, tc.wantID)
			want(t, b.shape(), tc.wantShape)
			want(t, b.Include, tc.include)
		})
	}
}

func TestBuildWire_HistoryIsSentByteForByte(t *testing.T) {
	odd := `{ "type":"message", "role" : "assistant","content":[{"type":"output_text","text":"\u003c<\/>","annotations":[],"logprobs":[]}],"id":"m","status":"completed" }`
	w := llm.BuildWire(prompt.Build(prompt.Input{Context: agent.ConversationContext{Model: "m"}, Request: prompt.Request{Mode: "general", Instruction: "x"}}),
		llm.Lane{History: raw(odd, itemCall)})
	wirecheck.Check(t, append([]byte{}, w.Bytes()...))
	if !strings.Contains(string(w.Bytes()), `"input":[`+odd+`,`+itemCall+`,{`) {
		t.Errorf("the history is not in %s", w.Bytes())
	}
}

func TestBuildWire_Items(t *testing.T) {
	results := []agent.ToolResult{{CallID: "call_2", Result: "b", Code: agent.OutcomeOK}, {CallID: "call_1", Result: "a", Code: agent.OutcomeOK}}
	data, _ := json.Marshal(results)
	for name, tc := range map[string]struct {
		req  prompt.Request
		rag  string
		lane llm.Lane
		want []string
	}{
		"an empty boot prompt says nothing": {prompt.Request{Instruction: "x"}, "", llm.Lane{}, []string{"user:text"}},
		"results in call order, no user message": {prompt.Request{ResponseContinuationID: "r", ToolResultsJSON: string(data)}, "", llm.Lane{ToolOutputs: results},
			[]string{"function_call_output:call_2", "function_call_output:call_1"}},
		"results and context": {prompt.Request{ResponseContinuationID: "r", ToolResultsJSON: string(data)}, "[CONTEXT]\n1\n", llm.Lane{ToolOutputs: results},
			[]string{"function_call_output:call_2", "function_call_output:call_1", "user:text+text"}},
		"results as text when no item carries them": {prompt.Request{ResponseContinuationID: "r", ToolResultsJSON: string(data)}, "", llm.Lane{},
			[]string{"user:text+text"}},
		"an instruction that looks like results": {prompt.Request{Instruction: "[TOOL_RESULTS]\n"}, "", llm.Lane{ToolOutputs: results},
			[]string{"function_call_output:call_2", "function_call_output:call_1", "user:text"}},
		"nothing to say": {prompt.Request{ResponseContinuationID: "r"}, "", llm.Lane{}, nil},
		"pictures and files": {prompt.Request{ResponseContinuationID: "r"}, "", llm.Lane{
			Images:    []agent.Image{{ID: "i", MimeType: "image/png", DataBase64: "AA=="}},
			Artifacts: []agent.Artifact{{FileName: "a", Contents: "text"}, {FileName: "b", Contents: "AP8=", Encoding: "base64"}},
		}, []string{"user:text+image+file"}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.req.Mode = "general"
			b := build(t, prompt.Input{Context: agent.ConversationContext{Model: "m"}, Request: tc.req, RAGContextBlock: tc.rag}, tc.lane)
			want(t, b.shape(), tc.want)
		})
	}
}

func TestBuildWire_OutputOfATool(t *testing.T) {
	for name, tc := range map[string]struct {
		result agent.ToolResult
		want   string
	}{
		"a result":              {agent.ToolResult{Result: `{"a":"<b>"}`, Code: agent.OutcomeOK}, `{"a":"<b>"}`},
		"an empty one":          {agent.ToolResult{Code: agent.OutcomeOK}, ""},
		"no outcome":            {agent.ToolResult{Result: "x"}, "x"},
		"an error":              {agent.ToolResult{Err: "no <file> \"x\"", Code: agent.OutcomeError}, `{"error":"no <file> \"x\""}`},
		"an error, no outcome":  {agent.ToolResult{Err: "no"}, `{"error":"no"}`},
		"a failure that speaks": {agent.ToolResult{Result: "half", Code: agent.OutcomeCancelled}, `{"error":"half"}`},
		"bytes":                 {agent.ToolResult{Result: "\xff", Code: agent.OutcomeOK}, "\uFFFD"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.result.CallID = "call_1"
			b := build(t, prompt.Input{Context: agent.ConversationContext{Model: "m"}, Request: prompt.Request{Mode: "general", ResponseContinuationID: "r"}},
				llm.Lane{ToolOutputs: []agent.ToolResult{tc.result}})
			want(t, b.Input[0].Output, tc.want)
		})
	}
}

func TestBuildWire_DataURLs(t *testing.T) {
	b := build(t, prompt.Input{Context: agent.ConversationContext{Model: "m"}, Request: prompt.Request{Mode: "general", Instruction: "x"}}, llm.Lane{
		Images: []agent.Image{{MimeType: "image/PNG", DataBase64: "AA=="}, {MimeType: "a,b\"", DataBase64: "AA"}},
		Artifacts: []agent.Artifact{
			{FileName: "b.pdf", MimeType: "application/pdf", Contents: "AP8", Encoding: "base64"},
			{FileName: "c", Contents: "AP8=", Encoding: "base64"},
		},
	})
	var got []string
	for _, c := range b.Input[0].Content[1:] {
		got = append(got, c.ImageURL+c.Filename+" "+c.FileData)
	}
	want(t, got, []string{
		"data:image/png;base64,AA== ", "data:application/octet-stream;base64,AA== ",
		"b.pdf data:application/pdf;base64,AP8=", "c data:application/octet-stream;base64,AP8=",
	})
}

func TestBuildWire_OfARequestThatBuildCannotMake(t *testing.T) {
	w := llm.BuildWire(prompt.Canonical{Input: []prompt.Message{{Role: "user"}, {Role: "other"}}}, llm.Lane{})
	want(t, len(w.New), 0)
	want(t, json.Valid(w.Bytes()), true)
}

func FuzzBuildWire(f *testing.F) {
	f.Add("general", "do", "S", "[{}]", `[{"toolCallId":"c"}]`, "resp_1", "i", "image/png", "AA==")
	f.Add("", "\xff", "", "[", "", "", "\u2028", ";", "\r\n\xff")
	f.Fuzz(func(t *testing.T, mode, instruction, system, tools, results, id, instructions, mime, data string) {
		c := prompt.Build(prompt.Input{
			Context: agent.ConversationContext{Model: "m", System: system},
			Request: prompt.Request{Mode: agent.ModeKey(mode), Instruction: instruction, ResponseContinuationID: id, ToolsJSON: json.RawMessage(tools), ToolResultsJSON: results},
		})
		l := llm.Lane{Instructions: instructions, Tools: raw(tools), Chain: len(id)%2 == 0,
			ToolOutputs: []agent.ToolResult{{CallID: agent.CallID(id), Result: results, Err: system}},
			Images:      []agent.Image{{MimeType: mime, DataBase64: data}},
			Artifacts:   []agent.Artifact{{FileName: mime, Contents: data, MimeType: mime, Encoding: "base64"}}}
		if b := llm.BuildWire(c, l).Bytes(); !json.Valid(b) || string(b) != string(llm.BuildWire(c, l).Bytes()) {
			t.Fatalf("not JSON or not stable: %q", b)
		}
		if !json.Valid([]byte(c.JSON())) {
			t.Fatalf("not JSON: %q", c.JSON())
		}
	})
}

// TestBuildWire_WhatAnEndpointDoesNotTakeIsLeftOut has a case for each capability that
// shows in the body.
func TestBuildWire_WhatAnEndpointDoesNotTakeIsLeftOut(t *testing.T) {
	for member, omit := range map[string]func(*llm.Lane){
		"store":       func(l *llm.Lane) { l.OmitStore = true },
		"tool_choice": func(l *llm.Lane) { l.OmitToolChoice = true },
		"temperature": func(l *llm.Lane) { l.OmitTemperature = true },
		"include":     func(l *llm.Lane) { l.EncryptedReasoning = false },
	} {
		t.Run(member, func(t *testing.T) {
			in, l := first()
			want := fields(t, in, l)
			if _, ok := want[member]; !ok {
				t.Fatalf("%s is not in the request, so the test shows nothing", member)
			}
			delete(want, member)
			omit(&l)
			if d := cmp.Diff(want, fields(t, in, l)); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
	t.Run("store of a chained request", func(t *testing.T) {
		in, l := second()
		l.Chain, l.OmitStore = true, true
		b := build(t, in, l)
		want(t, b.Store, (*bool)(nil))
		want(t, b.PreviousResponseID, "resp_1")
	})
}

// fields are the members of a request's body, byte for byte.
func fields(t *testing.T, in prompt.Input, l llm.Lane) map[string]string {
	t.Helper()
	data := llm.BuildWire(prompt.Build(in), l).Bytes()
	wirecheck.Check(t, data)
	var m map[string]json.RawMessage
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	out := map[string]string{}
	for name, value := range m {
		out[name] = string(value)
	}
	return out
}

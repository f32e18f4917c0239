package prompt_test

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prompt"
	"github.com/aptixhq/aptix/internal/prove"
)

var update = flag.Bool("update", false, "write the golden files anew")

const usage = "<<<APTIX_SERVER_TOOL_USAGE_METADATA_BEGIN>>>\n" +
	"<<<APTIX_TOOL_USAGE_BEGIN name='agent_change_mode'>>>\nAsk first.\n<<<APTIX_TOOL_USAGE_END name='agent_change_mode'>>>\n" +
	"<<<APTIX_SERVER_TOOL_USAGE_METADATA_END>>>"

const rag = "[CONTEXT]\n  1. docs/a.md  \n\n\tkept <as> it & is\n"

const results = `[{"toolCallId":"call_1","name":"read_file","resultJson":"{\"ok\":true}","executionMs":12,"executedBy":"client","outcome":"ok"},` +
	`{"toolCallId":"call_2","name":"write_file","errorMessage":"file not found","executionMs":3,"executedBy":"client","outcome":"error"}]`

const oneTool = `{"type":"function","name":"read_file","description":"<b> & co","parameters":{"type":"object"},"strict":false}`

// initial has every input of an initial request set.
func initial() prompt.Input {
	temperature, stream := 0.2, true
	return prompt.Input{
		Context: agent.ConversationContext{ID: "default", Model: "gpt-5-mini", System: "You are Aptix.", Temperature: &temperature},
		Request: prompt.Request{
			Mode:           "general",
			Instruction:    "Why does <main> fail? \"quoted\"\nü€😀",
			ToolsJSON:      json.RawMessage(" [ " + oneTool + " ] "),
			ToolChoiceName: "read_file",
			SystemPrompt:   "Answer briefly.",
			Artifacts: []agent.Artifact{
				{RelativePath: "src/a.go", FileName: "a.go", Contents: "package a\n", Origin: "ide", MimeType: "text/x-go", Language: "go", Encoding: "utf8"},
				{RelativePath: "doc/b.pdf", FileName: "b.pdf", Contents: "JVBERgD/", Origin: "user", MimeType: "application/pdf", Encoding: "base64"},
			},
			Images: []agent.Image{{ID: "i1", MimeType: "image/png", DataBase64: "iVBORw=="}},
		},
		RAGContextBlock:        rag,
		ToolUsageMetadataBlock: usage,
		Stream:                 &stream,
	}
}

// continuation is what follows in the same session.
func continuation() prompt.Input {
	in := initial()
	in.Request.ResponseContinuationID = "resp_1"
	in.Request.Instruction = ""
	in.Request.ToolResultsJSON = results
	in.Request.Artifacts, in.Request.Images = nil, nil
	return in
}

func texts(m prompt.Message) []string {
	var out []string
	for _, c := range m.Content {
		out = append(out, c.Text)
	}
	return out
}

func roles(c prompt.Canonical) []string {
	var out []string
	for _, m := range c.Input {
		out = append(out, m.Role)
	}
	return out
}

func want(t *testing.T, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func user(c prompt.Canonical) prompt.Message { return c.Input[len(c.Input)-1] }

func TestBuild_GoldenBytes(t *testing.T) {
	prove.Rule(t, "AGN003-1-a", "AGN003-8-a", "AGN003-8-b", "AGN003-8-h")
	for name, in := range map[string]prompt.Input{"initial": initial(), "continuation": continuation()} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", name+".json")
			got := prompt.Build(in).JSON()
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

// composed matches a canonical request that is put together by hand; the zero value
// beside an error is not.
var composed = regexp.MustCompile(`prompt\.Canonical\{\s*[^}\s]`)

// Every member of the canonical request must come from the builder, so nobody else
// may put one together.
func TestBuild_IsTheOnlyBuilder(t *testing.T) {
	prove.Rule(t, "AGN003-1-a")
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if composed.Match(src) {
			t.Errorf("%s puts a canonical request together; that is prompt.Build's work", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestBuild_SameInputsSameBytes(t *testing.T) {
	prove.Rule(t, "AGN003-1-a")
	for range 20 {
		want(t, prompt.Build(initial()).JSON(), prompt.Build(initial()).JSON())
	}
}

func TestBuild_LeavesItsInputAlone(t *testing.T) {
	in := initial()
	prompt.Build(in)
	want(t, in, initial())
}

func TestBuild_TakesModelTemperatureAndStreamFromItsInputs(t *testing.T) {
	prove.Rule(t, "AGN003-2-a", "AGN003-2-c", "AGN003-3-a", "AGN003-3-b", "AGN003-3-c", "AGN003-7-a", "AGN003-7-b", "AGN003-8-a")
	yes, no, zero, nan := true, false, 0.0, math.NaN()
	for name, tc := range map[string]struct {
		temperature *float64
		stream      *bool
		want        string
	}{
		"both absent":      {nil, nil, `{"model":"m","input"`},
		"zero and false":   {&zero, &no, `{"model":"m","temperature":0,"stream":false,"input"`},
		"zero and true":    {&zero, &yes, `{"model":"m","temperature":0,"stream":true,"input"`},
		"no number at all": {&nan, nil, `{"model":"m","input"`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, id := range []string{"", "resp_1"} {
				c := prompt.Build(prompt.Input{
					Context: agent.ConversationContext{Model: "m", Temperature: tc.temperature},
					Request: prompt.Request{Mode: "general", ResponseContinuationID: id},
					Stream:  tc.stream,
				})
				c.PreviousResponseID = ""
				if got := c.JSON(); !strings.HasPrefix(got, tc.want) {
					t.Errorf("got %s, want it to begin with %s", got, tc.want)
				}
			}
		})
	}
}

func TestBuild_ReadsEveryInputOfTheRequest(t *testing.T) {
	prove.Rule(t, "AGN003-2-a", "AGN003-2-b", "AGN003-2-c")
	base := initial()
	before := prompt.Build(base).JSON()
	more := continuation()
	beforeMore := prompt.Build(more).JSON()
	for name, change := range map[string]func(*prompt.Input){
		"ModelName":              func(in *prompt.Input) { in.Context.Model = "other" },
		"System":                 func(in *prompt.Input) { in.Context.System = "other" },
		"Temperature":            func(in *prompt.Input) { in.Context.Temperature = nil },
		"Mode":                   func(in *prompt.Input) { in.Request.Mode = "other" },
		"Instruction":            func(in *prompt.Input) { in.Request.Instruction = "other" },
		"ResponseContinuationId": func(in *prompt.Input) { in.Request.ResponseContinuationID += "other" },
		"ToolsJson":              func(in *prompt.Input) { in.Request.ToolsJSON = json.RawMessage(`[{"name":"other"}]`) },
		"ToolChoiceName":         func(in *prompt.Input) { in.Request.ToolChoiceName = "other" },
		"ToolResultsJson":        func(in *prompt.Input) { in.Request.ToolResultsJSON = "[]" },
		"SystemPrompt":           func(in *prompt.Input) { in.Request.SystemPrompt = "other" },
		"ragContextBlock":        func(in *prompt.Input) { in.RAGContextBlock = "other" },
		"toolUsageMetadataBlock": func(in *prompt.Input) { in.ToolUsageMetadataBlock = "other" },
		"stream":                 func(in *prompt.Input) { in.Stream = nil },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := base, more
			change(&a)
			change(&b)
			if prompt.Build(a).JSON() == before && prompt.Build(b).JSON() == beforeMore {
				t.Error("the input has no effect on any request")
			}
		})
	}
}

func TestBuild_InitialOrContinuationByTheContinuationIDAlone(t *testing.T) {
	prove.Rule(t, "AGN003-3-d", "AGN003-3-e", "AGN003-3-f", "AGN003-3-h", "AGN003-3-i", "AGN003-4-a", "AGN003-4.4-a", "AGN003-4.4-b",
		"AGN003-5-a", "AGN003-6.1-d", "AGN003-8-b", "AGN003-8-c", "AGN003-8-d", "AGN003-8-e", "AGN003-8-f", "AGN003-8-h")
	t.Run("initial", func(t *testing.T) {
		c := prompt.Build(initial())
		want(t, roles(c), []string{"system", "user"})
		want(t, c.PreviousResponseID, "")
		want(t, len(c.Tools), 1)
		if strings.Contains(c.JSON(), "previous_response_id") {
			t.Error("an initial request names a previous response")
		}
	})
	t.Run("continuation", func(t *testing.T) {
		in := initial() // everything of an initial request is still there
		in.Request.ResponseContinuationID = "resp_1"
		c := prompt.Build(in)
		want(t, roles(c), []string{"user"})
		want(t, c.PreviousResponseID, "resp_1")
		want(t, len(c.Tools), 0)
		for _, gone := range []string{`"tools"`, in.Context.System, in.Request.SystemPrompt, "USAGE_METADATA"} {
			if strings.Contains(c.JSON(), gone) {
				t.Errorf("a continuation still carries %s", gone)
			}
		}
	})
}

func TestBuild_SystemMessage(t *testing.T) {
	prove.Rule(t, "AGN003-4-a", "AGN003-4.1-a", "AGN003-4.1-b", "AGN003-4.2-a", "AGN003-4.2-b", "AGN003-4.2-c", "AGN003-4.3-a", "AGN003-4.3-b", "AGN003-8-c", "AGN003-8-l")
	for name, tc := range map[string]struct {
		system, prompt, usage string
		want                  []string
	}{
		"all three":                 {"S", "P", usage, []string{"S", "P", usage}},
		"no usage":                  {"S", "P", "", []string{"S", "P"}},
		"no prompt":                 {"S", "", usage, []string{"S", usage}},
		"blank prompt":              {"S", " \t\r\n\u00a0", usage, []string{"S", usage}},
		"system alone":              {"S", "", "", []string{"S"}},
		"empty system is there":     {"", "", "", []string{""}},
		"empty system stays first":  {"", "P", usage, []string{"", "P", usage}},
		"prompt is taken as it is":  {"S", " P\n", "", []string{"S", " P\n"}},
		"texts are not mixed up":    {"<S>", "<P>", "<U>", []string{"<S>", "<P>", "<U>"}},
		"same text is not dropped":  {"S", "S", "S", []string{"S", "S", "S"}},
		"usage as it is, untrimmed": {"S", "", " \n", []string{"S", " \n"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := prompt.Input{Context: agent.ConversationContext{System: tc.system}, Request: prompt.Request{Mode: "general", SystemPrompt: tc.prompt}, ToolUsageMetadataBlock: tc.usage}
			c := prompt.Build(in)
			want(t, roles(c), []string{"system", "user"})
			want(t, texts(c.Input[0]), tc.want)
			for _, item := range c.Input[0].Content {
				want(t, item.Type, "text")
			}
			in.Request.ResponseContinuationID = "resp_1"
			want(t, roles(prompt.Build(in)), []string{"user"})
		})
	}
}

func TestBuild_UserMessage(t *testing.T) {
	prove.Rule(t, "AGN003-3-e", "AGN003-5-a", "AGN003-5-b", "AGN003-5-c", "AGN003-5.1-a", "AGN003-5.2-a", "AGN003-5.2-b", "AGN003-5.3-a", "AGN003-5.3-b",
		"AGN003-8-e", "AGN003-8-i", "AGN003-8-k")
	block := prompt.BuildFromToolResultsJSON(results)
	for name, tc := range map[string]struct {
		in   prompt.Input
		want []string
	}{
		"instruction alone": {
			prompt.Input{Request: prompt.Request{Mode: "general", Instruction: "Do it."}},
			[]string{"[MODE: general]\n\n[INSTRUCTION]\nDo it."},
		},
		"raw instruction": {
			prompt.Input{Request: prompt.Request{Mode: "ddr_authoring", Instruction: "  \"a\" <b>\n{\"c\": 1}\n"}},
			[]string{"[MODE: ddr_authoring]\n\n[INSTRUCTION]\n  \"a\" <b>\n{\"c\": 1}\n"},
		},
		"empty instruction keeps both headers": {
			prompt.Input{Request: prompt.Request{Mode: "general", ResponseContinuationID: "resp_1"}},
			[]string{"[MODE: general]\n\n[INSTRUCTION]\n"},
		},
		"RAG is second, as it is": {
			prompt.Input{Request: prompt.Request{Mode: "general", Instruction: "Do it."}, RAGContextBlock: rag},
			[]string{"[MODE: general]\n\n[INSTRUCTION]\nDo it.", rag},
		},
		"RAG on a continuation": {
			prompt.Input{Request: prompt.Request{Mode: "general", Instruction: "Do it.", ResponseContinuationID: "resp_1"}, RAGContextBlock: rag},
			[]string{"[MODE: general]\n\n[INSTRUCTION]\nDo it.", rag},
		},
		"tool results on a continuation": {
			prompt.Input{Request: prompt.Request{Mode: "general", ResponseContinuationID: "resp_1", ToolResultsJSON: results}},
			[]string{"[MODE: general]\n\n[INSTRUCTION]\n", block},
		},
		"tool results follow RAG": {
			prompt.Input{Request: prompt.Request{Mode: "general", ResponseContinuationID: "resp_1", ToolResultsJSON: results}, RAGContextBlock: rag},
			[]string{"[MODE: general]\n\n[INSTRUCTION]\n", rag, block},
		},
		"tool results are for continuations only": {
			prompt.Input{Request: prompt.Request{Mode: "general", Instruction: "Do it.", ToolResultsJSON: results}},
			[]string{"[MODE: general]\n\n[INSTRUCTION]\nDo it."},
		},
		"tool results that do not parse": {
			prompt.Input{Request: prompt.Request{Mode: "general", ResponseContinuationID: "resp_1", ToolResultsJSON: "[{"}},
			[]string{"[MODE: general]\n\n[INSTRUCTION]\n"},
		},
		"artifacts and images come last": {
			prompt.Input{Request: prompt.Request{Mode: "general", ResponseContinuationID: "resp_1", ToolResultsJSON: results,
				Artifacts: initial().Request.Artifacts, Images: initial().Request.Images}, RAGContextBlock: rag},
			[]string{"[MODE: general]\n\n[INSTRUCTION]\n", rag, block,
				prompt.ArtifactsBlock(initial().Request.Artifacts), prompt.ImagesBlock(initial().Request.Images)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := prompt.Build(tc.in)
			n := 0
			for _, r := range roles(c) {
				if r == "user" {
					n++
				}
			}
			want(t, n, 1)
			want(t, texts(user(c)), tc.want)
			for _, item := range user(c).Content {
				want(t, item.Type, "text")
			}
		})
	}
}

func TestBuild_Tools(t *testing.T) {
	prove.Rule(t, "AGN003-3-f", "AGN003-6.1-a", "AGN003-6.1-b", "AGN003-6.1-c", "AGN003-6.1-d", "AGN003-8-f", "AGN003-8-j")
	for name, tc := range map[string]struct {
		raw  string
		want []string
	}{
		"none":                        {"", nil},
		"an empty array":              {"[]", nil},
		"one":                         {"[" + oneTool + "]", []string{oneTool}},
		"order is kept, space is not": {` [ {"b": 1} ,` + "\n" + `{"a": [ ] } ] `, []string{`{"b":1}`, `{"a":[]}`}},
		"only objects":                {`[1,"x",null,true,[{"a":1}],{"b":2},1.5]`, []string{`{"b":2}`}},
		"no object at all":            {`[1,null]`, nil},
		"an object":                   {oneTool, nil},
		"null":                        {"null", nil},
		"a string":                    {`"[]"`, nil},
		"cut":                         {"[" + oneTool, nil},
		"trailing data":               {"[" + oneTool + "]]", nil},
		"one broken element":          {"[" + oneTool + `,{"a":}]`, nil},
		"no JSON":                     {"tools", nil},
		"escapes are left alone":      {`[{"a":"\u003c<\u2028"}]`, []string{`{"a":"\u003c<\u2028"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			in := prompt.Input{Request: prompt.Request{Mode: "general", ToolsJSON: json.RawMessage(tc.raw)}}
			c := prompt.Build(in)
			var got []string
			for _, tool := range c.Tools {
				got = append(got, string(tool))
			}
			want(t, got, tc.want)
			wantMember := tc.want != nil
			if has := strings.Contains(c.JSON(), `"tools":[`); has != wantMember {
				t.Errorf("the request has tools: %t, want %t", has, wantMember)
			}
			in.Request.ResponseContinuationID = "resp_1"
			want(t, len(prompt.Build(in).Tools), 0)
		})
	}
}

func TestBuild_ToolChoice(t *testing.T) {
	prove.Rule(t, "AGN003-3-g", "AGN003-6.2-a", "AGN003-6.2-b", "AGN003-8-g", "AGN003-8-j")
	for _, id := range []string{"", "resp_1"} {
		c := prompt.Build(prompt.Input{Request: prompt.Request{Mode: "general", ResponseContinuationID: id, ToolChoiceName: "read_file"}})
		if got := c.JSON(); !strings.HasSuffix(got, `,"tool_choice":{"type":"tool","name":"read_file"}}`) {
			t.Errorf("got %s, want it to end in the tool choice", got)
		}
		c = prompt.Build(prompt.Input{Request: prompt.Request{Mode: "general", ResponseContinuationID: id}})
		if got := c.JSON(); strings.Contains(got, "tool_choice") {
			t.Errorf("got %s, want no tool choice", got)
		}
	}
}

func TestCanonical_JSONNeedsNoEscapes(t *testing.T) {
	in := prompt.Input{
		Context: agent.ConversationContext{Model: "m\xff", System: "a <b> & 'c'"},
		Request: prompt.Request{Mode: "general", Instruction: "bad \xff\xfe bytes", ToolsJSON: json.RawMessage("[{\"a\":\"\xff<\"}]")},
	}
	got := prompt.Build(in).JSON()
	want(t, got, "{\"model\":\"m\uFFFD\",\"input\":[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"a <b> & 'c'\"}]},"+
		"{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"[MODE: general]\\n\\n[INSTRUCTION]\\nbad \uFFFD bytes\"}]}],\"tools\":[{\"a\":\"\uFFFD<\"}]}")
}

func TestCanonical_JSONOfWhatBuildCannotMake(t *testing.T) {
	want(t, prompt.Canonical{Tools: []json.RawMessage{json.RawMessage("{")}}.JSON(), "")
}

func TestMessage_HeaderOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		in   prompt.Input
		want bool
	}{
		"no instruction":                  {prompt.Input{Request: prompt.Request{Mode: "general"}}, true},
		"an instruction":                  {prompt.Input{Request: prompt.Request{Mode: "general", Instruction: "x"}}, false},
		"the header as an instruction":    {prompt.Input{Request: prompt.Request{Mode: "general", Instruction: "\n\n[INSTRUCTION]\n"}}, false},
		"no instruction but a RAG block":  {prompt.Input{Request: prompt.Request{Mode: "general"}, RAGContextBlock: rag}, false},
		"no instruction but an artifact":  {prompt.Input{Request: prompt.Request{Mode: "general", Artifacts: []agent.Artifact{{}}}}, false},
		"no instruction but tool results": {continuation(), false},
	} {
		t.Run(name, func(t *testing.T) {
			want(t, user(prompt.Build(tc.in)).HeaderOnly(), tc.want)
		})
	}
	want(t, prompt.Build(prompt.Input{}).Input[0].HeaderOnly(), false)
}

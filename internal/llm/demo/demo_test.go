package demo_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3/responses"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prove"
)

func TestModel_AnswersAnInstruction(t *testing.T) {
	for _, tt := range []struct {
		name, say string
		tools     []string
		want      []string // parts of the text
	}{
		{"plain", "What is the capital of France?", serverTools, []string{"offline demo model", "“What is the capital of France?”", "**general** (General)", "2 tools", "`agent_change_mode`", "list the modes", "help me write a design decision record", "OPENAI_API_KEY"}},
		{"with client tools", "Why is the sky blue?", slices.Concat(serverTools, clientTools), []string{"7 tools", "`read_file`", "read README.md", "list files"}},
		{"without tools", "Why is the sky blue?", nil, []string{"no tools are attached"}},
		{"greeting", "hello", serverTools, []string{"Hello!", "**general**", "list the modes"}},
		{"help", "what can you do?", serverTools, []string{"offline demo model", "Try one of these"}},
		{"thanks", "Thank you!", serverTools, []string{"You are welcome"}},
		{"current mode", "Which mode am I in?", serverTools, []string{"in **general** (General) mode", "everyday Q&A"}},
		{"same mode", "switch to general", serverTools, []string{"in **general** (General) mode already"}},
		{"unknown mode", "switch to pirate mode", serverTools, []string{"do not know which mode", "ddr_authoring"}},
		{"modes without the tool", "which modes are there?", nil, []string{"3 modes", "**general** (General), the current one", "**workflow_authoring** (Workflow authoring): Use this mode to design"}},
		{"file without a tool", "read README.md", serverTools, []string{"`read_file`", "no such tool", "aptix chat"}},
		{"unknown tool", `call no_such {"a":1}`, serverTools, []string{"no tool `no_such`", "`agent_list_modes`"}},
		{"empty", "", serverTools, []string{"offline demo model"}},
		{"HTML", "is a<b && c>d ?", serverTools, []string{"“is a<b && c>d ?”"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp := newTalk(t, tt.tools...).say(tt.say)
			if c := calls(resp); len(c) > 0 {
				t.Errorf("it calls %q", c)
			}
			for _, want := range tt.want {
				if !strings.Contains(resp.OutputText(), want) {
					t.Errorf("the answer does not say %q:\n%s", want, resp.OutputText())
				}
			}
			if resp.Usage.TotalTokens == 0 || resp.Usage.TotalTokens != resp.Usage.InputTokens+resp.Usage.OutputTokens {
				t.Errorf("usage is %+v", resp.Usage)
			}
		})
	}
}

func TestModel_CallsWhatTheInstructionAsksFor(t *testing.T) {
	all := slices.Concat(serverTools, clientTools)
	for _, tt := range []struct {
		say  string
		want []string
	}{
		{"read README.md", []string{`read_file {"path":"README.md"}`}},
		{"Please show me the file src/main.go.", []string{`read_file {"path":"src/main.go"}`}},
		{"open the README", []string{`read_file {"path":"README"}`}},
		{"what's in go.mod?", []string{`read_file {"path":"go.mod"}`}},
		{"Can you summarise `docs/a.md`?", []string{`read_file {"path":"docs/a.md"}`}},
		{"read a.go and b.go", []string{`read_file {"path":"a.go"}`, `read_file {"path":"b.go"}`}},
		{"read a.go, b.go and then list files in src", []string{`read_file {"path":"a.go"}`, `read_file {"path":"b.go"}`, `list_files {"path":"src"}`}},
		{"list files", []string{`list_files {"path":"."}`}},
		{"List the files in this project.", []string{`list_files {"path":"."}`}},
		{"ls", []string{`list_files {"path":"."}`}},
		{"ls internal/llm", []string{`list_files {"path":"internal/llm"}`}},
		{"search for TODO", []string{`search_files {"query":"TODO"}`}},
		{`grep "func main" in cmd/aptix`, []string{`search_files {"path":"cmd/aptix","query":"func main"}`}},
		{"find all uses of Transport in the project", []string{`search_files {"query":"Transport"}`}},
		{`write "hello and read a.go" to hello.txt`, []string{`write_file {"content":"hello and read a.go","path":"hello.txt"}`}},
		{"save a<b to x.txt", []string{`write_file {"content":"a<b","path":"x.txt"}`}},
		{"create notes.md", []string{`write_file {"content":"","path":"notes.md"}`}},
		{"create a new file notes.md with the text “one”", []string{`write_file {"content":"one","path":"notes.md"}`}},
		{"write notes.txt: first\nsecond", []string{`write_file {"content":"first\nsecond","path":"notes.txt"}`}},
		{"run go test ./...", []string{`run_command {"command":"go test ./..."}`}},
		{"run `make && make check` please", []string{`run_command {"command":"make && make check"}`}},
		{"list the modes", []string{`agent_list_modes {}`}},
		{"Which modes are there, with examples?", []string{`agent_list_modes {"includeExamples":true}`}},
		{"what modes can I use", []string{`agent_list_modes {}`}},
		{`call read_file {"path": "x", "n": {"a": [1]}}`, []string{`read_file {"path": "x", "n": {"a": [1]}}`}},
		{`call read_file with {"path":"x"} and call list_files`, []string{`read_file {"path":"x"}`, `list_files {}`}},
		{`call read_file {"path": oops`, []string{`read_file {"path": oops`}},
		{`call agent_change_mode {"mode":"nowhere","branch":false,"reason":"r"}`, []string{`agent_change_mode {"mode":"nowhere","branch":false,"reason":"r"}`}},

		{"explain client/server architecture", nil},
		{"read between the lines, e.g. here", nil},
		{"run the tests", nil},
		{"find out why it rains", nil},
		{"show https://example.com/a.html", nil},
		{"call me maybe", nil},
	} {
		t.Run(tt.say, func(t *testing.T) {
			resp := newTalk(t, all...).say(tt.say)
			if diff := cmp.Diff(tt.want, calls(resp)); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestModel_BoundsItsCalls(t *testing.T) {
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprintf("f%d.go", i))
	}
	resp := newTalk(t, clientTools...).say("read " + strings.Join(names, " "))
	if n := len(calls(resp)); n != 8 {
		t.Errorf("%d calls in one answer, want 8", n)
	}
}

func TestModel_NamesArgumentsAsTheToolDoes(t *testing.T) {
	for _, tt := range []struct{ name, tool, say, want string }{
		{"other name", tool("read_file", `{"file_path":{"type":"string"},"limit":{"type":"integer"}}`, `["file_path"]`), "read a.go", `read_file {"file_path":"a.go"}`},
		{"unknown name", tool("read_file", `{"encoding":{"type":"string"},"target":{"type":"string"}}`, `["target"]`), "read a.go", `read_file {"target":"a.go"}`},
		{"no parameters", `{"type":"function","name":"read_file","parameters":{},"strict":false}`, "read a.go", `read_file {"path":"a.go"}`},
		{"list without a path", tool("list_files", `{"glob":{"type":"string"}}`, `[]`), "list files", `list_files {}`},
		{"array", tool("run_command", `{"args":{"type":"array","items":{"type":"string"}}}`, `["args"]`), "run go vet", `run_command {"args":["go","vet"]}`},
		{"odd parameters", `{"type":"function","name":"read_file","parameters":{"properties":7},"strict":false}`, "read a.go", `read_file {"path":"a.go"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff([]string{tt.want}, calls(newTalk(t, tt.tool).say(tt.say))); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestModel_SummarisesResults(t *testing.T) {
	long := strings.Repeat("line\n", 40)
	quoted, err := json.Marshal(map[string]string{"content": long})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, say, output string
		want              []string
		not               string
	}{
		{"file", "read a.go", `{"content":"package a\n\tfunc F() {}\n"}`, []string{"`read_file` (a.go) returned 2 lines:", "    package a", "    \tfunc F() {}", "this is what came back"}, "first"},
		{"long file", "read a.go", string(quoted), []string{"40 lines, here are the first 12:"}, ""},
		{"plain text", "read a.go", "one\ntwo\n", []string{"2 lines"}, ""},
		{"JSON text", "read a.go", `"one"`, []string{"one line:", "    one"}, ""},
		{"list", "list files", `{"files":["a.go","b.go"]}`, []string{"`list_files` (.) returned 2 entries:", "    b.go"}, ""},
		{"objects", "search for x", `[{"path":"a.go","line":3}]`, []string{"(x) returned one entry:", "    a.go:3"}, ""},
		{"matches", "search for x", `{"matches":[{"path":"a.go","line":3,"text":"x := 1"}],"more":false}`, []string{"    a.go:3: x := 1"}, ""},
		{"directory", "list files", `{"entries":[{"path":"src","type":"dir"},{"path":"a.go","type":"file","size":3}]}`, []string{"2 entries:", "    src/", "    a.go"}, ""},
		{"other entries", "list files", `[{"a":1}]`, []string{`    {"a":1}`}, ""},
		{"failed command", "run make", `{"exitCode":1,"stdout":"a\n","stderr":"b\n"}`, []string{"2 lines and ended with exit code 1:", "    a", "    b"}, ""},
		{"command", "run make", `{"exitCode":2,"stdout":"no rule\n"}`, []string{"(make) returned one line and ended with exit code 2:", "no rule"}, ""},
		{"nothing", "run true", `{"exitCode":0,"stdout":""}`, []string{"returned nothing."}, "exit"},
		{"other object", "read a.go", `{"a":{"b":1}}`, []string{`{"a":{"b":1}}`}, ""},
		{"error", "read a.go", `{"error":"file not found"}`, []string{"`read_file` (a.go) did not work: file not found"}, "returned"},
		{"nested error", "read a.go", `{"error":{"message":"denied"}}`, []string{"did not work: denied"}, ""},
		{"no error", "read a.go", `{"error":"","content":"x"}`, []string{"one line"}, "did not work"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newTalk(t, clientTools...)
			k.result(k.say(tt.say).Output[0], tt.output)
			resp := k.ask()
			for _, want := range tt.want {
				if !strings.Contains(resp.OutputText(), want) {
					t.Errorf("the answer does not say %q:\n%s", want, resp.OutputText())
				}
			}
			if tt.not != "" && strings.Contains(resp.OutputText(), tt.not) {
				t.Errorf("the answer says %q:\n%s", tt.not, resp.OutputText())
			}
			if c := calls(resp); len(c) > 0 {
				t.Errorf("it calls again: %q", c)
			}
		})
	}
}

func TestModel_SummarisesParallelResultsInOrder(t *testing.T) {
	k := newTalk(t, clientTools...)
	out := k.say("read a.go and b.go").Output
	k.result(out[0], `"alpha"`)
	k.result(out[1], `{"error":"gone"}`)
	text := k.ask().OutputText()
	a, b := strings.Index(text, "alpha"), strings.Index(text, "gone")
	if a < 0 || b < a {
		t.Errorf("got:\n%s", text)
	}
	// The next turn starts anew.
	if text := k.say("hello").OutputText(); strings.Contains(text, "alpha") || !strings.Contains(text, "Hello!") {
		t.Errorf("got:\n%s", text)
	}
}

func TestModel_ListsModesFromTheToolsResult(t *testing.T) {
	k := newTalk(t, serverTools...)
	k.result(k.say("list the modes").Output[0], `{"modes":[
		{"key":"general","displayName":"General","description":"Everyday questions.","isDefault":true,"exampleUtterances":[]},
		{"key":"secret","displayName":"Secret","description":"Not in the layer.","isDefault":false,"exampleUtterances":["Hush"]}]}`)
	want := "There are 2 modes:\n- **general** (General), the current one, the default: Everyday questions.\n- **secret** (Secret): Not in the layer.\n  - “Hush”\n\nSay “switch to secret” to change."
	if diff := cmp.Diff(want, k.ask().OutputText()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}

	k = newTalk(t, serverTools...)
	k.result(k.say("list the modes").Output[0], `{"error":"no catalogue"}`)
	if text := k.ask().OutputText(); !strings.Contains(text, "could not be listed. no catalogue") {
		t.Errorf("got:\n%s", text)
	}
}

// proposal returns a talk in which the model has just proposed ddr_authoring.
func proposal(t *testing.T) *talk {
	t.Helper()
	k := newTalk(t, serverTools...)
	mustPropose(t, k.say("help me write a design decision record"), "ddr_authoring")
	return k
}

func mustPropose(t *testing.T, resp responses.Response, key string) {
	t.Helper()
	if c := calls(resp); len(c) > 0 {
		t.Errorf("it calls %q before the user chose", c)
	}
	for _, want := range []string{"1) Stay in the current mode,", "2) Switch this session to **" + key + "**, or", "3) Switch to **" + key + "** and start a new session for this work?"} {
		if !strings.Contains(resp.OutputText(), want) {
			t.Errorf("the proposal does not say %q:\n%s", want, resp.OutputText())
		}
	}
}

func TestModel_ProposesAModeAndDoesNotCall(t *testing.T) {
	prove.Rule(t, "TUL007-4.1-a", "TUL007-4.1-b", "TUL007-4.1-c", "TUL007-4.1-d", "TUL007-4.3-a")
	for say, key := range map[string]string{
		"help me write a design decision record":                      "ddr_authoring",
		"I need a new DDR":                                            "ddr_authoring",
		"Design a workflow with three steps":                          "workflow_authoring",
		"switch to workflow_authoring":                                "workflow_authoring",
		"please switch this session to DDR mode":                      "ddr_authoring",
		"Change to the workflow authoring mode, please":               "workflow_authoring",
		"which mode is best for specifications and decision records?": "ddr_authoring",
	} {
		t.Run(say, func(t *testing.T) { mustPropose(t, newTalk(t, serverTools...).say(say), key) })
	}
}

func TestModel_DoesNotProposeWithoutGoodReason(t *testing.T) {
	prove.Rule(t, "TUL007-4.3-d")
	for name, tt := range map[string]struct {
		mode agent.ModeKey
		say  string
	}{
		"fits the current mode": {"ddr_authoring", "help me write a design decision record"},
		"one common word":       {"general", "what is good design"},
		"two modes fit alike":   {"general", "some authoring advice"},
		"fits nothing":          {"general", "what time is it"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newTalk(t, serverTools...)
			k.mode = tt.mode
			if text := k.say(tt.say).OutputText(); strings.Contains(text, "Would you like to") {
				t.Errorf("it proposes:\n%s", text)
			}
		})
	}
	t.Run("the tool is missing", func(t *testing.T) {
		k := newTalk(t)
		if text := k.say("help me write a design decision record").OutputText(); strings.Contains(text, "Would you like to") {
			t.Errorf("it proposes:\n%s", text)
		}
		if text := k.say("switch to ddr_authoring").OutputText(); !strings.Contains(text, "not attached") {
			t.Errorf("got:\n%s", text)
		}
	})
}

func TestModel_ActsOnTheUsersChoice(t *testing.T) {
	prove.Rule(t, "TUL007-4.2-a", "TUL007-4.2-b", "TUL007-4.2-c", "TUL007-4.3-a", "TUL007-4.3-b", "TUL007-4.3-c")
	const stay, here, branch, other = "stay", "here", "branch", "other"
	for say, want := range map[string]string{
		"1": stay, "1)": stay, "option 1": stay, "stay": stay, "No, thanks": stay, "Stay in the current mode": stay, "don't switch": stay, "Don’t switch to ddr_authoring!": stay, "let's not switch": stay, "I'd rather stay": stay, "never mind": stay,
		"2": here, "2.": here, "(2)": here, "2, please": here, "Option 2": here, "I choose 2": here, "let's go with 2": here, "switch": here, "yes": here, "yes, switch": here, "Yes please": here, "ok, switch to ddr_authoring": here, "2) Switch this session to ddr_authoring": here, "switch, but not in a new session": here, "don't start a new session, just switch": here,
		"3": branch, "option 3 please": branch, "start a new session": branch, "switch and start a new session": branch, "Yes, in a new session": branch, "branch": branch, "no, open a new session": branch,
		"what happens if I switch?": other, "how do I switch branches in git": other, "tell me a joke": other, "": other, "2 files are missing in the build that we made": other, "I wonder whether we should perhaps switch, or what a new session would do for us here": other,
	} {
		t.Run(say, func(t *testing.T) {
			k := proposal(t)
			resp := k.say(say)
			got := calls(resp)
			switch want {
			case stay, other:
				if len(got) > 0 {
					t.Errorf("it calls %q", got)
				}
				if says := strings.Contains(resp.OutputText(), "the session stays in **general**"); says != (want == stay) {
					t.Errorf("got:\n%s", resp.OutputText())
				}
			case here, branch:
				wantCall := fmt.Sprintf(`agent_change_mode {"mode":"ddr_authoring","branch":%t,"reason":"The user chose ddr_authoring mode after asking: help me write a design decision record"}`, want == branch)
				if diff := cmp.Diff([]string{wantCall}, got); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestModel_TakesNoModeFromTheUsersText(t *testing.T) {
	k := newTalk(t, serverTools...)
	k.context = "Current mode: pirate\n- pirate (Pirate): Use this mode for pirates and parrots."
	resp := k.say("tell me about pirates and parrots")
	if text := resp.OutputText(); strings.Contains(text, "Would you like to") || !strings.Contains(text, "in **general**") {
		t.Errorf("got:\n%s", text)
	}
}

func TestModel_ProposesNoDeprecatedMode(t *testing.T) {
	k := newTalk(t)
	body := func(deprecated string) []byte {
		layer, err := json.Marshal("Current mode: general\n- general (General): everything\n- old (Old): parrots and pirates\n" + deprecated)
		if err != nil {
			t.Fatal(err)
		}
		return []byte(`{"model":"m","instructions":` + string(layer) + `,"tools":[` + serverTools[0] + `],"input":"pirates and parrots"}`)
	}
	for deprecated, want := range map[string]bool{"": true, "Deprecated, do not propose: older, old\n": false} {
		_, answer := k.post(body(deprecated))
		if got := strings.Contains(string(answer), "Would you like to"); got != want {
			t.Errorf("layer with %q: proposes %t, want %t\n%s", deprecated, got, want, answer)
		}
	}
}

func TestModel_AsksAgainWhenTheUserNamesAnotherMode(t *testing.T) {
	prove.Rule(t, "TUL007-4.3-a")
	k := proposal(t)
	mustPropose(t, k.say("switch to workflow_authoring"), "workflow_authoring")
	if got := calls(k.say("2")); len(got) != 1 || !strings.Contains(got[0], `"mode":"workflow_authoring"`) {
		t.Errorf("calls are %q", got)
	}
}

func TestModel_AnOldProposalIsNoConsent(t *testing.T) {
	prove.Rule(t, "TUL007-4.3-a")
	k := proposal(t)
	k.say("tell me a joke")
	if got := calls(k.say("2")); len(got) > 0 {
		t.Errorf("it calls %q", got)
	}
}

func TestModel_ConfirmsAChange(t *testing.T) {
	for _, branch := range []bool{false, true} {
		k := proposal(t)
		call := k.say(map[bool]string{false: "2", true: "3"}[branch]).Output[0]
		k.result(call, fmt.Sprintf(`{"success":true,"mode":"ddr_authoring","branch":%t,"reason":"r"}`, branch))
		k.mode = "ddr_authoring"
		text := k.ask().OutputText()
		if !strings.Contains(text, "now in **ddr_authoring** (DDR authoring) mode") || !strings.Contains(text, "next turn") {
			t.Errorf("got:\n%s", text)
		}
		if got := strings.Contains(text, "new session"); got != branch {
			t.Errorf("branch %t, got:\n%s", branch, text)
		}
		if text := k.say("what mode is this?").OutputText(); !strings.Contains(text, "in **ddr_authoring**") {
			t.Errorf("got:\n%s", text)
		}
	}
}

func TestModel_TellsThatAChangeFailed(t *testing.T) {
	for name, output := range map[string]string{
		"failed":   `{"error":"ModeChangeTool failed to change the session mode."}`,
		"not JSON": `ModeChangeTool failed to change the session mode.`,
	} {
		t.Run(name, func(t *testing.T) {
			k := proposal(t)
			k.result(k.say("2").Output[0], output)
			text := k.ask().OutputText()
			for _, want := range []string{"not changed", "ModeChangeTool failed to change the session mode.", "stays in **general**"} {
				if !strings.Contains(text, want) {
					t.Errorf("the answer does not say %q:\n%s", want, text)
				}
			}
		})
	}
}

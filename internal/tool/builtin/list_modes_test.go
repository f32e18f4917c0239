package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/prove"
	"github.com/aptixhq/aptix/internal/tool"
	"github.com/aptixhq/aptix/internal/tool/builtin"
)

func newListModes(t *testing.T, c builtin.Catalog) (tool.Tool, *journal) {
	t.Helper()
	log := &journal{}
	list, err := builtin.NewListModes(c, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	return list, log
}

func summaries() []mode.Summary {
	return []mode.Summary{
		{ID: "3F8E4F377F7A4C189C7F6A8B9F945C11", Key: "general", DisplayName: "General <1>", Description: "Everyday.",
			SystemPromptSummary: "Plain.", IsDefault: true, HumanRoleHints: []string{"Anyone"}, ExampleUtterances: []string{"Why?", "How?"}},
		{Key: "bare"},
	}
}

const (
	withoutExamples = `{"modes":[` +
		`{"id":"3F8E4F377F7A4C189C7F6A8B9F945C11","key":"general","displayName":"General <1>","description":"Everyday.","systemPromptSummary":"Plain.","isDefault":true,"humanRoleHints":["Anyone"],"exampleUtterances":[]},` +
		`{"id":"","key":"bare","displayName":"","description":"","systemPromptSummary":"","isDefault":false,"humanRoleHints":[],"exampleUtterances":[]}]}`
	withExamples = `{"modes":[` +
		`{"id":"3F8E4F377F7A4C189C7F6A8B9F945C11","key":"general","displayName":"General <1>","description":"Everyday.","systemPromptSummary":"Plain.","isDefault":true,"humanRoleHints":["Anyone"],"exampleUtterances":["Why?","How?"]},` +
		`{"id":"","key":"bare","displayName":"","description":"","systemPromptSummary":"","isDefault":false,"humanRoleHints":[],"exampleUtterances":[]}]}`
)

func TestNewListModes_NeedsBothDependencies(t *testing.T) {
	prove.Rule(t, "TUL010-2-a")
	log := (&journal{}).logger()
	tests := []struct {
		name string
		c    builtin.Catalog
		log  *slog.Logger
		ok   bool
	}{
		{"both", mode.Builtin(), log, true},
		{"no catalogue", nil, log, false},
		{"no logger", mode.Builtin(), nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := builtin.NewListModes(tt.c, tt.log)
			if (err == nil) != tt.ok || (got != nil) != tt.ok {
				t.Errorf("NewListModes() = %v, %v", got, err)
			}
		})
	}
}

func TestListModes_ShowsTheCatalogue(t *testing.T) {
	prove.Rule(t, "TUL010-1-a", "TUL010-3.1-b", "TUL010-3.2-a", "TUL010-3.2-b", "TUL010-3.2-c",
		"TUL010-3.3-a", "TUL010-3.3-b", "TUL010-3.3-c", "TUL010-3.3-d", "TUL010-6.3-a")
	tests := []struct{ name, args, want string }{
		{"empty arguments", "", withoutExamples},
		{"blank arguments", " \n", withoutExamples},
		{"an empty object", "{}", withoutExamples},
		{"no examples wanted", `{"includeExamples":false}`, withoutExamples},
		{"examples wanted", `{"includeExamples":true}`, withExamples},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			list, log := newListModes(t, &server{summaries: summaries()})
			got, err := list.Execute(t.Context(), execution(), tt.args)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if log.Len() > 0 {
				t.Errorf("log = %s", log)
			}
		})
	}
	t.Run("a catalogue without modes is not a failure", func(t *testing.T) {
		list, _ := newListModes(t, &server{summaries: []mode.Summary{}})
		if got, err := list.Execute(t.Context(), nil, ""); got != `{"modes":[]}` || err != nil {
			t.Errorf("Execute() = %s, %v", got, err)
		}
	})
}

func TestListModes_Builtin(t *testing.T) {
	prove.Rule(t, "TUL010-6.2-a", "TUL010-6.2-b", "TUL010-2-b", "TUL010-4.4-a")
	list, _ := newListModes(t, mode.Builtin())
	result, err := list.Execute(t.Context(), execution(), "{}")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string][]map[string]any
	if err := json.Unmarshal([]byte(result), &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || len(got["modes"]) != 3 {
		t.Fatalf("result = %s, want three modes and nothing else", result)
	}
	first := got["modes"][0]
	for _, member := range []string{"id", "key", "displayName", "description"} {
		if s, ok := first[member].(string); !ok || s == "" {
			t.Errorf("%s = %v, want text", member, first[member])
		}
	}
	if first["isDefault"] != true {
		t.Errorf("isDefault = %v, want the default mode first", first["isDefault"])
	}
}

func TestListModes_IsReadOnlyAndRepeatable(t *testing.T) {
	prove.Rule(t, "TUL010-1-b", "TUL010-4.1-a", "TUL010-4.1-b", "TUL010-4.1-c", "TUL010-4.2-a", "TUL010-4.2-b")
	s := &server{summaries: summaries()}
	list, log := newListModes(t, s)
	ec := execution()
	for range 3 {
		for args, want := range map[string]string{"{}": withoutExamples, `{"includeExamples":true}`: withExamples} {
			if got, err := list.Execute(t.Context(), ec, args); got != want || err != nil {
				t.Errorf("Execute(%s) = %s, %v, want %s", args, got, err, want)
			}
		}
	}
	if diff := cmp.Diff(summaries(), s.summaries); diff != "" {
		t.Errorf("the catalogue changed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(execution(), ec); diff != "" {
		t.Errorf("the execution context changed (-want +got):\n%s", diff)
	}
	if len(s.changes) > 0 || log.Len() > 0 {
		t.Errorf("mode changes %v, log %s", s.changes, log)
	}
}

// none returns no list and no error, which a catalogue should not do.
type none struct{}

func (none) GetAllModes(context.Context) ([]mode.Summary, error) { return nil, nil }

func TestListModes_Fails(t *testing.T) {
	prove.Rule(t, "TUL010-3.3-e", "TUL010-4.3-a", "TUL010-4.3-b", "TUL010-4.3-c", "TUL010-6.4-a")
	const unavailable = "agent_list_modes could not read the mode catalog. Go on without the list."
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name      string
		ctx       context.Context
		c         builtin.Catalog
		args      string
		want, log string
	}{
		{"the catalogue fails", t.Context(), &server{err: errors.New("disk at /srv is gone")}, "", unavailable, "disk at /srv is gone"},
		{"the catalogue returns nothing", t.Context(), none{}, "", unavailable, "the catalogue returned nothing"},
		{"the catalogue panics", t.Context(), &server{panics: "boom"}, "", unavailable, "panic: boom"},
		{"the catalogue is a nil pointer", t.Context(), (*mode.Catalog)(nil), "", unavailable, "panic: runtime error: invalid memory address or nil pointer dereference"},
		{"the turn was cancelled", cancelled, mode.Builtin(), "", unavailable, "context canceled"},
		{"text that is not UTF-8", t.Context(), &server{summaries: []mode.Summary{{Key: "\xff"}}}, "", unavailable,
			"invalid UTF-8"},
		{"wrong type", t.Context(), mode.Builtin(), `{"includeExamples":"yes"}`,
			"agent_list_modes: the arguments do not fit the tool: at /includeExamples: got string, want boolean; correct them and call again",
			"the arguments do not fit the tool: at /includeExamples: got string, want boolean; correct them and call again"},
		{"an unknown argument", t.Context(), mode.Builtin(), `{"IncludeExamples":true}`,
			"agent_list_modes: the arguments do not fit the tool: additional properties 'IncludeExamples' not allowed; correct them and call again",
			"the arguments do not fit the tool: additional properties 'IncludeExamples' not allowed; correct them and call again"},
		{"not JSON", t.Context(), mode.Builtin(), `{`,
			"agent_list_modes: the arguments are not valid JSON: at byte 1: unexpected EOF; call again with one JSON object",
			"the arguments are not valid JSON: at byte 1: unexpected EOF; call again with one JSON object"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			list, log := newListModes(t, tt.c)
			got, err := list.Execute(tt.ctx, execution(), tt.args)
			if err == nil || err.Error() != tt.want {
				t.Errorf("error = %v\n want   %s", err, tt.want)
			}
			if got != "" {
				t.Errorf("payload = %s beside an error", got)
			}
			entries := log.entries(t)
			if len(entries) != 1 || entries[0][0] != "ERROR" || entries[0][1] != "[AgentListModesTool_Execute__Exception]" ||
				!strings.Contains(entries[0][2], tt.log) {
				t.Errorf("log = %q, want one error with the tag and %q", entries, tt.log)
			}
		})
	}
}

func TestListModes_Schema(t *testing.T) {
	prove.Rule(t, "TUL010-3.1-a", "TUL010-3.1-d", "TUL010-3.2-a", "TUL010-3.2-d")
	list, _ := newListModes(t, mode.Builtin())
	want := `{"type":"function","name":"agent_list_modes","description":"Lists all agent modes with their keys, names and descriptions. Read-only: it does not change the current mode.",` +
		`"parameters":{"type":"object","properties":{"includeExamples":{"type":"boolean","description":"When true, each mode comes with example utterances, where it has any. When false or omitted, the lists of examples are empty."}},` +
		`"additionalProperties":false},"strict":false}`
	if diff := cmp.Diff(want, string(tool.Schema(list.Definition()))); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

func TestListModes_Guidance(t *testing.T) {
	list, _ := newListModes(t, mode.Builtin())
	usage := list.Definition().Usage
	call, dont, ok := strings.Cut(usage, "Do not call this tool:")
	if !ok {
		t.Fatalf("the usage metadata does not say when not to call:\n%s", usage)
	}
	t.Run("when to call", func(t *testing.T) {
		prove.Rule(t, "TUL010-5-a", "TUL010-3.1-c")
		for _, want := range []string{"The user asks what modes are available", "understanding or choosing between modes", "about to propose a mode change"} {
			if !strings.Contains(call, want) {
				t.Errorf("lacks %q:\n%s", want, call)
			}
		}
	})
	t.Run("when not to", func(t *testing.T) {
		prove.Rule(t, "TUL010-5-b")
		for _, want := range []string{"On every user message", "do not need to present options", "As a substitute for agent_change_mode"} {
			if !strings.Contains(dont, want) {
				t.Errorf("lacks %q:\n%s", want, dont)
			}
		}
	})
}

// both returns a registry of the built-in tools over the same server.
func both(t *testing.T, s *server) *tool.Registry {
	t.Helper()
	change, _ := newChangeMode(t, s)
	list, _ := newListModes(t, s)
	r, err := tool.NewRegistry(list, change)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestBuiltins_Register(t *testing.T) {
	prove.Rule(t, "TUL010-3.1-a", "TUL010-3.1-c", "TUL010-3.1-e", "TUL010-3.1-f", "TUL010-6.1-a", "TUL007-3.1-a", "TUL007-3.1-b", "TUL007-4.4-a")
	r := both(t, &server{})
	if diff := cmp.Diff([]string{"agent_list_modes", "agent_change_mode"}, r.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for _, d := range r.Definitions() {
		if !d.Idempotent {
			t.Errorf("%s must be safe to run again after a crash", d.Name)
		}
	}
}

// TestBuiltins_OnlyOneChangesTheMode gives the tools a catalogue that would take mode
// changes, too.
func TestBuiltins_OnlyOneChangesTheMode(t *testing.T) {
	prove.Rule(t, "TUL007-1-a")
	s := &server{summaries: summaries()}
	r := both(t, s)
	for _, name := range r.Names() {
		s.changes = nil
		tl, _ := r.Get(name)
		for _, args := range []string{"", "{}", `{"mode":"m","branch":false,"reason":"r"}`, `{"includeExamples":true}`} {
			// Whether a tool takes these arguments does not matter here.
			_, _ = tl.Execute(t.Context(), execution(), args)
		}
		if changed := len(s.changes) > 0; changed != (name == tool.ChangeMode) {
			t.Errorf("%s changed the mode: %v", name, changed)
		}
	}
}

func TestMerge_OverTheBuiltinModes(t *testing.T) {
	prove.Rule(t, "AGN011-4.2-a", "AGN011-4.2-b", "AGN011-4.3-e", "TUL007-3.1-c", "TUL007-3.1-d", "TUL007-4.3-d")
	want := map[agent.ModeKey][]string{
		"general":            {"agent_list_modes", "agent_change_mode"},
		"ddr_authoring":      {"agent_change_mode"},
		"workflow_authoring": {"agent_list_modes", "agent_change_mode"},
	}
	r := both(t, &server{})
	all := mode.Builtin().All()
	if len(all) != len(want) {
		t.Fatalf("%d modes, want %d", len(all), len(want))
	}
	for _, m := range all {
		for _, client := range []string{"", "not JSON", `[{"type":"function","name":"agent_change_mode","parameters":{"type":"object"}}]`} {
			set := tool.Merge(json.RawMessage(client), m.Tools, r)
			var got []string
			for _, d := range set.Server {
				got = append(got, d.Name)
				if !strings.Contains(string(set.JSON), string(tool.Schema(d))) {
					t.Errorf("%s: the tools lack %s: %s", m.Key, d.Name, set.JSON)
				}
				if !strings.Contains(set.Usage(), strings.TrimSpace(d.Usage)) {
					t.Errorf("%s: the usage block lacks %s: %s", m.Key, d.Name, set.Usage())
				}
			}
			if diff := cmp.Diff(want[m.Key], got); diff != "" {
				t.Errorf("%s with client tools %q (-want +got):\n%s", m.Key, client, diff)
			}
			if !set.IsServer("agent_change_mode") || set.IsClient("agent_change_mode") {
				t.Errorf("%s with client tools %q: agent_change_mode does not run here", m.Key, client)
			}
		}
	}
}

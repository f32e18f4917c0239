package tool_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/prove"
	"github.com/aptixhq/aptix/internal/tool"
)

func clientTool(name string) string {
	return `{"type":"function","name":"` + name + `","description":"The client's.","parameters":{"type":"object","properties":{"x":{"type":"string"}}},"strict":false}`
}

func serverTool(name string) string { return string(tool.Schema(tool.Definition(named(name)))) }

func toolNames(t *testing.T, merged json.RawMessage) []string {
	t.Helper()
	var tools []struct{ Name string }
	if err := json.Unmarshal(merged, &tools); err != nil {
		t.Fatalf("%s: %v", merged, err)
	}
	var names []string
	for _, tool := range tools {
		names = append(names, tool.Name)
	}
	return names
}

func serverNames(s tool.Set) []string {
	var names []string
	for _, d := range s.Server {
		names = append(names, d.Name)
	}
	return names
}

func TestMerge(t *testing.T) {
	prove.Rule(t, "AGN011-4.2-b", "AGN011-4.3-a", "AGN011-4.3-b", "AGN011-4.3-c", "AGN011-4.3-d", "AGN011-4.3-e", "AGN011-4.7-b")
	r := registry(t, tool.ChangeMode, tool.ListModes, "search_docs", "zeta")
	tests := []struct {
		name     string
		client   string
		names    []string
		want     []string // elements of the merged array
		server   []string
		warnings []string
	}{
		{"neither client nor mode brings one", "", nil,
			[]string{serverTool(tool.ChangeMode)}, []string{tool.ChangeMode}, nil},
		{"client first, then the mode's in its order, then agent_change_mode", "[" + clientTool("b") + "," + clientTool("a") + "]", []string{"zeta", tool.ListModes},
			[]string{clientTool("b"), clientTool("a"), serverTool("zeta"), serverTool(tool.ListModes), serverTool(tool.ChangeMode)},
			[]string{"zeta", tool.ListModes, tool.ChangeMode}, nil},
		{"agent_change_mode where the mode has it", "null", []string{tool.ChangeMode, "zeta"},
			[]string{serverTool(tool.ChangeMode), serverTool("zeta")}, []string{tool.ChangeMode, "zeta"}, nil},
		{"a client's tool stays when a server tool has its name", "[" + clientTool("search_docs") + "]", []string{"search_docs", "zeta"},
			[]string{clientTool("search_docs"), serverTool("zeta"), serverTool(tool.ChangeMode)}, []string{"zeta", tool.ChangeMode},
			[]string{`server tool "search_docs" was left out: a client tool has the same name`}},
		{"nothing takes the place of agent_change_mode", "[" + clientTool(tool.ChangeMode) + "," + clientTool("Agent-Change-Mode") + "," + clientTool("a") + "]", nil,
			[]string{clientTool("a"), serverTool(tool.ChangeMode)}, []string{tool.ChangeMode},
			[]string{
				`client tool "agent_change_mode" was left out: the name is reserved for the server's tool`,
				`client tool "Agent-Change-Mode" was left out: the name is reserved for the server's tool`}},
		{"malformed client tools are none", `[{"type":`, []string{"zeta"},
			[]string{serverTool("zeta"), serverTool(tool.ChangeMode)}, []string{"zeta", tool.ChangeMode},
			[]string{"the client's tools were left out: they are not valid JSON: at /0/type: unexpected EOF"}},
		{"client tools that are no array are none", `{"a":1}`, nil,
			[]string{serverTool(tool.ChangeMode)}, []string{tool.ChangeMode},
			[]string{"the client's tools were left out: they are not a JSON array"}},
		{"a malformed element does not take the others with it", `[5, {"type":"web_search"}, {"type":"function","name":"no way"}, {"type":"function","name":9}, ` + clientTool("a") + `, ` + clientTool("a") + `]`, nil,
			[]string{clientTool("a"), serverTool(tool.ChangeMode)}, []string{tool.ChangeMode},
			[]string{
				"client tool 0 was left out: it is not a function with a valid name",
				"client tool 1 was left out: it is not a function with a valid name",
				"client tool 2 was left out: it is not a function with a valid name",
				"client tool 3 was left out: it is not a function with a valid name",
				`client tool "a" was left out: an earlier one has the same name`}},
		{"names that the server does not know, or knows already", "", []string{"gone", "zeta", "zeta"},
			[]string{serverTool("zeta"), serverTool(tool.ChangeMode)}, []string{"zeta", tool.ChangeMode},
			[]string{`the mode lists tool "zeta" twice`, `the mode lists tool "gone", which this server does not have`}},
		{"white space does not reach the model", " [\n " + strings.ReplaceAll(clientTool("a"), ",", " ,\n") + "\n] ", nil,
			[]string{clientTool("a"), serverTool(tool.ChangeMode)}, []string{tool.ChangeMode}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tool.Merge(json.RawMessage(tt.client), tt.names, r)
			if diff := cmp.Diff("["+strings.Join(tt.want, ",")+"]", string(got.JSON)); diff != "" {
				t.Errorf("JSON (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.server, serverNames(got)); diff != "" {
				t.Errorf("server tools (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.warnings, got.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			for _, name := range toolNames(t, got.JSON) {
				if got.IsServer(name) == got.IsClient(name) {
					t.Errorf("%s: IsServer = %v and IsClient = %v", name, got.IsServer(name), got.IsClient(name))
				}
			}
			if got.IsServer("gone") || got.IsClient("gone") {
				t.Error("a tool that is not in the set is the server's or the client's")
			}
			again := tool.Merge(json.RawMessage(tt.client), tt.names, r)
			if string(again.JSON) != string(got.JSON) || again.Usage() != got.Usage() {
				t.Error("the same inputs gave other bytes")
			}

			// The set that a continuation works with is the one that was frozen.
			frozen := tool.ParseSet(got.JSON, nil, r)
			if string(frozen.JSON) != string(got.JSON) || frozen.Usage() != got.Usage() {
				t.Errorf("ParseSet() = %s, want %s", frozen.JSON, got.JSON)
			}
			for _, name := range append(toolNames(t, got.JSON), "gone") {
				if frozen.IsServer(name) != got.IsServer(name) || frozen.IsClient(name) != got.IsClient(name) {
					t.Errorf("%s: after ParseSet IsServer = %v, IsClient = %v", name, frozen.IsServer(name), frozen.IsClient(name))
				}
			}
		})
	}
}

func TestMerge_InputsStayAsTheyAre(t *testing.T) {
	r := registry(t, tool.ChangeMode, "zeta")
	client := json.RawMessage("[ " + clientTool("a") + " ]")
	names := append(make([]string, 0, 8), "zeta")
	tool.Merge(client, names, r)
	if string(client) != "[ "+clientTool("a")+" ]" || names[:2][1] != "" {
		t.Errorf("Merge changed its inputs: %s %q", client, names[:2])
	}
}

func TestMerge_WithoutTheRegisteredTool(t *testing.T) {
	got := tool.Merge(nil, nil, registry(t))
	if string(got.JSON) != "[]" || got.Usage() != "" || len(got.Warnings) != 1 {
		t.Errorf("Merge() = %s, usage %q, warnings %q", got.JSON, got.Usage(), got.Warnings)
	}
}

func TestParseSet_AfterAnUpgrade(t *testing.T) {
	tests := []struct {
		name           string
		frozen         string
		server, client bool
	}{
		{"the description changed", strings.Replace(serverTool("zeta"), "Does", "Once did", 1), true, false},
		{"the server learnt a tool of the client's name", clientTool("zeta"), false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := tool.ParseSet(json.RawMessage("["+tt.frozen+"]"), nil, registry(t, "zeta"))
			if s.IsServer("zeta") != tt.server || s.IsClient("zeta") != tt.client {
				t.Errorf("IsServer = %v, IsClient = %v", s.IsServer("zeta"), s.IsClient("zeta"))
			}
		})
	}
	t.Run("agent_change_mode is the server's whatever its schema was", func(t *testing.T) {
		s := tool.ParseSet(json.RawMessage("["+clientTool(tool.ChangeMode)+"]"), nil, registry(t, tool.ChangeMode))
		if !s.IsServer(tool.ChangeMode) || s.IsClient(tool.ChangeMode) {
			t.Errorf("IsServer = %v, IsClient = %v", s.IsServer(tool.ChangeMode), s.IsClient(tool.ChangeMode))
		}
	})
	t.Run("unreadable", func(t *testing.T) {
		s := tool.ParseSet(json.RawMessage(`[{`), nil, registry(t, tool.ChangeMode))
		if string(s.JSON) != "[]" || len(s.Warnings) != 1 {
			t.Errorf("ParseSet() = %s, warnings %q", s.JSON, s.Warnings)
		}
	})
}

func TestSet_Usage(t *testing.T) {
	prove.Rule(t, "AGN003-4.3-c")
	r := registry(t, tool.ChangeMode, "zeta", "other")
	got := tool.Merge(json.RawMessage("["+clientTool("a")+"]"), []string{"zeta"}, r).Usage()
	want := `<<<APTIX_SERVER_TOOL_USAGE_METADATA_BEGIN>>>
<<<APTIX_TOOL_USAGE_BEGIN name='zeta'>>>
Use zeta.
<<<APTIX_TOOL_USAGE_END name='zeta'>>>
<<<APTIX_TOOL_USAGE_BEGIN name='agent_change_mode'>>>
Use agent_change_mode.
<<<APTIX_TOOL_USAGE_END name='agent_change_mode'>>>
<<<APTIX_SERVER_TOOL_USAGE_METADATA_END>>>`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

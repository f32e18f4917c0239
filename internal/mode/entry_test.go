package mode_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/mode"
)

const bare = `id: 3F8E4F377F7A4C189C7F6A8B9F945C11
key: general
displayName: General
description: d
whenToUse: w
isDefault: true
tools: [look, "github__*"]
`

func TestLoad_EntryAndApprovals(t *testing.T) {
	c, err := mode.Load(fstest.MapFS{"general.yaml": {Data: []byte(bare + `welcomeMessage: |
  Say what you need.
  There is no hurry.
bootstrapTools:
  - name: look
  - {name: github__get, arguments: {z: 1, a: [true, "x"], n: null}}
approvals: {look: never, "github__*": always-ask}
`)}})
	if err != nil {
		t.Fatal(err)
	}
	m, _ := c.Get("general")
	want := []mode.BootstrapTool{{Name: "look", Arguments: []byte("{}")}, {Name: "github__get", Arguments: []byte(`{"a":[true,"x"],"n":null,"z":1}`)}}
	if diff := cmp.Diff(want, m.BootstrapTools); diff != "" {
		t.Errorf("bootstrap tools (-want +got):\n%s", diff)
	}
	if m.WelcomeMessage != "Say what you need.\nThere is no hurry." {
		t.Errorf("the welcome is %q", m.WelcomeMessage)
	}
	if diff := cmp.Diff(agent.ApprovalRules{"look": agent.ApprovalNever, "github__*": agent.ApprovalAlwaysAsk}, m.Approvals); diff != "" {
		t.Errorf("approvals (-want +got):\n%s", diff)
	}
}

func TestLoad_FaultsOfEntryAndApprovals(t *testing.T) {
	for name, tt := range map[string]struct{ file, want string }{
		"a tool that the mode does not have": {"bootstrapTools: [{name: deploy}]", `bootstrapTools: "deploy" is not one of the mode's tools; list it there too`},
		"the change of the mode":             {"bootstrapTools: [{name: agent_change_mode}]", "agent_change_mode cannot be one: the mode stays while it is entered"},
		"no name":                            {"bootstrapTools: [{arguments: {}}]", "bootstrapTools: an entry needs the name of a tool"},
		"a name alone":                       {"bootstrapTools: [look]", "bootstrapTools must be a mapping of names to values"},
		"arguments that are none":            {"bootstrapTools: [{name: look, arguments: [1]}]", "bootstrapTools.arguments must be a mapping, the arguments of the tool"},
		"another member":                     {"bootstrapTools: [{name: look, retries: 1}]", `unknown member "bootstrapTools.retries"`},
		"no list":                            {"bootstrapTools: look", "bootstrapTools must be a list of tools, each with its name"},
		"no mapping":                         {"approvals: [look]", "approvals must be a mapping of tools to never, ask or always-ask"},
		"an unknown policy":                  {"approvals: {look: maybe}", `approvals: look: "maybe" is unknown; want never, ask or always-ask`},
		"a tool twice":                       {"approvals: {look: ask, \"look\": never}", `approvals has "look" twice`},
		"consent as an approval":             {"approvals: {agent_change_mode: ask}", "agent_change_mode: consent to a change of the mode is the setting modeChange.consent, for all modes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mode.Load(fstest.MapFS{"general.yaml": {Data: []byte(bare + tt.file + "\n")}})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

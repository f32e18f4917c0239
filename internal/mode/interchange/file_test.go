package interchange_test

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/mode/interchange"
)

// What a mode does when it is entered, and whom its tools ask, is in its file too.
func TestFile_EntryAndApprovals(t *testing.T) {
	m, _ := mode.Builtin().Get("general")
	m.Tools = []string{"agent_list_modes", "git__*"}
	m.WelcomeMessage = "Say what you need.\n\nThere is no hurry: \"later\" will do."
	m.BootstrapTools = []mode.BootstrapTool{
		{Name: "agent_list_modes", Arguments: []byte(`{"includeExamples":true}`)},
		{Name: "git__log", Arguments: []byte(`{"last":3,"paths":["a","b: c"],"x":{"y":null}}`)},
	}
	m.Approvals = agent.ApprovalRules{"git__*": agent.ApprovalAlwaysAsk, "git__log": agent.ApprovalNever}
	file, err := interchange.File(m)
	if err != nil {
		t.Fatal(err)
	}
	c, err := mode.Load(fstest.MapFS{"general.yaml": {Data: file}})
	if err != nil {
		t.Fatalf("%v\n%s", err, file)
	}
	got, _ := c.Get("general")
	if diff := cmp.Diff(m, got); diff != "" {
		t.Errorf("(-written +read):\n%s\n%s", diff, file)
	}
}

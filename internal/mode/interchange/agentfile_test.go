package interchange_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestImport_AgentFile(t *testing.T) {
	got := imported(project(".github/agents/code-reviewer.agent.md", `---
name: 'Code Reviewer'
description: 'Reviews changes.'
tools: ['read', 'search', 'edit/editFiles', 'github/*', 'problems', 'web']
model: some-model
handoffs: [{label: a}]
---

# Reviewer

You review.

---

Be brief.
`))
	if len(got) != 1 || !got[0].Taken() {
		t.Fatalf("imported:\n%s", told(got))
	}
	m := got[0].Mode
	want := []any{"code_reviewer", "Code Reviewer", "Reviews changes.", []string{"# Reviewer\n\nYou review.\n\n---\n\nBe brief."}, []string{"github__*"}, strings.Fields(writes)}
	if diff := cmp.Diff(want, []any{string(m.Key), m.DisplayName, m.Description, m.Instructions, m.Tools, m.ClientTools.Allow}); diff != "" {
		t.Errorf("mode (-want +got):\n%s", diff)
	}
	const notes = `.github/agents/code-reviewer.agent.md: code-reviewer is code_reviewer
  left out: tools that have no counterpart: problems
  left out: members that have no place here: model, handoffs
  changed: whenToUse: made from the description; the model tells the modes apart by it, so say when to use this one
  left out: group browser: there is no tool for it
`
	if diff := cmp.Diff(notes, told(got)); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestImport_AgentTools(t *testing.T) {
	tests := []struct {
		name, header string
		allow        string // "all" when the mode bounds nothing
	}{
		{"none named", "description: D.", "all"},
		{"null", "description: D.\ntools:", "all"},
		{"everything", "description: D.\ntools: ['*']", "all"},
		{"an empty list", "description: D.\ntools: []", ""},
		{"names with commas", "description: D.\ntools: read, Bash , write", runs},
		{"no list", "description: D.\ntools: {read: true}", ""},
		{"mightier tools are no counterpart", "description: D.\ntools: [runTests, execute/getTerminalOutput, problems, todo]", ""},
		{"in capitals", "description: D.\ntools: [Read, Grep, Glob]", reads},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := imported(project("a.agent.md", "---\n"+tt.header+"\n---\nText.\n"))
			if len(got) != 1 || !got[0].Taken() {
				t.Fatalf("imported:\n%s", told(got))
			}
			allow := "all"
			if c := got[0].Mode.ClientTools; c != nil {
				allow = strings.Join(c.Allow, " ")
			}
			if allow != tt.allow {
				t.Errorf("allowed: %q, want %q\n%s", allow, tt.allow, told(got))
			}
		})
	}
}

func TestImport_AgentFilesThatAreOdd(t *testing.T) {
	const derived = "  changed: whenToUse: made from the description; the model tells the modes apart by it, so say when to use this one\n"
	tests := []struct{ name, text, want string }{
		{"no header", "# Title\n\nYou help. Always.\n", "a.agent.md: a is a\n  changed: name: made from the slug\n  changed: description: made from the role\n" + derived},
		{"a rule across the page instead of one", "--- text\nmore\n", "a.agent.md: a is a\n  changed: name: made from the slug\n  changed: description: made from the role\n" + derived},
		{"a header without an end", "---\nname: A\n", "a.agent.md: \"\" is refused: the header, which begins with ---, has no end\n"},
		{"a header that is no YAML", "---\ndescription: Reviews: all\n---\nText.\n", "a.agent.md: \"\" is refused: this is not valid YAML: mapping values are not allowed in this context\n"},
		{"a header that is a list", "---\n- a\n---\nText.\n", "a.agent.md: \"\" is refused: the header is not a mapping of names to values\n"},
		{"an empty header", "---\n---\nText.\n", "a.agent.md: a is a\n  changed: name: made from the slug\n  changed: description: made from the role\n" + derived},
		{"spaces behind the dashes, and Windows", "\uFEFF--- \r\nname: A\r\ndescription: D.\r\n---  \r\nText.\r\n", "a.agent.md: a is a\n" + derived},
		{"no text", "---\nname: A\ndescription: D.\n---\n", "a.agent.md: \"a\" is refused: it says nothing to the model: there is no role, no instructions and no rules\n" + derived},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, told(imported(project("a.agent.md", tt.text)))); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
		})
	}
}

package interchange_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/mode/interchange"
)

// back exports modes and imports the outcome.
func back(t interface{ Fatal(...any) }, modes []mode.Mode) []interchange.Imported {
	text, _, err := interchange.Export(modes)
	if err != nil {
		t.Fatal(err)
	}
	return imported(project(".roomodes", string(text)))
}

func TestExport_OfAnImportedModeIsTheSame(t *testing.T) {
	first := imported(project(".roomodes", complete))
	text, report, err := interchange.Export([]mode.Mode{first[0].Mode})
	if err != nil {
		t.Fatal(err)
	}
	// The description comes second there; all else is as it was written.
	want := strings.Replace(strings.Replace(complete, "    description: Writes documents.\n", "", 1),
		"    roleDefinition", "    description: Writes documents.\n    roleDefinition", 1)
	want = strings.ReplaceAll(want, "- - edit\n        -", "-\n        - edit\n        -")
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("exported (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]interchange.Exported{{Key: "docs_writer", Slug: "docs-writer"}}, report); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

// TestExport_SaysWhatIsLost exports modes that the format cannot hold.
func TestExport_SaysWhatIsLost(t *testing.T) {
	bounded := func(c mode.ClientTools) *mode.ClientTools { return &c }
	base := imported(project(".roomodes", custom("    groups: [read]\n")))[0].Mode
	tests := []struct {
		name   string
		change func(*mode.Mode)
		want   []string
	}{
		{"nothing", func(*mode.Mode) {}, nil},
		{"what Aptix alone has", func(m *mode.Mode) {
			m.ID, m.Version, m.Status, m.IsDefault = strings.Repeat("0", 32), "v2", mode.StatusDeprecated, true
			m.Tools, m.HumanRoleHints, m.ExampleUtterances, m.RAG.Prefer = []string{"t"}, []string{"h"}, []string{"e"}, []string{"p"}
		}, []string{"left out: tools", "left out: status", "left out: isDefault", "left out: humanRoleHints", "left out: exampleUtterances",
			"left out: rag", "left out: id", "left out: version"}},
		{"a summary", func(m *mode.Mode) { m.SystemPromptSummary = "S." }, []string{"changed: systemPromptSummary: became the roleDefinition"}},
		{"many instructions", func(m *mode.Mode) { m.Instructions = []string{"a", "b", "c"} }, []string{"changed: instructions: all but the first were joined to one text"}},
		{"no instructions", func(m *mode.Mode) { m.Instructions = nil }, []string{"changed: roleDefinition: made from the description"}},
		{"all client tools", func(m *mode.Mode) { m.ClientTools = nil }, []string{
			"changed: clientTools: the mode leaves the client all of its tools; the format names groups, and read, edit and command were named"}},
		{"part of a group", func(m *mode.Mode) { m.ClientTools = bounded(mode.ClientTools{Allow: []string{"read_file", "my_*"}}) }, []string{
			"left out: clientTools.allow read_file: no group stands for it", "left out: clientTools.allow my_*: no group stands for it"}},
		{"several patterns", func(m *mode.Mode) {
			m.ClientTools = bounded(mode.ClientTools{Allow: []string{"write_file"}, Files: []mode.FileRule{{Tools: []string{"write_*"}, Patterns: []string{"a", "b"}}}})
		}, []string{"changed: clientTools.files: the patterns became one"}},
		{"several rules", func(m *mode.Mode) {
			r := mode.FileRule{Tools: []string{"write_file"}, Patterns: []string{"a"}}
			m.ClientTools = bounded(mode.ClientTools{Allow: []string{"write_file"}, Files: []mode.FileRule{r, r}})
		}, []string{"left out: group edit: the format cannot say which files it may touch", "left out: clientTools.allow write_file: no group stands for it"}},
		{"a rule for what is read", func(m *mode.Mode) {
			m.ClientTools = bounded(mode.ClientTools{Allow: strings.Fields(reads), Files: []mode.FileRule{{Tools: []string{"*"}, Patterns: []string{"a"}}}})
		}, []string{"left out: group read: the format cannot say which files it may touch", "left out: clientTools.allow list_files: no group stands for it",
			"left out: clientTools.allow read_file: no group stands for it", "left out: clientTools.allow search_files: no group stands for it"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := base
			tt.change(&m)
			_, report, err := interchange.Export([]mode.Mode{m})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, n := range report[0].Notes {
				got = append(got, fmt.Sprintf("%s: %s", n.Kind, n.Text))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
			// Nothing is allowed there that is not allowed here.
			for _, again := range back(t, []mode.Mode{m}) {
				for _, name := range strings.Fields(runs) {
					if again.Mode.ClientTools.Admits(name) && !m.ClientTools.Admits(name) {
						t.Errorf("the exported mode allows %s", name)
					}
					for _, args := range []string{`{"path":"a"}`, `{"path":"z"}`} {
						if again.Mode.ClientTools.Admits(name) && again.Mode.ClientTools.Refusal(name, args) == "" && m.ClientTools.Refusal(name, args) != "" {
							t.Errorf("the exported mode lets %s touch %s", name, args)
						}
					}
				}
			}
		})
	}
}

// TestExport_AndBack imports what it exported: what the format can say is the same again,
// whatever the texts are.
func TestExport_AndBack(t *testing.T) {
	text := rapid.Map(rapid.StringOfN(rapid.RuneFrom([]rune("ab Z09-_#:'\"\\|>{}[]*&!%@`~?,.\n\t🚀é中")), 1, 40, -1), strings.TrimSpace).
		Filter(func(s string) bool { return s != "" })
	line := rapid.Map(text, func(s string) string { return strings.Join(strings.Fields(s), " ") })
	paragraphs := rapid.SliceOfN(text, 1, 2)
	bounds := rapid.SampledFrom([]string{"", `\.md$`, `^src/.*\.(ts|tsx)$`, `a|b: c`, `"q" \d+ #`})
	rapid.Check(t, func(t *rapid.T) {
		var modes []mode.Mode
		for _, key := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9_]{0,8}[a-z0-9][a-z0-9_]{0,8}`), 1, 5, rapid.ID[string]).Draw(t, "keys") {
			c := &mode.ClientTools{Allow: []string{}}
			groups := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a " + reads, "b write_file", "c run_command"}), 0, 3, rapid.ID[string]).Draw(t, "groups")
			slices.Sort(groups)
			for _, g := range groups {
				c.Allow = append(c.Allow, strings.Fields(g)[1:]...)
			}
			if p := bounds.Draw(t, "bounds"); p != "" && c.Admits("write_file") {
				c.Files = []mode.FileRule{{Tools: []string{"write_file"}, Patterns: []string{p}, Description: line.Draw(t, "words")}}
			}
			modes = append(modes, mode.Mode{
				Key: agent.ModeKey(key), DisplayName: line.Draw(t, "name"), Description: text.Draw(t, "description"),
				WhenToUse: line.Draw(t, "when"), Status: mode.StatusActive, Version: "v1", IsDefault: key == "general",
				Instructions: paragraphs.Draw(t, "instructions"), Tools: []string{}, ClientTools: c,
				HumanRoleHints: []string{}, ExampleUtterances: []string{}, RAG: mode.Hints{Prefer: []string{}, Exclude: []string{}},
			})
		}
		got := back(t, modes)
		if len(got) != len(modes) {
			t.Fatalf("%d modes became %d:\n%s", len(modes), len(got), told(got))
		}
		for i, m := range modes {
			if !got[i].Taken() || len(got[i].Notes) > 0 {
				t.Fatalf("not as it was:\n%s", told(got[i:i+1]))
			}
			m.ID = got[i].Mode.ID // not in the format; it follows from the key
			if diff := cmp.Diff(m, got[i].Mode); diff != "" {
				t.Fatalf("mode (-want +got):\n%s", diff)
			}
		}
	})
}

package interchange_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/mode/interchange"
)

// project makes a folder from name, content, name, content …
func project(pairs ...string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		fsys[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return fsys
}

func imported(fsys fs.FS) []interchange.Imported {
	return interchange.Import(interchange.Find(fsys, "."))
}

// told renders what became of the modes, a line each and a line per note.
func told(modes []interchange.Imported) string {
	var b strings.Builder
	for _, m := range modes {
		switch {
		case m.Taken():
			fmt.Fprintf(&b, "%s: %s is %s\n", m.Source, m.Slug, m.Key)
		default:
			fmt.Fprintf(&b, "%s: %q is refused: %s\n", m.Source, m.Slug, m.Why)
		}
		for _, n := range m.Notes {
			fmt.Fprintf(&b, "  %s: %s\n", n.Kind, n.Text)
		}
	}
	return b.String()
}

const complete = `customModes:
  - slug: docs-writer
    name: ✍️ Docs writer
    roleDefinition: |-
      You write documents.

      You never write code.
    whenToUse: Use it to write documents.
    description: Writes documents.
    customInstructions: |-
      - Short sentences.
      - One idea each.
    groups:
      - read
      - - edit
        - fileRegex: \.(md|mdx)$
          description: Markdown
`

func TestImport_EveryMemberHasItsPlace(t *testing.T) {
	want := mode.Mode{
		ID: "A50203B250366C3F82E4D3A9EC87C8F2", Key: "docs_writer", DisplayName: "✍️ Docs writer",
		Description: "Writes documents.", WhenToUse: "Use it to write documents.", Status: mode.StatusActive, Version: "v1",
		Instructions: []string{"You write documents.\n\nYou never write code.", "- Short sentences.\n- One idea each."},
		Tools:        []string{}, HumanRoleHints: []string{}, ExampleUtterances: []string{}, RAG: mode.Hints{Prefer: []string{}, Exclude: []string{}},
		ClientTools: &mode.ClientTools{
			Allow: []string{"list_files", "read_file", "search_files", "write_file"},
			Files: []mode.FileRule{{Tools: []string{"write_file"}, Patterns: []string{`\.(md|mdx)$`}, Description: "Markdown"}},
		},
	}
	got := imported(project(".roomodes", complete))
	if len(got) != 1 || !got[0].Taken() || len(got[0].Notes) > 0 {
		t.Fatalf("imported:\n%s", told(got))
	}
	if diff := cmp.Diff(want, got[0].Mode); diff != "" {
		t.Errorf("mode (-want +got):\n%s", diff)
	}
	// The file is what a server reads, and importing again gives the same one.
	again, err := mode.Parse(got[0].Name(), got[0].File)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, again); diff != "" {
		t.Errorf("its file (-want +got):\n%s", diff)
	}
	if second := imported(project(".roomodes", complete)); string(second[0].File) != string(got[0].File) {
		t.Errorf("imported again:\n%s", second[0].File)
	}
}

// custom is a mode in .roomodes, with what the test is about.
func custom(members string) string {
	return "customModes:\n  - slug: x\n    name: X\n    description: D.\n    whenToUse: W.\n    roleDefinition: R.\n" + members
}

// TestImport_Quirks has one small example of every oddity that was found in modes which
// people keep in public.
func TestImport_Quirks(t *testing.T) {
	tests := []struct {
		name  string
		files []string
		want  string
	}{
		{"JSON, with an emoji in two escapes", []string{".roomodes",
			`{"customModes":[{"slug":"x","name":"\ud83d\ude80 X","description":"D.","whenToUse":"W.","roleDefinition":"R.","groups":["read"]}]}`},
			".roomodes: x is x\n"},
		{"JSON indented by tabs", []string{"custom_modes.json",
			"{\n\t\"customModes\": [\n\t\t{\"slug\": \"x\", \"name\": \"X\", \"description\": \"D.\", \"whenToUse\": \"W.\", \"roleDefinition\": \"R.\", \"groups\": []}\n\t]\n}"},
			"custom_modes.json: x is x\n"},
		{"JSON with a comma too many", []string{".roomodes",
			`{"customModes":[{"slug":"x","name":"X","description":"D.","whenToUse":"W.","roleDefinition":"R.","groups":[],},]}`},
			".roomodes: x is x\n"},
		{"a byte order mark, and the line ends of Windows", []string{".kilocodemodes",
			"\uFEFF" + strings.ReplaceAll(custom("    groups: [read]\n    customInstructions: |\n      a\n      b\n"), "\n", "\r\n")},
			".kilocodemodes: x is x\n"},
		{"UTF-16", []string{".roomodes", "\xff\xfec\x00"},
			".roomodes: \"\" is refused: the file is in UTF-16; save it as UTF-8\n"},
		{"not UTF-8", []string{".roomodes", custom("    customInstructions: caf\xe9\n")},
			".roomodes: \"\" is refused: the file is not valid UTF-8; save it as UTF-8\n"},
		{"a bare list", []string{".roomodes", "- {slug: x, name: X, description: D., whenToUse: W., roleDefinition: R., groups: []}\n"},
			".roomodes: x is x\n"},
		{"one mode alone", []string{".roomodes", "{slug: x, name: X, description: D., whenToUse: W., roleDefinition: R., groups: []}\n"},
			".roomodes: x is x\n"},
		{"nothing at all", []string{".roomodes", "# later\n", "custom_modes.yaml", "customModes: []\n"},
			".roomodes: \"\" is refused: the file is empty\n"},
		{"no list", []string{".roomodes", "customModes: {a: b}\n", "custom_modes.yaml", "modes: []\n"},
			".roomodes: \"\" is refused: customModes is not a list of modes\ncustom_modes.yaml: \"\" is refused: the file has no customModes\n"},
		{"not YAML", []string{".roomodes", "{{modes}}: [\n"},
			".roomodes: \"\" is refused: this is not valid YAML: line 1: did not find expected node content\n"},
		{"typographic quotes where YAML needs plain ones", []string{".roomodes", custom("    groups: [“read”, ‘edit’]\n")},
			".roomodes: x is x\n"},
		{"typographic quotes that break the file", []string{".roomodes",
			`{“customModes”: [{"slug": “x”, "name": "X", "description": "D.", "whenToUse": "W.", "roleDefinition": "R.", "groups": []}]}`},
			".roomodes: x is x\n  changed: the file could be read only after its typographic quotes and spaces were made plain\n"},
		{"typographic quotes around a value", []string{".roomodes", strings.Replace(custom("    groups: []\n"), "name: X", "name: “X”", 1)},
			".roomodes: x is x\n  changed: name: typographic quotes and spaces were made plain\n"},
		{"typographic quotes that hide a comma", []string{".roomodes",
			`{“customModes”: [{"slug": “x”, "name": “X, Y: Z”, "description": "D.", "whenToUse": "W.", "roleDefinition": "R.", "groups": []}]}`},
			".roomodes: x is x\n  changed: the file could be read only after its typographic quotes and spaces were made plain\n"},
		{"typographic quotes and spaces in a text", []string{".roomodes", custom("    customInstructions: Don’t say “maybe”.\n    groups: []\n")},
			".roomodes: x is x\n  changed: customInstructions: typographic quotes and spaces were made plain\n"},
		{"text that nobody sees", []string{".roomodes", custom("    customInstructions: \"Be kind.\\u200b\\u202e \\U000E0041\\U000E0042\"\n    groups: []\n")},
			".roomodes: x is x\n  changed: customInstructions: invisible characters were left out\n"},
		{"a slug that is no key", []string{".roomodes", "customModes:\n  - {slug: 'Spec Pseudo--Code v2', name: X, description: D., whenToUse: W., roleDefinition: R., groups: []}\n"},
			".roomodes: Spec Pseudo--Code v2 is spec_pseudo__code_v2\n  changed: slug: \"Spec Pseudo--Code v2\" became the key \"spec_pseudo__code_v2\"\n"},
		{"a slug without a letter", []string{".roomodes", "customModes:\n  - {slug: 文档, name: X, roleDefinition: R., description: D., whenToUse: W., groups: []}\n"},
			".roomodes: \"文档\" is refused: it has no slug that a key could be made of\n"},
		{"a slug that is no name", []string{".roomodes", "customModes:\n  - {slug: " + strings.Repeat("x", 101) + ", name: X, roleDefinition: R., description: D., whenToUse: W., groups: []}\n"},
			".roomodes: \"" + strings.Repeat("x", 101) + "\" is refused: its slug is longer than 100 characters\n"},
		{"no slug", []string{".roomodes", "customModes:\n  - {name: Docs Writer, description: D., whenToUse: W., roleDefinition: R., groups: []}\n"},
			".roomodes: docs-writer is docs_writer\n  changed: slug: made from the name\n"},
		{"only a slug and a role", []string{".roomodes", "customModes:\n  - slug: x\n    roleDefinition: You help. You are kind.\n    groups: []\n"},
			".roomodes: x is x\n  changed: name: made from the slug\n  changed: description: made from the role\n" +
				"  changed: whenToUse: made from the description; the model tells the modes apart by it, so say when to use this one\n"},
		{"whenToUse in several lines", []string{".roomodes", "customModes:\n  - slug: x\n    name: X\n    roleDefinition: R.\n    groups: []\n    whenToUse: |-\n      Use it to test.\n      Not to write.\n"},
			".roomodes: x is x\n  changed: description: made from whenToUse\n  changed: whenToUse: put on one line\n"},
		{"nothing for the model", []string{".roomodes", "customModes:\n  - {slug: x, name: X, description: D., systemInstructions: R., groups: []}\n"},
			".roomodes: \"x\" is refused: it says nothing to the model: there is no role, no instructions and no rules\n" +
				"  left out: members that have no place here: systemInstructions\n  changed: whenToUse: made from the description; the model tells the modes apart by it, so say when to use this one\n"},
		{"members of other products", []string{".roomodes", custom("    groups: []\n    source: project\n    iconName: codicon-edit\n    tags: [a]\n")},
			".roomodes: x is x\n  left out: members that have no place here: source, iconName, tags\n"},
		{"a member twice", []string{".roomodes", custom("    groups: []\n    name: Y\n")},
			".roomodes: x is x\n  merged: name is there twice; the first was taken\n"},
		{"a text that is none", []string{".roomodes", custom("    groups: []\n    customInstructions: [a, b]\n")},
			".roomodes: x is x\n  left out: customInstructions: it is not a text\n"},
		{"a mode that is none", []string{".roomodes", "customModes: [docs]\n"},
			".roomodes: \"\" is refused: it has no slug that a key could be made of\n  refused: it is not a mapping of names to values\n" +
				"  changed: name: made from the slug\n  changed: description: made from the role\n" +
				"  changed: whenToUse: made from the description; the model tells the modes apart by it, so say when to use this one\n"},
		{"the same mode twice, and in two files", []string{".roomodes", custom("    groups: []\n  - {slug: X, name: Y, description: D., whenToUse: V., roleDefinition: R., groups: []}\n"),
			"custom_modes.yaml", custom("    groups: []\n")},
			".roomodes: x is x\n" +
				".roomodes: \"X\" is refused: its key is that of x in .roomodes already\n  changed: slug: \"X\" became the key \"x\"\n" +
				"custom_modes.yaml: \"x\" is refused: its key is that of x in .roomodes already\n"},
		{"a mode that is too large", []string{".roomodes", custom("    groups: []\n    customInstructions: " + strings.Repeat("word ", 60_000) + "\n")},
			".roomodes: \"x\" is refused: the file is larger than 256 KiB; a mode needs far less\n"},
		{"aliases", []string{".roomodes", "all: &all [read, edit]\ncustomModes:\n  - {slug: x, name: X, description: D., whenToUse: W., roleDefinition: R., groups: *all}\n"},
			".roomodes: x is x\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, told(imported(project(tt.files...)))); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
		})
	}
}

func TestImport_CleansTexts(t *testing.T) {
	tests := []struct{ in, want string }{
		{`"Be \u201ckind\u201d, don\u2019t\u00a0rush."`, `Be "kind", don't rush.`},
		{`"a\u200bb\u2060c\ufeffd\u00ade"`, "abcde"},
		{`"left\u202e right\u2066"`, "left right"},
		{`"kind\U000E0041\U000E0042"`, "kind"},
		{`"bell\a tab\tend"`, "bell tab\tend"},
		{`"family \U0001F468\u200D\U0001F469 — “q”…"`, "family \U0001F468\u200D\U0001F469 — \"q\"…"},
	}
	for _, tt := range tests {
		got := imported(project(".roomodes", custom("    groups: []\n    customInstructions: "+tt.in+"\n")))
		if len(got) != 1 || !got[0].Taken() || got[0].Mode.Instructions[1] != tt.want {
			t.Errorf("%s became %q, want %q", tt.in, got[0].Mode.Instructions, tt.want)
		}
	}
}

const (
	reads  = "list_files read_file search_files"
	writes = reads + " write_file"
	runs   = writes + " run_command"
)

// TestImport_Groups is about what a mode may do: never more than it could.
func TestImport_Groups(t *testing.T) {
	tests := []struct {
		name, groups, allow, patterns, notes string
	}{
		{"all", "[read, edit, command]", runs, "", ""},
		{"in any order", "[command, read]", reads + " run_command", "", ""},
		{"none", "[]", "", "", ""},
		{"null", "", "", "", "refused: groups is not a list: no client tool is allowed\n"},
		{"a text", "read", "", "", "refused: groups is not a list: no client tool is allowed\n"},
		{"no tool for it", "[read, browser, mcp, modes]", reads, "",
			"left out: group browser: there is no tool for it\nleft out: group mcp: list in tools which servers the mode may use, such as github__*\n" +
				"left out: group modes: there is no tool for it\n"},
		{"in capitals", "[Read, ' EDIT ']", writes, "", ""},
		{"bounds", `[[edit, {fileRegex: '\.md$', description: Markdown}]]`, "write_file", `\.md$`, ""},
		{"bounds in a third place", `[[edit, {fileRegex: '\.md$'}, {description: Markdown}]]`, "write_file", `\.md$`, ""},
		{"bounds as a mapping", `[{edit: {fileRegex: '\.md$'}}]`, "write_file", `\.md$`, ""},
		{"a list of one", `[[edit]]`, "write_file", "", ""},
		{"an escaped slash", `[[edit, {fileRegex: '^src\/.*'}]]`, "write_file", `^src\/.*`, ""},
		{"twice", "[read, read]", reads, "", "merged: group read is there twice\n"},
		{"twice, with bounds", `[[edit, {fileRegex: a}], [edit, {fileRegex: b}], [edit, {fileRegex: a}]]`, "write_file", "a b",
			"merged: group edit is there twice; files that match either fileRegex may be written\nmerged: group edit is there twice; files that match either fileRegex may be written\n"},
		{"with and without bounds", `[edit, [edit, {fileRegex: a}]]`, "write_file", "a",
			"merged: group edit is there with and without fileRegex; the bound was kept\n"},
		{"without and with bounds", `[[edit, {fileRegex: a}], edit]`, "write_file", "a",
			"merged: group edit is there with and without fileRegex; the bound was kept\n"},
		{"looking ahead", `[read, [edit, {fileRegex: '^docs/(?!secret/).*'}]]`, reads, "",
			"refused: fileRegex \"^docs/(?!secret/).*\" of group edit: it looks ahead or behind, which RE2 does not do; say with several patterns what may match\n" +
				"refused: group edit: without its bound it would allow every file, so write_file is not allowed\n"},
		{"one of two does not compile", `[[edit, {fileRegex: '(?<!a)b'}], [edit, {fileRegex: c}]]`, "write_file", "c",
			"merged: group edit is there twice; files that match either fileRegex may be written\n" +
				"refused: fileRegex \"(?<!a)b\" of group edit: it looks ahead or behind, which RE2 does not do; say with several patterns what may match\n"},
		{"a name with wildcards", `[[edit, {fileRegex: '*.md'}]]`, "", "",
			"refused: fileRegex \"*.md\" of group edit: missing argument to repetition operator: `*`; it looks like a file name with wildcards, and fileRegex is a regular expression\n" +
				"refused: group edit: without its bound it would allow every file, so write_file is not allowed\n"},
		{"empty bounds", `[[edit, {fileRegex: '', description: None}]]`, "", "",
			"refused: fileRegex of group edit is empty\nrefused: group edit: without its bound it would allow every file, so write_file is not allowed\n"},
		{"bounds that are none", `[[edit, '\.md$']]`, "", "",
			"refused: the bounds of group edit cannot be read\nrefused: group edit: without its bound it would allow every file, so write_file is not allowed\n"},
		{"bounds of another group", `[[read, {fileRegex: a}], [command, {allowed: [ls]}]]`, reads + " run_command", "",
			"left out: allowed of group command\nleft out: fileRegex of group read: it bounds what is written only\n"},
		{"entries that are none", `[[], {a: b, c: d}, [[read]], '']`, "", "", strings.Repeat("left out: an entry of groups that is neither a name nor a list of a name and its bounds\n", 4)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := imported(project(".roomodes", custom("    groups: "+tt.groups+"\n")))
			if len(got) != 1 || !got[0].Taken() {
				t.Fatalf("imported:\n%s", told(got))
			}
			var patterns []string
			for _, r := range got[0].Mode.ClientTools.Files {
				patterns = append(patterns, r.Patterns...)
			}
			var notes strings.Builder
			for _, n := range got[0].Notes {
				fmt.Fprintf(&notes, "%s: %s\n", n.Kind, n.Text)
			}
			if diff := cmp.Diff([]string{tt.allow, tt.patterns, tt.notes},
				[]string{strings.Join(got[0].Mode.ClientTools.Allow, " "), strings.Join(patterns, " "), notes.String()}); diff != "" {
				t.Errorf("allow, patterns, notes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestImport_WithoutGroupsNothingIsAllowed(t *testing.T) {
	got := imported(project(".roomodes", custom("")))
	if len(got) != 1 || got[0].Mode.ClientTools == nil || len(got[0].Mode.ClientTools.Allow) > 0 {
		t.Errorf("imported:\n%s%s", told(got), got[0].File)
	}
	if want := ".roomodes: x is x\n  changed: it has no groups: no client tool is allowed\n"; told(got) != want {
		t.Errorf("told %s", told(got))
	}
}

func TestImport_GeneralIsTheDefault(t *testing.T) {
	got := imported(project(".roomodes", "customModes:\n  - {slug: general, name: G, description: D., whenToUse: W., roleDefinition: R., groups: []}\n"))
	if len(got) != 1 || !got[0].Mode.IsDefault {
		t.Fatalf("imported:\n%s", told(got))
	}
	if _, err := mode.Load(project("general.yaml", string(got[0].File))); err != nil {
		t.Error(err)
	}
}

func TestImport_RulesBesideTheModes(t *testing.T) {
	tests := []struct {
		name  string
		files []string
		want  []string
		notes string
	}{
		{"a folder, in order", []string{".roo/rules-x/02.md", "second\n", ".roo/rules-x/01.md", "\uFEFFfirst\r\nline", ".roo/rules-x/deep/z.md", "third", ".roo/rules-y/a.md", "no"},
			[]string{"R.", "first\nline", "second", "third"}, ""},
		{"one file", []string{".roorules-x", "only"}, []string{"R.", "only"}, ""},
		{"the folder goes first", []string{".roorules-x", "old", ".roo/rules-x/a", "new"}, []string{"R.", "new"}, ""},
		{"Kilo Code's", []string{".kilocode/rules-x/a.md", "kilo"}, []string{"R.", "kilo"}, ""},
		{"empty ones", []string{".roo/rules-x/a.md", " \n", ".roo/rules-x/b.md", "b"}, []string{"R.", "b"}, ""},
		{"a picture", []string{".roo/rules-x/a.png", "\x89PNG\x00", ".roo/rules-x/b.md", "b"}, []string{"R.", "b"},
			"left out: rules .roo/rules-x/a.png: the file is not valid UTF-8; save it as UTF-8\n"},
		{"too much", []string{".roo/rules-x/a.md", strings.Repeat("a", 200<<10), ".roo/rules-x/b.md", strings.Repeat("b", 200<<10)},
			[]string{"R.", strings.Repeat("a", 200<<10)}, "left out: rules .roo/rules-x/b.md and those after it: together they are larger than 256 KiB\n"},
		{"too large", []string{".roo/rules-x/a.md", strings.Repeat("a", 300<<10)}, []string{"R."}, "left out: rules .roo/rules-x/a.md: it is larger than 256 KiB\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := imported(project(append(tt.files, ".roomodes", custom("    groups: []\n"))...))
			if len(got) != 1 || !got[0].Taken() {
				t.Fatalf("imported:\n%s", told(got))
			}
			if diff := cmp.Diff(tt.want, got[0].Mode.Instructions); diff != "" {
				t.Errorf("instructions (-want +got):\n%s", diff)
			}
			var notes strings.Builder
			for _, n := range got[0].Notes {
				fmt.Fprintf(&notes, "%s: %s\n", n.Kind, n.Text)
			}
			if diff := cmp.Diff(tt.notes, notes.String()); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestImport_RulesThatAModeCarriesAlong(t *testing.T) {
	got := imported(project(".roomodes", custom("    groups: []\n    rulesFiles:\n      - {relativePath: rules-x/a.md, content: Rule A.}\n      - {relativePath: b.md}\n")))
	if len(got) != 1 || !cmp.Equal(got[0].Mode.Instructions, []string{"R.", "Rule A."}) {
		t.Errorf("imported:\n%s%s", told(got), got[0].File)
	}
	if want := ".roomodes: x is x\n  left out: entry 2 of rulesFiles has no content\n"; told(got) != want {
		t.Errorf("told %s", told(got))
	}
}

// FuzzImport feeds files that nobody wrote: whatever is taken must be a mode file.
func FuzzImport(f *testing.F) {
	f.Add([]byte(complete), true)
	f.Add([]byte(`{"customModes":[{"slug":"x","roleDefinition":"R","groups":[["edit",{"fileRegex":"a"}]]}]}`), true)
	f.Add([]byte("customModes: &a [*a, {slug: x, groups: *a, rulesFiles: *a}]"), true)
	f.Add([]byte("---\nname: A\ntools: [read]\n---\nText."), false)
	f.Fuzz(func(t *testing.T, data []byte, custom bool) {
		name := "a.agent.md"
		if custom {
			name = ".roomodes"
		}
		for _, m := range imported(project(name, string(data))) {
			if !m.Taken() {
				continue
			}
			if _, err := mode.Parse(m.Name(), m.File); err != nil {
				t.Errorf("%v\n%s", err, m.File)
			}
		}
	})
}

func TestImport_ASlugIsNoPath(t *testing.T) {
	fsys := project("secret.md", "S", ".roomodes", "customModes:\n  - {slug: '../../secret.md', name: X, description: D., whenToUse: W., roleDefinition: R., groups: []}\n")
	if got := imported(fsys); len(got) != 1 || !cmp.Equal(got[0].Mode.Instructions, []string{"R."}) || got[0].Name() != "_secret_md.yaml" {
		t.Errorf("imported:\n%s%s", told(got), got[0].File)
	}
}

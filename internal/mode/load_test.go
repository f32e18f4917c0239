package mode

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prove"
)

const general = `id: 3F8E4F377F7A4C189C7F6A8B9F945C11
key: general
displayName: General
description: Everyday questions.
whenToUse: Use this mode for everyday questions.
isDefault: true
`

const second = `id: 00000000000000000000000000000001
key: second
displayName: Second
description: Another one.
whenToUse: Use this mode second.
`

// files makes a folder of mode files from name, content, name, content …
func files(pairs ...string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		fsys[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return fsys
}

func TestLoad_ListsEveryProblem(t *testing.T) {
	tests := []struct {
		name string
		fsys fs.FS
		want []string
	}{
		{"no files", files("readme.md", "x"), []string{
			"there are no mode files; write one *.yaml file per mode"}},
		{"empty file", files("general.yaml", general, "b.yaml", ""), []string{
			"b.yaml: the file is empty; write one mode into it"}},
		{"only a comment", files("general.yaml", general, "b.yaml", "# later\n"), []string{
			"b.yaml: the file is empty; write one mode into it"}},
		{"syntax", files("general.yaml", general, "b.yml", "id: x\nkey: [a\n"), []string{
			"b.yml:1: this is not valid YAML: did not find expected ',' or ']'"}},
		{"a syntax fault hides no other file's faults, and nothing is said of the whole", files(
			"a.yaml", second+"status: new\n", "general.yaml", "key: 'general\n"), []string{
			`a.yaml:6: status must be active, experimental or deprecated, not "new"`,
			"general.yaml:2: this is not valid YAML: found unexpected end of stream"}},
		{"a list", files("general.yaml", general, "b.yaml", "- a\n"), []string{
			`b.yaml:1: a mode file is a mapping of names to values, such as "key: general"`}},
		{"two documents", files("general.yaml", general+"---\n"+second), []string{
			"general.yaml: the file holds more than one YAML document; write one file per mode"}},
		{"unknown members", files("general.yaml", general+"model: gpt\ndisplay_name: G\nrag: {boost: [a]}\n"), []string{
			`general.yaml:7: unknown member "model"`,
			`general.yaml:8: unknown member "display_name"; did you mean "displayName"?`,
			`general.yaml:9: unknown member "rag.boost"`}},
		{"member twice", files("general.yaml", general+"key: general\n"), []string{
			`general.yaml:7: member "key" is there twice, first on line 2`}},
		{"missing members", files("general.yaml", "key: general\nisDefault: true\ndisplayName:\nwhenToUse: '  '\n"), []string{
			"general.yaml: id is required",
			"general.yaml: description is required",
			"general.yaml:3: displayName is required",
			"general.yaml:4: whenToUse is required"}},
		{"bad id and key", files("general.yaml", general, "b.yaml", strings.NewReplacer(
			"00000000000000000000000000000001", "00000000-0000-0000-0000-000000000001", "key: second", "key: Second-Mode").Replace(second)), []string{
			`b.yaml:1: id must be 32 hexadecimal characters (a GUID without hyphens), not "00000000-0000-0000-0000-000000000001"`,
			`b.yaml:2: key must be made of the characters a-z, 0-9 and _ only, not "Second-Mode"`}},
		{"one-line members", files("general.yaml", general, "b.yaml", strings.NewReplacer(
			"Use this mode second.", `"Use this.\nCurrent mode: general"`, "displayName: Second", `displayName: "A\u2028B"`).Replace(second)), []string{
			"b.yaml:3: displayName must be one line",
			"b.yaml:5: whenToUse must be one line; put the rest into description or instructions"}},
		{"two paragraphs", files("general.yaml", general+"systemPromptSummary: |\n  One.\n\n  Two.\n"), []string{
			"general.yaml:7: systemPromptSummary must be one paragraph"}},
		{"wrong types, each said once", files("general.yaml", general+"tools: agent_list_modes\ninstructions: [a, [b], '']\nrag: no\n",
			"b.yaml", "id: {}\nkey: second\ndisplayName: [a]\ndescription: d\nwhenToUse: w\nisDefault: maybe\n"), []string{
			"b.yaml:1: id must be text",
			"b.yaml:3: displayName must be text",
			"b.yaml:6: isDefault must be true or false",
			"general.yaml:7: tools must be a list",
			"general.yaml:8: instructions must be a list of texts, none of them empty",
			"general.yaml:8: instructions must be a list of texts, none of them empty",
			"general.yaml:9: rag must be a mapping of names to values"}},
		{"alias", files("general.yaml", general+"version: &v v2\nsystemPromptSummary: *v\n"), []string{
			"general.yaml:8: systemPromptSummary must be written out; aliases are not supported"}},
		{"tools", files("general.yaml", general+"tools:\n  - agent_list_modes\n  - agent_change_mode\n  - agent_list_modes\n"), []string{
			"general.yaml:9: warning: agent_change_mode need not be listed: it is part of every mode",
			`general.yaml:10: tool "agent_list_modes" is listed twice`}},
		{"no default", files("general.yaml", strings.Replace(general, "true", "false", 1)), []string{
			"no mode is the default; set isDefault: true in exactly one file"}},
		{"two defaults", files("a.yaml", second+"isDefault: true\n", "general.yaml", general), []string{
			"general.yaml:6: isDefault is true in a.yaml as well; exactly one mode is the default"}},
		{"no general", files("b.yaml", second+"isDefault: true\n"), []string{
			`there is no mode with key "general", in which new sessions start`}},
		{"same key and id in several files", files("a.yaml", general, "b.yaml", second,
			"c.yaml", second, "d.yaml", strings.Replace(second, "second", "third", 1)), []string{
			"c.yaml:1: id is that of b.yaml as well; every mode has its own",
			"c.yaml:2: key is that of b.yaml as well; every mode has its own",
			"d.yaml:1: id is that of b.yaml as well; every mode has its own"}},
		{"ids differ in case only", files("a.yaml", general, "b.yaml", strings.NewReplacer(
			"00000000000000000000000000000001", "3f8e4f377f7a4c189c7f6a8b9f945c11").Replace(second)), []string{
			"b.yaml:1: id is that of a.yaml as well; every mode has its own"}},
		{"too large", files("general.yaml", general, "b.yaml", second+"#"+strings.Repeat("x", maxFile)), []string{
			"b.yaml: the file is larger than 256 KiB; a mode needs far less"}},
		{"not a regular file", fstest.MapFS{
			"general.yaml": {Data: []byte(general)}, "b.yaml": {Mode: fs.ModeNamedPipe}}, []string{
			"b.yaml: this is not a regular file"}},
		{"no folder", fstest.MapFS{".": {Mode: 0}}, []string{
			"the folder of mode files cannot be read: readdir .: not implemented"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Load(tt.fsys)
			var got Problems
			if !errors.As(err, &got) {
				t.Fatalf("Load() = %v, %v, want Problems", c, err)
			}
			var lines []string
			for _, p := range got {
				lines = append(lines, p.String())
				if !strings.Contains(err.Error(), p.String()) {
					t.Errorf("Error() does not list %q:\n%v", p, err)
				}
			}
			if diff := cmp.Diff(tt.want, lines); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoad_TooManyFiles(t *testing.T) {
	fsys := files("general.yaml", general)
	for i := range maxFiles {
		fsys[fmt.Sprintf("m%d.yaml", i)] = &fstest.MapFile{Data: []byte(strings.NewReplacer(
			"00000000000000000000000000000001", fmt.Sprintf("%032d", i), "key: second", fmt.Sprintf("key: m%d", i)).Replace(second))}
	}
	_, err := Load(fsys)
	if err == nil || !strings.Contains(err.Error(), "there are 1001 mode files; at most 1000 are read") {
		t.Errorf("Load() = %v, want the number of files refused", err)
	}
}

func TestLoad_Defaults(t *testing.T) {
	c, err := Load(files(
		"general.yaml", "\uFEFF"+general, // some editors write a byte order mark
		"SECOND.YML", strings.ReplaceAll(second, "\n", "\r\n"),
		".hidden.yaml", "not: [a mode",
		"notes.txt", "not a mode",
	))
	if err != nil {
		t.Fatal(err)
	}
	got, ok := c.Get("second")
	if !ok {
		t.Fatal("Get(second) found nothing")
	}
	want := Mode{
		ID: "00000000000000000000000000000001", Key: "second", DisplayName: "Second",
		Description: "Another one.", WhenToUse: "Use this mode second.",
		Status: StatusActive, Version: "v1",
		Instructions: []string{}, Tools: []string{}, HumanRoleHints: []string{}, ExampleUtterances: []string{},
		RAG: Hints{Prefer: []string{}, Exclude: []string{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mode (-want +got):\n%s", diff)
	}
}

func TestLoad_TakesEverythingOver(t *testing.T) {
	c, err := Load(files("general.yaml", general+`
systemPromptSummary: |
  One paragraph
  on two lines.
status: experimental
version: 2
instructions: [Be brief., "Line one.\nLine two."]
tools: [agent_list_modes, other]
humanRoleHints: [Anyone]
exampleUtterances: ["What is this?"]
rag: {prefer: [docs], exclude: [vendor]}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Mode{
		ID: "3F8E4F377F7A4C189C7F6A8B9F945C11", Key: "general", DisplayName: "General",
		Description: "Everyday questions.", WhenToUse: "Use this mode for everyday questions.",
		SystemPromptSummary: "One paragraph\non two lines.",
		IsDefault:           true, Status: StatusExperimental, Version: "2",
		Instructions: []string{"Be brief.", "Line one.\nLine two."}, Tools: []string{"agent_list_modes", "other"},
		HumanRoleHints: []string{"Anyone"}, ExampleUtterances: []string{"What is this?"},
		RAG: Hints{Prefer: []string{"docs"}, Exclude: []string{"vendor"}},
	}
	if diff := cmp.Diff(want, c.Default()); diff != "" {
		t.Errorf("mode (-want +got):\n%s", diff)
	}
}

func TestLoad_WarningsDoNotStopIt(t *testing.T) {
	c, err := Load(files("general.yaml", general+"tools: [agent_change_mode]\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Problems{{File: "general.yaml", Line: 7, Severity: SeverityWarning,
		Message: "agent_change_mode need not be listed: it is part of every mode"}}
	if diff := cmp.Diff(want, c.Warnings()); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestLint_NamesUnknownTools(t *testing.T) {
	got := Lint(files(
		"general.yaml", general+"tools:\n  - agent_change_mode\n  - agent_list_modes\n  - serch\n",
		"b.yaml", second+"status: new\ntools: [other]\n",
	), []string{"agent_change_mode", "agent_list_modes"})
	want := Problems{
		{"b.yaml", 6, SeverityError, `status must be active, experimental or deprecated, not "new"`},
		{"b.yaml", 7, SeverityError, `unknown tool "other"; the server tools are: agent_change_mode, agent_list_modes`},
		{"general.yaml", 8, SeverityWarning, "agent_change_mode need not be listed: it is part of every mode"},
		{"general.yaml", 10, SeverityError, `unknown tool "serch"; the server tools are: agent_change_mode, agent_list_modes`},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if !got.Fatal() || got[2:3].Fatal() {
		t.Errorf("Fatal() = %v, of the warning alone %v", got.Fatal(), got[2:3].Fatal())
	}
}

func TestLint_PatternsAndGroups(t *testing.T) {
	got := Lint(files("general.yaml", general+"toolChoice: all\ntools:\n  - files__*\n  - group:reading\n  - none__*\n  - '[x'\n  - group:writing\n"),
		[]string{"files__read", "group:reading"})
	want := Problems{
		{"general.yaml", 7, SeverityError, `toolChoice must be allowed_tools or left out, not "all"`},
		{"general.yaml", 11, SeverityWarning, `the pattern "none__*" matches no tool of the server`},
		{"general.yaml", 12, SeverityError, `"[x" is not a pattern for names: syntax error in pattern`},
		{"general.yaml", 13, SeverityError, `unknown tool "group:writing"; the server tools are: files__read, group:reading`},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestBuiltin(t *testing.T) {
	if got := Lint(Files(), []string{"agent_list_modes"}); len(got) > 0 {
		t.Errorf("the built-in modes have problems: %v", got)
	}
	want := []struct {
		key   agent.ModeKey
		id    string
		tools []string
	}{
		{"general", "3F8E4F377F7A4C189C7F6A8B9F945C11", []string{"agent_list_modes"}},
		{"ddr_authoring", "A9E1F9C15A0C4F8D9AF51F3E8B2A6D22", []string{}},
		{"workflow_authoring", "0FB81E6A8337444BA00A0CE28E3A1F78", []string{"agent_list_modes"}},
	}
	c := Builtin()
	if got := c.Default().Key; got != agent.ModeGeneral {
		t.Errorf("default = %q, want general", got)
	}
	for i, m := range c.All() {
		if m.Key != want[i].key || m.ID != want[i].id || !cmp.Equal(m.Tools, want[i].tools) {
			t.Errorf("mode %d = %s %s %v, want %v", i, m.Key, m.ID, m.Tools, want[i])
		}
		if len(m.Instructions) == 0 || len(m.ExampleUtterances) == 0 || len(m.HumanRoleHints) == 0 || m.SystemPromptSummary == "" {
			t.Errorf("mode %s does not say enough about itself: %+v", m.Key, m)
		}
	}
}

func TestCatalog_Order(t *testing.T) {
	c, err := Load(files("z.yaml", strings.Replace(second, "second", "zulu", 1)+"isDefault: true\n",
		"b.yaml", strings.NewReplacer("second", "bravo", "0001", "0002").Replace(second),
		"general.yaml", strings.Replace(general, "true", "false", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"zulu", "bravo", "general"}, c.Keys()); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if _, ok := c.Get("gone"); ok {
		t.Error("Get found a mode that is not there")
	}
}

func TestCatalog_CannotBeChangedFromOutside(t *testing.T) {
	prove.Rule(t, "TUL010-4.1-c")
	c := Builtin()
	before := Layer(c, "general", "")
	for _, m := range append(c.All(), c.Default()) {
		for _, s := range [][]string{m.Tools, m.Instructions, m.ExampleUtterances, m.HumanRoleHints} {
			for i := range s {
				s[i] = "changed"
			}
		}
	}
	all, err := c.GetAllModes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i].ExampleUtterances = append(all[i].ExampleUtterances[:0], "changed")
		all[i].DisplayName = "changed"
	}
	if diff := cmp.Diff(before, Layer(c, "general", "")); diff != "" {
		t.Errorf("the catalogue changed (-before +after):\n%s", diff)
	}
	if got, want := c.Default().ExampleUtterances[0], "What does this error mean?"; got != want {
		t.Errorf("example = %q, want %q", got, want)
	}
}

func TestCatalog_Summaries(t *testing.T) {
	prove.Rule(t, "TUL010-2-b", "TUL010-2-c", "TUL010-2-d", "TUL010-2-e", "TUL010-2-f", "TUL010-2-g",
		"TUL010-2-h", "TUL010-2-i", "TUL010-2-j")
	c, err := Load(files("general.yaml", general+"systemPromptSummary: Be plain.\nhumanRoleHints: [Anyone]\nexampleUtterances: [\"Why?\"]\n",
		"b.yaml", second))
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.GetAllModes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Summary{
		{ID: "3F8E4F377F7A4C189C7F6A8B9F945C11", Key: "general", DisplayName: "General", Description: "Everyday questions.",
			SystemPromptSummary: "Be plain.", IsDefault: true, HumanRoleHints: []string{"Anyone"}, ExampleUtterances: []string{"Why?"}},
		{ID: "00000000000000000000000000000001", Key: "second", DisplayName: "Second", Description: "Another one.",
			HumanRoleHints: []string{}, ExampleUtterances: []string{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("summaries (-want +got):\n%s", diff)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(general))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("? [x]\n: {<<: {}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got := parse("f.yaml", data)
		if got.problems.Fatal() {
			return
		}
		// What passes must fit into the lines of the mode layer.
		if m := got.mode; !oneLine(m.DisplayName+m.WhenToUse) || !keyPattern.MatchString(string(m.Key)) || len(m.ID) != 32 {
			t.Errorf("parse(%q) let through %+v", data, m)
		}
	})
}

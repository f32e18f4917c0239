package mode

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const writesDocs = `clientTools:
  allow: [read_file, "write_*"]
  files:
    - tools: [write_file]
      patterns: ['\.md$', '^docs/']
      description: Markdown and docs
`

func TestClientTools_Admits(t *testing.T) {
	c, err := Load(files("general.yaml", general+writesDocs, "b.yaml", second+"clientTools: {allow: []}\n"))
	if err != nil {
		t.Fatal(err)
	}
	bounded, _ := c.Get("general")
	none, _ := c.Get("second")
	free, _ := Builtin().Get("general")
	tests := []struct {
		name                  string
		bounded, none, unsaid bool
	}{
		{"read_file", true, false, true},
		{"write_file", true, false, true},
		{"write_", true, false, true},
		{"read_files", false, false, true},
		{"run_command", false, false, true},
	}
	for _, tt := range tests {
		got := []bool{bounded.ClientTools.Admits(tt.name), none.ClientTools.Admits(tt.name), free.ClientTools.Admits(tt.name)}
		if diff := cmp.Diff([]bool{tt.bounded, tt.none, tt.unsaid}, got); diff != "" {
			t.Errorf("%s is admitted: %s", tt.name, diff)
		}
	}
}

func TestClientTools_RefusesFilesOutsideTheRule(t *testing.T) {
	c, err := Load(files("general.yaml", general+writesDocs))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		tool, arguments string
		refused         bool
	}{
		{"write_file", `{"path":"README.md"}`, false},
		{"write_file", `{"path":"docs/a.txt"}`, false},
		{"write_file", `{"path":"./docs/a.txt"}`, false},
		{"write_file", `{"path":"docs\\a.txt"}`, false},
		{"write_file", `{"path":"main.go"}`, true},
		{"write_file", `{"path":"docs/../main.go"}`, true},
		{"write_file", `{"path":"README.md.go"}`, true},
		{"write_file", `{"path":"main.go","path":"a.md"}`, true},
		{"write_file", `{"path":"a.md","PATH":"main.go"}`, true},
		{"write_file", `{"Path":"a.md"}`, true},
		{"write_file", `{"path":"a.md\u0000"}`, true},
		{"write_file", `{"file":"README.md"}`, true},
		{"write_file", `{"path":["README.md"]}`, true},
		{"write_file", `{}`, true},
		{"write_file", `README.md`, true},
		{"write_file", ``, true},
		{"read_file", `{"path":"main.go"}`, false},
		{"run_command", `{}`, false},
	}
	for _, tt := range tests {
		why := c.Default().ClientTools.Refusal(tt.tool, tt.arguments)
		if (why != "") != tt.refused {
			t.Errorf("%s %s: refused with %q, want refused = %v", tt.tool, tt.arguments, why, tt.refused)
		}
	}
	const want = `This mode lets write_file touch only Markdown and docs (files that match \.md$ or ^docs/). Name such a file in the argument path, or ask the user to change the mode.`
	if diff := cmp.Diff(want, c.Default().ClientTools.Refusal("write_file", `{"path":"a.go"}`)); diff != "" {
		t.Errorf("refusal (-want +got):\n%s", diff)
	}
	if why := (*ClientTools)(nil).Refusal("write_file", `{}`); why != "" {
		t.Errorf("a mode that says nothing refuses: %s", why)
	}
}

func TestLoad_ClientToolsThatCannotBe(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
	}{
		{"not a mapping", "clientTools: [read_file]\n", []string{
			"general.yaml:7: clientTools must be a mapping of names to values"}},
		{"without allow", "clientTools: {files: []}\n", []string{
			`general.yaml:7: clientTools.allow is required; ["*"] allows every tool`}},
		{"no pattern for names", "clientTools:\n  allow: ['[a']\ntools: ['b[']\n", []string{
			`general.yaml:8: "[a" is not a pattern for names: syntax error in pattern`,
			`general.yaml:9: "b[" is not a pattern for names: syntax error in pattern`}},
		{"patterns that do not compile", "clientTools:\n  allow: [w]\n  files:\n    - tools: [w]\n      patterns:\n" +
			"        - '(?!a)'\n        - '(?<=a)b'\n        - '(a)\\1'\n        - '*.md'\n        - '(?<name>ok)'\n", []string{
			`general.yaml:12: the pattern "(?!a)" does not compile: it looks ahead or behind, which RE2 does not do; say with several patterns what may match`,
			`general.yaml:13: the pattern "(?<=a)b" does not compile: it looks ahead or behind, which RE2 does not do; say with several patterns what may match`,
			`general.yaml:14: the pattern "(a)\\1" does not compile: it refers back to a group, which RE2 does not do`,
			"general.yaml:15: the pattern \"*.md\" does not compile: missing argument to repetition operator: `*`"}},
		{"rules that say nothing", "clientTools:\n  allow: [w]\n  files:\n    - {tools: [w], patterns: []}\n    - {patterns: [a]}\n    - a\n", []string{
			"general.yaml:10: clientTools.files[0] needs tools and patterns, at least one of each",
			"general.yaml:11: clientTools.files[1] needs tools and patterns, at least one of each",
			"general.yaml:12: clientTools.files[2] must be a mapping of names to values"}},
		{"unknown members", "clientTools: {allow: [], deny: [a], files: [{tools: [a], patterns: [b], path: c}]}\n", []string{
			`general.yaml:7: unknown member "clientTools.deny"`,
			`general.yaml:7: unknown member "clientTools.files[0].path"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, p := range Lint(files("general.yaml", general+tt.text), nil) {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

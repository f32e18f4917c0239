package mode

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLint_WarnsOfWhatACarefulAuthorWouldNotLeave(t *testing.T) {
	third := strings.NewReplacer("0001", "0003", "second", "third", "Second", "Third").Replace(second)
	tests := []struct {
		name string
		fsys []string
		want []string
	}{
		{"modes that the model cannot tell apart", []string{"general.yaml", general, "a.yaml", second,
			"b.yaml", strings.Replace(third, "Use this mode third.", "use  this mode Second.", 1)}, []string{
			"b.yaml:5: warning: whenToUse is that of a.yaml as well: the model cannot tell the modes apart, and one of them is dead"}},
		{"modes that people cannot tell apart", []string{"general.yaml", general, "a.yaml", second,
			"b.yaml", strings.Replace(third, "displayName: Third", "displayName: second", 1)}, []string{
			"b.yaml:3: warning: displayName is that of a.yaml as well: people cannot tell the modes apart"}},
		{"a mode that is not read", []string{"general.yaml", general, "team/a.yaml", second, "team/notes.yaml", "key: x\n",
			"golden/general.yaml", "mode: general\n", ".git/b.yaml", second, "c.yaml.old", second}, []string{
			"team/a.yaml: warning: this mode is dead: only the files at the root of the folder are read; move it there"}},
		{"sessions begin in a mode that is deprecated", []string{"general.yaml", general + "status: deprecated\n"}, []string{
			"general.yaml:7: warning: general is deprecated, but new sessions start in it"}},
		{"sessions end up in a mode that is deprecated", []string{"general.yaml", strings.Replace(general, "true", "false", 1),
			"a.yaml", second + "isDefault: true\nstatus: deprecated\n"}, []string{
			"a.yaml:7: warning: the default mode is deprecated, but it stands in for modes that are gone"}},
		{"a deprecated mode is not dead", []string{"general.yaml", general, "a.yaml", second + "status: deprecated\n"}, nil},
		{"a long prompt", []string{"general.yaml", general + "instructions:\n  - short\n  - " + strings.Repeat("x", maxPrompt) + "\n"}, []string{
			"general.yaml:7: warning: what this mode tells the model is 32.0 KiB long (some 8198 tokens); it goes with every model call. Keep it under 32 KiB"}},
		{"a long line", []string{"general.yaml", general, "a.yaml", strings.Replace(second, "Use this mode second.", strings.Repeat("x", maxWhenToUse+1), 1)}, []string{
			"a.yaml:5: warning: whenToUse is 1.0 KiB long (some 256 tokens); it goes with every model call, in every mode. Keep it under 1 KiB"}},
		{"tools by a pattern", []string{"general.yaml", general + "tools: ['agent__*', 'agent_*']\n"}, []string{
			`general.yaml:7: warning: the pattern "agent__*" matches no tool of the server`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, p := range Lint(files(tt.fsys...), []string{"agent_list_modes"}) {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLint_LongListOfModes(t *testing.T) {
	pairs := []string{"general.yaml", general}
	for i := range 40 {
		key := fmt.Sprintf("m%02d", i)
		pairs = append(pairs, key+".yaml", fmt.Sprintf("id: %032d\nkey: %s\ndisplayName: %s\ndescription: d\nwhenToUse: %s %s\n",
			i, key, key, key, strings.Repeat("x", 900)))
	}
	got := Lint(files(pairs...), nil)
	if len(got) != 1 || got[0].File != "" || !strings.HasPrefix(got[0].Message, "the list of modes is 35.") {
		t.Errorf("Lint() = %v, want one warning about the list", got)
	}
}

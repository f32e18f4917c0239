package blockyaml

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

func TestFromJSON(t *testing.T) {
	const in = `{"name":"🚀 Rocket","empty":"","list":[],"map":{},"no":"no","number":1.50,"truth":true,"nothing":null,
		"looks":["true","12","a: b","# c","- d","x","~","it's"],
		"text":"# Title\n\n- one 🚀  \n\ttab\n","open":"a\nb","many":"a\n\n\n","lead":"  a\nb","bell":"a\nb\u0007","bare":"\n",
		"rules":[{"tools":["write_file"],"patterns":["\\.md$"]},[["a"],[]]]}`
	const want = `name: 🚀 Rocket
empty: ""
list: []
map: {}
"no": "no"
number: 1.50
truth: true
nothing: null
looks:
  - "true"
  - "12"
  - "a: b"
  - "# c"
  - "- d"
  - x
  - "~"
  - it's
text: |
  # Title

  - one 🚀  
  	tab
open: |-
  a
  b
many: |+
  a


lead: |2-
    a
  b
bell: "a\nb\u0007"
bare: "\n"
rules:
  - tools:
      - write_file
    patterns:
      - \.md$
  -
    -
      - a
    - []
`
	got, err := FromJSON([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("YAML (-want +got):\n%s", diff)
	}
}

func TestFromJSON_RefusesWhatIsNoJSON(t *testing.T) {
	for _, in := range []string{``, `{`, `[1,`, `{} {}`, `x`} {
		if got, err := FromJSON([]byte(in)); err == nil {
			t.Errorf("FromJSON(%q) = %q, want an error", in, got)
		}
	}
}

// TestMarshal_ReadsBackAsItWas tries texts that YAML has a meaning of its own for.
func TestMarshal_ReadsBackAsItWas(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ \t\n:#\-a"'|>{}\[\],&*!%@~?🚀\x{85}\x{2028}\x{feff}0-9]{0,12}`))
	rapid.Check(t, func(t *rapid.T) {
		want := map[string]any{
			"text":   text.Draw(t, "text"),
			"list":   rapid.SliceOfN(text, 0, 3).Draw(t, "list"),
			"nested": []map[string]string{{text.Draw(t, "key"): text.Draw(t, "value")}},
		}
		b, err := Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := yaml.Unmarshal(b, &got); err != nil {
			t.Fatalf("%v in:\n%s", err, b)
		}
		w, _ := json.Marshal(want)
		g, _ := json.Marshal(got)
		if string(w) != string(g) {
			t.Fatalf("read back: %s\nwant %s\nfrom:\n%s", g, w, b)
		}
	})
}

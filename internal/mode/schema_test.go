package mode

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// TestSchema_IsTheOneWePublished fails when the schema in docs is not that of the types.
// After a change that is meant: go test ./internal/mode -run TestSchema -update
func TestSchema_IsTheOneWePublished(t *testing.T) {
	got, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "docs", "mode.schema.json")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is not the schema of mode files (-published +now):\n%s", path, diff)
	}
}

// validator is the schema as an editor would use it.
func validator(t *testing.T) func(file string) error {
	t.Helper()
	raw, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mode.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("mode.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return func(file string) error {
		var v any
		if err := yaml.Unmarshal([]byte(file), &v); err != nil {
			t.Fatal(err)
		}
		return schema.Validate(v)
	}
}

func TestSchema_TakesWhatLoadTakes(t *testing.T) {
	valid := validator(t)
	good := []string{general, second, general + writesDocs, second + "version: 2\nstatus: experimental\nrag: {prefer: [a]}\ntools: ['x__*']\n",
		strings.Replace(second, "00000000000000000000000000000001", "10000000000000000000000000000002", 1)}
	err := fs.WalkDir(Files(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := fs.ReadFile(Files(), name)
		good = append(good, string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range good {
		if _, err := Parse("f.yaml", []byte(file)); err != nil {
			t.Errorf("Load refuses: %v\n%s", err, file)
		}
		if err := valid(file); err != nil {
			t.Errorf("the schema refuses: %v\n%s", err, file)
		}
	}
}

func TestSchema_RefusesWhatLoadRefuses(t *testing.T) {
	valid := validator(t)
	for _, file := range []string{
		"key: second\n", second + "model: gpt\n", second + "status: new\n", second + "isDefault: maybe\n", second + "tools: a\n",
		second + "instructions: [a, '']\n", second + "tools: [a, a]\n", second + "rag: {boost: [a]}\n",
		second + "clientTools: {}\n", second + "clientTools: {allow: [a], deny: [b]}\n",
		second + "clientTools: {allow: [a], files: [{tools: [a], patterns: []}]}\n",
		strings.Replace(second, "key: second", "key: Second-Mode", 1), strings.Replace(second, "0001", "xyz1", 1),
		strings.Replace(second, "displayName: Second", "displayName: ' '", 1),
	} {
		if _, err := Parse("f.yaml", []byte(file)); err == nil {
			t.Errorf("Load takes:\n%s", file)
		}
		if err := valid(file); err == nil {
			t.Errorf("the schema takes:\n%s", file)
		}
	}
}

// TestSchema_TakesTheExampleOfTheGuide reads the mode file in docs/modes.md.
func TestSchema_TakesTheExampleOfTheGuide(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "modes.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(guide), "```yaml modes/docs_writer.yaml\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("docs/modes.md has no example")
	}
	if m, err := Parse("example.yaml", []byte(example)); err != nil || m.Key != "docs_writer" {
		t.Errorf("the example is %s, %v", m.Key, err)
	}
	if err := validator(t)(example); err != nil {
		t.Error(err)
	}
}

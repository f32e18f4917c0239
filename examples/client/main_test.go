package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aptixhq/aptix"
	"github.com/aptixhq/aptix/client"
)

// TestRun asks a server: the tool runs here, what it says goes back, and so does what it
// cannot do.
func TestRun(t *testing.T) {
	agents, err := aptix.New(t.Context(), aptix.Config{Data: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(agents.Handler())
	defer func() {
		if err := agents.Close(t.Context()); err != nil {
			t.Error(err)
		}
		web.Close()
	}()
	c, err := client.New(client.Config{URL: web.URL})
	if err != nil {
		t.Fatal(err)
	}
	for question, want := range map[string]string{
		`call stock {"item": "tea"}`:    `"pieces":12`,
		`call stock {"item": "cement"}`: "there are tea and coffee",
		"hello":                         "ddr_authoring",
	} {
		var out strings.Builder
		if err := run(t.Context(), c, "ddr_authoring", question, &out); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v\n%s\ndoes not hold %s", question, err, out.String(), want)
		}
	}
	if err := run(t.Context(), c, "none", "hello", t.Output()); client.CodeOf(err) != "unknown_mode" {
		t.Errorf("in a mode that is not there: %v", err)
	}
}

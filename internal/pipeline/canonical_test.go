package pipeline_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// checkCanonical holds a canonical request to AGN-003's own words, independently of
// the builder: which members there may be, in which form.
func checkCanonical(t *testing.T, raw []byte) {
	t.Helper()
	var c struct {
		Model              *string  `json:"model"`
		Temperature        *float64 `json:"temperature"`
		Stream             *bool    `json:"stream"`
		PreviousResponseID *string  `json:"previous_response_id"`
		Input              []struct {
			Role    string `json:"role"`
			Content []struct {
				Type string  `json:"type"`
				Text *string `json:"text"`
			} `json:"content"`
		} `json:"input"`
		Tools      []map[string]any `json:"tools"`
		ToolChoice *struct {
			Type string `json:"type"`
			Name string `json:"name"`
		} `json:"tool_choice"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		t.Errorf("canonical request: %v\n%s", err, raw)
		return
	}
	if c.Model == nil {
		t.Error("canonical request has no model")
	}
	continuation := c.PreviousResponseID != nil
	want := []string{"system", "user"}
	if continuation {
		want = want[1:]
		if *c.PreviousResponseID == "" {
			t.Error("continuation with an empty previous_response_id")
		}
		if c.Tools != nil {
			t.Error("continuation carries tools")
		}
	}
	var roles []string
	for _, m := range c.Input {
		roles = append(roles, m.Role)
		for _, item := range m.Content {
			if item.Type != "text" || item.Text == nil {
				t.Errorf("content item of type %q", item.Type)
			}
		}
	}
	if strings.Join(roles, " ") != strings.Join(want, " ") {
		t.Errorf("canonical roles %v, want %v", roles, want)
		return
	}
	user := c.Input[len(c.Input)-1]
	if len(user.Content) == 0 || !strings.HasPrefix(*user.Content[0].Text, "[MODE: ") || !strings.Contains(*user.Content[0].Text, "]\n\n[INSTRUCTION]\n") {
		t.Errorf("user message does not begin with its headers: %s", raw)
	}
	if c.ToolChoice != nil && (c.ToolChoice.Type != "tool" || c.ToolChoice.Name == "") {
		t.Errorf("tool_choice %+v", *c.ToolChoice)
	}
}

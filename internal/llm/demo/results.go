package demo

import (
	"encoding/json"
	"fmt"
	"strings"
)

// report says what became of the calls, in their order.
func (c conversation) report() string {
	var (
		out    []string
		client bool
	)
	for _, r := range c.results {
		switch r.name {
		case changeMode:
			out = append(out, c.reportChange(r))
		case listModes:
			out = append(out, c.reportModes(r))
		default:
			out = append(out, r.summary())
			client = client || !strings.HasPrefix(r.name, "agent_")
		}
	}
	if client {
		out = append(out, "I only asked for that: the call ran outside of me, and this is what came back.")
	}
	return strings.Join(out, "\n\n")
}

// failure returns the error in a tool's output: a failed tool's is an object with an
// error (decision 25).
func (r result) failure() (string, bool) {
	var out struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal([]byte(r.output), &out) != nil || len(out.Error) == 0 {
		return "", false
	}
	var text string
	if json.Unmarshal(out.Error, &text) == nil {
		return text, text != ""
	}
	var nested struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(out.Error, &nested) == nil && nested.Message != "" {
		return nested.Message, true
	}
	return "", false
}

func (c conversation) reportChange(r result) string {
	var done struct {
		Success bool   `json:"success"`
		Mode    string `json:"mode"`
		Branch  bool   `json:"branch"`
	}
	err := json.Unmarshal([]byte(r.output), &done)
	why, failed := r.failure()
	if err != nil {
		why = shorten(r.output, 300)
	}
	if failed || err != nil || !done.Success {
		return strings.TrimSpace(fmt.Sprintf("The mode was not changed. %s", why)) +
			fmt.Sprintf("\n\nThe session stays in %s mode.", label(c.modeNamed(c.mode)))
	}
	text := fmt.Sprintf("Done: this session is now in %s mode. This turn keeps the tools it began with; those of the new mode arrive with the next turn.", label(c.modeNamed(done.Mode)))
	if done.Branch {
		text += " You also wanted a new session for this work: your client can start one in this mode now."
	}
	return text
}

// listed is a mode as agent_list_modes describes it (TUL-010 §3.3).
type listed struct {
	Key               string   `json:"key"`
	DisplayName       string   `json:"displayName"`
	Description       string   `json:"description"`
	IsDefault         bool     `json:"isDefault"`
	ExampleUtterances []string `json:"exampleUtterances"`
}

func (c conversation) reportModes(r result) string {
	var list struct {
		Modes []listed `json:"modes"`
	}
	if why, failed := r.failure(); failed {
		return "The modes could not be listed. " + why
	}
	if err := json.Unmarshal([]byte(r.output), &list); err != nil || len(list.Modes) == 0 {
		return r.summary()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "There are %d modes:\n", len(list.Modes))
	other := ""
	for _, m := range list.Modes {
		mark := c.here(m.Key)
		if m.IsDefault {
			mark += ", the default"
		}
		fmt.Fprintf(&b, "- %s%s: %s\n", label(mode{key: m.Key, name: m.DisplayName}), mark, m.Description)
		for _, e := range m.ExampleUtterances {
			fmt.Fprintf(&b, "  - “%s”\n", e)
		}
		if m.Key != c.mode {
			other = m.Key
		}
	}
	if other != "" {
		fmt.Fprintf(&b, "\nSay “switch to %s” to change.", other)
	}
	return strings.TrimRight(b.String(), "\n")
}

// summary shows the beginning of a tool's output.
func (r result) summary() string {
	const shown, wide = 12, 160 // lines, characters
	name := "`" + r.name + "`" + r.about()
	if why, failed := r.failure(); failed {
		return fmt.Sprintf("%s did not work: %s", name, why)
	}
	lines, one, many := r.lines()
	var b strings.Builder
	switch len(lines) {
	case 0:
		return name + " returned nothing" + r.exit() + "."
	case 1:
		fmt.Fprintf(&b, "%s returned one %s%s", name, one, r.exit())
	default:
		fmt.Fprintf(&b, "%s returned %d %s%s", name, len(lines), many, r.exit())
	}
	if len(lines) > shown {
		fmt.Fprintf(&b, ", here are the first %d", shown)
	}
	b.WriteString(":\n")
	for _, l := range lines[:min(shown, len(lines))] {
		b.WriteString("\n    " + cut(l, wide))
	}
	return b.String()
}

// about names what a call was about: its first short argument.
func (r result) about() string {
	var args map[string]any
	if json.Unmarshal([]byte(r.arguments), &args) != nil {
		return ""
	}
	for _, names := range [][]string{pathNames, commandNames, queryNames} {
		for _, n := range names {
			if s, ok := args[n].(string); ok && s != "" {
				return " (" + shorten(s, 60) + ")"
			}
		}
	}
	return ""
}

// lines takes apart what a tool returned: a list into its entries, a text, wherever
// it is in the output, into its lines.
func (r result) lines() (lines []string, one, many string) {
	var v any
	if json.Unmarshal([]byte(r.output), &v) != nil {
		return split(r.output), "line", "lines"
	}
	switch v := v.(type) {
	case string:
		return split(v), "line", "lines"
	case []any:
		return entries(v), "entry", "entries"
	case map[string]any:
		if out, ok := v["stdout"].(string); ok {
			err, _ := v["stderr"].(string)
			return append(split(out), split(err)...), "line", "lines"
		}
		for _, k := range []string{"content", "contents", "text", "output", "result", "data"} {
			if s, ok := v[k].(string); ok {
				return split(s), "line", "lines"
			}
		}
		for _, k := range []string{"files", "entries", "matches", "results", "items", "paths"} {
			if list, ok := v[k].([]any); ok {
				return entries(list), "entry", "entries"
			}
		}
	}
	return split(encode(v)), "line", "lines"
}

// exit tells of a command that failed.
func (r result) exit() string {
	var out map[string]any
	if json.Unmarshal([]byte(r.output), &out) != nil {
		return ""
	}
	for _, k := range []string{"exitCode", "exit_code"} {
		if n, ok := out[k].(float64); ok && n != 0 {
			return fmt.Sprintf(" and ended with exit code %v", n)
		}
	}
	return ""
}

// entries renders a list, one entry to a line: "path", "path/" or "path:line: text"
// for what a file tool finds.
func entries(list []any) []string {
	out := make([]string, 0, len(list))
	for _, e := range list {
		out = append(out, entry(e))
	}
	return out
}

func entry(e any) string {
	if s, ok := e.(string); ok {
		return s
	}
	found, _ := e.(map[string]any)
	s, ok := found["path"].(string)
	if !ok {
		return encode(e)
	}
	if found["type"] == "dir" {
		s += "/"
	}
	if n, ok := found["line"].(float64); ok {
		s += fmt.Sprintf(":%v", n)
	}
	if text, ok := found["text"].(string); ok {
		s += ": " + text
	}
	return s
}

func split(text string) []string {
	text = strings.TrimRight(text, "\r\n")
	if text == "" {
		return nil
	}
	return strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
}

// cut keeps a line's indentation, unlike shorten.
func cut(line string, n int) string {
	r := []rune(line)
	if len(r) <= n {
		return line
	}
	return string(r[:n-1]) + "…"
}

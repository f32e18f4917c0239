package pipeline_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

func (sc *scenario) describeSession() string {
	ctx := sc.t.Context()
	if sc.session == "" {
		return "none\n"
	}
	s, err := sc.store.Session(ctx, caller.Org, sc.session)
	if err != nil {
		return string(agent.KindOf(err)) + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "mode %s, version %d, turns %d\n", s.Mode, s.Version, s.Turns)
	if s.Entry != agent.EntryPending {
		fmt.Fprintf(&b, "entry into the mode: %s\n", s.Entry)
	}
	if len(s.Approved) > 0 {
		fmt.Fprintf(&b, "approved for the session: %s\n", strings.Join(s.Approved, " "))
	}
	if s.SolutionContext != "" {
		fmt.Fprintf(&b, "solution context %q\n", s.SolutionContext)
	}
	history, _, err := sc.store.ModeHistory(ctx, caller.Org, sc.session, store.Page{})
	if err != nil {
		sc.t.Fatal(err)
	}
	for _, c := range history {
		fmt.Fprintf(&b, "history %d: %s -> %s, reason %q, actor %s, user %s, turn %q, call %q, branch %t, dated %t",
			c.Sequence, c.Previous, c.Mode, c.Reason, c.Actor, c.User, c.Turn, c.Call, c.Branch, !c.At.IsZero())
		if c.Approval != "" {
			fmt.Fprintf(&b, ", approval %s", c.Approval)
		}
		b.WriteString("\n")
	}
	turns, _, err := sc.store.Turns(ctx, caller.Org, sc.session, store.Page{})
	if err != nil {
		sc.t.Fatal(err)
	}
	for _, turn := range turns {
		fmt.Fprintf(&b, "turn %d %s: %s in mode %s\n", turn.Ordinal, turn.Key.Turn, turn.State, turn.Mode)
	}
	return b.String()
}

func describeEvent(e agent.Event) string {
	line := fmt.Sprintf("%d %s", e.Sequence, e.Type)
	switch e.Type {
	case agent.EventModelRequest:
		line += fmt.Sprintf(" n=%d", e.Call)
	case agent.EventTextDelta:
		line += fmt.Sprintf(" %q", e.Text)
	case agent.EventToolStarted:
		line += fmt.Sprintf(" %s %s", e.ToolCallID, e.Name)
	case agent.EventToolFinished:
		line += fmt.Sprintf(" %s %s %s", e.ToolCallID, e.Name, e.Outcome)
	case agent.EventModeChanged:
		line += fmt.Sprintf(" %s -> %s branch=%t reason=%q", e.PreviousMode, e.ModeSwitch.Mode, e.Branch, e.Reason)
	case agent.EventApprovalRequired:
		line += fmt.Sprintf(" %s %s %s %s options %v", e.Approval.ID, e.Approval.Call, e.Approval.Name, e.Approval.Arguments, e.Approval.Options)
	case agent.EventApprovalDecided:
		line += fmt.Sprintf(" %s %s %s by %q", e.Decided.ID, e.ToolCallID, e.Decision, e.User)
	case agent.EventModeEntered:
		line += fmt.Sprintf(" %s ready=%t %s", e.Entry.Mode, e.Entry.Ready, e.Entry.Problem)
	case agent.EventTurnResumed:
		line += fmt.Sprintf(" replaceFrom=%d", e.ReplaceFrom)
	case agent.EventTurnFailed:
		line += " " + string(e.Fault.Kind)
	}
	if e.Welcome != "" {
		line += fmt.Sprintf(" welcome %q", e.Welcome)
	}
	return strings.TrimRight(line, " ") + "\n"
}

// describeRequest summarises one model call: what kind the canonical request is, and
// what the wire request attaches and adds.
func describeRequest(t *testing.T, canonical string, wire []byte) string {
	t.Helper()
	var c struct {
		PreviousResponseID string `json:"previous_response_id"`
		Input              []struct {
			Role    string
			Content []struct{ Text string }
		}
		Tools      []struct{ Name string }
		ToolChoice json.RawMessage `json:"tool_choice"`
	}
	var w struct {
		PreviousResponseID string `json:"previous_response_id"`
		Store              *bool
		Instructions       string
		ToolChoice         json.RawMessage `json:"tool_choice"`
		Tools              []struct{ Name string }
		Input              []struct {
			Type, Role string
			CallID     string `json:"call_id"`
			Output     json.RawMessage
			Content    json.RawMessage
		}
	}
	if err := errors.Join(json.Unmarshal([]byte(canonical), &c), json.Unmarshal(wire, &w)); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	kind := "initial"
	if c.PreviousResponseID != "" {
		kind = "continuation"
	}
	user := c.Input[len(c.Input)-1]
	fmt.Fprintf(&b, "canonical: %s, %q, %d user items, tools [%s]\n", kind, user.Content[0].Text, len(user.Content), names(c.Tools))
	for _, item := range user.Content {
		if strings.HasPrefix(item.Text, "[CONTEXT]") {
			b.WriteString("  | " + strings.ReplaceAll(strings.TrimSuffix(item.Text, "\n"), "\n", "\n  | ") + "\n")
		}
	}
	current := ""
	for line := range strings.Lines(w.Instructions) {
		if mode, ok := strings.CutPrefix(strings.TrimSpace(line), "Current mode: "); ok {
			current = mode
		}
	}
	fmt.Fprintf(&b, "wire: chained %t, instructions in mode %s, tools [%s]", w.PreviousResponseID != "", current, names(w.Tools))
	if _, after, ok := strings.Cut(w.Instructions, "[SOLUTION CONTEXT]\n"); ok {
		text, _, _ := strings.Cut(after, "\n[END")
		fmt.Fprintf(&b, ", solution context %q", text)
	}
	if w.ToolChoice != nil {
		fmt.Fprintf(&b, ", tool_choice %s", w.ToolChoice)
	}
	b.WriteString("\n")
	for _, item := range w.Input {
		switch item.Type {
		case "function_call_output":
			fmt.Fprintf(&b, "  output %s: %s\n", item.CallID, describeOutput(item.Output))
		case "function_call":
			fmt.Fprintf(&b, "  call %s\n", item.CallID)
		default:
			fmt.Fprintf(&b, "  %s\n", item.Role)
		}
	}
	return b.String()
}

// describeOutput shows a tool's output as the model reads it, the data of images left out.
func describeOutput(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(imageData.ReplaceAll(raw, []byte("${1}…")))
}

var imageData = regexp.MustCompile(`("data:[^,]*,)[^"]*`)

func names(tools []struct{ Name string }) string {
	var out []string
	for _, t := range tools {
		out = append(out, t.Name)
	}
	return strings.Join(out, " ")
}

func problem(err error) string {
	b, _ := json.MarshalIndent(agent.FaultOf(err), "", "  ")
	return string(unescape(b)) + "\n"
}

// What two runs need not share: how long a server tool took, and the tokens, which
// the fake provider estimates from the bytes. checkJournal holds the usage to the
// sum of its steps.
var (
	executionMs = regexp.MustCompile(`"executionMs":\s*\d+`)
	deadline    = regexp.MustCompile(`"deadline":"[^"]*"`)
	usage       = regexp.MustCompile(`"usage":\{[^}]*\}`)
)

func indent(raw []byte) string {
	raw = executionMs.ReplaceAll(raw, []byte(`"executionMs":0`))
	raw = deadline.ReplaceAll(raw, []byte(`"deadline":"soon"`))
	raw = usage.ReplaceAll(raw, []byte(`"usage":{}`))
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return string(raw) + "\n"
	}
	return b.String() + "\n"
}

func unescape(b []byte) []byte {
	for from, to := range map[string]string{`\u003c`: "<", `\u003e`: ">", `\u0026`: "&"} {
		b = bytes.ReplaceAll(b, []byte(from), []byte(to))
	}
	return b
}

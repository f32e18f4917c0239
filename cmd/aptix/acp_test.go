package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	acp "github.com/coder/acp-go-sdk"
)

// editor is the client of the protocol's own kit, with a user behind it who chooses by the
// names of the options.
type editor struct {
	choose func(title string, options []string) string // the name of an option, "" cancels

	mu    sync.Mutex
	text  strings.Builder
	calls map[acp.ToolCallId]acp.ToolCallStatus
	mode  acp.SessionModeId
	value acp.SessionConfigValueId
	diff  *acp.ToolCallContentDiff
	asked []string

	process *exec.Cmd
}

func (e *editor) SessionUpdate(_ context.Context, n acp.SessionNotification) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	u := n.Update
	switch {
	case u.AgentMessageChunk != nil:
		e.text.WriteString(u.AgentMessageChunk.Content.Text.Text)
	case u.ToolCall != nil:
		e.calls[u.ToolCall.ToolCallId] = u.ToolCall.Status
		for _, c := range u.ToolCall.Content {
			e.diff = c.Diff
		}
	case u.ToolCallUpdate != nil:
		if _, known := e.calls[u.ToolCallUpdate.ToolCallId]; !known {
			return fmt.Errorf("an update of a call that was not shown: %s", u.ToolCallUpdate.ToolCallId)
		}
		e.calls[u.ToolCallUpdate.ToolCallId] = *u.ToolCallUpdate.Status
	case u.CurrentModeUpdate != nil:
		e.mode = u.CurrentModeUpdate.CurrentModeId
	case u.ConfigOptionUpdate != nil:
		e.value = u.ConfigOptionUpdate.ConfigOptions[0].Select.CurrentValue
	}
	return nil
}

func (e *editor) RequestPermission(_ context.Context, r acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	var names []string
	for _, o := range r.Options {
		names = append(names, o.Name)
	}
	e.mu.Lock()
	e.asked = append(e.asked, *r.ToolCall.Title)
	name := e.choose(*r.ToolCall.Title, names)
	e.mu.Unlock()
	if i := slices.Index(names, name); i >= 0 {
		return acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeSelected(r.Options[i].OptionId)}, nil
	}
	return acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeCancelled()}, nil
}

// said returns what the agent has said since the last time.
func (e *editor) said() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.text.Reset()
	return e.text.String()
}

func (e *editor) statuses() []acp.ToolCallStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []acp.ToolCallStatus
	for _, s := range e.calls {
		all = append(all, s)
	}
	clear(e.calls)
	return all
}

func (*editor) ReadTextFile(context.Context, acp.ReadTextFileRequest) (acp.ReadTextFileResponse, error) {
	return acp.ReadTextFileResponse{}, acp.NewMethodNotFound("fs/read_text_file")
}

func (*editor) WriteTextFile(context.Context, acp.WriteTextFileRequest) (acp.WriteTextFileResponse, error) {
	return acp.WriteTextFileResponse{}, acp.NewMethodNotFound("fs/write_text_file")
}

func (*editor) CreateTerminal(context.Context, acp.CreateTerminalRequest) (acp.CreateTerminalResponse, error) {
	return acp.CreateTerminalResponse{}, acp.NewMethodNotFound("terminal/create")
}

func (*editor) KillTerminal(context.Context, acp.KillTerminalRequest) (acp.KillTerminalResponse, error) {
	return acp.KillTerminalResponse{}, acp.NewMethodNotFound("terminal/kill")
}

func (*editor) TerminalOutput(context.Context, acp.TerminalOutputRequest) (acp.TerminalOutputResponse, error) {
	return acp.TerminalOutputResponse{}, acp.NewMethodNotFound("terminal/output")
}

func (*editor) ReleaseTerminal(context.Context, acp.ReleaseTerminalRequest) (acp.ReleaseTerminalResponse, error) {
	return acp.ReleaseTerminalResponse{}, acp.NewMethodNotFound("terminal/release")
}

func (*editor) WaitForTerminalExit(context.Context, acp.WaitForTerminalExitRequest) (acp.WaitForTerminalExitResponse, error) {
	return acp.WaitForTerminalExitResponse{}, acp.NewMethodNotFound("terminal/wait_for_exit")
}

// transcript is what an editor and an agent said to each other, for those who run the test
// with -v.
type transcript struct {
	mu    sync.Mutex
	lines strings.Builder
}

// by returns where one of them speaks. A message is a line.
func (w *transcript) by(who string) io.Writer {
	var rest []byte
	return writer(func(p []byte) {
		w.mu.Lock()
		defer w.mu.Unlock()
		rest = append(rest, p...)
		for {
			line, after, whole := bytes.Cut(rest, []byte("\n"))
			if !whole {
				return
			}
			fmt.Fprintf(&w.lines, "%-6s %.400s\n", who, line)
			rest = after
		}
	})
}

func (w *transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines.String()
}

type writer func(p []byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

// open starts `aptix acp` as an editor does and connects to it.
func (e *editor) open(t *testing.T, url string) *acp.ClientSideConnection {
	t.Helper()
	e.calls = map[acp.ToolCallId]acp.ToolCallStatus{}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "aptix", "acp", "--url", url)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e.process = cmd
	t.Cleanup(func() {
		_ = in.Close() // as an editor leaves
		if err := cmd.Wait(); err != nil && cmd.ProcessState.Exited() {
			t.Errorf("aptix acp: %v", err)
		}
	})
	wire := &transcript{}
	t.Cleanup(func() { t.Logf("over the wire:\n%s", wire) })
	c := acp.NewClientSideConnection(e, io.MultiWriter(in, wire.by("editor")), io.TeeReader(out, wire.by("agent")))
	hello, err := c.Initialize(t.Context(), acp.InitializeRequest{ProtocolVersion: acp.ProtocolVersionNumber})
	if err != nil || hello.AgentInfo.Name != "aptix" || hello.ProtocolVersion != acp.ProtocolVersionNumber {
		t.Fatalf("initialize: %+v, %v", hello, err)
	}
	return c
}

func prompt(t *testing.T, c *acp.ClientSideConnection, session acp.SessionId, blocks ...acp.ContentBlock) acp.StopReason {
	t.Helper()
	res, err := c.Prompt(t.Context(), acp.PromptRequest{SessionId: session, Prompt: blocks})
	if err != nil {
		t.Fatal(err)
	}
	return res.StopReason
}

// An editor opens a session, has files read and written with its user's consent, changes
// the mode in both forms and lets the model change it, and goes on in another process.
func TestACP(t *testing.T) {
	server := startDemo(t, map[string]string{"APTIX_MODE_CONSENT": "required"})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &editor{choose: func(_ string, options []string) string { return options[0] }}
	c := e.open(t, server.url)
	s, err := c.NewSession(t.Context(), acp.NewSessionRequest{Cwd: dir, McpServers: []acp.McpServer{}})
	if err != nil {
		t.Fatal(err)
	}
	if s.Modes.CurrentModeId != "general" || len(s.Modes.AvailableModes) != 3 || s.ConfigOptions[0].Select.CurrentValue != "general" {
		t.Errorf("got modes %+v and options %+v", s.Modes, s.ConfigOptions)
	}

	if stop := prompt(t, c, s.SessionId, acp.TextBlock("read "), acp.ResourceLinkBlock("a.txt", "file://"+filepath.Join(dir, "a.txt"))); stop != acp.StopReasonEndTurn {
		t.Errorf("reading stopped with %s", stop)
	}
	if text := e.said(); !strings.Contains(text, "two") {
		t.Errorf("of a file that was read the agent says:\n%s", text)
	}
	if got := e.statuses(); len(got) != 1 || got[0] != acp.ToolCallStatusCompleted || len(e.asked) != 0 {
		t.Errorf("reading showed calls %v and asked %v", got, e.asked)
	}

	prompt(t, c, s.SessionId, acp.TextBlock("write three to a.txt"))
	if b, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(b) != "three" {
		t.Errorf("the file holds %q (%v)", b, err)
	}
	if len(e.asked) != 1 || e.diff == nil || e.diff.OldText == nil || *e.diff.OldText != "one\ntwo\n" || e.diff.NewText != "three" {
		t.Errorf("before it wrote it asked %v and showed %+v", e.asked, e.diff)
	}
	e.choose = func(string, []string) string { return "Deny" }
	prompt(t, c, s.SessionId, acp.TextBlock("write four to a.txt"))
	if b, _ := os.ReadFile(filepath.Join(dir, "a.txt")); string(b) != "three" {
		t.Errorf("against the user's word the file holds %q", b)
	}
	e.said()

	// The user changes the mode, then the model asks for another.
	if _, err := c.SetSessionMode(t.Context(), acp.SetSessionModeRequest{SessionId: s.SessionId, ModeId: "ddr_authoring"}); err != nil {
		t.Fatal(err)
	}
	set, err := c.SetSessionConfigOption(t.Context(), acp.SetSessionConfigOptionRequest{ValueId: &acp.SetSessionConfigOptionValueId{
		SessionId: s.SessionId, ConfigId: "mode", Value: "general"}})
	if err != nil || set.ConfigOptions[0].Select.CurrentValue != "general" {
		t.Fatalf("got %+v (%v)", set, err)
	}
	e.choose = func(string, []string) string { return "Switch the mode" }
	prompt(t, c, s.SessionId, acp.TextBlock(`call agent_change_mode {"mode":"workflow_authoring","branch":false,"reason":"Flows."}`))
	eventually(t, func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.mode == "workflow_authoring" && e.value == "workflow_authoring"
	})
	e.said()

	e.choose = func(string, []string) string { return "" }
	if stop := prompt(t, c, s.SessionId, acp.TextBlock("write five to a.txt")); stop != acp.StopReasonCancelled {
		t.Errorf("a question that was dismissed stops the turn with %s: %s", stop, e.said())
	}

	// An editor that dies leaves a turn that waits for it. Another one takes the session up.
	e.choose = func(string, []string) string {
		if err := e.process.Process.Kill(); err != nil {
			t.Error(err)
		}
		return ""
	}
	if _, err := c.Prompt(t.Context(), acp.PromptRequest{SessionId: s.SessionId, Prompt: []acp.ContentBlock{acp.TextBlock("write six to a.txt")}}); err == nil {
		t.Error("an agent that was killed has answered")
	}
	second := &editor{}
	c2 := second.open(t, server.url)
	again, err := c2.ResumeSession(t.Context(), acp.ResumeSessionRequest{SessionId: s.SessionId, Cwd: dir})
	if err != nil || again.Modes.CurrentModeId != "workflow_authoring" {
		t.Fatalf("resumed with %+v (%v)", again, err)
	}
	stop := prompt(t, c2, s.SessionId, acp.TextBlock("hello"))
	if text := second.said(); stop != acp.StopReasonEndTurn || !strings.Contains(text, "it was cancelled") || !strings.Contains(text, "Hello") {
		t.Errorf("the resumed session stopped with %s and said: %s", stop, text)
	}
	list, err := c2.ListSessions(t.Context(), acp.ListSessionsRequest{})
	if err != nil || len(list.Sessions) != 1 || list.Sessions[0].SessionId != s.SessionId {
		t.Errorf("listed %+v (%v)", list, err)
	}
}

// A file that goes along with a prompt reaches the model.
func TestACP_EmbeddedResource(t *testing.T) {
	server := startDemo(t, nil)
	e := &editor{}
	c := e.open(t, server.url)
	dir := t.TempDir()
	s, err := c.NewSession(t.Context(), acp.NewSessionRequest{Cwd: dir, McpServers: []acp.McpServer{}})
	if err != nil {
		t.Fatal(err)
	}
	prompt(t, c, s.SessionId, acp.TextBlock("what is in "), acp.ResourceBlock(acp.EmbeddedResourceResource{
		TextResourceContents: &acp.TextResourceContents{Uri: "file://" + filepath.Join(dir, "src", "b.go"), Text: "package b"}}))
	if text := e.said(); !strings.Contains(text, "src/b.go") {
		t.Errorf("the agent says:\n%s", text)
	}
	if _, err := c.Prompt(t.Context(), acp.PromptRequest{SessionId: s.SessionId, Prompt: []acp.ContentBlock{acp.AudioBlock("AA==", "audio/wav")}}); err == nil {
		t.Error("a prompt that cannot be sent was taken")
	}
	if _, err := c.Prompt(t.Context(), acp.PromptRequest{SessionId: "nobody's", Prompt: []acp.ContentBlock{acp.TextBlock("hello")}}); err == nil {
		t.Error("a session that is not there took a prompt")
	}
}

func eventually(t *testing.T, is func() bool) {
	t.Helper()
	for range 1000 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("it did not come to that within 10 s")
}

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aptixhq/aptix/client"
)

// modeFileText is a mode file with one instruction.
func modeFileText(n int, key, rule string) string {
	return fmt.Sprintf("id: %032d\nkey: %s\ndisplayName: %s\ndescription: d\nwhenToUse: For %s.\nisDefault: %t\ninstructions: [%s]\ntools: [agent_list_modes]\n",
		n, key, key, key, key == "general", rule)
}

// TestReload_ATurnThatRunsKeepsTheModesThatItBeganWith has a server read other modes while
// the model thinks. The turn's next request, the list of modes that the model asks for and
// the mode that it changes to are those of before; the next turn's are the new ones.
func TestReload_ATurnThatRunsKeepsTheModesThatItBeganWith(t *testing.T) {
	asked, answers := make(chan string), make(chan string)
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked <- string(body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, <-answers)
	}))
	t.Cleanup(model.Close)
	dir := t.TempDir()
	modes := filepath.Join(dir, "modes")
	if err := os.Mkdir(modes, 0o755); err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(modes, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("general.yaml", modeFileText(1, "general", "Old rule"))
	put("docs.yaml", modeFileText(2, "docs", "Old docs rule"))

	s := exec.CommandContext(t.Context(), "aptix", "serve", "--listen", "127.0.0.1:0", "--modes", modes, "--data", filepath.Join(dir, "data"))
	s.Env = append(os.Environ(), "OPENAI_API_KEY=sk-test", "OPENAI_BASE_URL="+model.URL+"/v1")
	stderr, err := s.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1000)
	go func() { // ends with the process
		defer close(said)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			said <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = s.Process.Kill()
		_ = s.Wait()
	})
	until := func(part string) string {
		t.Helper()
		timeout := time.After(within)
		for {
			select {
			case line, ok := <-said:
				if !ok {
					t.Fatalf("the server ended before it said %q", part)
				}
				if _, rest, found := strings.Cut(line, part); found {
					return rest
				}
			case <-timeout:
				t.Fatalf("the server does not say %q", part)
			}
		}
	}
	c, err := client.New(client.Config{URL: until("Aptix is ready at ")})
	if err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		answer *client.Answer
		err    error
	}
	send := func(turn string) <-chan outcome {
		done := make(chan outcome, 1)
		go func() {
			answer, err := c.Execute(t.Context(), client.UserTurn{SessionID: "s1", TurnID: turn, Instruction: "Go on"})
			done <- outcome{answer, err}
		}()
		return done
	}
	request := func() string {
		t.Helper()
		select {
		case body := <-asked:
			return body
		case <-time.After(within):
			t.Fatal("the model is not asked")
			return ""
		}
	}
	call := func(id, name, arguments string) string {
		return fmt.Sprintf(`{"type":"function_call","id":"fc_%s","call_id":%q,"name":%q,"arguments":%q,"status":"completed"}`, id, id, name, arguments)
	}
	response := func(id string, items ...string) string {
		return fmt.Sprintf(`{"id":%q,"object":"response","status":"completed","output":[%s],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}`, id, strings.Join(items, ","))
	}
	text := func(id string) string {
		return response(id, `{"type":"message","id":"msg","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Done.","annotations":[]}]}`)
	}
	instructions := func(body string) string {
		var wire struct {
			Instructions string `json:"instructions"`
		}
		if err := json.Unmarshal([]byte(body), &wire); err != nil {
			t.Fatal(err)
		}
		return wire.Instructions
	}

	first := send("t1")
	if got := instructions(request()); !strings.Contains(got, "1. Old rule\n") || !strings.Contains(got, "- docs (docs)") {
		t.Errorf("the turn begins with:\n%s", got)
	}
	put("general.yaml", modeFileText(1, "general", "New rule"))
	if err := os.Remove(filepath.Join(modes, "docs.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := s.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	until("the modes were reloaded")

	answers <- response("resp_1", call("call_1", "agent_list_modes", `{}`), call("call_2", "agent_change_mode", `{"mode":"docs","branch":false,"reason":"Asked for."}`))
	second := request()
	if !strings.Contains(second, `\"key\":\"docs\"`) || !strings.Contains(second, `\"success\":true,\"mode\":\"docs\"`) {
		t.Errorf("the tools of the turn do not know its modes:\n%s", second)
	}
	if got := instructions(second); !strings.Contains(got, "Current mode: docs\n") || !strings.Contains(got, "1. Old docs rule\n") || strings.Contains(got, "no longer configured") {
		t.Errorf("the turn goes on with:\n%s", got)
	}
	answers <- text("resp_2")
	if got := <-first; got.err != nil || got.answer.Mode != "docs" {
		t.Errorf("the turn did not end in docs: %v", got.err)
	}

	next := send("t2")
	if got := instructions(request()); !strings.Contains(got, "Current mode: docs\nThis mode is no longer configured. Work as in general") ||
		!strings.Contains(got, "1. New rule\n") || strings.Contains(got, "Old") {
		t.Errorf("the next turn begins with:\n%s", got)
	}
	answers <- text("resp_3")
	if got := <-next; got.err != nil || len(got.answer.UserWarnings) != 1 {
		t.Errorf("the next turn does not warn of its mode: %v", got.err)
	}
}

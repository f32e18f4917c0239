package torture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/aptixhq/aptix/internal/failpoint"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/mcp"
	"github.com/aptixhq/aptix/internal/mcp/mcptest"
)

// TestKill_AroundACallOfAnMCPServer kills the server while a tool of a real MCP server
// runs, and just after. The tool may have run; it runs again only where the configuration
// says that it may. The MCP server ends with the process that started it.
func TestKill_AroundACallOfAnMCPServer(t *testing.T) {
	for _, tt := range []struct {
		name       string
		point      failpoint.Point
		idempotent bool
		runs       int    // how often the tool ran in the end
		outcome    string // what the model was told
	}{
		{"before the call", failpoint.BeforeTool, false, 0, "unknown"},
		{"after the call", failpoint.AfterTool, false, 1, "unknown"},
		{"before the call of an idempotent tool", failpoint.BeforeTool, true, 1, "ok"},
		{"after the call of an idempotent tool", failpoint.AfterTool, true, 2, "ok"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			model := llmtest.New(t,
				llmtest.Reply{Calls: []llmtest.Call{{ID: "call_1", Name: "files__append", Arguments: `{"text":"x"}`}}},
				llmtest.Reply{Text: "Done."})
			n := newNode(t, model.URL, filepath.Join(t.TempDir(), "ledger"))
			useMCP(t, n, tt.idempotent)
			n.start(string(tt.point))
			go func() { // it dies before it answers
				res, err := http.Post(n.url("/v1/agent/execute"), "application/json",
					strings.NewReader(`{"sessionId":"s1","turnId":"t1","instruction":"Write it down"}`))
				if err == nil {
					_ = res.Body.Close()
				}
			}()
			select {
			case <-n.dead:
			case <-time.After(30 * time.Second):
				t.Fatalf("the server has not died:\n%s", n.stderr.tail())
			}
			for _, run := range mcpRuns(t, n) {
				pid := strings.Fields(run)[0]
				for deadline := time.Now().Add(10 * time.Second); isProcess(pid); time.Sleep(5 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("the MCP server %s outlives the process that started it", pid)
					}
				}
			}
			n.start("")
			got := outcomeOf(t, n)
			if got != tt.outcome {
				t.Errorf("the model was told %q, want %q", got, tt.outcome)
			}
			runs := mcpRuns(t, n)
			if len(runs) != tt.runs {
				t.Errorf("the tool ran %d times, want %d: %q", len(runs), tt.runs, runs)
			}
			if len(runs) == 2 && strings.Fields(runs[0])[1] != strings.Fields(runs[1])[1] {
				t.Errorf("the second run does not say that it is the same call: %q", runs)
			}
			if left := model.Left(); left != 0 {
				t.Errorf("%d answers of the model were not asked for", left)
			}
		})
	}
}

// useMCP gives a node an MCP server whose tools general has.
func useMCP(t *testing.T, n *node, idempotent bool) {
	t.Helper()
	c := mcptest.Command(t, "files", mcptest.Good)
	server := map[string]any{"name": c.Name, "command": c.Command, "args": c.Args, "env": []string{mcptest.Ledger}}
	if idempotent {
		server["tools"] = map[string]any{"idempotent": []string{"append"}}
	}
	config, err := yaml.Marshal(map[string]any{"approvals": map[string]any{"files__*": "never"}, "mcp": map[string]any{"servers": []any{server}}})
	if err != nil {
		t.Fatal(err)
	}
	mode := strings.Replace(fmt.Sprintf(modeFile, strings.Repeat("A", 32), "general", "General", true, ""),
		"tools: [ledger_append, ledger_repeat, ledger_ask]", `tools: ["files__*"]`, 1)
	for name, text := range map[string]string{"aptix.yaml": string(config), "modes/general.yaml": mode} {
		if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := mcptest.Approve(t, c).Write(filepath.Join(n.dir, mcp.LockFile)); err != nil {
		t.Fatal(err)
	}
	n.env = append(n.env, mcptest.Ledger+"="+filepath.Join(n.dir, "mcp-ledger"))
}

// mcpRuns returns a line for each run: the process, the key of the call, the text.
func mcpRuns(t *testing.T, n *node) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(n.dir, "mcp-ledger"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

func isProcess(pid string) bool {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !bytes.Contains(data, []byte(") Z "))
}

// outcomeOf waits for the end of the turn and returns how its tool fared.
func outcomeOf(t *testing.T, n *node) string {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		res, err := http.Get(n.url("/v1/sessions/s1/turns/t1"))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		var turn struct {
			State    string
			Response struct{ ToolResults []struct{ Outcome string } }
		}
		if err := json.Unmarshal(body, &turn); err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		if turn.State == "completed" && len(turn.Response.ToolResults) == 1 {
			return turn.Response.ToolResults[0].Outcome
		}
		if turn.State == "failed" || turn.State == "completed" {
			t.Fatalf("the turn ended as %s", body)
		}
	}
	t.Fatalf("the turn has not ended:\n%s", n.stderr.tail())
	return ""
}

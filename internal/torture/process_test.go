package torture

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/failpoint"
)

// node is an aptix process that can be killed and started again.
type node struct {
	t      *testing.T
	binary string
	dir    string
	addr   string
	env    []string

	cmd    *exec.Cmd
	stderr *bytes.Buffer
	dead   chan struct{}
	// ready are the times from the start of a process to its first answer.
	ready []time.Duration
}

// binary is aptix with points at which it can be killed.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "aptix-torture-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "aptix")
	out, err := exec.Command("go", "build", "-tags", "failpoints", "-o", path, "github.com/aptixhq/aptix/cmd/aptix").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

const modeFile = `id: %s
key: %s
displayName: %s
description: For the campaign.
whenToUse: Use it.
systemPromptSummary: Follow the plan.
isDefault: %v
status: active
version: v1
instructions: []
tools: [ledger_append, ledger_repeat]
humanRoleHints: []
exampleUtterances: []
rag: {prefer: [], exclude: []}
`

func newNode(t *testing.T, modelURL string) *node {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, binary: path, dir: t.TempDir()}
	modes := filepath.Join(n.dir, "modes")
	if err := os.Mkdir(modes, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"general.yaml": fmt.Sprintf(modeFile, strings.Repeat("A", 32), "general", "General", true),
		"other.yaml":   fmt.Sprintf(modeFile, strings.Repeat("B", 32), "other", "Other", false),
	} {
		if err := os.WriteFile(filepath.Join(modes, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A port of its own, kept over the restarts.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.addr = l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	n.env = append(os.Environ(), "OPENAI_API_KEY=sk-none", "OPENAI_BASE_URL="+modelURL+"/v1", "APTIX_CONTINUITY=provider",
		"APTIX_LEDGER="+n.ledger(), "APTIX_MODES="+modes, "APTIX_DATA="+filepath.Join(n.dir, "data"), "APTIX_LISTEN="+n.addr)
	t.Cleanup(func() {
		if n.cmd != nil {
			n.kill()
		}
	})
	return n
}

func (n *node) ledger() string         { return filepath.Join(n.dir, "ledger") }
func (n *node) database() string       { return filepath.Join(n.dir, "data", "aptix.db") }
func (n *node) url(path string) string { return "http://" + n.addr + path }

// start starts the process, armed or not, and waits until it answers or has died.
func (n *node) start(armed string) (alive bool) {
	n.t.Helper()
	n.cmd = exec.Command(n.binary, "serve")
	n.cmd.Dir = n.dir
	n.cmd.Env = append(n.env, failpoint.Env+"="+armed)
	n.stderr = &bytes.Buffer{}
	n.cmd.Stderr = n.stderr
	began := time.Now()
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	dead := make(chan struct{})
	n.dead = dead
	go func(cmd *exec.Cmd) {
		_ = cmd.Wait() // killed
		close(dead)
	}(n.cmd)
	deadline := time.After(20 * time.Second)
	for {
		if res, err := http.Get(n.url("/readyz")); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				n.ready = append(n.ready, time.Since(began))
				return true
			}
		}
		select {
		case <-n.dead:
			if armed == "" {
				n.t.Fatalf("the server ended by itself:\n%s", n.stderr)
			}
			return false
		case <-deadline:
			n.t.Fatalf("the server is not ready after 20 s:\n%s", n.stderr)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// kill is kill -9.
func (n *node) kill() {
	_ = n.cmd.Process.Kill()
	<-n.dead
	n.cmd = nil
}

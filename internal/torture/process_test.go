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
	t      testing.TB
	binary string
	dir    string
	addr   string
	env    []string

	cmd    *exec.Cmd
	stderr said
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
tools: [ledger_append, ledger_repeat, ledger_ask]
bootstrapTools: [%s]
humanRoleHints: []
exampleUtterances: []
rag: {prefer: [], exclude: []}
`

// newNode returns a node that asks the model at modelURL and writes into a ledger. The
// environment says what else it works with, above all where its data are.
func newNode(t testing.TB, modelURL, ledger string, env ...string) *node {
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
		"general.yaml": fmt.Sprintf(modeFile, strings.Repeat("A", 32), "general", "General", true, ""),
		"other.yaml":   fmt.Sprintf(modeFile, strings.Repeat("B", 32), "other", "Other", false, "{name: ledger_repeat}"),
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
		"APTIX_LEDGER="+ledger, "APTIX_MODES="+modes, "APTIX_DATA="+filepath.Join(n.dir, "data"), "APTIX_LISTEN="+n.addr)
	n.env = append(n.env, env...)
	t.Cleanup(func() {
		if n.cmd != nil {
			n.kill()
		}
	})
	return n
}

func (n *node) database() string       { return filepath.Join(n.dir, "data", "aptix.db") }
func (n *node) url(path string) string { return "http://" + n.addr + path }

// start starts the process, armed or not, and waits until it answers or has died.
func (n *node) start(armed string) (alive bool) {
	n.t.Helper()
	alive, err := n.launch(armed)
	if err != nil {
		n.t.Fatal(err)
	}
	return alive
}

// launch is start for a goroutine that is not the test's.
func (n *node) launch(armed string) (alive bool, err error) {
	n.cmd = exec.Command(n.binary, "serve")
	n.cmd.Dir = n.dir
	n.cmd.Env = append(n.env, failpoint.Env+"="+armed)
	n.cmd.Stderr = &n.stderr
	began := time.Now()
	if err := n.cmd.Start(); err != nil {
		return false, err
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
				return true, nil
			}
		}
		select {
		case <-n.dead:
			if armed == "" {
				return false, fmt.Errorf("the server ended by itself:\n%s", n.stderr.tail())
			}
			return false, nil
		case <-deadline:
			return false, fmt.Errorf("the server is not ready after 20 s:\n%s", n.stderr.tail())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// said is what the processes of a node have said.
type said struct {
	mu   sync.Mutex // guards text
	text []byte
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, b...)
	return len(b), nil
}

// count returns how often they said something.
func (s *said) count(something string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Count(s.text, []byte(something))
}

func (s *said) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.text)
}

// line returns the rest of the first whole line that has a mark, from a place on; empty when
// there is none yet.
func (s *said) line(from int, mark string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, rest, _ := bytes.Cut(s.text[from:], []byte(mark))
	line, _, ended := bytes.Cut(rest, []byte("\n"))
	if !ended {
		return ""
	}
	return string(line)
}

func (s *said) tail() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.text[max(0, len(s.text)-4000):])
}

// kill is kill -9.
func (n *node) kill() {
	_ = n.cmd.Process.Kill()
	<-n.dead
	n.cmd = nil
}

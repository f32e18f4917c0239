package deploy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/aptixhq/aptix/internal/natstest"
	"github.com/aptixhq/aptix/internal/pgtest"
)

var databases pgtest.Cluster

func TestMain(m *testing.M) { os.Exit(databases.Around(m).Run()) }

// within bounds each wait for a node; it is far more than any of them takes.
const within = 60 * time.Second

// TestNodesStart starts the nodes of both files with the command and the variables that they
// have there, beside a database and a NATS server of the test's own: they come up, serve what
// their proxy sends them, write nothing beside the database, and stop when they are told to.
func TestNodesStart(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "aptix")
	if out, err := exec.Command("go", "build", "-o", binary, "../cmd/aptix").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, nodes := range map[string][]node{"compose": composeNodes(t), "chart": {chartNode(t)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outside := outside{database: databases.URL(t), nats: natstest.Start(t).URL()}
			for _, n := range nodes {
				n.run(t, binary, outside)
			}
		})
	}
}

// node is how a file starts one.
type node struct {
	command []string
	env     map[string]string
}

// outside is what a node works with.
type outside struct{ database, nats string }

func composeNodes(t *testing.T) []node {
	t.Helper()
	var c compose
	if err := yaml.Unmarshal([]byte(read(t, "compose.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	var nodes []node
	for _, name := range []string{"node-1", "node-2", "node-3"} {
		nodes = append(nodes, node{c.Services[name].Command, c.Services[name].Environment})
	}
	return nodes
}

func chartNode(t *testing.T) node {
	t.Helper()
	container := at(t, render(t, func(map[string]any) {})["Deployment"], "spec.template.spec.containers.0")
	n := node{env: map[string]string{}}
	for _, a := range at(t, container, "args").([]any) {
		n.command = append(n.command, a.(string))
	}
	for _, e := range at(t, container, "env").([]any) {
		value, _ := at(t, e, "value").(string)
		n.env[at(t, e, "name").(string)] = value
	}
	return n
}

// variables are those of the node, with the test's servers and a free port in their places.
func (n node) variables(t *testing.T, o outside) []string {
	t.Helper()
	var out []string
	for name, value := range n.env {
		switch name {
		case "APTIX_LISTEN":
			host, _, err := net.SplitHostPort(value)
			if err != nil {
				t.Fatal(err)
			}
			value = net.JoinHostPort(host, "0")
		case "APTIX_DATABASE":
			value = o.database
		case "APTIX_DATABASE_FILE":
			value = filepath.Join(t.TempDir(), "database")
			if err := os.WriteFile(value, []byte(o.database), 0o600); err != nil {
				t.Fatal(err)
			}
		case "APTIX_NATS":
			value = o.nats
		case "OPENAI_API_KEY":
			value = "" // as it is without the variable
		}
		out = append(out, name+"="+value)
	}
	return out
}

func (n node) run(t *testing.T, binary string, o outside) {
	t.Helper()
	cmd := exec.Command(binary, n.command...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(n.variables(t, o), "TMPDIR="+filepath.Join(cmd.Dir, "none"))
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(within, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	defer func() { _ = cmd.Process.Kill() }()
	url, said := "", ""
	for lines := bufio.NewScanner(stderr); url == "" && lines.Scan(); {
		said += lines.Text() + "\n"
		_, url, _ = strings.Cut(lines.Text(), "Aptix is ready at ")
	}
	if url == "" {
		t.Fatalf("it does not start:\n%s", said)
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, stderr)
	}()
	for _, request := range []struct{ method, path, body string }{
		{"GET", "/readyz", ""}, {"GET", "/", ""}, {"GET", "/v1/sessions", ""}, {"POST", "/v1/agent/execute", fmt.Sprintf(`{"sessionId":"s","turnId":"t%d","instruction":"hello"}`, cmd.Process.Pid)},
	} {
		if got := send(t, request.method, url+request.path, request.body); got != http.StatusOK {
			t.Errorf("%s %s: %d", request.method, request.path, got)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-drained
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if left, err := os.ReadDir(cmd.Dir); err != nil || len(left) != 0 {
		t.Errorf("it has written %v (error %v), where the container is read-only", left, err)
	}
}

// send sends a request as the proxies do.
func send(t *testing.T, method, url, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "127.0.0.1"
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	client := http.Client{Timeout: within, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

package streams

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/server"
)

// doors are the two ways to start a streaming turn.
var doors = map[string]struct{ path, body, end string }{
	"first door":  {"/v1/agent/execute", execute, "event: turn.completed"},
	"second door": {"/v1/responses", `{"model":"default","input":"Tell.","stream":true}`, "event: response.completed"},
}

// start opens a stream and reads it up to a text.
func (r *rig) start(t *testing.T, path, body, until string) (*bufio.Reader, string) {
	t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(r.request(t, "POST", path, body, "Idempotency-Key", "k"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	lines := bufio.NewReader(resp.Body)
	return lines, readLines(t, lines, until)
}

func readLines(t *testing.T, lines *bufio.Reader, until string) string {
	t.Helper()
	var got strings.Builder
	for !strings.Contains(got.String(), until) {
		line, err := lines.ReadString('\n')
		got.WriteString(line)
		if err != nil {
			t.Fatalf("%v before %q came:\n%s", err, until, &got)
		}
	}
	return got.String()
}

// While the model is silent the stream is not, and goes on afterwards.
func TestEnd_SilenceHasHeartbeats(t *testing.T) {
	for name, door := range doors {
		t.Run(name, func(t *testing.T) {
			gate := make(chan struct{})
			r := newRig(t, options{server: server.Config{Heartbeat: 50 * time.Millisecond}},
				llmtest.Reply{Deltas: []string{"One ", "two."}, Block: gate, BlockAfter: 5})
			lines, _ := r.start(t, door.path, door.body, "One ")
			for range 3 {
				readLines(t, lines, ": still here\n")
			}
			close(gate)
			readLines(t, lines, door.end)
			http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		})
	}
}

// A server that stops under a turn cuts its streams, so that nobody takes them for whole;
// the next start goes on with the turn, and whoever comes back finds the end.
func TestEnd_StoppedServerCutsAndTheNextGoesOn(t *testing.T) {
	for name, door := range doors {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "aptix.db")
			r := newRig(t, options{path: path}, llmtest.Reply{Deltas: []string{"One ", "two."}, Block: make(chan struct{}), BlockAfter: 5})
			lines, seen := r.start(t, door.path, door.body, "One ")
			at := time.Now()
			stopped, cancel := context.WithCancel(t.Context())
			cancel() // it does not wait for the turn
			if err := r.pipeline.Drain(stopped); err != nil {
				t.Fatal(err)
			}
			rest, err := io.ReadAll(lines)
			if !errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(string(rest), door.end) {
				t.Errorf("the stream ends with %v after\n%s%s", err, seen, rest)
			}
			r.stop()
			http.DefaultTransport.(*http.Transport).CloseIdleConnections()

			next := newRig(t, options{path: path}, llmtest.Reply{Deltas: []string{"One ", "two."}})
			whole, _ := next.read(t, next.request(t, "POST", door.path, door.body, "Idempotency-Key", "k"), -1)
			if !strings.Contains(whole, door.end) {
				t.Errorf("%s later, after the next start, the stream is\n%s", time.Since(at), whole)
			}
			next.stop()
		})
	}
}

package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestAsk_CtrlCCancelsTheTurn stops a command while its turn runs.
func TestAsk_CtrlCCancelsTheTurn(t *testing.T) {
	running, cancelled := make(chan struct{}), make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/cancel") {
			cancelled <- r.URL.Path
			_, _ = w.Write([]byte(`{}`))
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // the server hears of a client that leaves only after that
		close(running)
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	cmd := exec.CommandContext(t.Context(), "aptix", "ask", "--session", "s1", "hello")
	cmd.Env = append(os.Environ(), "APTIX_URL="+s.URL)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-running
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	exit := (*exec.ExitError)(nil)
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Errorf("ended with %v, want %d", err, exitInterrupted)
	}
	select {
	case path := <-cancelled:
		if !strings.HasPrefix(path, "/v1/sessions/s1/turns/") {
			t.Errorf("cancelled %s", path)
		}
	default:
		t.Error("the turn was not cancelled")
	}
}

package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/config"
)

// process is a server that runs within the test.
type process struct {
	url     string
	signals chan os.Signal
	ended   chan error
}

// start runs serve over a data folder, with a provider.
func start(t *testing.T, data, provider string) *process {
	t.Helper()
	return startWith(t, map[string]string{"data": data, "provider": "openai"}, map[string]string{"OPENAI_BASE_URL": provider + "/v1"})
}

// startDemo runs serve over a new data folder, with the demo model and an environment.
func startDemo(t *testing.T, env map[string]string) *process {
	t.Helper()
	p := startWith(t, map[string]string{"data": filepath.Join(t.TempDir(), "data"), "provider": "demo"}, env)
	t.Cleanup(func() {
		p.signals <- os.Interrupt
		if err := <-p.ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return p
}

func startWith(t *testing.T, flags, env map[string]string) *process {
	t.Helper()
	flags["listen"] = "127.0.0.1:0"
	cfg, err := config.Load(config.Options{Flags: flags, LookupEnv: func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}})
	if err != nil {
		t.Fatal(err)
	}
	r := &process{signals: make(chan os.Signal, 2), ended: make(chan error, 1)}
	said := &banners{url: make(chan string, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { r.ended <- serve(ctx, cfg, said, r.signals) }()
	t.Cleanup(cancel)
	select {
	case r.url = <-said.url:
	case err := <-r.ended:
		t.Fatalf("the server did not start: %v", err)
	}
	return r
}

// banners finds the address in what a server says.
type banners struct{ url chan string }

func (b *banners) Write(p []byte) (int, error) {
	if _, rest, ok := strings.Cut(string(p), "Aptix is ready at "); ok {
		url, _, _ := strings.Cut(rest, "\n")
		b.url <- url
	}
	return len(p), nil
}

// TestServe_SecondSignalStopsAtOnce stops a server twice while the provider keeps a turn
// waiting. The turn is not lost: the next server takes it up.
func TestServe_SecondSignalStopsAtOnce(t *testing.T) {
	asked, answer := make(chan struct{}, 10), make(chan struct{})
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		select {
		case <-answer:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"resp_1","object":"response","status":"completed","output":[{"type":"message","id":"msg_1","role":"assistant",
				"status":"completed","content":[{"type":"output_text","text":"After all.","annotations":[]}]}],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}`)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(provider.Close)
	data := filepath.Join(t.TempDir(), "data")

	first := start(t, data, provider.URL)
	c, err := client.New(client.Config{URL: first.url, Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := c.Execute(context.Background(), client.UserTurn{SessionID: "s", TurnID: "t", Instruction: "hello"})
		done <- err
	}()
	<-asked
	first.signals <- os.Interrupt
	first.signals <- os.Interrupt
	if err := <-first.ended; !errors.Is(err, errInterrupted) {
		t.Errorf("ended with %v", err)
	}
	if err := <-done; err == nil {
		t.Error("the turn has an answer that nobody gave")
	}

	close(answer)
	second := start(t, data, provider.URL)
	if c, err = client.New(client.Config{URL: second.url}); err != nil {
		t.Fatal(err)
	}
	var last client.Event
	for e, err := range c.Events(t.Context(), "s", "t", 0) {
		if err != nil {
			t.Fatal(err)
		}
		last = e
	}
	if last.Type != client.EventTurnCompleted || last.Response.PrimaryOutputText != "After all." {
		t.Errorf("the turn ended with %+v", last)
	}
	// One signal is enough when nothing runs.
	second.signals <- os.Interrupt
	if err := <-second.ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

// TestServe_RunningTurnsFinish stops a server once while a turn runs.
func TestServe_RunningTurnsFinish(t *testing.T) {
	asked, answer := make(chan struct{}, 10), make(chan struct{})
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		<-answer
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"resp_1","object":"response","status":"completed","output":[{"type":"message","id":"msg_1","role":"assistant",
			"status":"completed","content":[{"type":"output_text","text":"In time.","annotations":[]}]}],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}`)
	}))
	t.Cleanup(provider.Close)
	r := start(t, filepath.Join(t.TempDir(), "data"), provider.URL)
	c, err := client.New(client.Config{URL: r.url, Attempts: 1, Backoff: func(int) time.Duration { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		a, err := c.Execute(context.Background(), client.UserTurn{SessionID: "s", TurnID: "t", Instruction: "hello"})
		if err != nil {
			got <- err.Error()
			return
		}
		got <- a.PrimaryOutputText
	}()
	<-asked
	r.signals <- os.Interrupt
	for c.Ready(t.Context()) == nil {
		// until the signal has arrived
	}
	if _, err := c.Execute(t.Context(), client.UserTurn{SessionID: "other", Instruction: "hello"}); client.CodeOf(err) != client.CodeDraining {
		t.Errorf("a new turn: %v", err)
	}
	close(answer)
	if text := <-got; text != "In time." {
		t.Errorf("the running turn got %q", text)
	}
	if err := <-r.ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}
